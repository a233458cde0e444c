"""Keyword search among a few passages: words count by their rarity among them."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.stores.sqlite import narrow, searching
from plait.stores.sqlite.store import SQLiteStore
from plait.text import parse
from plait.types import Filter, Query
from tests.builders import SPACE, entry, vector

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
    opened.put([entry(f"talk/{number}", text) for number, text in enumerate(TURNS)])
    # Elsewhere nobody is called Caroline, and everybody goes to a pottery class.
    others = [f"pottery class number {number}" for number in range(40)]
    opened.put([entry(f"other/{number}", text) for number, text in enumerate(others)])
    opened.put([entry(f"more/{number}", f"stock report {number}") for number in range(60)])
    yield opened
    opened.close()


def found(store: SQLiteStore, words: str, where: Filter, limit: int = 10) -> list[str]:
    refs = [ref for ref, _ in store.keyword(parse(words), limit, where)]
    rows = store.passages(refs)
    return [rows[ref][1].doc_id for ref in refs]


def test_a_name_that_stands_everywhere_in_a_conversation_tells_little_there(
    store: SQLiteStore,
) -> None:
    question = "which pottery class did Caroline like"
    assert found(store, question, TALK)[0] == "talk/1"
    assert found(store, "Caroline", Filter(), limit=1) == ["talk/0"]


@pytest.mark.parametrize("words", ["pottery OR caroline", '"pottery class"', "carol*"])
def test_operators_hold_among_a_few_passages_too(store: SQLiteStore, words: str) -> None:
    assert found(store, words, TALK)
    assert all(key.startswith("talk/") for key in found(store, words, TALK))


def test_a_long_question_is_ranked_as_everywhere_else(store: SQLiteStore) -> None:
    filler = " ".join(f"word{number}" for number in range(narrow.MOST_WORDS))
    assert "talk/1" in found(store, f"{filler} pottery class", TALK)


def test_passages_that_do_not_lie_together_are_found_too(store: SQLiteStore) -> None:
    where = Filter(keys=("talk/1", "other/3", "talk/4"))
    assert set(found(store, "caroline pottery", where)) == {"talk/1", "other/3", "talk/4"}
    assert found(store, "caroline", where, limit=1) == ["talk/4"], "the shorter of two"


def test_a_filter_that_lets_everything_through_changes_no_score(store: SQLiteStore) -> None:
    query = parse("caroline pottery report")
    free = dict(store.keyword(query, 200, Filter(trusts=())))
    listed = dict(store.keyword(query, 200, Filter(trusts=(), until=2**50)))
    assert free.keys() == listed.keys()
    assert list(free.values()) == pytest.approx([listed[ref] for ref in free], rel=1e-9)


@pytest.mark.parametrize("words", ["水温 caroline", "naïve café", "c++ talk/1"])
def test_words_of_any_script_can_be_asked_for(store: SQLiteStore, words: str) -> None:
    store.put([entry("talk/9", "Caroline: 水温 is 20 degrees in the naïve café, c++")])
    assert "talk/9" in found(store, words, TALK)


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
    ("words", "passages", "suits"),
    [
        (1, 1, True),
        (narrow.MOST_WORDS, narrow.MOST_PASSAGES, True),
        (narrow.MOST_WORDS + 1, 10, False),
        (3, narrow.MOST_PASSAGES + 1, False),
        (3, 0, False),
    ],
)
def test_only_short_questions_among_few_passages_are_weighed_anew(
    words: int, passages: int, suits: bool
) -> None:
    assert narrow.suits(["word"] * words, range(passages)) is suits


def test_a_word_that_the_index_reads_as_several_is_ranked_as_a_phrase(store: SQLiteStore) -> None:
    [(ref, _)] = store.keyword(Query("", ("pottery class",)), 10, TALK)
    assert store.passages([ref])[ref][1].doc_id == "talk/1"


@pytest.mark.parametrize("planner", ["never", "always"])
def test_a_filter_too_wide_to_list_lets_the_same_passages_through(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, planner: searching.Planner
) -> None:
    where = Filter(key_prefix="other/")
    listed = {ref for ref, _ in store.keyword(parse("pottery class caroline"), 100, where)}
    free = dict(store.keyword(parse("pottery class caroline"), 100, Filter()))
    monkeypatch.setattr(narrow, "MOST_PASSAGES", 3)
    monkeypatch.setattr(searching, "FEW", 3)
    store.put([entry("new", "nothing of the kind")])  # What a filter lets through is remembered.
    store.planner = planner
    wide = dict(store.keyword(parse("pottery class caroline"), 100, where))
    assert wide.keys() == listed
    assert wide == pytest.approx({ref: free[ref] for ref in wide}, rel=0.05)
    assert len(store.keyword(parse("pottery class caroline"), 5, where)) == 5


@pytest.mark.parametrize("listed", [1, 1_000])
def test_vectors_too_are_narrowed_whether_or_not_the_filter_was_listed(
    monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    monkeypatch.setattr(narrow, "MOST_PASSAGES", listed)
    monkeypatch.setattr(searching, "FEW", 1)
    store = SQLiteStore(":memory:")
    store.put([entry(f"far/{n}", "x", vectors=[vector(1, 0, 0, 0.01 * n)]) for n in range(60)])
    store.put([entry(f"few/{n}", "x", vectors=[vector(0.1, 1, 0, n)]) for n in range(4)])
    store.swap(SPACE)
    found = store.vector(vector(1, 0, 0, 0), SPACE, 2, Filter(key_prefix="few/"))
    rows = store.passages([ref for ref, _ in found])
    assert [rows[ref][1].doc_id for ref, _ in found] == ["few/0", "few/1"]
    store.close()
