"""Later pages of a search.

The first page is ranked among few candidates, as other systems do. More candidates would move its
hits, and the pages would repeat some and miss others. So later pages continue with another ranking,
of many candidates, the same whatever the page, without what the first page has shown.
"""

from collections.abc import Sequence

from plait.searching.branches import Plan
from plait.searching.diversity import POOL_FACTOR, diversified
from plait.searching.scoring import Request
from plait.searching.search import MAX_LIMIT, Ranked, ranked
from plait.types import Hit

DEEP_BLOCK = 100  # hits of later pages that are sorted together


def later(plan: Plan) -> Ranked:
    """Rank a page behind the first one."""
    request = plan.request
    begun, deep = plan._replace(request=request._replace(offset=0)), deeper(plan)
    rest = None
    if plan.ahead is not None:
        # What is read for it has all that the first page needs.
        plan.ahead.sizes = (request.limit,)
        rest = ranked(deep, MAX_LIMIT)
    first = ranked(begun, request.limit)
    if len(first.hits) < request.limit:
        rest = first  # one that does not fill its page is the last one
    elif rest is None:
        rest = ranked(deep, MAX_LIMIT)
    return rest._replace(
        hits=later_page(first.hits, rest.hits, request),
        degraded=tuple(dict.fromkeys((*first.degraded, *rest.degraded))),
        corrections=first.corrections,
    )


def later_page(first: Sequence[Hit], deep: Sequence[Hit], request: Request) -> list[Hit]:
    """Return the hits of a page behind the first one.

    Args:
        first: Those of the first page.
        deep: The ranking that the later pages continue.
        request: The search, with its offset.
    """
    shown = {id_ for hit in first for id_ in (hit.id, *hit.folded)}
    documents = {hit.document.id for hit in first} if request.best_per_document else set()
    rest = [hit for hit in deep if hit.id not in shown and hit.document.id not in documents]
    if request.diverse:
        size = request.limit * POOL_FACTOR
        plain, rest = rest, []
        # As many whole parts as the page needs: half of one would have another order.
        while plain and len(rest) < request.offset + request.limit:
            rest += diversified(plain[:size], size)
            plain = plain[size:]
    start = request.offset - len(first)
    page = [*first, *rest][request.offset :] if start < 0 else rest[start:]
    return page[: request.limit]


def deeper(plan: Plan) -> Plan:
    """Return the plan of the ranking that later pages continue with, whatever their offset."""
    request = plan.request
    # How many copies a diverse search folds is known only when all are read.
    needed = MAX_LIMIT if request.diverse else request.offset + 2 * request.limit
    return plan._replace(
        request=request._replace(
            offset=0,
            limit=-(-needed // DEEP_BLOCK) * DEEP_BLOCK,
            block=DEEP_BLOCK,
            diverse=False,
        )
    )
