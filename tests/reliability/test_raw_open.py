"""The memory's file is opened through SQLite and in no other way."""

import os
import sqlite3
from pathlib import Path

import pytest

from plait.stores.sqlite import migrating, modes
from tests.reliability import memories, raw_open, raw_open_child
from tests.reliability.processes import Child, children, posix_only


def survivors(path: Path, *, sniff: bool) -> int:
    """How many of 41 acknowledged notes outlive a visit by another program and kill -9."""
    writer = Child(raw_open_child.write, path, sniff)
    with children(writer):
        writer.expect("ready")
        visitor = Child(raw_open_child.visit, path)
        with children(visitor):
            visitor.expect("seen")
            visitor.finish()
        writer.tell("go on")
        writer.expect("done")
        writer.kill()
    with memories.open_memory(path) as memory:
        return len(memories.contents(memory))


@posix_only
def test_all_41_of_41_notes_survive_a_visitor_and_kill_9(tmp_path):
    assert survivors(tmp_path / "memory.db", sniff=False) == 41


@posix_only
@pytest.mark.skipif(sqlite3.sqlite_version_info >= (3, 51), reason="newer visitors are careful")
def test_the_same_loses_notes_as_soon_as_the_process_sniffs_at_its_own_file(tmp_path):
    assert survivors(tmp_path / "memory.db", sniff=True) < 41


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_the_alarm_catches_a_plain_open_of_an_open_memory(tmp_path, suffix):
    with memories.open_memory(tmp_path / "memory.db") as memory:
        memory.store("something")
        with pytest.raises(raw_open.RawOpen):
            Path(f"{memory.path}{suffix}").read_bytes()
        with pytest.raises(raw_open.RawOpen):
            os.open(f"{memory.path}{suffix}", os.O_RDONLY)
    assert len(raw_open.alarms()) == 2


def test_the_alarm_catches_plait_itself_even_before_sqlite_has_the_file_open(tmp_path, monkeypatch):
    path = tmp_path / "memory.db"
    memories.open_memory(path).close()
    honest = modes.journal_mode

    def sniffing(place: str) -> str:
        # Plain `open` as modes.py calls it: its frame is what the alarm looks at.
        return honest(modes.file_system(place, mounts=place) or place)

    monkeypatch.setattr(migrating, "journal_mode", sniffing)
    path.unlink()
    with pytest.raises(raw_open.RawOpen, match=r"modes\.py"):
        memories.open_memory(path)
    assert len(raw_open.alarms()) == 1


def test_a_test_may_read_the_file_once_it_is_closed(tmp_path):
    path = tmp_path / "memory.db"
    with memories.open_memory(path) as memory:
        memory.store("something")
    assert path.read_bytes().startswith(b"SQLite format 3")
    assert raw_open.alarms() == []
