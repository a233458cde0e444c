"""Read documents whole or one after another: by their ids, or in one of several orders."""

import json
from collections.abc import Sequence

import apsw

from plait.errors import quoted
from plait.stores.sqlite.connection import SQLRow, rows
from plait.stores.sqlite.documents import DOCUMENT_COLUMNS, ID_AT, document_from, stitched
from plait.stores.sqlite.filters import Clause, joined
from plait.types import (
    AFTER_TURNS,
    Document,
)

_LOAD = (
    f"SELECT d.rowid, d.preface, {DOCUMENT_COLUMNS} FROM documents AS d "  # noqa: S608
    "WHERE d.id IN (SELECT value FROM json_each(?))"
)
_PIECES = "SELECT start, text FROM passages WHERE document = ? ORDER BY ordinal"
_SCAN = f"SELECT d.rowid, d.preface, {DOCUMENT_COLUMNS} FROM documents AS d WHERE "  # noqa: S608
_ROWIDS = "SELECT d.rowid FROM documents AS d WHERE "
_RAW_ID = "SELECT CAST(coalesce(id, '') AS BLOB) FROM documents WHERE rowid = ?"
# `Document.place`, but for the id.
PLACE = f"coalesce(d.turn, d.event_at + {AFTER_TURNS})"


class Order:
    """Orders of a scan."""

    NEWEST = " ORDER BY d.event_at DESC, d.id DESC LIMIT ?"
    OLDEST = " ORDER BY d.event_at, d.id LIMIT ?"
    WRITTEN = " ORDER BY d.created_at, d.rowid LIMIT ?"
    FORWARDS = f" ORDER BY {PLACE}, d.id LIMIT ?"
    BACKWARDS = f" ORDER BY {PLACE} DESC, d.id DESC LIMIT ?"


def order_of(
    before: tuple[int, str] | None,
    after: tuple[int, str] | None,
    *,
    by_turn: bool,
    by_writing: bool,
) -> str:
    """Return the order of a scan; a cursor tells its direction."""
    if by_writing:
        return Order.WRITTEN
    if by_turn:
        return Order.FORWARDS if before is None else Order.BACKWARDS
    return Order.NEWEST if after is None else Order.OLDEST


def load(connection: apsw.Connection, ids: Sequence[str]) -> list[tuple[int, Document]]:
    """Return whole documents with their rowids, text joined from passages."""
    with connection:  # One snapshot: between two, another process may replace or delete it.
        documents = _whole(connection, rows(connection, _LOAD, (json.dumps(list(ids)),)))
    return documents


def between(
    before: tuple[int, str] | None, after: tuple[int, str] | None, *, by_turn: bool
) -> list[Clause]:
    """Return the conditions that a scan stays between two cursors."""
    place = PLACE if by_turn else "d.event_at"
    return [
        (f"({place}, d.id) {sign} (?, ?)", list(cursor))
        for sign, cursor in (("<", before), (">", after))
        if cursor is not None
    ]


def scan(
    connection: apsw.Connection,
    conditions: list[Clause],
    order: str,
    limit: int | None,
    damaged: list[str] | None,
    *,
    whole: bool,
) -> list[Document]:
    """Return documents in one of the orders of `Order`; call it inside a snapshot.

    ``damaged`` gets the ids of documents that cannot be read; without it, the first is an error.
    """
    sql, values = joined(conditions)
    try:
        return _scan(connection, sql, values, order, limit, whole=whole)
    except (apsw.CorruptError, UnicodeDecodeError):
        if damaged is None:
            raise
        return _scan_readable(connection, sql, values, order, limit, damaged, whole=whole)


def _scan(
    connection: apsw.Connection,
    sql: str,
    values: Sequence[object],
    order: str,
    limit: int | None,
    *,
    whole: bool,
) -> list[Document]:
    if limit is None:
        selected = rows(connection, _SCAN + sql + order, (*values, -1))
    else:
        # Sorting whole rows, of which nearly all are dropped, takes twice as long.
        chosen = f"d.rowid IN ({_ROWIDS}{sql}{order})"
        selected = rows(connection, _SCAN + chosen + order, (*values, limit, limit))
    if whole:
        return [document for _, document in _whole(connection, selected)]
    return [document_from(row) for _, _, *row in selected]


def _scan_readable(
    connection: apsw.Connection,
    sql: str,
    values: Sequence[object],
    order: str,
    limit: int | None,
    damaged: list[str],
    *,
    whole: bool,
) -> list[Document]:
    """Return the documents of a scan that can be read, row by row, and name the others."""
    readable = []
    statement = _ROWIDS + sql + order
    for (rowid,) in rows(connection, statement, (*values, -1 if limit is None else limit)):
        try:
            [(_, document)] = _whole(connection, rows(connection, _SCAN + "d.rowid = ?", (rowid,)))
            readable.append(document if whole else document._replace(text=""))
        except (apsw.CorruptError, UnicodeDecodeError):
            [(id_,)] = rows(connection, _RAW_ID, (rowid,))
            damaged.append(bytes(id_).decode("utf-8", "replace"))
    return readable


def _whole(connection: apsw.Connection, selected: list[SQLRow]) -> list[tuple[int, Document]]:
    documents = []
    for rowid, preface, *row in selected:
        pieces = [(start, text) for start, text in rows(connection, _PIECES, (rowid,))]
        if not _are_pieces(preface, pieces):
            raise apsw.CorruptError(f"document {quoted(str(row[ID_AT]))}: its text cannot be read")
        documents.append((rowid, document_from(row, stitched(preface, pieces))))
    return documents


def _are_pieces(preface: object, pieces: Sequence[tuple[object, object]]) -> bool:
    return isinstance(preface, str) and all(
        isinstance(start, int) and isinstance(text, str) for start, text in pieces
    )
