"""Copy a memory to a new file while it is in use, and check such a copy."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import apsw

from plait.errors import (
    StoreDamaged,
    StoreError,
    UsageError,
    advise,
    lacks_descriptors,
    too_many_files,
)
from plait.stores.sqlite import journal, scratch
from plait.stores.sqlite.connection import (
    APPLICATION_ID,
    PRIVATE_FILE,
    SCHEMA_VERSION,
    Connections,
    has_journal,
    version_of,
)
from plait.stores.sqlite.failures import too_new


def copy_to(connections: Connections, target: str) -> None:
    """Write a consistent copy by ``VACUUM INTO``, which reads a snapshot and blocks no writer."""
    if os.path.exists(target):
        raise UsageError(f"{target} already exists. Choose another name for the backup.")
    journal.refuse_orphan(os.path.realpath(target))
    try:
        with scratch.beside(target) as folder:
            copy = os.path.join(folder, "memory.db")
            # subtle: VACUUM INTO would create the file 0644; it also accepts an empty file.
            os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE_FILE))
            _vacuum_into(connections.get(), copy)
            _finish(copy)
            os.replace(copy, target)
    except OSError as error:
        if lacks_descriptors(error):
            raise too_many_files(target) from error
        raise StoreError(
            f"Cannot write the backup {target}: {error.strerror}. Choose another place."
        ) from error


def _vacuum_into(connection: apsw.Connection, copy: str) -> None:
    """Copy a memory; a connection that only reads may write another file for it."""
    reads_only = bool(connection.execute("PRAGMA query_only").get)
    connection.execute("PRAGMA query_only = OFF").fetchall()
    try:
        connection.execute("VACUUM INTO ?", (copy,))
    finally:
        connection.execute(f"PRAGMA query_only = {int(reads_only)}").fetchall()


def _finish(copy: str) -> None:
    """Give the copy a number of its own, because no journal continues it, and make it durable."""
    connection = apsw.Connection(copy, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.execute("PRAGMA journal_mode = MEMORY").fetchall()
        connection.execute("PRAGMA synchronous = FULL").fetchall()  # the commit syncs the file
        with connection:
            journal.record_commit(connection)
    finally:
        connection.close(force=True)


# -- a backup to restore --------------------------------------------------------------------


@contextmanager
def opened_to_read(source: str) -> Iterator[apsw.Connection]:
    """Open a backup without writing beside it, unless it has a journal of its own."""
    journal.check_beside(os.path.realpath(source))
    if journal.belongs(source) is False:
        raise journal.foreign_journal(source)
    mode = "ro" if has_journal(source) else "ro&immutable=1"
    address = f"file:{quote(source)}?mode={mode}"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(address, flags=flags)
    try:
        yield connection
    finally:
        connection.close(force=True)


def check(backup: apsw.Connection, source: str) -> None:
    """Refuse what cannot be restored.

    Raises:
        SchemaTooNew: A newer plait wrote it.
        StoreDamaged: It is damaged, or no memory.
    """
    version = version_of(backup)
    if not version or backup.execute("PRAGMA application_id").get != APPLICATION_ID:
        raise not_a_memory(source)
    if version > SCHEMA_VERSION:
        raise too_new(source, version, SCHEMA_VERSION)
    for (answer,) in backup.execute("PRAGMA integrity_check"):
        # A damaged keyword index is rebuilt when the memory is opened or repaired.
        if answer != "ok" and "fts5" not in str(answer).lower():
            raise damaged(source, str(answer))


def not_a_memory(source: str) -> StoreDamaged:
    """Return the error for a file that is something else."""
    return StoreDamaged(
        f"{source} is not a plait memory.",
        code="not_a_memory",
        subject=source,
        advice=advise("give_backup"),
    )


def damaged(source: str, reason: str) -> StoreDamaged:
    """Return the error for a backup that must not replace a memory."""
    return StoreDamaged(
        f"The backup {source} is damaged ({reason}). Nothing was replaced.",
        code="backup_damaged",
        subject=source,
        advice=advise("salvage_backup", path=source),
    )


def can_be_restored(path: str) -> bool:
    """Tell whether a file that was kept is whole."""
    try:
        with opened_to_read(path) as kept:
            check(kept, path)
    except (apsw.Error, StoreError):
        return False
    return True
