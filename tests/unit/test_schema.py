"""The file's version: what is refused, what becomes a memory, and that it happens whole or not."""

import os
import stat
from pathlib import Path

import apsw
import pytest

from plait.errors import SchemaTooNew, StoreDamaged, StoreError
from plait.stores import exists
from plait.stores.sqlite import schema
from plait.stores.sqlite.store import SQLiteStore
from plait.text import parse
from plait.types import Filter
from tests.builders import entry


def tables(path: Path) -> set[str]:
    connection = apsw.Connection(str(path))
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    connection.close()
    return found


def run(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def test_a_new_file_carries_our_name_and_version(path: Path) -> None:
    SQLiteStore(str(path)).close()
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA user_version").get == schema.SCHEMA_VERSION
    assert connection.execute("PRAGMA application_id").get == schema.APPLICATION_ID
    connection.close()
    assert schema.APPLICATION_ID.to_bytes(4, "big") == b"plai"


def test_a_file_of_a_newer_plait_is_refused_and_left_alone(path: Path) -> None:
    store = SQLiteStore(str(path))
    store.put([entry("k", "apple")])
    store.close()
    run(path, f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew, match=f"version {schema.SCHEMA_VERSION + 1}.*[Uu]pgrade"):
        SQLiteStore(str(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1, schema.SCHEMA_VERSION, 7])
def test_somebody_elses_database_is_refused_and_left_alone(path: Path, version: int) -> None:
    run(path, "CREATE TABLE theirs (x)", f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match="not a plait memory"):
        SQLiteStore(str(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"just some text that is no database at all", b"SQLite format 3\0" + b"x" * 200]
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content * 20)
    with pytest.raises(StoreDamaged, match="not a"):
        SQLiteStore(str(path))
    assert path.read_bytes() == content * 20


def test_an_empty_file_becomes_a_memory(path: Path) -> None:
    path.touch()
    store = SQLiteStore(str(path))
    store.put([entry("k", "apple")])
    assert len(store.keyword(parse("apple"), 10, Filter())) == 1
    store.close()


def test_a_folder_is_no_memory(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        SQLiteStore(str(tmp_path))


def test_an_absent_file_stays_absent_when_it_must_not_be_created(path: Path) -> None:
    with pytest.raises(StoreError, match="no memory"):
        SQLiteStore(str(path), create=False)
    assert not path.exists()


def test_an_empty_file_stays_empty_when_nothing_must_be_created(path: Path) -> None:
    path.touch()
    assert not exists(str(path))
    with pytest.raises(StoreError, match="no memory"):
        SQLiteStore(str(path), create=False)
    assert path.stat().st_size == 0
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX notion")
def test_an_empty_file_that_becomes_a_memory_becomes_private(path: Path) -> None:
    path.touch()
    path.chmod(0o644)
    SQLiteStore(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    SQLiteStore(str(path)).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640, "a memory keeps the mode its owner gave it"


def test_a_memory_exists_once_it_is_made(path: Path) -> None:
    assert not exists(str(path))
    assert not exists(f"{path}\0")
    SQLiteStore(str(path)).close()
    assert exists(str(path))
    assert not exists(str(path / "below"))
    assert exists(str(path.parent)), "a folder is no memory, but opening it must say so"
    assert exists(os.devnull), "nothing but a plain file may be made into a memory"


def test_a_migration_that_fails_half_way_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (*schema.MIGRATIONS, "CREATE TABLE extra (x); CREATE TABLE extra (x);")
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", len(broken))
    with pytest.raises(StoreError, match="extra"):
        SQLiteStore(str(path))
    assert tables(path) == set()
    monkeypatch.undo()
    SQLiteStore(str(path)).close()
    assert "passages" in tables(path)


def test_an_older_file_is_brought_up_to_date_and_keeps_its_documents(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SQLiteStore(str(path))
    store.put([entry("k", "apple")])
    store.close()
    later = (*schema.MIGRATIONS, "CREATE TABLE later (x); INSERT INTO later VALUES (1);")
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", len(later))
    store = SQLiteStore(str(path))
    assert store.stats().schema == len(later)
    assert len(store.keyword(parse("apple"), 10, Filter())) == 1
    store.close()
    assert "later" in tables(path)


def test_migrating_twice_changes_nothing(path: Path) -> None:
    store = SQLiteStore(str(path))
    connection = store._connections.get()
    before = connection.execute("PRAGMA schema_version").get
    schema.migrate(connection)
    assert connection.execute("PRAGMA schema_version").get == before
    store.close()
