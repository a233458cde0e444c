"""Read tables of another program's SQLite file, which may be hostile.

Nothing is written beside the file, and nothing that its schema says is executed: only ordinary
columns of ordinary tables are read, without indexes, with a limit on rows, sizes and time.
"""

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import apsw

from plait.errors import StoreDamaged, StoreError, UsageError, flattened, lacks_descriptors
from plait.stores.sqlite import journal

DATABASE_SUFFIXES = (".db", ".db3", ".sqlite", ".sqlite3")
MAGIC = b"SQLite format 3\0"
MAX_ROWS = 1_000_000
MAX_BYTES = 1 << 30
# A row has vectors beside its text.
ROOM_FOR_A_ROW = 16_000_000
LONGEST_READ_S = 120.0
_STEPS_BETWEEN_CHECKS = 100_000
_BUSY_MS = 5_000
# Where the header of a database tells that it has a write-ahead log.
_LOG_FLAG = 18
# SQLite opens no other path.
_NO_UTF8 = "its name is not UTF-8; rename it"
_TABLES = "SELECT name, sql FROM sqlite_schema WHERE type = 'table'"
# hidden: 1 and more are columns of a virtual table, or computed by an expression.
_COLUMNS = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0"

Row = dict[str, Any]


class OtherDatabase:
    """A file of another program, opened to be read."""

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._bytes = 0
        self._tables: dict[str, str] = {}
        for name, sql in connection.execute(_TABLES):
            if isinstance(name, str) and isinstance(sql, str):
                self._tables[name] = sql

    @property
    def tables(self) -> Mapping[str, str]:
        """The names of its tables, each with the statement that made it."""
        return self._tables

    def columns(self, table: str) -> frozenset[str]:
        """Return the ordinary columns of an ordinary table; none of any other."""
        statement = self._tables.get(table, "").lstrip().upper()
        if not statement.startswith("CREATE TABLE"):
            return frozenset()
        return frozenset(str(name) for (name,) in self._connection.execute(_COLUMNS, (table,)))

    def rows(self, table: str, names: Sequence[str]) -> Iterator[Row]:
        """Yield these columns of a table, ``None`` for those that it does not have.

        Raises:
            UsageError: The table is too large.
        """
        there = self.columns(table)
        wanted = [name for name in names if name in there]
        if not wanted:
            return
        # NOT INDEXED: an index may have an expression.
        listed = ", ".join(_quoted(name) for name in wanted)
        sql = f"SELECT {listed} FROM {_quoted(table)} NOT INDEXED LIMIT {MAX_ROWS + 1}"  # noqa: S608
        blank = dict.fromkeys(names)
        for number, values in enumerate(self._connection.execute(sql)):
            self._bytes += sum(len(value) for value in values if isinstance(value, str | bytes))
            if number >= MAX_ROWS or self._bytes > MAX_BYTES:
                raise UsageError(
                    f"{self._path} is too large to be imported: more than {MAX_ROWS:,} rows or "
                    f"{MAX_BYTES >> 30} GB of text. Nothing was imported.",
                    code="too_large",
                    subject=self._path,
                )
            yield {**blank, **dict(zip(wanted, values, strict=True))}

    def count(self, table: str) -> int:
        """Return how many rows an ordinary table has; 0 for any other."""
        if not self.columns(table):
            return 0
        sql = f"SELECT 1 FROM {_quoted(table)} NOT INDEXED LIMIT {MAX_ROWS}"  # noqa: S608
        return sum(1 for _ in self._connection.execute(sql))


class LiveDatabase(OtherDatabase):
    """A database that its program may be writing to, of which some rows are read at a time."""

    def select(
        self,
        table: str,
        names: Sequence[str],
        rest: str = "",
        values: Sequence[str | int] = (),
        expressions: Mapping[str, str] | None = None,
    ) -> list[Row]:
        """Return these columns of some rows of a table, ``None`` for columns that it has not.

        ``rest`` is SQL: conditions and order. ``expressions`` replace columns. All rows are fetched
        at once: an open statement would keep the other program from writing. Texts that are not
        UTF-8 are repaired.
        """
        there = self.columns(table)
        wanted = [name for name in names if name in there]
        if not wanted:
            return []
        listed = ", ".join(
            f"CASE typeof({term}) WHEN 'text' THEN CAST({term} AS BLOB) ELSE {term} END"
            for name in wanted
            for term in [(expressions or {}).get(name) or _quoted(name)]
        )
        _limit_time(self._connection)
        cursor = self._connection.execute(
            f"SELECT {listed} FROM {_quoted(table)} {rest}",  # noqa: S608 - no foreign words
            tuple(values),
        )
        blank = dict.fromkeys(names)
        return [{**blank, **dict(zip(wanted, map(_text, row), strict=True))} for row in cursor]


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def looks_like_database(path: str) -> bool:
    """Tell whether a file is a database, by its name or by its first bytes.

    It is read through SQLite's own file layer: a plain ``open`` and ``close`` would drop the locks
    that SQLite has on it.
    """
    if path.lower().endswith(DATABASE_SUFFIXES):
        return True
    if not os.path.isfile(path):
        return False  # a pipe must not be read twice
    try:
        file = apsw.VFSFile(
            "", os.path.abspath(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
        )
    except (apsw.Error, UnicodeEncodeError):
        return False  # opening it as text will tell why
    try:
        return file.xFileSize() > len(MAGIC) and file.xRead(len(MAGIC), 0) == MAGIC
    finally:
        file.xClose()


@contextmanager
def opened_other(path: str, max_bytes: int) -> Iterator[OtherDatabase]:
    """Open another program's file to read it.

    If its latest changes are in a write-ahead log, a private copy of both is read: SQLite would
    write beside the file. A rollback journal is never given to SQLite, which deletes the files that
    such a journal names.

    Raises:
        UsageError: It is too large.
        StoreError: It cannot be read, is no database, or was not closed cleanly.
    """
    with TemporaryDirectory(prefix="plait-") as folder:
        place = real = os.path.realpath(path)  # there SQLite keeps the journals
        try:
            journal.check_kind(real)
            if _size(real + "-journal") and journal.is_hot(real):
                raise _unreadable(
                    path,
                    "it was not closed cleanly, and its journal may be hostile; open it once in "
                    "the program that wrote it, or move its -journal away",
                )
            if _size(real + "-wal"):
                place = _copy(path, real, folder)
            connection = _connect(place, max_bytes, immutable=place == real)
        except OSError as error:
            if lacks_descriptors(error):
                raise
            raise _unreadable(path, error.strerror or "") from error
        except UnicodeEncodeError as error:
            raise _unreadable(flattened(path), _NO_UTF8) from error
        except apsw.Error as error:
            raise _ours(error, path) from error
        try:
            yield OtherDatabase(connection, path)
        except (apsw.Error, UnicodeDecodeError) as error:
            raise _ours(error, path) from error
        finally:
            connection.close()


@contextmanager
def opened_live(path: str, max_bytes: int) -> Iterator[LiveDatabase]:
    """Open another program's file while that program may be at work.

    Nothing is written beside it: a log without its index is read from a private copy, and a file
    without a log as it is. The size of the file has no limit, that of a value is ``max_bytes``.

    Raises:
        UsageError: A value is too large.
        StoreError: It cannot be read, is no database, or was not closed cleanly.
    """
    real = os.path.realpath(path)
    try:
        journal.check_kind(real)
        is_hot = _size(real + "-journal") > 0 and journal.is_hot(real)
        is_shared = os.path.isfile(real + "-wal") and os.path.isfile(real + "-shm")
    except (OSError, UnicodeEncodeError, apsw.Error) as error:
        if isinstance(error, OSError) and lacks_descriptors(error):
            raise
        raise _unreadable(flattened(path), str(error)) from error
    if is_hot:
        raise _unreadable(path, "its program is writing to it, or was not closed cleanly")
    with TemporaryDirectory(prefix="plait-") as folder:
        try:
            place = real
            if _size(real + "-wal") and not is_shared:
                place = _copy(path, real, folder)
            # subtle: immutable only where opening would create a log.
            is_immutable = place == real and not is_shared and _has_log_mode(real)
            connection = _connect(place, max_bytes, immutable=is_immutable, writable=place != real)
        except UnicodeEncodeError as error:
            raise _unreadable(flattened(path), _NO_UTF8) from error
        except apsw.Error as error:
            raise _ours(error, path) from error
        try:
            yield LiveDatabase(connection, path)
        except (apsw.Error, UnicodeDecodeError) as error:
            raise _ours(error, path) from error
        finally:
            connection.close(force=True)


def _has_log_mode(path: str) -> bool:
    """Tell whether a database uses a write-ahead log, by its header."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    file = apsw.VFSFile("", os.path.abspath(path), flags)
    try:
        return file.xFileSize() > _LOG_FLAG and file.xRead(1, _LOG_FLAG) == b"\x02"
    finally:
        file.xClose()


def _size(path: str) -> int:
    """Return the size of a regular file; 0 for a link or a pipe, which SQLite never makes here."""
    with suppress(OSError):
        status = os.stat(path, follow_symlinks=False)
        return status.st_size if stat.S_ISREG(status.st_mode) else 0
    return 0


def _copy(path: str, real: str, folder: str) -> str:
    from plait.stores.sqlite.carving import copy_file

    place = os.path.join(folder, "copy.db")
    for ending, kind in (("", apsw.SQLITE_OPEN_MAIN_DB), ("-wal", apsw.SQLITE_OPEN_WAL)):
        if _size(real + ending) > 4 * MAX_BYTES:
            raise UsageError(
                f"{path} is too large to be imported. Nothing was imported.",
                code="too_large",
                subject=path,
            )
        copy_file(real + ending, place + ending, kind)
    return place


def _connect(
    path: str, max_bytes: int, *, immutable: bool, writable: bool | None = None
) -> apsw.Connection:
    address = "file:" + quote(os.path.abspath(path))
    writable = not immutable if writable is None else writable
    options = "?mode=rw" if writable else "?mode=ro"
    options += "&immutable=1" if immutable else ""
    flags = apsw.SQLITE_OPEN_URI
    flags |= apsw.SQLITE_OPEN_READWRITE if writable else apsw.SQLITE_OPEN_READONLY
    connection = apsw.Connection(address + options, flags=flags)
    try:
        for switch, value in (
            (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
            (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
            (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
            (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
        ):
            connection.config(switch, value)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, max_bytes + ROOM_FOR_A_ROW)
        connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_busy_timeout(_BUSY_MS)
        _limit_time(connection)
        connection.execute("PRAGMA cell_size_check = 1")
        connection.execute("PRAGMA mmap_size = 0")
        connection.execute("PRAGMA query_only = 1")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except BaseException:  # Ctrl-C, too: nobody else would close it
        connection.close()
        raise
    return connection


def _limit_time(connection: apsw.Connection) -> None:
    """Stop statements that take too long from now on."""
    deadline = time.monotonic() + LONGEST_READ_S
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_CHECKS)


def _ours(error: Exception, path: str) -> StoreError | UsageError:
    if isinstance(error, apsw.NotADBError):
        return _unreadable(path, "it is not a database")
    if isinstance(error, apsw.TooBigError):
        return UsageError(
            f"{path} has a row that is too large. Nothing was imported.",
            code="too_large",
            subject=path,
        )
    if isinstance(error, apsw.InterruptError):
        return _unreadable(path, f"reading it took more than {LONGEST_READ_S:g} s")
    if isinstance(error, UnicodeDecodeError):
        return StoreDamaged(
            f"{path} has a text that is not UTF-8. Nothing was imported.", subject=path
        )
    from plait.stores.sqlite.failures import told

    return _unreadable(path, told(error))


def _unreadable(path: str, problem: str) -> StoreError:
    return StoreError(
        f"{path} cannot be imported: {flattened(problem)[:200]}. Nothing was imported.",
        code="unreadable_database",
        subject=path,
    )
