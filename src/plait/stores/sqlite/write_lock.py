"""The write lock: a transaction that is committed at its end, or rolled back as a whole."""

from _weakref import ref
from functools import partial
from types import TracebackType

import apsw

from plait.stores.sqlite import journal
from plait.stores.sqlite.connection import Connections


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
        self._changes = 0

    def __enter__(self) -> apsw.Connection:
        """Take the write lock; wait for other processes up to the time limit."""
        given, reopened = self._connection, False
        while True:
            connection = given or self._connections.get()
            if not (given or reopened) and connection.readonly("main"):
                from plait.stores.sqlite.permissions import reopens_to_write

                reopened = True
                if reopens_to_write(self._connections):
                    continue
            self._connections.end_abandoned(connection)
            if connection.in_transaction:
                self._begin(connection)  # fails: it is another's, who ends it
            self._connections.writers[connection] = ref(self)
            try:
                self._begin(connection)
                # The lock is the journal's: in a file that was replaced it protects nothing.
                if given is not None or not self._connections.is_replaced(connection):
                    self._connection, self._changes = connection, connection.total_changes()
                    return connection
                connection.execute("ROLLBACK")
            except BaseException:  # Ctrl-C, too: nobody else would end the transaction
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self._connections.renew()

    def _begin(self, connection: apsw.Connection) -> None:
        if self._patient:
            begin = partial(connection.execute, "BEGIN IMMEDIATE")
            journal.patiently(begin, self._connections.timeout)
            return
        connection.set_busy_timeout(0)
        try:
            connection.execute("BEGIN IMMEDIATE")
        finally:
            self._connections.set_wait(connection)

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
                if connection.total_changes() != self._changes and not self._connections.in_memory:
                    self._connections.number = journal.record_commit(connection)
                commit = partial(connection.execute, "COMMIT")
                journal.patiently(commit, self._connections.timeout)
            except BaseException as failure:  # Ctrl-C, too
                self._roll_back(connection, failure)
                raise
            self._connections.writers.pop(connection, None)
            self._connections.wrote = True
            if self._connections.is_replaced(connection):
                from plait.stores.sqlite.replaced import written_elsewhere

                raise written_elsewhere(self._connections.path)
        else:
            self._roll_back(connection, error)
            if isinstance(error, apsw.IOError):
                self._connections.drop(connection)

    def _roll_back(self, connection: apsw.Connection, error: BaseException | None) -> None:
        # SQLite itself rolls back after a full disk or an I/O error: then there is nothing to undo.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        self._connections.writers.pop(connection, None)
        if isinstance(error, apsw.FullError):
            from plait.stores.sqlite.scrubbing import make_room

            make_room(self._connections, connection)
