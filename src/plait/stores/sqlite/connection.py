"""Open the file safely: modes, journal, lock waits, transactions, plait's own errors.

Only SQLite opens the file: on POSIX a plain ``open`` and ``close`` anywhere in the process drops
SQLite's locks, and acknowledged writes with them.
"""

import os
import time
from _thread import RLock, allocate_lock, get_ident
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

import apsw

from plait.errors import (
    Advice,
    DeadlineExceeded,
    PlaitError,
    SchemaTooNew,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    UsageError,
    advise,
)
from plait.stores import exists

# The number of migrations in `plait.stores.sqlite.schema`, which an ordinary opening does not load.
SCHEMA_VERSION = 4
APPLICATION_ID = 0x706C6169  # "plai": lets `file` and doctor tell a memory from other databases
# SQLite 3.7.0 to 3.51.2 can lose committed pages when several processes share a WAL file.
SAFE_SQLITE = (3, 51, 3)
WAIT_STEP_MS = 5_000  # SQLite waits this long by itself; then we retry, until the caller's limit.
JOURNAL_LIMIT_BYTES = 64 * 1024 * 1024
CACHE_KIB = 8_192
PRIVATE_FILE = 0o600
# WAL needs shared memory between processes, which these do not provide.
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "virtiofs", "afs", "ceph"}
    | {"glusterfs", "lustre", "fuse", "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "vboxsf"}
)
# Parts of SQLite's messages about the keyword index.
_KEYWORD_NAMES = ("fts5 file format", "passages_fts", "passages_vocab")

SQLRow = tuple[Any, ...]


def rows(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[SQLRow]:
    """Return all rows of one statement; APSW types a column as anything SQLite can hold."""
    fetched: list[SQLRow] = connection.execute(sql, values).fetchall()
    return fetched


def version_of(connection: apsw.Connection) -> int:
    """Return the schema version of a file; 0 for one that is still empty."""
    return int(connection.execute("PRAGMA user_version").get)


def wal_is_safe(version: tuple[int, int, int]) -> bool:
    """Tell whether this SQLite may run WAL with several processes.

    3.44.6 and 3.50.7 contain the fix of 3.51.3.

    >>> wal_is_safe((3, 51, 2)), wal_is_safe((3, 51, 3)), wal_is_safe((3, 50, 7))
    (False, True, True)
    """
    if version[:2] in {(3, 44), (3, 50)}:
        return version[2] >= {44: 6, 50: 7}[version[1]]
    return version >= SAFE_SQLITE


def sqlite_version() -> tuple[int, int, int]:
    """Return the version of the SQLite inside APSW."""
    major, minor, patch = (int(part) for part in apsw.sqlite_lib_version().split(".")[:3])
    return major, minor, patch


def file_system(path: str, mounts: str = "/proc/mounts") -> str:
    """Return the type of the file system of a path; empty if unknown."""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as lines:
            rows = [line.split()[1:3] for line in lines if len(line.split()) > 2]
    except OSError:
        return ""
    real = os.path.realpath(path)
    best, kind = "", ""
    for raw, name in rows:
        mount = raw.replace("\\040", " ")
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, name
    return kind


def journal_mode(path: str) -> Literal["wal", "delete"]:
    """Return WAL, unless the file system or this version of SQLite is known to break it."""
    if file_system(path) in NETWORK_FILE_SYSTEMS or not wal_is_safe(sqlite_version()):
        return "delete"
    return "wal"


_DOCTOR = Advice("doctor_fix")
_FAILURES: tuple[tuple[type[apsw.Error], type[StoreError], str, Advice | None], ...] = (
    (apsw.BusyError, StoreBusy, "Another process has locked {path}. Try again in a moment.", None),
    (apsw.LockedError, StoreBusy, "Another process has locked {path}. Try again shortly.", None),
    (apsw.FullError, StoreFull, "No space is left for {path}. Free some space and retry.", None),
    (apsw.NotADBError, StoreDamaged, "{path} is not a plait memory: it is not a database.", None),
    (apsw.CorruptError, StoreDamaged, "{path} is damaged ({error}).", _DOCTOR),
    (apsw.ReadOnlyError, StoreReadOnly, "{path} cannot be written: {error}.", None),
    (apsw.InterruptError, DeadlineExceeded, "The query ran past its time limit.", None),
    (
        apsw.IOError,
        StoreFull,
        "Cannot read or write {path}: {error}. Is the disk full or over quota?",
        None,
    ),
    (
        apsw.CantOpenError,
        StoreError,
        "Cannot open {path}: {error}. Check that its folder exists and can be written.",
        None,
    ),
)


def translate(error: apsw.Error, path: str) -> PlaitError:
    """Return a failure of SQLite as one of plait's errors."""
    for kind, ours, words, advice in _FAILURES:
        if isinstance(error, kind):
            return ours(words.format(path=path, error=error), subject=path, advice=advice)
    if isinstance(error, apsw.SQLError) and any(name in str(error) for name in _KEYWORD_NAMES):
        # plait's statements are valid: the index that they name is missing or unreadable.
        return StoreDamaged(
            f"The keyword index of {path} is damaged ({error}).",
            code="keywords_damaged",
            subject=path,
            advice=_DOCTOR,
        )
    return StoreError(f"{path}: {error}", subject=path)


def create_private(path: str) -> None:
    """Create an empty file that only its owner can read; -wal and -shm get the same mode."""
    folder = os.path.dirname(path)
    try:
        if folder and not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(path, flags, PRIVATE_FILE))
    except FileExistsError:
        # An empty file becomes a memory, a folder cannot; or another process created it first.
        if os.path.isdir(path):
            raise _is_folder(path) from None
        if not exists(path):
            _make_private(path)
    except OSError as error:
        raise StoreReadOnly(
            f"Cannot create {path}: {error.strerror}.",
            code="cannot_create",
            subject=path,
            advice=advise("choose_file"),
        ) from error


def _is_folder(path: str) -> StoreError:
    return StoreError(
        f"{path} is a folder, not a file.",
        code="is_folder",
        subject=path,
        advice=advise("choose_file"),
    )


def _make_private(path: str) -> None:
    try:
        os.chmod(path, PRIVATE_FILE)
    except OSError:
        return  # another user's file that we can write: doctor warns about its mode


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
            raise _is_folder(path)
        self.path = path
        self.timeout = timeout
        self._durability = "FULL" if durability == "full" else "NORMAL"
        self._vfs = vfs
        self._lock = allocate_lock()
        self._by_thread: dict[int, apsw.Connection] = {}
        self._closed = False
        self.wrote = False
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
            create_private(path)
        self.get()

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
            connection = self._open()
            with self._lock:
                self._by_thread[ident] = connection
        return connection

    def _open(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        if self.in_memory:
            flags |= apsw.SQLITE_OPEN_CREATE
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                return self._connect(flags)
            except (apsw.BusyError, apsw.LockedError) as error:
                # Another process is creating, recovering or switching the journal of this file.
                if time.monotonic() > deadline:
                    raise translate(error, self.path) from error
                time.sleep(_jitter(0.02))
            except apsw.Error as error:
                raise translate(error, self.path) from error

    def _connect(self, flags: int) -> apsw.Connection:
        connection = apsw.Connection(self.path, flags=flags, vfs=self._vfs)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: apsw.Connection) -> None:
        self.set_wait(connection)
        # A reader must not checkpoint, not even as the last one to close: writers do that.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
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
        if version and connection.execute("PRAGMA application_id").get != APPLICATION_ID:
            self._refuse()
        if version != SCHEMA_VERSION:
            self._migrate(connection, version)

    def _migrate(self, connection: apsw.Connection, version: int) -> None:
        if version > SCHEMA_VERSION:
            raise SchemaTooNew(
                f"{self.path} has schema version {version}, but this plait knows versions up to "
                f"{SCHEMA_VERSION}.",
                subject=self.path,
                advice=advise("upgrade"),
            )
        from plait.stores.sqlite import schema

        self._refuse_stranger(connection, version)
        if not self.in_memory:
            connection.execute(f"PRAGMA journal_mode = {journal_mode(self.path)}").fetchall()
        with WriteLock(self, connection):
            schema.migrate(connection)

    def set_wait(self, connection: apsw.Connection) -> None:
        """Set how long SQLite waits for others at a time; `_patiently` repeats that."""
        connection.set_busy_timeout(min(WAIT_STEP_MS, round(self.timeout * 1000)))

    def _refuse_stranger(self, connection: apsw.Connection, version: int) -> None:
        """Refuse another program's database; only an empty file becomes a memory."""
        if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").get:
            # Another process may have finished the first migration since we read the version.
            if version_of(connection) > 0:
                return
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreDamaged(
            f"{self.path} is a database, but not a plait memory.",
            code="not_a_memory",
            subject=self.path,
            advice=advise("choose_file"),
        )

    def drop(self, connection: apsw.Connection) -> None:
        """Close a connection that can no longer be trusted: a failed sync must not be retried."""
        with self._lock:
            for ident, known in list(self._by_thread.items()):
                if known is connection:
                    del self._by_thread[ident]
        connection.close(force=True)

    def close(self) -> None:
        """Close all connections; after a write, try to empty the journal."""
        with self._lock:
            connections = list(self._by_thread.values())
            self._by_thread.clear()
            self._closed = True
        for connection in connections:
            if self.wrote and not self.in_memory:
                self.wrote = False
                checkpoint(connection, "PASSIVE")
            connection.close(force=True)


def checkpoint(connection: apsw.Connection, mode: Literal["PASSIVE", "TRUNCATE"]) -> bool:
    """Move the journal into the file; false if other processes prevented that."""
    try:
        busy, *_ = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()[0]
    except (apsw.BusyError, apsw.LockedError):
        return False
    return not busy


class WriteLock:
    """``BEGIN IMMEDIATE`` … ``COMMIT``; an exception inside rolls everything back.

    With ``patient=False`` it fails at once while another process writes.
    """

    def __init__(
        self,
        connections: Connections,
        connection: apsw.Connection | None = None,
        *,
        patient: bool = True,
    ) -> None:
        self._connections = connections
        self._connection = connection
        self._patient = patient

    def __enter__(self) -> apsw.Connection:
        """Take the write lock; wait for other processes up to the time limit."""
        connection = self._connection or self._connections.get()
        self._connection = connection
        if self._patient:
            _patiently(lambda: connection.execute("BEGIN IMMEDIATE"), self._connections.timeout)
            return connection
        connection.set_busy_timeout(0)
        try:
            connection.execute("BEGIN IMMEDIATE")
        finally:
            self._connections.set_wait(connection)
        return connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back what was begun."""
        connection = self._connection
        assert connection is not None
        if kind is None:
            try:
                _patiently(lambda: connection.execute("COMMIT"), self._connections.timeout)
            except apsw.Error:
                self._roll_back(connection)
                raise
            self._connections.wrote = True
        else:
            self._roll_back(connection)
            if isinstance(error, apsw.IOError):
                self._connections.drop(connection)

    @staticmethod
    def _roll_back(connection: apsw.Connection) -> None:
        # SQLite itself rolls back after a full disk or an I/O error: then there is nothing to undo.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _jitter(longest: float) -> float:
    """Return seconds to pause; importing ``random`` would cost every search 2 ms."""
    return longest * (1 + os.urandom(1)[0]) / 256


def _patiently(act: Callable[[], object], timeout: float) -> None:
    """Repeat an act while others hold the lock, with jitter, so that processes take turns."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            act()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_jitter(0.01))
        else:
            return


class Guard:
    """Raises APSW's errors as plait's, and gives threads turns on a connection that they share."""

    def __init__(self, connections: Connections, *, patient: bool = True) -> None:
        self._path = connections.path
        self._turns = connections.turns
        self._wait = connections.timeout if patient else 0.0

    def __enter__(self) -> Self:
        """Wait for a turn where the connection is shared."""
        if self._turns is not None and not self._turns.acquire(timeout=self._wait):
            raise StoreBusy(f"Another thread is using {self._path}. Try again in a moment.")
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
        if isinstance(error, apsw.Error):
            raise translate(error, self._path) from error
        if isinstance(error, UnicodeEncodeError | OverflowError):
            # A lone surrogate (a command line that is not UTF-8), or a number over 64 bits.
            raise UsageError(
                f"A value cannot be stored or looked up: {error}.", code="not_storable"
            ) from error
