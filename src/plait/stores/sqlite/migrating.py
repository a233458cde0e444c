"""Open a file that is new, older, or somebody else's. Loaded only for these."""

from typing import NoReturn

import apsw

from plait.errors import StoreDamaged, advise
from plait.stores.sqlite import schema
from plait.stores.sqlite.connection import (
    APPLICATION_ID,
    Connections,
    empty_journal,
    version_of,
)
from plait.stores.sqlite.failures import too_new
from plait.stores.sqlite.journal import mark_changed
from plait.stores.sqlite.modes import journal_mode
from plait.stores.sqlite.state import refuse_foreign_objects
from plait.stores.sqlite.write_lock import WriteLock


def migrate(connections: Connections, connection: apsw.Connection, version: int) -> None:
    """Bring a file to the current schema and journal mode.

    Raises:
        SchemaTooNew: A newer plait wrote it.
        StoreDamaged: It is another program's database.
        apsw.CorruptError: It is older, and somebody else's objects would act in the migration.
    """
    path = connections.path
    if version and connection.execute("PRAGMA application_id").get != APPLICATION_ID:
        _refuse(path)
    newest = len(schema.MIGRATIONS)
    if version > newest:
        raise too_new(path, version, newest)
    schema.refuse_torso(connection)
    _refuse_stranger(path, connection, version)
    if 0 < version < newest:
        # A migration would run them, and some begin with a look at a table.
        refuse_foreign_objects(connection, schema.ACTING)
    try:
        if not connections.in_memory:
            _set_journal_mode(connection, journal_mode(path))
    except apsw.BusyError:
        if version < newest:
            raise
        return  # others are using it in its present mode, which is only slower
    if version < newest:
        with WriteLock(connections, connection):
            schema.migrate(connection)
            mark_changed(connection)
        if not connections.in_memory:
            # A journal that goes back to a file without a number is hard to tell from another's.
            empty_journal(connection)
            connections.set_wait(connection)


def _set_journal_mode(connection: apsw.Connection, mode: str) -> None:
    """Set the journal mode without a journal on disk.

    The switch writes the first bytes of the file, which cannot be torn. A journal would outlive a
    kill, and later undo a copy that somebody put in the place of this file.
    """
    if connection.execute("PRAGMA journal_mode").get == mode:
        return  # to leave it for a moment would need the file for oneself
    connection.execute("PRAGMA journal_mode = MEMORY").fetchall()
    try:
        connection.execute(f"PRAGMA journal_mode = {mode}").fetchall()
    finally:
        if connection.execute("PRAGMA journal_mode").get == "memory":  # others are using the file
            connection.execute("PRAGMA journal_mode = DELETE").fetchall()


def _refuse_stranger(path: str, connection: apsw.Connection, version: int) -> None:
    """Refuse another program's database; only an empty file becomes a memory."""
    if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").get:
        # Another process may have finished the first migration since we read the version.
        if version_of(connection) > 0:
            return
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise StoreDamaged(
        f"{path} is a database, but not a plait memory.",
        code="not_a_memory",
        subject=path,
        advice=advise("choose_file"),
    )
