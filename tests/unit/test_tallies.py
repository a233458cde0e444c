"""The counts that a memory keeps of its documents: always right, and read without counting."""

from pathlib import Path

import apsw
import pytest

from plait.errors import StoreDamaged
from plait.memory import Memory
from plait.stores.sqlite import connection as opening
from plait.stores.sqlite import schema, tallies
from plait.stores.sqlite.store import SQLiteStore
from plait.types import EVERYTHING
from plait.types.reports import NewEntity, Stats
from tests.builders import delete, entry, write
from tests.unit.test_tags import insert, of_version_7


@pytest.fixture
def store(tmp_path: Path) -> SQLiteStore:
    return SQLiteStore(str(tmp_path / "memory.db"))


def shape(stats: Stats) -> tuple[object, ...]:
    return stats.doc_count, stats.chunk_count, stats.kinds, stats.projects, stats.sources


def test_the_kept_counts_are_those_of_the_documents_after_every_kind_of_change(
    store: SQLiteStore,
) -> None:
    def check(number: int) -> None:
        kept = store.stats()
        assert kept.doc_count == number
        assert shape(kept) == shape(store.stats(EVERYTHING))
        assert tallies.are_right(store._connections.get())

    check(0)
    write(store, entry("a", "apple", source="/notes", kind="file"), entry("b", "pie", project="p"))
    check(2)
    write(store, entry("a", "apple tart", source="/notes", kind="file"))  # in its own place
    check(2)
    [document] = [row for row in store.scan(EVERYTHING) if row.key == "b"]
    with store.transaction() as tx:
        tx.amend(document.id, project="q", kind="observation")
    assert dict(store.stats().projects) == {None: 1, "q": 1}
    check(2)
    delete(store, "a")
    assert store.stats().sources == ()
    check(1)
    delete(store, "b")
    check(0)
    assert not store._connections.get().execute("SELECT 1 FROM tallies").fetchall()
    store.close()


def test_every_verb_keeps_the_counts(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", embedder="none", project="p") as memory:
        memory.graph.create([NewEntity("Ada", "person", ("likes tea",)), NewEntity("Bob")])
        memory.store("Ada likes coffee", entity="Ada")
        memory.add_messages([{"role": "user", "content": "hello"}], session="s")
        memory.store("We deploy on Fridays", topic="deploys")
        memory.store("We deploy on Mondays", topic="deploys")
        memory.graph.delete(["Bob"])
        memory.delete(memory.store("gone").id, purge=True)
        kept = memory.stats()
        assert shape(kept) == shape(memory.engine.stats(EVERYTHING))
        assert dict(kept.kinds) == {"observation": 4, "entity": 1, "message": 1}
        assert kept.sources == ()


def test_undo_brings_the_counts_back(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        memory.store("apple", key="a")
        memory.store("pie")
        before = shape(memory.stats())
        memory.delete("a")
        assert memory.stats().doc_count == 1
        memory.undo()
        assert shape(memory.stats()) == before


def test_an_older_file_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    connection = of_version_7(path)
    for number in range(3):
        insert(connection, number, "[]")
    connection.execute("UPDATE documents SET kind = 'file', source = '/notes' WHERE key = 'k0'")
    connection.execute("UPDATE documents SET project = 'p' WHERE key = 'k1'")
    connection.close()
    store = SQLiteStore(str(path))
    assert store.stats().schema == opening.SCHEMA_VERSION == len(schema.MIGRATIONS)
    assert shape(store.stats()) == shape(store.stats(EVERYTHING))
    assert (dict(store.stats().kinds), dict(store.stats().sources)) == (
        {"note": 2, "file": 1},
        {"/notes": 1},
    )
    write(store, entry("c", "cherry"))
    assert store.stats().doc_count == 4
    store.close()


def steps_of_stats(store: SQLiteStore) -> int:
    """How many instructions SQLite runs for the counts of the whole memory."""
    steps = 0

    def note(event: dict[str, object]) -> None:
        nonlocal steps
        status = event["stmt_status"]
        assert isinstance(status, dict)
        steps += status["SQLITE_STMTSTATUS_VM_STEP"]

    connection = store._connections.get()
    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    store.stats()
    connection.trace_v2(0, None)
    return steps


def test_the_counts_of_a_memory_cost_the_same_at_any_size(store: SQLiteStore) -> None:
    write(store, *(entry(f"a{number}", "apple") for number in range(3)))
    few = steps_of_stats(store)
    write(store, *(entry(f"b{number}", "berry") for number in range(300)))
    assert 0 < steps_of_stats(store) <= few + 5
    assert store.stats().doc_count == 303
    store.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE tallies SET documents = 9",
        "UPDATE tallies SET documents = -5",
        f"UPDATE tallies SET documents = {2**63 - 1}",
        "UPDATE tallies SET documents = 'many' WHERE part = 'kind'",
        "UPDATE tallies SET documents = 1.5 WHERE part = 'kind'",
        "INSERT INTO tallies VALUES ('size', 'x', 1)",
        "DELETE FROM tallies WHERE part = 'kind'",
        "INSERT INTO tallies VALUES ('source', '/gone', 1)",
        "UPDATE tallies SET name = x'ff' WHERE part = 'project'",
    ],
)
def test_doctor_counts_again_what_is_wrong(store: SQLiteStore, damage: str) -> None:
    write(store, entry("a", "apple"), entry("b", "pie", kind="observation"))
    expected = shape(store.stats())
    store._connections.get().execute(damage)
    assert any(finding.level != "ok" for finding in store.check())
    assert any(finding.fixed for finding in store.check(fix=True))
    assert {finding.level for finding in store.check()} == {"ok"}
    assert shape(store.stats()) == expected
    store.close()


@pytest.mark.parametrize("count", [-5, 0, "'many'", 1.5, 2**63 - 1, "x'00'"])
def test_counts_that_no_memory_has_are_damage_or_ignored(store: SQLiteStore, count: object) -> None:
    write(store, entry("a", "apple"), entry("b", "pie", kind="observation"))
    store._connections.get().execute(f"UPDATE tallies SET documents = {count} WHERE part = 'kind'")
    if count == 2**63 - 1:
        assert store.stats().doc_count == 2 * count  # wrong, but a number
    else:
        with pytest.raises(StoreDamaged):
            store.stats()
    write(store, entry("c", "cherry"))
    delete(store, "a")
    store.check(fix=True)
    assert store.stats().doc_count == 2
    store.close()


def test_passages_of_documents_that_add_up_to_no_number_are_damage(store: SQLiteStore) -> None:
    write(store, entry("a", "apple"), entry("b", "pie"))
    store._connections.get().execute(f"UPDATE documents SET chunk_count = {2**63 - 1}")
    with pytest.raises(StoreDamaged):
        store.stats(EVERYTHING)
    store.check(fix=True)
    assert store.stats(EVERYTHING).chunk_count == 2
    store.close()


def test_a_purge_leaves_no_name_in_the_counts(tmp_path: Path) -> None:
    path, folder = tmp_path / "memory.db", tmp_path / "zebrafinch"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.md").write_text(f"{name} pie", encoding="utf-8")
    with Memory.open(path, embedder="none", project="p") as memory:
        memory.ingest(folder)
        memory.delete("a.md", purge=True)
        assert [count for _, count in memory.stats().sources] == [1]
        memory.delete("b.md", purge=True)
        assert (memory.stats().sources, memory.stats().projects) == ((), ())
    # The audit notes of a purge in which project it was, and nothing else.
    assert b"zebrafinch" not in path.read_bytes()
