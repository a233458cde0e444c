"""The connections of one process: kept while they are used, made anew when they are lost."""

import logging
import math
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from threading import Lock
from types import TracebackType
from typing import Any, Self, cast

import psycopg
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo, ConnStatus, PipelineStatus, TransactionStatus
from psycopg.waiting import Ready, Wait

from plait.errors import StoreBusy, UsageError
from plait.stores.postgres import failures
from plait.stores.postgres.adapting import adapt
from plait.stores.postgres.seats import Seat, Seats

# What the driver warns of, a lost pipeline for example, is told by an error or was repeated.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

SQLRow = tuple[Any, ...]
Connection = psycopg.Connection[SQLRow]

MOST_CONNECTIONS = 8
# Shorter than the time after which firewalls forget a connection, which nobody is told of.
IDLE_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
# The server's settings take no more.
MOST_SECONDS = 2_147_483.0
# A server that has vanished is noticed within a minute.
_OPTIONS = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def options_of(dsn: str) -> dict[str, Any]:
    """Return an address with plait's own options, where neither it nor the machine has others.

    The machine's are libpq's variables, such as ``PGCONNECT_TIMEOUT``, and its service file.
    """
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise _unreadable(dsn) from None
    theirs = {option.keyword.decode() for option in Conninfo.get_defaults() if option.val}
    own = {name: value for name, value in _OPTIONS.items() if name not in theirs}
    # Only libpq reads the service that an address names, and what is given here would hide it.
    own = {} if "service" in given else own
    # Any other encoding lacks characters, whatever the machine has for its other programs.
    return {"fallback_application_name": "plait", **own, **given, "client_encoding": "UTF8"}


def _unreadable(dsn: str) -> UsageError:
    """Return why an address cannot be read.

    subtle: neither the driver's words nor an unknown name are repeated: they may be a password's.
    """
    known = [option.keyword.decode() for option in Conninfo.get_defaults()]
    names = [pair.partition("=")[0][:60] for pair in dsn.partition("?")[2].split("&")]
    unknown = [name for name in names if name and name not in known]
    meant = [one for name in unknown for one in get_close_matches(name, [*known, "namespace"], 1)]
    reason = (
        f"one of its options is not known (is it {meant[0]}?)."
        if meant
        else "one of its options is not known, or has a value that it cannot have."
    )
    return UsageError(f"The address of the database cannot be read: {reason}", code="bad_address")


# How psycopg 3.2 and 3.3 end a pipeline. Another driver does it in its own way, with a trip more.
_ENDS_BY = ("_exit_gen", "_enqueue_sync", "_communicate_gen", "_fetch_gen")


@contextmanager
def at_once(connection: Connection) -> Iterator[None]:
    """Send what is run inside at once; read the answers only afterwards, or there are two trips.

    subtle: after its last statement the driver asks the server to flush, which sends nothing more,
    but is no longer idle then: it would wait for ever for a writer that has vanished.
    """
    try:
        with connection.pipeline() as pipeline:
            if all(hasattr(pipeline, name) for name in _ENDS_BY):
                pipeline._exit_gen = partial(_ended, pipeline)  # type: ignore[method-assign]
            try:
                yield
            except BaseException as error:
                if is_interruption(error):
                    connection.close()  # or the driver would wait for what was sent
                raise
    except psycopg.OperationalError as error:
        # Stopped at its end, the driver tells only that answers are left.
        stop = error.__context__
        if stop is None or not is_interruption(stop):
            raise
        connection.close()
        raise stop from None
    # Or it would keep itself, and the connection, until garbage is collected.
    vars(pipeline).pop("_exit_gen", None)


def _ended(pipeline: psycopg.Pipeline) -> Generator[Any, Any, None]:
    """End a pipeline as the driver does, but for that."""
    try:
        pipeline._enqueue_sync()
        yield from pipeline._communicate_gen()
        # subtle: what has no room in the socket would never be sent, and both sides would wait.
        while pipeline.pgconn.flush():
            if (yield Wait.RW) & Ready.R:
                pipeline.pgconn.consume_input()
    except BaseException as error:
        if is_interruption(error):
            pipeline.pgconn.finish()  # of what was not sent, there is no answer to wait for
        raise
    finally:
        if pipeline.pgconn.status == ConnStatus.OK:  # or it would hide why it is not
            yield from pipeline._fetch_gen(flush=False)


def milliseconds(seconds: float) -> str:
    """Return a time limit as the server's settings take it."""
    return f"{round(min(max(seconds, 0.001), MOST_SECONDS) * 1_000)}ms"


class Patience:
    """How long to go on trying: pauses, growing unless in a hurry, until so many seconds passed."""

    def __init__(self, seconds: float, *, hurried: bool = False) -> None:
        self._end = time.monotonic() + min(seconds, MOST_SECONDS)
        self._pause = FIRST_PAUSE_S
        self._longest = FIRST_PAUSE_S if hurried else LONGEST_PAUSE_S

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._end - time.monotonic())

    def wait(self) -> bool:
        """Pause before another attempt; tell whether there is time for one."""
        left = self.left
        time.sleep(min(self._pause, left))
        self._pause = min(self._pause * 2, self._longest)
        return left > 0


def is_interruption(error: BaseException | None) -> bool:
    """Tell whether something was stopped at any step, and not by an error: by Ctrl-C, say.

    Nobody knows then which answers a connection still gets: it is closed, which ends what it did.
    """
    return error is not None and not isinstance(error, Exception)


class Lease(Seat):
    """A connection that one thread has. Whoever is interrupted, or drops it, has closed it."""

    __slots__ = ("_connection", "_pool")

    def __init__(self) -> None:
        super().__init__()
        self._pool: Pool | None = None
        self._connection: Connection | None = None

    def begin(self, pool: "Pool", connection: Connection) -> None:
        """Have a connection from now on."""
        self._pool, self._connection = pool, connection

    @property
    def connection(self) -> Connection:
        """The connection."""
        assert self._connection is not None
        return self._connection

    def end(self) -> Connection | None:
        """Have none any more."""
        connection, self._connection = self._connection, None
        return connection

    def __enter__(self) -> Self:
        """Return the lease."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Give the connection back."""
        assert self._pool is not None
        self._pool.give(self, sound=not is_interruption(error))


class Pool:
    """Up to `MOST_CONNECTIONS` connections, each lent to one thread at a time."""

    def __init__(self, dsn: str, path: str) -> None:
        self.path = path
        self.process = os.getpid()
        self._options = options_of(dsn)
        self._seats = Seats(MOST_CONNECTIONS, Lease)
        self._lock = Lock()
        self._idle: list[tuple[float, Connection]] = []
        # Those of another process, which are its own to close.
        self._others: list[Connection] = []
        self._closed = self._was_reached = False

    def take(self, patience: Patience) -> Lease:
        """Lend a connection. A server that was there before, or says so, is waited for.

        Raises:
            psycopg.Error: There is no connection to be had.
            StoreBusy: All are in use.
        """
        lease = self._seats.take(time.monotonic() + patience.left)
        if lease is None:
            raise StoreBusy(
                f"All {MOST_CONNECTIONS} connections of this process to {self.path} are in use. "
                "Try again in a moment.",
                code="no_free_connection",
                subject=self.path,
            )
        try:
            lease.begin(self, self._kept() or self._connected(patience))
        except BaseException:
            self._seats.give_back(lease)
            raise
        return lease

    def _kept(self) -> Connection | None:
        stale, chosen = [], None
        with self._lock:
            while self._idle and chosen is None:
                since, connection = self._idle.pop()
                if connection.closed or time.monotonic() - since > IDLE_S:
                    stale.append(connection)
                else:
                    chosen = connection
        for connection in stale:
            connection.close()
        return chosen

    def _connected(self, patience: Patience) -> Connection:
        while True:
            try:
                # Nothing is prepared by name: behind a pooler, another session may have the name.
                connection = psycopg.connect(
                    **cast("Any", self._options), autocommit=True, prepare_threshold=None
                )
            except psycopg.OperationalError as error:
                comes_back = failures.is_passing(error, was_reached=self._was_reached)
                if not comes_back or not patience.wait():
                    raise
                continue
            self._was_reached = True
            adapt(connection)
            # Whatever the server's default: who waits for others sees what they did.
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            return connection

    def give(self, lease: Lease, *, sound: bool = True) -> None:
        """Take a connection back; close one that is in the middle of something, or not sound."""
        connection = lease.end()
        if connection is not None:
            if sound and not self._closed and is_at_rest(connection):
                self._keep(connection)
            else:
                self._close(connection)
        self._seats.give_back(lease)

    def _keep(self, connection: Connection) -> None:
        now = time.monotonic()
        with self._lock:
            self._idle.append((now, connection))
            # The one that was used last is used next: those that nobody needs are the first.
            oldest = math.inf if self._closed else now - IDLE_S
            stale = [row for row in self._idle if row[0] < oldest]
            self._idle = [row for row in self._idle if row[0] >= oldest]
        for _, unused in stale:
            unused.close()

    def drop(self, lease: Lease) -> None:
        """Close a connection that was lost, and those that were lost with it."""
        self.give(lease, sound=False)
        self.forget()

    def forget(self) -> None:
        """Close the connections that nobody uses."""
        while True:
            with self._lock:
                if not self._idle:
                    return
                _, connection = self._idle.pop()
            connection.close()

    def close(self) -> None:
        """Close all connections; those that are in use once they are given back."""
        self._closed = True
        self.forget()

    def _close(self, connection: Connection) -> None:
        """Close a connection, unless a process that forked this one has it."""
        if self.process == os.getpid():
            connection.close()
        else:
            self._others.append(connection)


def is_at_rest(connection: Connection) -> bool:
    """Tell whether a connection waits for no answer, and is in no transaction."""
    pgconn = connection.pgconn
    return (
        pgconn.transaction_status == TransactionStatus.IDLE
        and pgconn.pipeline_status == PipelineStatus.OFF
    )
