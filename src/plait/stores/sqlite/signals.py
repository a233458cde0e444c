"""How passages were used: reads, days, and read with which others, in a caller's transaction.

Only trusted passages are counted: a planted text must not rise because it was recalled.
"""

import json
from collections.abc import Sequence
from itertools import combinations

import apsw

from plait.protocols import PassageUse, Use
from plait.stores.sqlite.connection import SQLRow, rows
from plait.times import DAY_MS
from plait.types import Ref
from plait.types.records import NamedTuple

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
    "SELECT passage, reads, days, last_read, good, wrong FROM signals "
    "WHERE passage IN (SELECT value FROM json_each(?))"
)
# What was never read has a row without days as soon as somebody judges it.
_JUDGED = (
    "INSERT INTO signals (passage, reads, days, last_day, last_read, good, wrong) "
    "SELECT value, 0, 0, -1, 0, ?2, ?3 FROM json_each(?1) "
    "WHERE value IN (SELECT rowid FROM passages) "
    "ON CONFLICT (passage) DO UPDATE SET good = good + excluded.good, "
    "wrong = wrong + excluded.wrong"
)
_UNJUDGED = (
    "UPDATE signals SET good = 0, wrong = 0 WHERE passage IN (SELECT value FROM json_each(?))"
)
_FORGET_EMPTY = (
    "DELETE FROM signals WHERE reads = 0 AND good = 0 AND wrong = 0 "
    "AND passage IN (SELECT value FROM json_each(?))"
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
_KEPT = "reads, days, last_day, last_read, good, wrong"
_WIDTH = 6
_PAIR = 2
_OF_DOCUMENT = (
    f"SELECT p.id, {_KEPT} FROM documents AS d JOIN passages AS p "  # noqa: S608
    "ON p.document = d.rowid JOIN signals AS s ON s.passage = p.rowid WHERE d.id = ?"
)
_RESTORE = (
    f"INSERT INTO signals (passage, {_KEPT}) SELECT rowid, ?, ?, ?, ?, ?, ? "  # noqa: S608
    "FROM passages WHERE id = ? AND document = ? ON CONFLICT (passage) DO NOTHING"
)
# CROSS, because an order that SQLite chooses itself may begin with all pairs.
_TOGETHER_WITH = (
    "SELECT p.id || ' ' || mate.id, t.times, t.last_read FROM documents AS d "
    "CROSS JOIN passages AS p ON p.document = d.rowid "
    "CROSS JOIN signal_pairs AS t ON t.one = p.rowid "
    "CROSS JOIN passages AS mate ON mate.rowid = t.other WHERE d.id = ?1 UNION ALL "
    "SELECT mate.id || ' ' || p.id, t.times, t.last_read FROM documents AS d "
    "CROSS JOIN passages AS p ON p.document = d.rowid "
    "CROSS JOIN signal_pairs AS t ON t.other = p.rowid "
    "CROSS JOIN passages AS mate ON mate.rowid = t.one WHERE d.id = ?1"
)
_RESTORE_PAIR = (
    "INSERT INTO signal_pairs (one, other, times, last_read) "
    "SELECT min(a.rowid, b.rowid), max(a.rowid, b.rowid), ?1, ?2 "
    "FROM passages AS a, passages AS b "
    "WHERE a.id = ?3 AND b.id = ?4 AND a.rowid <> b.rowid AND ?5 IN (a.document, b.document) "
    "ON CONFLICT (one, other) DO NOTHING"
)
_IS_THERE = "SELECT count(*) FROM passages WHERE id IN (?, ?)"
# What was read with a passage that is still deleted waits for that one.
_WAIT = (
    "UPDATE trash SET document = json_set(document, '$.use.\"' || ?1 || '\"', json_array(?2, ?3)) "
    "WHERE id IN (SELECT t.id FROM trash AS t, json_each(CASE WHEN json_valid(t.document) "
    "THEN t.document ELSE '{}' END, '$.names') AS n WHERE n.value IN (?4, ?5))"
)
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


def judge(connection: apsw.Connection, refs: Sequence[Ref], good: int, wrong: int) -> None:
    """Add to the feedback on passages; nothing of both takes all of it back."""
    wanted = json.dumps(sorted({*refs}))
    if good or wrong:
        connection.execute(_JUDGED, (wanted, good, wrong))
    else:
        connection.execute(_UNJUDGED, (wanted,))
        connection.execute(_FORGET_EMPTY, (wanted,))


def uses(connection: apsw.Connection, refs: Sequence[Ref], now: int) -> dict[Ref, Use]:
    """Return how these passages were read, alone and together; unread ones are absent."""
    wanted = (json.dumps(list(refs)),)
    read = {
        ref: Use(reads, days, last or None, good=max(0, good), wrong=max(0, wrong))
        for ref, reads, days, last, good, wrong in _numbers(connection, _USES, wanted)
    }
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


def of_document(connection: apsw.Connection, document: str) -> dict[str, tuple[int, ...]]:
    """Return how the passages of a document were read and judged, alone and with others."""
    listed = rows(connection, _OF_DOCUMENT, (document,))
    if listed:  # what was never read was not read with others
        listed += rows(connection, _TOGETHER_WITH, (document,))
    return {id_: tuple(row) for id_, *row in _numbered(listed)}


def _numbered(listed: Sequence[SQLRow]) -> list[SQLRow]:
    return [row for row in listed if all(isinstance(value, int) for value in row[1:])]


def restore(connection: apsw.Connection, document: int, use: PassageUse) -> None:
    """Give passages that came back what is known about their use."""
    for id_, row in use.items():
        ids = id_.split(" ")
        if not all(isinstance(value, int) for value in row):
            continue
        if len(ids) == 1 and len(row) == _WIDTH:
            connection.execute(_RESTORE, (*row, id_, document))
        elif len(ids) == len(row) == _PAIR:
            if connection.execute(_IS_THERE, ids).get == _PAIR:
                connection.execute(_RESTORE_PAIR, (*row, *ids, document))
            else:
                connection.execute(_WAIT, (id_, *row, *ids))


def keep(connection: apsw.Connection, document: int) -> Kept | None:
    """Return what is known about the use of a document's first passage, before it is replaced."""
    ref = connection.execute(_FIRST_PASSAGE, (document,)).get
    if ref is None:
        return None
    read = rows(
        connection,
        "SELECT reads, days, last_day, last_read, good, wrong FROM signals WHERE passage = ?",
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
            "INSERT INTO signals (passage, reads, days, last_day, last_read, good, wrong) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (ref, *row),
        )
    connection.executemany(
        "INSERT INTO signal_pairs (one, other, times, last_read) VALUES (?, ?, ?, ?)",
        [(min(ref, mate), max(ref, mate), times, last) for mate, times, last in kept.pairs],
    )
