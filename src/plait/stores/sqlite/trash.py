"""Deleted documents: kept for undo, brought back, or forgotten, inside a caller's transaction."""

import json
from collections.abc import Collection, Sequence

import apsw

from plait.stores.sqlite import relations
from plait.stores.sqlite.facts import FactWriter
from plait.stores.sqlite.rows import MIN_PREFIX, document_from_record, new_id, rows
from plait.types import Document

KEPT_MS = 30 * 24 * 3600 * 1000
# The batch of what is brought back by its id only.
BY_ID_ONLY = ""

_KEEP = (
    "INSERT INTO trash (id, deleted_at, batch, document) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET deleted_at = excluded.deleted_at, "
    "batch = excluded.batch, document = excluded.document"
)
_RECORDS = "SELECT id, document FROM trash ORDER BY deleted_at DESC, id"
_ALL = "SELECT batch, deleted_at, document FROM trash ORDER BY deleted_at DESC, id"
_NAMED = "SELECT value FROM json_each(?1)"
_PARENT = "json_extract(document, '$.document.parent')"
_WITH_OBSERVATIONS = (
    f"SELECT id, document FROM trash WHERE id IN ({_NAMED}) OR {_PARENT} IN ({_NAMED})"  # noqa: S608
)
_WITH_FAMILY = (
    f"SELECT id, document FROM trash AS t WHERE id IN ({_NAMED}) OR EXISTS ("  # noqa: S608
    f"SELECT 1 FROM trash AS e WHERE e.id IN ({_NAMED}) "
    "AND e.id = json_extract(t.document, '$.document.parent') AND e.batch = t.batch) OR id IN "
    f"(SELECT {_PARENT} FROM trash WHERE id IN ({_NAMED}))"
)
_LATEST_DELETE = "SELECT max(deleted_at) FROM trash"
_LATEST_BATCH = (
    "SELECT id, document FROM trash WHERE batch = "
    "(SELECT batch FROM trash WHERE batch <> '' ORDER BY deleted_at DESC, batch LIMIT 1)"
)
_FORGET = "DELETE FROM trash WHERE id IN (SELECT value FROM json_each(?))"
_SET_ASIDE = "UPDATE trash SET batch = ? WHERE id IN (SELECT value FROM json_each(?))"
_TRASHED_PASSAGES = (
    "SELECT id, ordinal, start, start_line, end_line, heading, text FROM passages "
    "WHERE document = ? ORDER BY ordinal"
)


def keep(
    connection: apsw.Connection,
    doomed: Sequence[tuple[int, Document]],
    now: int,
    *,
    undoable: bool,
) -> None:
    """Write down documents that are about to be deleted, whole enough to bring back."""
    # Two deletes of one millisecond, or a clock set back, must not change what undo means.
    moment = max(now, 1 + (connection.execute(_LATEST_DELETE).get or 0))
    batch = new_id() if undoable else BY_ID_ONLY
    for rowid, document in doomed:
        passages = connection.execute(_TRASHED_PASSAGES, (rowid,)).fetchall()
        names = [row[0] for row in passages]
        if document.kind == "entity":
            # Its text repeats its observations: purging one of those must leave no byte here.
            document, passages = document._replace(text="", chunk_count=0), []
        record = {
            "document": document._asdict(),
            "passages": passages,
            "place": rowid,
            "names": names,
        }
        connection.execute(
            _KEEP, (document.id, moment, batch, json.dumps(record, ensure_ascii=False))
        )

    relations.trash(connection, [rowid for rowid, _ in doomed], moment)


def listed(connection: apsw.Connection) -> list[tuple[str, int, Document]]:
    """What can be brought back: (batch, deleted_at, document), newest first."""
    return [
        (batch, moment, document_from_record(json.loads(record)["document"]))
        for batch, moment, record in rows(connection, _ALL)
    ]


def ids_of(connection: apsw.Connection, name: str) -> list[str]:
    """The deleted documents that a name stands for, newest first.

    A name is what it was before they were deleted: an id or a key, before the id of a passage or
    its chunk_id, before the beginning of an id.
    """
    own, inside, begun = [], [], []
    for id_, record in rows(connection, _RECORDS):
        told = json.loads(record)
        passages = told.get("names") or [row[0] for row in told["passages"]]
        key = told["document"]["key"]
        if name in (id_, key):
            own.append(id_)
        elif name in passages or name in _chunks(id_, key, len(passages)):
            inside.append(id_)
        elif len(name) >= MIN_PREFIX and any(
            one.startswith(name.lower()) for one in (id_, *passages)
        ):
            begun.append(id_)
    return own or inside or begun


def _chunks(id_: str, key: str | None, count: int) -> set[str]:
    return {f"{name}-{ordinal}" for name in (id_, key) if name for ordinal in range(count)}


def bring_back(connection: apsw.Connection, ids: Sequence[str], now: int) -> list[Document]:
    """Put documents back, without ids those of the latest delete; what has a newer namesake stays.

    Of a whole delete it stays for its id only, so that the next undo reaches an older one. With an
    entity comes what was deleted with it, with an observation the entity that it belongs to.
    """
    found = rows(connection, _WITH_FAMILY if ids else _LATEST_BATCH, (_listing(ids),) * bool(ids))
    records = [(id_, json.loads(record)) for id_, record in found]
    # Entities first, then in the order of their first writing.
    records.sort(key=lambda row: (row[1]["document"]["kind"] != "entity", row[1].get("place", 0)))
    writer = FactWriter(connection, now=now)
    back: dict[str, Document] = {}
    for id_, record in records:
        document = writer.revive(record)
        if document is not None:
            back[id_] = document
    relations.revive(connection)
    writer.finish()
    connection.execute(_FORGET, (_listing(back),))
    if not ids:
        left = [id_ for id_, _ in found if id_ not in back]
        connection.execute(_SET_ASIDE, (BY_ID_ONLY, _listing(left)))
    return list(back.values())


def forget(connection: apsw.Connection, ids: Sequence[str]) -> list[Document]:
    """Drop these ids, and what belonged to these entities, from the trash; what lay there."""
    found = rows(connection, _WITH_OBSERVATIONS, (_listing(ids),))
    connection.execute(_FORGET, (_listing([id_ for id_, _ in found]),))
    relations.forget(connection, ids)
    return [document_from_record(json.loads(record)["document"]) for _, record in found]


def expire(connection: apsw.Connection, now: int) -> None:
    """Drop what has had its days of grace."""
    connection.execute("DELETE FROM trash WHERE deleted_at < ?", (now - KEPT_MS,))
    relations.expire(connection, now - KEPT_MS)


def _listing(ids: Collection[str]) -> str:
    return json.dumps(list(ids))
