"""A full or failing disk: one clear error, nothing acknowledged lost, and room is all it takes."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from plait.errors import StoreError, StoreFull
from plait.memory import Memory
from tests.reliability import full_disk_child, memories, plants, power, restore_child
from tests.reliability.processes import Child, children, posix_only
from tests.reliability.scale import SCALE

pytestmark = [posix_only, pytest.mark.slow]

OPERATIONS = ["create", "store", "ingest", "reindex", "backup"]
LARGEST = 700_000  # bytes: about what the file and its journal need at the start
LIMITS = [LARGEST * number // SCALE.full_disks for number in range(SCALE.full_disks)]


def fill_disk(path: Path, operation: str, limit: int, plant: str = "") -> tuple[int, list[str]]:
    """How often the disk was full, and everything that was wrong then or later."""
    with children(Child(full_disk_child.live, path, operation, limit, plant)) as (child,):
        child.finish()
    problems = child.errors()
    problems += [message[1] for message in child.messages if message[0] == "wrong"]
    full = [message[1] for message in child.messages if message[0] == "full"]
    problems += [f"does not name the file: {words}" for words in full if path.name not in words]
    ledger = {message[1]: message[2] for message in child.messages if message[0] == "promise"}
    with memories.open_memory(path) as memory:
        problems += [*memories.differences(memory, ledger), *memories.faults(memory)]
    for copy in path.parent.glob("copy*.db"):
        with memories.open_memory(copy) as memory:
            problems += [f"{copy.name}: {fault}" for fault in memories.faults(memory)]
    problems += [f"left behind: {file.name}" for file in path.parent.glob("*.partial")]
    return len(full), problems


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_full_disk_is_said_clearly_and_costs_nothing_acknowledged(tmp_path, operation):
    full = 0
    for limit in LIMITS:
        folder = tmp_path / f"{limit}"
        folder.mkdir()
        times, problems = fill_disk(folder / "memory.db", operation, limit)
        assert problems == [], f"{operation} with room for {limit} bytes per file"
        full += times
    assert full >= len(LIMITS) // 2


@pytest.mark.parametrize("leftover", [False, True])
def test_a_memory_on_a_full_disk_is_opened_to_be_read_and_written_once_there_is_room(
    tmp_path, leftover
):
    path = tmp_path / "memory.db"
    with memories.open_memory(path) as memory:
        memory.store("the harbour opens at six", key="old")
    if leftover:  # of a process that could not open it
        path.with_name("memory.db-wal").touch()
        path.with_name("memory.db-shm").write_bytes(b"abc")
    with children(Child(full_disk_child.begin_full, path)) as (child,):
        child.finish()
    assert child.errors() == []
    told = child.messages
    assert told[:3] == [("notices", ["disk_full"]), ("found", ["old"]), ("counted", 1, 1)]
    assert [row[0] for row in told[3:5]] == ["full", "full"]
    assert all("Free some space and retry." in row[1] for row in told[3:5])
    assert told[5:] == [("later", ["new", "old"])]
    with memories.open_memory(path) as memory:
        assert memories.faults(memory) == []


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        ("errors swallowed", "lost"),
        ("engine errors", "apsw."),
    ],
)
def test_the_full_disk_catches(tmp_path, plant, complaint):
    problems = []
    for limit in (100_000, 300_000):
        folder = tmp_path / f"{limit}"
        folder.mkdir()
        problems += fill_disk(folder / "memory.db", "store", limit, plant)[1]
    assert any(complaint in problem for problem in problems), problems


FAULTS: dict[str, Callable[[Memory], object]] = {
    "store": lambda memory: memory.store(memories.prose("fresh", 20), key="fresh"),
    "replace": lambda memory: memory.store(memories.prose("other", 20), key="k1"),
    "delete": lambda memory: memory.delete("k1", "k2"),
}


def fail_once(path: Path, act: Callable[[Memory], object], call: int) -> tuple[bool, list[str]]:
    """One write or sync of an operation fails; whether one did, and all that was wrong."""
    problems: list[str] = []
    with power.failing() as fault:
        memory = memories.open_specially(path, vfs=power.FAULTY)
        before = memories.contents(memory)
        fault.arm(call)
        failed = False
        try:
            act(memory)
        except StoreError:
            failed = True
        happened = fault.disarm()
        if happened != failed:
            problems.append("the failure was not reported" if happened else "a failure of our own")
        # subtle: re-opening here would bring the commit back, for its frames are in the journal.
        # The handle stays; the next write goes over them.
        after = memories.contents(memory)
        if failed and after != before:
            problems.append("reported as failed, and done all the same")
        problems += memories.faults(memory)
        memory.store(memories.prose("last"), key="last")
        after["note:last"] = memories.prose("last")
        memory.close()
    with memories.open_memory(path) as memory:
        problems += [*memories.differences(memory, after), *memories.faults(memory)]
    return happened, problems


@pytest.mark.parametrize("operation", FAULTS)
def test_a_single_failed_write_or_sync_is_reported_and_never_half_applied(tmp_path, operation):
    base = tmp_path / "base.db"
    with memories.open_memory(base) as memory:
        for number in range(4):
            memory.store(memories.prose(f"k{number}"), key=f"k{number}")
        memory.doctor(fix=True)
    call = 1
    while True:
        path = tmp_path / f"{call}.db"
        shutil.copyfile(base, path)
        happened, problems = fail_once(path, FAULTS[operation], call)
        assert problems == [], f"call {call} failed"
        if not happened:
            break
        call += 1
    assert call > 5


def test_the_failing_disk_catches_errors_that_are_swallowed(tmp_path):
    path = tmp_path / "memory.db"
    with memories.open_memory(path) as memory:
        memory.store(memories.prose("k1"), key="k1")
    with plants.planted("errors swallowed"):
        _, problems = fail_once(path, FAULTS["store"], 3)
    assert "the failure was not reported" in problems


def test_the_room_of_a_journal_that_a_kill_left_is_freed_at_the_first_failure(tmp_path):
    path = tmp_path / "memory.db"
    with memories.open_memory(path) as memory:
        memory.store(memories.prose("first"), key="first")
    Child(restore_child.write_and_die, path, 40).finish()
    room = path.with_name("memory.db-wal").stat().st_size
    with power.small(room):
        memory = memories.open_specially(path, vfs=power.SMALL)
        with pytest.raises(StoreFull):
            memory.store(memories.prose("last"), key="last")
        memory.store(memories.prose("last"), key="last")  # nobody freed anything, and now it goes
        memory.close()
    with memories.open_memory(path) as memory:
        assert memories.faults(memory) == []
        assert len(memories.documents(memory)) == 42


def left_by_a_kill(path: Path, *, moved: int, more: int) -> int:
    """A memory with 90 documents to delete and a journal; return the size of that journal.

    The journal had so many documents that are in the file, and has so many that are not.
    """
    with memories.open_memory(path, durability="normal") as memory:
        for number in range(90):
            memory.store(memories.prose(f"k{number}"), key=f"k{number}", tags=["gone"])
    Child(full_disk_child.write_and_die, path, moved, more).finish()
    return path.with_name("memory.db-wal").stat().st_size


@pytest.mark.parametrize("room", [0, 7, 60])
def test_a_purge_goes_on_while_the_journal_fills_the_disk(tmp_path, room):
    path = tmp_path / "memory.db"
    left_by_a_kill(path, moved=60, more=20)
    with power.full(room * 4096):
        memory = memories.open_specially(path, vfs=power.FULL)
        assert len(memory.delete(where={"tags": ("gone",)}, purge=True).ids) == 90
        memory.close()
    with memories.open_memory(path) as memory:
        assert memories.faults(memory) == []
        assert len(memories.documents(memory)) == 80


@pytest.mark.parametrize("act", ["delete", "store", "doctor"])
def test_where_even_the_journal_cannot_be_emptied_the_error_says_how_much_to_free(tmp_path, act):
    path = tmp_path / "memory.db"
    # Far from 1,000 pages, at which SQLite moves the journal into the file by itself.
    journal = left_by_a_kill(path, moved=0, more=25)
    acts: dict[str, Callable[[Memory], object]] = {
        "delete": lambda memory: memory.delete(where={"tags": ("gone",)}, purge=True),
        "store": lambda memory: memory.store(memories.prose("last"), key="last"),
        "doctor": lambda memory: memory.doctor(fix=True),
    }
    with power.full(0) as disk:
        memory = memories.open_specially(path, vfs=power.FULL)
        with pytest.raises(StoreFull) as error:
            acts[act](memory)
        named = re.search(r"Free ([0-9.]+) MB, the size", error.value.notice.text)
        assert named is not None
        assert journal <= float(named[1]) * 1_000_000 < journal + 100_000
        disk.room = journal
        acts[act](memory)
        memory.close()
    with memories.open_memory(path) as memory:
        assert memories.faults(memory) == []
