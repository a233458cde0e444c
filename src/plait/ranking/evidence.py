"""How much a passage has to do with a query, on a scale that does not depend on the other hits."""

import math
from collections.abc import Collection, Mapping

from plait.types import Tuning


def idf(passages: int, holding: int) -> float:
    """How telling a word is: large for a rare one, near 0 for one that every passage holds."""
    return math.log1p((max(passages, holding) - holding + 0.5) / (holding + 0.5))


def attainable_bm25(passages: int, k1: float = 1.2) -> float:
    """BM25 that a single word of one passage alone could attain in a memory of this size."""
    return max(0.0, math.log((passages - 0.5) / 1.5)) * (k1 + 1.0) if passages > 2 else 0.0


def coverage(
    wanted: Collection[str], found: Collection[str], passages: int, holding: Mapping[str, int]
) -> float:
    """Share of the query's words that a passage holds, each weighted by how telling it is.

    >>> round(coverage(["ssh", "the"], ["ssh"], 100, {"ssh": 1, "the": 90}), 2)
    0.97
    """
    weights = {word: idf(passages, holding.get(word, 0)) for word in wanted}
    total = sum(weights.values())
    if not total:
        return 0.0
    return sum(weight for word, weight in weights.items() if word in found) / total


def relevance(covered: float, cosine: float | None, tuning: Tuning) -> float:
    """Evidence in 0..1 from both signals: either alone can convince, two weak ones add up.

    >>> relevance(1.0, None, Tuning()), round(relevance(0.5, 0.5, Tuning()), 2)
    (1.0, 0.75)
    """
    if cosine is None:
        return covered
    span = max(1e-9, tuning.ceiling - tuning.floor)
    meant = min(1.0, max(0.0, (cosine - tuning.floor) / span))
    return 1.0 - (1.0 - covered) * (1.0 - meant)
