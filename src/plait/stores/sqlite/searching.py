"""The two branches inside SQLite: which full-text plan to run, and filters before any limit."""

import json
import time
from collections.abc import Sequence
from typing import Literal

import apsw

from plait.protocols import Scored, Vector
from plait.stores.sqlite import filters, fts, generations, terms, vectors
from plait.stores.sqlite.rows import rows
from plait.types import Query, Ref, Space

Planner = Literal["auto", "always", "never"]

# Under this share of the passages it is cheaper to fetch the rows than to scan the blocks.
SHORT_SELECTION = 0.05
FEW = 200
PROGRESS_STEPS = 500  # virtual machine steps between two looks at the clock: well under 1 ms
CACHED_SELECTIONS = 8

_KEYWORD = (
    "SELECT rowid, -rank FROM passages_fts WHERE passages_fts MATCH ? AND rank MATCH ? "
    "/*where*/ ORDER BY rank LIMIT ?"
)
# subtle: the unary plus keeps SQLite from running one full-text query per listed passage.
_AMONG = "AND +rowid IN (SELECT value FROM json_each(?))"
_WHERE = (
    "AND EXISTS (SELECT 1 FROM passages AS p JOIN documents AS d ON d.rowid = p.document "
    "WHERE p.rowid = passages_fts.rowid AND /*conditions*/)"
)
_SELECTED = (
    "SELECT p.rowid FROM documents AS d JOIN passages AS p ON p.document = d.rowid "
    "WHERE /*conditions*/"
)


class Searcher:
    """Runs both branches; remembers which passages a filter lets through until the file changes."""

    def __init__(self) -> None:
        self.planner: Planner = "auto"
        self._selections: dict[tuple[object, ...], vectors.Selection] = {}
        self._distances: vectors.Distances | None = None

    def keyword(
        self,
        connection: apsw.Connection,
        query: Query,
        limit: int,
        conditions: list[filters.Clause],
        deadline: float | None,
    ) -> list[Scored]:
        """Best passages by BM25, higher is better."""
        match = self._plan(connection, query)
        extra, values = self._restriction(connection, conditions)
        if deadline is not None:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, PROGRESS_STEPS)
        try:
            found = rows(
                connection,
                _KEYWORD.replace("/*where*/", extra),
                (match, fts.RANK, *values, limit),
            )
        finally:
            if deadline is not None:
                connection.set_progress_handler(None)
        return [(ref, score) for ref, score in found]

    def _plan(self, connection: apsw.Connection, query: Query) -> str:
        passages = terms.passage_count(connection)
        small = self.planner == "auto" and passages < terms.PLANNER_PASSAGES
        if query.expression is not None or self.planner == "never" or small:
            return fts.plan(query, {}, passages)
        stems = {
            word: {term for _, _, term in terms.tokens(connection, word)} for word in query.words
        }
        counts = terms.frequencies(connection, set().union(*stems.values()))
        frequency = {
            word: min((counts[term] for term in found), default=0) for word, found in stems.items()
        }
        return fts.plan(query, frequency, passages, force=self.planner == "always")

    def _restriction(
        self, connection: apsw.Connection, conditions: list[filters.Clause]
    ) -> tuple[str, Sequence[object]]:
        """The filter inside the keyword branch, before any limit."""
        if not conditions:
            return "", ()
        selection = self._select(connection, conditions)
        if selection.refs is not None:
            return _AMONG, (json.dumps(list(selection.refs)),)
        sql, values = filters.joined(conditions)
        return _WHERE.replace("/*conditions*/", sql), values

    def _select(
        self, connection: apsw.Connection, conditions: list[filters.Clause]
    ) -> vectors.Selection:
        sql, values = filters.joined(conditions)
        key = (sql, *values, *_version(connection))
        selection = self._selections.get(key)
        if selection is None:
            refs = [
                ref for (ref,) in rows(connection, _SELECTED.replace("/*conditions*/", sql), values)
            ]
            few = max(FEW, terms.passage_count(connection) * SHORT_SELECTION)
            selection = vectors.Selection(refs, short=len(refs) <= few)
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
        return vectors.nearest(connection, generation.id, query, limit, selection, self._kernel())

    def cosines(
        self, connection: apsw.Connection, vector: Vector, space: Space, refs: Sequence[Ref]
    ) -> dict[Ref, float]:
        """Cosine for these passages; those without a vector are absent."""
        generation = generations.current(connection)
        if generation is None or generation.space != generations.space_text(space):
            return {}
        query = vectors.quantise(vector, generation.dims)
        return vectors.pick(connection, generation.id, query, refs, self._kernel())

    def _kernel(self) -> vectors.Distances:
        if self._distances is None:
            self._distances = vectors.kernel()
        return self._distances


def _version(connection: apsw.Connection) -> tuple[int, int, int]:
    """Changes whenever this or any other connection commits."""
    return (
        id(connection),
        int(connection.execute("PRAGMA data_version").get),
        connection.total_changes(),
    )
