"""How passages were used: reads, days and company, inside a caller's transaction.

Only what is trusted is counted: otherwise a planted text that is recalled once would rise by that.
"""

import json
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import apsw

from plait.protocols import Use, Uses
from plait.stores.sqlite.rows import rows
from plait.types import Ref

DAY_MS = 24 * 3600 * 1000
# Passages of one answer of which every pair is counted: pairs grow with the square.
COMPANY = 10

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
_COMPANY = (
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


class Kept(NamedTuple):
    """All that is known of one passage's use, while it is written anew under another number."""

    reads: Sequence[tuple[int, ...]]
    pairs: Sequence[tuple[int, int, int]]


def count(connection: apsw.Connection, answers: Sequence[Sequence[Ref]], now: int) -> None:
    """Add one read to every passage of an answer, and one to every pair of its first ones."""
    every = json.dumps(sorted({ref for answer in answers for ref in answer}))
    countable = {ref for (ref,) in rows(connection, _COUNTABLE, (every,))}
    for answer in answers:
        read = [ref for ref in dict.fromkeys(answer) if ref in countable]
        connection.executemany(_READ, [(ref, now // DAY_MS, now) for ref in read])
        pairs = combinations(sorted(read[:COMPANY]), 2)
        connection.executemany(_TOGETHER, [(*pair, now) for pair in pairs])


def uses(connection: apsw.Connection, refs: Sequence[Ref], now: int) -> Uses:
    """How these passages were used, alone and together."""
    wanted = (json.dumps(list(refs)),)
    found = {ref: Use(*row) for ref, *row in rows(connection, _USES, wanted)}
    entities = {document: ref for ref, document in rows(connection, _ENTITIES, wanted)}
    if entities:
        for document, degree in rows(connection, _DEGREES, (json.dumps(list(entities)), now)):
            ref = entities[document]
            found[ref] = found.get(ref, Use())._replace(degree=degree)
    together = {
        (one, other): (n, last) for one, other, n, last in rows(connection, _COMPANY, wanted)
    }
    return Uses(found, together)


def keep(connection: apsw.Connection, ref: Ref) -> Kept:
    """What must survive that a passage is replaced by its next version."""
    read = rows(
        connection,
        "SELECT reads, days, last_day, last_read FROM signals WHERE passage = ?",
        (ref,),
    )
    pairs = [
        (other if one == ref else one, times, last)
        for one, other, times, last in rows(connection, _PAIRS_OF, (ref,))
    ]
    return Kept(read, pairs)


def hand_on(connection: apsw.Connection, kept: Kept, ref: Ref) -> None:
    """Give a passage the use of the one that it replaces."""
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
