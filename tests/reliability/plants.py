"""Bugs to plant. A harness counts only if it was seen to catch some of these; see the README here.

Each is a context manager that spoils plait inside this process and mends it at the end. No source
file is touched.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest import mock

import apsw

from plait.facts import trash as trash_rules
from plait.searching import search
from plait.stores.sqlite import (
    connection,
    generations,
    journal,
    keyword,
    lookup,
    rebuilding,
    schema,
    scrubbing,
    transaction,
    write_lock,
    writer,
)
from plait.types import Document
from plait.types.queries import Query
from plait.writing import deleting
from plait.writing.retired import RETIRED

# How long a planted gap stays open. On a fast disk the real one is too short for a random kill to
# find: whether the harness looks in the right place must not depend on the machine.
GAP_S = 0.05


def planted(name: str) -> AbstractContextManager[object]:
    """The bug of this name; none for an empty name."""
    return PLANTS[name]() if name else nullcontext()


@contextmanager
def _two_transactions() -> Iterator[None]:
    """The document row is committed before its passages are written."""
    honest = writer.DocumentWriter._passages

    def passages(self: writer.DocumentWriter, *arguments: Any, **options: Any) -> int:
        _commit_here(self)
        return honest(self, *arguments, **options)

    with mock.patch.object(writer.DocumentWriter, "_passages", passages):
        yield


@contextmanager
def _vectors_later() -> Iterator[None]:
    """Text is committed first, its vectors in a transaction of their own."""
    honest = writer.DocumentWriter.finish

    def finish(self: writer.DocumentWriter) -> None:
        self.settle()
        _commit_here(self)
        honest(self)

    with mock.patch.object(writer.DocumentWriter, "finish", finish):
        yield


@contextmanager
def _marks_later() -> Iterator[None]:
    """Files are deleted first, and noted as removed by a rule in a transaction of its own."""
    honest = transaction.SQLiteTransaction.remember

    def remember(self: transaction.SQLiteTransaction, **facts: str | None) -> None:
        if any(name.startswith(RETIRED) for name in facts):
            _commit_here(self)
        honest(self, **facts)

    with mock.patch.object(transaction.SQLiteTransaction, "remember", remember):
        yield


def _commit_here(writing: writer.DocumentWriter | transaction.SQLiteTransaction) -> None:
    writing._connection.execute("COMMIT")
    time.sleep(GAP_S)
    writing._connection.execute("BEGIN IMMEDIATE")


@contextmanager
def _migration_in_pieces() -> Iterator[None]:
    """Each table of a migration is committed by itself, the version last."""
    honest = schema.migrate

    def between(_: apsw.Cursor, statement: str, __: object) -> bool:
        if "PRAGMA user_version =" in statement:
            time.sleep(GAP_S)
        return True

    def migrate(taken: apsw.Connection) -> None:
        taken.execute("COMMIT")
        taken.exec_trace = between
        honest(taken)
        taken.exec_trace = None
        taken.execute("BEGIN IMMEDIATE")

    with mock.patch.object(schema, "migrate", migrate):
        yield


@contextmanager
def _no_delete_trigger() -> Iterator[None]:
    """Deleted passages stay in the keyword index."""
    (script,) = schema.MIGRATIONS[:1]
    head, _, rest = script.partition("CREATE TRIGGER passages_deleted")
    tail = rest.partition("CREATE TRIGGER")[2]
    spoilt = f"{head}CREATE TRIGGER{tail}"
    with mock.patch.object(schema, "MIGRATIONS", (spoilt, *schema.MIGRATIONS[1:])):
        yield


@contextmanager
def _vectors_stay() -> Iterator[None]:
    """Vectors of deleted passages stay in their blocks."""
    honest = writer.DocumentWriter.remove

    def remove(self: writer.DocumentWriter, refs: Any) -> None:
        before = {number: dict(rows) for number, rows in self._rows.items()}
        honest(self, refs)
        self._rows = before

    with mock.patch.object(writer.DocumentWriter, "remove", remove):
        yield


@contextmanager
def _deferred_begin() -> Iterator[None]:
    """Transactions read first and ask for the write lock when it may be too late."""
    honest = write_lock.WriteLock.__enter__

    def enter(self: write_lock.WriteLock) -> apsw.Connection:
        taken = honest(self)
        taken.execute("ROLLBACK")
        taken.execute("BEGIN")
        taken.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        time.sleep(GAP_S / 10)
        return taken

    with mock.patch.object(write_lock.WriteLock, "__enter__", enter):
        yield


@contextmanager
def _replace_documents() -> Iterator[None]:
    """``INSERT OR REPLACE`` instead of looking for the document that is replaced."""
    insert = writer._INSERT_DOCUMENT.replace("INSERT INTO", "INSERT OR REPLACE INTO")
    honest = lookup.find_existing

    def find_existing(taken: apsw.Connection, document: Document) -> tuple[int, Document] | None:
        return None if document.key else honest(taken, document)

    with (
        mock.patch.object(writer, "_INSERT_DOCUMENT", insert),
        mock.patch.object(transaction, "find_existing", find_existing),
    ):
        yield


@contextmanager
def _rebuild_in_place() -> Iterator[None]:
    """A new generation throws the old one away before it is filled."""
    honest = generations.begin

    def begin(taken: apsw.Connection, space: Any, **how: Any) -> Any:
        taken.execute("DELETE FROM generations")
        return honest(taken, space, **how)

    with mock.patch.object(generations, "begin", begin):
        yield


@contextmanager
def _errors_swallowed() -> Iterator[None]:
    """What SQLite refuses is acknowledged all the same."""
    honest = write_lock.WriteLock.__exit__

    def leave(self: write_lock.WriteLock, kind: Any, error: Any, trace: Any) -> bool:
        try:
            honest(self, kind, error, trace)
        except apsw.Error:
            return True
        return isinstance(error, apsw.Error)

    with mock.patch.object(write_lock.WriteLock, "__exit__", leave):
        yield


@contextmanager
def _engine_errors() -> Iterator[None]:
    """SQLite's own exceptions reach the caller."""
    with mock.patch.object(connection.Guard, "__exit__", lambda *_: None):
        yield


@contextmanager
def _unguarded_journal() -> Iterator[None]:
    """Nobody asks whose journal it is."""
    with mock.patch.object(journal, "belongs", lambda *_: None):
        yield


@contextmanager
def _one_connection() -> Iterator[None]:
    """All threads share the first thread's connection."""
    honest = connection.Connections.get

    def get(self: connection.Connections) -> apsw.Connection:
        shared: apsw.Connection | None = next(iter(self._by_thread.values()), None)
        return honest(self) if shared is None else shared

    with mock.patch.object(connection.Connections, "get", get):
        yield


@contextmanager
def _no_deadline() -> Iterator[None]:
    """Nobody looks at the clock while a query runs."""
    honest = keyword.KeywordSearch.best

    def best(
        self: keyword.KeywordSearch, taken: Any, query: Any, limit: Any, conditions: Any, _: Any
    ) -> Any:
        return honest(self, taken, query, limit, conditions, None)

    with mock.patch.object(keyword.KeywordSearch, "best", best):
        yield


@contextmanager
def _raw_query() -> Iterator[None]:
    """What somebody typed goes to FTS5 as it is."""

    def parse(typed: str, *, strict: bool = False) -> Query:
        return Query(typed, tuple(typed.split()))

    with (
        mock.patch.object(search, "parse", parse),
        mock.patch.object(keyword, "quote", lambda word: word),
    ):
        yield


@contextmanager
def _page_slack() -> Iterator[None]:
    """A purge leaves the free parts of pages as they are."""
    with mock.patch.object(scrubbing, "_clear_slice", lambda *_: False):
        yield


@contextmanager
def _term_counts() -> Iterator[None]:
    """A purge leaves the counts of common terms."""
    with mock.patch.object(scrubbing, "_LOST_COUNTS", "SELECT 1 WHERE 0"):
        yield


@contextmanager
def _separators() -> Iterator[None]:
    """A purge leaves the terms between the pages of the keyword index."""
    with mock.patch.object(scrubbing, "_separate", lambda *_: True):
        yield


@contextmanager
def _no_scrub() -> Iterator[None]:
    """Purging leaves the journal as it is."""
    with mock.patch.object(rebuilding, "scrub", lambda *_, **__: None):
        yield


@contextmanager
def _no_secure_delete() -> Iterator[None]:
    """Freed space keeps its bytes."""
    honest = connection.Connections._prepare

    def prepare(self: connection.Connections, taken: apsw.Connection) -> None:
        honest(self, taken)
        taken.pragma("secure_delete", False)

    script = schema.MIGRATIONS[0].replace("('secure-delete', 1)", "('secure-delete', 0)")
    with (
        mock.patch.object(connection.Connections, "_prepare", prepare),
        mock.patch.object(schema, "MIGRATIONS", (script, *schema.MIGRATIONS[1:])),
    ):
        yield


@contextmanager
def _cross_project_undo() -> Iterator[None]:
    """Undo without a name means the latest delete of anybody."""
    honest = trash_rules.latest_batch
    with mock.patch.object(trash_rules, "latest_batch", lambda rows, home=None: honest(rows)):
        yield


@contextmanager
def _lost_slice() -> Iterator[None]:
    """Of a delete in slices, every second slice is forgotten."""
    honest = deleting._delete_slice
    slices: list[object] = []

    def delete_slice(*arguments: Any, **how: Any) -> Any:
        slices.append(arguments)
        return honest(*arguments, **how) if len(slices) % 2 else ([], [])

    with mock.patch.object(deleting, "_delete_slice", delete_slice):
        yield


PLANTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "two transactions": _two_transactions,
    "vectors later": _vectors_later,
    "marks later": _marks_later,
    "migration in pieces": _migration_in_pieces,
    "unguarded journal": _unguarded_journal,
    "cross-project undo": _cross_project_undo,
    "lost slice": _lost_slice,
    "no delete trigger": _no_delete_trigger,
    "vectors stay": _vectors_stay,
    "deferred begin": _deferred_begin,
    "replace documents": _replace_documents,
    "rebuild in place": _rebuild_in_place,
    "errors swallowed": _errors_swallowed,
    "engine errors": _engine_errors,
    "one connection": _one_connection,
    "no deadline": _no_deadline,
    "raw query": _raw_query,
    "no scrub": _no_scrub,
    "page slack": _page_slack,
    "term counts": _term_counts,
    "separators": _separators,
    "no secure delete": _no_secure_delete,
}
