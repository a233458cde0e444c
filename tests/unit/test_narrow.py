"""Keyword search among a few passages: words count by how rare they are among them."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.protocols import Scored
from plait.stores import Planner
from plait.stores.sqlite import narrow
from plait.stores.sqlite.keyword import NARROWED_WORDS
from plait.stores.sqlite.store import SQLiteStore
from plait.text import parse
from plait.types import Filter
from plait.types.queries import Query
from tests.builders import SPACE, by_keyword, entry, keys_of, vector, write

TALK = Filter(key_prefix="talk/")
TURNS = [
    "Caroline: hello Caroline here, Caroline speaking",
    "Caroline: the pottery class was wonderful",
    "Caroline: see you",
    "Caroline: good night",
    "Caroline: so tired",
]


@pytest.fixture
def store() -> Iterator[SQLiteStore]:
    opened = SQLiteStore(":memory:")
    write(opened, *[entry(f"talk/{number}", text) for number, text in enumerate(TURNS)])
    # Elsewhere nobody is called Caroline, and everybody goes to a pottery class.
    others = [f"pottery class number {number}" for number in range(40)]
    write(opened, *[entry(f"other/{number}", text) for number, text in enumerate(others)])
    write(opened, *[entry(f"more/{number}", f"stock report {number}") for number in range(60)])
    yield opened
    opened.close()


def keys(store: SQLiteStore, words: str, where: Filter, limit: int = 10) -> list[str]:
    return by_keyword(store, words, limit, where)


def test_a_name_that_stands_everywhere_in_a_conversation_tells_little_there(
    store: SQLiteStore,
) -> None:
    question = "which pottery class did Caroline like"
    assert keys(store, question, TALK)[0] == "talk/1"
    assert keys(store, "Caroline", Filter(), limit=1) == ["talk/0"]


@pytest.mark.parametrize("words", ["pottery OR caroline", '"pottery class"', "carol*"])
def test_operators_hold_among_a_few_passages_too(store: SQLiteStore, words: str) -> None:
    assert keys(store, words, TALK)
    assert all(key.startswith("talk/") for key in keys(store, words, TALK))


def test_a_long_question_is_ranked_as_everywhere_else(store: SQLiteStore) -> None:
    filler = " ".join(f"word{number}" for number in range(NARROWED_WORDS))
    assert "talk/1" in keys(store, f"{filler} pottery class", TALK)


def test_passages_that_do_not_lie_together_are_found_too(store: SQLiteStore) -> None:
    where = Filter(keys=("talk/1", "other/3", "talk/4"))
    assert set(keys(store, "caroline pottery", where)) == {"talk/1", "other/3", "talk/4"}
    assert keys(store, "caroline", where, limit=1) == ["talk/4"], "the shorter of two"


def test_a_filter_that_lets_everything_through_changes_no_score(store: SQLiteStore) -> None:
    query = parse("caroline pottery report")
    free = dict(store.keyword(query, 200, Filter(trusts=())))
    listed = dict(store.keyword(query, 200, Filter(trusts=(), until=2**50)))
    assert free.keys() == listed.keys()
    assert list(free.values()) == pytest.approx([listed[ref] for ref in free], rel=1e-9)


@pytest.mark.parametrize("words", ["水温 caroline", "naïve café", "c++ talk/1"])
def test_words_of_any_script_can_be_asked_for(store: SQLiteStore, words: str) -> None:
    write(store, entry("talk/9", "Caroline: 水温 is 20 degrees in the naïve café, c++"))
    assert "talk/9" in keys(store, words, TALK)


@given(
    passages=st.integers(1, 10_000),
    holding=st.integers(0, 10_000),
    few=st.integers(1, 1_000),
    of_few=st.integers(0, 1_000),
)
def test_a_word_never_loses_its_weight_altogether_nor_outgrows_reason(
    passages: int, holding: int, few: int, of_few: int
) -> None:
    weight = narrow.reweighed(passages, holding, few, of_few)
    assert 1.0 - narrow.LOCAL_SHARE <= weight < 200.0


@given(passages=st.integers(1, 10_000), holding=st.integers(0, 10_000))
def test_a_word_as_rare_here_as_at_large_keeps_its_weight(passages: int, holding: int) -> None:
    assert narrow.reweighed(passages, holding, passages, holding) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("words", "listed", "narrowed"),
    [(1, 1_000, True), (NARROWED_WORDS, 5, True), (NARROWED_WORDS + 1, 5, False), (3, 4, False)],
)
def test_only_short_questions_among_few_passages_are_weighed_by_them(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, words: int, listed: int, narrowed: bool
) -> None:
    asked: list[int] = []

    def best(*values: Any) -> list[Scored]:
        asked.append(len(values[2]))
        return []

    monkeypatch.setattr(narrow, "best", best)
    store.selections.listed = listed
    query = Query("", tuple(f"word{number}" for number in range(words)))
    store.keyword(query, 10, TALK)
    assert asked == ([len(TURNS)] if narrowed else [])


def test_a_word_that_the_index_reads_as_several_is_ranked_as_a_phrase(store: SQLiteStore) -> None:
    [(ref, _)] = store.keyword(Query("", ("pottery class",)), 10, TALK)
    assert keys_of(store, [ref]) == ["talk/1"]


@pytest.mark.parametrize("planner", ["never", "always"])
def test_a_filter_too_wide_to_list_lets_the_same_passages_through(
    store: SQLiteStore, planner: Planner
) -> None:
    where = Filter(key_prefix="other/")
    listed = {ref for ref, _ in store.keyword(parse("pottery class caroline"), 100, where)}
    free = dict(store.keyword(parse("pottery class caroline"), 100, Filter()))
    store.selections.listed = store.selections.short = 3
    write(store, entry("new", "nothing of the kind"))  # what a filter selects is remembered
    store.keywords.planner = planner
    wide = dict(store.keyword(parse("pottery class caroline"), 100, where))
    assert wide.keys() == listed
    assert wide == pytest.approx({ref: free[ref] for ref in wide}, rel=0.05)
    assert len(store.keyword(parse("pottery class caroline"), 5, where)) == 5


@pytest.mark.parametrize("listed", [1, 1_000])
def test_vectors_are_narrowed_whether_or_not_the_filter_was_listed(listed: int) -> None:
    store = SQLiteStore(":memory:")
    store.selections.listed, store.selections.short = listed, 1
    rows = [entry(f"far/{n}", "x", vectors=[vector(1, 0, 0, 0.01 * n)]) for n in range(60)]
    rows += [entry(f"few/{n}", "x", vectors=[vector(0.1, 1, 0, n)]) for n in range(4)]
    write(store, *rows)
    nearest = store.vector(vector(1, 0, 0, 0), SPACE, 2, Filter(key_prefix="few/"))
    assert keys_of(store, [ref for ref, _ in nearest.hits]) == ["few/0", "few/1"]
    store.close()
