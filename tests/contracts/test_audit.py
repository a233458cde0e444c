"""The audit log: every change of a document, who made it and by which door, until it is purged."""

import pytest

from plait.protocols import Store
from plait.text import clean
from plait.types import Document
from plait.types.audit import AuditEntry, AuditQuery, acting
from plait.types.relations import Relation
from plait.writing import deleting, undoing
from tests.builders import NOW, Engine, delete, entry, refs_of, write

ALL = AuditQuery()


def entries(store: Store, **wanted: object) -> list[AuditEntry]:
    return store.audit(AuditQuery(**wanted), 100)  # type: ignore[arg-type]


def test_a_change_is_told_with_its_door_verb_session_and_hashes(store: Store) -> None:
    with acting("store", door="mcp", session="s1"):
        [done] = write(store, entry("k", "apple", origin="agent", project="p", sha256="1"))
    [first] = entries(store)
    assert (first.origin, first.door, first.verb, first.session) == ("agent", "mcp", "store", "s1")
    assert (first.project, first.document) == ("p", done.id)
    assert first.before is None
    assert first.after is not None
    assert len(first.after) == 16
    with acting("store", door="cli"):
        write(store, entry("k", "pear", project="p", session="of its own", sha256="2"))
    second, _ = entries(store)
    assert (second.origin, second.door, second.session) == ("user", "cli", "of its own")
    assert second.before == first.after != second.after
    with acting("delete", door="mcp"):
        delete(store, done.id)
    last = entries(store)[0]
    assert (last.origin, last.verb, last.before, last.after) == (
        *("agent", "delete", second.after, None),
    )


def test_each_text_of_a_batch_is_its_own_writers(store: Store) -> None:
    ids = ["aaaaaaaaaaaaa", "bbbbbbbbbbbbb", "ccccccccccccc"]
    write(store, entry("old", "x", id=ids[2], origin="import"))
    with acting("store", door="cli"), store.transaction() as tx:
        tx.write(entry("question", "when?", id=ids[0], origin="user"))
        tx.write(entry("answer", "now", id=ids[1], origin="agent"))
        tx.amend(ids[2], status="done")
    told = {row.document: row.origin for row in entries(store, verbs=("store",))}
    assert told == {ids[0]: "user", ids[1]: "agent", ids[2]: "user"}


def test_an_undo_is_the_act_of_who_undoes_and_not_of_who_wrote(store: Store) -> None:
    [done] = write(store, entry("k", "apple", origin="file"))
    deleting.delete(store, [done.id])
    with acting("undo", door="cli"):
        undoing.undo(store, [done.id])
    assert (entries(store)[0].verb, entries(store)[0].origin) == ("undo", "user")


@pytest.mark.parametrize("name", ["half \ud800", "a\0b"])
def test_a_session_is_named_as_its_documents_name_it(store: Store, name: str) -> None:
    with acting("store", door="tools", session=name):
        write(store, entry("k", "apple"))
    assert entries(store)[0].session == clean(name)


def test_what_stays_the_same_is_not_told(store: Store) -> None:
    write(store, entry("k", "apple", sha256="1", indexed_at=1))
    write(store, entry("k", "apple", sha256="1", indexed_at=2, updated_at=3))
    assert len(entries(store)) == 1


def test_a_failed_transaction_leaves_no_entry(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.write(entry("k", "apple", id="aaaaaaaaaaaaa"))
        _ = 1 // 0
    assert entries(store) == []


def test_several_changes_of_one_document_are_one_entry(store: Store) -> None:
    with store.transaction() as tx:
        tx.write(entry("k", "apple", id="aaaaaaaaaaaaa"))
        tx.amend("aaaaaaaaaaaaa", status="done")
        tx.amend("nobodynobody2", status="done")
    [told] = entries(store)
    assert told.before is None
    with store.transaction() as tx:
        tx.amend("aaaaaaaaaaaaa", status="archived")
    changed = entries(store)[0]
    assert changed.before == told.after != changed.after
    with store.transaction() as tx:
        tx.amend("aaaaaaaaaaaaa", status="done")
    assert entries(store)[0].after == told.after


def test_edges_and_feedback_are_told_for_their_documents(store: Store) -> None:
    ids = ["aaaaaaaaaaaaa", "bbbbbbbbbbbbb"]
    write(store, *[entry(id_, "x", id=id_, kind="entity") for id_ in ids])
    edge = Relation("a", "b", "knows", source_id=ids[0], target_id=ids[1])
    with store.transaction() as tx:
        tx.put_edge(edge)
    assert {row.document for row in entries(store)[:2]} == {*ids}
    with store.transaction() as tx:
        tx.drop_edge(edge)
    assert [row.after for row in entries(store)[:2]] == [None, None]
    [ref] = refs_of(store, ids[0])
    with store.transaction() as tx:
        tx.judge([ref], good=1)
    told = entries(store)[0]
    assert (told.document, told.before) == (ids[0], None)
    assert told.after is not None
    with store.transaction() as tx:
        tx.judge([ref])
    assert entries(store)[0].after is None


def test_a_purge_erases_the_entries_of_its_documents_and_tells_that_it_was(store: Store) -> None:
    write(store, entry("k", "apple", id="aaaaaaaaaaaaa"), entry("m", "pear", id="bbbbbbbbbbbbb"))
    with acting("delete", door="cli"), store.transaction() as tx:
        tx.delete(["aaaaaaaaaaaaa"])
        tx.forget(["aaaaaaaaaaaaa"])
    purge, other = entries(store)
    assert (purge.verb, purge.document, purge.door) == ("purge", "", "cli")
    assert other.document == "bbbbbbbbbbbbb"


def test_a_purge_is_told_in_the_project_of_its_documents(store: Store) -> None:
    homes = {"aaaaaaaaaaaaa": "p", "bbbbbbbbbbbbb": "p", "ccccccccccccc": None}
    write(store, *[entry(id_, "x", id=id_, project=home) for id_, home in homes.items()])
    with acting("delete", session="s"), store.transaction() as tx:
        tx.delete([*homes])
        tx.forget([*homes])
    assert {(row.verb, row.project, row.session) for row in entries(store)} == {
        *[("purge", "p", "s"), ("purge", None, "s")]
    }
    assert len(entries(store, projects=("p",))) == 1
    assert entries(store, projects=("q",)) == []


def test_who_wrote_each_text_is_told_for_each(store: Store) -> None:
    origins = {"aaaaaaaaaaaaa": "user", "bbbbbbbbbbbbb": "web", "ccccccccccccc": "agent"}
    write(store, *[entry(id_, "x", id=id_, origin=who) for id_, who in origins.items()])
    assert {row.document: row.origin for row in entries(store)} == origins


def test_a_project_can_be_dropped(store: Store) -> None:
    write(store, entry("k", "apple", project="p"), entry("m", "pear"))
    with store.transaction() as tx:
        tx.unrecord("p")
    assert [row.project for row in entries(store)] == [None]


def test_entries_are_selected_by_every_field(engine: Engine) -> None:
    moments = [NOW]
    store = engine(clock=lambda: moments[-1])
    with acting("store", door="cli"):
        [done] = write(store, entry("a", "a", project="p", session="s"))
    moments.append(NOW + 10)
    with acting("ingest", door="import"):
        write(store, entry("b", "b", origin="web"), entry("c", "c", project="scope:u"))
    cases: list[tuple[dict[str, object], int]] = [
        ({"documents": (done.id,)}, 1),
        ({"projects": ("p", None)}, 2),
        ({"projects": ("q",)}, 0),
        ({"scopes": False}, 2),
        ({"verbs": ("store",)}, 1),
        ({"doors": ("import", "hook")}, 2),
        ({"origins": ("web",)}, 1),
        ({"session": "s"}, 1),
        ({"since": NOW + 10}, 2),
    ]
    for wanted, count in cases:
        assert len(entries(store, **wanted)) == count, wanted
    assert len(store.audit(ALL, 1)) == 1
    store.close()


def test_feedback_is_counted_and_taken_back(store: Store) -> None:
    write(store, entry("a", "a"), entry("b", "b"))
    a, b = refs_of(store, "a", "b")
    with store.transaction() as tx:
        tx.judge([a, a], good=1)
        tx.judge([a], wrong=2)
        tx.judge([10_000], wrong=2)  # deleted in the meantime
    rows = store.hydrate([a, b], ranking=True)
    use = rows[a].use
    assert use is not None
    assert (use.good, use.wrong, use.reads, use.last_read) == (1, 2, 0, None)
    assert rows[b].use is None
    with store.transaction() as tx:
        tx.touch([[a]])
        tx.judge([a])
    use = store.hydrate([a], ranking=True)[a].use
    assert use is not None
    assert (use.good, use.wrong, use.reads, use.days) == (0, 0, 1, 1)
    with store.transaction() as tx:
        tx.judge([b], good=1)
        tx.judge([b])
    assert store.hydrate([b], ranking=True)[b].use is None


def test_a_status_is_stored_and_changed(store: Store) -> None:
    [done] = write(store, entry("a", "a", status="done"))
    assert store.load([done.id])[0].status == "done"
    with store.transaction() as tx:
        tx.amend(done.id, status=None)
    assert store.known([Document(id=done.id)])[0].status is None  # type: ignore[union-attr]


def test_a_delete_that_is_undone_keeps_use_and_feedback(store: Store) -> None:
    [done] = write(store, entry("a", "a"))
    [ref] = refs_of(store, "a")
    with store.transaction() as tx:
        tx.touch([[ref]])
        tx.judge([ref], wrong=2)
    before = store.hydrate([ref], ranking=True)[ref].use
    deleting.delete(store, [done.id])
    assert store.trashed()[0].use
    undoing.undo(store, [done.id])
    [ref] = refs_of(store, "a")
    assert store.hydrate([ref], ranking=True)[ref].use == before
