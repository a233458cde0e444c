"""Prove the file: its pages, its indexes against their tables, the keyword index by every word.

SQLite's own checks do most of it; what they say is sorted here by what can be done about it.
"""

import re
from collections.abc import Iterator

import apsw

from plait.stores.sqlite import rebuilding
from plait.stores.sqlite.connection import rows
from plait.types.records import NamedTuple

# SQLite lists this many problems; one is enough to act, several help to tell what is broken.
MOST_PROBLEMS = 200
LOCK_BYTE = 2**30  # the page with this byte belongs to nobody
FREE_LIST_AT = 32  # where the header has the first free page
# A table with more unreadable rows than this share is not damaged here and there: something else
# lies in its place, and mending row by row would destroy it.
FOREIGN_SHARE = 0.5

_TABLES = (
    "SELECT 'sqlite_schema' UNION ALL "
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
)
_TREES = "SELECT rootpage, type, name FROM sqlite_schema WHERE rootpage > 0"
_CHECK_TABLE = "SELECT * FROM pragma_integrity_check(?)"
_PARTIAL_INDEXES = (
    "SELECT name, tbl_name, substr(sql, instr(sql, 'WHERE ') + 6) FROM sqlite_schema "
    "WHERE type = 'index' AND instr(sql, 'WHERE ')"
)
_SIZES = ("page_size", "page_count")
_ENTRIES = "SELECT name, sum(ncell) FROM dbstat GROUP BY name"
# Problems of an index alone: its table is whole, and it can be made again.
_OF_INDEX = re.compile(
    r"(?:row \d+ missing from|wrong # of entries in|non-unique entry in|values differ from|"
    r"rowid not at end-of-record for row \d+ of) index (?P<name>\S+)"
)
_OF_TREE = re.compile(r"Tree (\d+)")
_OF_VALUE = re.compile(r"(?:NULL|NUMERIC|TEXT|BLOB|INT|REAL) value in |CHECK constraint failed in ")
_OF_ROOT = re.compile(r"2nd reference to page (\d+)$")
_OF_SPACE = re.compile(r"Page \d+: never used|Freelist: ", re.I)
# Terms that a search would not find under the place where the index lists them.
_LOST_TERMS = (
    "SELECT count(*) FROM passages_vocab AS listed WHERE NOT EXISTS "
    "(SELECT 1 FROM passages_vocab AS sought "
    "WHERE sought.term = listed.term AND sought.doc = listed.doc)"
)


class FileProblems(NamedTuple):
    """What is wrong with a file: broken pages, indexes to make again, and pages nobody uses.

    ``damaged`` has the tables and indexes with broken pages.
    """

    broken: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    unused: bool = False
    damaged: frozenset[str] = frozenset()


def verdict(connection: apsw.Connection) -> FileProblems:
    """Check all pages, and every index row by row."""
    broken: list[str] = []
    indexes: dict[str, None] = {}
    unused = False
    for problem in _problems(connection):
        of_index = _OF_INDEX.search(problem)
        if of_index:
            indexes[of_index["name"]] = None
        elif _OF_SPACE.match(problem) or _is_of_free_root(connection, problem):
            unused = True
        elif not _OF_VALUE.match(problem):  # every row is read apart
            broken.append(problem)
    if not broken:
        indexes |= dict.fromkeys(_miscounted_indexes(connection))
        unused = unused or not free_pages_are_right(connection)
    damaged = _damaged_trees(connection) if broken else frozenset()
    return FileProblems(tuple(broken), tuple(indexes), unused, damaged)


def damage_left(connection: apsw.Connection) -> str | None:
    """Return damage other than pages that nobody uses, of which there may be any number."""
    pages = int(connection.execute("PRAGMA page_count").get)
    for problem in _problems(connection, pages + MOST_PROBLEMS):
        if not _OF_SPACE.match(problem) and not _OF_VALUE.match(problem):
            return problem
    return None


def _miscounted_indexes(connection: apsw.Connection) -> Iterator[str]:
    """Yield the indexes of some rows of a table that list another number of them.

    subtle: SQLite's check does not count these, so a page of something else goes unnoticed there.
    """
    with connection:  # One snapshot: others may be writing, which is not damage.
        try:
            entries: dict[str, int] = dict(rows(connection, _ENTRIES))
        except apsw.SQLError:
            return  # an SQLite without this table
        for name, table, condition in rows(connection, _PARTIAL_INDEXES):
            # subtle: as a WHERE the condition would let SQLite count by the very index.
            counted = f"SELECT total({condition}) FROM {table} NOT INDEXED"  # noqa: S608
            if entries.get(name) != connection.execute(counted).get:
                yield str(name)


def _is_of_free_root(connection: apsw.Connection, problem: str) -> bool:
    """Tell whether a tree is only damaged in that its first page is on the list of free ones."""
    of_root = _OF_ROOT.match(problem)
    if of_root is None:
        return False
    size, pages = (int(connection.execute(f"PRAGMA {name}").get) for name in _SIZES)
    return int(of_root[1]) in (_free_list(connection, size, pages) or ())


def free_pages_are_right(connection: apsw.Connection) -> bool:
    """Tell whether every page is used by exactly one tree, or free.

    subtle: SQLite leaves this out of its check where a view or virtual table happens to be the
    first of its list, which depends on the order of the schema.
    """
    # Twice: others may be writing between two looks, which is not damage.
    return _free_pages_are_right(connection) or _free_pages_are_right(connection)


def _free_pages_are_right(connection: apsw.Connection) -> bool:
    try:
        with connection:
            used = {page for (page,) in connection.execute("SELECT pageno FROM dbstat")}
            pages = int(connection.execute("PRAGMA page_count").get)
            counted = int(connection.execute("PRAGMA freelist_count").get)
    except apsw.SQLError:
        return True  # an SQLite without this table
    size = int(connection.execute("PRAGMA page_size").get)
    nobodys = int(LOCK_BYTE // size < pages)
    if len(used) + counted + nobodys != pages:
        return False
    listed = _free_list(connection, size, pages)
    return listed is None or (len(listed) == counted and not listed & used)


def _free_list(connection: apsw.Connection, size: int, pages: int) -> set[int] | None:
    """Return the pages on the list of free ones; ``None`` if the journal has parts of the file."""
    [(_, logged, moved)] = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchall()
    if logged != moved or not connection.filename:
        return None
    listed: set[int] = set()
    trunk = _number_at(connection, FREE_LIST_AT)
    while trunk and trunk not in listed and trunk <= pages:
        listed.add(trunk)
        start = (trunk - 1) * size
        count = min(_number_at(connection, start + 4), size // 4)
        listed |= {_number_at(connection, start + 8 + 4 * place) for place in range(count)}
        trunk = _number_at(connection, start)
    return listed | ({0} if trunk else set())  # 0 is no page: the list leads astray


def _number_at(connection: apsw.Connection, offset: int) -> int:
    _, data = connection.read("main", 0, offset, 4)
    return int.from_bytes(data, "big")


def _problems(connection: apsw.Connection, most: int = MOST_PROBLEMS) -> list[str]:
    """Return what SQLite finds wrong.

    Its check asks FTS5 too, but a damaged keyword index alone can be repaired: that is checked
    apart.
    """
    names = _names_of_trees(connection)
    try:
        answers = rows(connection, f"PRAGMA integrity_check({most})")
        problems = [line for (answer,) in answers for line in _lines(str(answer))]
    except (apsw.CorruptError, apsw.SQLError):
        # A page that SQLite cannot read, or an index that FTS5 cannot open, stops the whole check.
        problems = [line for lines in _problems_by_table(connection).values() for line in lines]
    return [_OF_TREE.sub(lambda tree: names.get(int(tree[1]), tree[0]), line) for line in problems]


def _problems_by_table(connection: apsw.Connection) -> dict[str, list[str]]:
    """Check table by table, and no page for being used twice."""
    problems: dict[str, list[str]] = {}
    for (table,) in connection.execute(_TABLES).fetchall():
        lines = problems.setdefault(str(table), [])
        try:
            for (answer,) in connection.execute(_CHECK_TABLE, (table,)):
                lines += _lines(str(answer))
        except (apsw.CorruptError, apsw.SQLError) as error:
            if not lines:
                lines.append(f"table {table}: {error}")
    return problems


def _damaged_trees(connection: apsw.Connection) -> frozenset[str]:
    """Return the tables and indexes with broken pages, and indexes that do not match."""
    names = {root: name.partition(" ")[2] for root, name in _names_of_trees(connection).items()}
    damaged = set()
    for table, lines in _problems_by_table(connection).items():
        for line in lines:
            tree, index = _OF_TREE.match(line), _OF_INDEX.search(line)
            if tree:
                damaged.add(names.get(int(tree[1]), table))
            elif index:
                damaged.add(index["name"])
            elif not _OF_VALUE.match(line):
                damaged.add(table)
    return frozenset(damaged)


def _names_of_trees(connection: apsw.Connection) -> dict[int, str]:
    """Return what lies at a root page, such as ``index documents_by_key``."""
    return {
        1: "table sqlite_schema",
        **{int(root): f"{kind} {name}" for root, kind, name in rows(connection, _TREES)},
    }


def _lines(answer: str) -> list[str]:
    return [
        line
        for line in answer.splitlines()
        if line not in ("ok", "*** in database main ***") and "fts5" not in line.lower()
    ]


def keywords_prove(connection: apsw.Connection) -> bool:
    """Tell whether the keyword index has every word of every passage, and finds each of them.

    FTS5 compares what it lists with the passages, but does not look a word up. A search does.
    """
    if not rebuilding.is_sound(connection):
        return False
    try:
        return not connection.execute(_LOST_TERMS).get
    except (apsw.CorruptError, apsw.SQLError):
        return False


def make_again(connection: apsw.Connection, indexes: tuple[str, ...]) -> None:
    """Build indexes afresh from their tables. Call inside a write transaction."""
    for name in indexes:
        connection.execute(f'REINDEX "{name}"')
