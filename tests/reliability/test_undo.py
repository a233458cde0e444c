"""A large undo: in slices like a delete, so that others can write in between; it can be resumed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from plait.memory import Memory
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Document
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from plait.writing import deleting
from tests.builders import EVERYTHING
from tests.reliability import memories

SLICE = deleting.SLICE_DOCUMENTS
MANY = 2 * SLICE + 10


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.setattr(deleting, "TURN_S", 0.0)
    with memories.open_memory(tmp_path / "memory.db", durability="normal") as opened:
        yield opened


def fill(memory: Memory, text: str = "Note", count: int = MANY) -> list[str]:
    """Store notes; return their keys in this order."""
    notes = [Document(key=f"n{n:03}", text=f"{text} {n}.", tags=("old",)) for n in range(count)]
    memory.store_many(notes)
    return [note.key or "" for note in notes]


def before_transaction(
    monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[], object]
) -> None:
    """Do something right before the n-th transaction from now, once."""
    calls = iter(range(1, 1_000))
    usual = SQLiteStore.transaction

    def transaction(store: SQLiteStore, **options: bool) -> object:
        if next(calls) == number:
            act()
        return usual(store, **options)

    monkeypatch.setattr(SQLiteStore, "transaction", transaction)


def held(memory: Memory) -> list[tuple[str, ...]]:
    """All documents and edges; an entity that comes back has a new time."""
    edges = [(edge.source, edge.target, edge.type) for edge in memory.graph.read().relations]
    rows = memory.engine.scan(EVERYTHING, whole=True)
    return sorted([*edges, *((row.id, row.key or "", row.text) for row in rows)])


def press_ctrl_c() -> None:
    raise KeyboardInterrupt


def restored_at_once(memory: Memory, act: Callable[[], object]) -> list[int]:
    """How many documents each transaction of an act adds, of those that add any."""
    return memories.documents_per_transaction(memory, act, apsw.SQLITE_INSERT)


def test_no_transaction_restores_more_than_a_slice(memory: Memory) -> None:
    keys = fill(memory)
    memory.delete(where={"tags": ("old",)})
    assert restored_at_once(memory, memory.undo) == [SLICE, SLICE, 10]
    memory.delete(where={"tags": ("old",)})
    assert restored_at_once(memory, lambda: memory.undo(*keys)) == [SLICE, SLICE, 10]
    assert memory.stats().trash_count == 0


def test_long_documents_make_shorter_slices(memory: Memory) -> None:
    for number in range(6):
        memory.store(memories.prose(f"n{number}", 400), key=f"n{number}", tags=["old"])
    chunks = memory.lookup("n0")[0].chunk_count
    memory.delete(where={"tags": ("old",)})
    most = deleting.SLICE_PASSAGES // chunks
    slices = restored_at_once(memory, memory.undo)
    assert max(slices) <= max(most, 1)
    assert sum(slices) == 6


def test_another_memory_writes_between_two_slices(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(memory)
    memory.delete(where={"tags": ("old",)})
    seen = []

    def write_beside() -> None:
        with memories.open_memory(Path(memory.path)) as other:
            seen.append(other.stats().doc_count)
            other.store("A new note has this name.", key=f"n{MANY - 1:03}")

    before_transaction(monkeypatch, 2, write_beside)
    assert len(memory.undo()) == MANY - 1
    assert seen == [SLICE]
    assert memory.get(f"n{MANY - 1:03}").text == "A new note has this name."
    assert memory.stats().trash_count == 1


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("named", [False, True])
def test_an_undo_that_was_stopped_tells_how_far_it_came_and_goes_on(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, number: int, named: bool
) -> None:
    facts = tuple(f"Fact {n} about Ada." for n in range(MANY))
    memory.graph.create([NewEntity("Ada", "person", facts), NewEntity("Bob", "person", ("Tall.",))])
    memory.graph.relate([Relation("Ada", "Bob", "knows")])
    before = held(memory)
    memory.graph.delete(["Ada"])
    names = ("Ada",) if named else ()
    done = (number - 1) * SLICE
    with monkeypatch.context() as patch:
        before_transaction(patch, number, press_ctrl_c)
        with pytest.raises(
            KeyboardInterrupt, match=f"{done} documents were restored, {MANY + 1 - done} are still"
        ):
            memory.undo(*names)
    assert memory.stats().doc_count == done + 2
    memory.undo(*names)
    assert held(memory) == before
    assert memory.stats().trash_count == 0
    assert {row.level for row in memory.doctor()} == {"ok"}


def test_what_could_not_be_restored_stays_when_an_undo_goes_on(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = fill(memory)
    memory.delete(where={"tags": ("old",)})
    memory.store("It has this name now.", key=keys[0])
    with monkeypatch.context() as patch:
        before_transaction(patch, 2, press_ctrl_c)
        with pytest.raises(KeyboardInterrupt):
            memory.undo()
    assert [row.key for row in memory.undo()] == keys[SLICE:]
    [kept] = memory.engine.trashed()
    assert (kept.document.key, kept.document.text) == (keys[0], "Note 0.")
