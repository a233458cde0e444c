"""Whose journal it is: the numbers in page 2 of the file and of its journal."""

import itertools
import shutil
from pathlib import Path

import apsw
import pytest

from plait.stores.sqlite import journal
from plait.stores.sqlite.store import SQLiteStore
from tests.builders import entry, write

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
    """Copy an open store's files through SQLite's own handles."""
    for suffix, kind in (("", apsw.SQLITE_OPEN_MAIN_DB), ("-wal", apsw.SQLITE_OPEN_WAL)):
        file = apsw.VFSFile("", store.path + suffix, [kind | apsw.SQLITE_OPEN_READONLY, 0])
        (folder / f"image{suffix}").write_bytes(bytes(file.xRead(file.xFileSize(), 0)))
        file.xClose()
    return str(folder / "image")
