"""Many processes, one file: no write is lost, doubled, undead, seen half-done or refused."""

import re
from pathlib import Path

import pytest

from plait.stores.sqlite import connection, scanning
from tests.reliability import ledger_child, memories, plants
from tests.reliability.processes import Child, children, posix_only
from tests.reliability.scale import SCALE

pytestmark = [posix_only, pytest.mark.slow, pytest.mark.unmeasured]

READERS = 2
NEWCOMERS = 8


def load(path: Path, seconds: float, plant: str = "") -> list[str]:
    """Put a memory under load; everything that was wrong during or after it."""
    # Some bugs lie in the file that is made: an honest reader that opens first must not make it.
    with plants.planted(plant):
        memories.open_memory(path).close()
    writers = [
        Child(ledger_child.write, path, number, seconds, plant)
        for number in range(ledger_child.WRITERS)
    ]
    readers = [Child(ledger_child.read, path, number, seconds) for number in range(READERS)]
    problems: list[str] = []
    ledger: memories.Contents = {}
    with children(*writers, *readers) as everybody:
        for child in everybody:
            child.expect("ready")
        for child in everybody:
            child.tell("go")
        for child in everybody:
            child.finish()
            problems += child.errors()
    for child in writers:
        for _, written, operations in child.messages if not child.errors() else ():
            ledger |= written
            assert operations > 0
    for child in readers:
        for _, broken, searches, hits in child.messages if not child.errors() else ():
            problems += broken
            assert searches > 0
            assert hits > 0
    with memories.open_memory(path) as memory:
        problems += [*memories.differences(memory, ledger), *memories.faults(memory)]
    return problems


def start_together(path: Path, plant: str = "") -> list[str]:
    """Several processes open an absent memory at once; everything that was wrong."""
    problems: list[str] = []
    newcomers = [Child(ledger_child.start_first, path, n, plant) for n in range(NEWCOMERS)]
    with children(*newcomers):
        for child in newcomers:
            child.expect("ready")
        for child in newcomers:
            child.tell("go")
        for child in newcomers:
            child.finish()
            problems += child.errors()
    expected = {f"note:first{n}": memories.prose(f"first{n}") for n in range(NEWCOMERS)}
    with memories.open_memory(path) as memory:
        problems += [*memories.differences(memory, expected), *memories.faults(memory)]
    return problems


def test_four_writers_and_two_readers_agree_with_their_ledgers(tmp_path):
    assert load(tmp_path / "memory.db", SCALE.load_seconds) == []


def test_eight_processes_may_start_at_once_on_a_file_that_does_not_exist(tmp_path):
    for number in range(SCALE.first_starts):
        assert start_together(tmp_path / f"{number}" / "memory.db") == []


@pytest.mark.parametrize("change", ["delete", "replace"])
def test_a_document_that_changes_while_it_is_read_is_read_whole(tmp_path, monkeypatch, change):
    path, text = tmp_path / "memory.db", "---\ntitle: Old\n---\n" + memories.prose("old")
    honest = connection.rows

    def interrupted(connection, sql, *values):
        listed = honest(connection, sql, *values)
        if sql == scanning._LOAD:
            monkeypatch.undo()
            if change == "delete":
                other.delete("note")
            else:
                other.store(memories.prose("new"), key="note")
        return listed

    with memories.open_memory(path) as memory, memories.open_memory(path) as other:
        memory.store(text, key="note")
        monkeypatch.setattr(scanning, "rows", interrupted)
        assert memory.get("note").text == text


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        ("deferred begin", "locked"),
        # Said by doctor, or by a reader before an opening process has mended the index.
        ("no delete trigger", "keyword index|postings without"),
        ("replace documents", "vectors without a passage"),
    ],
)
def test_the_load_test_catches(tmp_path, plant, complaint):
    # A busy machine may leave a short load no chance of a collision; a second and third do.
    problems: list[str] = []
    for attempt in range(5):
        problems += load(tmp_path / f"{attempt}.db", 1.0, plant)
        if any(re.search(complaint, problem) for problem in problems):
            return
    pytest.fail(f"not seen: {problems}")
