"""The connections of one process: kept while they are used, made anew when they are lost."""

import logging
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from threading import BoundedSemaphore, Lock
from typing import Any, cast

import psycopg
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo, ConnStatus, TransactionStatus
from psycopg.waiting import Ready, Wait

from plait.errors import StoreBusy, UsageError
from plait.stores.postgres import failures
from plait.stores.postgres.adapting import adapt

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
    with connection.pipeline() as pipeline:
        if all(hasattr(pipeline, name) for name in _ENDS_BY):
            pipeline._exit_gen = partial(_ended, pipeline)  # type: ignore[method-assign]
        yield


def _ended(pipeline: psycopg.Pipeline) -> Generator[Any, Any, None]:
    """End a pipeline as the driver does, but for that."""
    try:
        pipeline._enqueue_sync()
        yield from pipeline._communicate_gen()
        # subtle: what has no room in the socket would never be sent, and both sides would wait.
        while pipeline.pgconn.flush():
            if (yield Wait.RW) & Ready.R:
                pipeline.pgconn.consume_input()
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


class Pool:
    """Up to `MOST_CONNECTIONS` connections, each lent to one thread at a time."""

    def __init__(self, dsn: str, path: str) -> None:
        self.path = path
        self.process = os.getpid()
        self._options = options_of(dsn)
        self._free = BoundedSemaphore(MOST_CONNECTIONS)
        self._lock = Lock()
        self._idle: list[tuple[float, Connection]] = []
        self._was_reached = False

    def take(self, patience: Patience) -> Connection:
        """Lend a connection. A server that was there before, or says so, is waited for.

        Raises:
            psycopg.Error: There is no connection to be had.
            StoreBusy: All are in use.
        """
        if not self._free.acquire(timeout=patience.left):
            raise StoreBusy(
                f"All {MOST_CONNECTIONS} connections of this process to {self.path} are in use. "
                "Try again in a moment.",
                code="no_free_connection",
                subject=self.path,
            )
        try:
            return self._kept() or self._connected(patience)
        except BaseException:
            self._free.release()
            raise

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

    def give(self, connection: Connection) -> None:
        """Take a connection back; one that is in the middle of something is closed."""
        idle = connection.info.transaction_status == TransactionStatus.IDLE
        if idle and not connection.closed:
            now = time.monotonic()
            with self._lock:
                self._idle.append((now, connection))
                # The one that was used last is used next: those that nobody needs are the first.
                stale = [row for row in self._idle if now - row[0] > IDLE_S]
                self._idle = [row for row in self._idle if now - row[0] <= IDLE_S]
            for _, unused in stale:
                unused.close()
        else:
            connection.close()
        self._free.release()

    def drop(self, connection: Connection) -> None:
        """Close a connection that was lost, and those that were lost with it."""
        connection.close()
        self._free.release()
        self.forget()

    def forget(self) -> None:
        """Close the connections that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()
