"""Talk to the server: one memory's session, waits, repeated reads, plait's own errors.

Every statement gets the number of its memory as ``ns``, and every table has it first in its key: so
one memory never sees another, and a database that is spread over several servers sends each
statement to one of them.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import errors

from plait.errors import (
    DeadlineExceeded,
    PlaitError,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    advise,
    not_storable,
)
from plait.stores.postgres import failures
from plait.stores.postgres.adapting import Escaped as Escaped
from plait.stores.postgres.adapting import escaped as escaped
from plait.stores.postgres.address import DatabaseAddress
from plait.stores.postgres.labels import (
    WHO,
    Membership,
    fenced,
    not_a_member,
    only_reads,
    recognised,
)
from plait.stores.postgres.pool import Connection, Lease, Patience, Pool, at_once, milliseconds
from plait.stores.postgres.pool import SQLRow as SQLRow
from plait.stores.postgres.seats import Seat, Seats

if TYPE_CHECKING:
    from plait.stores.postgres.commits import Write

_Result = TypeVar("_Result")
# What is sent, and the values that are bound in it.
SQLStatement = tuple[str, Mapping[str, Any]]

# How often a read is tried whose connection is lost, or that was in somebody's way.
READ_TRIES = 4
# The newest tables that this version knows; `plait.stores.postgres.schema` has the steps to them.
SCHEMA_VERSION = 4
VERSION = "SELECT max(version) FROM plait.schema_version"
# So long a member's reads go by what it was in the memory; a write asks anew.
RECOGNISED_FOR_S = 1.0
_LIMIT_TIME = "SELECT set_config('statement_timeout', %(left)s, true)"
# What the statements of this package use of pgvector.
_OF_PGVECTOR = re.compile(r"(?<![\w.])(halfvec)|<=>")


def number_of(namespace: str) -> int:
    """Return the number under which a memory's rows are kept: the same on every server."""
    digest = blake2b(namespace.encode(), digest_size=8, person=b"plait-namespace"[:16]).digest()
    return int.from_bytes(digest, "big", signed=True)


def located(sql: str, schema: str | None) -> str:
    """Return a statement that finds pgvector in a schema that the search path lacks.

    subtle: it is named in each statement, because behind a pooler no session keeps a search path.

    >>> located("SELECT e.v <=> %(v)s::halfvec(3)", "extensions")
    'SELECT e.v OPERATOR(extensions.<=>) %(v)s::extensions.halfvec(3)'
    """
    if schema is None:
        return sql
    return _OF_PGVECTOR.sub(
        lambda match: f"{schema}.halfvec" if match[1] else f"OPERATOR({schema}.<=>)", sql
    )


class Channel:
    """Runs statements of one memory on one connection; with a ``deadline``, only until then."""

    def __init__(
        self, connection: Connection, membership: Membership, vectors_in: str | None = None
    ) -> None:
        self._connection = connection
        # The schema of pgvector, quoted, if the search path lacks it.
        self.vectors_in = vectors_in
        self.ns = membership.ns
        self.joined_as(membership)
        self.deadline: float | None = None
        # Told what this role is in the memory by now; it is asked with what is sent next.
        self.recognise: Callable[[list[SQLRow]], None] | None = None
        # Statements of a write whose answers nobody waits for: they go with the next one.
        self._waiting: list[SQLStatement] = []

    def joined_as(self, membership: Membership) -> None:
        """Let every later statement see what this member may see."""
        self.membership = membership
        self._labels = membership.labels

    @property
    def connection(self) -> Connection:
        """The connection itself, for what is not a statement of one memory."""
        return self._connection

    def rows(self, sql: str, values: Mapping[str, Any] | None = None, **named: Any) -> list[SQLRow]:
        """Return all rows of one statement."""
        bound = {**(values or {}), **named}
        if self.deadline is not None or self.recognise is not None:
            return self.together((sql, bound))[0]
        return self._run(sql, bound).fetchall()

    def value(self, sql: str, values: Mapping[str, Any] | None = None, **named: Any) -> Any:
        """Return the first value of the first row; ``None`` if there is no row."""
        rows = self.rows(sql, values, **named)
        return rows[0][0] if rows else None

    def execute(self, sql: str, values: Mapping[str, Any] | None = None, **named: Any) -> None:
        """Run a statement whose answer nobody waits for; in a write, it goes with the next one."""
        self._run(sql, {**(values or {}), **named})

    def change(self, sql: str, values: Mapping[str, Any] | None = None, **named: Any) -> int:
        """Run a statement that returns nothing; return how many rows it changed."""
        return self._run(sql, {**(values or {}), **named}).rowcount

    def together(self, *statements: SQLStatement, unlimited: int = 0) -> list[list[SQLRow]]:
        """Return the rows of several statements, which go to the server at once.

        The deadline is not for the first, ``unlimited``, ones.
        """
        recognise, self.recognise, who = self.recognise, None, None
        with at_once(self._connection):
            if recognise is not None:
                who = self._connection.execute(WHO, {"ns": self.ns})
            for sql, values in self._waiting:
                self._send(sql, values)
            cursors = [self._send(sql, values) for sql, values in statements[:unlimited]]
            # subtle: what is sent at once is one transaction, at whose end the limit is lifted.
            if self.deadline is not None:
                self._send(_LIMIT_TIME, {"left": _time_until(self.deadline)})
            cursors += [self._send(sql, values) for sql, values in statements[unlimited:]]
        if who is not None and recognise is not None:
            recognise(who.fetchall())
        return [cursor.fetchall() for cursor in cursors]

    def _run(self, sql: str, values: Mapping[str, Any]) -> "psycopg.Cursor[SQLRow]":
        return self._send(sql, values)

    def _send(self, sql: str, values: Mapping[str, Any]) -> "psycopg.Cursor[SQLRow]":
        # Statements are put together from constants of this package; values are always bound.
        if self.vectors_in is not None:
            sql = located(sql, self.vectors_in.replace("%", "%%"))
        if self._labels is None:
            return self._connection.execute(sql, {"ns": self.ns, **values})
        return self._connection.execute(
            fenced(sql), {"ns": self.ns, **values, "labels": self._labels}
        )


def _time_until(deadline: float) -> str:
    left = deadline - time.monotonic()
    if left <= 0:
        raise DeadlineExceeded("The query ran past its time limit.")
    return milliseconds(left)


class _AnotherMembershipError(Exception):
    """A role is something else in the memory than it was: what it has asked is asked again."""


class Connections:
    """The connections of one store; each is lent to one thread at a time."""

    def __init__(self, address: DatabaseAddress, *, timeout: float, durability: str) -> None:
        self.path = address.shown
        self.membership = Membership(number_of(address.namespace))
        self.vectors_in: str | None = None  # see `Channel.vectors_in`
        self.timeout = timeout
        self.durability = durability
        self.wrote = False
        self._recognised_at = 0.0
        self._closed = False
        self._dsn = address.dsn
        # Those of a process that forked this one: closing them would end its sessions.
        self._inherited: list[Pool] = []
        self._begin()

    def joined_as(self, membership: Membership) -> None:
        """Let every later statement see what this member may see."""
        self.membership = membership
        self._recognised_at = time.monotonic()

    def recognise(self) -> Membership:
        """Ask the server again what the role of this store is in the memory; it may have changed.

        Raises:
            StoreError: It is not a member any more.
        """
        ns = self.membership.ns
        with self.take(Patience(self.timeout)) as lease:
            try:
                rows = lease.connection.execute(WHO, {"ns": ns}).fetchall()
                self.joined_as(recognised(rows, ns, self.path))
            except errors.InsufficientPrivilege:  # the administrator took all rights from it
                raise not_a_member(lease.connection.info.user, self.path) from None
            except psycopg.Error as error:
                raise failures.translate(error, self.path) from error
        return self.membership

    def _recognised(self, asked_as: Membership, rows: list[SQLRow]) -> None:
        self.joined_as(recognised(rows, asked_as.ns, self.path))
        if self.membership != asked_as:
            raise _AnotherMembershipError

    def _begin(self) -> None:
        self._pool = Pool(self._dsn, self.path)
        # One thread of a process waits for the memory's row, so that the others can still read.
        self._turn = Seats(1, Seat)
        self.writer = int.from_bytes(os.urandom(8), "big", signed=True)

    def _begin_after_fork(self) -> None:
        """Leave to the process that forked this one what is its own."""
        if self._pool.process != os.getpid():
            self._inherited.append(self._pool)
            self._begin()

    def take(self, patience: Patience) -> Lease:
        """Lend a connection, until the end of the context that the lease is; `lent` does both.

        Raises:
            StoreError: There is none.
        """
        if self._closed:
            raise StoreError(
                f"The memory {self.path} is closed. Open it again.",
                code="store_closed",
                subject=self.path,
            )
        self._begin_after_fork()
        try:
            return self._pool.take(patience)
        except psycopg.Error as error:
            raise failures.unconnected(error, self.path) from error

    def drop(self, lease: Lease) -> None:
        """Close a connection that was lost."""
        self._pool.drop(lease)

    def give_up(self, lease: Lease) -> None:
        """Close a connection whose use was interrupted."""
        self._pool.give(lease, sound=False)

    @contextmanager
    def lent(self) -> Iterator[Channel]:
        """Lend a connection; what fails is raised as one of plait's errors."""
        try:
            with self.take(Patience(self.timeout)) as lease, self._errors():
                yield Channel(lease.connection, self.membership, self.vectors_in)
        except StoreError as error:
            if error.code == "connection_lost":
                self._pool.forget()
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self.translated(error) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise not_storable(error) from error

    def translated(self, error: Exception) -> PlaitError:
        """Return a failure of the server, or of the way to it, as one of plait's errors."""
        if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
            try:
                with self.lent() as session:
                    self.refuse_newer(session.value(VERSION))
            except SchemaTooNew as newer:
                return newer
            except StoreError:
                pass  # what was missing is the better message
        if isinstance(error, errors.InsufficientPrivilege):
            try:
                present = self.recognise()
            except PlaitError as other:
                if other.code == "not_a_member":
                    return other
            else:
                if present.role == "reader":
                    return only_reads(present.name, self.path)
        return failures.translate(error, self.path)

    def refuse_newer(self, version: int | None) -> None:
        """Refuse tables that a newer plait made, perhaps while this one was running.

        Raises:
            SchemaTooNew: They are.
        """
        if version is not None and version > SCHEMA_VERSION:
            raise SchemaTooNew(
                f"{self.path} has schema version {version}, "
                f"but this plait knows versions up to {SCHEMA_VERSION}.",
                subject=self.path,
                advice=advise("upgrade"),
            )

    def read(self, act: Callable[[Channel], _Result]) -> _Result:
        """Read something; if the connection is lost meanwhile, read it again on another one."""
        return self.repeated(partial(self._read, act))

    def _read(self, act: Callable[[Channel], _Result]) -> _Result:
        while True:
            try:
                since = time.monotonic() - self._recognised_at
                with self.lent() as session:
                    known = session.membership
                    if not known.is_administrator and since >= RECOGNISED_FOR_S:
                        session.recognise = partial(self._recognised, known)
                    return act(session)
            except _AnotherMembershipError:
                continue  # what was read may be too little by now, or too much
            except StoreError as error:
                if error.code == "no_memory":
                    self.recognise()  # who is no member any more sees none
                raise

    def repeated(self, act: Callable[[], _Result]) -> _Result:
        """Do what may be done twice; if the connection is lost meanwhile, do it again."""
        patience, attempt = Patience(self.timeout), 0
        while True:
            try:
                return act()
            except StoreError as error:
                attempt += 1
                repeatable = error.code == "connection_lost" or failures.is_rivalry(error.__cause__)
                if not repeatable or attempt == READ_TRIES or not patience.wait():
                    raise

    @contextmanager
    def writing(self, *, patient: bool = True) -> "Iterator[Write]":
        """Begin a transaction that has the memory's row to itself; it is committed at its end.

        Raises:
            StoreBusy: Another writer lasts, or, if this one is impatient, is there.
            StoreError: This thread is writing already.
        """
        from plait.stores.postgres.commits import Write

        self._begin_after_fork()
        if self._turn.has(get_ident()):
            raise StoreError("This thread is inside a transaction already.", code="nested_write")
        patience = Patience(self.timeout if patient else 0.0)
        with (
            self._turn_to_write(patience),
            self._errors(),
            Write(self, patience, patient=patient) as write,
        ):
            yield write
            write.commit()
            self.wrote = True

    @contextmanager
    def _turn_to_write(self, patience: Patience) -> Iterator[None]:
        turns = self._turn
        turn = turns.take(time.monotonic() + patience.left)
        if turn is None:
            raise StoreBusy(
                f"Another thread is writing to {self.path}. Try again in a moment.",
                subject=self.path,
            )
        try:
            yield
        finally:
            turns.give_back(turn)

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        if self._pool.process == os.getpid():
            self._pool.close()
