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
    first = {} if ahead is None else {row.id: (row, passage) for row, passage in ahead.pinned()}
    documents = [row for row, _ in first.values()]
    if ahead is None:
        documents = store.scan(pinned_ones(where), limit=MOST_PINNED, damaged=[])
    for document in documents:
        hit = matching.get(document.id)
        if hit is None and ahead is None:
            hit = _first_passage(store, document)
        elif hit is None and (passage := first[document.id][1]) is not None:
            hit = _as_hit(document, passage)
        if hit is None:
            continue
        cost = HEAD_TOKENS + tokens_of(hit.passage.text)
        if cost <= left:
            chosen.append(hit._replace(reasons=(*hit.reasons, PINNED)))
            left -= cost
    return chosen


def _first_passage(store: Store, document: Document) -> Hit | None:
    """Return the beginning of a document; nothing if it cannot be read."""
    try:
        passages = store.passages(document.id, 0, 0)
    except StoreDamaged:
        return None  # `search` and `doctor` tell it; a recall of other things goes on
    return _as_hit(document, passages[0]) if passages else None


def _as_hit(document: Document, passage: Passage) -> Hit:
    shown, highlights = snippet(passage.text, (), frozenset())
    return Hit(passage, document, 0.0, 0.0, "keyword", shown, highlights)
