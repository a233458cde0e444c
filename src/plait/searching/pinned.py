"""Pinned documents, which a recall always has first. Packing them belongs in `recall`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from plait.errors import StoreDamaged
from plait.protocols import Store
from plait.searching.search import tokens_of
from plait.searching.snippets import snippet
from plait.searching.timeline import happenings
from plait.types import Document, Filter, Hit, Passage

if TYPE_CHECKING:
    from plait.protocols import ReadAhead

# Of the budget: what is always there must leave most of it to the question.
PINNED_SHARE = 0.25
MOST_PINNED = 20
# What the line above an item costs, about.
HEAD_TOKENS = 20
PINNED = "pinned"


def pinned_ones(where: Filter) -> Filter:
    """Return the filter for the pinned documents of a filter.

    Only trusted ones: whoever pins a text puts it into every prompt.
    """
    return happenings(where)._replace(pinned=True, trusts=("trusted",))


def pinned_hits(
    store: Store,
    hits: Iterable[Hit],
    where: Filter,
    budget: int,
    ahead: "ReadAhead | None" = None,
) -> list[Hit]:
    """Return the pinned documents of a filter, newest first, as many as their share has room for.

    A document that matches the query is shown with the passage that does, others with their first
    one.
    """
    matching = {hit.document.id: hit for hit in reversed(list(hits))}
    chosen: list[Hit] = []
    left = int(budget * PINNED_SHARE)
    rows: list[tuple[Document, Passage | None]]
    if ahead is not None:
        rows = ahead.pinned()
    else:
        pinned = store.scan(pinned_ones(where), limit=MOST_PINNED, damaged=[])
        rows = [(document, None) for document in pinned]
    for document, passage in rows:
        hit = matching.get(document.id) or _beginning(store, document, passage)
        if hit is None:
            continue
        cost = HEAD_TOKENS + tokens_of(hit.passage.text)
        if cost <= left:
            chosen.append(hit._replace(reasons=(*hit.reasons, PINNED)))
            left -= cost
    return chosen


def _beginning(store: Store, document: Document, passage: Passage | None) -> Hit | None:
    """Return the beginning of a document as a hit; ``passage`` is its first one, if it was read."""
    if passage is None and document.chunk_count:
        try:
            passage = next(iter(store.passages(document.id, 0, 0)), None)
        except StoreDamaged:
            return None  # `search` and `doctor` tell it; a recall of other things goes on
    if passage is None:
        return None
    shown, highlights = snippet(passage.text, (), frozenset())
    return Hit(passage, document, 0.0, 0.0, "keyword", shown, highlights)
