"""An index of the vectors of one very large memory; all others are compared exactly.

Comparing takes time with the number of passages; an index takes minutes and memory,
so that only few memories are worth one, and never all of them together.
`tidy` makes it, beside the running searches, and drops that of vectors which are there no more.
"""

import time
from collections.abc import Sequence

from psycopg import errors

from plait.protocols import Nearest, Vector
from plait.stores.postgres import vectors
from plait.stores.postgres.connection import Channel, SQLRow, SQLStatement, located
from plait.stores.postgres.filters import Conditions
from plait.stores.postgres.state import GENERATIONS, answering, current_of
from plait.stores.sqlite.state import Generation, space_text
from plait.types import Ref, Space
from plait.types.records import NamedTuple

# A memory of so many passages gets an index.
INDEXED_PASSAGES = 50_000
# The first pgvector that goes on where a filter leaves too few, and the longest rows that it takes.
LEAST_VERSION = (0, 8)
MOST_DIMS = 4_000
# How many neighbours are looked at: more find more of the nearest, and take longer.
NEIGHBOURS_SEEN = 400
# How long a process relies on what it knows of the index.
KNOWN_S = 60.0

_VERSION = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
_INDEXES = (
    "SELECT c.relname, i.indisvalid, c.oid IN (SELECT p.index_relid "
    "FROM pg_stat_progress_create_index AS p) FROM pg_class AS c "
    "JOIN pg_index AS i ON i.indexrelid = c.oid JOIN pg_namespace AS s ON s.oid = c.relnamespace "
    "WHERE s.nspname = 'plait' AND starts_with(c.relname::text, %(prefix)s)"
)
_MAKE = (
    "CREATE INDEX CONCURRENTLY {name} ON plait.embeddings "
    "USING hnsw ((embedding::halfvec({dims})) halfvec_cosine_ops) "
    "WHERE ns = {ns} AND generation = {generation}"
)
_SETTINGS = (
    "SELECT set_config('hnsw.ef_search', %(looked_at)s, true), "
    "set_config('hnsw.iterative_scan', 'strict_order', true)"
)
_PASSAGES = "SELECT passages FROM plait.namespaces WHERE ns = %(ns)s"


class VectorIndex(NamedTuple):
    """The index of one memory's current vectors."""

    generation: int
    dims: int


class Indexes:
    """What a store knows of the index of its vectors."""

    def __init__(self) -> None:
        self.least = INDEXED_PASSAGES
        self.passages = 0  # of the memory, when its state was last asked for
        # Until when, and the current vectors, if they have an index.
        self._known: tuple[float, Generation | None] | None = None

    @property
    def may_serve(self) -> bool:
        """Whether the memory is so large that it may have an index."""
        return self.passages >= self.least

    def forget(self) -> None:
        """Look again at the next search."""
        self._known = None

    def of(self, session: Channel, space: Space) -> VectorIndex | None:
        """Return the index to search by; ``None`` where vectors are compared exactly."""
        asking = self.asking(session.ns)
        if asking:
            self.take(session.ns, session.together(*asking))
        return self.known(space)

    def asking(self, ns: int) -> list[SQLStatement]:
        """Return the statements that look for the index; nothing while the answers are new."""
        known = self._known
        if known is not None and known[0] >= time.monotonic():
            return []
        return [(_PASSAGES, {}), (GENERATIONS, {}), (_INDEXES, {"prefix": _name(ns, "")})]

    def take(self, ns: int, answers: Sequence[Sequence[SQLRow]]) -> None:
        """Take the answers to `asking`."""
        counted, listed, indexes = answers
        current = current_of(listed, None)
        valid = [name for name, is_valid, _ in indexes if is_valid]
        is_large = bool(counted) and counted[0][0] >= self.least
        if not is_large or current is None or _name(ns, current.id) not in valid:
            current = None
        self._known = (time.monotonic() + KNOWN_S, current)

    def known(self, space: Space) -> VectorIndex | None:
        """Return the index of the vectors of this space, as far as it is known."""
        current = None if self._known is None else self._known[1]
        if current is None or current.space != space_text(space):
            return None
        return VectorIndex(current.id, current.dims)

    def tidy(self, session: Channel) -> None:
        """Make the index where one is worth it; drop those that are of no use."""
        self.forget()
        current = answering(session)
        wanted = None
        if current is not None and current.dims <= MOST_DIMS and _is_new_enough(session):
            large = int(session.value(_PASSAGES) or 0) >= self.least
            wanted = _name(session.ns, current.id) if large else None
        there = False
        for name, is_valid, in_work in session.rows(_INDEXES, prefix=_name(session.ns, "")):
            if name == wanted and (is_valid or in_work):
                there = True  # or will be: another process makes it
            else:
                # Beside running searches, which would wait for a plain one, of all memories.
                session.connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS plait.{name}")
        if wanted is None or there or current is None:
            return
        sql = _MAKE.format(
            name=wanted, dims=int(current.dims), ns=int(session.ns), generation=int(current.id)
        )
        try:
            session.connection.execute(located(sql, session.vectors_in))
        except errors.DuplicateTable:
            return  # another process makes it


def _name(ns: int, generation: int | str) -> str:
    return f"embeddings_hnsw_{ns & (1 << 64) - 1:016x}_{generation}"


def _is_new_enough(session: Channel) -> bool:
    version = str(session.value(_VERSION) or "0").split(".")
    return tuple(int(part) for part in version[:2] if part.isdigit()) >= LEAST_VERSION


def neighbours_seen(limit: int) -> int:
    """Return how many neighbours are looked at for so many: of equally many, few are the first."""
    return max(NEIGHBOURS_SEEN, min(limit, 1_000))


def nearest(
    session: Channel,
    index: VectorIndex,
    vector: Vector,
    space: Space,
    limit: int,
    where: Conditions,
    also: Sequence[Ref],
) -> Nearest:
    """Return the nearest passages by the index; of a narrow filter, exactly."""
    asked = comparing(session.ns, index, vector, space, limit, where, also)
    near = vectors.as_nearest(session.together(*asked)[-1])
    return near._replace(approximate=near.among is None)


def comparing(
    ns: int,
    index: VectorIndex,
    vector: Vector,
    space: Space,
    limit: int,
    where: Conditions,
    also: Sequence[Ref],
) -> list[SQLStatement]:
    """Return the statements for the nearest passages by the index; the last one returns them.

    subtle: what is sent at once is one transaction, at whose end the settings are as before.
    """
    sql = vectors.NEAREST_OF_MEMORY.replace("{scan}", vectors.indexed_scan(ns, *index))
    return [
        (_SETTINGS, {"looked_at": str(neighbours_seen(limit))}),
        (where.stated(sql), vectors.asked(vector, space, limit, where, also)),
    ]
