"""Short questions with common words: a word and another one are ranked in turn, as by one match."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.stores.sqlite import anchoring, keyword, paired
from plait.stores.sqlite.store import SQLiteStore
from plait.text import parse
from plait.types import Filter
from tests.builders import entry, write

VOCABULARY = [f"w{number}x" for number in range(30)]
MANY = 10**9


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SQLiteStore]:
    """A memory that counts as large, with words of which each is in fewer passages."""
    path: Path = tmp_path_factory.mktemp("paired") / "memory.db"
    store = SQLiteStore(str(path), durability="normal")
    store.keywords.passages, store.keywords.matches, store.keywords.alone = 20, 10, 60
    store.keywords.many = 40
    chosen = random.Random(1)
    weights = [1 / (1 + number) for number in range(len(VOCABULARY))]
    for first in range(0, 600, 100):
        texts = [" ".join(chosen.choices(VOCABULARY, weights, k=4 + n % 9)) for n in range(100)]
        tags = [("odd",) if n % 2 else () for n in range(100)]
        rows = zip(range(first, first + 100), texts, tags, strict=True)
        write(store, *[entry(f"{n:03}", text, tags=tag) for n, text, tag in rows])
    yield store
    store.close()


@pytest.fixture
def ranked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many passages each question got from here."""
    sizes: list[int] = []
    best = paired.best

    def counted(*parts: Any) -> Any:
        hits = best(*parts)
        sizes.append(len(hits))
        return hits

    monkeypatch.setattr(paired, "best", counted)
    return sizes


def questions(number: int) -> list[str]:
    chosen = random.Random(2)
    return [" ".join(chosen.sample(VOCABULARY, chosen.choice((2, 3, 4)))) for _ in range(number)]


def by_one_match(store: SQLiteStore, question: str, limit: int, where: Filter) -> Any:
    many, store.keywords.many = store.keywords.many, MANY
    try:
        return store.keyword(parse(question), limit, where)
    finally:
        store.keywords.many = many


@pytest.mark.parametrize("where", [Filter(), Filter(tags=("odd",))])
def test_they_are_ranked_with_the_same_scores_as_by_one_match(
    store: SQLiteStore, ranked: list[int], where: Filter
) -> None:
    store.selections.listed = store.selections.short = 0  # each passage is tested
    for question in questions(60):
        hits = store.keyword(parse(question), 5, where)
        plain = by_one_match(store, question, 5, where)
        assert [ref for ref, _ in hits] == [ref for ref, _ in plain], question
        assert [score for _, score in hits] == pytest.approx([score for _, score in plain])
    assert len(ranked) > 40
    assert ranked.count(5) > 40


@pytest.mark.parametrize("question", ["w9x w20x", "w11x w14x", "w9x w15x w29x"])
def test_where_too_few_have_two_words_all_with_one_are_ranked(
    store: SQLiteStore, ranked: list[int], monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    monkeypatch.setattr(paired, "ENOUGH", 150)
    hits = store.keyword(parse(question), 200, Filter())
    assert hits == by_one_match(store, question, 200, Filter())
    assert len(ranked) == 1


@pytest.mark.parametrize(("most", "others"), [(1, "newest"), (80, "rarer"), (500, "all")])
def test_where_enough_have_two_words_others_follow_them_as_many_as_take_a_moment(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, most: int, others: str
) -> None:
    monkeypatch.setattr(paired, "ENOUGH", 1)
    monkeypatch.setattr(paired, "NEWEST_RANKED", 7)
    monkeypatch.setattr(keyword, "MANY_MATCHES", most)
    plain = dict(by_one_match(store, "w9x w11x", 600, Filter()))
    both, rarer, either = (
        {ref for ref, _ in store.keyword(parse(question), 600, Filter())}
        for question in ("w9x AND w11x", "w11x", "w9x OR w11x")
    )
    hits = store.keyword(parse("w9x w11x"), 600, Filter())
    assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)
    assert {ref: plain[ref] for ref in both} == {ref: score for ref, score in hits if ref in both}
    newest = both | set(sorted(either)[-7:])
    assert {ref for ref, _ in hits} == {"newest": newest, "rarer": rarer, "all": either}[others]


@pytest.mark.parametrize(
    "question",
    ["w0x", "w0x w1x-w2x", "w0x w1x w2x w3x w4x w5x", "w0x AND w1x", '"w0x w1x" w2x', "w0x absent"],
)
def test_other_questions_are_ranked_as_before(
    store: SQLiteStore, ranked: list[int], question: str
) -> None:
    assert store.keyword(parse(question), 5, Filter()) == by_one_match(store, question, 5, Filter())
    assert ranked == []


def test_two_words_with_one_stem_are_no_pair_that_selects_whatever_has_it(
    store: SQLiteStore, ranked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    selecting: list[str | None] = []
    anchors = anchoring.anchors

    def kept(*parts: Any) -> str | None:
        selecting.append(anchors(*parts))
        return selecting[-1]

    monkeypatch.setattr(anchoring, "anchors", kept)
    hits = store.keyword(parse("w9x w9xs w11x"), 5, Filter())
    assert selecting == ['("w11x" AND "w9x")']
    assert ranked == []
    # Each is ranked by all words, the two with one stem as well.
    store.keywords.planner = "never"
    plain = dict(store.keyword(parse("w9x w9xs w11x"), 600, Filter()))
    store.keywords.planner = "auto"
    assert hits == [(ref, plain[ref]) for ref, _ in hits]
