"""Late interaction: how well the best sentence of a text meets a query, piece by piece."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.embedders import builtin
from plait.embedders.builtin import Builtin
from plait.testing import HashingEmbedder
from plait.text.english import empty_words

NOTES = (
    "Deploys run on Friday. The keys of the server are rotated every quarter.",
    "The keys of the piano are white. A quarter of them is broken. Rotate the stool.",
    "Lunch is at noon.",
)
VOCABULARY = "rotate keys server piano lunch noon the of quarter überall ключи 鍵 deploys"
WORDS = st.lists(st.sampled_from(VOCABULARY.split()), max_size=12).map(" ".join)
WRAPPED = "a line of prose that is wrapped where the editor wraps all lines\nand goes on here"


@pytest.fixture(scope="module")
def model() -> Builtin:
    return Builtin()


def met(model: Builtin, query: str, *texts: str) -> list[float]:
    scores = model.interact(query, texts)
    assert scores is not None
    return scores


def cosine(left: bytes, right: bytes) -> float:
    one, other = memoryview(left).cast("b"), memoryview(right).cast("b")
    dot = sum(map(int.__mul__, one, other))
    return dot / (math.hypot(*one) * math.hypot(*other))


def by_hand(model: Builtin, query: str, sentence: str) -> float:
    """The definition, for one sentence of plain words."""
    file = model._file
    asked = [word for word in dict.fromkeys(query.lower().split()) if word not in empty_words()]
    said = [word for word in sentence.lower().split() if word not in empty_words()]
    wanted = [number for word in asked for number in file.pieces(word)]
    known = [number for word in said for number in file.pieces(word)]
    total = sum(file.weight(number) for number in wanted)
    return (
        sum(
            file.weight(number) * max(cosine(file.row(number), file.row(other)) for other in known)
            for number in wanted
        )
        / total
    )


def test_the_score_of_a_sentence_is_that_of_the_nearest_piece_for_each_piece(
    model: Builtin,
) -> None:
    query, sentence = "rotate the ssh credentials", "change passwords of the server quarterly"
    assert met(model, query, sentence) == pytest.approx([by_hand(model, query, sentence)], abs=1e-3)


def test_the_best_sentence_counts_not_words_of_several(model: Builtin) -> None:
    together, apart, neither = met(model, "rotate the keys every quarter", *NOTES)
    assert together > apart > neither
    alone = met(model, "rotate the keys every quarter", NOTES[0].split(". ")[1])
    assert [together] == pytest.approx(alone)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One two. Three? Four!", [["one", "two"], ["three"], ["four"]]),
        ("version 3.5 of example.com", [["version", "3", "5", "of", "example", "com"]]),
        ("def add(a):\n    return a", [["def", "add", "a"], ["return", "a"]]),
        ("- one\n- Two", [["one"], ["two"]]),
        (WRAPPED, [WRAPPED.split()]),
        ("Ключи лежат. Где?", [["ключи", "лежат"], ["где"]]),
        ("鍵はどこ。机の上。", [["鍵", "はとこ"], ["机", "の", "上"], []]),
        ("café – naïve", [["café", "naïve"]]),
        ("", []),
    ],
)
def test_texts_are_cut_into_sentences_lines_and_items(
    model: Builtin, text: str, sentences: list[list[str]]
) -> None:
    listed = model._file.sentences(text)
    if "鍵" in text:  # how kana are cut is the model's business
        assert [words[:1] for words in listed] == [words[:1] for words in sentences]
    else:
        assert listed == sentences


@given(WORDS, st.lists(WORDS, max_size=4))
def test_scores_are_shares_and_one_for_the_query_itself(query: str, texts: list[str]) -> None:
    model = _MODEL
    scores = model.interact(query, [*texts, query])
    if scores is None:
        said = set(f"{query} {' '.join(texts)}".split())
        assert not query or said <= empty_words()
        return
    assert len(scores) == len(texts) + 1
    assert all(0.0 <= score <= 1.0 + 1e-9 for score in scores)
    if set(query.split()) - empty_words():
        assert scores[-1] == pytest.approx(1.0, abs=1e-6)


@given(WORDS.filter(str.strip), WORDS, WORDS)
def test_one_more_sentence_never_lowers_the_score(query: str, one: str, more: str) -> None:
    scores = _MODEL.interact(query, [one, f"{one}. {more}"])
    assert scores is None or scores[1] >= scores[0] - 1e-9


_MODEL = Builtin()


def test_a_text_of_function_words_or_nothing_meets_nothing(model: Builtin) -> None:
    assert met(model, "rotate keys", "", "it is of the", "keys")[:2] == [0.0, 0.0]
    assert model.interact("", NOTES) is None
    assert model.interact("\U000f0000", NOTES) is None
    assert model.interact("rotate keys", ["", " "]) is None
    assert model.interact("rotate keys", []) is None


def test_a_query_of_function_words_counts_them(model: Builtin) -> None:
    assert len(met(model, "who is he", "Mara is the owner.")) == 1


def test_a_pasted_page_is_compared_by_its_heaviest_pieces(model: Builtin) -> None:
    page = " ".join(f"word{number}" for number in range(500)) + " photosynthesis"
    weights, rows = model._interacting(page)
    assert len(weights) == len(rows) == builtin.INTERACTING_PIECES
    assert weights == sorted(weights, reverse=True)


def test_threads_share_what_is_kept_even_when_it_is_dropped(
    model: Builtin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtin, "CACHED_PIECES", 3)
    monkeypatch.setattr(builtin, "CACHED_TEXTS", 2)
    expected = met(model, "rotate keys", *NOTES)
    with ThreadPoolExecutor(4) as pool:
        for scores in pool.map(lambda _: met(model, "rotate keys", *NOTES), range(40)):
            assert scores == expected


def test_a_process_keeps_only_so_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "CACHED_TEXTS", 2)
    model = Builtin()
    first = met(model, "rotate the keys", *NOTES)
    assert met(model, "rotate the keys", *NOTES) == first
    assert len(model._known_texts) <= 2


def test_other_embedders_have_one_vector_per_text() -> None:
    assert HashingEmbedder(64).interact("rotate keys", NOTES) is None


def test_the_hash_table_knows_every_piece_and_no_other(model: Builtin) -> None:
    read = Builtin()
    read._file.read_vocabulary()
    pieces = [piece.decode() for piece in read._file._numbers][::97]
    for word in (*pieces, "", "zzzzqqqq", "\ud800", "##", "a b"):
        assert model._file._number(word) == read._file._number(word)
        assert model._file.pieces(word) == read._file.pieces(word)


@pytest.mark.parametrize(
    "text",
    [
        "Ключи, №5; со\u00adгласие \u2014 ÉTÉ_1 x² и Йод\u0306",
        "\u039f\u0394\u039f\u03a3 \u03ba\u03b1\u03b9 \u0130stanbul \u0431",
        "\u0645\u0631\u062d\u0628\u064b\u0627 \u200bx \u4e2d\u6587 \u0e01\u0e33 \u0431",
    ],
)
def test_words_of_other_scripts_are_the_same_by_the_faster_pattern(
    model: Builtin, text: str
) -> None:
    for _ in range(2):  # the second time, all characters are known
        words = [word for word in model._file.words(text) if word[0].isalnum()]
        assert model._file.sentences(text) == [words]
