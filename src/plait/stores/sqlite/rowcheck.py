"""Read every row of every table, report those that plait cannot read, and mend them."""

from collections.abc import Iterator
from typing import Any

import apsw

from plait.stores.sqlite import rebuilding
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.documents import LAST_ORDINAL, passage_hash
from plait.stores.sqlite.mending import CHECKED_TABLES, Row, as_text, is_sound, mended
from plait.stores.sqlite.vectors import BLOCK_ROWS, LAST_BLOCK
from plait.types.records import NamedTuple

# The key of each table, which is how a row is named and written.
_KEYS = {
    "signals": ("passage",),
    "signal_pairs": ("one", "other"),
    "meta": ("name",),
    "histories": ("name",),
    "steps": ("document", "place"),
    "generations": ("id",),
    "embedding_cache": ("text_hash",),
    "frequent_terms": ("term",),
    "unembedded": ("generation", "passage"),
    "block_versions": ("generation", "block"),
    "trash": ("id",),
    "tallies": ("part", "name"),
}
_BLOCKS = (
    "SELECT b.rowid FROM vector_blocks AS b LEFT JOIN generations AS g ON g.id = b.generation "
    "WHERE g.id IS NULL OR typeof(b.block) <> 'integer' OR b.block NOT BETWEEN 0 AND ? "
    "OR typeof(b.data) <> 'blob' OR length(b.data) <> ? * g.dims"
)
_MARKS = "SELECT rowid, id, heading, text, hash FROM passages"
_PLACE_BEHIND = (
    "SELECT coalesce(max(ordinal), -1) + 1, coalesce(max(start + length(text)), 0) FROM passages "
    "WHERE document = ?1 AND rowid <> ?2 "
    "AND typeof(ordinal) = 'integer' AND ordinal >= 0 AND ordinal < ?3 "
    "AND typeof(start) = 'integer' AND start >= 0 AND start < ?3"
)
_REREAD = (
    "UPDATE documents SET size = NULL, mtime = NULL, sha256 = NULL "
    "WHERE kind = 'file' AND rowid = (SELECT document FROM passages WHERE rowid = ?)"
)
_RECOUNT = (
    "UPDATE documents SET chunk_count = "
    "(SELECT count(*) FROM passages AS p WHERE p.document = documents.rowid)"
)


class Unreadable(NamedTuple):
    """A row that plait cannot read: its table, its name for people, and its values."""

    table: str
    name: str
    row: Row


class AlteredText(NamedTuple):
    """A passage whose text is not the one that was stored."""

    rowid: int
    name: str
    mark: bytes


def key_of(table: str) -> tuple[str, ...]:
    """Return the columns that name a row of a table."""
    return _KEYS.get(table, ("rowid",))


def unreadable_rows(connection: apsw.Connection) -> list[Unreadable]:
    """Return every row that cannot be read, of all tables except the blocks of vectors."""
    listed: list[Unreadable] = []
    for table in CHECKED_TABLES:
        columns = columns_of(connection, table)
        if not _all_sound(connection, table, columns):
            listed += _named(table, raw_rows(connection, table, columns))
    return listed


def columns_of(connection: apsw.Connection, table: str) -> list[str]:
    """Return the columns of a table; ``rowid`` is the first where SQLite adds it."""
    names = [
        str(name)
        for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    ]
    return names if table in _KEYS or "rowid" in names else ["rowid", *names]


def _all_sound(connection: apsw.Connection, table: str, columns: list[str]) -> bool:
    sql = f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608
    try:
        return all(
            is_sound(table, dict(zip(columns, row, strict=True))) for row in connection.execute(sql)
        )
    except UnicodeDecodeError:
        return False


def raw_rows(connection: apsw.Connection, table: str, columns: list[str]) -> Iterator[Row]:
    """Yield all rows, with every text that is not UTF-8 as bytes."""
    raw = ", ".join(f"typeof({name}), CAST({name} AS BLOB)" for name in columns)
    # subtle: a text that is not UTF-8 cannot be fetched as text.
    plain = ", ".join(f"iif(typeof({name}) = 'text', NULL, {name})" for name in columns)
    sql = f"SELECT {raw}, {plain} FROM {table}"  # noqa: S608
    width = len(columns)
    for values in connection.execute(sql):
        types, texts, others = values[: 2 * width : 2], values[1 : 2 * width : 2], values[-width:]
        yield {
            name: _text(data) if kind == "text" else other
            for name, kind, data, other in zip(columns, types, texts, others, strict=True)
        }


def _text(data: bytes | None) -> str | bytes:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError:
        return data or b""


def _named(table: str, listed: Iterator[Row]) -> Iterator[Unreadable]:
    for row in listed:
        if not is_sound(table, row):
            key = row.get("id") if table in ("documents", "passages") else None
            names = [key] if key else [row[name] for name in key_of(table)]
            yield Unreadable(table, " ".join(as_text(name) or "?" for name in names), row)


def mend(connection: apsw.Connection, listed: list[Unreadable]) -> tuple[int, int]:
    """Mend rows, or drop what cannot be; return how many were mended and dropped.

    Call it inside a write transaction.
    """
    kept = dropped = 0
    for table, _, row in listed:
        fixed = mended(table, row)
        if fixed is None and table == "passages":
            raise apsw.CorruptError("a passage has neither a text nor a document")
        if fixed is None:
            _drop(connection, table, row)
            dropped += 1
        else:
            _update(connection, table, row, fixed)
            kept += 1
    if any(row.table == "meta" for row in listed):
        rebuilding.recount(connection)
    return kept, dropped


def _drop(connection: apsw.Connection, table: str, row: Row) -> None:
    where, values = _match(table, row)
    connection.execute(f"DELETE FROM {table} WHERE {where}", values)  # noqa: S608
    if not connection.changes():
        raise apsw.CorruptError(f"a row of {table} is not its own")


def _update(connection: apsw.Connection, table: str, row: Row, fixed: Row) -> None:
    if table == "passages":
        complete_passage(connection, fixed)
    changed = [name for name in fixed if name != "rowid" and _differs(row.get(name), fixed[name])]
    if not changed:
        return
    where, values = _match(table, row)
    settings = ", ".join(f"{name} = ?" for name in changed)
    sql = f"UPDATE {table} SET {settings} WHERE {where}"  # noqa: S608
    connection.execute(sql, ([*(fixed[name] for name in changed), *values]))


def _differs(old: Any, new: Any) -> bool:
    return type(old) is not type(new) or old != new


def complete_passage(connection: apsw.Connection, passage: Row) -> None:
    """Give a passage that lost its place one behind the others, and its hash."""
    if passage["ordinal"] is None:
        values = (passage["document"], passage["rowid"], LAST_ORDINAL)
        [(passage["ordinal"], passage["start"])] = rows(connection, _PLACE_BEHIND, values)
    passage["hash"] = passage_hash(passage["heading"], passage["text"])


def recount(connection: apsw.Connection) -> None:
    """Correct how many passages each document says it has."""
    connection.execute(_RECOUNT)


def _match(table: str, row: Row) -> tuple[str, list[Any]]:
    """Return a condition for one row; a key that is not UTF-8 is compared as bytes."""
    conditions, values = [], []
    for name in key_of(table):
        value = row[name]
        raw = isinstance(value, bytes)
        conditions.append(f"CAST({name} AS BLOB) = ?" if raw else f"{name} IS ?")
        values.append(value)
    return " AND ".join(conditions), values


# -- blocks of vectors, and texts ----------------------------------------------------------


def broken_blocks(connection: apsw.Connection) -> list[int]:
    """Return the rows of blocks that have a wrong size or belong to no vectors."""
    return [rowid for (rowid,) in rows(connection, _BLOCKS, (LAST_BLOCK, BLOCK_ROWS))]


def drop_blocks(connection: apsw.Connection, rowids: list[int]) -> None:
    """Drop blocks; their passages then wait for vectors."""
    connection.executemany(
        "DELETE FROM vector_blocks WHERE rowid = ?", [(rowid,) for rowid in rowids]
    )


def changed_texts(connection: apsw.Connection) -> list[AlteredText]:
    """Return the passages whose text differs from its hash; call it when every row is readable."""
    return [
        AlteredText(rowid, id_, mark)
        for rowid, id_, heading, text, stored in connection.execute(_MARKS)
        if (mark := passage_hash(heading, text)) != stored
    ]


def accept_texts(connection: apsw.Connection, listed: list[AlteredText]) -> None:
    """Take texts as they are now; the next ingest reads their files again.

    Call it inside a write transaction.
    """
    for rowid, _, mark in listed:
        connection.execute("UPDATE passages SET hash = ? WHERE rowid = ?", (mark, rowid))
        connection.execute(_REREAD, (rowid,))
