"""Edges between entities, inside a caller's transaction; at most one of a kind holds at a time."""

import json
from collections.abc import Sequence
from typing import Any

import apsw

from plait.errors import NotFound
from plait.stores.sqlite.rows import rows
from plait.types import ENTITY_SOURCE, TRUSTS, Filter, Relation

_ENTITY = "SELECT rowid FROM documents WHERE project = ? AND source = ? AND key = ?"
_CURRENT = (
    "SELECT rowid, context, valid_from, valid_to FROM relations "
    "WHERE source = ? AND target = ? AND type = ? AND (valid_to IS NULL OR valid_to > ?) "
    "ORDER BY valid_to IS NOT NULL, rowid"
)
# An edge that was made at the same moment is the same edge, in whichever memory.
_SAME_MAKING = (
    "SELECT rowid, valid_to FROM relations "
    "WHERE source = ? AND target = ? AND type = ? AND created_at = ?"
)
_SAME_PAST = (
    "SELECT 1 FROM relations WHERE source = ? AND target = ? AND type = ? "
    "AND context IS ? AND valid_from IS ? AND valid_to IS ?"
)
_LATEST = "SELECT max(created_at) FROM relations WHERE source = ? AND target = ? AND type = ?"
_INSERT = (
    "INSERT INTO relations (source, target, type, context, created_at, valid_from, valid_to) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_AMEND = "UPDATE relations SET context = ?, valid_from = ?, valid_to = ? WHERE rowid = ?"
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
_PROJECTS = (
    "s.project IN (SELECT value FROM json_each(?3)) "
    "AND t.project IN (SELECT value FROM json_each(?3))"
)
_TRUSTS = (
    "s.trust IN (SELECT value FROM json_each(?4)) AND t.trust IN (SELECT value FROM json_each(?4))"
)
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
# subtle: documents have a source too, which is another thing than where an edge begins.
_REVIVED = (
    "DELETE FROM trashed_relations AS r WHERE "
    "EXISTS (SELECT 1 FROM documents AS s WHERE s.id = r.source) "
    "AND EXISTS (SELECT 1 FROM documents AS t WHERE t.id = r.target)"
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
        for name in relation[:2]:
            if name not in known:
                known[name] = _required(connection, name, project)
        edge = (known[relation.source], known[relation.target], relation.type)
        fresh.append(_add(connection, edge, relation, now))
    return fresh


def _end(connection: apsw.Connection, name: str, project: str | None) -> int | None:
    """The row of an entity: of this project, or else the personal one."""
    for home in (project or "", ""):
        found = connection.execute(_ENTITY, (home, ENTITY_SOURCE, name)).get
        if found is not None:
            return int(found)
    return None


def _required(connection: apsw.Connection, name: str, project: str | None) -> int:
    found = _end(connection, name, project)
    if found is None:
        raise NotFound(
            f"There is no entity named '{name}'. Make it with: plait entity add '{name}'"
        )
    return found


def _add(
    connection: apsw.Connection, edge: tuple[int | str, ...], relation: Relation, now: int
) -> bool:
    until = relation.valid_to
    if relation.created_at:
        same = connection.execute(_SAME_MAKING, (*edge, relation.created_at)).fetchone()
        if same is not None and same[1] is not None and until is None:
            return False  # it has ended since then
        if same is not None and until is not None:
            if same[1] is None or until < same[1]:
                connection.execute(_END, (until, same[0]))
            return False
    if until is None or until > now:
        held = connection.execute(_CURRENT, (*edge, now)).fetchone()
        if held is not None:
            _amend(connection, held, relation)
            return False
    elif connection.execute(_SAME_PAST, (*edge, relation.context, relation.valid_from, until)).get:
        return False
    made = relation.created_at or max(now, 1 + (connection.execute(_LATEST, edge).get or 0))
    connection.execute(_INSERT, (*edge, relation.context, made, relation.valid_from, until))
    return True


def _amend(connection: apsw.Connection, held: tuple[Any, ...], relation: Relation) -> None:
    """Tell an edge that holds what is said of it now; what is not said stays."""
    rowid, *old = held
    said = (relation.context, relation.valid_from, relation.valid_to)
    new = [was if value is None else value for value, was in zip(said, old, strict=True)]
    if new != old:
        connection.execute(_AMEND, (*new, rowid))


def remove(
    connection: apsw.Connection,
    wanted: Sequence[Relation],
    project: str | None,
    end: int | None,
    now: int,
) -> int:
    """Remove edges that hold, or end them; edges of unknown entities are no edges."""
    count = 0
    for relation in wanted:
        ends = [_end(connection, name, project) for name in relation[:2]]
        for rowid, *_ in rows(connection, _CURRENT, (*ends, relation.type, now)):
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
    # An edge may lead to something of another project or trust: it is told with both its ends.
    projects: str | None = None
    if where.projects is None:
        conditions.append("?3 IS NULL")
    else:
        conditions.append(_PROJECTS)
        projects = json.dumps([name or "" for name in where.projects])
    conditions.append(_TRUSTS)
    sql = _LISTED.replace("/*conditions*/", " AND ".join(conditions))
    wanted = None if ids is None else json.dumps(list(ids))
    values = (wanted, moment, projects, json.dumps(where.trusts or TRUSTS))
    return [Relation(*row) for row in rows(connection, sql, values)]


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
