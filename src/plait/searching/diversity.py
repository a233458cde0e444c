"""Order hits so that each says something new: copies fold, and similar passages move down.

Only on request, but for copies: what a model is shown without asking has none. It never hides a
correction: a hit folds only into one with the same words in the same order, and facts
(observations, messages, entities) are not held back for being similar.
"""

from collections.abc import Iterable, Sequence

from plait.facts.likeness import content_words, in_common, without_punctuation
from plait.types import Hit

# The weight of relevance against novelty (Carbonell and Goldstein, 1998). OpenClaw's default too.
RELEVANCE_SHARE = 0.7
# Hits to choose from, as a multiple of how many are wanted.
POOL_FACTOR = 4
# Kinds whose texts are facts of their own: a similar one may be a correction.
_FACTS = frozenset({"observation", "message", "entity"})


def diversified(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """Return at most ``limit`` of the hits; the ids of folded copies are in ``folded``.

    Args:
        hits: Best first.
        limit: How many are wanted.
    """
    left = without_copies(hits)
    words = {hit.id: content_words(hit.passage.text) for hit in left if not _is_fact(hit)}
    closest = dict.fromkeys(words, 0.0)
    chosen: list[Hit] = []
    while left and len(chosen) < limit:
        best = max(left, key=lambda hit: _gain(hit, closest))
        left.remove(best)
        chosen.append(best)
        if best.id in words:
            for id_ in closest:
                closest[id_] = max(closest[id_], in_common(words[id_], words[best.id]))
    return chosen


def _gain(hit: Hit, closest: dict[str, float]) -> float:
    """Return what a hit adds to those already chosen; the first of equals is taken."""
    return RELEVANCE_SHARE * hit.score - (1.0 - RELEVANCE_SHARE) * closest.get(hit.id, 0.0)


def _is_fact(hit: Hit) -> bool:
    return hit.document.kind in _FACTS


def without_copies(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits without copies of better ones, each with the ids of its copies."""
    kept: dict[object, tuple[Hit, list[str]]] = {}
    for hit in hits:
        better, copies = kept.setdefault(_identity(hit), (hit, []))
        if better is not hit:
            copies.append(hit.id)
    return [hit._replace(folded=tuple(copies)) for hit, copies in kept.values()]


def _identity(hit: Hit) -> object:
    """Return what copies have in common: words, subject, validity and trust.

    And when it happened, if somebody said so: the same sentence may stand in the log of each month.
    """
    document = hit.document
    if document.kind == "message":
        return hit.id  # "yes" answers another question each time
    is_dated = document.event_at not in (document.created_at, document.mtime)
    return (
        without_punctuation(hit.passage.text),
        document.trust,
        document.project,
        document.parent,
        document.topic,
        document.valid_from,
        document.valid_to,
        document.event_at if is_dated else None,
    )
