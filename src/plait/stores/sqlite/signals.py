"""How passages were used: reads, days, and read with which others, in a caller's transaction.

Only trusted passages are counted: a planted text must not rise because it was recalled.
"""

import json
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import apsw

from plait.protocols import Use
from plait.stores.sqlite.connection import SQLRow, rows
from plait.times import DAY_MS
from plait.types import Ref

# Only pairs of an answer's first passages are counted: pairs grow with the square.
MOST_PAIRED = 10

_COUNTABLE = (
    "SELECT p.rowid FROM passages AS p JOIN documents AS d ON d.rowid = p.document "
    "WHERE p.rowid IN (SELECT value FROM json_each(?)) AND d.trust = 'trusted'"
)
# A clock that was set back neither adds a day nor makes the last use older.
_READ = (
    "INSERT INTO signals (passage, reads, days, last_day, last_read) VALUES (?1, 1, 1, ?2, ?3) "
    "ON CONFLICT (passage) DO UPDATE SET reads = reads + 1, "
    "days = days + (excluded.last_day > last_day), last_day = max(last_day, excluded.last_day), "
    "last_read = max(last_read, excluded.last_read)"
)
_TOGETHER = (
    "INSERT INTO signal_pairs (one, other, times, last_read) VALUES (?, ?, 1, ?) "
    "ON CONFLICT (one, other) DO UPDATE SET times = times + 1, "
    "last_read = max(last_read, excluded.last_read)"
)
_USES = (
    "SELECT passage, reads, days, last_read FROM signals "
    "WHERE passage IN (SELECT value FROM json_each(?))"
)
_PAIRS_AMONG = (
    "SELECT one, other, times, last_read FROM signal_pairs "
    "WHERE one IN (SELECT value FROM json_each(?1)) AND other IN (SELECT value FROM json_each(?1))"
)
_ENTITIES = (
    "SELECT p.rowid, d.rowid FROM passages AS p JOIN documents AS d ON d.rowid = p.document "
    "WHERE p.rowid IN (SELECT value FROM json_each(?)) AND d.kind = 'entity'"
)
_DEGREES = (
    "SELECT e.value, (SELECT count(*) FROM relations WHERE source = e.value "
    "AND (valid_to IS NULL OR valid_to > ?2)) + (SELECT count(*) FROM relations "
    "WHERE target = e.value AND (valid_to IS NULL OR valid_to > ?2)) FROM json_each(?1) AS e"
)
_PAIRS_OF = "SELECT one, other, times, last_read FROM signal_pairs WHERE one = ?1 OR other = ?1"
_FIRST_PASSAGE = "SELECT rowid FROM passages WHERE document = ? ORDER BY ordinal LIMIT 1"


class Kept(NamedTuple):
    """The use of one passage, kept while another replaces it."""

    ref: Ref
    reads: Sequence[tuple[int, ...]]
    pairs: Sequence[tuple[int, int, int]]


def count(connection: apsw.Connection, answers: Sequence[Sequence[Ref]], now: int) -> None:
    """Add one read to every passage of an answer, and one to every pair of its first ones."""
    refs = json.dumps(sorted({ref for answer in answers for ref in answer}))
    countable = {ref for (ref,) in rows(connection, _COUNTABLE, (refs,))}
    for answer in answers:
        read = [ref for ref in dict.fromkeys(answer) if ref in countable]
        connection.executemany(_READ, [(ref, now // DAY_MS, now) for ref in read])
        pairs = combinations(sorted(read[:MOST_PAIRED]), 2)
        connection.executemany(_TOGETHER, [(*pair, now) for pair in pairs])


def uses(connection: apsw.Connection, refs: Sequence[Ref], now: int) -> dict[Ref, Use]:
    """Return how these passages were read, alone and together; unread ones are absent."""
    wanted = (json.dumps(list(refs)),)
    read = {ref: Use(*row) for ref, *row in _numbers(connection, _USES, wanted)}
    entities = {document: ref for ref, document in rows(connection, _ENTITIES, wanted)}
    if entities:
        for document, degree in rows(connection, _DEGREES, (json.dumps(list(entities)), now)):
            if degree:
                ref = entities[document]
                read[ref] = read.get(ref, Use())._replace(degree=degree)
    company: dict[Ref, dict[Ref, tuple[int, int]]] = {}
    for first, second, times, last in _numbers(connection, _PAIRS_AMONG, wanted):
        company.setdefault(first, {})[second] = (times, last)
        company.setdefault(second, {})[first] = (times, last)
    for ref, together in company.items():
        read[ref] = read.get(ref, Use())._replace(together=together)
    return read


def _numbers(connection: apsw.Connection, sql: str, values: tuple[str]) -> list[SQLRow]:
    """Return the rows that are numbers; what is damaged counts as unread."""
    listed = rows(connection, sql, values)
    return [row for row in listed if all(isinstance(value, int) for value in row)]


def keep(connection: apsw.Connection, document: int) -> Kept | None:
    """Return what is known about the use of a document's first passage, before it is replaced."""
    ref = connection.execute(_FIRST_PASSAGE, (document,)).get
    if ref is None:
        return None
    read = rows(
        connection,
        "SELECT reads, days, last_day, last_read FROM signals WHERE passage = ?",
        (ref,),
    )
    pairs = [
        (other if first == ref else first, times, last)
        for first, other, times, last in rows(connection, _PAIRS_OF, (ref,))
    ]
    return Kept(ref, read, pairs)


def hand_on(connection: apsw.Connection, kept: Kept, document: int) -> None:
    """Give the first passage of a document the use of the one that it replaces."""
    ref = connection.execute(_FIRST_PASSAGE, (document,)).get
    if ref is None or ref == kept.ref:
        return
    for row in kept.reads:
        connection.execute(
            "INSERT INTO signals (passage, reads, days, last_day, last_read) "
            "VALUES (?, ?, ?, ?, ?)",
            (ref, *row),
        )
    connection.executemany(
        "INSERT INTO signal_pairs (one, other, times, last_read) VALUES (?, ?, ?, ?)",
        [(min(ref, mate), max(ref, mate), times, last) for mate, times, last in kept.pairs],
    )
