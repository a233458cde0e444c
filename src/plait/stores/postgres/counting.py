"""Counts and sizes of a memory, or of the documents that a filter selects."""

from plait.stores.postgres.connection import SCHEMA_VERSION, Channel
from plait.stores.postgres.documents import JOINED
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.state import answering
from plait.types.ids import ENTITY_SOURCE, SESSION_SOURCE
from plait.types.reports import DocumentUsage, Stats

_COUNTS = (
    "SELECT coalesce(sum(d.chunk_count), 0)::bigint, min(d.event_at), max(d.event_at), "
    "max(d.indexed_at) FROM plait.documents AS d WHERE {conditions}"
)
_BY = (
    "SELECT d.{part}, count(*) FROM plait.documents AS d WHERE {only} {conditions} "
    "GROUP BY 1 ORDER BY 2 DESC, 1"
)
# Of sources, only folders: a memory may have a session a day.
_FOLDERS = (
    f"d.source NOT IN ('', '{ENTITY_SOURCE}') AND NOT starts_with(d.source, '{SESSION_SOURCE}') AND"
)
_MISSING = (
    "SELECT u.reason, count(*) FROM plait.unembedded AS u WHERE u.ns = %(ns)s "  # noqa: S608
    f"AND u.generation = %(generation)s AND u.ref IN (SELECT p.ref FROM {JOINED} "
    "AND {conditions}) GROUP BY 1"
)
_TRASH = "SELECT count(*) FROM plait.trash WHERE ns = %(ns)s"
# Of the whole database: PostgreSQL does not tell what one memory takes of it.
_SIZE = "SELECT pg_database_size(current_database())"

_USAGE = (
    "SELECT d.id, sum(octet_length(p.text))::bigint, coalesce(sum(s.reads), 0)::bigint, "
    "max(s.last_read) FROM plait.passages AS p "
    "JOIN plait.documents AS d ON d.ns = %(ns)s AND d.place = p.document "
    "LEFT JOIN plait.signals AS s ON s.ns = %(ns)s AND s.ref = p.ref "
    "WHERE p.ns = %(ns)s AND {conditions} GROUP BY d.id"
)


def usage(session: Channel, where: Conditions) -> dict[str, DocumentUsage]:
    """Return the sizes of documents that meet conditions, and how they were read, by id."""
    listed = session.rows(where.stated(_USAGE), where.values)
    return {id_: DocumentUsage(size, reads, last or None) for id_, size, reads, last in listed}


def stats(session: Channel, path: str, where: Conditions | None) -> Stats:
    """Return counts and sizes; with conditions, counts of the documents that meet them.

    The trash and the size have no part in these.
    """
    chosen = where or Conditions(0)
    values = chosen.values
    [(chunks, first, last, indexed)] = session.rows(chosen.stated(_COUNTS), values)
    kinds, projects, sources = (
        tuple(session.rows(chosen.stated(sql.replace("{only}", only)), values))
        for sql, only in (
            (_BY.replace("{part}", "kind"), ""),
            (_BY.replace("{part}", "project"), ""),
            (_BY.replace("{part}", "source"), _FOLDERS),
        )
    )
    current = answering(session)
    missing: dict[str, int] = {}
    if current is not None:
        listed = session.rows(chosen.stated(_MISSING), values, generation=current.id)
        missing = dict(listed)
    return Stats(
        doc_count=sum(count for _, count in kinds),
        chunk_count=chunks,
        embedded_count=0 if current is None else chunks - sum(missing.values()),
        pending_count=missing.get("pending", 0),
        trash_count=session.value(_TRASH) if where is None else 0,
        db_size_bytes=session.value(_SIZE) if where is None else 0,
        path=path,
        schema=SCHEMA_VERSION,
        space=None if current is None else current.named,
        kinds=kinds,
        projects=tuple((name or None, count) for name, count in projects),
        sources=sources,
        first_event_at=first,
        last_event_at=last,
        indexed_at=indexed,
    )
