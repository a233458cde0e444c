"""Merge a keyword ranking and a vector ranking of the same passages into one score in 0..1.

``weighted`` is the default: every candidate is scored by both signals, so that a passage that only
one branch listed is not punished for the other's short list. ``rrf`` and ``seed001`` are the two
merges that users of the seed systems know.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

Item = TypeVar("Item", bound=Hashable)

# Cormack, Clarke & Büttcher, SIGIR 2009: k = 60 was near-optimal and not critical.
RRF_K = 60
# BM25 of nothing but everyday words is noise. Below this share of what one rare word could attain,
# keywords count the less the weaker they are, and vectors decide.
ATTAINABLE_SHARE = 0.1
SEED001_KEYWORD_WEIGHT = 0.3
SEED001_VECTOR_WEIGHT = 0.7


class Fused(NamedTuple):
    """A candidate's score, and each signal's part in it: value times share.

    ``None`` is a signal that was absent altogether. ``neighbours`` is what the messages around it
    lent to the score, ``cover`` what the question's words in it added.
    """

    score: float
    keyword: float | None
    vector: float | None
    keyword_share: float = 1.0
    vector_share: float = 1.0
    neighbours: float = 0.0
    cover: float = 0.0


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Item]], *, k: int = RRF_K
) -> dict[Item, float]:
    """Sum of ``1 / (k + rank)`` over the rankings that hold an item; ranks start at 1.

    >>> scores = reciprocal_rank_fusion([["a", "b"], ["b", "c"]], k=1)
    >>> {item: round(score, 4) for item, score in scores.items()}
    {'a': 0.5, 'b': 0.8333, 'c': 0.3333}
    """
    scores: dict[Item, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + 1.0 / (k + rank)
    return scores


def rrf(
    keyword: Sequence[tuple[Item, float]] | None,
    vector: Sequence[tuple[Item, float]] | None,
    *,
    k: int = RRF_K,
) -> dict[Item, Fused]:
    """Reciprocal rank fusion, divided by what an item first in every ranking would get.

    ``None`` is a branch that did not run; an empty one ran and found nothing.
    """
    lists = [branch for branch in (keyword, vector) if branch is not None]
    rankings = [[item for item, _ in branch] for branch in lists]
    best = len(rankings) / (k + 1)
    parts = [reciprocal_rank_fusion([ranking], k=k) for ranking in rankings]
    fused: dict[Item, Fused] = {}
    for item, score in reciprocal_rank_fusion(rankings, k=k).items():
        shares = [part.get(item, 0.0) / best for part in parts]
        first = shares[0] if keyword is not None else None
        second = shares[-1] if vector is not None else None
        fused[item] = Fused(score / best, first, second)
    return fused


def weighted(
    keyword: Sequence[tuple[Item, float]] | None,
    cosines: Mapping[Item, float] | None,
    candidates: Sequence[Item],
    *,
    keyword_weight: float,
    vector_weight: float,
    attainable: float = 0.0,
) -> dict[Item, Fused]:
    """Both signals divided by their maximum, for every candidate, and combined by weight.

    Args:
        keyword: BM25 of the keyword branch's candidates; the others count 0.
        cosines: Cosine of every candidate that has a vector; a candidate whose vector is still
            pending gets the median, so that it keeps its place.
        candidates: The union of both branches.
        keyword_weight: Share of the keyword signal.
        vector_weight: Share of the vector signal.
        attainable: BM25 that one rare word could attain; tells weak keywords from strong ones.
    """
    bm25 = dict(keyword or ())
    top = max(bm25.values(), default=0.0)
    strength = min(1.0, top / (attainable * ATTAINABLE_SHARE)) if attainable > 0.0 else 1.0
    positive = {item: max(0.0, cosine) for item, cosine in (cosines or {}).items()}
    nearest = max(positive.values(), default=0.0)
    has_keyword, has_vector = bool(bm25) and top > 0.0, nearest > 0.0
    pending = sorted(positive.values())[(len(positive) - 1) // 2] if has_vector else 0.0
    share_k = keyword_weight * strength if has_keyword else 0.0
    share_v = vector_weight if has_vector else 0.0
    if not share_k + share_v:
        # Only a signal of weight 0 answered: its order is still better than none.
        share_k, share_v = float(has_keyword), float(has_vector)
    total = (share_k + share_v) or 1.0
    fused: dict[Item, Fused] = {}
    for item in candidates:
        by_keyword = max(0.0, bm25.get(item, 0.0)) / top if has_keyword else None
        by_vector = positive.get(item, pending) / nearest if has_vector else None
        mixed = share_k * (by_keyword or 0.0) + share_v * (by_vector or 0.0)
        fused[item] = Fused(mixed / total, by_keyword, by_vector, share_k / total, share_v / total)
    return fused


def seed001(
    keyword: Sequence[tuple[Item, float]] | None,
    vector: Sequence[tuple[Item, float]] | None,
    *,
    keyword_weight: float = SEED001_KEYWORD_WEIGHT,
    vector_weight: float = SEED001_VECTOR_WEIGHT,
) -> dict[Item, Fused]:
    """Seed 001's merge to the letter: each side by its maximum, what is missing counts 0."""
    by_keyword = _by_maximum(keyword or ())
    by_vector = _by_maximum([(item, cosine) for item, cosine in vector or () if cosine > 0.0])
    fused: dict[Item, Fused] = {}
    for item in dict.fromkeys([*by_keyword, *by_vector]):
        first, second = by_keyword.get(item), by_vector.get(item)
        score = keyword_weight * (first or 0.0) + vector_weight * (second or 0.0)
        fused[item] = Fused(score, first, second, keyword_weight, vector_weight)
    return fused


def _by_maximum(scores: Sequence[tuple[Item, float]]) -> dict[Item, float]:
    """Scores divided by the largest; left as they are when that is not positive."""
    top = max((score for _, score in scores), default=0.0)
    return {item: score / top if top > 0.0 else score for item, score in scores}
