"""Several processes meet the same moved folder at once: nothing doubles, nothing is lost."""

from pathlib import Path

import pytest

from plait.memory import Memory
from plait.types import Filter
from tests.reliability import move_child
from tests.reliability.processes import Child, children, posix_only
from tests.reliability.scale import SOAK

pytestmark = [posix_only, pytest.mark.slow]

COUNT = 30
ROUNDS = 40 if SOAK else 4


def ids_by_key(memory: Memory) -> dict[str | None, str]:
    rows = memory.engine.scan(Filter())
    assert len({row.path for row in rows}) == len(rows)
    return {row.key: row.id for row in rows}


def test_processes_that_meet_one_move_neither_double_nor_lose(tmp_path: Path) -> None:
    database = tmp_path / "memory.db"
    place = tmp_path / "place0"
    for number in range(COUNT):
        path = place / "xyz"[number % 3] / f"n{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\nAbout word{number}.\n", encoding="utf-8")
    with Memory.open(database, embedder="hashing", project="") as memory:
        memory.ingest(place)
        before = ids_by_key(memory)
        assert len(before) == COUNT
    for number in range(1, ROUNDS + 1):
        old, place = place, place.rename(tmp_path / f"place{number}")
        old.mkdir()  # what an unmounted disk or "mv old/* new" leaves behind
        # Narrower, the same twice, and one that takes the old folder for emptied on purpose.
        jobs = [(place / "x", False), (place / "y", False), (place, False), (place, False)]
        jobs.append((old, True))
        started = [Child(move_child.ingest, database, *job) for job in jobs]
        with children(*started):
            for child in started:
                child.expect("ready")
            for child in started:
                child.tell("go")
            for child in started:
                child.finish()
                assert child.errors() == []
        with Memory.open(database, embedder="hashing", project="") as memory:
            memory.ingest(place)
            assert ids_by_key(memory) == before
            assert memory.stats().pending_count == 0
            assert {finding.level for finding in memory.doctor()} == {"ok"}
