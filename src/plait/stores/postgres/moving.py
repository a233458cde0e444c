"""The rows of a memory in a database, to move it from there or into it."""

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, cast

from plait.stores.moving import (
    DOCUMENTS,
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
    check_claim,
    refuse_half_moved,
    refuse_unclaimed,
)
from plait.stores.postgres import distributing, moving_people, tidying, vectors
from plait.stores.postgres.address import parse
from plait.stores.postgres.audit import Recorder
from plait.stores.postgres.commits import Write
from plait.stores.postgres.connection import Channel, Connections, Escaped, escaped
from plait.stores.postgres.hnsw import Indexes
from plait.stores.postgres.labels import TEAM_LABEL, refuse_member
from plait.stores.postgres.memories import drop_rows
from plait.stores.postgres.schema import prepare
from plait.stores.postgres.state import get_fact, set_fact
from plait.stores.postgres.trash import bare_record
from plait.stores.postgres.writer import DocumentWriter
from plait.stores.sqlite.state import MOVING, UNSCRUBBED
from plait.stores.sqlite.trash import trashed_from

# What facts say about the database itself.
_OF_THE_DATABASE = (UNSCRUBBED, MOVING)
_ALL_FACTS = f"name NOT IN ({', '.join(repr(name) for name in _OF_THE_DATABASE)})"
# Not what facts say about the database itself, and not what members keep for themselves.
_SOME = {FACT_TABLE.name: f"AND {_ALL_FACTS}"} | dict.fromkeys(
    ("histories", "embedding_cache"), f"AND label = {TEAM_LABEL}"
)
_SQL_TYPES = {"i": "bigint", "r": "double precision", "t": "text", "b": "bytea"}
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_RANKED = (
    "(SELECT {columns}, row_number() OVER (ORDER BY number) AS rank FROM plait.{name} "
    "WHERE ns = %(ns)s) AS r"
)
_WRITE_TAGS = (
    "INSERT INTO plait.tags (ns, tag, document) SELECT DISTINCT %(ns)s::bigint, v.tag, v.document "
    "FROM unnest(%(tags)s::text[], %(documents)s::bigint[]) AS v (tag, document) "
    "ON CONFLICT DO NOTHING"
)
_DROP_TAGS = "DELETE FROM plait.tags WHERE ns = %(ns)s AND document = ANY(%(places)s)"
_COUNTERS = (
    "SELECT n.counter, n.refs, (SELECT coalesce(max(g.id), 0) FROM plait.generations AS g "
    "WHERE g.ns = %(ns)s) FROM plait.namespaces AS n WHERE n.ns = %(ns)s"
)
_SET_COUNTER = (
    "UPDATE plait.namespaces SET counter = greatest(counter, %(counter)s), "
    "refs = greatest(refs, %(refs)s), audited = greatest(audited, %(audited)s) "
    "WHERE ns = %(ns)s"
)
# Whatever gets its number from a counter.
_NUMBERED = {
    "documents": "place",
    "passages": "ref",
    "relations": "number",
    "trashed_relations": "number",
    "audit": "number",
}
_JSON = tuple(map(DOCUMENTS.columns.index, ("tags", "metadata")))
_TAGS_AT = DOCUMENTS.columns.index("tags")
_NUL = "\\u0000"


class _Rows:
    """Reads and writes rows on one connection, inside a caller's transaction."""

    def __init__(self, session: Channel, *, has_vectors: bool) -> None:
        self.session = session
        self._has_vectors = has_vectors

    # -- reading ---------------------------------------------------------------------------

    def count(self, table: Table) -> int:
        """Return how many rows there are."""
        if self._lacks(table):
            return 0
        name = "embeddings" if table.name == VECTOR_TABLE.name else table.name
        sql = f"SELECT count(*) FROM plait.{name} WHERE ns = %(ns)s {_SOME.get(table.name, '')}"  # noqa: S608
        return int(self.session.value(sql))

    def page(self, table: Table, after: Key | None) -> list[Row]:
        """Return the next rows by their keys, or the first ones; none at the end."""
        if self._lacks(table):
            return []
        keys = _columns(table)[: table.keys]
        condition, values = "", dict[str, Any]()
        if after is not None:
            ends = ", ".join(f"%(k{place})s" for place in range(table.keys))
            condition = f"AND ({', '.join(keys)}) > ({ends})"
            values = _keyed(after)
        sql = f"{_selected(table)} {condition} ORDER BY {', '.join(keys)} LIMIT {table.batch}"
        return [_neutral(table, row) for row in self.session.rows(sql, values)]

    def rows(self, table: Table, keys: Sequence[Key]) -> list[Row]:
        """Return those rows with these keys that there are."""
        if self._lacks(table):
            return []
        sql = f"{_selected(table)} AND {_among(table, _columns(table))}"
        return [_neutral(table, row) for row in self.session.rows(sql, _listed(table, keys))]

    def counters(self) -> Counters:
        """Return the largest numbers that were given to rows."""
        [(counter, refs, generation)] = self.session.rows(_COUNTERS)
        return Counters(counter, refs, counter, generation)

    def people(self) -> People:
        """Return the members, and who sees what."""
        return moving_people.read(self.session)

    def _lacks(self, table: Table) -> bool:
        return table.name == VECTOR_TABLE.name and not self._has_vectors

    # -- writing ---------------------------------------------------------------------------

    def insert(self, table: Table, rows: Sequence[Row]) -> None:
        """Add rows that are not there."""
        if table.name == VECTOR_TABLE.name:
            for number, group in groupby(rows, key=lambda row: row[0]):
                vectors.write(self.session, number, {ref: data for _, ref, data in group})
        elif table.name == PASSAGES.name:
            self._writer().add([(*row, TEAM_LABEL) for row in rows])
        else:
            self._insert(table, [dict(zip(table.columns, row, strict=True)) for row in rows])
        if table.name == DOCUMENTS.name:
            self._tag(rows)

    def _insert(self, table: Table, values: Sequence[dict[str, Any]]) -> None:
        if table.name == DOCUMENTS.name:
            names = [table.columns[place] for place in _JSON]
            values = [{**row, **{name: _as_kept(row[name]) for name in names}} for row in values]
        elif table.name == TRASH.name:
            values = [{**row, **_beside(row)} for row in values]
        columns = list(values[0])
        kinds = dict(zip(table.columns, table.kinds, strict=True))
        lists = [f"%({name})s::{_SQL_TYPES[kinds.get(name, 't').lower()]}[]" for name in columns]
        sql = (
            f"INSERT INTO plait.{table.name} (ns, {', '.join(columns)}) "  # noqa: S608
            f"SELECT %(ns)s, {', '.join(f'v.{name}' for name in columns)} "
            f"FROM unnest({', '.join(lists)}) AS v ({', '.join(columns)})"
        )
        self.session.execute(sql, {name: [row[name] for row in values] for name in columns})

    def _tag(self, rows: Sequence[Row]) -> None:
        pairs = [(tag, row[0]) for row in rows for tag in json.loads(row[_TAGS_AT])]
        if pairs:
            tags, places = zip(*pairs, strict=True)
            self.session.execute(_WRITE_TAGS, tags=list(tags), documents=list(places))

    def _writer(self) -> DocumentWriter:
        session = cast("Write", self.session)  # rows are changed only inside of one
        recorder = Recorder(session)  # nothing is recorded here
        return DocumentWriter(session, recorder, (), has_vectors=self._has_vectors)

    def delete(self, table: Table, keys: Sequence[Key]) -> None:
        """Delete rows."""
        if self._lacks(table):
            return
        numbers = [key[0] for key in keys]
        if table.name == PASSAGES.name:
            self._writer().remove(numbers)
            return
        if table.name == DOCUMENTS.name:
            self.session.execute(_DROP_TAGS, places=numbers)
        name = "embeddings" if table.name == VECTOR_TABLE.name else table.name
        sql = f"DELETE FROM plait.{name} WHERE ns = %(ns)s AND {_among(table, table.columns)}"  # noqa: S608
        self.session.execute(sql, _listed(table, keys))

    def clear(self, table: Table) -> None:
        """Delete all rows of a table."""
        self.session.execute(f"DELETE FROM plait.{table.name} WHERE ns = %(ns)s")  # noqa: S608


class PostgresRows:
    """A memory in a database, as rows; safe to kill at any moment."""

    def __init__(self, address: str, *, create: bool, timeout: float) -> None:
        place = parse(address)
        self.path = place.shown
        self._is_source = not create
        self._connections = Connections(place, timeout=timeout, durability="full")
        try:
            self.has_vectors = prepare(
                self._connections, place.namespace, create=create, read_only=not create
            )
            refuse_member(self._connections.membership, "move a memory")
            with self._connections.lent() as session:
                self.keeps_members = not distributing.is_spread(session.connection)
        except BaseException:
            self._connections.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[_Rows]:
        """Begin to read, in one snapshot."""
        with self._connections.lent() as session:
            session.execute(_SNAPSHOT)
            mark = get_fact(session, MOVING)
            if mark is not None and self._is_source:
                refuse_half_moved(mark)
            yield self._rows(session)
            # After a failure, or Ctrl-C, the connection is closed, which does the same.
            session.execute("ROLLBACK")

    def _rows(self, session: Channel) -> _Rows:
        return _Rows(session, has_vectors=self.has_vectors)

    @contextmanager
    def writing(self) -> Iterator[_Rows]:
        """Begin a transaction of a move; refuse a memory that is not being moved into."""
        with self._connections.writing() as session:
            if get_fact(session, MOVING) is None:
                refuse_unclaimed(self.path)
            yield self._rows(session)

    def claim(self, mark: str) -> None:
        """Mark a memory as being moved into; refuse one that is not empty, or another move's."""
        with self._connections.writing() as session:
            rows = self._rows(session)
            empty = not any(rows.count(table) for table in TABLES if table.name in OWN_ROWS)
            empty = empty and not session.value(moving_people.ANY_MEMBER)
            check_claim(get_fact(session, MOVING), mark, self.path, empty=empty)
            set_fact(session, MOVING, mark)
            # They come last: until then, nobody may see that rows are not hidden yet.
            session.execute(moving_people.DROP_MEMBERS)

    def admit(self, people: People) -> None:
        """Hide what was hidden, then let the members in; a place without members ignores them."""
        if not self.keeps_members or people == NO_PEOPLE:
            return
        with self.writing() as writer:
            moving_people.write(writer.session, people, has_vectors=self.has_vectors)
        if people.members:
            moving_people.let_in(self._connections)

    def finish(self, counters: Counters) -> None:
        """Make what only this engine has."""
        with self.writing() as writer:
            session = writer.session
            largest_of = "SELECT coalesce(max({}), 0) FROM plait.{} WHERE ns = %(ns)s"
            numbers = {
                table: int(session.value(largest_of.format(name, table)))
                for table, name in _NUMBERED.items()
            }
            refs = max(counters.passages, numbers.pop("passages"))
            largest = max(counters.documents, counters.relations, *numbers.values())
            audited = numbers["audit"]
            session.execute(_SET_COUNTER, counter=largest, refs=refs, audited=audited)
        indexes = Indexes() if self.has_vectors else None
        tidying.tidy(self._connections, compact=False, purged=False, indexes=indexes)

    def release(self) -> None:
        """Take the mark away: the memory can be used."""
        with self.writing() as writer:
            set_fact(writer.session, MOVING, None)

    def drop(self) -> None:
        """Remove a memory that is being moved into, with all that was copied."""
        with self.writing() as writer:
            # They come last, so this memory was never being moved into.
            if writer.session.value(moving_people.ANY_MEMBER):
                refuse_unclaimed(self.path)
            drop_rows(writer.session, has_vectors=self.has_vectors)
        if self.has_vectors:
            with self._connections.lent() as session:
                Indexes().tidy(session)
        self.close()

    def close(self) -> None:
        """Release every connection."""
        self._connections.close()


# -- SQL and values ------------------------------------------------------------------------


def _columns(table: Table) -> tuple[str, ...]:
    return ("rank", *table.columns[1:]) if table.ranked else table.columns


def _selected(table: Table) -> str:
    """Return how rows are read, up to a condition that holds for all of them."""
    names = ", ".join(_columns(table))
    if table.ranked:
        columns = ", ".join(table.columns[1:])
        source = _RANKED.format(columns=columns, name=table.name)
        return f"SELECT {names} FROM {source} WHERE true"  # noqa: S608
    if table.name == VECTOR_TABLE.name:
        return "SELECT generation, ref, embedding::text FROM plait.embeddings WHERE ns = %(ns)s"
    condition = _SOME.get(table.name, "")
    return f"SELECT {names} FROM plait.{table.name} WHERE ns = %(ns)s {condition}"  # noqa: S608


def _among(table: Table, names: Sequence[str]) -> str:
    """Return the condition that a row has one of the keys of `_listed`."""
    types = [_SQL_TYPES[kind.lower()] for kind in table.kinds[: table.keys]]
    lists = ", ".join(f"%(k{place})s::{kind}[]" for place, kind in enumerate(types))
    return f"({', '.join(names[: table.keys])}) IN (SELECT * FROM unnest({lists}))"  # noqa: S608


def _listed(table: Table, keys: Sequence[Key]) -> dict[str, Any]:
    return {f"k{place}": [key[place] for key in keys] for place in range(table.keys)}


def _keyed(key: Key) -> dict[str, Any]:
    return {f"k{place}": value for place, value in enumerate(key)}


def _neutral(table: Table, row: Row) -> Row:
    """Return a row as every engine gives it."""
    if table.name == VECTOR_TABLE.name:
        return (*row[:2], array("b", map(int, row[2][1:-1].split(","))).tobytes())
    if table.name == DOCUMENTS.name and any("\0" in row[place] for place in _JSON):
        values = list(row)
        for place in _JSON:
            if "\0" in values[place]:
                values[place] = json.dumps(
                    json.loads(values[place], strict=False), ensure_ascii=False
                )
        return tuple(values)
    return row


def _as_kept(text: str) -> str:
    """Return a list or dict of texts as `plait.stores.postgres.documents.row_of` writes it."""
    if _NUL not in text:
        return Escaped(escaped(text))
    values = json.loads(text)
    if isinstance(values, dict):
        values = {escaped(name): escaped(value) for name, value in values.items()}
    else:
        values = [escaped(value) for value in values]
    return Escaped(json.dumps(values, ensure_ascii=False))


def _beside(row: Mapping[str, Any]) -> dict[str, str]:
    """Return what this engine keeps of a deleted document beside it."""
    deleted = trashed_from((row["batch"], row["deleted_at"], row["document"]))
    bare = bare_record(json.loads(row["document"]), deleted)
    return {"bare": json.dumps(bare, ensure_ascii=False), "trust": deleted.document.trust}
