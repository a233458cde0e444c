"""What a recall shows beside its hits, as statements: replies, what is pinned, earlier facts."""

from collections.abc import Sequence
from functools import cache

from plait.protocols import Following
from plait.stores.postgres import steps
from plait.stores.postgres.connection import SQLRow, SQLStatement
from plait.stores.postgres.documents import (
    IN_SESSION,
    PASSAGE_COLUMNS,
    beginning,
)
from plait.stores.postgres.filters import Conditions
from plait.stores.sqlite.documents import (
    DOCUMENT_COLUMNS,
    DocumentOrPassage,
)

# The next messages of some, and of one that is a single passage also this.
_NEXT = (
    "FROM plait.documents AS m CROSS JOIN LATERAL (SELECT d.* FROM plait.documents AS d "  # noqa: S608
    "WHERE d.ns = %(ns)s AND d.project = m.project AND d.session = m.session "
    f"AND ({IN_SESSION}, d.id) > ({IN_SESSION.replace('d.', 'm.')}, m.id) "
    f"ORDER BY {IN_SESSION}, d.id LIMIT %(most)s) AS d"
)
_FOLLOWING = (
    f"SELECT m.id, coalesce({{conditions}}, false), {PASSAGE_COLUMNS}, {DOCUMENT_COLUMNS} "
    f"{_NEXT} LEFT JOIN plait.passages AS p "
    "ON p.ns = %(ns)s AND p.document = d.place AND p.ordinal = 0 AND d.chunk_count = 1 "
    f"WHERE m.ns = %(ns)s AND m.id = ANY(%(ids)s) ORDER BY m.id, {IN_SESSION}, d.id"
)
# The first of the next ones that meets conditions.
_FOLLOWED = (
    "SELECT m.id, d.event_at FROM plait.documents AS m CROSS JOIN LATERAL (SELECT d.event_at "  # noqa: S608
    "FROM plait.documents AS d WHERE d.ns = %(ns)s AND d.project = m.project "
    "AND d.session = m.session AND {conditions} "
    f"AND ({IN_SESSION}, d.id) > ({IN_SESSION.replace('d.', 'm.')}, m.id) "
    f"ORDER BY {IN_SESSION}, d.id LIMIT 1) AS d WHERE m.ns = %(ns)s AND m.id = ANY(%(ids)s)"
)
_BEGINNINGS = (
    f"SELECT {PASSAGE_COLUMNS}, {DOCUMENT_COLUMNS} FROM plait.documents AS d "  # noqa: S608
    "LEFT JOIN plait.passages AS p ON p.ns = %(ns)s AND p.document = d.place AND p.ordinal = 0 "
    "WHERE {conditions} ORDER BY d.event_at DESC, d.id DESC LIMIT %(limit)s"
)


def following(ids: Sequence[str], most: int, where: Conditions) -> SQLStatement:
    """Return the statement for the next messages of some, and which of them meet conditions."""
    return where.stated(_FOLLOWING), {**where.values, "ids": list(ids), "most": most}


def stepping(ids: Sequence[str], messages: Sequence[str], most: int) -> SQLStatement:
    """Return the statement for the steps of documents, and of those that follow some messages."""
    places = f"SELECT d.place {_NEXT} WHERE m.ns = %(ns)s AND m.id = ANY(%(messages)s)"
    sql, values = steps.of_documents(ids, places)
    return sql, {**values, "messages": list(messages), "most": most}


def as_following(rows: Sequence[SQLRow]) -> dict[str, list[Following]]:
    """Return the answer to `following`, by the messages that they follow."""
    listed: dict[str, list[Following]] = {}
    for id_, passes, *row in rows:
        document, passage = beginning(row)
        listed.setdefault(id_, []).append((document, passage, passes))
    return listed


def followed(ids: Sequence[str], where: Conditions) -> SQLStatement:
    """Return the statement for the time of what follows each of some messages."""
    return where.stated(_FOLLOWED), {**where.values, "ids": list(ids)}


def beginnings(limit: int, where: Conditions) -> SQLStatement:
    """Return the statement for the newest documents that meet conditions, each as it begins."""
    return where.stated(_BEGINNINGS), {**where.values, "limit": limit}


def as_beginnings(rows: Sequence[SQLRow]) -> list[DocumentOrPassage]:
    """Return the answer to `beginnings`."""
    return list(map(beginning, rows))


def earlier(ids: Sequence[str], most: int) -> SQLStatement:
    """Return the statement for how many documents came before each, each replaced by the next."""
    return _steps_back(most), {"ids": list(ids)}


@cache
def _steps_back(most: int) -> str:
    numbers = range(1, most + 1)
    counted = " + ".join(f"(d{step}.id IS NOT NULL)::int" for step in numbers)
    joined = " ".join(
        f"LEFT JOIN plait.documents AS d{step} ON d{step}.ns = %(ns)s "
        f"AND d{step}.id = d{step - 1}.supersedes"
        for step in numbers
    )
    return (
        f"SELECT d0.id, {counted} FROM plait.documents AS d0 {joined} "  # noqa: S608
        "WHERE d0.ns = %(ns)s AND d0.supersedes IS NOT NULL AND d0.id = ANY(%(ids)s)"
    )
