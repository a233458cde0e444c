"""The two branches inside SQLite: which full-text plan to run, and filters before any limit."""

import json
import time
from collections.abc import Collection, Sequence
from typing import Literal

import apsw

from plait.protocols import Scored, Vector
from plait.stores.sqlite import filters, fts, generations, narrow, terms, vectors
from plait.stores.sqlite.rows import rows
from plait.types import Query, Ref, Space

Planner = Literal["auto", "always", "never"]

# Under this share of the passages it is cheaper to fetch the rows than to scan the blocks.
SHORT_SELECTION = 0.05
FEW = 200
PROGRESS_STEPS = 500  # virtual machine steps between two looks at the clock: well under 1 ms
CACHED_SELECTIONS = 8
# How many times the wanted number of neighbours is looked at before a filter is listed in full.
OVER_FETCH = 4

# FTS5 ranks all that matches, whatever the conditions.
_RANKED = (
    "SELECT rowid, -rank FROM passages_fts WHERE passages_fts MATCH ? AND rank MATCH ? "
    "/*where*/ ORDER BY rank LIMIT ?"
)
# The same score, but only for passages that meet the conditions: walking past one that does not
# costs a tenth of ranking it. The order of ties is the only difference.
_SIFTED = (
    f"SELECT rowid, {fts.SCORE} AS score FROM passages_fts WHERE passages_fts MATCH ? "  # noqa: S608
    "/*where*/ ORDER BY score DESC, rowid LIMIT ?"
)
# subtle: the unary plus keeps SQLite from running one full-text query per listed passage.
_AMONG = "AND rowid BETWEEN ? AND ? AND +rowid IN (SELECT value FROM json_each(?))"
_ANCHORED = "AND +rowid IN (SELECT rowid FROM passages_fts WHERE passages_fts MATCH ?) "
_WHERE = (
    "AND EXISTS (SELECT 1 FROM passages AS p JOIN documents AS d ON d.rowid = p.document "
    "WHERE p.rowid = passages_fts.rowid AND /*conditions*/)"
)
_SELECTED = (
    "SELECT p.rowid FROM documents AS d JOIN passages AS p ON p.document = d.rowid "
    "WHERE /*conditions*/ LIMIT ?"
)
_IS_AMONG = "p.rowid IN (SELECT value FROM json_each(?))"


class Searcher:
    """Runs both branches; remembers which passages a filter lets through until the file changes."""

    def __init__(self) -> None:
        self.planner: Planner = "auto"
        self._selections: dict[tuple[object, ...], vectors.Selection] = {}
        self._distances: vectors.Distances | None = None
        self._blocks = vectors.Blocks()
        self._latest: tuple[object, vectors.Scan] = (None, {})

    def keyword(
        self,
        connection: apsw.Connection,
        query: Query,
        limit: int,
        conditions: list[filters.Clause],
        deadline: float | None,
    ) -> list[Scored]:
        """Best passages by BM25, higher is better."""
        if deadline is not None:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, PROGRESS_STEPS)
        try:
            return self._by_keyword(connection, query, limit, conditions)
        finally:
            if deadline is not None:
                connection.set_progress_handler(None)

    def _by_keyword(
        self,
        connection: apsw.Connection,
        query: Query,
        limit: int,
        conditions: list[filters.Clause],
    ) -> list[Scored]:
        """The cheapest way that answers: all of them rank by the same words."""
        match = fts.matching(query)
        where = ""
        values: list[object] = []
        if conditions:
            selection = self._select(connection, conditions)
            if selection.refs is not None:
                return _best_among(connection, query, selection.refs, limit)
            sql, values = filters.joined(conditions)
            where = _WHERE.replace("/*conditions*/", sql)
        anchors = self._anchors(connection, query)
        if anchors is not None:
            found: list[Scored] = rows(
                connection,
                _SIFTED.replace("/*where*/", _ANCHORED + where),
                (match, anchors, *values, limit),
            )
            # Words that never meet would otherwise find less than there is.
            if len(found) == limit:
                return found
        if not where:
            # FTS5's own sort by rank visits every match twice: 1.5 times as slow.
            return rows(connection, _SIFTED.replace("/*where*/", ""), (match, limit))
        return rows(
            connection,
            _RANKED.replace("/*where*/", where),
            (match, fts.RANK, *values, limit),
        )

    def _anchors(self, connection: apsw.Connection, query: Query) -> str | None:
        """Which passages are worth ranking; ``None`` for all that match."""
        if query.expression is not None or self.planner == "never":
            return None
        forced = self.planner == "always"
        if not forced and terms.passage_count(connection) < terms.PLANNER_PASSAGES:
            return None
        stems = {
            word: {term for _, _, term in terms.tokens(connection, word)} for word in query.words
        }
        counts = terms.frequencies(connection, set().union(*stems.values()))
        frequency = {
            word: min((counts[term] for term in found), default=0) for word, found in stems.items()
        }
        if not forced and sum(frequency.values()) <= fts.PLAIN_OR_MATCHES:
            return None
        return fts.anchors(query.words, frequency)

    def _select(
        self, connection: apsw.Connection, conditions: list[filters.Clause]
    ) -> vectors.Selection:
        sql, values = filters.joined(conditions)
        key = (sql, *values, *_version(connection))
        selection = self._selections.get(key)
        if selection is None:
            few = max(FEW, round(terms.passage_count(connection) * SHORT_SELECTION))
            listed = max(few, narrow.MOST_PASSAGES)
            refs = self._passing(connection, conditions, limit=listed + 1)
            selection = vectors.Selection(refs if len(refs) <= listed else None, len(refs) <= few)
            # subtle: a copy, because another thread may add to the cache meanwhile.
            for old in list(self._selections)[: 1 - CACHED_SELECTIONS]:
                self._selections.pop(old, None)
            self._selections[key] = selection
        return selection

    def nearest(
        self,
        connection: apsw.Connection,
        vector: Vector,
        space: Space,
        limit: int,
        conditions: list[filters.Clause],
    ) -> list[Scored]:
        """Nearest passages by cosine, exact; none when the current vectors are of another space."""
        generation = generations.current(connection)
        if generation is None or generation.space != generations.space_text(space):
            return []
        query = vectors.quantise(vector, generation.dims)
        selection = self._select(connection, conditions) if conditions else None
        if selection is not None and selection.refs is not None and selection.short:
            cosines = self._pick(connection, generation, query, selection.refs)
            ranked = sorted((-cosine, ref) for ref, cosine in cosines.items() if cosine > 0.0)
            return [(ref, -negative) for negative, ref in ranked[:limit]]
        version = _version(connection)
        blocks = self._blocks.scan(connection, generation.id, generation.dims, version)
        scan = vectors.scanned(blocks, query, self._kernel())
        self._latest = ((generation.id, version, query), scan)
        if selection is None:
            return vectors.nearest(scan, limit)
        found = vectors.nearest(scan, limit * OVER_FETCH)
        kept = self._first_passing(connection, conditions, found, limit)
        if kept is not None:
            return kept
        if selection.flags is None:
            passing = selection.refs
            if passing is None:
                passing = self._passing(connection, conditions)
            selection.flags = vectors.flagged(passing)
        return vectors.nearest(scan, limit, selection.flags)

    def _first_passing(
        self,
        connection: apsw.Connection,
        conditions: list[filters.Clause],
        found: list[Scored],
        limit: int,
    ) -> list[Scored] | None:
        """The best that meet the conditions; ``None`` when more had to be looked at.

        Asking which of the best pass is far cheaper than listing everything that would.
        """
        kept: list[Scored] = []
        step = limit + limit // 2
        for start in range(0, len(found), step):
            part = found[start : start + step]
            passing = set(self._passing(connection, conditions, among=[ref for ref, _ in part]))
            kept += [pair for pair in part if pair[0] in passing]
            if len(kept) >= limit:
                return kept[:limit]
        return kept if len(found) < limit * OVER_FETCH else None

    @staticmethod
    def _passing(
        connection: apsw.Connection,
        conditions: list[filters.Clause],
        *,
        among: Sequence[Ref] | None = None,
        limit: int = -1,
    ) -> list[Ref]:
        """Passages that meet the conditions, among all or among these."""
        sql, values = filters.joined(conditions)
        if among is not None:
            sql, values = f"{_IS_AMONG} AND {sql}", [json.dumps(list(among)), *values]
        found = rows(connection, _SELECTED.replace("/*conditions*/", sql), (*values, limit))
        return [ref for (ref,) in found]

    def cosines(
        self, connection: apsw.Connection, vector: Vector, space: Space, refs: Sequence[Ref]
    ) -> dict[Ref, float]:
        """Cosine for these passages; those without a vector are absent."""
        generation = generations.current(connection)
        if generation is None or generation.space != generations.space_text(space):
            return {}
        query = vectors.quantise(vector, generation.dims)
        key, scan = self._latest
        if key != (generation.id, _version(connection), query):
            return self._pick(connection, generation, query, refs)
        known, unknown = vectors.known(scan, refs)
        return known | self._pick(connection, generation, query, unknown)

    def _pick(
        self,
        connection: apsw.Connection,
        generation: generations.Generation,
        query: bytes,
        refs: Collection[Ref],
    ) -> dict[Ref, float]:
        if not refs:
            return {}
        version = _version(connection)
        found = self._blocks.rows(connection, generation.id, generation.dims, version, refs)
        return vectors.pick(found, query, self._kernel())

    def _kernel(self) -> vectors.Distances:
        if self._distances is None:
            self._distances = vectors.kernel()
        return self._distances


def _best_among(
    connection: apsw.Connection, query: Query, refs: Collection[Ref], limit: int
) -> list[Scored]:
    """The best of a few passages."""
    if not refs:
        return []
    if query.expression is None and narrow.suits(query.words, refs):
        return narrow.best(connection, query.words, refs, limit)
    match = fts.matching(query)
    among = (min(refs), max(refs), json.dumps(list(refs)))
    return rows(connection, _SIFTED.replace("/*where*/", _AMONG), (match, *among, limit))


def _version(connection: apsw.Connection) -> tuple[apsw.Connection, int, int]:
    """Changes whenever this or any other connection commits."""
    return (
        connection,
        int(connection.execute("PRAGMA data_version").get),
        connection.total_changes(),
    )
