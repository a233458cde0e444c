"""Keyword search among a few passages: how rare a word is there counts, not only at large.

In a conversation both speakers' names stand everywhere; in the whole memory they are rare words,
and BM25 would rank by them. FTS5 knows the whole memory only, so each word is ranked by itself and
weighed anew.
"""

import json
import math
from collections.abc import Collection, Sequence

import apsw

from plait.protocols import Scored
from plait.stores.sqlite import fts, terms
from plait.stores.sqlite.rows import rows
from plait.types import Ref

# How much the rarity among these passages counts beside the one at large. From
# benchmarks/quality.md: 1 is as good with vectors, and worse by keywords alone.
LOCAL_SHARE = 0.7
# FTS5's own least is a millionth. Weighing anew divides by it, and what is divided by is rounded.
LEAST_IDF = 0.05
# One statement a word; a longer question is an excerpt, and FTS5's own weights serve it.
MOST_WORDS = 16
# Every statement reads the list of passages again: 0.1 ms a thousand.
MOST_PASSAGES = 1_000

_ONE_WORD = (
    f"SELECT rowid, {fts.SCORE} FROM passages_fts WHERE passages_fts MATCH ? "  # noqa: S608
    "AND rowid BETWEEN ? AND ?"
)
# subtle: the unary plus keeps SQLite from running one full-text query per listed passage.
_AMONG = " AND +rowid IN (SELECT value FROM json_each(?))"


def suits(words: Sequence[str], refs: Collection[Ref]) -> bool:
    """Whether so many words among so many passages are worth weighing anew."""
    return len(words) <= MOST_WORDS and 0 < len(refs) <= MOST_PASSAGES


def best(
    connection: apsw.Connection, words: Sequence[str], refs: Collection[Ref], limit: int
) -> list[Scored]:
    """The best of these passages by BM25, with words weighed by their rarity among them."""
    sql, values = _ONE_WORD, [min(refs), max(refs)]
    listed = [] if values[1] - values[0] + 1 == len(refs) else [json.dumps(list(refs))]
    if listed:
        sql += _AMONG
    passages, holding = terms.passage_count(connection), _holding(connection, words)
    scores: dict[Ref, float] = {}
    for word in words:
        found: list[Scored] = rows(connection, sql, (fts.quote(word), *values, *listed))
        weight = 1.0
        if word in holding:
            weight = reweighed(passages, holding[word], len(refs), len(found))
        for ref, score in found:
            scores[ref] = scores.get(ref, 0.0) + weight * score
    ranked = sorted((-score, ref) for ref, score in scores.items())
    return [(ref, -negative) for negative, ref in ranked[:limit]]


def _holding(connection: apsw.Connection, words: Sequence[str]) -> dict[str, int]:
    """How many passages hold each word; absent are those that FTS5 reads as several."""
    term_of = {
        word: found[0][2] for word in words if len(found := terms.tokens(connection, word)) == 1
    }
    counts = terms.frequencies(connection, set(term_of.values()))
    return {word: counts[term] for word, term in term_of.items()}


def reweighed(passages: int, holding: int, few: int, of_few: int) -> float:
    """What to multiply a word's BM25 by, given how many of all and of these passages hold it.

    >>> reweighed(1000, 10, 100, 1) == 1.0
    False
    >>> round(reweighed(1000, 10, 100, 90), 2)
    0.31
    """
    at_large = _idf(passages, holding)
    return (LOCAL_SHARE * _idf(few, of_few) + (1.0 - LOCAL_SHARE) * at_large) / at_large


def _idf(passages: int, holding: int) -> float:
    """FTS5's own (https://sqlite.org/fts5.html#the_bm25_function), but never nearly nothing."""
    return max(LEAST_IDF, math.log(max(passages - holding, 0) + 0.5) - math.log(holding + 0.5))
