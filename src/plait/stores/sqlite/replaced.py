"""What to do when the file of an open memory is not what it was.

A connection keeps its files open, whatever happens to their names. So plait compares names and open
files before every act, after it has taken the write lock, and after every commit. What was written
to a file without a name is never acknowledged. Loaded only when something has changed.
"""

import os
import time
from contextlib import suppress

import apsw

from plait.errors import StoreError, StoreReadOnly, advise
from plait.stores import exists
from plait.stores.sqlite import journal, permissions
from plait.stores.sqlite.connection import (
    Connections,
    Mark,
    checkpoint,
    has_journal,
    has_pages,
    is_restoring,
)

PAUSE_S = 0.01


def follow(connections: Connections, connection: apsw.Connection, mark: Mark) -> None:
    """Close the connection, unless a checkpoint explains what changed since ``mark``.

    Raises:
        StoreError: There is no file any more.
    """
    if _is_writing(connection):
        return  # `is_replaced` looks at its end
    path, now = connections.path, connections.mark()
    if now is not None and _are_same(mark, now) and _fits(connections, connection, now):
        connections.remember(now)
        return
    if now == mark._replace(journal=None):
        _rescue(connection)
    connections.drop(connection)
    if now is not None and now.file == mark.file and now.journal != mark.journal:
        _close_others(connections.real)
    if now is None or not exists(path):
        raise vanished(path)
    if now.file != mark.file:
        _set_journal_aside(connections, mark)
    tidy_kept(connections, mark)


def tidy_kept(connections: Connections, mark: Mark) -> None:
    """Remove the empty journal of the file of a ``mark`` that a restore kept under another name.

    The restore could not: this process was still using it.
    """
    now = connections.mark()
    if now is not None and now.file != mark.file:
        from plait.stores.sqlite.restoring import remove_kept_journal

        remove_kept_journal(connections.real, mark.file)


def _set_journal_aside(connections: Connections, mark: Mark) -> None:
    """Rename the journal beside a new file, unless it is the new file's own.

    The one of the ``mark`` was the old file's.
    """
    from plait.stores.sqlite.restoring import Former, set_journal_aside

    former = None if mark.journal is None else Former(mark.journal, connections.number)
    try:
        set_journal_aside(connections.real, connections.timeout, connections.vfs, former)
    except OSError as error:
        raise journal.foreign_journal(connections.path) from error


def _is_writing(connection: apsw.Connection) -> bool:
    try:
        return connection.in_transaction
    except apsw.ConnectionClosedError:  # by another thread that noticed first
        return False


def _close_others(path: str) -> None:
    """Close this process's other connections to a file: they reopen it too.

    SQLite keeps one index of the journal per process and file as long as any connection is open,
    and a new connection would use the index of the old journal.
    """
    for connection in apsw.connections():
        try:
            if connection.filename == path and not connection.in_transaction:
                connection.close(force=True)
        except apsw.Error:
            continue  # closed already, or another thread is using it and will notice itself


def _are_same(mark: Mark, now: Mark) -> bool:
    """Tell whether the names still lead to the open files."""
    return now.file == mark.file and mark.journal in (None, now.journal)


def _fits(connections: Connections, connection: apsw.Connection, now: Mark) -> bool:
    """Tell whether the contents of the file are still those that the connection reads."""
    if now.journal is None:
        return True  # without a journal SQLite itself sees what others write
    if connections.number and _file_number(connections) == connections.number:
        # Most often the latest commit made here has reached the file. Of a large one, the checksums
        # of a journal's first pages, which SQLite wrote before the last one, take 20 ms.
        return True
    fits = journal.belongs(connections.real, connections.vfs)
    if fits is None:
        # subtle: an empty journal proves nothing. But every act reads page 2, so that it is cached:
        # if a copy was written over the file, the connection still sees the number of the old one.
        number = _file_number(connections)
        try:
            return number in (None, journal.number_in(connection))
        except apsw.Error:
            return False
    return fits


def _file_number(connections: Connections) -> str | None:
    return journal.file_number(connections.real, connections.vfs)


def _rescue(connection: apsw.Connection) -> None:
    """Save what is in a journal that somebody removed: this connection can still read it."""
    try:
        checkpoint(connection, "PASSIVE")
    except apsw.Error:
        return


def is_replaced(connections: Connections, connection: apsw.Connection, mark: Mark) -> bool:
    """Tell whether the names lead elsewhere, or a copy was written over the file.

    Only checkpoints change the file in place; every commit, and so every checkpoint, leaves a
    number in it.
    """
    for _ in range(journal.LOOKS):
        now = connections.mark()
        if now is None or not _are_same(mark, now):
            return True
        if _fits(connections, connection, now):
            connections.remember(now)
            return False
        time.sleep(PAUSE_S)
    return True


def set_index_aside(connections: Connections) -> bool:
    """Set an empty journal aside whose index is another file's; tell whether it was.

    subtle: after `mv`, who opens the new file shares the index with who has the old one open, and
    the index tells how many pages the file has. In a longer file SQLite would not find the pages
    behind them, and would write over these.

    Raises:
        StoreDamaged: The journal cannot be set aside.
    """
    for _ in range(journal.LOOKS):
        now = connections.mark()
        if now is None or now.journal is None or has_journal(connections.real):
            return False
        try:
            if _knows_all_pages(connections, now):
                return False
        except apsw.Error:  # what opened the file before tells it
            return False
        time.sleep(PAUSE_S)
    mark = connections.mark()
    if mark is not None:
        _set_journal_aside(connections, mark)
    return True


def _knows_all_pages(connections: Connections, mark: Mark) -> bool:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(connections.path, flags=flags, vfs=connections.vfs)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        return has_pages(connection, mark)
    finally:
        connection.close(force=True)


def may_checkpoint(connections: Connections, mark: Mark) -> bool:
    """Tell whether the journal may be moved into the file; set it aside if the file is new."""
    now = connections.mark()
    if now is None or not _are_same(mark, now):
        if now is not None and now.file != mark.file:
            with suppress(StoreError):
                _set_journal_aside(connections, mark)
        return False
    return journal.belongs(connections.real, connections.vfs) is not False


def examine(connections: Connections) -> Mark:
    """Make sure that SQLite may open the file, and return which one it is.

    Raises:
        StoreDamaged: Its journal belongs to another file, or SQLite must not meet it.
        StoreError: There is no file.
    """
    path = connections.path
    journal.check_beside(connections.real, connections.vfs)
    for _ in range(journal.LOOKS):
        if is_restoring(connections.real):
            from plait.stores.sqlite.restoring import settle

            settle(connections.real, connections.timeout)
        before = connections.mark()
        if before is None:
            raise vanished(path)
        if journal.belongs(connections.real, connections.vfs) is not False:
            permissions.repair(connections.real)
            return before
        time.sleep(PAUSE_S)
    raise journal.foreign_journal(path)


def current(connections: Connections) -> apsw.Connection:
    """Return a connection to the file that has the name now; ask for it before a checkpoint.

    After `mv`, processes that have the new file open may share the journal with those that have the
    old one: a checkpoint of the old one would take from the journal what the new one needs.
    """
    connections.renew()
    return connections.get()


def vanished(path: str) -> StoreError:
    """Return the error for a memory whose file is gone, or out of reach."""
    try:
        os.stat(path)
    except PermissionError as error:
        return StoreReadOnly(
            f"{path} cannot be read any more: {error.strerror}. Check the permissions of its "
            "folder.",
            code="file_unreachable",
            subject=path,
        )
    except OSError:
        pass
    return StoreError(
        f"There is no memory at {path} any more: it was moved or removed.",
        code="file_vanished",
        subject=path,
        advice=advise("restore"),
    )


def written_elsewhere(path: str) -> StoreError:
    """Return the error for a write into a file that lost its name meanwhile."""
    return StoreError(
        f"{path} was replaced while this was being written, so it may not be in the memory. Check, "
        "and write it again.",
        code="file_replaced",
        subject=path,
    )
