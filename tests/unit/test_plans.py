"""Statements are compiled once, and none would have a better plan for some values."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from plait.memory import Memory
from plait.types import Filter

Statement = tuple[str, tuple[object, ...]]


@pytest.fixture
def on_connecting() -> Iterator[list[Any]]:
    """What APSW calls with each new connection, and the test adds to."""
    before = list(apsw.connection_hooks)
    yield apsw.connection_hooks
    apsw.connection_hooks[:] = before


def use(path: Path) -> None:
    """Write and read in most ways that choose between indexes."""
    with Memory.open(path, project="harbour") as memory:
        for number in range(12):
            memory.store(f"Crane {number} lifts {number + 3} tons", entity="Crane", topic="load")
            memory.store(f"The tide turned at {number}.", tags=["tide"], session="night")
        memory.store("# Moorings\n\nEight berths.", key="berths.md")
        memory.add_messages([{"role": "user", "content": "Which berth is free?"}], session="talk")
        search(memory)
        for hit in memory.search("tide", limit=2).hits:
            memory.delete(hit.document.id)
        memory.undo()


def search(memory: Memory) -> None:
    for limit in (1, 3, 5):
        memory.search("which crane lifts tons", limit=limit)
        memory.search("tide", limit=limit, where=Filter(tags=("tide",)))
        memory.timeline(limit=limit)
        memory.recall("berths", limit=limit)


@pytest.mark.parametrize("read_only", [False, True])
def test_no_statement_is_compiled_again_for_other_values(
    tmp_path: Path, on_connecting: list[Any], *, read_only: bool
) -> None:
    path = tmp_path / "memory.db"
    use(path)
    seen: list[str] = []
    again: list[str] = []

    def note(event: dict[str, object]) -> None:
        counts = event["stmt_status"]
        assert isinstance(counts, dict)
        seen.append(str(event["sql"]))
        if counts["SQLITE_STMTSTATUS_REPREPARE"]:
            again.append(str(event["sql"]))

    def watch(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)

    on_connecting.append(watch)
    with Memory.open(path, project="harbour", read_only=read_only) as memory:
        search(memory)
    assert any("passages_fts_idx" in sql for sql in seen), "FTS5's own are among them"
    assert not again


def test_no_plan_depends_on_the_values(tmp_path: Path, on_connecting: list[Any]) -> None:
    path = tmp_path / "memory.db"
    seen: dict[Statement, None] = {}

    def note(_: object, sql: str, values: object) -> bool:
        if sql.startswith(("SELECT", "WITH", "UPDATE", "DELETE")) and isinstance(values, tuple):
            seen[sql, values] = None
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    on_connecting.append(watch)
    use(path)
    on_connecting.clear()
    plans = []
    for known in (True, False):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, int(not known))
        plans.append({one: plan_of(connection, *one) for one in seen})
        connection.close()
    assert len(seen) > 100
    for one, plan in plans[0].items():
        assert plans[1][one] == plan, one


def plan_of(connection: apsw.Connection, sql: str, values: tuple[object, ...]) -> list[object]:
    explained = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)
    return [step for *_, step in explained]


@pytest.mark.parametrize("new", ["folder", "file"])
@pytest.mark.parametrize("name", ["new", "M\u00fcller"])
def test_to_ingest_a_new_file_does_not_read_all_known_ones(
    tmp_path: Path, on_connecting: list[Any], new: str, name: str
) -> None:
    known = 40
    for folder, files in (("old", known), (name, 1)):
        (tmp_path / folder).mkdir()
        for number in range(files):
            text = f"# {folder} {number}\n\nCrane {number} lifts {number + 3} tons.\n"
            (tmp_path / folder / f"{number}.md").write_text(text, encoding="utf-8")
    scanned: dict[str, int] = {}

    def note(event: dict[str, Any]) -> None:
        if "FROM documents" in event["sql"]:
            steps = event["stmt_status"]["SQLITE_STMTSTATUS_FULLSCAN_STEP"]
            scanned[event["sql"]] = max(steps, scanned.get(event["sql"], 0))

    with Memory.open(tmp_path / "memory.db", project="harbour") as memory:
        memory.ingest(tmp_path / "old")
    on_connecting.append(lambda connection: connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note))
    with Memory.open(tmp_path / "memory.db", project="harbour") as memory:
        memory.ingest(tmp_path / name if new == "folder" else tmp_path / name / "0.md")
        assert memory.stats().chunk_count == known + 1
    assert any("d.sha256 IN" in sql for sql in scanned), "it looked for files that moved"
    assert max(scanned.values()) < known
