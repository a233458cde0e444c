"""Whatever keeps a text beside its document: purged with it, or named in the answer."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from plait.memory import Memory
from plait.protocols import Vector
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.interfaces.command import spawn
from tests.reliability import memories, purge_child, restore_child
from tests.reliability.processes import Child, children, posix_only

pytestmark = [posix_only, pytest.mark.slow]

WORD = "qzbkgdtfplmxw"
TEXT = memories.prose("first", 6) + f"# Section {WORD}\nThe {WORD} is {WORD}.\n"


def look(path: Path) -> list[str]:
    """The files in the folder of a memory with the word in them, read by another process."""
    with children(Child(purge_child.look, path.parent, [WORD])) as (child,):
        places: list[str] = child.expect("places")[1]
        child.finish()
    return sorted(place.partition(" in ")[2] for place in places)


def tables_with_it(memory: Memory) -> set[str]:
    """The tables with the word in a column; for those that keep no text, with any row."""
    connection = memories.connection_of(memory)
    named = [
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        if not name.endswith(("_vocab", "_fts"))
    ]
    tables = set()
    for name in named:
        for row in connection.execute(f'SELECT * FROM "{name}"').fetchall():
            if any(WORD[2:] in str(value) for value in row) or name in WITHOUT_TEXT:
                tables.add(name)
    return tables


WITHOUT_TEXT = ("embedding_cache", "signals", "signal_pairs")


def fill(memory: Memory) -> None:
    """Bring the word to every place that a text can get to."""
    for _ in range(2):  # the second replaces the first
        memory.store(
            TEXT,
            key=f"key-{WORD}",
            title=f"About {WORD}",
            tags=[WORD],
            metadata={WORD: WORD},
            summary=WORD,
            session=WORD,
        )
    memory.store(f"Deleted {WORD}", key=f"deleted-{WORD}")
    memory.delete(f"deleted-{WORD}")
    memory.graph.create([NewEntity(WORD, WORD, (f"knows {WORD}",)), NewEntity("Bob", "person")])
    memory.graph.relate([Relation(WORD, WORD, "Bob", context=WORD)])
    hits = memory.search(WORD, mode="keyword", limit=20)
    memory.used([hit.passage.ref for hit in hits])
    memory.write_down_use()
    with memories.store_of(memory).transaction() as transaction:
        transaction.cache({"a hash": Vector("f", [0.5])}, (), 10)
    # As if there were enough passages for statistics.
    memories.connection_of(memory).execute("INSERT INTO frequent_terms VALUES (?, 9)", (WORD,))


KEEPERS = {
    *("documents", "passages", "passages_fts_data", "trash", "frequent_terms"),
    *("relations", "embedding_cache", "signals", "signal_pairs"),
}


def test_every_table_that_kept_a_text_loses_it_with_a_purge(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with memories.open_memory(path, durability="normal") as memory:
        memory.store(memories.prose("stays"), key="stays")
        fill(memory)
        assert tables_with_it(memory) >= KEEPERS
        assert look(path) == ["memory.db-wal"]
        memories.store_of(memory).tidy()
        assert look(path) == ["memory.db", "memory.db-wal"]
        memory.graph.delete([WORD], purge=True)
        deleted = memory.delete(f"key-{WORD}", f"deleted-{WORD}", purge=True)
        assert deleted.copies == ()
        assert tables_with_it(memory) == set()
        assert look(path) == []
        assert memories.faults(memory) == []


def kept_by_a_restore(path: Path) -> str:
    with memories.open_memory(path) as memory:
        memory.backup(path.parent / "elsewhere/backup.db")
    kept = Memory.restore(path.parent / "elsewhere/backup.db", path).kept
    assert kept is not None
    return kept


def journal_set_aside(path: Path) -> str:
    Child(restore_child.write_and_die, path, 2).finish()
    journal = path.parent / "elsewhere/wal"
    shutil.move(f"{path}-wal", journal)
    path.with_name("memory.db-shm").unlink()
    with memories.open_memory(path) as memory:
        memory.store("another lineage")
    shutil.move(journal, f"{path}-wal")
    aside = Memory.restore(None, path).journal
    assert aside is not None
    return aside


def backup_in_the_folder(path: Path) -> str:
    with memories.open_memory(path) as memory:
        return memory.backup(path.with_name("a copy"))


def left_by_a_killed_backup(path: Path) -> str:
    backup = backup_in_the_folder(path)
    return str(shutil.move(backup, f"{backup}.abcdef.partial"))


COPIES: list[Callable[[Path], str]] = [
    kept_by_a_restore,
    journal_set_aside,
    backup_in_the_folder,
    left_by_a_killed_backup,
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "memory.db"
    with memories.open_memory(path, durability="normal") as memory:
        memory.store(TEXT, key="doomed")
    return path


@pytest.mark.parametrize("keep", COPIES)
def test_a_purge_names_the_copies_beside_the_memory(
    path: Path, keep: Callable[[Path], str]
) -> None:
    copy = keep(path)
    with memories.open_memory(path, durability="normal") as memory:
        assert memory.delete("doomed", purge=True).copies == (copy,)
    assert set(look(path)) <= {Path(copy).name}


PLANTED = {
    "no text": ("UPDATE meta SET value = CAST(x'ff' AS TEXT)",),
    "a view": ("DROP TABLE meta", "CREATE VIEW meta AS SELECT 'audit_key' AS name, 1 / 0 AS value"),
    "computed": (
        "DROP TABLE meta",
        "CREATE TABLE meta (name, value AS (replace(hex(zeroblob(16)), '00', 'ab')))",
        "INSERT INTO meta (name) VALUES ('audit_key')",
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_backup_that_somebody_prepared_is_named_and_nothing_of_it_is_computed(
    path: Path, planted: str
) -> None:
    copy = backup_in_the_folder(path)
    file = apsw.Connection(copy)
    for trigger in file.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        file.execute(f"DROP TRIGGER {trigger[0]}")
    for statement in PLANTED[planted]:
        file.execute(statement).fetchall()
    file.close()
    with memories.open_memory(path, durability="normal") as memory:
        assert memory.delete("doomed", purge=True).copies == (copy,)


def test_a_purge_names_nothing_else(path: Path) -> None:
    with memories.open_memory(path.with_name("other.db")) as other:
        other.store(TEXT)
        path.with_name("notes.txt").write_text(TEXT, encoding="utf-8")
        path.with_name("empty.db").touch()
        apsw.Connection(str(path.with_name("foreign.db"))).execute("CREATE TABLE t (x)")
        path.with_name("memory.db.kept-").mkdir()
        with memories.open_memory(path) as memory:
            assert memory.delete("doomed", purge=True).copies == ()
            memory.store(TEXT, key="doomed")
            backup_in_the_folder(path)
            assert memory.delete("doomed").copies == ()


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no text, pipes")
def test_a_purge_ends_whatever_else_is_in_the_folder(path: Path) -> None:
    copy = backup_in_the_folder(path)
    folder = path.parent
    (folder / "itself").symlink_to("itself")
    (folder / "nowhere").symlink_to("gone")
    os.mkfifo(folder / "pipe")
    for name in (b"caf\xe9.txt", b"caf\xe9.db", b"line\nbreak.txt"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).touch()
    with memories.open_memory(path, durability="normal") as memory:
        assert memory.delete("doomed", purge=True).copies == (copy,)


def test_the_command_line_says_it_in_one_sentence(path: Path) -> None:
    copy = kept_by_a_restore(path)
    env = {"PLAIT_DB_PATH": str(path), "PLAIT_EMBEDDING_PROVIDER": "none"}
    ran = spawn("delete", "doomed", "--purge", "--json", env=env)
    assert ran.json["copies"] == [copy]
    [line] = [line for line in ran.err.splitlines() if "what was purged may still be in" in line]
    assert copy in line
