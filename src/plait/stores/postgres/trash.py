"""The trash: deleted documents kept for undo, inside a caller's transaction."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from plait.protocols import Trashed
from plait.stores.postgres import relations, signals, steps
from plait.stores.postgres.connection import Channel
from plait.stores.sqlite.trash import record_of, trashed_from

_KEEP = (
    "INSERT INTO plait.trash (ns, id, label, deleted_at, batch, document, bare, parent, version_of,"
    " trust) VALUES (%(ns)s, %(id)s, %(label)s, %(deleted_at)s, %(batch)s, %(document)s, %(bare)s, "
    "%(parent)s, %(version_of)s, %(trust)s) ON CONFLICT (ns, id, label) DO UPDATE SET "
    "deleted_at = excluded.deleted_at, batch = excluded.batch, document = excluded.document, "
    "bare = excluded.bare, parent = excluded.parent, version_of = excluded.version_of, "
    "trust = excluded.trust"
)
# subtle: of two rows of one id, that of fewer people counts: whoever knows an id could put a row of
# the whole team beside it.
_LISTED = (
    "SELECT o.label, o.batch, o.deleted_at, o.record FROM (SELECT DISTINCT ON (id) id, label, "
    "batch, deleted_at, {} AS record FROM plait.trash WHERE ns = %(ns)s {} "
    "ORDER BY id, label = 0, label <> %(private)s, deleted_at) AS o "
    "ORDER BY o.deleted_at DESC, o.batch, o.id"
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
_PLACES = "SELECT id, place, label FROM plait.documents WHERE ns = %(ns)s AND id = ANY(%(ids)s)"
_RECORDS = "SELECT id, label, document FROM plait.trash WHERE ns = %(ns)s"
_LIKE_DOCUMENT = (
    " AND label = (SELECT d.label FROM plait.documents AS d "
    "WHERE d.ns = %(ns)s AND d.place = %(document)s)"
)
_PRESENT = "SELECT id FROM plait.passages WHERE ns = %(ns)s AND id = ANY(%(ids)s)"
_RENEW = (
    "UPDATE plait.trash SET document = %(document)s "
    "WHERE ns = %(ns)s AND id = %(id)s AND label = %(label)s"
)
_FORGET = "DELETE FROM plait.trash WHERE ns = %(ns)s AND id = ANY(%(ids)s)"
# Without a label, all rows of the id.
_ROWS = (
    "unnest(%(ids)s::text[], %(labels_of)s::bigint[]) AS v (id, label) "
    "WHERE t.ns = %(ns)s AND t.id = v.id AND t.label = coalesce(v.label, t.label)"
)
_FORGET_ROWS = f"DELETE FROM plait.trash AS t USING {_ROWS}"  # noqa: S608
_SET_ASIDE = f"UPDATE plait.trash AS t SET batch = '' FROM {_ROWS}"  # noqa: S608
_EXPIRE = "DELETE FROM plait.trash WHERE ns = %(ns)s AND deleted_at < %(before)s"

# Who sees rows of the trash that were read in a transaction: of an id, it reads only one.
Labels = Mapping[str, int]


def keep(
    session: Channel,
    documents: Sequence[Trashed],
    next_number: relations.Numbers,
    deleted: Labels,
) -> None:
    """Copy documents that are about to be deleted, and their edges, to the trash.

    ``deleted`` has the labels of those that were deleted before: their texts, which may become
    earlier versions, stay with the same people, whoever has the id now.

    Their time is later than that of every earlier delete: two deletes within one millisecond, or a
    clock set back, must not change what undo means.
    """
    latest = session.value(_LATEST) or 0
    names = [name for row in documents for name in (row.document.id, row.version_of) if name]
    there = {id_: (place, label) for id_, place, label in session.rows(_PLACES, ids=names)}
    present = {id_: label for id_, (_, label) in there.items()}
    places = []
    for row in documents:
        place = there.get(row.document.id, (None, 0))[0]
        places.append(place)
        source = row.version_of or row.document.id
        taken = steps.of_document(session, source) if row.steps is None else row.steps
        use = signals.of_document(session, source) if row.use is None else row.use
        record = record_of(row, place or 0, taken, use)
        bare = bare_record(record, row)
        labels = {**present, **deleted} if row.version_of else {**deleted, **present}
        values = {
            "id": row.document.id,
            "label": labels.get(source, session.membership.personal),
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
    return [row for _, row in labelled(session, ids, related=related, texts=texts)]


def labelled(
    session: Channel, ids: Sequence[str] | None, *, related: bool, texts: bool
) -> list[tuple[int, Trashed]]:
    """Return what can be restored, each with its label: one row of an id."""
    condition = "" if ids is None else _RELATED if related else _ALONE
    query = _LISTED.format("document" if texts else "bare", condition)
    rows = session.rows(query, ids=list(ids or ()), private=session.membership.private)
    pairs = [(row[0], trashed_from(row[1:])) for row in rows]
    return pairs if texts else [(label, row.without_texts) for label, row in pairs]


def distrusted(session: Channel, passages: int) -> list[Trashed]:
    """Return documents that are not trusted, until they have so many passages."""
    listed: list[Trashed] = []
    for row in session.rows(_DISTRUSTED, most=max(passages, 0)):
        if passages <= 0:
            break
        listed.append(trashed_from(row))
        passages -= max(1, len(listed[-1].passages))
    return listed


def set_aside(session: Channel, ids: Collection[str], deleted: Labels) -> None:
    """Make deleted documents with these labels restorable only by id."""
    labels = [deleted.get(id_) for id_ in ids]
    session.execute(_SET_ASIDE, ids=list(ids), labels_of=labels)


def forget(session: Channel, ids: Collection[str], deleted: Labels) -> None:
    """Drop documents with these labels from the trash, else with that of the one that is back."""
    present = {id_: label for id_, _, label in session.rows(_PLACES, ids=list(ids))}
    labels = [deleted.get(id_, present.get(id_)) for id_ in ids]
    session.execute(_FORGET_ROWS, ids=list(ids), labels_of=labels)


def purge(session: Channel, ids: Collection[str]) -> None:
    """Drop all rows of documents from the trash, and the deleted edges that touch them."""
    session.execute(_FORGET, ids=list(ids))
    relations.forget(session, list(ids))
    _forget_mates(session)


def _records(session: Channel) -> dict[tuple[str, int], dict[str, Any]]:
    """Return by id and label what is kept of deleted documents that were read with others."""
    listed = session.rows(_RECORDS + " AND strpos(document, '\"use\":') > 0")
    records = {(id_, label): json.loads(record) for id_, label, record in listed}
    # A name of metadata may be the same word.
    return {row: record for row, record in records.items() if "use" in record}


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
    for row, record in records.items():
        use = {name: kept for name, kept in record["use"].items() if _is_whole(name, there)}
        if use != record["use"]:
            _renew(session, *row, record, use)


def _is_whole(name: str, there: Collection[str]) -> bool:
    return " " not in name or all(mate in there for mate in name.split(" "))


def wait_for(
    session: Channel, document: int, ids: Sequence[str], name: str, row: Sequence[int]
) -> None:
    """Keep what was read with a passage that is still deleted for when that one comes back.

    Only those who see the ``document`` that is back may see what its passages were read with.
    """
    for id_, label, text in session.rows(_RECORDS + _LIKE_DOCUMENT, document=document):
        record = json.loads(text)
        # Rows of earlier versions of plait name their passages only in the passages themselves.
        names = record.get("names") or [passage[0] for passage in record["passages"]]
        if {*names} & {*ids}:
            use = {**record.get("use", {}), name: list(row)}
            _renew(session, id_, label, record, use)


def _renew(
    session: Channel, id_: str, label: int, record: dict[str, Any], use: dict[str, Any]
) -> None:
    document = json.dumps({**record, "use": use}, ensure_ascii=False)
    session.execute(_RENEW, id=id_, label=label, document=document)


def expire(session: Channel, before: int) -> None:
    """Drop what was deleted before a moment."""
    session.execute(_EXPIRE, before=before)
    relations.expire(session, before)
