"""Ctrl-C in the middle of a large delete: what was done is told, and the same command goes on."""

import pytest

from plait.memory import Memory
from plait.present.text import NAMES_SHOWN
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Document
from plait.types.reports import NewEntity
from plait.writing import deleting

SLICES = 3
MANY = SLICES * deleting.SLICE_DOCUMENTS


def interrupt(monkeypatch, method: str, call: int) -> None:
    """Press Ctrl-C when a method of the store is called for the given time."""
    calls = iter(range(1, 1_000))
    usual = getattr(SQLiteStore, method)

    def pressed(store, *args, **options):
        if next(calls) == call:
            raise KeyboardInterrupt
        return usual(store, *args, **options)

    monkeypatch.setattr(SQLiteStore, method, pressed)


@pytest.fixture
def filled(plait, work, monkeypatch):
    """A memory of many notes."""
    monkeypatch.setenv("PLAIT_EMBEDDING_PROVIDER", "none")
    with Memory.open(project="") as memory:
        memory.store_many(
            Document(key=f"n{number}", text=f"Note {number}.", tags=("old",))
            for number in range(MANY)
        )
    return plait


@pytest.mark.parametrize("purge", [(), ("--purge", "--yes")], ids=["trash", "purge"])
def test_a_delete_that_was_stopped_tells_how_far_it_came_and_goes_on(filled, monkeypatch, purge):
    with monkeypatch.context() as patch:
        interrupt(patch, "transaction", 2)
        ran = filled("delete", "--tag", "old", *purge)
    left = MANY - deleting.SLICE_DOCUMENTS
    assert ran.code == 130
    assert ran.err == (
        f"plait: Interrupted: {deleting.SLICE_DOCUMENTS} documents were deleted, {left} are "
        "untouched. Run the same command again to go on.\n"
    )
    assert filled("stats").json["doc_count"] == left
    assert filled("delete", "--tag", "old", *purge).code == 0
    assert filled("stats").json["doc_count"] == 0
    assert filled("doctor").json["ok"]


def test_many_restored_documents_are_counted_and_a_few_are_named(filled):
    filled("delete", "--tag", "old")
    out = filled("delete", "--undo", "--format", "text").out
    assert out.startswith(f"Restored {MANY:,} documents: n")
    assert out.endswith(" …\n") and out.count(", ") == NAMES_SHOWN - 1


@pytest.mark.parametrize("method", ["transaction", "scan", "load"])
def test_before_the_first_slice_nothing_was_deleted(filled, monkeypatch, method):
    with monkeypatch.context() as patch:
        interrupt(patch, method, 1)
        ran = filled("delete", "--tag", "old")
    assert (ran.code, ran.err) == (130, "plait: Interrupted: nothing was deleted.\n")
    assert filled("stats").json["doc_count"] == MANY


@pytest.mark.parametrize("method", ["transaction", "trashed"])
def test_before_the_first_slice_nothing_was_restored(filled, monkeypatch, method):
    filled("delete", "--tag", "old")
    with monkeypatch.context() as patch:
        interrupt(patch, method, 1)
        ran = filled("delete", "--undo")
    assert (ran.code, ran.err) == (130, "plait: Interrupted: nothing was restored.\n")
    assert filled("stats").json["doc_count"] == 0


@pytest.mark.parametrize("purge", [False, True], ids=["trash", "purge"])
def test_each_slice_tells_how_far_a_delete_is(filled, purge):
    told: list[tuple[int, int]] = []

    def show(done: int, total: int, _: str) -> None:
        told.append((done, total))

    size = deleting.SLICE_DOCUMENTS
    steps = [(number * size, MANY) for number in range(1, SLICES + 1)]
    with Memory.open(project="") as memory:
        memory.delete(where={"tags": "old"}, purge=purge, progress=show)
        assert told == [*steps, (MANY, MANY)] if purge else steps
        if not purge:
            told.clear()
            memory.undo(progress=show)
            assert told == steps


def test_a_purge_that_was_stopped_before_the_bytes_were_cleared_says_so(filled, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt(patch, "tidy", 1)
        ran = filled("delete", "--tag", "old", "--purge", "--yes")
    assert ran.code == 130
    assert f"{MANY} documents were deleted" in ran.err and "plait doctor --fix" in ran.err
    assert not filled("doctor").json["ok"] or "interrupted" in filled("doctor").out
    assert filled("doctor", "--fix").code == 0
    assert filled("doctor").json["ok"]


def test_the_library_and_entities_tell_it_too(filled, monkeypatch):
    with Memory.open(project="") as memory:
        memory.graph.create(
            NewEntity(f"E{number}", "thing", ("A fact.",)) for number in range(MANY // 2)
        )
        names = [entity.name for entity in memory.graph.read().entities]
        with monkeypatch.context() as patch:
            interrupt(patch, "transaction", 2)
            with pytest.raises(KeyboardInterrupt, match="documents were deleted"):
                memory.graph.delete(names)
        memory.graph.delete(names)
        assert not memory.graph.read().entities
