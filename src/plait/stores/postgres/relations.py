"""Edges between entities, as rows, inside a caller's transaction."""

from collections.abc import Callable, Sequence

from plait.errors import UsageError
from plait.stores.postgres.connection import Channel
from plait.stores.sqlite.filters import spellings_of
from plait.types import TRUSTS, Filter
from plait.types.relations import Relation

_PLACES = (
    "SELECT d.id, d.place FROM plait.documents AS d WHERE d.ns = %(ns)s AND d.id = ANY(%(ids)s)"
)
_LISTED = (
    "SELECT s.key, t.key, r.type, r.context, r.created_at, r.valid_from, r.valid_to, s.id, t.id "
    "FROM plait.relations AS r JOIN plait.documents AS s ON s.ns = %(ns)s AND s.place = r.source "
    "JOIN plait.documents AS t ON t.ns = %(ns)s AND t.place = r.target WHERE r.ns = %(ns)s AND "
)
_BETWEEN = "s.id = %(source)s AND t.id = %(target)s AND r.type = %(type)s"
_SAME = (
    "WHERE ns = %(ns)s AND source = %(source)s AND target = %(target)s AND type = %(type)s "
    "AND created_at = %(created_at)s"
)
_UPDATE = (
    "UPDATE plait.relations SET context = %(context)s, valid_from = %(valid_from)s, "  # noqa: S608
    f"valid_to = %(valid_to)s {_SAME}"
)
_INSERT = (
    "INSERT INTO plait.relations "
    "(ns, number, source, target, type, context, created_at, valid_from, valid_to, label) "
    "SELECT %(ns)s, %(number)s, a.place, b.place, %(type)s, %(context)s, %(created_at)s, "
    "%(valid_from)s, %(valid_to)s, CASE WHEN a.label = 0 THEN b.label ELSE a.label END "
    "FROM plait.documents AS a JOIN plait.documents AS b ON b.ns = %(ns)s "
    "AND b.place = %(target)s WHERE a.ns = %(ns)s AND a.place = %(source)s"
)
_LABELS = "SELECT DISTINCT label FROM plait.documents WHERE ns = %(ns)s AND place = ANY(%(places)s)"

_DELETE = f"DELETE FROM plait.relations {_SAME}"  # noqa: S608
_VALID = (
    "(r.valid_from IS NULL OR r.valid_from <= %(moment)s) "
    "AND (r.valid_to IS NULL OR r.valid_to > %(moment)s)"
)
_TRASH = (
    "INSERT INTO plait.trashed_relations (ns, number, source, target, type, context, created_at, "
    "valid_from, valid_to, deleted_at, label) SELECT %(ns)s, %(first)s + row_number() OVER "
    "(ORDER BY r.number), s.id, t.id, r.type, r.context, r.created_at, r.valid_from, r.valid_to, "
    "%(moment)s, r.label FROM plait.relations AS r "
    "JOIN plait.documents AS s ON s.ns = %(ns)s AND s.place = r.source "
    "JOIN plait.documents AS t ON t.ns = %(ns)s AND t.place = r.target "
    "WHERE r.ns = %(ns)s AND (r.source = ANY(%(places)s) OR r.target = ANY(%(places)s))"
)
_TOUCHING = (
    "SELECT count(*) FROM plait.relations WHERE ns = %(ns)s "
    "AND (source = ANY(%(places)s) OR target = ANY(%(places)s))"
)
# Only to those who saw it before: its context is a text, too.
_WAITING = (
    "SELECT r.number, s.place, t.place, r.type, r.context, r.created_at, r.valid_from, r.valid_to "
    "FROM plait.trashed_relations AS r "
    "JOIN plait.documents AS s ON s.ns = %(ns)s AND s.id = r.source "
    "JOIN plait.documents AS t ON t.ns = %(ns)s AND t.id = r.target "
    "WHERE r.ns = %(ns)s AND r.label = CASE WHEN s.label = 0 THEN t.label ELSE s.label END "
    "ORDER BY r.number"
)
_REVIVED = "DELETE FROM plait.trashed_relations WHERE ns = %(ns)s AND number = ANY(%(numbers)s)"
_FORGET = (
    "DELETE FROM plait.trashed_relations WHERE ns = %(ns)s "
    "AND (source = ANY(%(ids)s) OR target = ANY(%(ids)s))"
)
_EXPIRE = "DELETE FROM plait.trashed_relations WHERE ns = %(ns)s AND deleted_at < %(before)s"

Numbers = Callable[[int], int]


def between(session: Channel, source: str, target: str, type_: str) -> list[Relation]:
    """Return all edges of one type between two entities, as first written."""
    values = {"source": source, "target": target, "type": type_}
    return [
        Relation(*row) for row in session.rows(_LISTED + _BETWEEN + " ORDER BY r.number", values)
    ]


def put(session: Channel, relation: Relation, next_number: Numbers) -> None:
    """Write an edge; it replaces the one with the same ends, type and creation time."""
    values = {**_key(session, relation), **_parts(relation)}
    refuse_apart(session, [values["source"], values["target"]], relation)
    if not session.change(_UPDATE, values):
        session.execute(_INSERT, values, number=next_number(1))


def refuse_apart(session: Channel, places: Sequence[object], relation: Relation) -> None:
    """Refuse an edge between two entities that no two people see together.

    Raises:
        UsageError: One is private, or of a project, and the other is of somebody else.
    """
    known = [place for place in places if place is not None]
    labels = {label for (label,) in session.rows(_LABELS, places=known)} - {0}
    if len(labels) > 1:
        raise UsageError(
            f"{relation.source} and {relation.target} are not visible to the same people, so "
            "nobody could see a relation between them.",
            code="other_visibility",
            subject=relation.source,
        )


def drop(session: Channel, relation: Relation) -> None:
    """Delete an edge."""
    session.execute(_DELETE, _key(session, relation))


def _key(session: Channel, relation: Relation) -> dict[str, object]:
    places: dict[str, int] = dict(session.rows(_PLACES, ids=[*relation[-2:]]))
    return {
        "source": places.get(relation.source_id),
        "target": places.get(relation.target_id),
        "type": relation.type,
        "created_at": relation.created_at,
    }


def _parts(relation: Relation) -> dict[str, object]:
    return {
        "context": relation.context,
        "valid_from": relation.valid_from,
        "valid_to": relation.valid_to,
    }


def listed(session: Channel, ids: Sequence[str] | None, where: Filter, now: int) -> list[Relation]:
    """Return valid edges of these entities, or of all wanted projects."""
    # An edge may lead to another project or trust: both its ends must be wanted.
    conditions = ["s.trust = ANY(%(trusts)s)", "t.trust = ANY(%(trusts)s)"]
    values: dict[str, object] = {
        "trusts": list(where.trusts or TRUSTS),
        "moment": now if where.as_of is None else where.as_of,
    }
    if ids is not None:
        values["ids"] = list(ids)
        conditions.append("(s.id = ANY(%(ids)s) OR t.id = ANY(%(ids)s))")
    if not where.all_versions:
        conditions.append(_VALID)
    if where.projects:
        values["projects"] = spellings_of(*(name or "" for name in where.projects))
        conditions += [f"{end}.project = ANY(%(projects)s)" for end in "st"]
    sql = f"{_LISTED}{' AND '.join(conditions)} ORDER BY r.number"
    return [Relation(*row) for row in session.rows(sql, values)]


def trash(session: Channel, places: Sequence[int], moment: int, next_number: Numbers) -> None:
    """Keep the edges of entities that are about to be deleted."""
    count = session.value(_TOUCHING, places=list(places))
    if count:
        first = next_number(count) - 1
        session.execute(_TRASH, places=list(places), moment=moment, first=first)


def revive(session: Channel, next_number: Numbers) -> None:
    """Bring back edges whose two ends exist again, except beside a current one."""
    waiting = session.rows(_WAITING)
    for _, source, target, type_, context, created_at, valid_from, valid_to in waiting:
        ends = {"source": source, "target": target, "type": type_}
        current = (
            "SELECT 1 FROM plait.relations WHERE ns = %(ns)s AND source = %(source)s "
            "AND target = %(target)s AND type = %(type)s AND valid_to IS NULL"
        )
        if valid_to is None and session.value(current, ends):
            continue
        values = {**ends, "context": context, "created_at": created_at}
        values |= {"valid_from": valid_from, "valid_to": valid_to}
        session.execute(_INSERT, values, number=next_number(1))
    if waiting:
        session.execute(_REVIVED, numbers=[row[0] for row in waiting])


def forget(session: Channel, ids: Sequence[str]) -> None:
    """Drop the edges of these entities from the trash."""
    session.execute(_FORGET, ids=list(ids))


def expire(session: Channel, before: int) -> None:
    """Drop edges that were deleted before a moment."""
    session.execute(_EXPIRE, before=before)
