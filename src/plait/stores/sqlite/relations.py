"""Edges between entities, as rows, inside a caller's transaction."""

import json
from collections.abc import Sequence

import apsw

from plait.errors import quoted
from plait.stores.sqlite.connection import SQLRow, rows
from plait.stores.sqlite.filters import spellings_of
from plait.types import TRUSTS, Filter
from plait.types.relations import Relation

_ROWID = "SELECT rowid FROM documents WHERE id = ?"
_COLUMNS = "s.key, t.key, r.type, r.context, r.created_at, r.valid_from, r.valid_to, s.id, t.id"
_BETWEEN = (
    f"SELECT {_COLUMNS} "  # noqa: S608
    "FROM relations AS r JOIN documents AS s ON s.rowid = r.source "
    "JOIN documents AS t ON t.rowid = r.target "
    "WHERE s.id = ? AND t.id = ? AND r.type = ? ORDER BY r.rowid"
)
_UPDATE = (
    "UPDATE relations SET context = ?, valid_from = ?, valid_to = ? "
    "WHERE source = ? AND target = ? AND type = ? AND created_at = ?"
)
_INSERT = (
    "INSERT INTO relations (context, valid_from, valid_to, source, target, type, created_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_DELETE = "DELETE FROM relations WHERE source = ? AND target = ? AND type = ? AND created_at = ?"
_LISTED = (
    f"SELECT {_COLUMNS} "  # noqa: S608
    "FROM relations AS r JOIN documents AS s ON s.rowid = r.source "
    "JOIN documents AS t ON t.rowid = r.target WHERE /*conditions*/ ORDER BY r.rowid"
)
_ONE = _LISTED.replace("/*conditions*/", "r.rowid = ?")
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
# subtle: documents have a source too, which is not the source of an edge.
_REVIVED = (
    "DELETE FROM trashed_relations AS r WHERE "
    "EXISTS (SELECT 1 FROM documents AS s WHERE s.id = r.source) "
    "AND EXISTS (SELECT 1 FROM documents AS t WHERE t.id = r.target)"
)
_FORGET = (
    "DELETE FROM trashed_relations WHERE source IN (SELECT value FROM json_each(?1)) "
    "OR target IN (SELECT value FROM json_each(?1))"
)


def relation_from(row: SQLRow) -> Relation:
    """Return a row as a value.

    Raises:
        apsw.CorruptError: A column has a value that plait never writes.
    """
    relation = Relation(*row)
    texts = (relation.source, relation.target, relation.type, relation.source_id)
    times = (relation.valid_from, relation.valid_to)
    if not (
        all(isinstance(text, str) for text in texts)
        and isinstance(relation.context, str | None)
        and isinstance(relation.created_at, int)
        and all(isinstance(moment, int | None) for moment in times)
    ):
        raise apsw.CorruptError(f"a relation of {quoted(str(relation.source))} cannot be read")
    return relation


def between(connection: apsw.Connection, source: str, target: str, type_: str) -> list[Relation]:
    """Return all edges of one type between two entities, as first written."""
    return [relation_from(row) for row in rows(connection, _BETWEEN, (source, target, type_))]


def put(connection: apsw.Connection, relation: Relation) -> None:
    """Write an edge; it replaces the one with the same ends, type and creation time."""
    values = (relation.context, relation.valid_from, relation.valid_to, *_key(connection, relation))
    connection.execute(_UPDATE, values)
    if not connection.changes():
        connection.execute(_INSERT, values)


def drop(connection: apsw.Connection, relation: Relation) -> None:
    """Delete an edge."""
    connection.execute(_DELETE, _key(connection, relation))


def _key(connection: apsw.Connection, relation: Relation) -> tuple[int, int, str, int]:
    ends = [connection.execute(_ROWID, (id_,)).get for id_ in relation[-2:]]
    return ends[0], ends[1], relation.type, relation.created_at


def listed(
    connection: apsw.Connection,
    ids: Sequence[str] | None,
    where: Filter,
    now: int,
    damaged: list[str] | None = None,
) -> list[Relation]:
    """Return valid edges of these entities, or of all wanted projects."""
    conditions = [_TOUCHING] if ids is not None else ["?1 IS NULL"]
    moment = now if where.as_of is None else where.as_of
    conditions.append("?2 IS NOT NULL" if where.all_versions else _VALID)
    # An edge may lead to another project or trust: both its ends must be wanted.
    projects: str | None = None
    if not where.projects:
        conditions.append("?3 IS NULL")
    else:
        conditions.append(_PROJECTS)
        projects = json.dumps(spellings_of(*(name or "" for name in where.projects)))
    conditions.append(_TRUSTS)
    sql = _LISTED.replace("/*conditions*/", " AND ".join(conditions))
    wanted = None if ids is None else json.dumps(list(ids))
    values = (wanted, moment, projects, json.dumps(where.trusts or TRUSTS))
    try:
        return [relation_from(row) for row in rows(connection, sql, values)]
    except (apsw.CorruptError, UnicodeDecodeError):
        if damaged is None:
            raise
    readable = []
    for (rowid,) in rows(connection, sql.replace(_COLUMNS, "r.rowid"), values):
        try:
            [row] = rows(connection, _ONE, (rowid,))
            readable.append(relation_from(row))
        except (apsw.CorruptError, UnicodeDecodeError):
            damaged.append(f"relations {rowid}")  # as a check of the file names it
    return readable


def trash(connection: apsw.Connection, rowids: Sequence[int], moment: int) -> None:
    """Keep the edges of entities that are about to be deleted."""
    connection.execute(_TRASH, (json.dumps(list(rowids)), moment))


def revive(connection: apsw.Connection) -> None:
    """Bring back edges whose two ends exist again."""
    connection.execute(_REVIVE)
    connection.execute(_REVIVED)


def forget(connection: apsw.Connection, ids: Sequence[str]) -> None:
    """Drop the edges of these entities from the trash."""
    connection.execute(_FORGET, (json.dumps(list(ids)),))


def expire(connection: apsw.Connection, before: int) -> None:
    """Drop edges that were deleted before a moment."""
    connection.execute("DELETE FROM trashed_relations WHERE deleted_at < ?", (before,))
