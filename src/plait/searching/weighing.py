"""What use, age and status of a document make of the scores of its hits."""

import time
from collections.abc import Mapping, Sequence

from plait.protocols import Use
from plait.ranking import use
from plait.times import DAY_MS
from plait.types import Hit, Ref


def weighed(
    hits: Sequence[Hit], uses: Mapping[Ref, Use | None], changed: Sequence[tuple[str, float]]
) -> list[Hit]:
    """Return the hits with their scores times the one factor of `plait.ranking.use`.

    Args:
        hits: Those that are sorted together.
        uses: How each of them was used.
        changed: Constants of `plait.ranking.use` that differ from the defaults.
    """
    refs = [hit.passage.ref for hit in hits]
    constants = use.constants_from(changed)
    # Whole days, so that the same search gives the same answer all day.
    now = time.time_ns() // 1_000_000 // DAY_MS * DAY_MS
    rows = []
    for hit in hits:
        document = hit.document
        history = use.history_of(document, uses[hit.passage.ref], refs)
        weight = use.weigh(
            history,
            now,
            constants,
            kind=document.kind,
            trust=document.trust,
            pinned=document.pinned,
            stated=document.importance,
            status=document.status,
        )
        reasons = (*hit.reasons, use.explain_weight(weight, history)) if hit.reasons else ()
        rows.append(hit._replace(score=hit.score * weight.factor, reasons=reasons))
    largest = max([1.0, *(hit.score for hit in rows)])
    if largest == 1.0:
        return rows
    divided = f"; divided by {largest:.4f}, so that no score is above 1"
    return [
        hit._replace(
            score=hit.score / largest,
            reasons=(*hit.reasons[:-1], hit.reasons[-1] + divided) if hit.reasons else (),
        )
        for hit in rows
    ]
