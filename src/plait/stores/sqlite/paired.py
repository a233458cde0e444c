"""Keyword search for short questions with words that are in thousands of passages.

The best passages have a rare word, or two others. To rank them by one match, FTS5 would look at
every passage with any of the words. So the passages with a word and another one are ranked in turn,
without those that were ranked already: each match has every word once, and the scores are the same.
Loaded only for such questions.
"""

from collections.abc import Collection, Mapping, Sequence

import apsw

from plait.protocols import Scored
from plait.stores.sqlite import keyword
from plait.stores.sqlite.analysis import one_of_each_stem, tokens
from plait.stores.sqlite.anchoring import PAIRED_WORDS, rarest
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.frequent import FUNCTION, idf_of, prepare
from plait.text import beginnings
from plait.text.english import empty_words
from plait.types.queries import Query
from plait.types.records import NamedTuple

# With so many of these, what is missing up to the limit may have one word only. At a million
# passages, the first ten by keyword stay the same, and those of 594 of 600 hybrid searches.
ENOUGH = 30
# Where each word is in so many passages that to rank them takes long, only so many are, the newest.
NEWEST_RANKED = 5_000

_NEWEST = (
    f"SELECT * FROM (SELECT rowid, {keyword.SCORE} AS score FROM passages_fts "  # noqa: S608
    "WHERE passages_fts MATCH ? /*where*/ ORDER BY rowid DESC LIMIT ?) "
    "ORDER BY score DESC, rowid LIMIT ?"
)


class Chosen(NamedTuple):
    """The words of a question as FTS5 text, by how many passages each selects.

    ``rare`` ones select by themselves, the ``others`` in pairs, from the rarest to the most common.
    ``holding`` tells how many passages have each; ``fills``, whether all that match may be ranked.
    """

    holding: Mapping[str, int]
    rare: Sequence[str]
    others: Sequence[str]
    fills: bool


def chosen(
    connection: apsw.Connection,
    query: Query,
    counts: Mapping[str, int],
    frequent: Collection[str],
    alone: int,
) -> Chosen | None:
    """Return how the words of a question select; ``None`` if it is not one that `best` can rank.

    ``counts`` tells how many passages contain each word; ``frequent`` ones are all over the memory.
    Those that ``alone`` passages have at most, in all, are rare.
    """
    words = [word for word in dict.fromkeys(query.words) if counts[word]]
    # A single word selects by itself.
    if len(set(words).difference(dict(query.forms))) < 2 or (
        frequent and len(set(words) - empty_words()) < 2
    ):
        return None
    if query.boosts or beginnings(words):
        return None
    held = {word: counts[word] for word in words}
    # Of a word with several terms, which is a phrase, nobody knows how many passages have it.
    single = all(len(tokens(connection, word)) == 1 for word in words)
    if not single or one_of_each_stem(connection, held) != held:
        return None
    holding = {keyword.quote(word): count for word, count in held.items()}
    rare, others = rarest(holding, alone)
    if len(others) > PAIRED_WORDS:
        return None
    return Chosen(holding, rare, others, fills=not frequent)


def best(
    connection: apsw.Connection,
    words: Chosen,
    limit: int,
    where: str,
    values: Sequence[object],
) -> list[Scored]:
    """Return the best passages by BM25; none if too few are certain to be among the best."""
    hits = _with_rare(connection, words, limit, where, values) if words.rare else []
    sql = keyword.SIFTED.replace("/*where*/", where)
    for place, first in enumerate(words.others[:-1]):
        match = f"{first} AND {_any_of(words.others[place + 1 :])}"
        ranked = [*words.rare, *words.others[:place]]
        if ranked:
            match = f"({match}) NOT {_any_of(ranked)}"
        hits += rows(connection, sql, (match, *values, limit))
    match = " OR ".join(words.holding)
    if len(hits) < min(limit, ENOUGH):
        return rows(connection, sql, (match, *values, limit)) if words.fills else []
    if len(hits) < limit:
        others = _singly(connection, words, limit, where, values)
        hits = [*(dict(others) | dict(hits)).items()]
    best_first = sorted((-score, ref) for ref, score in hits)
    return [(ref, -negative) for negative, ref in best_first[:limit]]


def _singly(
    connection: apsw.Connection,
    words: Chosen,
    limit: int,
    where: str,
    values: Sequence[object],
) -> list[Scored]:
    """Return the best passages with one of the less common words, as many as are ranked quickly.

    If there is no such word, the best of the newest with any.
    """
    ranked = 0
    few: list[str] = []
    for word in words.others:
        ranked += words.holding[word]
        if ranked > keyword.MANY_MATCHES:
            break
        few.append(word)
    if few:
        sql = keyword.SIFTED.replace("/*where*/", where)
        return rows(connection, sql, (" OR ".join(few), *values, limit))
    sql = _NEWEST.replace("/*where*/", where)
    return rows(connection, sql, (" OR ".join(words.others), *values, NEWEST_RANKED, limit))


def _with_rare(
    connection: apsw.Connection,
    words: Chosen,
    limit: int,
    where: str,
    values: Sequence[object],
) -> list[Scored]:
    """Return the best passages with a rare word.

    They are few: FTS5 would take longer to count first, as it does, how many have each word.
    """
    prepare(connection)
    passages = keyword.passage_count(connection)
    idfs = [idf_of(passages, count) for count in words.holding.values()]
    sql = (
        f"SELECT rowid, {FUNCTION}(passages_fts{', ?' * len(idfs)}) AS score "  # noqa: S608
        f"FROM passages_fts WHERE passages_fts MATCH ? {where} ORDER BY score DESC, rowid LIMIT ?"
    )
    match = f"{_any_of(words.holding)} AND {_any_of(words.rare)}"
    return rows(connection, sql, (*idfs, match, *values, limit))


def _any_of(words: Collection[str]) -> str:
    return f"({' OR '.join(words)})"
