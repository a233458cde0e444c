"""One write: begun on one connection, gone on with on another if that is lost, committed once.

A memory counts its writes, and notes the number of each writer's last one. A writer whose
connection is lost takes the memory's row again, on another one. If the count is as it was, nobody
has written since: what this writer sent is sent again. If its own number is noted, the commit whose
answer was lost has happened. So nothing is lost that was acknowledged, and nothing is done twice.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, LiteralString, Self, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from plait.errors import StoreBusy, StoreError
from plait.stores.postgres import failures
from plait.stores.postgres.connection import VERSION, Channel, Connections, SQLStatement
from plait.stores.postgres.labels import WHO, recognised
from plait.stores.postgres.pool import (
    Connection,
    Lease,
    Patience,
    SQLRow,
    at_once,
    is_interruption,
    milliseconds,
)
from plait.stores.sqlite.audit import KEY
from plait.stores.sqlite.state import MOVING

_Result = TypeVar("_Result")

# Held by a change of the tables, shared by writers: "plai".
LOCK = 0x706C6169
# A client that has vanished in the middle of a write blocks the memory no longer than this.
IDLE_TRANSACTION_S = 60
# After so many statements a write is not repeated: they are kept for it.
MOST_SENT_AGAIN = 10_000
COMMIT_TRIES = 4
MOST_WAITING = 128
# So many writes later, and not before, the note of a writer's last one may be dropped.
NOTED_WRITES = 10_000
DROPPED_EVERY = 256
_OPEN = (TransactionStatus.INTRANS, TransactionStatus.INERROR)

# Whatever the server does by default: a writer that waits for another one goes on from what that
# one has written.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
_SETTINGS = (
    "SELECT set_config('lock_timeout', %(wait)s, true), "
    "set_config('idle_in_transaction_session_timeout', %(idle)s, true)"
)
_ALONE = "SELECT pg_advisory_xact_lock(%(lock)s)"
_NOT_FLUSHED = "SELECT set_config('synchronous_commit', 'off', true)"
_SAME_TABLES = "SELECT pg_advisory_xact_lock_shared(%(lock)s)"
_HOLD = "SELECT 1 FROM plait.namespaces WHERE ns = %(ns)s FOR UPDATE"
_LAST = "SELECT number FROM plait.commits WHERE ns = %(ns)s AND writer = %(writer)s"
_NOTED = f"SELECT name, value FROM plait.facts WHERE ns = %(ns)s AND name IN ('{MOVING}', '{KEY}')"  # noqa: S608
COUNTERS = ("counter", "refs", "audited")
_COUNT = (
    "UPDATE plait.namespaces SET commits = commits + 1 WHERE ns = %(ns)s "  # noqa: S608
    f"RETURNING commits, {', '.join(COUNTERS)}"
)
_NOTE = (
    "INSERT INTO plait.commits (ns, writer, number) "
    "SELECT n.ns, %(writer)s, n.commits FROM plait.namespaces AS n WHERE n.ns = %(ns)s "
    "ON CONFLICT (ns, writer) DO UPDATE SET number = excluded.number"
)
_DROP_NOTES = "DELETE FROM plait.commits WHERE ns = %(ns)s AND number < %(oldest)s"


@contextmanager
def holding_all(connection: Connection, timeout: float) -> Iterator[None]:
    """Begin a transaction about all memories of a database, in which nobody writes to any."""
    settings = {
        "wait": milliseconds(timeout),
        "idle": milliseconds(IDLE_TRANSACTION_S),
        "lock": LOCK,
    }
    with connection.transaction():
        connection.execute(_SETTINGS, settings)
        connection.execute(_ALONE, settings)
        yield


class Write(Channel):
    """A transaction that has the memory's row to itself."""

    def __init__(self, connections: Connections, patience: Patience, *, patient: bool) -> None:
        self._lease: Lease | None = connections.take(patience)
        connection = self._lease.connection
        super().__init__(connection, connections.membership, connections.vectors_in)
        # What marks a memory that another one is being moved into.
        self.moving: str | None = None
        self._connections = connections
        self._patience = patience
        self._patient = patient
        self._number = 0
        self._sent: list[SQLStatement] | None = []
        # The last numbers that this memory gave away, until its row is written again.
        self.counters: dict[str, int] = {}
        self.audit_key: str | None = None
        self._tries = 0

    @property
    def connection(self) -> Connection:
        """The connection itself; what it is used for cannot be repeated on another one."""
        self._send_waiting()
        self._sent = None
        return self._connection

    # -- begin -----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Begin."""
        try:
            self._begin(self._patience)
        except BaseException as error:
            self._end(error)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Roll back what was not committed."""
        self._end(error)

    def _begin(self, patience: Patience) -> None:
        """Take the memory's row.

        Raises:
            StoreBusy: Another writer has it.
            SchemaTooNew: A newer plait has changed the tables.
        """
        while True:
            try:
                self._number, _ = self._hold(patience, patience.left if self._patient else 0.0)
            except psycopg.Error as error:
                # After a failover, an old connection may lead to a server that is now read-only.
                stale = isinstance(error, errors.ReadOnlySqlTransaction) and not self._tries
                if not (failures.is_lost(error) or stale) or not self._may_try(patience):
                    raise
            else:
                break
        if self._number % DROPPED_EVERY == 0:
            self.execute(_DROP_NOTES, oldest=self._number - NOTED_WRITES)

    def _may_try(self, patience: Patience) -> bool:
        self._tries += 1
        return self._tries < COMMIT_TRIES and patience.wait()

    def _hold(self, patience: Patience, wait: float) -> tuple[int, int | None]:
        """Begin on a connection; return the number of this write, and that of the last one."""
        if self._lease is None:
            self._lease = self._connections.take(patience)
            self._connection = self._lease.connection
        try:
            return self._held(wait)
        except BaseException as error:
            if failures.is_lost(error) or isinstance(error, errors.ReadOnlySqlTransaction):
                self._leave()
            else:
                self._end(error)
            raise

    def _held(self, wait: float) -> tuple[int, int | None]:
        settings = {
            "wait": milliseconds(wait),
            "idle": milliseconds(IDLE_TRANSACTION_S),
            "lock": LOCK,
            "writer": self._connections.writer,
        }
        asked = [_SETTINGS, _SAME_TABLES, VERSION, _HOLD if self._patient else f"{_HOLD} NOWAIT"]
        if self._connections.durability != "full":
            asked.insert(0, _NOT_FLUSHED)
        if not self.membership.is_administrator:
            asked.insert(0, WHO)
        # All at once: a write waits for one answer before it begins.
        with at_once(self._connection):
            self._connection.execute(_BEGIN)
            cursors = [self._send(sql, settings) for sql in (*asked, _NOTED, _LAST, _COUNT)]
            noted = self._send(_NOTE, settings)
        who, *_, version, held, facts, last, counts = [cursor.fetchall() for cursor in cursors]
        done = noted.rowcount
        connections, path = self._connections, self._connections.path
        connections.refuse_newer(version[0][0])
        if not self.membership.is_administrator:
            connections.joined_as(recognised(who, self.ns, path))
            self.joined_as(connections.membership)
        if not held or done != 1:
            raise StoreBusy(f"The memory {path} was dropped meanwhile.", subject=path)
        known: dict[str, str] = dict(facts)
        self.moving, self.audit_key = known.get(MOVING), known.get(KEY)
        number, *numbers = counts[0]
        # subtle: on another connection, what was given away is written again, and counted here.
        self.counters = self.counters or dict(zip(COUNTERS, numbers, strict=True))
        return number, last[0][0] if last else None

    # -- statements ------------------------------------------------------------------------

    def execute(self, sql: str, values: Mapping[str, Any] | None = None, **named: Any) -> None:
        """Run a statement whose answer nobody waits for: with the next one, or with the end."""
        self._waiting.append((sql, {**(values or {}), **named}))
        if len(self._waiting) >= MOST_WAITING:
            self._send_waiting()

    def together(self, *statements: SQLStatement, unlimited: int = 0) -> list[list[SQLRow]]:
        """Return the rows of several statements, which go to the server at once."""
        together = super().together
        rows = self._persist(lambda: together(*statements, unlimited=unlimited))
        self._has_sent()
        return rows

    def _run(self, sql: str, values: Mapping[str, Any]) -> "psycopg.Cursor[SQLRow]":
        cursor = self._persist(lambda: self._after_waiting(lambda: self._send(sql, values)))
        self._has_sent(*([] if sql.startswith("SELECT") else [(sql, values)]))
        return cursor

    def _send_waiting(self) -> None:
        if self._waiting:
            self._persist(lambda: self._after_waiting(lambda: None))
            self._has_sent()

    def _after_waiting(self, send: Callable[[], _Result]) -> _Result:
        """Send something in one trip with what waits, and after it."""
        if not self._waiting:
            return send()
        with at_once(self._connection):
            for sql, values in self._waiting:
                self._send(sql, values)
            return send()

    def _has_sent(self, *statements: SQLStatement) -> None:
        """Note what was sent, after what was waiting: if the connection is lost, again."""
        if self._sent is not None:
            self._sent += (*self._waiting, *statements)
            if len(self._sent) > MOST_SENT_AGAIN:
                self._sent = None
        self._waiting = []

    def _persist(self, act: Callable[[], _Result]) -> _Result:
        while True:
            try:
                return act()
            except psycopg.Error as error:
                if not failures.is_lost(error):
                    raise
                self._recover(error)

    def _recover(self, lost: psycopg.Error, *, committing: bool = False) -> bool:
        """Go on with this write on another connection; return whether it was committed already.

        Raises:
            StoreError: Nobody can tell whether it was, because the server does not answer.
            psycopg.Error: It was not, and it cannot be gone on with.
        """
        connections = self._connections
        # Before those who have not begun: once they have written, this cannot be gone on with.
        patience = Patience(connections.timeout, hurried=True)
        # The server may not know yet that the old connection is gone.
        wait = connections.timeout + IDLE_TRANSACTION_S
        while True:
            self._leave()
            try:
                number, last = self._hold(patience, wait)
                if committing and last == self._number:
                    return True
                if number - self._number > NOTED_WRITES:
                    raise lost
                committing = False
                self._repeat(number, lost)
            except (psycopg.Error, StoreError) as error:
                if error is not lost and failures.is_lost(error) and self._may_try(patience):
                    continue
                if committing:
                    raise failures.undecided(error, connections.path) from error
                raise
            return False

    def _repeat(self, number: int, lost: psycopg.Error) -> None:
        """Send everything again, unless somebody has written since, or it is not known any more."""
        if number != self._number or self._sent is None:
            raise lost
        for sql, values in self._sent:
            self._send(sql, values)

    # -- end -------------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit; if the answer is lost, find out whether it has happened."""
        while True:
            try:
                self._commit()
            except psycopg.Error as error:
                if not failures.is_lost(error):
                    raise
                if not self._recover(error, committing=True):
                    continue
            return

    def _commit(self) -> None:
        # subtle: after a statement that failed, COMMIT rolls back and is no error.
        failed = self._connection.info.transaction_status == TransactionStatus.INERROR
        if failed or self._end_with("COMMIT") != "COMMIT":
            path = self._connections.path
            raise StoreError(f"A write to {path} failed; nothing of it was kept.", subject=path)

    def _end_with(self, sql: LiteralString) -> str | None:
        return self._after_waiting(lambda: self._connection.execute(sql)).statusmessage

    def _end(self, error: BaseException | None) -> None:
        """Give the connection back; what was not committed is rolled back."""
        lease = self._lease
        if lease is None:
            return
        if is_interruption(error):
            self._connections.give_up(lease)
        else:
            with lease, suppress(psycopg.Error):  # one that cannot is closed, which does the same
                if self._connection.info.transaction_status in _OPEN:
                    self._connection.execute("ROLLBACK")
        self._lease = None

    def _leave(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            self._connections.drop(lease)
