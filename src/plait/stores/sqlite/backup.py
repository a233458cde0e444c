"""Copy a memory to a new file while it is in use."""

import os

import apsw

from plait.errors import StoreError, UsageError
from plait.stores.sqlite import journal
from plait.stores.sqlite.connection import PRIVATE_FILE, Connections
from plait.types import new_id


def copy_to(connections: Connections, target: str) -> None:
    """Write a consistent copy by ``VACUUM INTO``, which reads a snapshot and blocks no writer."""
    if os.path.exists(target):
        raise UsageError(f"{target} already exists. Choose another name for the backup.")
    # A unique name: the leftovers of a killed backup must not stop the next one.
    partial = f"{target}.{new_id()}.partial"
    try:
        # subtle: VACUUM INTO would create the file 0644; it also accepts an empty file.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE_FILE))
    except OSError as error:
        raise StoreError(
            f"Cannot write the backup {target}: {error.strerror}. Choose another place."
        ) from error
    try:
        connections.get().execute("VACUUM INTO ?", (partial,))
        _finish(partial)
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise


def _finish(partial: str) -> None:
    """Give the copy a number of its own, because no journal continues it, and make it durable."""
    connection = apsw.Connection(partial, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.execute("PRAGMA journal_mode = MEMORY").fetchall()
        connection.execute("PRAGMA synchronous = FULL").fetchall()  # the commit syncs the file
        with connection:
            journal.record_commit(connection)
    finally:
        connection.close(force=True)
