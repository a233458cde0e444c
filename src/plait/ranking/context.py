"""Messages of one conversation lend each other weight. Pure: knows nothing of stores or text.

An answer in a conversation often shares no word with the question: the turn before it asked, or the
turn after it says what it was about. Passages are numbered in the order they were stored, so the
turns around one are those whose refs lie next to its own.
"""

from collections.abc import Collection, Mapping

from plait.ranking.fuse import Fused
from plait.types import Ref

# Share of a score that goes to the messages one and two places away, on both sides. From
# benchmarks/quality.md, where 0.2 to 0.3 and 0.1 to 0.2 do about as well.
SHARES = (0.25, 0.15)


def beside(refs: Collection[Ref]) -> list[Ref]:
    """Those that have another one near enough to matter: only their sessions need looking up.

    >>> beside([1, 3, 10, 20, 21])
    [1, 3, 20, 21]
    """
    known = set(refs)
    near: set[Ref] = set()
    for away in range(1, len(SHARES) + 1):
        later = known & {ref + away for ref in known}
        near |= later | {ref - away for ref in later}
    return [ref for ref in refs if ref in near]


def lend(fused: Mapping[Ref, Fused], sessions: Mapping[Ref, str]) -> dict[Ref, Fused]:
    """Scores with a share of what the neighbouring messages of the same session scored.

    Where a sum exceeds 1, all are divided by the largest: the order stays, and so does 0..1.

    Args:
        fused: The candidates.
        sessions: The session of each candidate that is a message of one; others lend nothing.
    """
    lent = {ref: _lent(ref, fused, sessions) for ref in sessions if ref in fused}
    if not any(lent.values()):
        return dict(fused)
    largest = max(1.0, *(fused[ref].score + lent.get(ref, 0.0) for ref in fused))
    return {
        ref: one._replace(
            score=(one.score + lent.get(ref, 0.0)) / largest,
            keyword_share=one.keyword_share / largest,
            vector_share=one.vector_share / largest,
            neighbours=lent.get(ref, 0.0) / largest,
        )
        for ref, one in fused.items()
    }


def _lent(ref: Ref, fused: Mapping[Ref, Fused], sessions: Mapping[Ref, str]) -> float:
    session = sessions[ref]
    return sum(
        share * fused[place].score
        for away, share in enumerate(SHARES, start=1)
        for place in (ref - away, ref + away)
        if place in fused and sessions.get(place) == session
    )
