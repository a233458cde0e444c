"""The trash: deleted documents kept for undo, inside a caller's transaction."""

import json
from collections.abc import Collection, Sequence
from typing import Any

import apsw

from plait.protocols import Trashed
from plait.stores.sqlite import relations
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.documents import document_from_record
from plait.types import Passage

_KEEP = (
    "INSERT INTO trash (id, deleted_at, batch, document) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET deleted_at = excluded.deleted_at, "
    "batch = excluded.batch, document = excluded.document"
)
_LISTED = "SELECT batch, deleted_at, document FROM trash {} ORDER BY deleted_at DESC, batch, id"
_RELATED = (
    "WHERE id IN (SELECT value FROM json_each(?1)) "
    "OR document ->> '$.document.parent' IN (SELECT value FROM json_each(?1)) "
    "OR id IN (SELECT document ->> '$.document.parent' FROM trash "
    "WHERE id IN (SELECT value FROM json_each(?1)))"
)
_OF_LATEST = (
    "WHERE batch = (SELECT batch FROM trash WHERE batch <> '' ORDER BY deleted_at DESC LIMIT 1)"
)
_FORGET = "DELETE FROM trash WHERE id IN (SELECT value FROM json_each(?))"
_SET_ASIDE = "UPDATE trash SET batch = '' WHERE id IN (SELECT value FROM json_each(?))"
_LATEST = "SELECT max(deleted_at) FROM trash"
_PLACE = "SELECT rowid FROM documents WHERE id = ?"


def keep(connection: apsw.Connection, documents: Sequence[Trashed]) -> None:
    """Copy documents that are about to be deleted, and their edges, to the trash.

    Their time is later than that of every earlier delete: two deletes within one millisecond, or a
    clock set back, must not change what undo means.
    """
    latest = connection.execute(_LATEST).get or 0
    rowids = []
    for row in documents:
        rowid = connection.execute(_PLACE, (row.document.id,)).get
        rowids.append(rowid)
        record = {
            "document": row.document._asdict(),
            "passages": [_piece(passage) for passage in row.passages],
            "place": rowid or 0,
            "names": row.names,
        }
        data = json.dumps(record, ensure_ascii=False)
        moment = max(row.deleted_at, latest + 1)
        connection.execute(_KEEP, (row.document.id, moment, row.batch, data))
    if documents:
        relations.trash(connection, rowids, max(documents[0].deleted_at, latest + 1))


def _piece(passage: Passage) -> tuple[Any, ...]:
    return (
        passage.id,
        passage.ordinal,
        passage.start,
        passage.start_line,
        passage.end_line,
        passage.heading,
        passage.text,
    )


def listed(
    connection: apsw.Connection, ids: Sequence[str] | None = None, *, latest: bool = False
) -> list[Trashed]:
    """Return what can be restored, the latest delete first."""
    condition, values = "", list[str]()
    if ids is not None:
        condition, values = _RELATED, [json.dumps(list(ids))]
    elif latest:
        condition = _OF_LATEST
    return [
        _trashed(batch, deleted_at, json.loads(record))
        for batch, deleted_at, record in rows(connection, _LISTED.format(condition), values)
    ]


def _trashed(batch: str, deleted_at: int, record: dict[str, Any]) -> Trashed:
    passages = [
        Passage(text, heading, start_line, end_line, start, ordinal, id_)
        for id_, ordinal, start, start_line, end_line, heading, text in record["passages"]
    ]
    names = record.get("names") or [passage.id for passage in passages]
    document = document_from_record(record["document"])
    place = record.get("place", 0)
    return Trashed(batch, deleted_at, document, passages, place, tuple(names))


def set_aside(connection: apsw.Connection, ids: Collection[str]) -> None:
    """Make deleted documents restorable only by id."""
    connection.execute(_SET_ASIDE, (json.dumps(list(ids)),))


def forget(connection: apsw.Connection, ids: Collection[str], *, edges: bool) -> None:
    """Drop documents from the trash, and the deleted ``edges`` that touch them."""
    connection.execute(_FORGET, (json.dumps(list(ids)),))
    if edges:
        relations.forget(connection, list(ids))


def expire(connection: apsw.Connection, before: int) -> None:
    """Drop what was deleted before a moment."""
    connection.execute("DELETE FROM trash WHERE deleted_at < ?", (before,))
    relations.expire(connection, before)
