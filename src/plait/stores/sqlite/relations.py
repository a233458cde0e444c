"""Edges between entities, inside a caller's transaction; at most one of a kind holds at a time."""

import json
from collections.abc import Sequence

import apsw

from plait.errors import NotFound
from plait.stores.sqlite.rows import rows
from plait.types import ENTITY_SOURCE, Filter, Relation

_ENTITY = "SELECT rowid FROM documents WHERE project = ? AND source = ? AND key = ?"
_CURRENT = (
    "SELECT rowid, context, valid_from FROM relations "
    "WHERE source = ? AND target = ? AND type = ? AND valid_to IS NULL"
)
_SAME_PAST = (
    "SELECT 1 FROM relations WHERE source = ? AND target = ? AND type = ? "
    "AND context IS ? AND valid_from IS ? AND valid_to IS ?"
)
_INSERT = (
    "INSERT INTO relations (source, target, type, context, created_at, valid_from, valid_to) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_AMEND = "UPDATE relations SET context = ?, valid_from = ? WHERE rowid = ?"
_END = "UPDATE relations SET valid_to = max(?1, coalesce(valid_from, ?1)) WHERE rowid = ?2"
_LISTED = (
    "SELECT s.key, t.key, r.type, r.context, r.created_at, r.valid_from, r.valid_to, s.id, t.id "
    "FROM relations AS r JOIN documents AS s ON s.rowid = r.source "
    "JOIN documents AS t ON t.rowid = r.target WHERE /*conditions*/ ORDER BY r.rowid"
)
_TOUCHING = (
    "r.rowid IN (SELECT r2.rowid FROM relations AS r2 JOIN documents AS e ON e.rowid = r2.source "
    "WHERE e.id IN (SELECT value FROM json_each(?1)) UNION "
    "SELECT r3.rowid FROM relations AS r3 JOIN documents AS e ON e.rowid = r3.target "
    "WHERE e.id IN (SELECT value FROM json_each(?1)))"
)
_VALID = "(r.valid_from IS NULL OR r.valid_from <= ?2) AND (r.valid_to IS NULL OR r.valid_to > ?2)"
_TRASH = (
    "INSERT INTO trashed_relations (source, target, type, context, created_at, valid_from, "
    "valid_to, deleted_at) SELECT s.id, t.id, r.type, r.context, r.created_at, r.valid_from, "
    "r.valid_to, ?2 FROM relations AS r JOIN documents AS s ON s.rowid = r.source "
    "JOIN documents AS t ON t.rowid = r.target WHERE r.rowid IN ("
    "SELECT rowid FROM relations WHERE source IN (SELECT value FROM json_each(?1)) UNION "
    "SELECT rowid FROM relations WHERE target IN (SELECT value FROM json_each(?1)))"
)
_REVIVE = (
    "INSERT OR IGNORE INTO relations (source, target, type, context, created_at, valid_from, "
    "valid_to) SELECT s.rowid, t.rowid, r.type, r.context, r.created_at, r.valid_from, r.valid_to "
    "FROM trashed_relations AS r JOIN documents AS s ON s.id = r.source "
    "JOIN documents AS t ON t.id = r.target ORDER BY r.rowid"
)
_REVIVED = (
    "DELETE FROM trashed_relations WHERE EXISTS (SELECT 1 FROM documents WHERE id = source) "
    "AND EXISTS (SELECT 1 FROM documents WHERE id = target)"
)
_FORGET = (
    "DELETE FROM trashed_relations WHERE source IN (SELECT value FROM json_each(?1)) "
    "OR target IN (SELECT value FROM json_each(?1))"
)


def add(
    connection: apsw.Connection, wanted: Sequence[Relation], project: str | None, now: int
) -> list[bool]:
    """Join entities; whether each edge is new. One that holds already takes over what is said."""
    known: dict[str, int] = {}
    fresh = []
    for relation in wanted:
        ends = [_end(connection, name, project, known) for name in relation[:2]]
        fresh.append(_add(connection, (*ends, relation.type), relation, now))
    return fresh


def _end(connection: apsw.Connection, name: str, project: str | None, known: dict[str, int]) -> int:
    if name not in known:
        found = connection.execute(_ENTITY, (project or "", ENTITY_SOURCE, name)).get
        if found is None:
            raise NotFound(
                f"There is no entity named '{name}'. Make it with: plait entity add '{name}'"
            )
        known[name] = int(found)
    return known[name]


def _add(
    connection: apsw.Connection, edge: tuple[int | str, ...], relation: Relation, now: int
) -> bool:
    period = (relation.valid_from, relation.valid_to)
    if relation.valid_to is not None:
        if connection.execute(_SAME_PAST, (*edge, relation.context, *period)).get:
            return False
    else:
        held = connection.execute(_CURRENT, edge).fetchone()
        if held is not None:
            rowid, context, valid_from = held
            said = relation.context if relation.context is not None else context
            since = relation.valid_from if relation.valid_from is not None else valid_from
            if (said, since) != (context, valid_from):
                connection.execute(_AMEND, (said, since, rowid))
            return False
    connection.execute(_INSERT, (*edge, relation.context, relation.created_at or now, *period))
    return True


def remove(
    connection: apsw.Connection, wanted: Sequence[Relation], project: str | None, end: int | None
) -> int:
    """Remove edges that hold, or end them; edges of unknown entities are no edges."""
    count = 0
    for relation in wanted:
        ends = [
            connection.execute(_ENTITY, (project or "", ENTITY_SOURCE, name)).get
            for name in relation[:2]
        ]
        for rowid, *_ in rows(connection, _CURRENT, (*ends, relation.type)):
            if end is None:
                connection.execute("DELETE FROM relations WHERE rowid = ?", (rowid,))
            else:
                connection.execute(_END, (end, rowid))
            count += 1
    return count


def listed(
    connection: apsw.Connection, ids: Sequence[str] | None, where: Filter, now: int
) -> list[Relation]:
    """Edges that hold, of these entities or of all of the wanted projects."""
    conditions = [_TOUCHING] if ids is not None else ["?1 IS NULL"]
    moment = now if where.as_of is None else where.as_of
    conditions.append("?2 IS NOT NULL" if where.all_versions else _VALID)
    projects: str | None = None
    if where.projects is None:
        conditions.append("?3 IS NULL")
    else:
        conditions.append("s.project IN (SELECT value FROM json_each(?3))")
        projects = json.dumps([name or "" for name in where.projects])
    sql = _LISTED.replace("/*conditions*/", " AND ".join(conditions))
    wanted = None if ids is None else json.dumps(list(ids))
    return [Relation(*row) for row in rows(connection, sql, (wanted, moment, projects))]


def trash(connection: apsw.Connection, rowids: Sequence[int], moment: int) -> None:
    """Write down the edges of entities that are about to be deleted."""
    connection.execute(_TRASH, (json.dumps(list(rowids)), moment))


def revive(connection: apsw.Connection) -> None:
    """Bring back edges whose two ends are there again."""
    connection.execute(_REVIVE)
    connection.execute(_REVIVED)


def forget(connection: apsw.Connection, ids: Sequence[str]) -> None:
    """Drop the edges of these entities from the trash."""
    connection.execute(_FORGET, (json.dumps(list(ids)),))


def expire(connection: apsw.Connection, before: int) -> None:
    """Drop edges that have had their days of grace."""
    connection.execute("DELETE FROM trashed_relations WHERE deleted_at < ?", (before,))
