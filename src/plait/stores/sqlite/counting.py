"""Counts and sizes of a memory, or of the documents that a filter selects."""

import apsw

from plait.stores.sqlite.connection import rows, version_of
from plait.stores.sqlite.filters import Clause, joined
from plait.stores.sqlite.state import answering
from plait.stores.sqlite.tallies import PARTS, counted, kept
from plait.types.reports import DocumentUsage, Stats

# Nothing here reads every document or passage.
_COUNTS = (
    "SELECT (SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'passages'), "
    "(SELECT count(*) FROM trash), (SELECT min(event_at) FROM documents), "
    "(SELECT max(event_at) FROM documents), (SELECT max(indexed_at) FROM documents)"
)
_COUNTS_OF = (
    "SELECT sum(d.chunk_count), 0, min(d.event_at), max(d.event_at), "
    "max(d.indexed_at) FROM documents AS d WHERE "
)
_MISSING = "SELECT reason, count(*) FROM unembedded WHERE generation = ? GROUP BY reason"
_MISSING_OF = (
    "SELECT u.reason, count(*) FROM unembedded AS u JOIN passages AS p ON p.rowid = u.passage "
    "JOIN documents AS d ON d.rowid = p.document WHERE u.generation = ? AND /*conditions*/ "
    "GROUP BY u.reason"
)

# CROSS, because an order that SQLite chooses itself may begin with all passages.
_USAGE = (
    "SELECT d.id, sum(octet_length(p.text)), sum(s.reads), max(s.last_read) FROM documents AS d "
    "CROSS JOIN passages AS p ON p.document = d.rowid "
    "LEFT JOIN signals AS s ON s.passage = p.rowid WHERE /*conditions*/ GROUP BY d.rowid"
)


def usage(connection: apsw.Connection, conditions: list[Clause]) -> dict[str, DocumentUsage]:
    """Return the sizes of documents that meet conditions, and how they were read, by id.

    What is damaged counts as unread: `doctor` tells of it.
    """
    sql, values = joined(conditions)
    listed = rows(connection, _USAGE.replace("/*conditions*/", sql), values)
    return {
        id_: DocumentUsage(size or 0, reads if isinstance(reads, int) else 0, _moment(last))
        for id_, size, reads, last in listed
    }


def _moment(value: object) -> int | None:
    return value if isinstance(value, int) and value else None


def stats(connection: apsw.Connection, path: str, conditions: list[Clause] | None = None) -> Stats:
    """Return counts and sizes; with conditions, counts of the documents that meet them.

    The trash and the file have no part in these.
    """
    sql, values = joined(conditions or [])
    selected = conditions is not None
    counts = rows(connection, _COUNTS_OF + sql if selected else _COUNTS, values)[0]
    if not all(isinstance(count, int | None) for count in counts):
        raise apsw.CorruptError("a time of a document is not a number")
    chunks, trash, first, last, indexed = counts
    chunks = chunks or 0
    if selected:
        tallies = {part: counted(connection, part, sql, values) for part in PARTS}
    else:
        tallies = {part: kept(connection, part) for part in PARTS}
    current = answering(connection)
    missing: dict[str, int] = {}
    if current is not None:
        lacking = _MISSING_OF.replace("/*conditions*/", sql) if selected else _MISSING
        missing = dict(rows(connection, lacking, (current.id, *values)))
    pages = 0 if selected else connection.execute("PRAGMA page_count").get
    free = 0 if selected else connection.execute("PRAGMA freelist_count").get
    return Stats(
        doc_count=sum(count for _, count in tallies["kind"]),
        chunk_count=chunks,
        embedded_count=0 if current is None else chunks - sum(missing.values()),
        pending_count=missing.get("pending", 0),
        trash_count=trash,
        db_size_bytes=pages * connection.execute("PRAGMA page_size").get,
        free_bytes=free * connection.execute("PRAGMA page_size").get,
        path=path,
        schema=version_of(connection),
        space=None if current is None else current.named,
        kinds=tallies["kind"],
        projects=tuple((name or None, count) for name, count in tallies["project"]),
        sources=tallies["source"],
        first_event_at=first,
        last_event_at=last,
        indexed_at=indexed,
    )
