"""Read everything that is left of a memory in a damaged file, by the form of its rows.

The trees that say which row belongs to which table may be damaged, and root pages mixed up. The
file is only read, through SQLite's own file layer: a plain ``open`` would drop its locks.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import islice

import apsw

from plait.errors import PlaitError
from plait.stores import exists
from plait.stores.sqlite import journal, scratch
from plait.stores.sqlite.connection import checkpoint, translate
from plait.stores.sqlite.histories import PREFIX
from plait.stores.sqlite.mending import DROPPED_TABLES, Row, is_sound
from plait.stores.sqlite.pages import Cell, PageReader, Value, page_sizes
from plait.stores.sqlite.rowcheck import columns_of, key_of, raw_rows
from plait.stores.sqlite.schema import MIGRATIONS
from plait.types import TRUSTS
from plait.types.ids import is_id
from plait.types.records import NamedTuple

# Tables with rowids, then those without, whose rows lie in index pages. The rest is made again.
ROWID_TABLES = (
    *("documents", "passages", "relations", "trashed_relations", "generations", "signals"),
    "audit",
)
KEYED_TABLES = ("meta", "histories", "steps", "trash", "signal_pairs", "embedding_cache")
# What a memory knows about itself and a copy of it should; the rest belongs to the one file.
META_COPIED = ("embedder", "chunker", "latest_turn", "profiles_due", "audit_key", "retired")
META_NAMES = (*META_COPIED, "passages", "analyzer", "counted_passages")
_LEAST_FIT = 0.75  # share of columns with a fitting type, below which a row is not of a table
_COPY_BYTES = 1 << 16  # SQLite reads and writes at most 128 KiB at a time
_READ_TRIES = 3
_LOOKED_AT_PARTS = 64  # 4 MiB
_HEADER = b"SQLite format 3\0"
_READ = apsw.SQLITE_OPEN_READONLY
_FITTING: dict[str, tuple[type, ...]] = {
    "TEXT": (str,),
    "INTEGER": (int,),
    "REAL": (float, int),
    "BLOB": (bytes,),
}


class Column(NamedTuple):
    """A column of a table, as SQLite describes it."""

    name: str
    type: str
    required: bool
    is_rowid: bool


Layout = tuple[Column, ...]


class Hints(NamedTuple):
    """What the indexes of a damaged file say about rows, by row number."""

    ids: dict[int, tuple[str, int]]  # of documents, with their event
    names: dict[int, tuple[str, str, str]]  # project, source, key
    trusts: dict[int, str]
    deleted: set[str]
    edges: set[int]


class Haul(NamedTuple):
    """Everything that was read: rows by table and key, hints, and cells that could not be read."""

    rows: dict[str, dict[object, Row]]
    hints: Hints
    unreadable: int

    def size(self) -> int:
        """Return the number of rows."""
        return sum(map(len, self.rows.values()))


def is_memory(path: str) -> bool:
    """Tell whether a file that SQLite cannot open was a memory: by its header, or rows in it.

    Looks at its beginning only: the file may be anything, and very large.
    """
    try:
        with _opened(path, apsw.SQLITE_OPEN_MAIN_DB | _READ) as file:
            data = b"".join(islice(_parts(file), _LOOKED_AT_PARTS))
    except PlaitError:
        return True  # it cannot be told
    if data[: len(_HEADER)] == _HEADER[: len(data)]:
        return True
    return any(_sorted_out(PageReader(data, size)).size() for size in page_sizes(data))


def read_rows(path: str, folder: str) -> tuple[Haul, bool]:
    """Return the rows of a file, and whether its journal is among them: a foreign one is not.

    ``folder`` gets a copy of the file, which is read instead of it.
    """
    image = os.path.join(folder, "image.db")
    for _ in range(_READ_TRIES):  # another process may be writing: wait for a quiet moment
        before = _state_of(path)
        copy_file(path, image, apsw.SQLITE_OPEN_MAIN_DB)
        if exists(path + "-wal"):
            copy_file(path + "-wal", image + "-wal", apsw.SQLITE_OPEN_WAL)
        if _state_of(path) == before:
            break
    applied = _apply_journal(image)
    with _opened(image, apsw.SQLITE_OPEN_MAIN_DB | _READ) as file:
        data = b"".join(_parts(file))
    best: Haul | None = None
    for size in page_sizes(data):
        reader = PageReader(data, size)
        haul = _sorted_out(reader)
        if best is None or haul.size() > best.size():
            best = haul
    assert best is not None
    return best, applied


def misplaced(path: str, connection: apsw.Connection) -> str | None:
    """Return a table that has a row in the file which SQLite does not find in it.

    Its root page, or a page of its tree, is another's: whatever is written would destroy the row.
    Call it while nobody else can write.
    """
    return lost_rows(carved_rows(path), connection)


def carved_rows(path: str) -> dict[str, dict[object, Row]]:
    """Return the rows in the pages of a file, by table, whatever tree the pages belong to."""
    with scratch.beside(path) as folder:
        haul, _ = read_rows(path, folder)
    return haul.rows


def lost_rows(rows: dict[str, dict[object, Row]], connection: apsw.Connection) -> str | None:
    """Return a table that lacks a row of those in the file's pages."""
    for table, carved in rows.items():
        columns = columns_of(connection, table)
        # Rows from before a column was added lack it.
        sought = {_key(table, row): {**dict.fromkeys(columns), **row} for row in carved.values()}
        for row in raw_rows(connection, table, columns):
            key = _key(table, row)
            if key not in sought:
                continue
            # What was dropped and came again with use differs from what it was.
            changes = table in DROPPED_TABLES and is_sound(table, row)
            if changes or all(row[name] == sought[key][name] for name in columns):
                del sought[key]
        # A damaged row may look like one of another table.
        if any(is_sound(table, row) for row in sought.values()):
            return table
    return None


def _key(table: str, row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in key_of(table))


def _state_of(path: str) -> list[tuple[int, int]]:
    stats = [os.stat(name) for name in (path, path + "-wal") if os.path.exists(name)]
    return [(stat.st_size, stat.st_mtime_ns) for stat in stats]


@contextmanager
def _opened(path: str, flags: int) -> Iterator[apsw.VFSFile]:
    """Open a file through SQLite's own file layer: a plain ``open`` would drop its locks."""
    journal.check_kind(path)
    try:
        file = apsw.VFSFile("", path, [flags, 0])
        try:
            yield file
        finally:
            file.xClose()
    except apsw.Error as error:
        raise translate(error, path) from error


def _parts(file: apsw.VFSFile) -> Iterator[bytes]:
    size = file.xFileSize()
    for start in range(0, size, _COPY_BYTES):
        yield file.xRead(min(_COPY_BYTES, size - start), start)


def copy_file(path: str, target: str, kind: int) -> None:
    """Copy a database or a journal through SQLite's own file layer."""
    fresh = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with _opened(path, kind | _READ) as file, _opened(target, kind | fresh) as copy:
        copy.xTruncate(0)
        start = 0
        for part in _parts(file):
            copy.xWrite(part, start)
            start += len(part)


def _apply_journal(image: str) -> bool:
    """Move the journal of a copy into it; false if SQLite cannot, or must not."""
    if not exists(image + "-wal"):
        return True
    if journal.belongs(image) is False:  # it would overwrite pages of the file with another's
        os.unlink(image + "-wal")
        return False
    try:
        connection = apsw.Connection(image)
        try:
            connection.execute("PRAGMA journal_mode").fetchall()
            return checkpoint(connection, "TRUNCATE")
        finally:
            connection.close(force=True)
    except apsw.Error:
        return False


@cache
def _layouts() -> dict[str, dict[int, Layout]]:
    """Return the columns of the salvaged tables by their number, of every version of the schema."""
    layouts: dict[str, dict[int, Layout]] = {}
    connection = apsw.Connection(":memory:")
    for migration in MIGRATIONS:
        for _ in connection.execute(migration):
            pass
        for table in (*ROWID_TABLES, *KEYED_TABLES):
            columns = tuple(
                Column(name, type_, bool(required), bool(key) and type_ == "INTEGER")
                for name, type_, required, key in connection.execute(
                    'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,)
                )
            )
            if columns:
                # A later version wins where two have as many columns.
                layouts.setdefault(table, {})[len(columns)] = columns
    connection.close()
    return layouts


def _sorted_out(reader: PageReader) -> Haul:
    """Return the rows of a file by the table they belong to, which their form tells.

    The trees that say so may be damaged, and root pages mixed up.
    """
    layouts = _layouts()
    haul: dict[str, dict[object, Row]] = {name: {} for name in (*ROWID_TABLES, *KEYED_TABLES)}
    hints = Hints({}, {}, {}, set(), set())
    for cell in reader.cells():
        tables = KEYED_TABLES if cell.rowid is None else ROWID_TABLES
        table = _table_of(cell, tables, layouts)
        if table is not None:
            row = _row(cell, layouts[table][len(cell.values)])
            _keep(haul[table], table, row)
        elif cell.rowid is None:
            _note(cell.values, hints)
    return Haul(haul, hints, reader.unreadable)


def _table_of(
    cell: Cell, tables: tuple[str, ...], layouts: Mapping[str, Mapping[int, Layout]]
) -> str | None:
    best, name = 0.0, None
    for table in tables:
        layout = layouts[table].get(len(cell.values))
        if layout is None:
            continue
        fit = _fit(cell.values, layout, numbered=cell.rowid is not None)
        if fit > best and fit >= _least_fit(table, cell):
            best, name = fit, table
    return name


def _least_fit(table: str, cell: Cell) -> float:
    """Return how well a row must fit; entries of indexes are so short that one type tells less."""
    if cell.rowid is not None:
        return _LEAST_FIT
    if table == "trash":
        id_, _, _, record, *_ = cell.values
        if isinstance(id_, str) and is_id(id_) and isinstance(record, str | bytes):
            return 0.5
    if table == "steps":
        return _LEAST_FIT  # no other entry has as many values
    if table == "meta" and cell.values[0] not in META_NAMES:
        return 2.0  # an index of two texts looks the same
    if table == "histories" and not str(cell.values[0]).startswith(PREFIX):
        return 2.0
    return 1.0


def _fit(values: tuple[Value, ...], layout: Layout, *, numbered: bool) -> float:
    """Return the share of columns whose value has the declared type."""
    fitting = 0
    for value, column in zip(values, layout, strict=True):
        if column.is_rowid and numbered:
            if value is not None:  # the row's number stands apart
                return 0.0
            fitting += 1
        elif value is None:
            fitting += not column.required
        else:
            fitting += isinstance(value, _FITTING[column.type])
    return fitting / len(layout)


def _row(cell: Cell, layout: Layout) -> Row:
    row: Row = {
        column.name: cell.rowid if column.is_rowid and cell.rowid is not None else value
        for column, value in zip(layout, cell.values, strict=True)
    }
    if cell.rowid is not None:
        row["rowid"] = cell.rowid
    return row


def _keep(rows: dict[object, Row], table: str, row: Row) -> None:
    """Keep a row; of two with one key the one that was updated later, or else the first."""
    names = ("rowid",) if table in ROWID_TABLES else key_of(table)
    key = tuple(row[name] for name in names)
    known = rows.get(key)
    if known is None or _rank(row) > _rank(known):
        rows[key] = row


def _rank(row: Row) -> int:
    moment = row.get("updated_at", 0)
    return moment if isinstance(moment, int) else -1


def _note(values: tuple[Value, ...], hints: Hints) -> None:
    """Take what an entry of an index says about a row."""
    match values:
        case (int(event), str(id_), int(rowid)) if is_id(id_):
            hints.ids[rowid] = (id_, event)
        case (str(project), str(source), str(key), int(rowid)):
            hints.names[rowid] = (project, source, key)
        case (str(trust), int(rowid)) if trust in TRUSTS:
            # A tag may read the same. What is lost must not gain trust by one.
            known = hints.trusts.get(rowid, trust)
            hints.trusts[rowid] = max(known, trust, key=TRUSTS.index)
        case (int(), str(id_)) if is_id(id_):
            hints.deleted.add(id_)
        case (int(), int(), str(), int(rowid)):
            hints.edges.add(rowid)
