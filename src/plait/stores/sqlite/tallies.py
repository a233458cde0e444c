"""How many documents a memory has, by kind, project and source, kept up to date by every write.

Counting them anew reads all of them: `tally_again` is for repairs only.
"""

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import apsw

from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.documents import FIELDS
from plait.types.ids import ENTITY_SOURCE, SESSION_SOURCE

Tally = tuple[tuple[str, int], ...]

# What documents are counted by. Of sources, only folders: a memory may have a session a day.
PARTS = ("kind", "project", "source")
_PARTS_OF = itemgetter(*map(FIELDS.index, PARTS))
_FOLDERS = (
    f"d.source NOT IN ('', '{ENTITY_SOURCE}') "
    f"AND substr(d.source, 1, {len(SESSION_SOURCE)}) <> '{SESSION_SOURCE}'"
)
_KEPT = "SELECT name, documents FROM tallies WHERE part = ? ORDER BY 2 DESC, 1"
_ADD = (
    "INSERT INTO tallies (part, name, documents) VALUES (?, ?, ?) "
    "ON CONFLICT (part, name) DO UPDATE SET documents = documents + excluded.documents"
)
# A name goes with the last document that has it: a purge leaves no trace.
_DROP = "DELETE FROM tallies WHERE part = ? AND name = ? AND documents < 1"


class Tallies:
    """What one transaction changes about the counts; `finish` writes it down."""

    def __init__(self) -> None:
        # By all parts at once: to count each of them takes longer than to write a document down.
        self._changes: Counter[tuple[Any, ...]] = Counter()

    def move(self, before: Sequence[Any] | None, after: Sequence[Any] | None) -> None:
        """Note a document's columns as they were and as they are; ``None`` if there is none."""
        if before is not None:
            self._changes[_PARTS_OF(before)] -= 1
        if after is not None:
            self._changes[_PARTS_OF(after)] += 1

    def finish(self, connection: apsw.Connection) -> None:
        """Write the new counts."""
        moved: Counter[tuple[str, str]] = Counter()
        for names, number in self._changes.items():
            for part, name in zip(PARTS, names, strict=True):
                moved[part, name] += number
        changes = [
            (part, name, number)
            for (part, name), number in moved.items()
            if number and (part != "source" or _is_folder(name))
        ]
        connection.executemany(_ADD, changes)
        connection.executemany(_DROP, [row[:2] for row in changes if row[2] < 0])


def _is_folder(source: str) -> bool:
    return source not in ("", ENTITY_SOURCE) and not source.startswith(SESSION_SOURCE)


def kept(connection: apsw.Connection, part: str) -> Tally:
    """Return how many documents have each value of a column."""
    return _readable(part, rows(connection, _KEPT, (part,)))


def counted(
    connection: apsw.Connection, part: str, condition: str = "true", values: Sequence[object] = ()
) -> Tally:
    """Return the same of the documents that meet a condition, by reading them."""
    if part == "source":
        condition = f"{_FOLDERS} AND {condition}"
    sql = (
        f"SELECT d.{part}, count(*) FROM documents AS d WHERE {condition} "  # noqa: S608
        "GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    return _readable(part, rows(connection, sql, values))


def _readable(part: str, tally: list[tuple[Any, ...]]) -> Tally:
    if not all(isinstance(name, str) and isinstance(count, int) for name, count in tally):
        raise apsw.CorruptError(f"the {part} of a document cannot be read")
    if any(count < 1 for _, count in tally):
        raise apsw.CorruptError(f"the documents of a {part} are miscounted")
    return tuple((name, count) for name, count in tally)


def are_right(connection: apsw.Connection) -> bool:
    """Tell whether the kept counts are those of the documents; reads all of them."""
    with connection:  # one snapshot
        pairs = [(rows(connection, _KEPT, (part,)), counted(connection, part)) for part in PARTS]
    return all(ours == [*theirs] for ours, theirs in pairs)


def tally_again(connection: apsw.Connection) -> None:
    """Count all documents anew, in the caller's transaction."""
    connection.execute("DELETE FROM tallies")
    for part in PARTS:
        values = [(part, *row) for row in counted(connection, part)]
        connection.executemany(_ADD, values)
