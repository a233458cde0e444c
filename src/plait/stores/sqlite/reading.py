"""Connections that never write, for a memory that is opened to be read only.

Loaded only for these.
"""

import os
import time
from _thread import get_ident
from typing import Any
from urllib.parse import quote

import apsw

from plait.errors import (
    Notice,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    advise,
)
from plait.stores import exists
from plait.stores.sqlite import journal
from plait.stores.sqlite.connection import (
    APPLICATION_ID,
    CACHE_KIB,
    SCHEMA_VERSION,
    Connections,
    Mark,
    has_journal,
    has_pages,
    is_restoring,
    keep_plans,
    translate,
    version_of,
)

PAUSE_S = 0.02
OLDEST_READABLE = 9  # later migrations added an index only, which is not needed for reading


class ReadingConnections(Connections):
    """One read-only connection per thread.

    A file with a journal is read through it, as writers do. Without one, nobody is writing, and
    SQLite is told that the file does not change: otherwise it would create a journal, which it
    cannot in a folder that may not be written. A journal that appears later is noticed before the
    next act. So it is if the journal is empty and its index belongs to the file that had the name
    before `mv`: writers set such a journal aside, readers leave it alone.
    """

    def renew(self) -> None:
        """Reopen the file if it, or whether it has a journal, is not what it was."""
        for connection, mark in self._of_this_thread():
            if mark != self.mark():
                self.drop(connection)

    def is_replaced(self, connection: apsw.Connection) -> bool:
        """Return false: only writers must know."""
        return False

    def close(self) -> None:
        """Close all connections; what others do with the journal is theirs."""
        with self._lock:
            connections = list(self._by_thread.values())
            self._by_thread.clear()
            self._marks.clear()
            self._closed = True
        for connection in connections:
            connection.close(force=True)

    def _of_this_thread(self) -> list[tuple[apsw.Connection, Mark | None]]:
        connection = self._by_thread.get(get_ident())
        return [] if connection is None else [(connection, self._marks.get(get_ident()))]

    def _open(self) -> tuple[apsw.Connection, Mark | None]:
        deadline = time.monotonic() + self.timeout
        misfits = 0
        while True:
            before = self._present()
            # An empty journal has nothing of the file: it can be read without a foreign index.
            shares = self._shares_index(before) and misfits < journal.LOOKS
            try:
                if not is_restoring(self.real):
                    connection = self._connect_fitting(before, shares=shares)
                    if connection is not None:
                        return connection, before
                    misfits += 1
                elif time.monotonic() > deadline:
                    raise StoreBusy(f"{self.path} is being replaced. Try again in a moment.")
            except (apsw.BusyError, apsw.LockedError) as error:
                if time.monotonic() > deadline:
                    raise translate(error, self.path) from error
            except (apsw.Error, UnicodeDecodeError) as error:
                if not shares and self.mark() == before:
                    raise translate(error, self.path, opening=True) from error
                misfits += shares
            if misfits >= journal.LOOKS and journal.belongs(self.real, self.vfs) is False:
                raise journal.foreign_journal(self.path)
            time.sleep(PAUSE_S)

    def _present(self) -> Mark:
        """Return which files are there; refuse those that SQLite must not meet."""
        self.real = os.path.realpath(self.path)
        mark = self.mark()
        if mark is None:
            raise StoreError(
                f"There is no memory at {self.path} any more.",
                code="no_memory",
                subject=self.path,
            )
        journal.check_beside(self.real, self.vfs)
        return mark

    def _connect_fitting(self, before: Mark, *, shares: bool) -> apsw.Connection | None:
        """Connect, unless the journal, or the index that an empty one shares, is another file's."""
        if has_journal(self.real) and journal.belongs(self.real, self.vfs) is False:
            return None
        connection = self._connect_reading(still=not (shares or has_journal(self.real)))
        if not shares or has_journal(self.real) or has_pages(connection, before):
            return connection
        connection.close(force=True)
        return None

    def _connect_reading(self, *, still: bool) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        address = f"file:{quote(self.real)}?immutable=1" if still else self.real
        connection = apsw.Connection(address, flags=flags, vfs=self.vfs)
        try:
            self.set_wait(connection)
            keep_plans(connection)
            for pragma in (
                "trusted_schema = OFF",
                "cell_size_check = ON",
                "mmap_size = 0",
                "query_only = ON",
                f"cache_size = -{CACHE_KIB}",
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            self._check(connection)
        except BaseException:  # Ctrl-C, too: nobody else would close it
            connection.close()
            raise
        return connection

    def _check(self, connection: apsw.Connection) -> None:
        version = version_of(connection)
        if connection.execute("PRAGMA application_id").get != APPLICATION_ID:
            raise apsw.NotADBError("it is another program's database")
        if version > SCHEMA_VERSION:
            raise SchemaTooNew(
                f"{self.path} has schema version {version}, but this plait knows versions up to "
                f"{SCHEMA_VERSION}.",
                subject=self.path,
                advice=advise("upgrade"),
            )
        if version < OLDEST_READABLE:
            raise StoreReadOnly(
                f"{self.path} is from an older plait and must be opened once for writing. If it "
                "cannot be written, copy it to where it can, and open the copy.",
                code="read_only_upgrade",
                subject=self.path,
            )


def reading_instead(
    path: str, full: StoreFull, **options: Any
) -> tuple[ReadingConnections, Notice]:
    """Return connections that only read a memory whose disk is ``full``, and what to tell of it.

    To write, SQLite needs a journal and its index beside the file, even while nobody writes.

    Raises:
        StoreFull: There is no memory yet, or a journal without an index must be read.
    """
    if not exists(path):
        raise full
    try:
        connections = ReadingConnections(path, **options)
    except StoreError:
        raise full from None
    text = f"No space is left for {path}. Until there is, it can only be read."
    return connections, Notice(text, "disk_full", path)
