"""Copy a memory to a new file while it is in use, and check such a copy."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
from plait.stores.sqlite import journal, objects, scratch
from plait.stores.sqlite.connection import (
    APPLICATION_ID,
    PRIVATE_FILE,
    SCHEMA_VERSION,
    Connections,
    has_journal,
    version_of,
)
from plait.stores.sqlite.failures import told, too_new
from plait.stores.sqlite.state import refuse_foreign_sequence
from plait.stores.sqlite.write_lock import WriteLock


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


def copy_from(source: str, copy: str, timeout: float) -> int:
    """Check a backup and copy it; return how many documents it has."""
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE_FILE))
    with ExitStack() as stack:
        try:
            backup = stack.enter_context(opened_to_read(source))
            check(backup, source)
        except apsw.NotADBError as error:
            raise not_a_memory(source) from error
        except (apsw.CantOpenError, PermissionError) as error:
            if os.access(source, os.R_OK):
                raise  # this process has too many files open
            raise StoreError(
                f"Cannot read the backup {source}. Check its permissions. Nothing was replaced.",
                code="unreadable_backup",
                subject=source,
            ) from error
        except apsw.Error as error:
            raise damaged(source, str(error)) from error
        backup.execute("VACUUM INTO ?", (copy,))
    try:
        return _open_copy(copy, source, timeout)
    except apsw.CorruptError as error:
        raise damaged(source, told(error)) from error
    except StoreDamaged as error:
        if not isinstance(error.__cause__, apsw.Error):
            raise
        raise damaged(source, told(error.__cause__)) from error  # does not name the copy


def _open_copy(copy: str, source: str, timeout: float) -> int:
    """Migrate and mend the copy of a backup; return how many documents it has."""
    connections = Connections(copy, create=False, timeout=timeout)
    try:
        # subtle: not under the lock of writers, which reads a table. Nobody else has the file.
        with connections.get() as connection:
            listed = objects.differences(connection)
            for difference in listed:
                if difference.is_table and difference.own is not None:
                    raise damaged(source, str(difference))
            objects.mend(connection, listed)
        with WriteLock(connections) as connection:
            # The commit gets a number of its own, which no journal continues.
            journal.mark_changed(connection)
        return int(connection.execute("SELECT count(*) FROM documents").get)
    finally:
        connections.close()  # this syncs it


def check(backup: apsw.Connection, source: str) -> None:
    """Refuse what cannot be restored.

    Raises:
        SchemaTooNew: A newer plait wrote it.
        StoreDamaged: It is damaged, or no memory.
        apsw.CorruptError: A copy would run what somebody else put into its schema.
    """
    version = version_of(backup)
    if not version or backup.execute("PRAGMA application_id").get != APPLICATION_ID:
        raise not_a_memory(source)
    if version > SCHEMA_VERSION:
        raise too_new(source, version, SCHEMA_VERSION)
    refuse_foreign_sequence(backup)
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
