"""Make indexes and other derived data again whose pages are damaged.

SQLite drops a tree by walking it, which a damaged page prevents. So only its row of the schema is
removed, and a new tree is built from the rows of the memory; VACUUM frees the old pages. All of it
is one transaction: a kill leaves the old file or the new one. Every row of the other tables is read
before and after, and nothing is committed unless they are the same and SQLite finds no damage left.
"""

import hashlib
from contextlib import suppress

import apsw

from plait.stores.sqlite import integrity, objects, rebuilding
from plait.stores.sqlite.blocks import ALL_CHANGED
from plait.stores.sqlite.carving import carved_rows, lost_rows
from plait.stores.sqlite.connection import Connections, rows
from plait.stores.sqlite.generations import mark_all_pending
from plait.stores.sqlite.journal import mark_changed
from plait.stores.sqlite.keyword import KEYWORD_SHADOWS, KEYWORD_TABLES
from plait.stores.sqlite.mending import CHECKED_TABLES, DROPPED_TABLES, Row, is_sound
from plait.stores.sqlite.rowcheck import columns_of, raw_rows
from plait.stores.sqlite.state import generations
from plait.stores.sqlite.tags import TAG_TABLE, list_again
from plait.stores.sqlite.tallies import tally_again
from plait.stores.sqlite.write_lock import WriteLock

# SQLite makes these itself: the last number of each table, and what helps it to plan.
_SEQUENCE = "sqlite_sequence"
_STATISTICS = ("sqlite_stat1", "sqlite_stat4")
_VECTORS = "vector_blocks"
_VERSIONS = "block_versions"
_SIGNS = frozenset({"vector_signs", "vector_rows"})  # made by the next tidying, as one
_KEYWORDS = frozenset({*KEYWORD_TABLES, "frequent_terms"})
_REMADE_TABLES = frozenset(
    {*KEYWORD_SHADOWS, *DROPPED_TABLES, *_STATISTICS, _SEQUENCE, _VECTORS, *_SIGNS}
    | {"frequent_terms", "tallies", "unembedded", _VERSIONS, TAG_TABLE}
)
_SCHEMA = "SELECT name, type, tbl_name, sql FROM sqlite_schema WHERE rootpage > 0 OR name IN "
_SCHEMA += f"({', '.join(map(repr, KEYWORD_TABLES))})"
_FORGET = "DELETE FROM sqlite_schema WHERE name = ?1 OR (tbl_name = ?1 AND type = 'index')"
# The tree of one gets the name of another.
_BORROW = (
    "UPDATE sqlite_schema SET rootpage = "
    "(SELECT rootpage FROM sqlite_schema WHERE name = ?) WHERE name = ?"
)
_MADE = "made_again"
_NUMBERED = ("documents", "passages", "generations", "relations")


def can_remake(connection: apsw.Connection, damaged: frozenset[str]) -> bool:
    """Tell whether damaged tables and indexes can all be made from what is whole."""
    kinds = {str(name): str(kind) for name, kind, *_ in rows(connection, _SCHEMA)}
    return bool(damaged) and all(
        name in _REMADE_TABLES or kinds.get(name) == "index" for name in damaged
    )


def remake(connections: Connections, damaged: frozenset[str]) -> None:
    """Make damaged tables and indexes again; `can_remake` must allow it.

    Raises:
        apsw.CorruptError: Something else is damaged too. Nothing was changed.
    """
    if damaged & _KEYWORDS:
        damaged |= _KEYWORDS
    if damaged & {_VECTORS, *_SIGNS}:
        damaged |= _SIGNS
    try:
        _refuse_mixed_up(_swapped(connections, damaged))
        with WriteLock(connections) as connection:
            carved = carved_rows(connections.path)
            kept_apart = {table: carved.pop(table) for table in DROPPED_TABLES if table in damaged}
            _refuse_mixed_up(lost_rows(carved, connection))
            kept = _digests(connection, damaged)
            _replace(connection, damaged)
            if _digests(connection, damaged) != kept:
                raise apsw.CorruptError("rows would be lost")
            for table, listed in kept_apart.items():
                _put_back(connection, table, listed)
            _fill(connection, damaged)
            left = integrity.damage_left(connection)
            if left is not None:
                raise apsw.CorruptError(left)
            mark_changed(connection)
    finally:
        # After a rollback too: the connection must not keep a schema that was never written.
        connections.get().execute("PRAGMA writable_schema = RESET").fetchall()


def _refuse_mixed_up(table: str | None) -> None:
    if table is not None:
        raise apsw.CorruptError(f"rows of {table} and of others are mixed up")


def _swapped(connections: Connections, damaged: frozenset[str]) -> str | None:
    """Return a table whose rows lie whole where another damaged tree begins.

    Rows of nothing but numbers cannot be told by their looks, as `lost_rows` does.
    """
    for table in damaged & {*DROPPED_TABLES}:
        for other in damaged - {table}:
            connection = connections.get()
            connection.execute("BEGIN IMMEDIATE")  # a trial that is never committed
            try:
                _edit_schema(connection, [(_BORROW, (other, table))])
                listed = list(raw_rows(connection, table, columns_of(connection, table)))
                if listed and all(is_sound(table, row) for row in listed):
                    return table
            except (apsw.CorruptError, apsw.SQLError):
                continue
            finally:
                connection.execute("ROLLBACK")
                connection.execute("PRAGMA writable_schema = RESET").fetchall()
    return None


def _digests(connection: apsw.Connection, damaged: frozenset[str]) -> dict[str, str]:
    """Return a digest of every row of the tables that stay."""
    digests = {}
    for table in sorted({*CHECKED_TABLES, _VECTORS} - {*damaged, _SEQUENCE}):
        digest = hashlib.sha256()
        for row in raw_rows(connection, table, columns_of(connection, table)):
            digest.update(repr(row).encode())
        digests[table] = digest.hexdigest()
    return digests


def _replace(connection: apsw.Connection, damaged: frozenset[str]) -> None:
    """Forget damaged trees, and put new ones in their place; tables begin empty."""
    own = objects.own_objects()
    listed = [(str(name), str(table), sql) for name, _, table, sql in rows(connection, _SCHEMA)]
    forgotten = {
        name: sql
        for name, table, sql in listed
        if (name in damaged or table in damaged) and table != _SEQUENCE
    }
    # SQLite looks for the index of a UNIQUE constraint as long as there is the table.
    unique = [
        (name, table)
        for name, table, sql in listed
        if name in damaged and sql is None and table not in damaged
    ]
    for name, _ in unique:
        del forgotten[name]
    _edit_schema(connection, [(_FORGET, (name,)) for name in forgotten])
    # Tables before their indexes.
    made = [own[name] for name in own if name in forgotten]
    for _, sql in sorted(made, key=lambda kind_and_sql: kind_and_sql[0] != "table"):
        if "passages_fts" not in sql:  # FTS5 makes its own
            connection.execute(sql)
    for name, table in unique:
        columns = _columns(connection, name)
        connection.execute(f"CREATE UNIQUE INDEX {_MADE} ON {table} ({columns})")
        _edit_schema(connection, [(_BORROW, (_MADE, name)), (_FORGET, (_MADE,))])
    if _SEQUENCE in damaged:
        _number_again(connection)


def _put_back(connection: apsw.Connection, table: str, carved: dict[object, Row]) -> None:
    """Write the rows that whole pages of a damaged table still have."""
    columns = columns_of(connection, table)
    marks = ", ".join("?" * len(columns))
    sql = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
    for row in carved.values():
        if is_sound(table, row):
            with suppress(apsw.ConstraintError):  # its passage is gone
                connection.execute(sql, [row[name] for name in columns])


def _columns(connection: apsw.Connection, index: str) -> str:
    names = rows(connection, "SELECT name FROM pragma_index_info(?) ORDER BY seqno", (index,))
    return ", ".join(str(name) for (name,) in names)


def _number_again(connection: apsw.Connection) -> None:
    """Make SQLite's table of the last number of each table from the numbers in use."""
    connection.execute(f"CREATE TABLE {_MADE} (name, seq)")
    for table in _NUMBERED:
        key = "id" if table == "generations" else "rowid"
        connection.execute(
            f"INSERT INTO {_MADE} SELECT '{table}', max({key}) FROM {table} "  # noqa: S608
            f"HAVING max({key}) IS NOT NULL"
        )
    _edit_schema(connection, [(_BORROW, (_MADE, _SEQUENCE)), (_FORGET, (_MADE,))])


def _edit_schema(connection: apsw.Connection, edits: list[tuple[str, tuple[str, ...]]]) -> None:
    """Change the schema's own table, and make every connection read it again."""
    version = int(connection.execute("PRAGMA schema_version").get)
    connection.execute("PRAGMA writable_schema = ON").fetchall()
    for sql, names in edits:
        connection.execute(sql, names)
    connection.execute(f"PRAGMA schema_version = {version + 1}").fetchall()
    connection.execute("PRAGMA writable_schema = RESET").fetchall()


def _fill(connection: apsw.Connection, damaged: frozenset[str]) -> None:
    """Fill what is made from rows that are whole; vectors are made by the next reindex."""
    if damaged & _KEYWORDS:
        rebuilding.rebuild(connection)
    if "tallies" in damaged:
        tally_again(connection)
    if TAG_TABLE in damaged:
        list_again(connection)
    if _VECTORS in damaged:
        connection.execute("DELETE FROM unembedded")
        for generation in generations(connection):
            mark_all_pending(connection, generation.id)
    if _VERSIONS in damaged:
        connection.execute(ALL_CHANGED)
