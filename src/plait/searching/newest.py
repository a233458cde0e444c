"""The answer to an empty query, or to ``*`` alone: the newest documents, none better than another.

Loaded only for these queries.
"""

import time
from collections.abc import Sequence

from plait.protocols import State, Store
from plait.searching.joining import join, spans_of
from plait.searching.readable import readable_passages, unreadable
from plait.searching.scoring import Request, with_entities
from plait.searching.search import tokens_of
from plait.searching.snippets import snippet
from plait.searching.timeline import happenings
from plait.types import Answer, Hit, Passage, Receipt

NO_WORDS = "the newest documents: the query has no words"


def _beginnings(
    store: Store, ids: Sequence[str], last: int, damaged: list[str]
) -> list[list[Passage]]:
    """Return the first passages of documents, up to an ordinal."""
    if (ahead := store.ahead) is not None:
        return spans_of(store, ahead, [(id_, 0, last) for id_ in ids])
    return [readable_passages(store, id_, 0, last, damaged) for id_ in ids]


def newest(store: Store, request: Request, state: State) -> Answer:
    """Return the first passage of the newest documents that the filter selects."""
    began = time.perf_counter()
    damaged: list[str] = []
    last = request.offset + request.limit
    documents = store.scan(happenings(request.where), limit=last, damaged=damaged)
    successors = store.successors([row.id for row in documents if row.valid_to is not None])
    hits = []
    shown_ones = documents[request.offset :]
    texts = _beginnings(store, [row.id for row in shown_ones], request.window, damaged)
    for rank, (document, passages) in enumerate(
        zip(shown_ones, texts, strict=True), start=request.offset
    ):
        if not passages:
            continue
        shown, highlights = snippet(passages[0].text, (), frozenset())
        hits.append(
            Hit(
                passage=passages[0],
                document=document,
                # It orders, across pages too; every document matches, so the evidence is the same.
                score=1.0 / (1 + rank),
                relevance=1.0,
                source="keyword",
                snippet=shown,
                highlights=highlights,
                reasons=(NO_WORDS,) if request.explain else (),
                context=join(passages) if request.window else None,
                superseded_by=successors.get(document.id),
            )
        )
    hits = with_entities(store, hits)
    receipt = Receipt(
        query=request.text,
        mode_asked=request.mode,
        mode_used="keyword",
        fusion=request.fusion,
        degraded=tuple(map(unreadable, dict.fromkeys(damaged))),
        candidates=len(documents),
        pending_vectors=state.pending,
        indexed_at=state.indexed_at,
        milliseconds=round((time.perf_counter() - began) * 1000, 2),
        tokens=sum(tokens_of(hit.text) for hit in hits),
    )
    return Answer(hits, receipt)
