"""Filters: each field alone and with others, by keyword, by vector and in a scan."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.protocols import Store
from plait.text import parse
from plait.types import Document, Filter
from tests.builders import (
    EVERYTHING,
    NOW,
    SPACE,
    Engine,
    by_keyword,
    entry,
    keys_of,
    vector,
    write,
)

X = vector(1, 0, 0, 0)
HOUR = 3_600_000


def in_keyword_search(store: Store, where: Filter) -> list[str]:
    hits = store.keyword(parse("apple"), 100, where)
    return sorted(keys_of(store, [ref for ref, _ in hits]))


def in_vector_search(store: Store, where: Filter) -> list[str]:
    hits = store.vector(X, SPACE, 100, where).hits
    return sorted(keys_of(store, [ref for ref, _ in hits]))


def in_scan(store: Store, where: Filter) -> list[str]:
    return sorted(document.doc_id for document in store.scan(where, limit=100))


WAYS = {"keyword": in_keyword_search, "vector": in_vector_search, "scan": in_scan}

FIELDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "other project": {"project": "p"},
    "third project": {"project": "q"},
    "user's project": {"project": "scope:ana"},
    "file": {"kind": "file", "path": "/notes/ops/a.md", "source": "/notes"},
    "other file": {
        "kind": "file",
        "path": "/notes-old/a.md",
        "source": "/notes-old",
        "sha256": "b" * 64,
    },
    "observation": {"kind": "observation"},
    "procedural": {"memory_type": "procedural"},
    "decision": {"type": "decision"},
    "tagged": {"tags": ("red", "blue")},
    "tagged red": {"tags": ("red",)},
    "tagged below": {"tags": ("green/dark", "blue2")},
    "named twice": {"metadata": {"aliases": "Key plan, Doe, John", "alias": "Schlüssel_1"}},
    "about Keys": {"text": "Rotate the [[SSH-Keys]] soon, says 日本語."},
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
    "pinned": {"pinned": True},
    "done": {"status": "done"},
    "stated active": {"status": "active"},
    "of Ana": {"kind": "observation", "parent": "ana", "topic": "tea"},
    "of Bo": {"kind": "observation", "parent": "bo", "topic": "coffee"},
}
HIDDEN = {"quarantined", "over", "to come"}
USUAL = sorted(FIELDS.keys() - HIDDEN)


def without_text(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "text"}


@pytest.fixture(scope="module")
def stocked(engine: Engine) -> Iterator[Store]:
    """A store with one document for each case; no test changes it."""
    opened = engine(clock=lambda: NOW)
    rows = [
        entry(key, f"apple {fields.get('text', '')}", vectors=[X], **without_text(fields))
        for key, fields in FIELDS.items()
    ]
    write(opened, *rows)
    yield opened
    opened.close()


CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, USUAL),
    ({"projects": (None,)}, [key for key in USUAL if " project" not in key]),
    ({"projects": ("p",)}, ["other project"]),
    ({"projects": ("p", "q")}, ["other project", "third project"]),
    ({"projects": ("nobody",)}, []),
    ({"projects": ()}, USUAL),
    ({"kinds": ("file",)}, ["file", "other file"]),
    ({"kinds": ("observation", "file")},
     ["file", "observation", "of Ana", "of Bo", "other file"]),
    ({"parents": ("ana", "nobody")}, ["of Ana"]),
    ({"topics": ("coffee",)}, ["of Bo"]),
    ({"topics": ("coffee",), "parents": ("ana",)}, []),
    ({"pinned": True}, ["pinned"]),
    ({"pinned": False}, [key for key in USUAL if key != "pinned"]),
    ({"statuses": ("done", "archived")}, ["done"]),
    ({"statuses": ("active",)}, [key for key in USUAL if key != "done"]),
    ({"scopes": False}, [key for key in USUAL if key != "user's project"]),
    ({"scopes": False, "projects": ("scope:ana",)}, ["user's project"]),
    ({"memory_types": ("procedural",)}, ["procedural"]),
    ({"memory_types": ("episodic",)}, []),
    ({"types": ("decision", "fact")}, ["decision"]),
    ({"tags": ("red",)}, ["tagged", "tagged red"]),
    ({"tags": ("red", "blue")}, ["tagged"]),
    ({"tags": ("re",)}, []),
    ({"tags": ("green",)}, ["tagged below"]),
    ({"tags": ("green/dark", "blue")}, []),
    ({"named": ("doe, j",)}, ["named twice"]),
    ({"named": ("SCHLüSSEL_", "nobody")}, ["named twice"]),
    ({"named": ("keys", "ops/")}, ["about Keys", "ops/a"]),
    ({"named": ("%", "_")}, ["named twice"]),
    ({"named": (*(f"nobody {n}" for n in range(300)), "doe, j")}, ["named twice"]),
    ({"named": (*(f"nobody {n}" for n in range(300)), "OPS/")}, ["ops/a"]),
    ({"mentions": ("ssh-keys",)}, ["about Keys"]),
    ({"mentions": ("[[ssh",)}, ["about Keys"]),
    ({"mentions": ("[[ssh-keys]]",)}, ["about Keys"]),
    ({"mentions": ("(ssh-keys", "]] so")}, []),
    ({"mentions": ("[[",)}, ["about Keys"]),
    ({"mentions": ("says 日本語.",)}, ["about Keys"]),
    ({"mentions": ("語",)}, ["about Keys"]),
    ({"mentions": ("本語", "nobody")}, ["about Keys"]),
    ({"mentions": ('ssh" OR text : "keys',)}, []),
    ({"mentions": ("sh-keys",)}, []),
    ({"mentions": ("x" * 100_000,)}, []),
    ({"keys": ("new", "old")}, ["new", "old"]),
    ({"key_prefix": "ops/"}, ["ops/a"]),
    ({"key_prefix": "o"},
     ["observation", "of Ana", "of Bo", "old", "ops/a", "other file", "other project"]),
    ({"path_prefix": "/notes/"}, ["file"]),
    ({"path_prefix": "/notes"}, ["file", "other file"]),
    ({"hashes": ("a" * 64, "b" * 64)}, ["other file"]),
    ({"hashes": ("a" * 64,)}, []),
    ({"source": "/notes"}, ["file"]),
    ({"session": "s1"}, ["session"]),
    ({"origins": ("web", "tool")}, ["web"]),
    ({"trusts": ("untrusted",)}, ["untrusted"]),
    ({"trusts": ("quarantined",)}, ["quarantined"]),
    ({"trusts": ("trusted",)}, [key for key in USUAL if key != "untrusted"]),
    ({"trusts": ()}, sorted([*USUAL, "quarantined"])),
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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("fields", "expected"), CASES)
def test_a_filter_lets_through_exactly_what_it_names(
    stocked: Store, way: str, fields: dict[str, Any], expected: list[str]
) -> None:
    assert WAYS[way](stocked, Filter(**fields)) == expected


def test_every_field_of_a_filter_is_tried_above() -> None:
    assert {name for fields, _ in CASES for name in fields} == set(Filter._fields)


def passes(document: Document, where: Filter, now: int) -> bool:
    """The words of `Filter` once more, as a judge."""
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


@settings(max_examples=40)  # of up to four filters each, on every engine
@given(
    documents=st.lists(st.tuples(st.sampled_from(["a/", "a", "b"]), DOCUMENTS), max_size=8),
    wheres=st.lists(FILTERS, min_size=1, max_size=4),
)
def test_every_way_agrees_with_a_judge_on_any_documents_and_filters(
    engine: Engine, documents: list[tuple[str, dict[str, Any]]], wheres: list[Filter]
) -> None:
    store = engine(clock=lambda: NOW)
    rows = [
        entry(f"{prefix}{n}", "apple", vectors=[X], **fields)
        for n, (prefix, fields) in enumerate(documents)
    ]
    write(store, *rows)
    stored = store.scan(EVERYTHING)
    for where in wheres:
        expected = sorted(document.doc_id for document in stored if passes(document, where, NOW))
        assert [way(store, where) for way in WAYS.values()] == [expected] * len(WAYS)
    store.close()


# The present


def test_the_present_is_never_before_the_last_change_of_a_fact(engine: Engine) -> None:
    store = engine(clock=lambda: NOW - HOUR)  # a clock that was set back
    write(
        store,
        entry("over", "apple", vectors=[X], valid_to=NOW),
        entry("current", "apple", vectors=[X], valid_from=NOW),
    )
    assert in_scan(store, Filter()) == ["over"]
    with store.transaction() as tx:
        tx.remember(changed_at=str(NOW))
    assert store.state().changed_at == NOW
    assert [way(store, Filter()) for way in WAYS.values()] == [["current"]] * 3
    assert in_scan(store, Filter(as_of=NOW - 1)) == ["over"]
    store.close()


def test_a_profile_describes_the_present_only(engine: Engine) -> None:
    store = engine(clock=lambda: NOW)
    write(
        store,
        entry("Ana", "apple", vectors=[X], kind="entity"),
        entry("note", "apple", vectors=[X]),
    )
    for way in WAYS.values():
        assert way(store, Filter()) == ["Ana", "note"]
        assert way(store, Filter(as_of=NOW)) == ["note"]
        assert way(store, Filter(as_of=NOW, all_versions=True)) == ["note"]
    store.close()


@pytest.mark.parametrize(
    ("due", "fields", "searched"),
    [
        (None, {"valid_to": NOW}, True),
        (NOW + 1, {"valid_to": NOW + 1}, True),
        (NOW, {"valid_to": NOW}, False),
        (NOW - 5, {"valid_from": NOW - 5}, False),
        (NOW - 5, {"valid_from": NOW - 6}, True),
        (NOW - 5, {"valid_to": NOW + 9}, True),
    ],
)
def test_a_profile_that_is_out_of_date_is_listed_but_not_searched(
    engine: Engine, due: int | None, fields: dict[str, Any], searched: bool
) -> None:
    store = engine(clock=lambda: NOW)
    [ana] = write(store, entry("Ana", "apple", vectors=[X], kind="entity"))
    write(store, entry("Bo", "apple", vectors=[X], kind="entity"))
    write(store, entry(None, "tea", kind="observation", parent=ana.id, **fields))
    with store.transaction() as tx:
        tx.remember(profiles_due=None if due is None else str(due))
    where = Filter(kinds=("entity",))
    expected = ["Ana", "Bo"] if searched else ["Bo"]
    assert in_keyword_search(store, where) == in_vector_search(store, where) == expected
    assert in_scan(store, where) == ["Ana", "Bo"]
    store.close()


NFC, NFD = "caf\u00e9", "cafe\u0301"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("stored", "asked"), [(NFC, NFD), (NFD, NFC), (NFD, NFD)])
def test_an_accent_is_the_same_however_it_is_written(
    engine: Engine, way: Any, stored: str, asked: str
) -> None:
    store = engine()
    fields: dict[str, Any] = {
        "type": stored,
        "tags": (stored,),
        "session": stored,
        "project": stored,
        "topic": stored,
        "metadata": {stored: stored},
        "path": f"/{stored}/a.md",
        "source": stored,
        "kind": "file",
    }
    write(store, entry(f"{stored}/a.md", "apple", vectors=[X], **fields), entry("b", "apple"))
    for where in (
        Filter(types=(asked,)),
        Filter(tags=(asked,)),
        Filter(session=asked),
        Filter(projects=(asked, "x")),
        Filter(topics=(asked,)),
        Filter(metadata=((asked, asked),)),
        Filter(key_prefix=f"{asked}/"),
        Filter(path_prefix=f"/{asked}/"),
        Filter(source=asked),
        Filter(keys=(f"{asked}/a.md",)),
    ):
        assert way(store, where) == [f"{stored}/a.md"], where


@pytest.mark.parametrize("field", ["tags", "metadata", "named", "mentions"])
def test_a_filter_takes_any_number_of_values(store, field):
    write(store, entry("apple"))
    many = [f"größe{number}" for number in range(1_500)]
    values: Any = tuple(zip(many, many, strict=True)) if field == "metadata" else tuple(many)
    where: dict[str, Any] = {field: values}
    assert store.scan(EVERYTHING._replace(**where)) == []


# Letters that a server cannot keep or folds, that SQL or JSON reads as signs, and one in two forms.
ODD = ["\0", "\ue000", "\ue000\ue002", "%_", '"', "\\", "{}", "nai\u0308ve", "İ", "🙂", "日本"]


@pytest.mark.parametrize("odd", ODD)
def test_every_filter_finds_odd_letters(store: Store, odd: str) -> None:
    name = f"a{odd}b"
    fields: dict[str, Any] = {
        "title": name,
        "heading": name,
        "tags": (name,),
        "metadata": {name: name, "alias": name},
        "source": name,
        "session": name,
        "topic": name,
        "type": name,
        "parent": name,
        "path": name,
        "summary": name,
    }
    write(store, entry(name, f"one {name} two", **fields), entry("ab", "a b ab", title="a"))
    [kept] = store.load([document.id for document, _ in store.find(name, EVERYTHING)])
    assert (kept.key, kept.text, kept.summary, kept.title) == (name, f"one {name} two", name, name)
    assert (kept.tags, kept.metadata) == ((name,), fields["metadata"])
    wanted: list[dict[str, Any]] = [
        *({several: (name,)} for several in ("keys", "tags", "topics", "types", "parents")),
        *({single: name} for single in ("source", "session", "key_prefix", "path_prefix")),
        *({start: f"a{odd}"} for start in ("key_prefix", "path_prefix")),
        {"tags": (name,) * 6},
        {"metadata": ((name, name),)},
        {"named": (odd,)},
        {"mentions": (name,)},
    ]
    for where in wanted:
        chosen = EVERYTHING._replace(**where)
        assert [row.key for row in store.scan(chosen)] == [name], where
        assert by_keyword(store, "one", where=chosen) == [name], where
