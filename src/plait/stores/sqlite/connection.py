"""Open the file safely: modes, journal, lock waits, one connection per thread, plait's own errors.

Only SQLite opens the file: on POSIX a plain ``open`` and ``close`` anywhere in the process drops
SQLite's locks, and acknowledged writes with them.
"""

import os
import sys
import time
from _thread import RLock, allocate_lock, get_ident
from _weakref import ref
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import apsw

from plait.errors import PlaitError, StoreBusy, StoreError, advise, not_storable
from plait.stores import exists
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.stores.sqlite.write_lock import WriteLock

# The number of migrations in `plait.stores.sqlite.schema`, which an ordinary opening does not load.
SCHEMA_VERSION = 10
APPLICATION_ID = 0x706C6169  # "plai": lets `file` and doctor tell a memory from other databases
WAIT_STEP_MS = 5_000  # SQLite waits this long by itself; then we retry, until the caller's limit.
JOURNAL_LIMIT_BYTES = 64 * 1024 * 1024
CACHE_KIB = 8_192
PRIVATE_FILE = 0o600
KEPT_ASIDE = ".kept-"  # between the name of a file and the time at which it was replaced
RESTORING = "-restoring"  # ends the name of a file that exists while a memory is being replaced
SQLRow = tuple[Any, ...]


def rows(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[SQLRow]:
    """Return all rows of one statement; APSW types a column as anything SQLite can hold."""
    fetched: list[SQLRow] = connection.execute(sql, values).fetchall()
    return fetched


def version_of(connection: apsw.Connection) -> int:
    """Return the schema version of a file; 0 for one that is still empty."""
    return int(connection.execute("PRAGMA user_version").get)


def keep_plans(connection: apsw.Connection) -> None:
    """Compile each statement once, whatever values it gets.

    Otherwise SQLite compiles one with a limit or a range again for each value, also those that FTS5
    runs for every word and segment. No statement of plait's has a better plan for some values.
    """
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def translate(error: Exception, path: str, *, opening: bool = False) -> PlaitError:
    """Return a failure of SQLite, or of reading what it returned, as one of plait's errors."""
    from plait.stores.sqlite import failures  # what never fails need not load it

    return failures.translate(error, path, opening=opening)


class Mark(NamedTuple):
    """Which files a connection has open: device and inode of both, size and time of the first."""

    file: tuple[int, int]
    state: tuple[int, int]
    journal: tuple[int, int] | None


def has_pages(connection: apsw.Connection, mark: Mark | None) -> bool:
    """Tell whether a connection knows as many pages as there are in the file."""
    try:
        pages, size = (connection.execute(f"PRAGMA page_{what}").get for what in ("count", "size"))
    except apsw.CorruptError:  # the schema has pages behind those that it knows
        return False
    return mark is not None and bool(pages == -(-mark.state[0] // size))


def is_restoring(path: str) -> bool:
    """Tell whether the memory is being replaced, or a restore was killed."""
    return os.path.exists(path + RESTORING)


def has_journal(path: str) -> bool:
    """Tell whether there is a journal with something in it."""
    try:
        return os.stat(path + "-wal").st_size > 0
    except OSError:
        return False


class Connections:
    """One connection per thread to one file, opened when a thread first needs it."""

    def __init__(
        self,
        path: str,
        *,
        create: bool = True,
        timeout: float = 30.0,
        durability: str = "full",
        vfs: str | None = None,
    ) -> None:
        if os.path.isdir(path):
            from plait.stores.sqlite.creating import is_folder

            raise is_folder(path)
        self.path = path
        self.real = path  # where links lead to: there SQLite keeps the journal
        self.timeout = timeout
        self._durability = "FULL" if durability == "full" else "NORMAL"
        self.vfs = vfs
        self._lock = allocate_lock()
        self._by_thread: dict[int, apsw.Connection] = {}
        self._marks: dict[int, Mark | None] = {}
        self._is_open = self._closed = self.wrote = False
        self.number = ""  # of the latest commit made here
        self.writers: dict[apsw.Connection, ref[WriteLock]] = {}  # until they have ended
        # An in-memory database belongs to one connection, so threads take turns on it.
        self.turns = RLock() if self.in_memory else None
        if not self.in_memory and not exists(path):
            if not create:
                raise StoreError(
                    f"There is no memory at {path} yet.",
                    code="no_memory",
                    subject=path,
                    advice=advise("store_first"),
                )
            from plait.stores.sqlite.creating import create_private

            create_private(path)
        self.get()
        self._is_open = True

    def end_abandoned(self, connection: apsw.Connection | None = None) -> None:
        """Roll back the transaction of a writer that Ctrl-C ended between two steps."""
        own = connection or self._by_thread.get(0 if self.in_memory else get_ident())
        if own is None or (writer := self.writers.get(own)) is None or writer() is not None:
            return
        if own.in_transaction:
            own.execute("ROLLBACK")
        del self.writers[own]

    @property
    def in_memory(self) -> bool:
        """Tell whether the database lives in memory only."""
        return self.path == ":memory:"

    def get(self) -> apsw.Connection:
        """Return the connection of this thread."""
        ident = 0 if self.in_memory else get_ident()
        connection = self._by_thread.get(ident)
        if connection is None:
            if self._closed:
                raise StoreError(
                    f"The memory {self.path} is closed. Open it again.",
                    code="store_closed",
                    subject=self.path,
                )
            self._close_ended_threads()
            connection, mark = self._open()
            with self._lock:
                self._by_thread[ident], self._marks[ident] = connection, mark
        return connection

    def _close_ended_threads(self) -> None:
        """Close the connections of threads that have ended: each keeps several files open."""
        running = {0: None, **sys._current_frames()}
        for ident, connection in list(self._by_thread.items()):
            if ident not in running:
                self.drop(connection)

    def mark(self) -> Mark | None:
        """Return which files are there now; ``None`` if there is no memory."""
        try:
            file = os.stat(self.path)
        except OSError:
            return None
        try:
            journal = os.stat(self.real + "-wal")
        except OSError:
            return Mark((file.st_dev, file.st_ino), (file.st_size, file.st_mtime_ns), None)
        return Mark(
            (file.st_dev, file.st_ino),
            (file.st_size, file.st_mtime_ns),
            (journal.st_dev, journal.st_ino),
        )

    def renew(self) -> None:
        """Make the next `get` reopen the file if it was replaced since this thread last used it.

        Raises:
            StoreError: There is no file any more.
        """
        connection, mark = self._by_thread.get(get_ident()), self._marks.get(get_ident())
        if mark is None or connection is None or mark == self.mark():
            return
        from plait.stores.sqlite import replaced

        replaced.follow(self, connection, mark)

    def is_replaced(self, connection: apsw.Connection) -> bool:
        """Tell whether the file of this thread's connection was replaced or removed."""
        mark = self._marks.get(get_ident())
        if mark is None or mark == self.mark():
            return False
        from plait.stores.sqlite import replaced

        return replaced.is_replaced(self, connection, mark)

    def remember(self, mark: Mark) -> None:
        """Remember that the files of this thread's connection look like this now."""
        self._marks[get_ident()] = mark

    def _open(self) -> tuple[apsw.Connection, Mark | None]:
        if self.in_memory:
            return self._connect(apsw.SQLITE_OPEN_CREATE), None
        deadline = time.monotonic() + self.timeout
        while True:
            self.real = os.path.realpath(self.path)
            before = self.mark()
            try:
                lost = before is None and self._is_open
                beside = has_journal(self.real) or os.path.exists(self.real + "-journal")
                index = self.real + "-shm"
                closed = not os.access(index, os.W_OK) and os.path.exists(index)
                if lost or beside or closed or is_restoring(self.real):
                    from plait.stores.sqlite import replaced

                    before = replaced.examine(self)
                connection = self._connect()
                opened = self.mark()
            except (apsw.BusyError, apsw.LockedError) as error:
                # Another process is creating, recovering or switching the journal of this file.
                if time.monotonic() > deadline:
                    raise translate(error, self.path) from error
                from plait.stores.sqlite.journal import jitter

                time.sleep(jitter(0.02))
            except (apsw.Error, UnicodeDecodeError) as error:
                after = self.mark()
                is_same = before is None or after is None or before.file == after.file
                if is_same and not self._set_index_aside(before):
                    raise translate(error, self.path, opening=True) from error
            else:
                is_same = before is not None and opened is not None and before.file == opened.file
                if is_same and (not self._shares_index(before) or has_pages(connection, opened)):
                    return connection, opened
                connection.close(force=True)  # the file was replaced meanwhile, or before
                self._set_index_aside(before)

    def _shares_index(self, before: Mark | None) -> bool:
        """Tell whether there was an empty journal, so that its index may be another file's."""
        return before is not None and before.journal is not None and not has_journal(self.real)

    def _set_index_aside(self, before: Mark | None) -> bool:
        """Set the index of an empty journal aside if it is another file's; tell whether it was."""
        if not self._shares_index(before):
            return False
        from plait.stores.sqlite import replaced

        return replaced.set_index_aside(self)

    def _connect(self, flags: int = 0) -> apsw.Connection:
        flags |= apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(self.path, flags=flags, vfs=self.vfs)
        try:
            self._prepare(connection)
        except BaseException:  # Ctrl-C, too: nobody else would close it
            connection.close()
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        self.set_wait(connection)
        # A reader must not checkpoint, not even as the last one to close: writers do that.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        keep_plans(connection)
        for pragma in (
            "foreign_keys = ON",
            "trusted_schema = OFF",
            "cell_size_check = ON",
            "secure_delete = ON",
            "mmap_size = 0",
            f"synchronous = {self._durability}",
            f"journal_size_limit = {JOURNAL_LIMIT_BYTES}",
            f"cache_size = -{CACHE_KIB}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        version = version_of(connection)
        application = connection.execute("PRAGMA application_id").get
        mode = connection.execute("PRAGMA journal_mode").get
        # A backup that became the memory has another journal mode.
        if (version, application, mode) != (SCHEMA_VERSION, APPLICATION_ID, "wal"):
            from plait.stores.sqlite import migrating

            migrating.migrate(self, connection, version)

    def set_wait(self, connection: apsw.Connection) -> None:
        """Set how long SQLite waits for others at a time; `patiently` repeats that."""
        connection.set_busy_timeout(min(WAIT_STEP_MS, round(self.timeout * 1000)))

    def drop(self, connection: apsw.Connection) -> None:
        """Close a connection that can no longer be trusted: a failed sync must not be retried."""
        with self._lock:
            for ident, known in list(self._by_thread.items()):
                if known is connection:
                    del self._by_thread[ident]
                    del self._marks[ident]
        self.writers.pop(connection, None)
        connection.close(force=True)

    def close(self) -> None:
        """Close all connections, after a write empty the journal; the last one removes it."""
        with self._lock:
            connections = list(self._by_thread.values())
            marks = {mark for mark in self._marks.values() if mark is not None}
            self._by_thread.clear()
            self._marks.clear()
            self._closed = True
        wrote, self.wrote = self.wrote and not self.in_memory, False
        removes = wrote or not (self.in_memory or has_journal(self.real))
        changed = marks - {self.mark()}
        if changed:
            from plait.stores.sqlite import replaced

            removes = all([replaced.may_checkpoint(self, mark) for mark in marks]) and removes
        for number, connection in enumerate(connections):
            if wrote and removes and number == 0:
                empty_journal(connection)
            if removes:
                with suppress(apsw.ConnectionClosedError):  # another thread closed it
                    # SQLite removes the journal when the last connection of all processes closes.
                    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            connection.close(force=True)
        for mark in changed:
            replaced.tidy_kept(self, mark)


def that_read() -> type[Connections]:
    """Return the connections for a memory that is opened to be read only."""
    from plait.stores.sqlite.reading import ReadingConnections

    return ReadingConnections


def empty_journal(connection: apsw.Connection) -> None:
    """Move the journal into the file and free its space, as far as others allow at once."""
    try:
        connection.set_busy_timeout(0)
        if not checkpoint(connection, "TRUNCATE"):
            checkpoint(connection, "PASSIVE")
    except apsw.Error:
        return  # a full disk: the journal keeps what the file has no room for


def checkpoint(connection: apsw.Connection, mode: Literal["PASSIVE", "TRUNCATE"]) -> bool:
    """Move the journal into the file; false if other processes prevented that."""
    try:
        busy, *_ = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()[0]
    except (apsw.BusyError, apsw.LockedError):
        return False
    return not busy


class Guard:
    """Raises APSW's errors as plait's, and gives threads turns on a connection that they share."""

    def __init__(
        self, connections: Connections, *, patient: bool = True, follows: bool = True
    ) -> None:
        self._connections = connections
        self._follows = follows
        self._path = connections.path
        self._turns = connections.turns
        self._wait = connections.timeout if patient else 0.0

    def __enter__(self) -> Self:
        """Wait for a turn where the connection is shared, and follow a file that was replaced."""
        if self._turns is not None and not self._turns.acquire(timeout=self._wait):
            raise StoreBusy(f"Another thread is using {self._path}. Try again in a moment.")
        if self._follows:
            self._connections.renew()
        self._connections.end_abandoned()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Translate an error of SQLite."""
        if self._turns is not None:
            self._turns.release()
        if isinstance(error, apsw.Error | UnicodeDecodeError):
            raise translate(error, self._path) from error
        if isinstance(error, UnicodeEncodeError | OverflowError):
            raise not_storable(error) from error
