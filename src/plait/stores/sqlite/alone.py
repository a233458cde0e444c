"""Keyword search among some passages as if there were no others.

FTS5 weighs words by how common they are in the whole file, and lengths by the average of the whole
file. Whoever may see only a part of it must not learn from the order what the rest says, nor get
another order when the rest changes. So each word is ranked by itself, FTS5's formula
(https://sqlite.org/fts5.html#the_bm25_function) is solved for the number of occurrences, and
applied again with the numbers of these passages.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import apsw

from plait.protocols import Scored, Token
from plait.stores.sqlite import filters, keyword
from plait.stores.sqlite.connection import rows
from plait.types import Ref
from plait.types.queries import Query, Vocabulary

# FTS5's constants (https://sqlite.org/fts5.html#the_bm25_function); the last is the idf of a term
# that at least half of the passages contain.
K1 = 1.2
B = 0.75
LEAST_IDF = 1e-6
# For these passages: a word that most of them have still counts a little.
LEAST_OWN_IDF = 0.05

_MATCHING = (
    f"SELECT rowid, {keyword.SCORE} FROM passages_fts WHERE passages_fts MATCH ? "  # noqa: S608
    "AND rowid BETWEEN ? AND ? AND +rowid IN (SELECT value FROM json_each(?))"
)
_IDS = "SELECT rowid FROM passages_fts WHERE passages_fts MATCH ?"
_TOTALS = "SELECT block FROM passages_fts_data WHERE id = 1"
_LENGTHS = "SELECT id, sz FROM passages_fts_docsize WHERE id IN (SELECT value FROM json_each(?))"


def best(
    connection: apsw.Connection, query: Query, refs: Collection[Ref], limit: int
) -> list[Scored]:
    """Return the best of these passages by a BM25 that knows only them."""
    among = (min(refs), max(refs), json.dumps(list(refs)))
    scores: dict[Ref, float] = {}
    if query.expression is not None:
        matching = keyword.compile_expression(query.expression)
        scores = {ref: 0.0 for ref, _ in rows(connection, _MATCHING, (matching, *among))}
    operands = keyword.operands(query)
    _add_words(connection, operands, among, len(refs), scores, any_ref=query.expression is None)
    ranked = sorted((-score, ref) for ref, score in scores.items())
    return [(ref, -negative) for negative, ref in ranked[:limit]]


def vocabulary(
    connection: apsw.Connection,
    terms: Mapping[str, Sequence[Token]],
    begun: Mapping[str, str],
    selections: filters.Selections,
    conditions: list[filters.Clause],
) -> Vocabulary:
    """Return how many of the passages that meet the conditions contain each of some words."""
    refs = selections.find(connection, conditions, keyword.passage_count(connection)).refs
    among = set(filters.passing(connection, conditions) if refs is None else refs)
    holding = {term: 0 for listed in terms.values() for _, _, term in listed}
    # Only the ids: neither a score nor a row of any passage is needed to count.
    for word, listed in terms.items():
        if not listed:
            continue
        match = keyword.quote(word)
        if word in begun:
            match = keyword.either_form(word, begun[word])
        matching = rows(connection, _IDS, (match,))
        count = sum(ref in among for (ref,) in matching) if among else 0
        for _, _, term in listed:
            holding[term] = max(holding[term], count)
    beginnings = keyword.begun_terms(connection, terms, begun)
    return Vocabulary(len(among), terms, holding, beginnings)


def _add_words(
    connection: apsw.Connection,
    words: Iterable[str],
    among: tuple[Ref, Ref, str],
    count: int,
    scores: dict[Ref, float],
    *,
    any_ref: bool,
) -> None:
    """Add the scores of words, as FTS5 text, to any passage or only to those that have one."""
    hits: dict[str, list[Scored]] = {
        word: rows(connection, _MATCHING, (word, *among)) for word in words
    }
    lengths = _lengths(connection, {ref for listed in hits.values() for ref, _ in listed})
    if not lengths:
        return
    passages, *tokens = _numbers(connection.execute(_TOTALS).get)
    average, own_average = sum(tokens) / passages, sum(lengths.values()) / len(lengths)
    for word, listed in hits.items():
        if not listed:
            continue
        everywhere = connection.execute(keyword.HOLDING, (word,)).get
        idf = max(LEAST_IDF, _log_odds(passages, everywhere))
        own_idf = max(LEAST_OWN_IDF, _log_odds(count, len(listed)))
        for ref, score in listed:
            if not any_ref and ref not in scores:
                continue
            share = score / idf
            occurrences = share * _damping(lengths[ref] / average) / max(K1 + 1 - share, 1e-9)
            part = occurrences * (K1 + 1) / (occurrences + _damping(lengths[ref] / own_average))
            # Rounded: the way back from FTS5's numbers is exact but for the last digits.
            scores[ref] = scores.get(ref, 0.0) + round(own_idf * part, 6)


def _damping(length: float) -> float:
    """Return what BM25 adds to the occurrences in its denominator; 1 is the average length."""
    return K1 * (1 - B + B * length)


def _log_odds(passages: int, holding: int) -> float:
    return math.log(max(passages - holding, 0) + 0.5) - math.log(holding + 0.5)


def _lengths(connection: apsw.Connection, refs: Collection[Ref]) -> dict[Ref, int]:
    """Return how many tokens passages have, as FTS5 counted them."""
    listed = rows(connection, _LENGTHS, (json.dumps(list(refs)),)) if refs else []
    return {ref: sum(_numbers(sizes)) for ref, sizes in listed}


def _numbers(record: object) -> Iterator[int]:
    """Yield the numbers of a record of FTS5: seven bits a byte, the highest first."""
    number = 0
    for byte in record if isinstance(record, bytes) else b"":
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            yield number
            number = 0
