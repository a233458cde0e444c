"""The rows of a file, to move a memory from or to it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import groupby
from typing import Any

import apsw

from plait.stores.moving import (
    FACT_TABLE,
    NO_PEOPLE,
    OWN_ROWS,
    PASSAGES,
    TABLES,
    TRASH,
    VECTOR_TABLE,
    Counters,
    Key,
    People,
    Row,
    Table,
    TornSnapshot,
    check_claim,
    refuse_half_moved,
    refuse_odd_values,
    refuse_unclaimed,
)
from plait.stores.sqlite import blocks, vectors
from plait.stores.sqlite.connection import Connections, Guard, rows
from plait.stores.sqlite.foreign import refuse_altered_tables
from plait.stores.sqlite.journal import LINEAGE
from plait.stores.sqlite.keyword import COUNTED
from plait.stores.sqlite.reading import ReadingConnections
from plait.stores.sqlite.scrubbing import SCRUBBED_UNTIL
from plait.stores.sqlite.state import (
    MOVING,
    STALE_TERMS,
    UNSCRUBBED,
    Generation,
    forget_meta,
    generations,
    get_meta,
    set_meta,
)
from plait.stores.sqlite.store import SQLiteStore
from plait.stores.sqlite.tags import list_again
from plait.stores.sqlite.tallies import tally_again
from plait.stores.sqlite.trash import trashed_from
from plait.stores.sqlite.write_lock import WriteLock
from plait.text.columns import split_columns

# What ``meta`` says about the file itself.
_OF_THE_FILE = (
    *(COUNTED, "counted_passages", LINEAGE),
    *(UNSCRUBBED, SCRUBBED_UNTIL, STALE_TERMS, MOVING),
)
_OTHER_TABLES = {"facts": "meta"}
_ROWID = "rowid"
_OTHER_COLUMNS = {
    "documents": {"place": _ROWID},
    "passages": {"ref": _ROWID},
    "relations": {"number": _ROWID},
    "trashed_relations": {"number": _ROWID},
    "audit": {"number": _ROWID},
    "unembedded": {"ref": "passage"},
    "signals": {"ref": "passage"},
}
_RANKED = "(SELECT *, row_number() OVER (ORDER BY rowid) AS rank FROM {})"
# Passages that one statement inserts: at the end of each, FTS5 writes out its part of the index.
_AT_ONCE = 100
_BLOCKS_FROM = "SELECT block FROM vector_blocks WHERE generation = ? AND block >= ? ORDER BY block"
_BLOCK = "SELECT data FROM vector_blocks WHERE generation = ? AND block = ?"
_SEQUENCES = ("documents", "passages", "relations", "generations")
_SEQUENCE = "SELECT seq FROM sqlite_sequence WHERE name = ?"
_DROP_SEQUENCE = "DELETE FROM sqlite_sequence WHERE name = ?"
_SET_SEQUENCE = "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)"


class _Rows:
    """Reads and writes rows on one connection, inside a caller's transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    # -- reading ---------------------------------------------------------------------------

    def count(self, table: Table) -> int:
        """Return how many rows there are."""
        if table.name == VECTOR_TABLE.name:
            listed = (
                blocks.occupied(self.connection, row.id, row.dims) for row in self._generations()
            )
            return sum(len(refs) for pages in listed for refs in pages)
        source, condition = _source(table), _condition(table)
        return int(self.connection.execute(f"SELECT count(*) FROM {source} WHERE {condition}").get)  # noqa: S608

    def page(self, table: Table, after: Key | None) -> list[Row]:
        """Return the next rows by their keys, or the first ones; none at the end."""
        self._check()
        if table.name == VECTOR_TABLE.name:
            return self._vectors_after(after or (0, -1), table.batch)
        names = _columns(table)
        keys = ", ".join(names[: table.keys])
        condition, values = _condition(table), list[Any]()
        if after is not None:
            condition += f" AND ({keys}) > ({', '.join('?' * table.keys)})"
            values += after
        sql = (
            f"SELECT {', '.join(names)} FROM {_source(table)} WHERE {condition} "  # noqa: S608
            f"ORDER BY {keys} LIMIT ?"
        )
        return self._sound(table, rows(self.connection, sql, (*values, table.batch)))

    def rows(self, table: Table, keys: Sequence[Key]) -> list[Row]:
        """Return those rows with these keys that there are."""
        self._check()
        if table.name == VECTOR_TABLE.name:
            return self._vectors(keys)
        names = _columns(table)
        sql = f"SELECT {', '.join(names)} FROM {_source(table)} WHERE {_condition(table)} AND "  # noqa: S608
        if table.ranked:
            # To rank the rows takes reading all: once for all keys.
            wanted, ends = set(keys), (min(keys, default=(0,))[0], max(keys, default=(0,))[0])
            between = rows(self.connection, f"{sql}rank BETWEEN ? AND ?", ends)
            listed = [row for row in between if table.key(row) in wanted]
        else:
            sql += " AND ".join(f"{name} = ?" for name in names[: table.keys])
            listed = [row for key in keys for row in rows(self.connection, sql, key)]
        return self._sound(table, listed)

    def counters(self) -> Counters:
        """Return the largest numbers that were given to rows."""
        return Counters(
            *(self.connection.execute(_SEQUENCE, (name,)).get or 0 for name in _SEQUENCES)
        )

    def people(self) -> People:
        """Return the members, which a file does not have."""
        return NO_PEOPLE

    def _check(self) -> None:
        """Notice what a snapshot cannot survive."""

    @staticmethod
    def _sound(table: Table, listed: list[Row]) -> list[Row]:
        try:
            refuse_odd_values(table, listed)
        except ValueError as error:
            raise apsw.CorruptError(str(error)) from None
        if table.name == TRASH.name:
            for _, deleted_at, batch, document, *_ in listed:
                trashed_from((batch, deleted_at, document))
        return listed

    def _generations(self) -> list[Generation]:
        return sorted(generations(self.connection), key=lambda row: row.id)

    def _vectors_after(self, after: Key, limit: int) -> list[Row]:
        listed: list[Row] = []
        for generation in self._generations():
            if generation.id < after[0]:
                continue
            first = after[1] + 1 if generation.id == after[0] else 0
            numbers = rows(
                self.connection, _BLOCKS_FROM, (generation.id, first // vectors.BLOCK_ROWS)
            )
            for (block,) in numbers:
                listed += [row for row in self._in_block(generation, block) if row[1] >= first]
                if len(listed) >= limit:
                    return listed[:limit]
        return listed

    def _in_block(self, generation: Generation, block: int) -> list[Row]:
        dims = generation.dims
        data = self.connection.execute(_BLOCK, (generation.id, block)).get
        vectors.check_block(block, len(data) if isinstance(data, bytes) else 0, dims)
        cut = (data[start : start + dims] for start in range(0, len(data), dims))
        first = block * vectors.BLOCK_ROWS
        # A row of zeros means that the passage has none.
        return [(generation.id, first + slot, row) for slot, row in enumerate(cut) if any(row)]

    def _vectors(self, keys: Sequence[Key]) -> list[Row]:
        wanted = set(keys)
        known = {row.id: row for row in self._generations()}
        places = sorted({(number, ref // vectors.BLOCK_ROWS) for number, ref in wanted})
        listed: list[Row] = []
        for number, block in places:
            values = (number, block)
            sql = "SELECT 1 FROM vector_blocks WHERE generation = ? AND block = ?"
            if number in known and self.connection.execute(sql, values).get:
                listed += self._in_block(known[number], block)
        return [row for row in listed if row[:2] in wanted]

    # -- writing ---------------------------------------------------------------------------

    def insert(self, table: Table, listed: Sequence[Row]) -> None:
        """Add rows that are not there."""
        if table.name == VECTOR_TABLE.name:
            self._write_vectors({row[:2]: row[2] for row in listed})
        elif table.name == PASSAGES.name:
            self._insert_passages(listed)
        else:
            names = _columns(table, written=True)
            marks = ", ".join("?" * len(names))
            sql = f"INSERT INTO {_name(table)} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608
            self.connection.executemany(sql, listed)

    def _insert_passages(self, listed: Sequence[Row]) -> None:
        names = (*_columns(PASSAGES), "heading_terms", "text_terms")
        heading, text = PASSAGES.columns.index("heading"), PASSAGES.columns.index("text")
        one = f"({', '.join('?' * len(names))})"
        for start in range(0, len(listed), _AT_ONCE):
            some = listed[start : start + _AT_ONCE]
            values = [
                value for row in some for value in (*row, *split_columns(row[heading], row[text]))
            ]
            sql = f"INSERT INTO passages ({', '.join(names)}) VALUES "  # noqa: S608
            self.connection.execute(sql + ", ".join([one] * len(some)), values)

    def _write_vectors(self, patches: dict[Key, bytes | None]) -> None:
        dims = {row.id: row.dims for row in self._generations()}
        for number, group in groupby(sorted(patches), key=lambda key: key[0]):
            if number in dims:
                own = {ref: patches[number, ref] for _, ref in group}
                blocks.write(self.connection, number, dims[number], own)

    def delete(self, table: Table, keys: Sequence[Key]) -> None:
        """Delete rows."""
        if table.name == VECTOR_TABLE.name:
            self._write_vectors(dict.fromkeys(keys))
            return
        own = " AND ".join(f"{name} = ?" for name in _columns(table, written=True)[: table.keys])
        sql = f"DELETE FROM {_name(table)} WHERE {own}"  # noqa: S608
        self.connection.executemany(sql, keys)

    def clear(self, table: Table) -> None:
        """Delete all rows of a table."""
        self.connection.execute(f"DELETE FROM {_name(table)} WHERE {_condition(table)}")  # noqa: S608


class _Snapshot(_Rows):
    """Rows of a file that others may be writing to."""

    def __init__(self, connection: apsw.Connection, connections: Connections) -> None:
        super().__init__(connection)
        self._connections = connections
        self._before = connections.mark()

    def _check(self) -> None:
        # Through a journal, a snapshot stays what it is. Without one, there is no snapshot.
        if self._before is not None and self._before.journal is not None:
            return
        if self._connections.mark() != self._before:
            raise TornSnapshot


class _Dropped(Exception):
    """Ends a transaction on a file that has no name any more: there is nothing to commit."""


class SQLiteRows:
    """A memory in a file, as rows; safe to kill at any moment."""

    has_vectors = True
    keeps_members = False

    def __init__(self, path: str, *, create: bool, timeout: float) -> None:
        kind = Connections if create else ReadingConnections
        self._connections = kind(os.path.abspath(path), create=create, timeout=timeout)
        self._is_source = not create
        self.path = os.path.realpath(path)

    @contextmanager
    def reading(self) -> Iterator[_Rows]:
        """Begin to read, in one snapshot."""
        with Guard(self._connections):
            connection = self._connections.get()
            with connection:
                mark = get_meta(connection, MOVING)
                if mark is not None and self._is_source:
                    refuse_half_moved(mark)
                yield _Snapshot(connection, self._connections)

    @contextmanager
    def writing(self) -> Iterator[_Rows]:
        """Begin a transaction of a move; refuse a memory that is not being moved into."""
        with Guard(self._connections), WriteLock(self._connections) as connection:
            refuse_altered_tables(connection, self.path)
            if get_meta(connection, MOVING) is None:
                refuse_unclaimed(self.path)
            yield _Rows(connection)

    def claim(self, mark: str) -> None:
        """Mark a memory as being moved into; refuse one that is not empty, or another move's."""
        with Guard(self._connections), WriteLock(self._connections) as connection:
            own = get_meta(connection, MOVING)
            empty = not any(
                _Rows(connection).count(table) for table in TABLES if table.name in OWN_ROWS
            )
            check_claim(own, mark, self.path, empty=empty)
            set_meta(connection, MOVING, mark)

    def finish(self, counters: Counters) -> None:
        """Make what only this engine has."""
        with self.writing() as writer:
            connection = writer.connection
            tally_again(connection)
            list_again(connection)
            for name, number in counters._asdict().items():
                largest = connection.execute(f"SELECT max({_KEYS[name]}) FROM {name}").get  # noqa: S608
                connection.execute(_DROP_SEQUENCE, (name,))
                connection.execute(_SET_SEQUENCE, (name, max(number, largest or 0)))
        with closing(SQLiteStore(self.path)) as store:
            store.tidy()

    def admit(self, people: People) -> None:
        """Ignore members: whoever has the file sees all of it."""

    def release(self) -> None:
        """Take the mark away: the memory can be used."""
        with self.writing() as writer:
            forget_meta(writer.connection, MOVING)

    def drop(self) -> None:
        """Remove a memory that is being moved into, with all that was copied."""
        # While it is locked: afterwards, another move may have begun to fill it.
        held = []
        with suppress(_Dropped), self.writing():
            for end in ("", "-wal", "-shm"):
                try:
                    os.unlink(self.path + end)
                except FileNotFoundError:
                    pass
                except PermissionError:  # Windows keeps files that are open
                    held.append(self.path + end)
            raise _Dropped
        self.close()
        for path in held:
            os.unlink(path)

    def close(self) -> None:
        """Release every connection."""
        with Guard(self._connections, follows=False):
            self._connections.close()


_KEYS = {**dict.fromkeys(_SEQUENCES, _ROWID), "generations": "id"}


def _name(table: Table) -> str:
    return _OTHER_TABLES.get(table.name, table.name)


def _source(table: Table) -> str:
    return _RANKED.format(table.name) if table.ranked else _name(table)


def _columns(table: Table, *, written: bool = False) -> tuple[str, ...]:
    others = _OTHER_COLUMNS.get(table.name, {})
    names = tuple(others.get(name, name) for name in table.columns)
    return names if written or not table.ranked else ("rank", *names[1:])


def _condition(table: Table) -> str:
    if table.name != FACT_TABLE.name:
        return "true"
    return f"name NOT IN ({', '.join(repr(name) for name in _OF_THE_FILE)})"
