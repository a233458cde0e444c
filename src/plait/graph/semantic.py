"""Search entities the way mcp-memory does: two branches, reciprocal ranks, then a score by use.

The steps are the same whatever fusion plain search uses, and the answer has mcp-memory's shape.
"""

from typing import Any, NamedTuple

from plait.embedders import Embedder
from plait.errors import EmbedderError, UsageError, advise
from plait.graph.values import Entity
from plait.protocols import Scored, Store
from plait.ranking import hybrid, use
from plait.text import parse
from plait.types import Document, Filter, Ref, check_range

# As in mcp-memory: both branches fetch more, so that re-ranking has candidates to choose from.
EXPANSION_FACTOR = 3
DEFAULT_ENTITIES = 10
MAX_ENTITIES = 1_000


class RankedEntity(NamedTuple):
    """The document of an entity and its scores; ``rrf`` is ``None`` if no keyword matched."""

    ref: Ref
    document: Document
    scoring: use.Scoring
    distance: float | None
    rrf: float | None


def search_entities(
    store: Store,
    embedder: Embedder,
    query: str,
    limit: int,
    where: Filter,
    now: int,
    constants: use.Constants,
) -> list[RankedEntity]:
    """Return the entities that match a query, best first.

    Raises:
        UsageError: The query is empty or the limit is out of range.
    """
    if not query.strip():
        raise UsageError("The query is empty.", code="empty_query", advice=advise("give_query"))
    check_range("limit", limit, 1, MAX_ENTITIES)
    by_vector = _by_vector(store, embedder, query, EXPANSION_FACTOR * limit, where)
    by_keyword = store.keyword(parse(query), EXPANSION_FACTOR * limit, where)
    distances = {ref: 1.0 - cosine for ref, cosine in by_vector}
    if by_keyword:
        rankings = [[ref for ref, _ in by_vector], [ref for ref, _ in by_keyword]]
        scores = hybrid.reciprocal_rank_fusion(rankings)
    else:
        scores = dict.fromkeys(distances, 0.0)
    rows = store.hydrate(list(scores), ranking=True)
    # An entity that was deleted since the branches ran is left out.
    documents = {ref: rows[ref].document for ref in scores if ref in rows}
    candidates = {
        ref: use.EntityCandidate(
            # As in mcp-memory, an unread entity ages from its creation.
            use.history_of(document, rows[ref].use)._replace(moment=document.created_at),
            distances.get(ref),
            scores[ref],
        )
        for ref, document in documents.items()
    }
    return [
        RankedEntity(
            ref, documents[ref], scoring, distances.get(ref), scores[ref] if by_keyword else None
        )
        for ref, scoring in use.rank(candidates, now, constants)[:limit]
    ]


def _by_vector(
    store: Store, embedder: Embedder, query: str, limit: int, where: Filter
) -> list[Scored]:
    """Run the vector branch; empty if there are no vectors to compare or the embedder fails."""
    if embedder.dims == 0 or store.state().space != embedder.space:
        return []
    try:
        vector = embedder.cached_query(query) or embedder.embed_safely([query], "query")[0]
    except EmbedderError:
        return []
    return [] if vector is None else store.vector(vector, embedder.space, limit, where).hits


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
