"""Looking documents and passages up: by name, by ref, whole, or newest first."""

import json
from collections.abc import Sequence
from typing import Any

import apsw

from plait.stores.sqlite.filters import Clause, joined
from plait.stores.sqlite.generations import generations
from plait.stores.sqlite.rows import (
    DOCUMENT_COLUMNS,
    ID_LENGTH,
    MIN_PREFIX,
    PASSAGE_COLUMNS,
    PASSAGE_WIDTH,
    Row,
    document_from,
    passage_from,
    rows,
    stitched,
)
from plait.stores.sqlite.schema import version_of
from plait.types import ENTITY_SOURCE, Document, Passage, Ref, Space, Stats

MOST_NAMESAKES = 20
ORDINAL_DIGITS = 9  # a longer one cannot be an ordinal

_DOCUMENT = f"SELECT {DOCUMENT_COLUMNS} FROM documents AS d WHERE "  # noqa: S608
_PASSAGE = (
    f"SELECT {PASSAGE_COLUMNS}, {DOCUMENT_COLUMNS} FROM passages AS p "  # noqa: S608
    "JOIN documents AS d ON d.rowid = p.document WHERE "
)
_HYDRATE = _PASSAGE + "p.rowid IN (SELECT value FROM json_each(?))"  # noqa: S608
# A message cut into several passages is a text of its own rather than a turn of a conversation.
_ANY_SESSION = "SELECT 1 FROM documents WHERE session IS NOT NULL LIMIT 1"
_SESSIONS = (
    "SELECT p.rowid, d.session FROM passages AS p JOIN documents AS d ON d.rowid = p.document "
    "WHERE p.rowid IN (SELECT value FROM json_each(?)) "
    "AND d.session IS NOT NULL AND d.kind = 'message' AND d.chunk_count = 1"
)
_NEIGHBOURS = (
    f"SELECT {PASSAGE_COLUMNS} FROM passages AS p "  # noqa: S608
    "JOIN documents AS d ON d.rowid = p.document "
    "WHERE d.id = ? AND p.ordinal BETWEEN ? AND ? ORDER BY p.ordinal"
)
_LOAD = (
    f"SELECT d.rowid, d.preface, {DOCUMENT_COLUMNS} FROM documents AS d "  # noqa: S608
    "WHERE d.id IN (SELECT value FROM json_each(?))"
)
_SUCCESSORS = (
    "SELECT d.id, coalesce("
    "(SELECT n.id FROM documents AS n WHERE n.supersedes = d.id ORDER BY n.rowid DESC LIMIT 1), "
    # One text may end several of its topic, and names only one of them.
    "(SELECT n.id FROM documents AS n WHERE n.topic = d.topic AND n.project = d.project "
    "AND coalesce(n.parent, '') = coalesce(d.parent, '') AND n.valid_from = d.valid_to "
    "AND n.id <> d.id ORDER BY n.rowid DESC LIMIT 1)) AS successor FROM documents AS d "
    "WHERE d.id IN (SELECT value FROM json_each(?)) "
    "AND d.valid_to IS NOT NULL AND successor IS NOT NULL"
)
_PIECES = "SELECT start, text FROM passages WHERE document = ? ORDER BY ordinal"
_IN_ORDER = (
    f"SELECT d.rowid, d.preface, {DOCUMENT_COLUMNS} FROM documents AS d "  # noqa: S608
    "WHERE /*conditions*/ ORDER BY d.created_at, d.rowid"
)
_BELONGING = (
    "SELECT o.id FROM documents AS e JOIN documents AS o ON o.parent = e.id "
    "WHERE e.kind = 'entity' AND e.id IN (SELECT value FROM json_each(?)) ORDER BY o.rowid"
)
_NEWEST_FIRST = "/*conditions*/ ORDER BY d.event_at DESC, d.id DESC LIMIT ?"
_OLDEST_FIRST = "/*conditions*/ ORDER BY d.event_at, d.id LIMIT ?"
_COUNTS = (
    "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM passages), "
    "(SELECT count(*) FROM trash), (SELECT min(event_at) FROM documents), "
    "(SELECT max(event_at) FROM documents), (SELECT max(indexed_at) FROM documents)"
)
_MISSING = "SELECT reason, count(*) FROM unembedded WHERE generation = ? GROUP BY reason"

Named = tuple[Document, Passage | None]


def hydrate(
    connection: apsw.Connection, refs: Sequence[Ref]
) -> dict[Ref, tuple[Passage, Document]]:
    """Passages with their documents, in one query."""
    wanted = json.dumps(list(refs))
    found = [_passage_and_document(row) for row in rows(connection, _HYDRATE, (wanted,))]
    return {passage.ref: (passage, document) for passage, document in found}


def sessions(connection: apsw.Connection, refs: Sequence[Ref]) -> dict[Ref, str]:
    """The session of each of these passages that is a message of one."""
    if not refs or connection.execute(_ANY_SESSION).get is None:
        return {}  # most memories have none, and a look at one index entry tells
    return dict(rows(connection, _SESSIONS, (json.dumps(list(refs)),)))


def neighbours(connection: apsw.Connection, document: str, first: int, last: int) -> list[Passage]:
    """Passages of one document, by ordinal."""
    return [passage_from(row) for row in connection.execute(_NEIGHBOURS, (document, first, last))]


def find(connection: apsw.Connection, name: str, conditions: list[Clause]) -> list[Named]:
    """What a name stands for: an id before a key, a key before a chunk_id, a prefix last."""
    sql, values = joined(conditions)
    return (
        _documents(connection, "d.id = ?", [name])
        or _passages(connection, "p.id = ?", [name])
        or _documents(connection, f"d.key = ? AND {sql}", [name, *values])
        or _chunk(connection, name, sql, values)
        or _prefixed(connection, name)
    )


def _chunk(connection: apsw.Connection, name: str, sql: str, values: list[object]) -> list[Named]:
    head, dash, tail = name.rpartition("-")
    # subtle: int() would also take "٣" and "1_0".
    if not dash or not (tail.isascii() and tail.isdigit()) or len(tail) > ORDINAL_DIGITS:
        return []
    condition = f"p.ordinal = ? AND (d.id = ? OR d.key = ?) AND {sql}"
    return _passages(connection, condition, [int(tail), head, head, *values])


def _prefixed(connection: apsw.Connection, name: str) -> list[Named]:
    if not MIN_PREFIX <= len(name) < ID_LENGTH or not name.isascii() or not name.isalnum():
        return []
    span = [name.lower(), name.lower() + "~"]
    return [
        *_documents(connection, "d.id > ? AND d.id < ?", span),
        *_passages(connection, "p.id > ? AND p.id < ?", span),
    ]


def load(connection: apsw.Connection, ids: Sequence[str]) -> list[tuple[int, Document]]:
    """Whole documents with their rowids, text put together from passages."""
    with connection:  # One snapshot: between two, another process may replace or delete it.
        found = _whole(connection, rows(connection, _LOAD, (json.dumps(list(ids)),)))
    return found


def successors(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, str]:
    """What took the place of each of these documents, by id."""
    return dict(rows(connection, _SUCCESSORS, (json.dumps(list(ids)),)))


def in_order(
    connection: apsw.Connection, conditions: list[Clause], *, whole: bool
) -> list[Document]:
    """Documents in the order in which they were written; call it inside a snapshot."""
    sql, values = joined(conditions)
    found = rows(connection, _IN_ORDER.replace("/*conditions*/", sql), values)
    if not whole:
        return [document_from(row) for _, _, *row in found]
    return [document for _, document in _whole(connection, found)]


def _whole(connection: apsw.Connection, found: list[Row]) -> list[tuple[int, Document]]:
    documents = []
    for rowid, preface, *row in found:
        pieces = [(start, text) for start, text in rows(connection, _PIECES, (rowid,))]
        documents.append((rowid, document_from(row, stitched(preface, pieces))))
    return documents


def with_observations(connection: apsw.Connection, ids: Sequence[str]) -> list[str]:
    """These documents, and what belongs to the entities among them."""
    belonging = rows(connection, _BELONGING, (json.dumps(list(ids)),))
    return list(dict.fromkeys([*ids, *(id_ for (id_,) in belonging)]))


def by_event(
    connection: apsw.Connection, conditions: list[Clause], limit: int | None, *, upwards: bool
) -> list[Document]:
    """Documents without text, by the time of what they tell: newest first unless ``upwards``."""
    sql, values = joined(conditions)
    order = _OLDEST_FIRST if upwards else _NEWEST_FIRST
    found = rows(
        connection,
        _DOCUMENT + order.replace("/*conditions*/", sql),
        (*values, -1 if limit is None else limit),
    )
    return [document_from(row) for row in found]


def stats(connection: apsw.Connection, path: str) -> Stats:
    """Counts and sizes."""
    documents, chunks, trash, first, last, indexed = rows(connection, _COUNTS)[0]
    current = [row for row in generations(connection) if row.current]
    missing: dict[str, int] = {}
    for generation in current:
        missing = {reason: count for reason, count in rows(connection, _MISSING, (generation.id,))}
    pages = connection.execute("PRAGMA page_count").get
    return Stats(
        doc_count=documents,
        chunk_count=chunks,
        embedded_count=chunks - sum(missing.values()) if current else 0,
        pending_count=missing.get("pending", 0),
        trash_count=trash,
        db_size_bytes=pages * connection.execute("PRAGMA page_size").get,
        path=path,
        schema=version_of(connection),
        space=Space(*json.loads(current[0].space)) if current else None,
        kinds=_tally(connection, "kind"),
        projects=tuple((name or None, count) for name, count in _tally(connection, "project")),
        sources=tuple(
            (name, count)
            for name, count in _tally(connection, "source")
            if name not in ("", ENTITY_SOURCE)
        ),
        first_event_at=first,
        last_event_at=last,
        indexed_at=indexed,
    )


def _tally(connection: apsw.Connection, column: str) -> tuple[tuple[str, int], ...]:
    sql = f"SELECT {column}, count(*) FROM documents GROUP BY 1 ORDER BY 2 DESC, 1"  # noqa: S608
    return tuple((name, count) for name, count in rows(connection, sql))


def _documents(connection: apsw.Connection, condition: str, values: Sequence[Any]) -> list[Named]:
    order = f" ORDER BY d.key, d.id LIMIT {MOST_NAMESAKES}"
    found = rows(connection, _DOCUMENT + condition + order, values)
    return [(document_from(row), None) for row in found]


def _passages(connection: apsw.Connection, condition: str, values: Sequence[Any]) -> list[Named]:
    order = f" ORDER BY d.key, p.ordinal LIMIT {MOST_NAMESAKES}"
    found = [
        _passage_and_document(row) for row in rows(connection, _PASSAGE + condition + order, values)
    ]
    return [(document, passage) for passage, document in found]


def _passage_and_document(row: Sequence[Any]) -> tuple[Passage, Document]:
    return passage_from(row[:PASSAGE_WIDTH]), document_from(row[PASSAGE_WIDTH:])
