"""Keyword search among a few passages: words are also weighted by their rarity among them.

In a conversation every message names the speakers; in the whole memory their names are rare, and
BM25 would rank by them. FTS5 knows the whole memory only, so each word is ranked by itself and its
weight is corrected.
"""

import json
import math
from collections.abc import Collection

import apsw

from plait.protocols import Scored
from plait.stores.sqlite import analysis, keyword
from plait.stores.sqlite.connection import rows
from plait.types import Ref
from plait.types.queries import Query

# How much the rarity among these passages counts beside that in the whole memory. From
# benchmarks/quality.md: 1 is as good with vectors, and worse by keywords alone.
LOCAL_SHARE = 0.7
# FTS5's own minimum is a millionth; dividing by that would magnify its rounding.
LEAST_IDF = 0.05

_ONE_WORD = (
    f"SELECT rowid, {keyword.SCORE} FROM passages_fts WHERE passages_fts MATCH ? "  # noqa: S608
    "AND rowid BETWEEN ? AND ?"
)
# subtle: the unary plus keeps SQLite from running one full-text query per listed passage.
_AMONG = " AND +rowid IN (SELECT value FROM json_each(?))"


def best(
    connection: apsw.Connection, query: Query, refs: Collection[Ref], limit: int
) -> list[Scored]:
    """Return the best of these passages by BM25, with words weighted by their rarity among them."""
    sql, values = _ONE_WORD, [min(refs), max(refs)]
    listed = [] if values[1] - values[0] + 1 == len(refs) else [json.dumps(list(refs))]
    if listed:
        sql += _AMONG
    passages, holding = keyword.passage_count(connection), _holding(connection, query)
    scores: dict[Ref, float] = {}
    for word in keyword.operands(query):
        hits: list[Scored]
        if holding.get(word, 0) > keyword.PLAIN_OR_MATCHES:
            from plait.stores.sqlite.frequent import of_word

            hits = of_word(connection, word, holding[word], refs)
        else:
            hits = rows(connection, sql, (word, *values, *listed))
        weight = 1.0
        if word in holding:
            weight = reweighed(passages, holding[word], len(refs), len(hits))
        for ref, score in hits:
            scores[ref] = scores.get(ref, 0.0) + weight * score
    ranked = sorted((-score, ref) for ref, score in scores.items())
    return [(ref, -negative) for negative, ref in ranked[:limit]]


def _holding(connection: apsw.Connection, query: Query) -> dict[str, int]:
    """Return how many passages contain each operand; words of several terms are absent."""
    term_of = {
        keyword.quote(word): tokens[0][2]
        for word in query.words
        if len(tokens := analysis.tokens(connection, word)) == 1
    }
    counts = keyword.frequencies(connection, set(term_of.values()))
    boosts = map(keyword.compile_expression, query.boosts)
    return {
        **{word: counts[term] for word, term in term_of.items()},
        **{boost: connection.execute(keyword.HOLDING, (boost,)).get for boost in boosts},
    }


def reweighed(passages: int, holding: int, few: int, of_few: int) -> float:
    """Return the factor for a word's BM25, given how many of all and of these passages hold it.

    >>> reweighed(1000, 10, 100, 1) == 1.0
    False
    >>> round(reweighed(1000, 10, 100, 90), 2)
    0.31
    """
    general = _idf(passages, holding)
    return (LOCAL_SHARE * _idf(few, of_few) + (1.0 - LOCAL_SHARE) * general) / general


def _idf(passages: int, holding: int) -> float:
    """Return FTS5's idf (https://sqlite.org/fts5.html#the_bm25_function), but never nearly 0."""
    return max(LEAST_IDF, math.log(max(passages - holding, 0) + 0.5) - math.log(holding + 0.5))
