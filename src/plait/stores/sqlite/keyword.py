"""Keyword search by FTS5: its counts, its queries, the plan to run, and the index as a whole.

Every word of a query is quoted: FTS5 reads NOT, OR, ``-`` and ``:`` as operators otherwise
(https://sqlite.org/fts5.html#full_text_query_syntax).
"""

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

import apsw

from plait.protocols import Scored, Token
from plait.stores import Planner
from plait.stores.sqlite import filters
from plait.stores.sqlite.analysis import one_of_each_stem, tokens
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.state import get_meta, get_number
from plait.text import beginnings
from plait.text.english import empty_words
from plait.types import Ref
from plait.types.queries import Expression, Query, Term, Vocabulary

# The index, the tables FTS5 keeps it in, and the view of its terms.
KEYWORD_SHADOWS = tuple(f"passages_fts_{part}" for part in ("data", "idx", "docsize", "config"))
KEYWORD_TABLES = ("passages_fts", "passages_vocab", *KEYWORD_SHADOWS)

# They keep the index, and the number of passages, in step with the passages. Part of migration 1:
# never edit them.
TRIGGERS = (
    """CREATE TRIGGER passages_inserted AFTER INSERT ON passages BEGIN
    INSERT INTO passages_fts (rowid, title, heading, text)
    VALUES (new.rowid, new.title_terms, coalesce(new.heading_terms, new.heading),
            coalesce(new.text_terms, new.text));
    UPDATE meta SET value = value + 1 WHERE name = 'passages';
END""",
    """CREATE TRIGGER passages_deleted AFTER DELETE ON passages BEGIN
    INSERT INTO passages_fts (passages_fts, rowid, title, heading, text)
    VALUES ('delete', old.rowid, old.title_terms, coalesce(old.heading_terms, old.heading),
            coalesce(old.text_terms, old.text));
    UPDATE meta SET value = value - 1 WHERE name = 'passages';
END""",
    """CREATE TRIGGER passages_updated
AFTER UPDATE OF heading, text, title_terms, heading_terms, text_terms ON passages BEGIN
    INSERT INTO passages_fts (passages_fts, rowid, title, heading, text)
    VALUES ('delete', old.rowid, old.title_terms, coalesce(old.heading_terms, old.heading),
            coalesce(old.text_terms, old.text));
    INSERT INTO passages_fts (rowid, title, heading, text)
    VALUES (new.rowid, new.title_terms, coalesce(new.heading_terms, new.heading),
            coalesce(new.text_terms, new.text));
END""",
)

# Title, heading, text. Over the eight English collections title x 1 loses 0.001 of nDCG@10 and
# x 1.5 to x 4 differ by less (benchmarks/quality.md).
COLUMN_WEIGHTS = (2.0, 1.0, 1.0)
_WEIGHTS = ", ".join(map(str, COLUMN_WEIGHTS))
_RANK = f"bm25({_WEIGHTS})"
SCORE = f"-bm25(passages_fts, {_WEIGHTS})"

# Below this many passages plain OR is always fast enough, so nothing needs counting first.
PLANNER_PASSAGES = 20_000
# FTS5 ranks about 1,000 passages per CPU millisecond; below this many, plain OR is fast enough.
PLAIN_OR_MATCHES = 5_000
# The rarest words select passages alone, up to this many in total; see `anchoring`.
ANCHORED_ALONE = 1_500
# From here on, what a short question anchors is found without a look at all that matches.
MANY_MATCHES = 10_000
# A word in this share of the passages selects nothing, whatever it means.
EVERYWHERE_SHARE = 0.2
# A longer question is an excerpt, and FTS5's own weights are good enough for it.
NARROWED_WORDS = 16
PROGRESS_STEPS = 2_000  # virtual machine steps between two looks at the clock: well under 1 ms
# From here on the index is tidied after bulk writing: 40 ms at 10,000 passages, once, to save every
# search 0.5 of 4 ms.
TIDY_PASSAGES = 1_000
# A rebuild makes writers wait, 2 to 3 s for this many passages: a larger index that is readable and
# complete is left as it is.
REBUILT_PASSAGES = 100_000
# Forms of a word that NOT excludes: a language has a few dozen; matching 27,000 took over 2 s.
MOST_FORMS = 1_000
# The name under which triggers keep the number of passages in ``meta``.
COUNTED = "passages"

_STATISTICS = "SELECT block FROM passages_fts_data WHERE id = 1"
FREQUENT = (
    "SELECT term, passages FROM frequent_terms WHERE term IN (SELECT value FROM json_each(?)) "
    "AND typeof(passages) = 'integer' AND passages > 0"  # plait writes no others
)
_MATCHING = "SELECT rowid FROM passages_fts WHERE passages_fts MATCH ?"
HOLDING = "SELECT count(*) FROM passages_fts WHERE passages_fts MATCH ?"
_FREQUENCY = "SELECT doc FROM passages_vocab WHERE term = ?"
# FTS5 ranks all that matches, whatever the conditions.
_RANKED = (
    "SELECT rowid, -rank FROM passages_fts WHERE passages_fts MATCH ? AND rank MATCH ? "
    "/*where*/ ORDER BY rank LIMIT ?"
)
# The same score, but only for passages that meet the conditions: skipping one that does not costs a
# tenth of ranking it. The order of ties is the only difference.
SIFTED = (
    f"SELECT rowid, {SCORE} AS score FROM passages_fts WHERE passages_fts MATCH ? "  # noqa: S608
    "/*where*/ ORDER BY score DESC, rowid LIMIT ?"
)
# subtle: the unary plus keeps SQLite from running one full-text query per listed passage.
_AMONG = "AND rowid BETWEEN ? AND ? AND +rowid IN (SELECT value FROM json_each(?))"
_ANCHORED = "AND +rowid IN (SELECT rowid FROM passages_fts WHERE passages_fts MATCH ?) "
_WHERE = (
    "AND EXISTS (SELECT 1 FROM passages AS p JOIN documents AS d ON d.rowid = p.document "
    "WHERE p.rowid = passages_fts.rowid AND /*conditions*/)"
)
_PARTS = (
    f"SELECT count(*) FROM sqlite_schema "  # noqa: S608
    f"WHERE name IN ({', '.join(map(repr, KEYWORD_TABLES))})"
)
_PASSAGE_ENDS = "SELECT (SELECT min(rowid) FROM passages), (SELECT max(rowid) FROM passages)"
_INDEX_ENDS = (
    "SELECT (SELECT min(id) FROM passages_fts_docsize), (SELECT max(id) FROM passages_fts_docsize)"
)


# -- counts ---------------------------------------------------------------------------------


def passage_count(connection: apsw.Connection) -> int:
    """Return how many passages FTS5 has, from its own statistics: counting rows would be linear."""
    record = connection.execute(_STATISTICS).get
    number = 0
    for byte in record if isinstance(record, bytes) else b"":
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number


def frequencies(connection: apsw.Connection, terms: set[str]) -> dict[str, int]:
    """Return how many passages contain each term; common ones were counted at indexing."""
    counts: dict[str, int] = {}
    if terms and not is_stale(connection):
        counts |= rows(connection, FREQUENT, (json.dumps(sorted(terms)),))
    for term in terms - counts.keys():
        counts[term] = connection.execute(_FREQUENCY, (term,)).get or 0
    return counts


def begun_terms(
    connection: apsw.Connection, words: Mapping[str, Sequence[Token]], begun_with: Mapping[str, str]
) -> dict[str, str]:
    """Return for the beginning of each word that has one, as it is indexed, the word's term."""
    begun: dict[str, str] = {}
    for word, start in begun_with.items():
        stems = tokens(connection, start)
        if len(words[word]) == len(stems) == 1:
            begun.setdefault(stems[0][2], words[word][0][2])
    return begun


def begun_frequencies(
    connection: apsw.Connection, words: Mapping[str, Sequence[Token]], begun_with: Mapping[str, str]
) -> dict[str, int]:
    """Return how many passages contain the term of each word, or one with its beginning."""
    return {
        words[word][0][2]: connection.execute(HOLDING, (either_form(word, start),)).get
        for word, start in begun_with.items()
        if len(words[word]) == 1
    }


def either_form(word: str, start: str) -> str:
    """Return a match for a word and whatever begins like it; a stem may be shorter than that."""
    return f"({quote(word)} OR {quote(start)} *)"


def is_stale(connection: apsw.Connection) -> bool:
    """Tell whether the counts of common terms are wrong enough to mislead."""
    passages = passage_count(connection)
    counted = get_number(connection, "counted_passages") or 0
    return abs(passages - counted) > passages // 5


# -- queries -------------------------------------------------------------------------------


def quote(word: str) -> str:
    """Return a word as an FTS5 string.

    >>> print(quote('5" disk'))
    "5"" disk"
    """
    return '"' + word.replace('"', '""').replace("\0", " ") + '"'


def compile_expression(expression: Expression) -> str:
    """Return an operator query as FTS5 text, fully bracketed."""
    if isinstance(expression, Term):
        if expression.near:
            return f"NEAR({' '.join(map(quote, expression.words))}, {expression.near})"
        star = " *" if expression.prefix else ""
        return quote(" ".join(expression.words)) + star
    operator = f" {expression.operator.upper()} "
    return "(" + operator.join(compile_expression(part) for part in expression.parts) + ")"


def matching(query: Query) -> str:
    """Return a query as FTS5 text: its operators, or its words joined by OR, and its boosts."""
    if query.expression is None:
        return " OR ".join(operands(query))
    return " OR ".join(map(compile_expression, (query.expression, *query.boosts)))


def operands(query: Query) -> list[str]:
    """Return the words and the boosts of a query as FTS5 text, each by itself."""
    return [*map(quote, query.words), *map(compile_expression, query.boosts)]


# -- searching -----------------------------------------------------------------------------


class KeywordSearch:
    """Ranks passages by BM25 and chooses the plan.

    ``planner`` decides whether a large memory ranks only passages that are worth it; ``passages``,
    ``matches``, ``many`` and ``alone`` are the sizes from which it does.
    """

    def __init__(self, selections: filters.Selections) -> None:
        self._selections = selections
        self.planner: Planner = "auto"
        self.passages = PLANNER_PASSAGES
        self.matches = PLAIN_OR_MATCHES
        self.alone = ANCHORED_ALONE
        self.many = MANY_MATCHES

    def best(
        self,
        connection: apsw.Connection,
        query: Query,
        limit: int,
        conditions: list[filters.Clause],
        deadline: float | None,
    ) -> list[Scored]:
        """Return the best passages by BM25, higher is better."""
        if deadline is not None:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, PROGRESS_STEPS)
        try:
            if query.expression is not None:
                from plait.stores.sqlite.endings import with_forms

                expression = with_forms(connection, query.expression)
                query = query._replace(expression=expression)
            return self._best(connection, query, limit, conditions)
        finally:
            if deadline is not None:
                connection.set_progress_handler(None)

    def vocabulary(
        self,
        connection: apsw.Connection,
        words: Mapping[str, Sequence[Token]],
        begun_with: Mapping[str, str],
        conditions: list[filters.Clause] | None,
    ) -> Vocabulary:
        """Return how many passages, all or those that meet conditions, contain some words."""
        if conditions is not None:
            from plait.stores.sqlite import alone

            return alone.vocabulary(connection, words, begun_with, self._selections, conditions)
        terms = {term for listed in words.values() for _, _, term in listed}
        counts = frequencies(connection, terms)
        counts |= begun_frequencies(connection, words, begun_with)
        begun = begun_terms(connection, words, begun_with)
        return Vocabulary(passage_count(connection), words, counts, begun)

    def unseen(
        self,
        connection: apsw.Connection,
        words: Iterable[str],
        begun_with: Mapping[str, str],
        conditions: list[filters.Clause],
    ) -> set[str]:
        """Return those of the words that no passage which meets the conditions contains."""
        if not conditions:
            return set()  # nothing is out of sight
        matches = {
            word: either_form(word, begun_with[word]) if word in begun_with else quote(word)
            for word in words
        }
        refs = self._selections.find(connection, conditions, passage_count(connection)).refs
        if refs is not None:
            return {
                word
                for word, match in matches.items()
                if {ref for (ref,) in rows(connection, _MATCHING, (match,))}.isdisjoint(refs)
            }
        sql, values = filters.joined(conditions)
        visible = f"{_MATCHING} {_WHERE.replace('/*conditions*/', sql)} LIMIT 1"
        return {
            word
            for word, match in matches.items()
            if not connection.execute(visible, (match, *values)).get
        }

    def _best(
        self,
        connection: apsw.Connection,
        query: Query,
        limit: int,
        conditions: list[filters.Clause],
    ) -> list[Scored]:
        """Run the cheapest plan; all plans rank by the same words."""
        if query.rarest and not query.local:
            from plait.stores.sqlite import resembling

            return resembling.by_rare_words(connection, query, limit, conditions)
        match = matching(query)
        where = ""
        values: list[object] = []
        if conditions:
            selection = self._selections.find(connection, conditions, passage_count(connection))
            if selection.refs is not None:
                return self._best_among(connection, query, selection.refs, limit)
            sql, values = filters.joined(conditions)
            where = _WHERE.replace("/*conditions*/", sql)
        if query.local:
            refs = filters.passing(connection, conditions)
            return self._best_among(connection, query, refs, limit)
        counts = self._counts(connection, query)
        frequent = self._frequent(connection, counts)
        if hits := self._selected(connection, query, counts, frequent, limit, (where, values)):
            return hits
        if frequent:
            from plait.stores.sqlite.frequent import Condition, best

            def select(rest: Query) -> list[Scored]:
                return self._best(connection, rest, limit, conditions)

            condition = Condition(where, values)
            return best(connection, query, counts, frequent, select, limit, condition)
        if not where:
            # FTS5's own sort by rank visits every match twice: 1.5 times as slow.
            return rows(connection, SIFTED.replace("/*where*/", ""), (match, limit))
        return rows(connection, _RANKED.replace("/*where*/", where), (match, _RANK, *values, limit))

    def _selected(
        self,
        connection: apsw.Connection,
        query: Query,
        counts: Mapping[str, int],
        frequent: Collection[str],
        limit: int,
        condition: tuple[str, Sequence[object]],
    ) -> list[Scored]:
        """Return the best of those passages that are worth it; none if all should be ranked."""
        where, values = condition
        if sum(counts.values()) > self.many and len(frequent) < 2:
            from plait.stores.sqlite import paired

            words = paired.chosen(connection, query, counts, frequent, self.alone)
            if words and (hits := paired.best(connection, words, limit, where, values)):
                return hits
        anchored = self._anchors(query, one_of_each_stem(connection, counts), frequent, limit)
        if anchored is None:
            return []
        sql = SIFTED.replace("/*where*/", _ANCHORED + where)
        hits = rows(connection, sql, (matching(query), anchored, *values, limit))
        # Otherwise words that never occur together would find too little.
        return hits if len(hits) == limit else []

    def _best_among(
        self, connection: apsw.Connection, query: Query, refs: Collection[Ref], limit: int
    ) -> list[Scored]:
        """Return the best of a few passages."""
        if not refs:
            return []
        if query.local:
            from plait.stores.sqlite import alone

            return alone.best(connection, query, refs, limit)
        few = len(refs) <= self._selections.listed and len(query.words) <= NARROWED_WORDS
        if query.expression is None and few:
            from plait.stores.sqlite import narrow

            return narrow.best(connection, query, refs, limit)
        counts = self._counts(connection, query)
        frequent = self._frequent(connection, counts)
        if frequent:
            from plait.stores.sqlite.frequent import among, best

            def select(rest: Query) -> list[Scored]:
                return self._best_among(connection, rest, refs, limit)

            return best(connection, query, counts, frequent, select, limit, among(refs))
        candidates = (min(refs), max(refs), json.dumps(list(refs)))
        sql = SIFTED.replace("/*where*/", _AMONG)
        return rows(connection, sql, (matching(query), *candidates, limit))

    def _counts(self, connection: apsw.Connection, query: Query) -> dict[str, int]:
        """Return how many passages contain each word, or begin like it; empty: all are few."""
        if query.expression is not None or self.planner == "never":
            return {}
        if self.planner != "always" and passage_count(connection) < self.passages:
            return {}
        terms = {word: {term for _, _, term in tokens(connection, word)} for word in query.words}
        known = frequencies(connection, set().union(*terms.values()))
        counts = {
            word: min((known[term] for term in stems), default=0) for word, stems in terms.items()
        }
        for word, start in beginnings(query.words).items():
            counts[word] = connection.execute(HOLDING, (either_form(word, start),)).get
        return counts

    def _frequent(self, connection: apsw.Connection, counts: Mapping[str, int]) -> set[str]:
        """Return the words that so many passages contain that ranking all of them takes long."""
        if max(counts.values(), default=0) <= self.matches:
            return set()
        everywhere = EVERYWHERE_SHARE * passage_count(connection)
        return {
            word
            for word, count in counts.items()
            if count > self.matches and (count > everywhere or word in empty_words())
        }

    def _anchors(
        self, query: Query, counts: Mapping[str, int], frequent: Collection[str], limit: int
    ) -> str | None:
        """Return which passages to rank; ``None`` for all that match."""
        if self.planner != "always" and sum(counts.values()) <= self.matches:
            return None
        from plait.stores.sqlite.anchoring import of_query

        return of_query(query, counts, frequent, self.alone, limit)


# -- the index as a whole ------------------------------------------------------------------
#
# Three checks, each slower than the one before: `is_complete` takes microseconds and runs at every
# opening; `rebuilding.is_readable` reads the index, `rebuilding.is_sound` compares it word for word
# with the passages.


def is_counted(connection: apsw.Connection) -> bool:
    """Tell whether `meta` has the row of the number of passages, which every memory has."""
    return bool(connection.execute("SELECT count(*) FROM meta WHERE name = 'passages'").get)


def is_complete(connection: apsw.Connection) -> bool:
    """Tell whether the index has all tables and the same first, last and number of passages."""
    with connection:  # One snapshot: others may be writing, which is not damage.
        agrees: bool = (
            connection.execute(_PARTS).get == len(KEYWORD_TABLES)
            and rows(connection, _PASSAGE_ENDS) == rows(connection, _INDEX_ENDS)
            and get_meta(connection, COUNTED) in (None, str(passage_count(connection)))
        )
    return agrees
