"""Search entities the way mcp-memory does: two branches, reciprocal ranks, then a score by use.

The steps are the same whatever fusion plain search uses, and the answer has mcp-memory's shape.
mcp-memory indexes all observations of an entity as one text. Here a branch lists passages,
profiles and observations alike, and an entity has the place of its best one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plait.embedders import Embedder
from plait.errors import EmbedderError, Notice, StoreDamaged, UsageError, advise
from plait.graph.values import Entity
from plait.protocols import Nearest, Scored, Store, Vector
from plait.ranking import hybrid, use
from plait.searching.branches import MATCHES, vectors_can_answer
from plait.text import parse
from plait.types import Document, Filter, Ref, check_range
from plait.types.records import NamedTuple

# As in mcp-memory: both branches fetch more, so that re-ranking has candidates to choose from.
EXPANSION_FACTOR = 3
DEFAULT_ENTITIES = 10
MAX_ENTITIES = 1_000
# Several facts of one entity match as often as not, so a branch fetches this many passages for
# each entity that it looks for, and as many times more while they are too few.
PASSAGES_PER_ENTITY = 4


class EntityRanking(NamedTuple):
    """What the settings change: mcp-memory's two constants, and those of use."""

    expansion_factor: int = EXPANSION_FACTOR
    rrf_k: int = hybrid.RRF_K
    constants: use.Constants = use.DEFAULT_CONSTANTS


class RankedEntity(NamedTuple):
    """The document of an entity and its scores; ``rrf`` is ``None`` if no keyword matched."""

    ref: Ref
    document: Document
    scoring: use.Scoring
    distance: float | None
    rrf: float | None


class RankedEntities(list[dict[str, Any]]):
    """The answer, best first; ``degraded`` tells which branch could not answer, and why."""

    degraded: tuple[Notice, ...] = ()


# The entities among some ids that the searcher may see, by id.
Visible = Callable[[Sequence[str]], Mapping[str, Document]]


class SemanticSearch:
    """One search: the store, the filter, and which entities own the passages seen so far."""

    def __init__(self, store: Store, embedder: Embedder, where: Filter, visible: Visible) -> None:
        self.degraded: list[Notice] = []
        self._store = store
        self._embedder = embedder
        self._where = where._replace(kinds=("entity", "observation"))
        self._visible = visible
        self._owners: dict[Ref, str | None] = {}
        self._entities: dict[str, Document] = {}

    def run(self, query: str, limit: int, now: int, ranking: EntityRanking) -> list[RankedEntity]:
        """Return the entities that match a query, best first.

        Raises:
            UsageError: The query is empty or the limit is out of range.
        """
        if not query.strip():
            raise UsageError("The query is empty.", code="empty_query", advice=advise("give_query"))
        check_range("limit", limit, 1, MAX_ENTITIES)
        wanted = ranking.expansion_factor * limit
        by_keyword = self._by_keyword(query, wanted)
        by_vector = self._by_vector(query, wanted, by_keyword)
        distances = {id_: 1.0 - cosine for id_, (_, cosine) in by_vector.items()}
        if by_keyword:
            scores = hybrid.reciprocal_rank_fusion(
                [list(by_vector), list(by_keyword)], k=ranking.rrf_k
            )
        else:
            scores = dict.fromkeys(distances, 0.0)
        profiles = self._profiles(scores)
        rows = self._store.hydrate(list(profiles.values()), ranking=True)
        # An entity that was deleted since the branches ran is left out.
        alive = {id_: rows[ref] for id_, ref in profiles.items() if ref in rows}
        candidates = {
            id_: use.EntityCandidate(
                # As in mcp-memory, an unread entity ages from its creation.
                use.history_of(row.document, row.use)._replace(moment=row.document.created_at),
                distances.get(id_),
                scores[id_],
            )
            for id_, row in alive.items()
        }
        return [
            RankedEntity(
                profiles[id_],
                self._entities[id_],
                scoring,
                distances.get(id_),
                scores[id_] if by_keyword else None,
            )
            for id_, scoring in use.rank(candidates, now, ranking.constants)[:limit]
        ]

    # -- the two branches ------------------------------------------------------------------

    def _by_keyword(self, query: str, wanted: int) -> dict[str, list[Ref]]:
        """Return the entities with the query's words, best first, and their matching passages."""
        words = parse(query)
        try:
            scored, order = self._first_entities(
                lambda size: self._store.keyword(words, size, self._where), wanted
            )
        except StoreDamaged as error:
            self.degraded.append(error.notice.explaining("keyword search failed"))
            return {}
        matching: dict[str, list[Ref]] = {id_: [] for id_ in order}
        for ref, _ in scored:
            owner = self._owners[ref]
            if owner in matching:
                matching[owner].append(ref)
        return matching

    def _by_vector(
        self, query: str, wanted: int, by_keyword: Mapping[str, Sequence[Ref]]
    ) -> dict[str, tuple[Ref, float]]:
        """Return the nearest entities, best first, with their nearest passage and its cosine."""
        state = self._store.state()
        if not vectors_can_answer(self._embedder, state, "hybrid", self.degraded):
            return {}
        text = query[: self._embedder.tuning.max_chars]
        try:
            cached = self._embedder.cached_query(text)
            vector = cached or self._embedder.embed_safely([text], "query")[0]
            return {} if vector is None else self._nearest(vector, wanted, by_keyword)
        except EmbedderError as error:
            self.degraded.append(error.notice.explaining("vector search skipped"))
        except StoreDamaged as error:
            self.degraded.append(error.notice.explaining("vector search failed"))
        return {}

    def _nearest(
        self, vector: Vector, wanted: int, by_keyword: Mapping[str, Sequence[Ref]]
    ) -> dict[str, tuple[Ref, float]]:
        also = [ref for refs in by_keyword.values() for ref in refs]
        latest = Nearest([], {})

        def ask(size: int) -> list[Scored]:
            nonlocal latest
            latest = self._store.vector(vector, self._embedder.space, size, self._where, also=also)
            return latest.hits

        scored, order = self._first_entities(ask, wanted)
        best: dict[str, tuple[Ref, float]] = {}
        for ref, cosine in scored:
            owner = self._owners[ref]
            if owner in order:
                best.setdefault(owner, (ref, cosine))
        if len(order) == wanted:
            return best
        # The store lists no passage beyond 90 degrees. mcp-memory's nearest neighbours include it
        # while there is room, so that it is not taken for a hit by keywords only.
        beyond = {
            id_: max((latest.cosines[ref], ref) for ref in refs if ref in latest.cosines)
            for id_, refs in by_keyword.items()
            if id_ not in best and any(ref in latest.cosines for ref in refs)
        }
        for id_, (cosine, ref) in sorted(beyond.items(), key=lambda pair: -pair[1][0]):
            if len(best) < wanted:
                best[id_] = (ref, cosine)
        return best

    def _first_entities(
        self, ask: Callable[[int], list[Scored]], wanted: int
    ) -> tuple[list[Scored], dict[str, None]]:
        """Ask a branch for ever more passages until they belong to enough entities."""
        size = wanted * PASSAGES_PER_ENTITY
        while True:
            scored = ask(size)
            self._find_owners([ref for ref, _ in scored])
            owners = (self._owners[ref] for ref, _ in scored)
            order = dict.fromkeys(id_ for id_ in owners if id_ is not None)
            if len(order) >= wanted or len(scored) < size or size >= MATCHES:
                return scored, dict.fromkeys(list(order)[:wanted])
            size = min(MATCHES, size * PASSAGES_PER_ENTITY)

    def _find_owners(self, refs: Sequence[Ref]) -> None:
        """Learn whose passages these are; ``None`` for those of no entity, or of a hidden one."""
        fresh = [ref for ref in refs if ref not in self._owners]
        rows = self._store.hydrate(fresh) if fresh else {}
        owners: dict[Ref, str | None] = dict.fromkeys(fresh)
        for ref, row in rows.items():
            owners[ref] = row.document.id if row.document.kind == "entity" else row.document.parent
        unknown = {id_ for id_ in owners.values() if id_ is not None} - self._entities.keys()
        if unknown:
            self._entities |= self._visible(sorted(unknown))
        for ref, owner in owners.items():
            self._owners[ref] = owner if owner in self._entities else None

    def _profiles(self, ids: Mapping[str, float]) -> dict[str, Ref]:
        """Return the passages that hold the profiles of entities: their use is counted there."""
        profiles = {}
        for id_ in ids:
            for passage in self._store.passages(id_, 0, 0):
                profiles[id_] = passage.ref
        return profiles


def semantic_dict(entity: Entity, ranked: RankedEntity) -> dict[str, Any]:
    """Return an entity with its scores in mcp-memory's shape.

    ``distance`` is null for a hit by keywords only; ``rrf_score`` is absent if no keyword matched.
    """
    scoring = ranked.scoring
    answer = {
        **entity.dict(),
        "limbic_score": round(scoring.limbic_score, 4),
        "scoring": {
            "importance": round(scoring.importance, 4),
            "temporal_factor": round(scoring.temporal_factor, 4),
            "cooc_boost": round(scoring.cooc_boost, 4),
        },
        "distance": None if ranked.distance is None else round(ranked.distance, 4),
    }
    if ranked.rrf is not None:
        answer["rrf_score"] = round(ranked.rrf, 6)
    return answer
