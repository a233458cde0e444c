"""Passages that may be near duplicates of a new text, see `plait.stores.sqlite.resembling`."""

import math
from collections.abc import Sequence

from plait.protocols import Scored
from plait.stores.postgres.connection import Channel, SQLRow
from plait.stores.postgres.documents import AMONG, JOINED
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.terms import terms_of
from plait.stores.sqlite.resembling import (
    FACTS_COMPARED,
    FEW_RARE_WORDS,
    JOINED_GROUPS,
    JOINED_WORDS,
    MOST_RARE_WORDS,
    MOST_TESTED,
    RARE_IN_PASSAGES,
)
from plait.types import Ref
from plait.types.queries import Query

# The passages with each rare word, the newest first; of a word that more have, none.
_HOLDING = (
    "SELECT q.term, CASE WHEN count(*) <= %(most)s THEN array_agg(t.ref ORDER BY t.ref DESC) END "
    "FROM unnest(%(terms)s::text[]) AS q (term) CROSS JOIN LATERAL "
    "(SELECT t.ref FROM plait.postings AS t WHERE t.ns = %(ns)s AND t.term = q.term "
    "ORDER BY t.ref DESC LIMIT %(most)s + 1) AS t GROUP BY q.term"
)
_PASSAGES = "SELECT passages FROM plait.namespaces WHERE ns = %(ns)s"
_TOGETHER = (
    "SELECT t.ref FROM plait.postings AS t WHERE t.ns = %(ns)s AND t.term = ANY(%(terms)s) "
    "GROUP BY t.ref HAVING count(*) = %(count)s ORDER BY t.ref DESC LIMIT %(limit)s"
)
# The longer a word, the rarer; see `plait.stores.sqlite.resembling`. Nothing if there are many.
_OF_FACTS = (
    f"WITH f AS MATERIALIZED (SELECT p.ref, p.text FROM {JOINED} AND {{conditions}} "  # noqa: S608
    f"LIMIT {FACTS_COMPARED + 1}) SELECT f.ref, sum(w.length)::float8 FROM f "
    "JOIN unnest(%(words)s::text[], %(lengths)s::int[]) AS w (word, length) "
    'ON strpos(lower(f.text COLLATE "C"), w.word) > 0 GROUP BY f.ref '
    "UNION ALL SELECT NULL, count(*) FROM f ORDER BY 2 DESC, 1 DESC"
)


def by_rare_words(session: Channel, query: Query, limit: int, where: Conditions) -> list[Scored]:
    """Return the passages that share most of the rarest words, best first."""
    if where.of_parents:
        words = {"words": list(query.words), "lengths": [len(word) for word in query.words]}
        rows = session.rows(where.stated(_OF_FACTS), where.values, **words)
        if any(ref is None and count <= FACTS_COMPARED for ref, count in rows):
            return [(ref, shared) for ref, shared in rows if ref is not None][:limit]
    scores = _shared(session, query)
    ranked = sorted(scores.items(), key=lambda pair: (-pair[1], -pair[0]))[:MOST_TESTED]
    rows = session.rows(where.stated(AMONG), where.values, refs=[ref for ref, _ in ranked])
    passing = {ref for (ref,) in rows}
    return [pair for pair in ranked if pair[0] in passing][:limit]


def _shared(session: Channel, query: Query) -> dict[Ref, float]:
    """Return passages with rare words, and how much the words weigh that each of them shares."""
    words = sorted(dict.fromkeys(query.words), key=len, reverse=True)
    terms = {word: terms_of(word) for word in words}
    single = {word: own[0] for word, own in terms.items() if len(own) == 1}
    values = {"terms": list(dict.fromkeys(single.values())), "most": RARE_IN_PASSAGES}
    listed, [(passages,)] = session.together((_HOLDING, values), (_PASSAGES, {}))
    holding: dict[str, list[Ref] | None] = dict(listed)
    scores: dict[Ref, float] = {}
    common: list[str] = []
    rare = 0
    for word in words:
        refs = holding.get(single.get(word, ""), [])
        if refs is None:
            common.append(single[word])
        elif refs:
            rare += 1
            _count(scores, refs, math.log(1 + passages / len(refs)))
            if rare == MOST_RARE_WORDS:
                break
    if rare < FEW_RARE_WORDS:
        weight = math.log(1 + passages / (10 * RARE_IN_PASSAGES))
        groups = [
            sorted({*common[place : place + JOINED_WORDS]})
            for place in range(min(JOINED_GROUPS, max(1, len(common) - 1)))
        ]
        groups = [group for group in groups if group]
        if groups:
            for group, rows in zip(groups, _with_all(session, groups), strict=True):
                _count(scores, [ref for (ref,) in rows], len(group) * weight)
    return scores


def _with_all(session: Channel, groups: Sequence[Sequence[str]]) -> list[list[SQLRow]]:
    """Return the newest passages that have all words of a group, for each group."""
    limit = RARE_IN_PASSAGES
    return session.together(
        *((_TOGETHER, {"terms": group, "count": len(group), "limit": limit}) for group in groups)
    )


def _count(scores: dict[Ref, float], refs: Sequence[Ref], weight: float) -> None:
    for ref in refs:
        scores[ref] = scores.get(ref, 0.0) + weight
