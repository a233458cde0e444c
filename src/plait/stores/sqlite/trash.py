"""The trash: deleted documents kept for undo, inside a caller's transaction."""

import json
from collections.abc import Collection, Sequence
from typing import Any

import apsw

from plait.protocols import PassageUse, Trashed
from plait.stores.sqlite import relations, signals, steps
from plait.stores.sqlite.connection import SQLRow, rows
from plait.stores.sqlite.documents import document_from_record, passage_from
from plait.types import Passage
from plait.types.steps import Step, step_from

_KEEP = (
    "INSERT INTO trash (id, deleted_at, batch, document, parent, version_of) "
    "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET deleted_at = excluded.deleted_at, "
    "batch = excluded.batch, document = excluded.document, parent = excluded.parent, "
    "version_of = excluded.version_of"
)
_LISTED = "SELECT batch, deleted_at, {} FROM trash {} ORDER BY deleted_at DESC, batch, id"
# Rows of earlier versions of plait name their passages only in the passages themselves.
_WITHOUT_TEXTS = (
    "CASE WHEN json_valid(document) AND json_array_length(document, '$.names') > 0 "
    "THEN json_set(document, '$.document.text', '', '$.passages', json('[]'), '$.steps', "
    "json('[]')) ELSE document END"
)
_RELATED = (
    "WHERE id IN (SELECT value FROM json_each(?1)) "
    "OR parent IN (SELECT value FROM json_each(?1)) "
    "OR version_of IN (SELECT value FROM json_each(?1)) "
    "OR id IN (SELECT parent FROM trash WHERE id IN (SELECT value FROM json_each(?1)))"
)
# subtle: word for word the condition of the index, or SQLite reads the whole trash.
_DISTRUSTED = (
    "SELECT batch, deleted_at, document FROM trash "
    "WHERE CASE WHEN json_valid(document) THEN document ->> '$.document.trust' END <> 'trusted' "
    "ORDER BY deleted_at DESC"
)
_ALONE = "WHERE id IN (SELECT value FROM json_each(?1))"
_FORGET = "DELETE FROM trash WHERE id IN (SELECT value FROM json_each(?))"
_SET_ASIDE = "UPDATE trash SET batch = '' WHERE id IN (SELECT value FROM json_each(?))"
_SOUND = "CASE WHEN json_valid(t.document) THEN t.document ELSE '{}' END"
_PAIRS = (
    f"SELECT t.id, u.key FROM trash AS t, json_each({_SOUND}, '$.use') AS u "  # noqa: S608
    # The first is far cheaper than reading JSON, and few were read with others.
    "WHERE instr(t.document, '\"use\":') > 0 AND instr(u.key, ' ') > 0"
)
_NAMES = f"SELECT n.value FROM trash AS t, json_each({_SOUND}, '$.names') AS n"  # noqa: S608
_ANY_GONE = "SELECT count(*) FROM json_each(?) WHERE value NOT IN (SELECT id FROM passages)"
_FORGET_PAIR = "UPDATE trash SET document = json_remove(document, ?) WHERE id = ?"
_LATEST = "SELECT max(deleted_at) FROM trash"
_PLACE = "SELECT rowid FROM documents WHERE id = ?"


def keep(connection: apsw.Connection, documents: Sequence[Trashed]) -> None:
    """Copy documents that are about to be deleted, and their edges, to the trash.

    Their time is later than that of every earlier delete: two deletes within one millisecond, or a
    clock set back, must not change what undo means.
    """
    latest = connection.execute(_LATEST).get or 0
    if not isinstance(latest, int):
        raise apsw.CorruptError("the time of a delete is not a number")
    rowids = []
    for row in documents:
        rowid = connection.execute(_PLACE, (row.document.id,)).get
        rowids.append(rowid)
        taken = row.steps
        if taken is None:
            taken = steps.of_document(connection, row.version_of or row.document.id)
        use = row.use
        if use is None:
            use = signals.of_document(connection, row.version_of or row.document.id)
        record = record_of(row, rowid or 0, taken, use)
        data = json.dumps(record, ensure_ascii=False)
        moment = max(row.deleted_at, latest + 1)
        belongs = (row.document.parent, row.version_of or None)
        connection.execute(_KEEP, (row.document.id, moment, row.batch, data, *belongs))
    if documents:
        relations.trash(connection, rowids, max(documents[0].deleted_at, latest + 1))


def record_of(row: Trashed, place: int, taken: Sequence[Step], use: PassageUse) -> dict[str, Any]:
    """Return what is kept of a deleted document, for `json.dumps`."""
    return {
        "document": row.document._asdict(),
        "passages": [_piece(passage) for passage in row.passages],
        "place": place,
        "names": row.names,
        "home": row.home,
        "version_of": row.version_of,
        **({"steps": taken} if taken else {}),
        **({"use": dict(use)} if use else {}),
    }


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
    connection: apsw.Connection,
    ids: Sequence[str] | None = None,
    *,
    related: bool = True,
    texts: bool = True,
) -> list[Trashed]:
    """Return what can be restored, the latest delete first; without ``texts``: no passages."""
    condition, values = "", list[str]()
    if ids is not None:
        condition, values = _RELATED if related else _ALONE, [json.dumps(list(ids))]
    query = _LISTED.format("document" if texts else _WITHOUT_TEXTS, condition)
    listed = (trashed_from(row) for row in rows(connection, query, values))
    return [row if texts else row.without_texts for row in listed]


def distrusted(connection: apsw.Connection, passages: int) -> list[Trashed]:
    """Return documents that are not trusted, until they have so many passages."""
    listed: list[Trashed] = []
    for row in connection.execute(_DISTRUSTED):
        if passages <= 0:
            break
        try:
            listed.append(trashed_from(row))
        except apsw.CorruptError:
            continue  # for `doctor` to report; a new text need not wait for it
        passages -= max(1, len(listed[-1].passages))
    return listed


def trashed_from(row: SQLRow) -> Trashed:
    """Return a row as a value.

    Raises:
        apsw.CorruptError: It has a value that plait never writes.
    """
    batch, deleted_at, record = row
    try:
        if isinstance(batch, str) and isinstance(deleted_at, int):
            return _trashed(batch, deleted_at, json.loads(record))
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError):
        pass
    moment = f"of {deleted_at} ms" if isinstance(deleted_at, int) else "without a time"
    raise apsw.CorruptError(f"a deleted document {moment} cannot be read")


def _trashed(batch: str, deleted_at: int, record: dict[str, Any]) -> Trashed:
    passages = [
        passage_from((text, heading, start_line, end_line, start, ordinal, id_, 0))
        for id_, ordinal, start, start_line, end_line, heading, text in record["passages"]
    ]
    names = record.get("names") or [passage.id for passage in passages]
    document = document_from_record(record["document"])
    place = record.get("place", 0)
    home, version_of = record.get("home"), record.get("version_of", "")
    taken = tuple(step_from(step) for step in record.get("steps", ()))
    use = {str(id_): tuple(row) for id_, row in record.get("use", {}).items()}
    return Trashed(
        batch, deleted_at, document, passages, place, tuple(names), home, version_of, taken, use
    )


def kin(record: str) -> dict[str, str | None]:
    """Return the columns that say what a sound row belongs to, as its record has them."""
    values = json.loads(record)
    return {
        "parent": values["document"].get("parent"),
        "version_of": values.get("version_of") or None,
    }


def set_aside(connection: apsw.Connection, ids: Collection[str]) -> None:
    """Make deleted documents restorable only by id."""
    connection.execute(_SET_ASIDE, (json.dumps(list(ids)),))


def forget(connection: apsw.Connection, ids: Collection[str], *, edges: bool) -> None:
    """Drop documents from the trash, and the deleted ``edges`` that touch them."""
    connection.execute(_FORGET, (json.dumps(list(ids)),))
    if edges:
        relations.forget(connection, list(ids))
        _forget_mates(connection)


def _forget_mates(connection: apsw.Connection) -> None:
    """Drop what others were read with that is neither in the memory nor in the trash any more."""
    listed = rows(connection, _PAIRS)
    if not listed:
        return
    there = {id_ for (id_,) in rows(connection, _NAMES)}
    for id_, pair in listed:
        mates = json.dumps([mate for mate in pair.split(" ") if mate not in there])
        if connection.execute(_ANY_GONE, (mates,)).get:
            connection.execute(_FORGET_PAIR, (f'$.use."{pair}"', id_))


def expire(connection: apsw.Connection, before: int) -> None:
    """Drop what was deleted before a moment."""
    connection.execute("DELETE FROM trash WHERE deleted_at < ?", (before,))
    relations.expire(connection, before)
