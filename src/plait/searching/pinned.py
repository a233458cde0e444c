"""Pinned documents, which a recall always has first. Packing them belongs in `recall`."""

from collections.abc import Iterable

from plait.errors import StoreDamaged
from plait.protocols import Store
from plait.searching.search import tokens_of
from plait.searching.snippets import snippet
from plait.searching.timeline import happenings
from plait.types import Document, Filter, Hit

# Of the budget: what is always there must leave most of it to the question.
PINNED_SHARE = 0.25
MOST_PINNED = 20
# What the line above an item costs, about.
HEAD_TOKENS = 20
PINNED = "pinned"


def pinned_hits(store: Store, hits: Iterable[Hit], where: Filter, budget: int) -> list[Hit]:
    """Return the pinned documents of a filter, newest first, as many as their share has room for.

    Only trusted ones: whoever pins a text puts it into every prompt. A document that matches the
    query is shown with the passage that does, others with their first one.
    """
    wanted = happenings(where)._replace(pinned=True, trusts=("trusted",))
    matching = {hit.document.id: hit for hit in reversed(list(hits))}
    chosen: list[Hit] = []
    left = int(budget * PINNED_SHARE)
    for document in store.scan(wanted, limit=MOST_PINNED, damaged=[]):
        hit = matching.get(document.id) or _first_passage(store, document)
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
    for passage in passages:
        shown, highlights = snippet(passage.text, (), frozenset())
        return Hit(passage, document, 0.0, 0.0, "keyword", shown, highlights)
    return None
