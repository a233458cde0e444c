"""The last look at the best hits: those that hold more of the question's words come first.

BM25 lets one word that stands often outweigh two that stand once. Whoever reads the answer would
rather see all that was asked for in one place. Pure: knows nothing of stores or text.
"""

from collections.abc import Sequence

from plait.ranking.fuse import Fused

# Only the first answers change places: their words are read for the snippet anyway, and looking
# further down gained nothing (10 to 50 were tried, benchmarks/quality.md).
LOOKED_AT = 10
# What holding every word adds to a score, on the scale of the score. From benchmarks/quality.md:
# 0.3 to 0.5 do about as well, and more than that costs questions about code.
FULL_COVER = 0.4


def favour(ranked: Sequence[Fused], covered: Sequence[float]) -> list[Fused]:
    """Candidates, best first, with what their words add to the first of them, in the same order.

    Where a sum exceeds 1, all are divided by the largest: the order stays, and so does 0..1.

    Args:
        ranked: The candidates.
        covered: Share of the question's words that each holds, 0..1.
    """
    added = [
        FULL_COVER * share if place < LOOKED_AT else 0.0 for place, share in enumerate(covered)
    ]
    sums = [one.score + extra for one, extra in zip(ranked, added, strict=True)]
    largest = max([1.0, *sums])
    return [
        one._replace(
            score=total / largest,
            keyword_share=one.keyword_share / largest,
            vector_share=one.vector_share / largest,
            neighbours=one.neighbours / largest,
            cover=extra / largest,
        )
        for one, extra, total in zip(ranked, added, sums, strict=True)
    ]
