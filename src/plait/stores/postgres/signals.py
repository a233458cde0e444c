"""How passages were used: reads, days, and read with which others, in a caller's transaction.

Only trusted passages are counted: a planted text must not rise because it was recalled.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from plait.protocols import PassageUse, Use
from plait.stores.postgres.connection import Channel, SQLRow
from plait.stores.postgres.documents import JOINED
from plait.stores.sqlite.signals import MOST_PAIRED, Kept
from plait.times import DAY_MS
from plait.types import Ref

_KEPT = ("reads", "days", "last_day", "last_read", "good", "wrong")
_PAIR = 2
_COUNTABLE = f"SELECT p.ref FROM {JOINED} AND p.ref = ANY(%(refs)s) AND d.trust = 'trusted'"  # noqa: S608
# Who sees two passages sees that they were read together; of two circles of people, nobody does.
_OF_BOTH = "CASE WHEN a.label = 0 THEN b.label ELSE a.label END"
_SEEN_TOGETHER = "(a.label = 0 OR b.label IN (0, a.label))"
# A clock that was set back neither adds a day nor makes the last use older.
_READ = (
    "INSERT INTO plait.signals AS s (ns, ref, label, reads, days, last_day, last_read) "
    "SELECT %(ns)s, p.ref, p.label, 1, 1, %(day)s, %(now)s FROM plait.passages AS p "
    "WHERE p.ns = %(ns)s AND p.ref = ANY(%(refs)s) "
    "ON CONFLICT (ns, ref, label) DO UPDATE SET reads = s.reads + 1, "
    "days = s.days + (excluded.last_day > s.last_day)::int, "
    "last_day = greatest(s.last_day, excluded.last_day), "
    "last_read = greatest(s.last_read, excluded.last_read)"
)
_TOGETHER = (
    "INSERT INTO plait.signal_pairs AS s (ns, one, other, label, times, last_read) "  # noqa: S608
    f"SELECT %(ns)s, v.one, v.other, {_OF_BOTH}, 1, %(now)s "
    "FROM unnest(%(ones)s::bigint[], %(others)s::bigint[]) AS v (one, other) "
    "JOIN plait.passages AS a ON a.ns = %(ns)s AND a.ref = v.one "
    f"JOIN plait.passages AS b ON b.ns = %(ns)s AND b.ref = v.other WHERE {_SEEN_TOGETHER} "
    "ON CONFLICT (ns, one, other, label) DO UPDATE SET times = s.times + 1, "
    "last_read = greatest(s.last_read, excluded.last_read)"
)
# What was never read has a row without days as soon as somebody judges it.
_JUDGED = (
    "INSERT INTO plait.signals AS s (ns, ref, label, reads, days, last_day, last_read, good, wrong)"
    " SELECT %(ns)s, p.ref, p.label, 0, 0, -1, 0, %(good)s, %(wrong)s FROM plait.passages AS p "
    "WHERE p.ns = %(ns)s AND p.ref = ANY(%(refs)s) ON CONFLICT (ns, ref, label) DO UPDATE "
    "SET good = s.good + excluded.good, wrong = s.wrong + excluded.wrong"
)
_UNJUDGED = "UPDATE plait.signals SET good = 0, wrong = 0 WHERE ns = %(ns)s AND ref = ANY(%(refs)s)"
_FORGET_EMPTY = (
    "DELETE FROM plait.signals WHERE ns = %(ns)s AND reads = 0 AND good = 0 AND wrong = 0 "
    "AND ref = ANY(%(refs)s)"
)
USES = (
    "SELECT ref, reads, days, last_read, good, wrong FROM plait.signals "
    "WHERE ns = %(ns)s AND ref = ANY(%(refs)s)"
)
PAIRS = (
    "SELECT one, other, times, last_read FROM plait.signal_pairs "
    "WHERE ns = %(ns)s AND one = ANY(%(refs)s) AND other = ANY(%(refs)s)"
)
DEGREES = (
    f"SELECT p.ref, (SELECT count(*) FROM plait.relations AS r WHERE r.ns = %(ns)s "  # noqa: S608
    "AND r.source = d.place AND (r.valid_to IS NULL OR r.valid_to > %(now)s)) + (SELECT count(*) "
    "FROM plait.relations AS r WHERE r.ns = %(ns)s AND r.target = d.place "
    "AND (r.valid_to IS NULL OR r.valid_to > %(now)s)) "
    f"FROM {JOINED} AND p.ref = ANY(%(refs)s) AND d.kind = 'entity'"
)
ANY_USE = "SELECT 1 FROM plait.signals WHERE ns = %(ns)s LIMIT 1"
_OF_DOCUMENT = (
    f"SELECT p.id, {', '.join(f's.{name}' for name in _KEPT)} FROM plait.documents AS d "  # noqa: S608
    "JOIN plait.passages AS p ON p.ns = %(ns)s AND p.document = d.place "
    "JOIN plait.signals AS s ON s.ns = %(ns)s AND s.ref = p.ref "
    "WHERE d.ns = %(ns)s AND d.id = %(id)s"
)
# Of a text that all see, no passage that only some see: the trash names both.
_TOGETHER_WITH = (
    "SELECT a.id || ' ' || b.id, t.times, t.last_read FROM plait.documents AS d "
    "JOIN plait.passages AS p ON p.ns = %(ns)s AND p.document = d.place "
    "JOIN plait.signal_pairs AS t ON t.ns = %(ns)s AND (t.one = p.ref OR t.other = p.ref) "
    "JOIN plait.passages AS a ON a.ns = %(ns)s AND a.ref = t.one "
    "JOIN plait.passages AS b ON b.ns = %(ns)s AND b.ref = t.other "
    "WHERE d.ns = %(ns)s AND d.id = %(id)s AND t.label = d.label"
)
_RESTORE = (
    f"INSERT INTO plait.signals (ns, ref, label, {', '.join(_KEPT)}) "  # noqa: S608
    f"SELECT %(ns)s, p.ref, p.label, {', '.join(f'%({name})s' for name in _KEPT)} "
    "FROM plait.passages AS p WHERE p.ns = %(ns)s AND p.id = %(id)s "
    "AND p.document = %(document)s ON CONFLICT DO NOTHING"
)
_RESTORE_PAIR = (
    "INSERT INTO plait.signal_pairs (ns, one, other, label, times, last_read) "  # noqa: S608
    f"SELECT %(ns)s, least(a.ref, b.ref), greatest(a.ref, b.ref), {_OF_BOTH}, %(times)s, %(last)s "
    "FROM plait.passages AS a JOIN plait.passages AS b ON b.ns = %(ns)s AND b.id = %(second)s "
    f"WHERE a.ns = %(ns)s AND a.id = %(first)s AND a.ref <> b.ref AND {_SEEN_TOGETHER} "
    "AND %(document)s IN (a.document, b.document) ON CONFLICT DO NOTHING"
)
_ARE_THERE = "SELECT count(*) FROM plait.passages WHERE ns = %(ns)s AND id = ANY(%(ids)s)"
_FIRST = (
    "SELECT ref FROM plait.passages WHERE ns = %(ns)s AND document = %(document)s "
    "ORDER BY ordinal LIMIT 1"
)
_OF_REF = f"SELECT {', '.join(_KEPT)} FROM plait.signals WHERE ns = %(ns)s AND ref = %(ref)s"  # noqa: S608
_PAIRS_OF = (
    "SELECT one, other, times, last_read FROM plait.signal_pairs "
    "WHERE ns = %(ns)s AND (one = %(ref)s OR other = %(ref)s)"
)
_ADD = (
    f"INSERT INTO plait.signals (ns, ref, label, {', '.join(_KEPT)}) "  # noqa: S608
    f"SELECT %(ns)s, p.ref, p.label, {', '.join(f'%({name})s' for name in _KEPT)} "
    "FROM plait.passages AS p WHERE p.ns = %(ns)s AND p.ref = %(ref)s"
)
_ADD_PAIR = (
    "INSERT INTO plait.signal_pairs (ns, one, other, label, times, last_read) "  # noqa: S608
    f"SELECT %(ns)s, a.ref, b.ref, {_OF_BOTH}, %(times)s, %(last)s FROM plait.passages AS a "
    "JOIN plait.passages AS b ON b.ns = %(ns)s AND b.ref = %(other)s "
    f"WHERE a.ns = %(ns)s AND a.ref = %(one)s AND {_SEEN_TOGETHER}"
)


def count(session: Channel, answers: Sequence[Sequence[Ref]], now: int) -> None:
    """Add one read to every passage of an answer, and one to every pair of its first ones."""
    refs = sorted({ref for answer in answers for ref in answer})
    countable = {ref for (ref,) in session.rows(_COUNTABLE, refs=refs)}
    for answer in answers:
        read = [ref for ref in dict.fromkeys(answer) if ref in countable]
        pairs = list(combinations(sorted(read[:MOST_PAIRED]), 2))
        if read:
            session.execute(_READ, refs=read, day=now // DAY_MS, now=now)
        if pairs:
            ones, others = map(list, zip(*pairs, strict=True))
            session.execute(_TOGETHER, ones=ones, others=others, now=now)


def judge(session: Channel, refs: Sequence[Ref], good: int, wrong: int) -> None:
    """Add to the feedback on passages; nothing of both takes all of it back."""
    wanted = sorted({*refs})
    if good or wrong:
        session.execute(_JUDGED, refs=wanted, good=good, wrong=wrong)
    else:
        session.execute(_UNJUDGED, refs=wanted)
        session.execute(_FORGET_EMPTY, refs=wanted)


def uses(
    read: Sequence[SQLRow], pairs: Sequence[SQLRow], degrees: Sequence[SQLRow]
) -> dict[Ref, Use]:
    """Return how passages were read, alone and together; unread ones are absent."""
    listed = {
        ref: Use(reads, days, last or None, good=max(0, good), wrong=max(0, wrong))
        for ref, reads, days, last, good, wrong in read
    }
    for ref, degree in degrees:
        if degree:
            listed[ref] = listed.get(ref, Use())._replace(degree=degree)
    company: dict[Ref, dict[Ref, tuple[int, int]]] = {}
    for first, second, times, last in pairs:
        company.setdefault(first, {})[second] = (times, last)
        company.setdefault(second, {})[first] = (times, last)
    for ref, together in company.items():
        listed[ref] = listed.get(ref, Use())._replace(together=together)
    return listed


def of_document(session: Channel, document: str) -> dict[str, tuple[int, ...]]:
    """Return how the passages of a document were read and judged, alone and with others."""
    listed = session.rows(_OF_DOCUMENT, id=document)
    if listed:  # what was never read was not read with others
        listed += session.rows(_TOGETHER_WITH, id=document)
    return {id_: tuple(row) for id_, *row in listed}


def restore(session: Channel, document: int, use: PassageUse) -> None:
    """Give passages that came back what is known about their use."""
    for id_, row in use.items():
        ids = id_.split(" ")
        if len(ids) == 1 and len(row) == len(_KEPT):
            values: dict[str, Any] = dict(zip(_KEPT, row, strict=True))
            session.execute(_RESTORE, values, id=id_, document=document)
        elif len(ids) == len(row) == _PAIR:
            if session.value(_ARE_THERE, ids=ids) == _PAIR:
                values = {"first": ids[0], "second": ids[1], "times": row[0], "last": row[1]}
                session.execute(_RESTORE_PAIR, values, document=document)
            else:
                from plait.stores.postgres.trash import wait_for

                wait_for(session, document, ids, id_, row)


def keep(session: Channel, document: int) -> Kept | None:
    """Return what is known about the use of a document's first passage, before it is replaced."""
    ref = session.value(_FIRST, document=document)
    if ref is None:
        return None
    pairs = [
        (other if first == ref else first, times, last)
        for first, other, times, last in session.rows(_PAIRS_OF, ref=ref)
    ]
    return Kept(ref, session.rows(_OF_REF, ref=ref), pairs)


def hand_on(session: Channel, kept: Kept, document: int) -> None:
    """Give the first passage of a document the use of the one that it replaces."""
    ref = session.value(_FIRST, document=document)
    if ref is None or ref == kept.ref:
        return
    for row in kept.reads:
        session.execute(_ADD, dict(zip(_KEPT, row, strict=True)), ref=ref)
    for mate, times, last in kept.pairs:
        ends = {"one": min(ref, mate), "other": max(ref, mate)}
        session.execute(_ADD_PAIR, ends, times=times, last=last)
