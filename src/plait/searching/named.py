"""A query that is exactly the name of a document: its key, its path or the name of its file.

Whoever types a name means the document, whatever others say about its words. Loaded only for a
query that may be one.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from plait.errors import StoreDamaged
from plait.protocols import Store
from plait.searching.branches import Plan
from plait.searching.joining import spans_of
from plait.searching.links import may_be_known_as, nearest_known
from plait.searching.scoring import Request
from plait.searching.search import Ranked
from plait.searching.snippets import snippet
from plait.searching.timeline import happenings
from plait.text import capped
from plait.types import Document, Filter, Hit, Passage

if TYPE_CHECKING:
    from plait.protocols import ReadAhead

# A document, or one of its passages.
Meant = tuple[Document, Passage | None]
MOST_WITH_NAME = 3  # documents: more have no name of their own


def with_named(plan: Plan, ranked: Ranked) -> Ranked:
    """Return the hits with those of the documents that the query names in front.

    What cannot be read is left out, and told once.
    """
    try:
        return ranked._replace(hits=_with_named(plan, ranked.hits))
    except StoreDamaged as error:
        if any(notice.code == error.code for notice in ranked.degraded):
            return ranked  # it is among what matches by its words, too
        text = f"The document that the query names is left out: {error.notice.text}"
        return ranked._replace(degraded=(*ranked.degraded, error.notice._replace(text=text)))


def _with_named(plan: Plan, hits: list[Hit]) -> list[Hit]:
    store, ahead, request = plan.store, plan.ahead, plan.request
    if not _lead(request):
        return hits
    first: list[Hit] = []
    best = max([1.0, *(hit.score for hit in hits)])
    for document, passage in _documents_of(store, ahead, request):
        own = [hit for hit in hits if hit.document.id == document.id]
        hit = own[0] if own and passage is None else _as_hit(store, ahead, document, passage)
        if hit is not None:
            first.append(hit._replace(score=best, relevance=1.0, reasons=_reasons(request, hit)))
    if not first:
        return hits
    shown = {hit.id for hit in first}
    documents = {hit.document.id for hit in first} if request.best_per_document else set()
    rest = [hit for hit in hits if hit.id not in shown and hit.document.id not in documents]
    return [*first, *rest][: request.limit]


def foresee_named(ahead: "ReadAhead", request: Request) -> None:
    """Read with the next trip which documents a query may name."""
    if _lead(request):
        ahead.expect_named(*_asked_for(request))


def foresee_beginnings(ahead: "ReadAhead", request: Request) -> None:
    """Read with the next trip how the documents begin that were foreseen."""
    if not _lead(request):
        return
    with suppress(StoreDamaged):  # `with_named` tells it
        named = _told_apart(*ahead.named(*_asked_for(request)), request)
        spans = [_beginning_of(row) for row, passage in named if passage is None]
        if window := request.window:
            shown = [(row.id, passage.ordinal if passage else 0) for row, passage in named]
            spans += [(id_, place - window, place + window) for id_, place in shown]
        ahead.expect_spans(spans)


def _lead(request: Request) -> bool:
    """Tell whether named documents come first; who asks for another order wants that."""
    return request.mode != "vector" and request.fusion == "weighted"


def _asked_for(request: Request) -> tuple[str, Filter, Filter | None]:
    """Return what is looked for, where, and where a link with this name may lead."""
    name, where = _name_in(request), happenings(request.where)
    return name, where, may_be_known_as(name, where)


def _name_in(request: Request) -> str:
    # As words are searched for: no store looks up half of a character.
    return capped(request.text).strip()


def _documents_of(store: Store, ahead: "ReadAhead | None", request: Request) -> list[Meant]:
    name, where, linked = _asked_for(request)
    if ahead is not None:
        return _told_apart(*ahead.named(name, where, linked), request)
    own = store.find(name, where)
    if linked is None or _trusted(own):
        return _told_apart(own, [], request)
    return _told_apart(own, store.scan(linked, by_writing=True, damaged=[]), request)


def _told_apart(own: list[Meant], linked: list[Document], request: Request) -> list[Meant]:
    """Return what a name refers to, else what a link with it leads to, if these are few.

    What is untrusted takes no name of a trusted document.
    """
    named = own or _nearest(linked, request)
    trusted = _trusted(named) or _nearest(
        [row for row in linked if row.trust == "trusted"], request
    )
    named = trusted or named
    return named if len(named) <= MOST_WITH_NAME else []


def _nearest(linked: Sequence[Document], request: Request) -> list[Meant]:
    return [(document, None) for document in nearest_known(_name_in(request), linked)]


def _trusted(named: Sequence[Meant]) -> list[Meant]:
    return [(document, passage) for document, passage in named if document.trust == "trusted"]


def _beginning_of(document: Document) -> tuple[str, int, int]:
    return document.id, 0, 0


def _as_hit(
    store: Store, ahead: "ReadAhead | None", document: Document, passage: Passage | None
) -> Hit | None:
    """Return a passage as a hit, or the first one of a document, if it has any."""
    if passage is None:
        [passages] = spans_of(store, ahead, [_beginning_of(document)])
        if not passages:
            return None
        passage = passages[0]
    shown, highlights = snippet(passage.text, (), frozenset())
    return Hit(passage, document, 1.0, 1.0, "keyword", shown, highlights)


def _reasons(request: Request, hit: Hit) -> tuple[str, ...]:
    return (*hit.reasons, "the query is its name") if request.explain else hit.reasons
