"""A query that is exactly the name of a document: its key, its path or the name of its file.

Whoever types a name means the document, whatever others say about its words. Loaded only for a
query that may be one.
"""

from plait.errors import StoreDamaged
from plait.protocols import Store
from plait.searching.links import known_as
from plait.searching.scoring import Request
from plait.searching.snippets import snippet
from plait.searching.timeline import happenings
from plait.types import Document, Filter, Hit, Passage

MOST_WITH_NAME = 3  # documents: more have no name of their own


def with_named(store: Store, request: Request, hits: list[Hit]) -> list[Hit]:
    """Return the hits with those of the documents that the query names in front."""
    if request.mode == "vector" or request.fusion != "weighted":
        return hits  # who asks for another order wants it
    first: list[Hit] = []
    best = max([1.0, *(hit.score for hit in hits)])
    for document, passage in _documents_of(store, request):
        own = [hit for hit in hits if hit.document.id == document.id]
        hit = own[0] if own and passage is None else _as_hit(store, document, passage)
        if hit is not None:
            first.append(hit._replace(score=best, relevance=1.0, reasons=_reasons(request, hit)))
    if not first:
        return hits
    shown = {hit.id for hit in first}
    documents = {hit.document.id for hit in first} if request.best_per_document else set()
    rest = [hit for hit in hits if hit.id not in shown and hit.document.id not in documents]
    return [*first, *rest][: request.limit]


def _documents_of(store: Store, request: Request) -> list[tuple[Document, Passage | None]]:
    """Return what has the name. What is untrusted takes no name of a trusted document."""
    name, where = request.text.strip(), happenings(request.where)
    named = store.find(name, where) or _known_as(store, name, where)
    trusted = [pair for pair in named if pair[0].trust == "trusted"]
    if named and not trusted and (not where.trusts or "trusted" in where.trusts):
        trusted = _known_as(store, name, where._replace(trusts=("trusted",)))
    named = trusted or named
    return named if len(named) <= MOST_WITH_NAME else []


def _known_as(store: Store, name: str, where: Filter) -> list[tuple[Document, Passage | None]]:
    return [(document, None) for document in known_as(store, name, where)]


def _as_hit(store: Store, document: Document, passage: Passage | None) -> Hit | None:
    """Return a passage as a hit, or the first one of a document; nothing if it cannot be read."""
    if passage is None:
        try:
            passages = store.passages(document.id, 0, 0)
        except StoreDamaged:
            return None  # as any other hit that cannot be read
        if not passages:
            return None
        passage = passages[0]
    shown, highlights = snippet(passage.text, (), frozenset())
    return Hit(passage, document, 1.0, 1.0, "keyword", shown, highlights)


def _reasons(request: Request, hit: Hit) -> tuple[str, ...]:
    return (*hit.reasons, "the query is its name") if request.explain else hit.reasons
