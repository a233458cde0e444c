"""Keyword search for words that are all over the memory: they rank, but they do not select.

Most passages have a "the", and to rank them all takes most of a second in a large memory. So rarer
words select, and frequent ones only add to their scores. If a question has none but frequent words,
passages with its very phrase come first, wherever they are; the others are the best of the newest.
FTS5's own `bm25()` would first count the passages with each word; here they are known.
Loaded only for questions with such words.
"""

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

import apsw

from plait.protocols import Scored
from plait.stores.sqlite import keyword
from plait.stores.sqlite.alone import K1, LEAST_IDF, B
from plait.stores.sqlite.connection import rows
from plait.text import beginnings, words_in
from plait.types import Ref
from plait.types.queries import Query, Term
from plait.types.records import NamedTuple

# So many passages are ranked of all that have a phrase, or only frequent words: the newest.
NEWEST_RANKED = 1_000
# FTS5 ranks so many in 20 ms, and counts the passages with some words in less, if it is so few.
RANKED = 20_000
RANKED_IF = 5_000  # where each has to meet a condition
COUNTED = 300_000
# A word that is in more than this share of the passages does not decide which are the best.
TELLING_SHARE = 0.3
# A longer phrase is hardly ever repeated, and each of its words has a long list to read.
PHRASE_WORDS = 12

FUNCTION = "bm25_of"
_NEWEST = (
    "SELECT rowid, /*score*/ AS score FROM passages_fts WHERE passages_fts MATCH ? /*where*/ "
    "ORDER BY rowid DESC LIMIT ?"
)
_BEST = f"SELECT * FROM ({_NEWEST}) ORDER BY score DESC, rowid LIMIT ?"  # noqa: S608
# subtle: the unary plus keeps SQLite from running one full-text query per listed passage.
_AMONG = " AND rowid BETWEEN ? AND ? AND +rowid IN (SELECT value FROM json_each(?))"
_OF_LISTED = f"SELECT rowid, /*score*/ FROM passages_fts WHERE passages_fts MATCH ?{_AMONG}"  # noqa: S608
_RANKED = (
    f"SELECT rowid, {keyword.SCORE} AS score FROM passages_fts "  # noqa: S608
    "WHERE passages_fts MATCH ? /*where*/ ORDER BY score DESC, rowid LIMIT ?"
)
_prepared: "WeakSet[apsw.Connection]" = WeakSet()


class Condition(NamedTuple):
    """What passages must meet: SQL that follows a match, and its values; ``few`` may meet it."""

    sql: str = ""
    values: Sequence[object] = ()
    few: bool = False


def among(refs: Collection[Ref]) -> Condition:
    """Return the condition that a passage is one of these."""
    values = [min(refs), max(refs), json.dumps(list(refs))]
    return Condition(_AMONG, values, few=len(refs) <= RANKED_IF)


def best(
    connection: apsw.Connection,
    query: Query,
    counts: Mapping[str, int],
    frequent: Collection[str],
    select: Callable[[Query], list[Scored]],
    limit: int,
    where: Condition,
) -> list[Scored]:
    """Return the best passages for a question with frequent words, by BM25.

    ``counts`` tells how many passages contain each word. ``select`` ranks the rest of the question,
    under the same conditions.
    """
    search = _Search(connection, {word: counts[word] for word in frequent}, where)
    words = [word for word in query.words if word not in frequent]
    starts = beginnings(query.words)
    dropped = {Term((starts[word],), prefix=True) for word in frequent if word in starts}
    boosts = tuple(term for term in query.boosts if term not in dropped)
    scores: dict[Ref, float] = {}
    if words or boosts:
        rest = query._replace(words=tuple(words), boosts=boosts)
        match = keyword.matching(rest)
        hits = select(rest)
        counted: set[str] = set()
        if len(hits) == limit and sum(counts[word] for word in words) <= RANKED:
            hits, counted = search.ranked(hits, match)
        scores = search.raised(hits, match, counted)
    # A rarer word that no passage has, or none that may be returned, selects nothing.
    selected = bool(words and scores)
    if not selected:
        scores = dict(search.with_phrase(query)) | scores
    if len(scores) < limit:
        if selected:
            others = search.with_any(max(limit, NEWEST_RANKED) if where.few else limit)
        else:
            others = search.best_with_any(limit)
        scores = dict(others) | scores
    ranked = sorted((-score, ref) for ref, score in scores.items())
    return [(ref, -negative) for negative, ref in ranked[:limit]]


def of_word(
    connection: apsw.Connection, match: str, holding: int, refs: Collection[Ref]
) -> list[Scored]:
    """Return the BM25 of a word in those of these passages that have it; ``holding`` of all do."""
    prepare(connection)
    idf = idf_of(keyword.passage_count(connection), holding)
    sql = _OF_LISTED.replace("/*score*/", _score([idf]))
    return rows(connection, sql, (idf, match, *among(refs).values))


class _Search:
    """Looks for passages with frequent words."""

    def __init__(
        self, connection: apsw.Connection, counts: Mapping[str, int], where: Condition
    ) -> None:
        prepare(connection)
        self._connection = connection
        self._passages = keyword.passage_count(connection)
        self._where = where
        self._counts = counts
        self._idfs = [idf_of(self._passages, count) for count in counts.values()]

    def ranked(self, hits: list[Scored], match: str) -> tuple[list[Scored], set[str]]:
        """Rank all passages for a match anew, with those frequent words that decide.

        ``hits`` are the best without them. Return the best, and the words that count in them.
        """
        most = TELLING_SHARE * self._passages
        telling = {word: count for word, count in self._counts.items() if count <= most}
        if not telling or sum(telling.values()) > COUNTED:
            return hits, set()
        condition, values, _ = self._where
        both = f"({_any_of(telling)}) AND ({match})"
        sql = _RANKED.replace("/*where*/", condition)
        scores = dict(hits) | dict(rows(self._connection, sql, (both, *values, len(hits))))
        best_first = sorted((-score, ref) for ref, score in scores.items())
        return [(ref, -negative) for negative, ref in best_first[: len(hits)]], set(telling)

    def raised(
        self, hits: Sequence[Scored], match: str, counted: Collection[str] = ()
    ) -> dict[Ref, float]:
        """Add what the frequent words are worth in hits for a match, unless they are counted."""
        scores = dict(hits)
        counts = {word: count for word, count in self._counts.items() if word not in counted}
        if scores and counts:
            idfs = [idf_of(self._passages, count) for count in counts.values()]
            sql = _OF_LISTED.replace("/*score*/", _score(idfs))
            both = f"({_any_of(counts)}) AND ({match})"
            for ref, score in rows(self._connection, sql, (*idfs, both, *among(scores).values)):
                scores[ref] += score
        return scores

    def with_phrase(self, query: Query) -> Iterable[Scored]:
        """Return the newest passages with the words of a question as a phrase, or a name."""
        words = words_in(query.text)
        if len(words) > PHRASE_WORDS:
            return []
        places = "" if words[1:] else "{title heading} : "
        hits = self._newest(places + keyword.quote(" ".join(words)), [1.0], NEWEST_RANKED)
        holding = len(hits)
        if holding == NEWEST_RANKED:  # as many for each of the older ones
            span = hits[0][0] - hits[-1][0] + 1
            holding = max(holding, round(self._passages * holding / span))
        # Each word occurs at least as often as the phrase.
        weight = idf_of(self._passages, holding) + sum(self._idfs)
        return [(ref, weight * share) for ref, share in hits]

    def with_any(self, limit: int) -> list[Scored]:
        """Return the newest passages with one of the words."""
        return self._newest(_any_of(self._counts), self._idfs, limit)

    def best_with_any(self, limit: int) -> list[Scored]:
        """Return the best of the newest passages with one of the words."""
        if sum(self._counts.values()) > COUNTED:
            return self.with_any(max(limit, NEWEST_RANKED))
        condition, values, _ = self._where
        sql = _BEST.replace("/*score*/", keyword.SCORE).replace("/*where*/", condition)
        ranked = RANKED_IF if condition else RANKED
        return rows(self._connection, sql, (_any_of(self._counts), *values, ranked, limit))

    def _newest(self, match: str, idfs: Sequence[float], limit: int) -> list[Scored]:
        condition, values, _ = self._where
        sql = _NEWEST.replace("/*score*/", _score(idfs)).replace("/*where*/", condition)
        return rows(self._connection, sql, (*idfs, match, *values, limit))


def prepare(connection: apsw.Connection) -> None:
    """Give a connection the function of the scores."""
    if connection not in _prepared:
        connection.register_fts5_function(FUNCTION, _bm25)
        _prepared.add(connection)


def idf_of(passages: int, holding: int) -> float:
    """Return the weight of a word that so many of the passages have, as in FTS5."""
    others = max(passages - holding, 0)
    return max(LEAST_IDF, math.log((others + 0.5) / (holding + 0.5)))


def _any_of(words: Iterable[str]) -> str:
    return " OR ".join(map(keyword.quote, words))


def _score(idfs: Sequence[float]) -> str:
    return f"{FUNCTION}(passages_fts{', ?' * len(idfs)})"


def _bm25(api: Any, *idfs: Any) -> float:
    """Return the BM25 of a row for the first phrases of a match, given their idfs."""
    # subtle: in the order of FTS5, so that nearly all scores are the same to the last bit.
    mean = api.column_total_size() / api.row_count
    damping = K1 * (1 - B + B * api.column_size() / mean)
    score = 0.0
    for phrase, idf in enumerate(idfs):
        if not api.phrase_columns(phrase):
            continue
        columns = zip(keyword.COLUMN_WEIGHTS, api.phrase_locations(phrase), strict=True)
        times = sum(weight * len(places) for weight, places in columns)
        score += idf * (times * (K1 + 1) / (times + damping))
    return score
