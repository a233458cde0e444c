"""The rules of facts at work: what repeats, replaces, belongs together and comes back.

The rules themselves are tested in tests/unit/facts; here they run inside a store's transaction.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.errors import NotFound, PlaitError, StoreBusy, UsageError
from plait.graph.edges import relate, unrelate
from plait.protocols import Entry, Store
from plait.stores.sqlite.store import SQLiteStore
from plait.testing.store import InMemoryStore
from plait.types import Document, Filter
from plait.types.relations import Relation
from plait.types.reports import Deleted
from plait.writing.changes import Change, Changed, put
from plait.writing.deleting import delete
from plait.writing.undoing import undo
from tests.builders import (
    EVERYTHING,
    NOW,
    by_keyword,
    entry,
    is_sound,
    passages_of,
    refs_of,
    write,
)

Fields = dict[str, Any]


@pytest.fixture(params=["dictionaries", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened: Store
    if request.param == "sqlite":
        opened = SQLiteStore(str(tmp_path / "memory.db"), timeout=5.0)
    else:
        opened = InMemoryStore()
    yield opened
    opened.close()


def stored(store: Store, *entries: Entry) -> list[Changed]:
    return put(store, [Change(row) for row in entries])


def observation(text: str, **fields: Any) -> Change:
    belongs = {name: fields.pop(name) for name in ("entity", "belongs") if name in fields}
    return Change(entry(None, text, kind="observation", **fields), **belongs)


def an_entity(name: str, **fields: Any) -> Change:
    belongs = {"belongs": fields.pop("belongs")} if "belongs" in fields else {}
    return Change(Entry(Document(key=name, kind="entity", **fields), ()), **belongs)


def text_of(store: Store, name: str) -> str:
    [(named, _)] = store.find(name, EVERYTHING)
    return store.load([named.id])[0].text


# duplicates


@pytest.mark.parametrize(
    ("fields", "duplicate"),
    [
        ({}, True),
        ({"project": "p"}, False),
        ({"parent": "ana"}, False),
        ({"kind": "note"}, False),
        ({"key": "k"}, False),
    ],
)
def test_an_observation_stored_again_is_kept_once(
    store: Store, fields: Fields, duplicate: bool
) -> None:
    [first] = stored(store, entry(None, "We deploy on Fridays", kind="observation"))
    given: Fields = {"key": None, "kind": "observation", **fields}
    [second] = stored(store, entry(given.pop("key"), "We  deploy on\nFridays ", **given))
    assert second.duplicate is duplicate
    assert (second.id == first.id) is duplicate


def test_an_observation_in_other_letters_is_another_fact(store: Store) -> None:
    written = put(store, [observation(f"the password is {word}") for word in ("Ab", "ab")])
    assert [done.duplicate for done in written] == [False, False]


def test_an_observation_that_is_over_can_be_stored_again(store: Store) -> None:
    put(store, [observation("raining", valid_to=NOW)])
    [again] = put(store, [observation("raining")])
    assert not again.duplicate


# topics and supersession


def test_a_fact_ends_what_has_its_topic_and_reports_it(store: Store) -> None:
    [old] = put(store, [observation("old", topic="t")])
    [new] = put(store, [observation("new", topic="t")])
    [other] = put(store, [observation("other", topic="t", project="p")])
    assert (old.superseded, new.superseded, other.superseded) == ((), (old.id,), ())
    ended, current = store.load([old.id, new.id])
    assert ended.valid_to == current.valid_from
    assert current.supersedes == old.id


def test_a_fact_that_supersedes_nothing_real_writes_nothing(store: Store) -> None:
    stored(store, entry("file", "x", kind="file", path="/x"))
    [(file, _)] = store.find("file", EVERYTHING)
    refused: list[tuple[Fields, type[PlaitError]]] = [
        ({"supersedes": "nothing"}, NotFound),
        ({"supersedes": file.id}, UsageError),
        ({"supersedes": file.id, "project": "p"}, UsageError),
    ]
    for fields, error in refused:
        with pytest.raises(error):
            put(store, [observation("first"), observation("text", **fields)])
    assert store.stats().doc_count == 1


# entities


def test_an_entity_is_made_by_its_first_observation(store: Store) -> None:
    done = put(store, [observation("likes tea", entity="Ana", belongs="make")])
    done += put(store, [observation("has a cat", entity="Ana", belongs="make")])
    assert done[0].parent == done[1].parent
    assert text_of(store, "Ana") == "Ana (Generic)\n- has a cat\n- likes tea"
    assert set(by_keyword(store, "tea")) == {"Ana", done[0].id}


def test_an_observation_of_an_unknown_entity_can_be_refused_or_left_out(store: Store) -> None:
    with pytest.raises(NotFound) as refused:
        put(store, [observation("first"), observation("likes tea", entity="Ana", belongs="known")])
    assert refused.value.notice.subject == "Ana"
    assert store.stats().doc_count == 0
    first = [an_entity("Ana", type="person"), observation("likes tea", entity="Ana", belongs="new")]
    assert [bool(done.id) for done in put(store, first)] == [True, True]
    again = [
        an_entity("Ana", type="cat", belongs="new"),
        observation("purrs", entity="Ana", belongs="new"),
    ]
    assert [bool(done.id) for done in put(store, again)] == [True, False]
    assert text_of(store, "Ana") == "Ana (person)\n- likes tea"


def test_an_entity_learns_from_being_made_again(store: Store) -> None:
    put(store, [an_entity("Ana")])
    put(store, [an_entity("Ana", type="person", tags=("friend",))])
    assert text_of(store, "Ana") == "Ana (person)"
    assert by_keyword(store, "friend") == ["Ana"]
    put(store, [an_entity("Ana", tags=("colleague",))])
    assert (by_keyword(store, "friend"), by_keyword(store, "colleague")) == ([], ["Ana"])
    assert store.stats().doc_count == 1


def test_entities_may_come_after_what_belongs_to_them(store: Store) -> None:
    batch = [
        observation("likes tea", parent="aaaaaaaaaaaaa", id="bbbbbbbbbbbbb"),
        an_entity("Ana", id="aaaaaaaaaaaaa"),
    ]
    assert [done.id for done in put(store, batch)] == ["bbbbbbbbbbbbb", "aaaaaaaaaaaaa"]
    assert text_of(store, "Ana") == "Ana (Generic)\n- likes tea"


def test_an_entity_of_another_id_but_the_same_name_is_the_known_one(store: Store) -> None:
    [known] = put(store, [an_entity("Ana")])
    put(
        store,
        [observation("likes tea", parent="zzzzzzzzzzzzz"), an_entity("Ana", id="zzzzzzzzzzzzz")],
    )
    assert text_of(store, "Ana") == "Ana (Generic)\n- likes tea"
    assert [d.parent for d in store.scan(Filter(kinds=("observation",)))] == [known.id]


# delete and undo


def trashed_keys(store: Store) -> list[str | None]:
    return [row.document.key for row in store.trashed()]


def test_deleting_reports_names_ids_and_passages(store: Store) -> None:
    stored(store, entry("gone", "apple ", "apple"), entry("kept", "apple pie"))
    [(doomed, _)] = store.find("gone", EVERYTHING)
    assert delete(store, [doomed.id, "unknown"]) == Deleted(("gone",), (doomed.id,), 2)
    assert by_keyword(store, "apple") == ["kept"]


def test_undo_brings_the_latest_delete_back_as_it_was(store: Store) -> None:
    stored(store, *[entry(key, f"{key} text ", "more", tags=("t",), title=key) for key in "abc"])
    ids = {key: store.find(key, EVERYTHING)[0][0].id for key in "abc"}
    before = {key: (store.load([ids[key]]), passages_of(store, key)) for key in "abc"}
    delete(store, [ids["a"]])
    delete(store, [ids["b"], ids["c"]])
    assert trashed_keys(store)[-1] == "a"
    assert {d.key for d in undo(store)} == {"b", "c"}
    assert trashed_keys(store) == ["a"]
    for key in "bc":
        again = passages_of(store, key)
        assert store.load([ids[key]]) == before[key][0]
        assert [p._replace(ref=0) for p in again] == [p._replace(ref=0) for p in before[key][1]]
    assert sorted(by_keyword(store, "text")) == ["b", "c"]
    assert [d.key for d in undo(store, [ids["a"]])] == ["a"]
    assert undo(store) == []
    assert is_sound(store)


def test_two_quick_deletes_are_undone_one_by_one(store: Store) -> None:
    written = stored(store, *[entry(key, key) for key in "abcdef"])
    for done in written:
        delete(store, [done.id])
    assert [undo(store)[0].key for _ in written] == ["f", "e", "d", "c", "b", "a"]


def test_what_has_a_newer_namesake_stays_in_the_trash_and_the_rest_comes_back(
    store: Store,
) -> None:
    older, taken, free = stored(store, *[entry(key, key) for key in ("older", "taken", "free")])
    delete(store, [older.id])
    delete(store, [taken.id, free.id])
    [newer] = stored(store, entry("taken", "new"))
    assert [d.key for d in undo(store)] == ["free"]
    assert {row.document.id for row in store.trashed()} == {older.id, taken.id}
    assert [d.key for d in undo(store)] == ["older"], "the next undo reaches an older delete"
    assert undo(store) == []
    assert by_keyword(store, "new taken", limit=1) == ["taken"]
    assert undo(store, [taken.id]) == []
    delete(store, [newer.id], purge=True)
    assert [d.id for d in undo(store, [taken.id])] == [taken.id]
    assert (store.trashed(), by_keyword(store, "new")) == ([], [])
    assert is_sound(store)


def test_a_deleted_file_whose_path_was_read_again_stays_in_the_trash(store: Store) -> None:
    def a_file(source: str, key: str) -> Entry:
        return entry(key, "apple", kind="file", source=source, path=f"{source}/{key}")

    [alone] = stored(store, a_file("/notes/sub", "a.md"))
    delete(store, [alone.id])
    stored(store, a_file("/notes", "sub/a.md"))
    assert undo(store) == []
    assert store.stats().doc_count == 1


def test_an_observation_that_was_stored_again_since_does_not_come_back_twice(store: Store) -> None:
    [first] = put(store, [observation("raining")])
    delete(store, [first.id])
    [again] = put(store, [observation("raining")])
    assert undo(store) == []
    assert [d.id for d in store.scan(EVERYTHING)] == [again.id]
    delete(store, [again.id], purge=True)
    assert [d.id for d in undo(store, [first.id])] == [first.id]


def test_undo_passes_over_a_delete_whose_names_are_all_taken(store: Store) -> None:
    older, taken = stored(store, *[entry(key, key) for key in ("older", "taken")])
    for doomed in (older, taken):
        delete(store, [doomed.id])
    stored(store, entry("taken", "new"))
    assert [[d.key for d in undo(store)] for _ in range(3)] == [[], ["older"], []]


def test_what_is_set_aside_comes_back_by_its_id_only(store: Store) -> None:
    wanted, vanished = stored(store, entry("wanted", "a"), entry("vanished", "b"))
    for doomed in (wanted, vanished):
        delete(store, [doomed.id])
    with store.transaction() as transaction:
        transaction.set_aside([vanished.id])
    assert [(row.batch == "", row.document.key) for row in store.trashed()] == [
        (True, "vanished"),
        (False, "wanted"),
    ]
    assert [d.key for d in undo(store)] == ["wanted"]
    assert undo(store) == []
    assert [d.key for d in undo(store, [vanished.id, "unknown"])] == ["vanished"]


def test_purge_leaves_nothing_to_undo(store: Store) -> None:
    [first] = stored(store, entry("k", "old"))
    assert delete(store, [first.id], purge=True).purged
    assert (store.trashed(), undo(store)) == ([], [])


def test_purge_clears_what_is_in_the_trash_already(store: Store) -> None:
    [first] = stored(store, entry("k", "old"))
    other, live = stored(store, entry("other", "a ", "b"), entry("live", "c"))
    delete(store, [first.id])
    delete(store, [other.id])
    deleted = delete(store, [live.id, other.id, "unknown"], purge=True)
    assert deleted == Deleted(("live", "other"), (live.id, other.id), 3, purged=True)
    assert trashed_keys(store) == ["k"]


def test_purge_reports_a_document_once_that_is_stored_and_in_the_trash(store: Store) -> None:
    [first] = stored(store, entry("k", "old ", "text"))
    delete(store, [first.id])
    stored(store, entry("k", "new", id=first.id))
    purged = delete(store, [first.id], purge=True)
    assert purged == Deleted(("k",), (first.id,), 1, purged=True)
    assert store.trashed() == []


# relations


def test_an_edge_is_made_once_and_ends_once(store: Store) -> None:
    made = put(store, [an_entity(name) for name in "abc"])
    edges = [Relation("a", "b", "x", "why"), Relation("b", "c", "y")]
    assert relate(store, edges, None) == [True, True]
    assert relate(store, [Relation("a", "b", "x")], None) == [False]
    [edge] = store.relations([made[0].id], EVERYTHING)
    assert edge[:4] == ("a", "b", "x", "why")
    assert (edge.source_id, edge.target_id) == (made[0].id, made[1].id)
    assert unrelate(store, [Relation("a", "b", "x"), Relation("a", "b", "x")], None) == 1
    assert unrelate(store, [Relation("b", "c", "y")], None, end=5) == 1
    assert store.relations(None, Filter()) == []
    assert [row.valid_to for row in store.relations(None, Filter(as_of=4))] == [5]


def test_edges_need_both_ends_in_the_same_project(store: Store) -> None:
    put(store, [an_entity("a"), an_entity("b", project="p")])
    with pytest.raises(NotFound) as refused:
        relate(store, [Relation("a", "a", "self"), Relation("a", "b", "x")], None)
    assert refused.value.notice.subject == "b"
    assert store.relations(None, EVERYTHING) == []


def test_edges_go_and_come_back_with_their_entities(store: Store) -> None:
    made = put(store, [an_entity("a"), an_entity("b")])
    made += put(store, [observation("of a", entity="a", belongs="make")])
    relate(store, [Relation("a", "b", "x", "why")], None)
    gone = delete(store, [made[0].id])
    assert set(gone.ids) == {made[0].id, made[2].id}
    assert store.relations(None, EVERYTHING) == []
    assert {d.id for d in undo(store)} == set(gone.ids)
    assert [edge[:4] for edge in store.relations(None, EVERYTHING)] == [("a", "b", "x", "why")]
    assert text_of(store, "a") == "a (Generic)\n- of a"
    assert is_sound(store)


# a busy store


def test_a_store_that_another_process_writes_to_is_busy_for_the_impatient(tmp_path: Path) -> None:
    """A read is not worth waiting for: counting it may be left out."""
    path = str(tmp_path / "memory.db")
    here, there = SQLiteStore(path, timeout=5.0), SQLiteStore(path, timeout=5.0)
    write(here, entry("a", "a"))
    [ref] = refs_of(here, "a")
    with there.transaction() as tx:
        tx.remember(chunker="1")
        with pytest.raises(StoreBusy), here.transaction(patient=False):
            pass
    with here.transaction(patient=False) as tx:
        tx.touch([[ref]])
    use = here.hydrate([ref], ranking=True)[ref].use
    assert use is not None
    assert use.reads == 1
    here.close()
    there.close()


# messages


def message(key: str | None, text: str, **fields: Any) -> Change:
    return Change(entry(key, text, **{"kind": "message", "session": "talk", **fields}))


def turns_of(store: Store, changed: list[Changed]) -> list[int | None]:
    return [document.turn for document in store.load([done.id for done in changed])]


def test_messages_of_one_transaction_are_numbered_like_those_of_several(store: Store) -> None:
    def say(key: str, turn: int | None = None, session: str = "talk") -> Change:
        return message(key, key, turn=turn, session=session)

    put(store, [say("first"), say("second")])
    batch = [
        say("wanted", 7),
        say("after"),
        say("taken", 2),
        say("between", 5),
        say("far", 40),
        say("last"),
        say("elsewhere", session="other"),
    ]
    assert turns_of(store, put(store, batch)) == [7, 8, 9, 10, 40, 41, 1]
    assert turns_of(store, put(store, [say("next")])) == [42]


def test_a_note_that_becomes_a_message_is_the_next_turn(store: Store) -> None:
    put(store, [message("other", "hello"), message("k", "x", kind="note")])
    assert turns_of(store, put(store, [message("k", "y")])) == [2]
    assert turns_of(store, put(store, [message("k", "z", kind="note")])) == [None]


@pytest.mark.parametrize("fields", [{"kind": "note"}, {"session": None}])
def test_only_a_message_of_a_session_has_a_turn(store: Store, fields: Fields) -> None:
    put(store, [message("a", "hello"), message("b", "bye", **fields)])
    written = put(store, [message("c", "a text", turn=1, **fields)])
    assert turns_of(store, written) == [None]
    [ref] = refs_of(store, "c")
    assert store.turns([ref]) == {}
