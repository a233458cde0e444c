"""Filters as SQL: conditions that are left out, selections that are remembered, other processes.

What each field means is tested for every engine in tests/contracts/test_filters.py.
"""

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.protocols import Entry
from plait.stores.sqlite import filters, mentioned
from plait.stores.sqlite.store import SQLiteStore
from plait.text import parse
from plait.types import Filter, Kind
from tests.builders import EVERYTHING, NOW, SPACE, delete, entry, keys_of, vector, write

X = vector(1, 0, 0, 0)
HOUR = 3_600_000


def by_keyword(store: SQLiteStore, where: Filter, limit: int = 100) -> list[str]:
    hits = store.keyword(parse("apple"), limit, where)
    return sorted(keys_of(store, [ref for ref, _ in hits]))


def by_vector(store: SQLiteStore, where: Filter, limit: int = 100) -> list[str]:
    hits = store.vector(X, SPACE, limit, where).hits
    return sorted(keys_of(store, [ref for ref, _ in hits]))


def by_scan(store: SQLiteStore, where: Filter, limit: int = 100) -> list[str]:
    return sorted(document.doc_id for document in store.scan(where, limit=limit))


def an_apple(key: str, **fields: Any) -> Entry:
    return entry(key, "apple", vectors=[X], **fields)


@pytest.fixture
def store() -> Iterator[SQLiteStore]:
    opened = SQLiteStore(":memory:", clock=lambda: NOW)
    write(opened, an_apple("note"), an_apple("file", kind="file"))
    yield opened
    opened.close()


@pytest.mark.parametrize("find", [by_keyword, by_vector])
@pytest.mark.parametrize("long", [False, True])
def test_a_crowd_of_better_matches_elsewhere_does_not_hide_the_one_that_counts(
    find: Any, long: bool
) -> None:
    store = SQLiteStore(":memory:")
    if long:  # Both forms of a selection: a short list of passages, and one flag per row.
        store.selections.short, store.selections.share = 0, 0.0
    loud = [entry(f"{n}", "apple apple apple", vectors=[X], project="loud") for n in range(300)]
    weak = vector(1, 1, 1, 1)
    quiet = entry("mine", "apple and many other words", vectors=[weak], project="quiet")
    write(store, *loud, quiet)
    assert find(store, Filter(projects=("quiet",)), 1) == ["mine"]
    assert find(store, Filter(projects=("quiet", "loud")), 1) != ["mine"]
    store.close()


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("find", [by_keyword, by_vector])
def test_a_filter_finds_all_of_its_share_however_small_or_large(share: float, find: Any) -> None:
    store = SQLiteStore(":memory:")
    total, wanted = 600, round(600 * share)
    write(
        store,
        *[an_apple(f"{n:03}", tags=("wanted",) if n < wanted else ()) for n in range(total)],
    )
    expected = [f"{n:03}" for n in range(wanted)]
    assert find(store, Filter(tags=("wanted",)), total) == expected
    store.close()


@pytest.mark.parametrize(
    ("documents", "where", "conditions"),
    [
        ([{}], Filter(), 0),
        ([{"project": "p"}], Filter(projects=("p",)), 0),
        ([{"project": "p"}, {"project": "r"}], Filter(projects=("p", "r")), 0),
        ([{"project": "p"}, {"project": "q"}, {"project": "r"}], Filter(projects=("p", "r")), 1),
        ([{"project": "p"}, {}], Filter(projects=("p",)), 1),
        ([{"project": "p"}, {"project": "z"}], Filter(projects=("p",)), 1),
        ([{"trust": "untrusted"}], Filter(), 0),
        ([{"trust": "quarantined"}], Filter(), 1),
        ([{"trust": "quarantined"}], EVERYTHING, 0),
        ([{}], Filter(trusts=("untrusted",)), 1),
        ([{"valid_to": 5}], Filter(), 2),
        ([{"valid_to": 5}], EVERYTHING, 0),
        ([{}], Filter(as_of=5), 1),
        ([{}], Filter(kinds=("note",), tags=("a", "b"), since=1, until=2), 5),
    ],
)
def test_conditions_that_exclude_nothing_are_left_out(
    documents: list[dict[str, Any]], where: Filter, conditions: int
) -> None:
    store = SQLiteStore(":memory:")
    write(store, *[entry(f"{n}", "x", **fields) for n, fields in enumerate(documents)])
    assert len(filters.clauses(store._connections.get(), where, NOW)) == conditions
    store.close()


PREFIXES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(PREFIXES, PREFIXES)
def test_a_prefix_is_exactly_a_prefix(prefix: str, key: str) -> None:
    bound = filters.after(prefix)
    inside = prefix.encode() <= key.encode() < bound.encode()
    assert inside is key.startswith(prefix) or prefix[-1] == "\U0010ffff"


def test_selections_are_forgotten_when_others_are_asked_for_and_when_the_file_changes(
    store: SQLiteStore,
) -> None:
    for number in range(3 * filters.CACHED_SELECTIONS):
        by_vector(store, Filter(until=NOW + number))
    assert len(store.selections._known) <= filters.CACHED_SELECTIONS
    before = by_vector(store, Filter(kinds=("file",)))
    write(store, an_apple("another", kind="file"))
    assert by_vector(store, Filter(kinds=("file",))) == sorted([*before, "another"])
    assert by_keyword(store, Filter(kinds=("file",))) == sorted([*before, "another"])


def test_a_filter_sees_what_another_process_has_written(tmp_path: Path) -> None:
    here, there = (SQLiteStore(str(tmp_path / "m.db")) for _ in range(2))
    write(here, an_apple("a", tags=("t",)), an_apple("b"))
    where = Filter(tags=("t",))
    assert by_keyword(here, where) == by_vector(here, where) == ["a"]
    write(there, an_apple("c", tags=("t",)))
    assert by_keyword(here, where) == by_vector(here, where) == ["a", "c"]
    delete(there, "a")
    assert by_keyword(here, where) == by_vector(here, where) == ["c"]
    here.close()
    there.close()


@pytest.mark.parametrize("find", [by_keyword, by_vector, by_scan])
@pytest.mark.parametrize("fields", [{"project": "q"}, {"trust": "quarantined"}, {"valid_to": 5}])
def test_what_another_writes_during_a_search_does_not_slip_past_the_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, find: Any, fields: dict[str, Any]
) -> None:
    here, there = (SQLiteStore(str(tmp_path / "m.db")) for _ in range(2))
    write(here, an_apple("mine", project="p"))
    real = filters.clauses

    def clauses(*args: Any) -> list[filters.Clause]:
        # At this moment nothing needs to be excluded; a moment later something does.
        conditions = real(*args)
        write(there, an_apple("theirs", **{"project": "p", **fields}))
        return conditions

    with monkeypatch.context() as patch:
        patch.setattr(filters, "clauses", clauses)
        assert find(here, Filter(projects=("p",))) == ["mine"]
    assert find(here, Filter(projects=("p",))) == ["mine"]
    assert by_scan(here, EVERYTHING) == ["mine", "theirs"]
    here.close()
    there.close()


CHANGES = (NOW - HOUR, NOW, NOW + HOUR)


@pytest.mark.parametrize("moment", [at + step for at in CHANGES for step in (-1, 0, 1)])
def test_between_two_changes_of_validity_the_moment_of_a_search_is_the_same(moment: int) -> None:
    store = SQLiteStore(":memory:", clock=lambda: moment)
    write(
        store,
        entry("always", "apple"),
        entry("over", "apple", valid_to=CHANGES[0]),
        entry("changed", "apple", valid_from=CHANGES[0], valid_to=CHANGES[1]),
        entry("to come", "apple", valid_from=CHANGES[2]),
    )
    connection = store._connections.get()
    bound = {
        value for _, values in filters.clauses(connection, Filter(), moment) for value in values
    }
    passed = [at for at in CHANGES if at <= moment]
    assert bound == {passed[-1] if passed else filters.BEFORE_ALL}
    lasting = {
        "over": moment < CHANGES[0],
        "changed": CHANGES[0] <= moment < CHANGES[1],
        "to come": moment >= CHANGES[2],
    }
    valid = ["always", *(key for key, holds in lasting.items() if holds)]
    assert by_scan(store, Filter()) == by_keyword(store, Filter()) == sorted(valid)
    store.close()


def test_a_superseded_fact_does_not_make_every_search_list_its_passages_again() -> None:
    moments = count(NOW)
    store = SQLiteStore(":memory:", clock=lambda: next(moments))
    write(store, entry("a", "apple"), entry("b", "apple", valid_to=NOW - HOUR))
    assert by_keyword(store, Filter()) == ["a"]
    known = dict(store.selections._known)
    assert by_keyword(store, Filter()) == ["a"]
    assert known
    assert store.selections._known == known
    store.close()


NO_MESSAGES: tuple[Kind, ...] = ("note", "observation")
TEXTS = {
    "plain": "we decided it",
    "shouted": "WE DECIDED IT",
    "accented": "es ist entschieden: Überall",
    "inside": "the undecided ones",
    "apart": "nothing of it",
    "below": "one\n\n" + "two three four\n\n" * 200 + "at last it is decided",
}


@pytest.mark.parametrize(
    "words", [("decided",), ("Decided", "entschieden"), ("ecided",), ("überall",), ("it", "IT is")]
)
@pytest.mark.parametrize("kinds", [NO_MESSAGES, ("note",), ("note", "message"), ()])
def test_words_that_messages_mention_by_the_thousand_are_told_of_the_same_documents(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], kinds: tuple[Any, ...]
) -> None:
    store = SQLiteStore(":memory:", clock=lambda: NOW)
    write(store, *[entry(key, text, event_at=n) for n, (key, text) in enumerate(TEXTS.items())])
    talk: dict[str, Any] = {"kind": "message", "session": "s"}
    write(store, *[entry(f"m{n}", "we decided", turn=n + 1, **talk) for n in range(20)])
    where = Filter(mentions=words, kinds=kinds)
    by_index = by_scan(store, where)
    monkeypatch.setattr(mentioned, "MANY_MENTIONS", 0)
    assert by_scan(store, where) == by_index
    store.close()


@pytest.mark.parametrize(
    ("where", "index"),
    [
        (Filter(kinds=NO_MESSAGES), "documents_but_messages"),
        (Filter(kinds=NO_MESSAGES, mentions=("decided",)), "documents_but_messages"),
        (Filter(pinned=True), "documents_pinned"),
        (Filter(pinned=True, kinds=NO_MESSAGES), "documents_pinned"),
        (Filter(types=("decision",)), "documents_by_type"),
    ],
)
def test_what_is_rare_among_many_messages_is_read_from_an_index_of_its_own(
    monkeypatch: pytest.MonkeyPatch, store: SQLiteStore, where: Filter, index: str
) -> None:
    monkeypatch.setattr(mentioned, "MANY_MENTIONS", 0)
    connection = store._connections.get()
    sql, values = filters.joined(filters.clauses(connection, where, NOW))
    newest = f"SELECT rowid FROM documents AS d WHERE {sql} ORDER BY event_at DESC, id DESC LIMIT 9"
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {newest}", values)]
    assert re.search(rf"d USING (?:COVERING )?INDEX {index}\b", plan[0]), plan


@pytest.mark.parametrize("trusts", [("trusted",), ("trusted", "untrusted"), ("untrusted",), ()])
def test_every_trust_that_is_not_asked_for_is_left_out(
    store: SQLiteStore, trusts: tuple[Any, ...]
) -> None:
    for trust in ("untrusted", "quarantined"):
        write(store, *[an_apple(f"{trust}{n}", trust=trust) for n in range(3)])
    shown = {row.trust for row in store.scan(Filter(trusts=trusts))}
    assert shown == set(trusts or ("trusted", "untrusted", "quarantined"))
