"""The trash: deleted documents kept for undo, inside a caller's transaction."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from plait.protocols import Trashed
from plait.stores.postgres import relations, signals, steps
from plait.stores.postgres.connection import Channel
from plait.stores.sqlite.trash import record_of, trashed_from

_KEEP = (
    "INSERT INTO plait.trash (ns, id, deleted_at, batch, document, bare, parent, version_of, trust)"
    " VALUES (%(ns)s, %(id)s, %(deleted_at)s, %(batch)s, %(document)s, %(bare)s, %(parent)s, "
    "%(version_of)s, %(trust)s) ON CONFLICT (ns, id) DO UPDATE SET "
    "deleted_at = excluded.deleted_at, batch = excluded.batch, document = excluded.document, "
    "bare = excluded.bare, parent = excluded.parent, version_of = excluded.version_of, "
    "trust = excluded.trust"
)
_LISTED = (
    "SELECT batch, deleted_at, {} FROM plait.trash WHERE ns = %(ns)s {} "
    "ORDER BY deleted_at DESC, batch, id"
)
_ALONE = "AND id = ANY(%(ids)s)"
_RELATED = (
    "AND (id = ANY(%(ids)s) OR parent = ANY(%(ids)s) OR version_of = ANY(%(ids)s) OR id IN "
    "(SELECT t.parent FROM plait.trash AS t WHERE t.ns = %(ns)s AND t.id = ANY(%(ids)s)))"
)
_DISTRUSTED = (
    "SELECT batch, deleted_at, document FROM plait.trash WHERE ns = %(ns)s "
    "AND trust <> 'trusted' ORDER BY deleted_at DESC, id DESC LIMIT %(most)s"
)
_LATEST = "SELECT max(deleted_at) FROM plait.trash WHERE ns = %(ns)s"
_PLACE = "SELECT place FROM plait.documents WHERE ns = %(ns)s AND id = %(id)s"
_RECORDS = "SELECT id, document FROM plait.trash WHERE ns = %(ns)s"
_PRESENT = "SELECT id FROM plait.passages WHERE ns = %(ns)s AND id = ANY(%(ids)s)"
_RENEW = "UPDATE plait.trash SET document = %(document)s WHERE ns = %(ns)s AND id = %(id)s"
_FORGET = "DELETE FROM plait.trash WHERE ns = %(ns)s AND id = ANY(%(ids)s)"
_SET_ASIDE = "UPDATE plait.trash SET batch = '' WHERE ns = %(ns)s AND id = ANY(%(ids)s)"
_EXPIRE = "DELETE FROM plait.trash WHERE ns = %(ns)s AND deleted_at < %(before)s"


def keep(session: Channel, documents: Sequence[Trashed], next_number: relations.Numbers) -> None:
    """Copy documents that are about to be deleted, and their edges, to the trash.

    Their time is later than that of every earlier delete: two deletes within one millisecond, or a
    clock set back, must not change what undo means.
    """
    latest = session.value(_LATEST) or 0
    places = []
    for row in documents:
        place = session.value(_PLACE, id=row.document.id)
        places.append(place)
        source = row.version_of or row.document.id
        taken = steps.of_document(session, source) if row.steps is None else row.steps
        use = signals.of_document(session, source) if row.use is None else row.use
        record = record_of(row, place or 0, taken, use)
        bare = bare_record(record, row)
        values = {
            "id": row.document.id,
            "deleted_at": max(row.deleted_at, latest + 1),
            "batch": row.batch,
            "document": json.dumps(record, ensure_ascii=False),
            "bare": json.dumps(bare, ensure_ascii=False),
            "parent": row.document.parent,
            "version_of": row.version_of or None,
            "trust": row.document.trust,
        }
        session.execute(_KEEP, values)
    known = [place for place in places if place is not None]
    if known:
        relations.trash(session, known, max(documents[0].deleted_at, latest + 1), next_number)


def bare_record(record: dict[str, Any], row: Trashed) -> dict[str, Any]:
    """Return what is kept of a deleted document without its texts."""
    return record | {
        "passages": [],
        "document": {**record["document"], "text": ""},
        "names": row.names or [passage.id for passage in row.passages],
        "steps": [],
        "use": {},
    }


def listed(
    session: Channel,
    ids: Sequence[str] | None = None,
    *,
    related: bool = True,
    texts: bool = True,
) -> list[Trashed]:
    """Return what can be restored, the latest delete first; without ``texts``: no passages."""
    condition = "" if ids is None else _RELATED if related else _ALONE
    query = _LISTED.format("document" if texts else "bare", condition)
    rows = [trashed_from(row) for row in session.rows(query, ids=list(ids or ()))]
    return [row if texts else row.without_texts for row in rows]


def distrusted(session: Channel, passages: int) -> list[Trashed]:
    """Return documents that are not trusted, until they have so many passages."""
    listed: list[Trashed] = []
    for row in session.rows(_DISTRUSTED, most=max(passages, 0)):
        if passages <= 0:
            break
        listed.append(trashed_from(row))
        passages -= max(1, len(listed[-1].passages))
    return listed


def set_aside(session: Channel, ids: Collection[str]) -> None:
    """Make deleted documents restorable only by id."""
    session.execute(_SET_ASIDE, ids=list(ids))


def forget(session: Channel, ids: Collection[str], *, edges: bool) -> None:
    """Drop documents from the trash, and the deleted ``edges`` that touch them."""
    session.execute(_FORGET, ids=list(ids))
    if edges:
        relations.forget(session, list(ids))
        _forget_mates(session)


def _records(session: Channel) -> dict[str, dict[str, Any]]:
    """Return what is kept of deleted documents that were read with others."""
    listed = session.rows(_RECORDS + " AND strpos(document, '\"use\":') > 0")
    records = {id_: json.loads(record) for id_, record in listed}
    # A name of metadata may be the same word.
    return {id_: record for id_, record in records.items() if "use" in record}


def _names(session: Channel) -> set[str]:
    listed = session.rows("SELECT bare FROM plait.trash WHERE ns = %(ns)s")
    return {name for (record,) in listed for name in json.loads(record)["names"]}


def _forget_mates(session: Channel) -> None:
    """Drop what others were read with that is neither in the memory nor in the trash any more."""
    records = _records(session)
    pairs = {name for record in records.values() for name in record["use"] if " " in name}
    if not pairs:
        return
    mates = {mate for pair in pairs for mate in pair.split(" ")}
    there = _names(session) | {id_ for (id_,) in session.rows(_PRESENT, ids=list(mates))}
    for id_, record in records.items():
        use = {name: row for name, row in record["use"].items() if _is_whole(name, there)}
        if use != record["use"]:
            _renew(session, id_, record, use)


def _is_whole(name: str, there: Collection[str]) -> bool:
    return " " not in name or all(mate in there for mate in name.split(" "))


def wait_for(session: Channel, ids: Sequence[str], name: str, row: Sequence[int]) -> None:
    """Keep what was read with a passage that is still deleted for when that one comes back."""
    for id_, text in session.rows(_RECORDS):
        record = json.loads(text)
        # Rows of earlier versions of plait name their passages only in the passages themselves.
        names = record.get("names") or [passage[0] for passage in record["passages"]]
        if {*names} & {*ids}:
            _renew(session, id_, record, {**record.get("use", {}), name: list(row)})


def _renew(session: Channel, id_: str, record: dict[str, Any], use: dict[str, Any]) -> None:
    document = json.dumps({**record, "use": use}, ensure_ascii=False)
    session.execute(_RENEW, id=id_, document=document)


def expire(session: Channel, before: int) -> None:
    """Drop what was deleted before a moment."""
    session.execute(_EXPIRE, before=before)
    relations.expire(session, before)
