"""How uncommon words are in English at large, and what that tells in a small memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import Memory
from plait.ranking.relevance import relevance
from plait.searching import evidence
from plait.searching.uncommon import (
    MOST_UNCOMMON,
    NAME,
    RAREST,
    SHARES,
    SHOWN_IN_PASSAGE,
    is_english,
    rarity_at_large,
    uncommon,
)
from plait.text.english import shows_english, without_comparison
from plait.types.queries import Chance

SAMPLE = Path(__file__).parents[2] / "examples" / "memory"
STEMS = st.lists(st.sampled_from(["home", "boiler", "kraus", "want", "47", "line", "zzyzx"]))
# Of a flat, a family and a small company.
NOTES = (
    "The boiler is serviced every October by Krause, 07531 555 012.",
    "Fuse box: the third fuse from the left is the kitchen.",
    "The main water valve is behind the panel under the stairs.",
    "On Monday we called the customer; they want SAML before the end of the year.",
    "Blood group 0 negative. The last tetanus shot was in 2021.",
    "The garage in Moor Street changed the tyres, 240 euros in all.",
    "Grandma puts as much onion as beef into the goulash.",
    "The backup runs at night and is copied to the office on Sundays.",
    "We moved the launch to March because the import was not ready.",
    "The bread bakes for 25 minutes with the lid on and 20 without it.",
    "Mara reads The Dispossessed; she likes it more than the film.",
    "The vegetables need water in the morning, the roses in the evening.",
)


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory.open(":memory:", project="") as memory:
        memory.ingest(SAMPLE)
        for note in NOTES:
            memory.store(note)
        yield memory


def test_every_stem_of_the_file_has_the_number_of_its_line() -> None:
    lines = [line.split() for line in Path(SHARES).read_text(encoding="ascii").splitlines()]
    numbers = [float(number) for number, *_ in lines]
    assert numbers == sorted(set(numbers))
    assert all(0.0 <= number < RAREST for number in numbers)
    stems = [stem for _, *listed in lines for stem in listed]
    assert len(stems) == len(set(stems)) > 10_000
    for number, *listed in lines:
        plain = [stem for stem in listed if without_comparison(stem) == stem]
        assert {*map(rarity_at_large, plain[:: len(plain) // 40 + 1])} <= {float(number)}


@pytest.mark.parametrize(("common", "rarer"), [("want", "home"), ("home", "kitchen")])
def test_common_words_are_more_common_than_others(common: str, rarer: str) -> None:
    assert rarity_at_large(common) < rarity_at_large(rarer) < RAREST


@pytest.mark.parametrize("word", ["autotitl", "fadil", "zeroclaw", "medlineplu", "kraus"])
def test_names_of_what_was_counted_are_not_taken_for_common_words(word: str) -> None:
    assert rarity_at_large(word) == RAREST


def test_a_word_that_nobody_counted_is_as_rare_as_any() -> None:
    assert rarity_at_large("zzyzx") == RAREST


SHARE = st.floats(0.0, 1.0)


@given(STEMS, STEMS, SHARE, SHARE, st.integers(1, 30_000))
def test_more_of_the_question_never_counts_against_a_passage(
    words: list[str], more: list[str], told: float, and_more: float, size: int
) -> None:
    best = max(told, and_more)
    value = uncommon(words + more, best, size)
    assert uncommon(words, told, size) <= value <= MOST_UNCOMMON


@given(STEMS, st.integers(1, 10_000))
def test_the_larger_a_memory_the_less_a_word_tells(words: list[str], size: int) -> None:
    assert 0.0 <= uncommon(words, 1.0, 3 * size) <= uncommon(words, 1.0, size)


@pytest.mark.parametrize("passages", [50, 2_000, 29_999])
def test_an_uncommon_word_speaks_for_a_passage_and_a_common_one_against_it(passages: int) -> None:
    chance = Chance(0.2, 0.05, passages)
    common, unknown, rare = (
        relevance(0.3, 12.0, 0.2, chance, sentence=0.3, uncommon=value) for value in (-1.0, 0.0, 4)
    )
    assert common < unknown < rare


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("The valve is behind the panel that you see", True),
        ("Wo ist der Haupthahn, und wie drehe ich ihn zu?", False),
        ("la válvula está en el sótano, no me digas", False),
        ("La unidad didáctica sobre el agua", False),  # "did" is no word of it
        ("Der Drucker im Büro meldet: could not connect.", False),
        ("", False),
    ],
)
def test_a_text_shows_by_its_little_words_whether_it_is_english(text: str, shown: bool) -> None:
    assert shows_english(text, SHOWN_IN_PASSAGE) == shown


@pytest.mark.parametrize(
    ("question", "english"),
    [
        ("where is the valve", True),
        ("blood type", True),
        ("children school photo day", True),
        ("factura agua piscina verano", False),
        ("Büro Miete Kündigung", False),
        ("Rechnung Drucker Garantie", False),
    ],
)
def test_a_few_words_are_english_if_most_of_them_are(question: str, english: bool) -> None:
    with Memory.open(":memory:", embedder="none", project="") as memory:
        terms = memory.engine.vocabulary(question.lower().split()).terms
    stems = [term for listed in terms.values() for _, _, term in listed]
    assert is_english(question, stems, ["This is what the memory has."]) == english
    assert not is_english(question, stems, ["Das hat dieses Gedächtnis."]) or "where" in question


@pytest.mark.parametrize("name", ["John", "Mary", "Tom", "Boston", "Ziri", "Krause"])
def test_who_is_named_is_found_however_common_the_name(name: str) -> None:
    with Memory.open(":memory:", project="") as memory:
        memory.ingest(SAMPLE)
        memory.store(f"The plumber who mended the kitchen tap is {name}, 0171 555 332.")
        recalled = memory.recall(f"telephone number of {name}")
        assert [name in item.hit.text for item in recalled.items][:1] == [True]


def test_a_name_counts_wherever_it_is_rare_in_english_or_not() -> None:
    assert rarity_at_large("john") < NAME < rarity_at_large("kraus")
    assert uncommon(["john"], 1.0, 150, frozenset(["john"])) > uncommon(["john"], 1.0, 150)


@pytest.mark.parametrize("words", ["hoping hope bread oven", "dancing dance school", "wife wives"])
def test_the_order_of_the_words_and_their_forms_change_nothing(words: str) -> None:
    with Memory.open(":memory:", project="") as memory:
        memory.ingest(SAMPLE)
        memory.store("We hope that the bread in the oven is for the wife of the dance teacher.")
        there, back = (
            memory.search(" ".join(order))[0].relevance
            for order in (words.split(), words.split()[::-1])
        )
    assert there == pytest.approx(back)


@pytest.mark.parametrize("note", ["Family dinner: Sunday 19h, {} hall.", "{} hall on Sunday."])
def test_a_function_word_in_a_note_does_not_count_against_it(note: str) -> None:
    told = []
    for place in ("school", "the school"):
        with Memory.open(":memory:", project="") as memory:
            memory.ingest(SAMPLE)
            memory.store(note.format(place))
            hits = memory.search("children school photo day")
            told.append(next(hit.relevance for hit in hits if "hall" in hit.text))
    assert told[1] == pytest.approx(told[0], abs=0.05)


@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("telephone number of Krause", 0),
        ("how do I reach Krause", 0),
        ("customer that threatens to leave unless we offer SAML", 3),
        ("which book about an anarchist society does Mara like", 10),
        ("when did I have that tetanus vaccination", 4),
    ],
)
def test_a_small_memory_recalls_by_a_word_that_few_texts_have(
    memory: Memory, question: str, note: int
) -> None:
    recalled = memory.recall(question)
    assert [item.hit.text for item in recalled.items][:1] == [NOTES[note]]


@pytest.mark.parametrize(
    "question",
    [
        "who won the football match on Sunday",
        "what is the name of my dog",
        "how do I configure an ingress in the cluster",
        "does the train to Lyon stop in the morning",
        "why do we want a new logo before March",
    ],
)
def test_a_small_memory_stays_silent_where_only_common_words_are_shared(
    memory: Memory, question: str
) -> None:
    assert memory.recall(question).items == ()


def test_in_a_large_memory_its_own_counts_tell(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_english = memory.search("telephone number of Krause")[0].relevance
    monkeypatch.setattr(evidence, "KNOWS_ALL_WORDS", len(NOTES))
    assert memory.search("telephone number of Krause")[0].relevance < with_english


@pytest.mark.parametrize(
    ("notes", "questions"),
    [
        (
            ("Die Heizung wird im Oktober gewartet.", "Der Zahnarzt hat frei."),
            ("Wann ist die Heizung kaputt gegangen?", "Heizung Badezimmer Ventil"),
        ),
        (
            ("La unidad didáctica sobre el agua es para mayo.", "La piscina abre en junio."),
            ("factura agua piscina verano", "precio botella agua mineral"),
        ),
        (
            ("Der Drucker im Büro meldet: could not connect.", "Die Miete steigt."),
            ("Büro Miete Kündigung", "Rechnung Drucker Garantie Händler"),
        ),
    ],
)
def test_words_of_other_languages_are_not_taken_for_rare_english_ones(
    notes: tuple[str, ...], questions: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[float]:
        with Memory.open(":memory:", project="") as memory:
            for note in notes:
                memory.store(note)
            return [memory.search(question)[0].relevance for question in questions]

    with_english = told()
    monkeypatch.setattr(evidence, "KNOWS_ALL_WORDS", 0)
    assert told() == with_english
