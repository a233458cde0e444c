"""Whose journal it is: the numbers in page 2 of the file and of its journal."""

import itertools
import random
import shutil
from collections.abc import Iterable
from pathlib import Path

import apsw
import pytest

from plait.stores.sqlite import journal, schema
from plait.stores.sqlite.connection import APPLICATION_ID
from plait.stores.sqlite.store import SQLiteStore
from tests.builders import entry, write
from tests.reliability import power

SECTOR = 512
PAGE = 4_096


@pytest.fixture
def unmoved(store: SQLiteStore) -> SQLiteStore:
    """A store whose journal is never moved into the file by itself."""
    store._connections.get().wal_autocheckpoint(0)
    write(store, entry("first", "something"))
    return store


def belongs(store: SQLiteStore) -> bool | None:
    return journal.belongs(store.path)


def test_every_commit_has_a_number_of_its_own(unmoved: SQLiteStore) -> None:
    connection, seen = unmoved._connections.get(), set()
    for number in range(5):
        before = journal.number_in(connection)
        write(unmoved, entry(f"k{number}", "text"))
        value = str(connection.execute("SELECT value FROM meta WHERE name = 'lineage'").get)
        assert value.partition(":")[2] == before
        seen.add(journal.number_in(connection))
    assert len(seen) == 5


def test_what_changes_nothing_is_no_commit(unmoved: SQLiteStore) -> None:
    before = journal.number_in(unmoved._connections.get())
    with unmoved.transaction():
        pass
    assert journal.number_in(unmoved._connections.get()) == before


def test_meta_is_one_page_and_stays_page_2(unmoved: SQLiteStore) -> None:
    connection = unmoved._connections.get()
    for _ in range(2):
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'meta'").get
        assert root == journal._META_PAGE
        unmoved.tidy(compact=True)
        assert journal.file_number(unmoved.path) == journal.number_in(connection) != ""


def test_the_journal_is_the_files_own_before_during_and_after_checkpoints(
    unmoved: SQLiteStore,
) -> None:
    assert belongs(unmoved) is True
    unmoved._connections.get().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    assert belongs(unmoved) is True, "all of it is in the file"
    write(unmoved, entry("second", "more"))
    assert belongs(unmoved) is True, "the journal has begun anew"
    unmoved.tidy(purged=True)
    assert belongs(unmoved) is None, "an empty one proves nothing"


def test_a_vacuum_writes_no_number_and_is_recognised(unmoved: SQLiteStore) -> None:
    unmoved.tidy(purged=True)
    unmoved._connections.get().execute("VACUUM")
    assert belongs(unmoved) is True
    write(unmoved, entry("second", "more"))
    assert belongs(unmoved) is True


def test_a_file_from_before_there_were_numbers_is_taken_as_it_is(unmoved: SQLiteStore) -> None:
    connection = unmoved._connections.get()
    forget_numbers(connection)
    connection.execute("INSERT INTO meta (name, value) VALUES ('older', 'plait')")
    assert belongs(unmoved) is True, "an older plait wrote both"
    write(unmoved, entry("second", "more"))
    assert belongs(unmoved) is True, "the first number has no predecessor"


def test_a_backup_begins_a_line_of_its_own(unmoved: SQLiteStore, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    unmoved.backup(str(copy))
    number = journal.file_number(str(copy))
    assert number
    assert number != journal.number_in(unmoved._connections.get())


def test_half_of_a_page_never_reads_as_another_number(store: SQLiteStore) -> None:
    """A power cut keeps some sectors of a page and loses others."""
    pages = []
    connection = store._connections.get()
    for number in range(12):  # the count of passages gets a second digit, which moves the rows
        write(store, entry(f"k{number}", "text"))
        if number in (3, 11):
            store.tidy(purged=True)
            pages.append(read_page(store.path))
    forget_numbers(connection)
    pages.append(read_page(store.path))
    for one, other in itertools.permutations(pages, 2):
        whole = {number_of(one), number_of(other), None}
        for mask in range(2 ** (PAGE // SECTOR)):
            torn = b"".join(
                (one if mask >> part & 1 else other)[part * SECTOR : (part + 1) * SECTOR]
                for part in range(PAGE // SECTOR)
            )
            assert number_of(torn) in whole


@pytest.mark.parametrize("chars", [0, 900, 1_100, 5_000, 30_000])
def test_the_number_is_read_beside_a_value_of_any_length(unmoved: SQLiteStore, chars: int) -> None:
    """A long one goes on in other pages, wherever its beginning lies."""
    for name in ("a", "m", "z"):
        run_in = unmoved._connections.get().execute
        run_in("INSERT INTO meta (name, value) VALUES (?, ?)", (name, "x" * chars))
        unmoved.tidy(purged=True)
        number = journal.file_number(unmoved.path)
        assert number == journal.number_in(unmoved._connections.get()) != ""
        run_in("DELETE FROM meta WHERE name = ?", (name,))


def forget_numbers(connection: apsw.Connection) -> None:
    connection.execute("DELETE FROM meta WHERE name = 'lineage'")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def read_page(path: str) -> bytes:
    file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    try:
        return bytes(file.xRead(PAGE, PAGE))
    finally:
        file.xClose()


def number_of(page: bytes) -> str | None:
    value = journal._lineage_in(page)
    return value if not value else value[: journal._NUMBER]


@pytest.mark.parametrize("noise", [b"", b"\0" * 100, b"\xff" * 9_000, b"not a journal" * 900])
def test_a_journal_that_sqlite_rejects_proves_nothing(tmp_path: Path, noise: bytes) -> None:
    path = tmp_path / "memory.db"
    SQLiteStore(str(path)).close()
    path.with_name("memory.db-wal").write_bytes(noise)
    assert journal.belongs(str(path)) is None


def test_a_journal_with_a_torn_beginning_proves_nothing(unmoved: SQLiteStore, tmp_path) -> None:
    copy = tmp_path / "copy.db"
    # Another process's eyes: no connection of this one has the copy open.
    for suffix in ("", "-wal"):
        shutil.copyfile(*(f"{place}{suffix}" for place in (_image(unmoved, tmp_path), copy)))
    wal = copy.with_name("copy.db-wal")
    data = bytearray(wal.read_bytes())
    assert journal.belongs(str(copy)) is True
    data[1_000] ^= 0xFF
    wal.write_bytes(data)
    assert journal.belongs(str(copy)) is None


def _image(store: SQLiteStore, folder: Path) -> str:
    return _image_of(store.path, folder)


def _image_of(path: str, folder: Path) -> str:
    """Copy the files of an open memory through SQLite's own handles."""
    for suffix, kind in (("", apsw.SQLITE_OPEN_MAIN_DB), ("-wal", apsw.SQLITE_OPEN_WAL)):
        file = apsw.VFSFile("", path + suffix, [kind | apsw.SQLITE_OPEN_READONLY, 0])
        (folder / f"image{suffix}").write_bytes(bytes(file.xRead(file.xFileSize(), 0)))
        file.xClose()
    return str(folder / "image")


# -- files from before there were numbers ----------------------------------------------------


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """A memory of schema 4 in use, and its backup: neither has a number."""
    path = tmp_path / "memory.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = OFF").fetchall()
    for migration in schema.MIGRATIONS[:4]:
        for _ in connection.execute(migration):
            pass
    connection.execute("PRAGMA user_version = 4")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    add_old_notes(connection, range(20))
    connection.execute("VACUUM INTO ?", (str(tmp_path / "backup.db"),))
    for number in range(20, 40):
        add_old_notes(connection, [number])
    connection.close()
    return path


def add_old_notes(connection: apsw.Connection, numbers: Iterable[int]) -> None:
    with connection:
        connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'passages'")
        for number in numbers:
            connection.execute(
                "INSERT INTO trash (id, deleted_at, batch, document) VALUES (?, 1, 'b', ?)",
                (f"t{number}", f"{number}" * 400),
            )


def old_notes(path: Path) -> int:
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        return int(connection.execute("SELECT count(*) FROM trash").get)
    finally:
        connection.close()


def test_a_migration_gives_the_file_a_number_at_once(old_file: Path) -> None:
    assert journal.file_number(str(old_file)) == ""
    store = SQLiteStore(str(old_file))
    assert journal.file_number(str(old_file))
    write(store, entry("first", "something"))
    assert journal.belongs(str(old_file)) is True
    backup = _image(store, old_file.parent)
    store.close()
    shutil.copyfile(old_file.with_name("backup.db"), backup)
    assert journal.belongs(backup) is False


def test_a_new_file_has_a_number_at_once(tmp_path: Path) -> None:
    store = SQLiteStore(str(tmp_path / "memory.db"))
    assert journal.file_number(store.path)
    store.close()


def test_a_kill_at_any_step_of_a_migration_lets_no_older_backup_be_damaged(
    old_file: Path, tmp_path: Path
) -> None:
    """After every write to the disk: the journal goes with its file, and with no backup."""
    backup = old_file.with_name("backup.db").read_bytes()
    images = {"memory.db": bytearray(old_file.read_bytes()), "memory.db-wal": bytearray()}
    with power.logged(checkpoint_pages=1_000) as log:
        store = SQLiteStore(str(old_file), vfs=power.VFS)
        write(store, entry("first", "something"))
        events = list(log)
        store.close()
    place = tmp_path / "killed"
    place.mkdir()
    path, wal, judged = place / "memory.db", place / "memory.db-wal", 0
    for event in events:
        if event.what not in ("write", "truncate"):
            continue
        power.carry_out(images[event.file], event)
        path.write_bytes(images["memory.db"])
        wal.write_bytes(images["memory.db-wal"])
        assert journal.belongs(str(path)) is not False
        path.write_bytes(backup)
        if journal.belongs(str(path)) is not False:
            assert old_notes(path) == 20, "nothing in it was committed"
        judged += 1
    assert judged > 20


def test_a_journal_of_a_plait_without_numbers_is_told_apart_by_the_change_counter(
    old_file: Path,
) -> None:
    """It was killed before the upgrade, and a backup of it is copied back after."""
    connection = apsw.Connection(str(old_file))
    add_old_notes(connection, range(60, 99))
    killed = Path(_image_of(str(old_file), old_file.parent))
    connection.close()
    assert journal.belongs(str(killed)) is True
    shutil.copyfile(old_file.with_name("backup.db"), killed)
    assert journal.belongs(str(killed)) is False


@pytest.mark.parametrize("seed", range(3))
def test_the_change_counter_denies_no_journal_that_is_the_files_own(
    old_file: Path, seed: int
) -> None:
    dice = random.Random(seed)
    connections = [apsw.Connection(str(old_file)) for _ in range(3)]
    for connection in connections:
        connection.wal_autocheckpoint(0)
        connection.execute("PRAGMA cache_size = 5").fetchall()
        connection.execute("PRAGMA synchronous = OFF").fetchall()
    for step in range(40):
        connection = dice.choice(connections)
        act = dice.randrange(8)
        if act == 0:
            connection.execute("DELETE FROM trash WHERE id IN (SELECT id FROM trash LIMIT 60)")
        elif act == 1:
            mode = dice.choice(["PASSIVE", "RESTART", "TRUNCATE"])
            connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        elif act == 2 and step % 3 == 0:
            connection.execute("VACUUM")
        elif act == 3:
            connection.execute("UPDATE trash SET deleted_at = deleted_at + 1")
        else:
            numbers = range(1_000 * (step + 1), 1_000 * (step + 1) + dice.choice([1, 9, 40]))
            add_old_notes(connection, numbers)
        assert journal.belongs(str(old_file)) is not False, (step, act)
    for connection in connections:
        connection.close()
