"""Filters: each field alone and with others, in both branches, before any limit."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.stores.sqlite import filters, searching
from plait.stores.sqlite.store import SQLiteStore
from plait.text import parse
from plait.types import Document, Filter
from tests.builders import NOW, SPACE, entry, vector

X = vector(1, 0, 0, 0)
HOUR = 3_600_000
EVERYTHING = Filter(trusts=("trusted", "untrusted", "quarantined"), all_versions=True)


def by_keyword(store: SQLiteStore, where: Filter, limit: int = 100) -> list[str]:
    return keys(store, [ref for ref, _ in store.keyword(parse("apple"), limit, where)])


def by_vector(store: SQLiteStore, where: Filter, limit: int = 100) -> list[str]:
    return keys(store, [ref for ref, _ in store.vector(X, SPACE, limit, where)])


def by_scan(store: SQLiteStore, where: Filter, limit: int = 100) -> list[str]:
    return sorted(document.doc_id for document in store.scan(where, limit=limit))


def keys(store: SQLiteStore, refs: list[int]) -> list[str]:
    rows = store.passages(refs)
    return sorted(rows[ref][1].doc_id for ref in refs)


WAYS = {"keyword": by_keyword, "vector": by_vector, "scan": by_scan}
every_way = pytest.mark.parametrize("find", WAYS.values(), ids=WAYS)

FIELDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "other project": {"project": "p"},
    "third project": {"project": "q"},
    "file": {"kind": "file", "path": "/notes/ops/a.md", "source": "/notes"},
    "other file": {"kind": "file", "path": "/notes-old/a.md", "source": "/notes-old"},
    "observation": {"kind": "observation"},
    "procedural": {"memory_type": "procedural"},
    "decision": {"type": "decision"},
    "tagged": {"tags": ("red", "blue")},
    "tagged red": {"tags": ("red",)},
    "ops/a": {},
    "session": {"session": "s1"},
    "web": {"origin": "web"},
    "untrusted": {"trust": "untrusted"},
    "quarantined": {"trust": "quarantined"},
    "by Ana": {"metadata": {"author": "Ana", "year": "2026"}},
    "by Bo": {"metadata": {"author": "Bo", "Ana": "author"}},
    "old": {"event_at": NOW - 10 * HOUR},
    "new": {"event_at": NOW + 10 * HOUR},
    "over": {"valid_from": NOW - 5 * HOUR, "valid_to": NOW - HOUR},
    "current": {"valid_from": NOW - HOUR, "valid_to": NOW + HOUR},
    "to come": {"valid_from": NOW + HOUR},
    "of Ana": {"kind": "observation", "parent": "ana", "topic": "tea"},
    "of Bo": {"kind": "observation", "parent": "bo", "topic": "coffee"},
}
HIDDEN = {"quarantined", "over", "to come"}
USUAL = sorted(FIELDS.keys() - HIDDEN)


@pytest.fixture
def store() -> Any:
    opened = SQLiteStore(":memory:", clock=lambda: NOW)
    opened.put([entry(key, "apple", vectors=[X], **fields) for key, fields in FIELDS.items()])
    yield opened
    opened.close()


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, USUAL),
    ({"projects": (None,)}, [key for key in USUAL if " project" not in key]),
    ({"projects": ("p",)}, ["other project"]),
    ({"projects": ("p", "q")}, ["other project", "third project"]),
    ({"projects": ("nobody",)}, []),
    ({"kinds": ("file",)}, ["file", "other file"]),
    ({"kinds": ("observation", "file")},
     ["file", "observation", "of Ana", "of Bo", "other file"]),
    ({"parents": ("ana", "nobody")}, ["of Ana"]),
    ({"topics": ("coffee",)}, ["of Bo"]),
    ({"topics": ("coffee",), "parents": ("ana",)}, []),
    ({"memory_types": ("procedural",)}, ["procedural"]),
    ({"memory_types": ("episodic",)}, []),
    ({"types": ("decision", "fact")}, ["decision"]),
    ({"tags": ("red",)}, ["tagged", "tagged red"]),
    ({"tags": ("red", "blue")}, ["tagged"]),
    ({"tags": ("re",)}, []),
    ({"keys": ("new", "old")}, ["new", "old"]),
    ({"key_prefix": "ops/"}, ["ops/a"]),
    ({"key_prefix": "o"},
     ["observation", "of Ana", "of Bo", "old", "ops/a", "other file", "other project"]),
    ({"path_prefix": "/notes/"}, ["file"]),
    ({"path_prefix": "/notes"}, ["file", "other file"]),
    ({"source": "/notes"}, ["file"]),
    ({"session": "s1"}, ["session"]),
    ({"origins": ("web", "tool")}, ["web"]),
    ({"trusts": ("untrusted",)}, ["untrusted"]),
    ({"trusts": ("quarantined",)}, ["quarantined"]),
    ({"trusts": ("trusted",)}, [key for key in USUAL if key != "untrusted"]),
    ({"metadata": (("author", "Ana"),)}, ["by Ana"]),
    ({"metadata": (("author", "Ana"), ("year", "2026"))}, ["by Ana"]),
    ({"metadata": (("author", "Ana"), ("year", "2025"))}, []),
    ({"since": NOW + 1}, ["new"]),
    ({"until": NOW}, ["old"]),
    ({"since": NOW - 10 * HOUR, "until": NOW}, ["old"]),
    ({"since": NOW - 10 * HOUR + 1, "until": NOW}, []),
    ({"as_of": NOW - 2 * HOUR, "keys": ("over", "current", "to come")}, ["over"]),
    ({"as_of": NOW - HOUR, "keys": ("over", "current", "to come")}, ["current"]),
    ({"as_of": NOW + HOUR, "keys": ("over", "current", "to come")}, ["to come"]),
    ({"all_versions": True, "keys": ("over", "current")}, ["current", "over"]),
    ({"kinds": ("file",), "source": "/notes-old"}, ["other file"]),
    ({"kinds": ("note",), "tags": ("red",), "key_prefix": "tagged "}, ["tagged red"]),
    ({"kinds": ("note",), "source": "/notes"}, []),
    ({"projects": ("p",), "session": "s1"}, []),
]  # fmt: skip


@every_way
@pytest.mark.parametrize(("fields", "expected"), CASES)
def test_a_filter_lets_through_exactly_what_it_says(
    store: SQLiteStore, find: Any, fields: dict[str, Any], expected: list[str]
) -> None:
    assert find(store, Filter(**fields)) == expected


def test_every_field_of_a_filter_is_tried_above() -> None:
    assert {name for fields, _ in CASES for name in fields} == set(Filter._fields)


@pytest.mark.parametrize("find", [by_keyword, by_vector])
@pytest.mark.parametrize("long", [False, True])
def test_a_crowd_of_better_matches_elsewhere_does_not_hide_the_one_that_counts(
    find: Any, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both forms of a selection: a short list of passages, and one flag per row.
    monkeypatch.setattr(searching, "FEW", 0 if long else 200)
    monkeypatch.setattr(searching, "SHORT_SELECTION", 0.0 if long else 0.05)
    store = SQLiteStore(":memory:")
    store.put([entry(f"{n}", "apple apple apple", vectors=[X], project="loud") for n in range(300)])
    weak = vector(1, 1, 1, 1)
    store.put([entry("mine", "apple and many other words", vectors=[weak], project="quiet")])
    assert find(store, Filter(projects=("quiet",)), 1) == ["mine"]
    assert find(store, Filter(projects=("quiet", "loud")), 1) != ["mine"]
    store.close()


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("find", [by_keyword, by_vector])
def test_a_filter_finds_all_of_its_share_however_small_or_large(share: float, find: Any) -> None:
    store = SQLiteStore(":memory:")
    total, wanted = 600, round(600 * share)
    store.put(
        [
            entry(f"{n:03}", "apple", vectors=[X], tags=("wanted",) if n < wanted else ())
            for n in range(total)
        ]
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
    store: SQLiteStore, documents: list[dict[str, Any]], where: Filter, conditions: int
) -> None:
    fresh = SQLiteStore(":memory:")
    fresh.put([entry(f"{n}", "x", **fields) for n, fields in enumerate(documents)])
    found = filters.clauses(fresh._connections.get(), where, NOW)
    assert len(found) == conditions
    fresh.close()


def holds(document: Document, where: Filter, now: int) -> bool:
    """The words of `Filter` once more, in Python, as a judge."""
    moment = now if where.as_of is None else where.as_of
    valid = (document.valid_from is None or document.valid_from <= moment) and (
        document.valid_to is None or document.valid_to > moment
    )
    return all(
        (
            where.projects is None or document.project in where.projects,
            not where.kinds or document.kind in where.kinds,
            all(tag in document.tags for tag in where.tags),
            where.session is None or document.session == where.session,
            document.trust in where.trusts,
            where.since is None or (document.event_at or 0) >= where.since,
            where.until is None or (document.event_at or 0) < where.until,
            where.key_prefix is None or (document.key or "").startswith(where.key_prefix),
            where.all_versions or valid,
        )
    )


PROJECTS = st.sampled_from([None, "p", "q"])
TAGS = st.sets(st.sampled_from(["red", "blue"])).map(lambda tags: tuple(sorted(tags)))
TRUSTS = st.sampled_from(["trusted", "untrusted", "quarantined"])
MOMENTS = st.none() | st.integers(NOW - 3, NOW + 3)
DOCUMENTS = st.fixed_dictionaries(
    {
        "project": PROJECTS,
        "kind": st.sampled_from(["note", "file", "message"]),
        "tags": TAGS,
        "session": st.sampled_from([None, "s"]),
        "trust": TRUSTS,
        "event_at": st.integers(NOW - 3, NOW + 3),
        "valid_from": MOMENTS,
        "valid_to": MOMENTS,
    }
)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "projects": st.lists(PROJECTS, min_size=1, max_size=3).map(tuple),
        "kinds": st.sampled_from([(), ("note",), ("file", "message")]),
        "tags": TAGS,
        "session": st.just("s"),
        "trusts": st.sets(TRUSTS, min_size=1).map(lambda trusts: tuple(sorted(trusts))),
        "since": MOMENTS,
        "until": MOMENTS,
        "as_of": MOMENTS,
        "key_prefix": st.sampled_from(["", "a", "a/", "b"]),
        "all_versions": st.booleans(),
    },
).map(lambda fields: Filter(**fields))  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.sampled_from(["a/", "a", "b"]), DOCUMENTS), max_size=8),
    st.lists(FILTERS, min_size=1, max_size=4),
)
def test_both_branches_agree_with_a_judge_on_any_documents_and_filters(
    documents: list[tuple[str, dict[str, Any]]], wheres: list[Filter]
) -> None:
    store = SQLiteStore(":memory:", clock=lambda: NOW)
    store.put(
        [
            entry(f"{prefix}{n}", "apple", vectors=[X], **fields)
            for n, (prefix, fields) in enumerate(documents)
        ]
    )
    stored = store.scan(EVERYTHING)
    for where in wheres:
        expected = sorted(document.doc_id for document in stored if holds(document, where, NOW))
        assert by_keyword(store, where) == by_vector(store, where) == by_scan(store, where)
        assert by_scan(store, where) == expected
    store.close()


PREFIXES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(PREFIXES, PREFIXES)
def test_a_prefix_is_exactly_a_prefix(prefix: str, key: str) -> None:
    bound = filters._after(prefix)
    inside = prefix.encode() <= key.encode() < bound.encode()
    assert inside is key.startswith(prefix) or prefix[-1] == "\U0010ffff"


def test_selections_are_forgotten_when_others_are_asked_for_and_when_the_file_changes(
    store: SQLiteStore,
) -> None:
    for number in range(3 * searching.CACHED_SELECTIONS):
        by_vector(store, Filter(until=NOW + number))
    assert len(store._searcher._selections) <= searching.CACHED_SELECTIONS
    before = by_vector(store, Filter(kinds=("file",)))
    store.put([entry("another", "apple", vectors=[X], kind="file")])
    assert by_vector(store, Filter(kinds=("file",))) == sorted([*before, "another"])
    assert by_keyword(store, Filter(kinds=("file",))) == sorted([*before, "another"])


def test_a_filter_sees_what_another_process_has_written(tmp_path: Any) -> None:
    here, there = (SQLiteStore(str(tmp_path / "m.db")) for _ in range(2))
    here.put([entry("a", "apple", vectors=[X], tags=("t",)), entry("b", "apple", vectors=[X])])
    where = Filter(tags=("t",))
    assert by_keyword(here, where) == by_vector(here, where) == ["a"]
    there.put([entry("c", "apple", vectors=[X], tags=("t",))])
    assert by_keyword(here, where) == by_vector(here, where) == ["a", "c"]
    there.delete([there.find("a", EVERYTHING)[0][0].id])
    assert by_keyword(here, where) == by_vector(here, where) == ["c"]
    here.close()
    there.close()


@pytest.mark.parametrize("find", [by_keyword, by_vector, by_scan])
@pytest.mark.parametrize("fields", [{"project": "q"}, {"trust": "quarantined"}, {"valid_to": 5}])
def test_what_another_writes_during_a_search_does_not_slip_past_the_filter(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, find: Any, fields: dict[str, Any]
) -> None:
    here, there = (SQLiteStore(str(tmp_path / "m.db")) for _ in range(2))
    here.put([entry("mine", "apple", vectors=[X], project="p")])
    real = filters.clauses

    def clauses(*args: Any) -> list[filters.Clause]:
        # At this moment nothing needs to be excluded; a moment later something does.
        found = real(*args)
        there.put([entry("theirs", "apple", vectors=[X], **{"project": "p", **fields})])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(filters, "clauses", clauses)
        assert find(here, Filter(projects=("p",))) == ["mine"]
    assert find(here, Filter(projects=("p",))) == ["mine"]
    assert by_scan(here, EVERYTHING) == ["mine", "theirs"]
    here.close()
    there.close()


TURNS = (NOW - HOUR, NOW, NOW + HOUR)


@pytest.mark.parametrize("moment", [at + step for at in TURNS for step in (-1, 0, 1)])
def test_between_two_turns_of_validity_the_moment_of_a_search_is_the_same(moment: int) -> None:
    store = SQLiteStore(":memory:", clock=lambda: moment)
    store.put(
        [
            entry("always", "apple"),
            entry("over", "apple", valid_to=TURNS[0]),
            entry("changed", "apple", valid_from=TURNS[0], valid_to=TURNS[1]),
            entry("to come", "apple", valid_from=TURNS[2]),
        ]
    )
    connection = store._connections.get()
    bound = {
        value for _, values in filters.clauses(connection, Filter(), moment) for value in values
    }
    turned = [at for at in TURNS if at <= moment]
    assert bound == {turned[-1] if turned else filters.BEFORE_ALL}
    lasting = {
        "over": moment < TURNS[0],
        "changed": TURNS[0] <= moment < TURNS[1],
        "to come": moment >= TURNS[2],
    }
    valid = ["always", *(key for key, holds in lasting.items() if holds)]
    assert by_scan(store, Filter()) == by_keyword(store, Filter()) == sorted(valid)
    store.close()


def test_a_superseded_fact_does_not_make_every_search_list_its_passages_anew() -> None:
    moments = count(NOW)
    store = SQLiteStore(":memory:", clock=lambda: next(moments))
    store.put([entry("a", "apple"), entry("b", "apple", valid_to=NOW - HOUR)])
    assert by_keyword(store, Filter()) == ["a"]
    known = dict(store._searcher._selections)
    assert by_keyword(store, Filter()) == ["a"]
    assert known
    assert store._searcher._selections == known
    store.close()
