"""Seed 002's search over entities: both branches, reciprocal ranks, then salience from use.

It runs its six steps whatever fusion plain search uses, and answers in its own shape.
"""

from typing import Any, NamedTuple

from plait.embedders import embed_safely
from plait.errors import EmbedderError, UsageError
from plait.graph.values import Entity
from plait.protocols import Embedder, Scored, Store
from plait.ranking import fuse, limbic
from plait.text import parse
from plait.types import Document, Filter, Ref

# Seed 002: both branches over-fetch, so that the re-ranking has something to choose from.
EXPANSION_FACTOR = 3
LIMIT = 10
MAX_LIMIT = 1_000


class Found(NamedTuple):
    """An entity's document with the numbers behind its place; ``rrf`` only in hybrid mode."""

    ref: Ref
    document: Document
    scoring: limbic.Scoring
    distance: float | None
    rrf: float | None


def search(
    store: Store,
    embedder: Embedder,
    query: str,
    limit: int,
    where: Filter,
    now: int,
    constants: limbic.Constants,
) -> list[Found]:
    """The entities that answer a query, best first.

    Raises:
        UsageError: The query is empty or the limit out of its range.
    """
    if not query.strip():
        raise UsageError("The query is empty. Say what to look for.")
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit is {limit}; choose 1 to {MAX_LIMIT}.")
    nearest = _nearest(store, embedder, query, EXPANSION_FACTOR * limit, where)
    words = store.keyword(parse(query), EXPANSION_FACTOR * limit, where)
    distances = {ref: 1.0 - cosine for ref, cosine in nearest}
    rankings = [[ref for ref, _ in nearest], [ref for ref, _ in words]]
    scores = fuse.reciprocal_rank_fusion(rankings) if words else dict.fromkeys(distances, 0.0)
    rows = store.passages(list(scores))
    # An entity may have been deleted since the branches ran: it is simply no longer there.
    documents = {ref: rows[ref][1] for ref in scores if ref in rows}
    uses = store.uses(list(documents))
    candidates = {
        ref: limbic.Candidate(
            # Seed 002 lets an entity that nobody has read age from its making.
            limbic.history(ref, document, uses.of, uses.together)._replace(
                moment=document.created_at
            ),
            distances.get(ref),
            scores[ref],
        )
        for ref, document in documents.items()
    }
    return [
        Found(ref, documents[ref], scoring, distances.get(ref), scores[ref] if words else None)
        for ref, scoring in limbic.rank(candidates, now, constants)[:limit]
    ]


def _nearest(
    store: Store, embedder: Embedder, query: str, limit: int, where: Filter
) -> list[Scored]:
    """The vector branch; empty where there is nothing to compare with, or the embedder is down."""
    if embedder.dims == 0 or store.space() != embedder.space:
        return []
    try:
        [vector] = embed_safely(embedder, [query], "query")
    except EmbedderError:
        return []
    return [] if vector is None else store.vector(vector, embedder.space, limit, where)


def shown(entity: Entity, found: Found) -> dict[str, Any]:
    """An answer in seed 002's shape: ``rrf_score`` is there exactly in hybrid mode."""
    scoring = found.scoring
    answer = {
        **entity.dict(),
        "limbic_score": round(scoring.limbic_score, 4),
        "scoring": {
            "importance": round(scoring.importance, 4),
            "temporal_factor": round(scoring.temporal_factor, 4),
            "cooc_boost": round(scoring.cooc_boost, 4),
        },
        "distance": None if found.distance is None else round(found.distance, 4),
    }
    if found.rrf is not None:
        answer["rrf_score"] = round(found.rrf, 6)
    return answer
