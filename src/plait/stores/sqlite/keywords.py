"""The keyword index as a whole: whether it still belongs to the passages, and making it anew.

Three looks, each dearer than the one before: `in_step` costs microseconds and is taken at every
opening, `is_readable` reads the index, and `is_sound` compares it word for word with the passages.
"""

import apsw

from plait.stores.sqlite import schema, terms, writing
from plait.stores.sqlite.rows import rows

# A rebuild keeps writers waiting, 2 to 3 s for this many passages: a larger index that reads well
# and is in step is left as it is.
REBUILT_PASSAGES = 100_000

_PARTS = (
    f"SELECT count(*) FROM sqlite_schema "  # noqa: S608
    f"WHERE name IN ({', '.join(map(repr, schema.KEYWORD_TABLES))})"
)
_PASSAGE_ENDS = "SELECT (SELECT min(rowid) FROM passages), (SELECT max(rowid) FROM passages)"
_INDEX_ENDS = (
    "SELECT (SELECT min(id) FROM passages_fts_docsize), (SELECT max(id) FROM passages_fts_docsize)"
)
_RECOUNT = "UPDATE meta SET value = (SELECT count(*) FROM passages) WHERE name = ?"


def in_step(connection: apsw.Connection) -> bool:
    """Whether the index has all its tables, and the number, first and last of the passages."""
    with connection:  # One snapshot: others may be writing, and that is no damage.
        agrees: bool = (
            connection.execute(_PARTS).get == len(schema.KEYWORD_TABLES)
            and rows(connection, _PASSAGE_ENDS) == rows(connection, _INDEX_ENDS)
            and terms.get_meta(connection, terms.COUNTED)
            in (None, str(terms.passage_count(connection)))
        )
    return agrees


def is_readable(connection: apsw.Connection) -> bool:
    """Whether FTS5 can read all of its index; takes no lock that a writer would wait for."""
    try:
        answer = connection.execute("PRAGMA quick_check('passages_fts')").get
    except (apsw.CorruptError, apsw.SQLError):
        return False
    return bool(answer == "ok")


def is_sound(connection: apsw.Connection) -> bool:
    """FTS5's own proof that its index and the passages agree word for word."""
    try:
        connection.execute(
            "INSERT INTO passages_fts (passages_fts, rank) VALUES ('integrity-check', 1)"
        )
    except (apsw.CorruptError, apsw.SQLError):
        return False
    return True


def needs_rebuild(connection: apsw.Connection, analyzer: str) -> bool:
    """Whether `reindex` makes the index anew: always, except for a large one that serves well."""
    return (
        terms.passage_count(connection) < REBUILT_PASSAGES
        or terms.get_meta(connection, "analyzer") != analyzer
        or not in_step(connection)
        or not is_readable(connection)
    )


def rebuild(connection: apsw.Connection) -> int:
    """Make the index anew from the passages, inside the caller's transaction; their number."""
    # Dropped, not emptied: FTS5 cannot empty an index whose tables or settings are damaged.
    schema.make_keyword_index(connection)
    connection.execute("INSERT INTO passages_fts (passages_fts) VALUES ('rebuild')")
    # Only now: splitting afresh updates the index row by row, which needs a sound one.
    writing.split_afresh(connection)
    terms.tidy(connection)
    connection.execute(_RECOUNT, (terms.COUNTED,))
    return terms.passage_count(connection)
