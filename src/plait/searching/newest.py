"""The answer to an empty query, or to ``*`` alone: the newest documents, none better than another.

Loaded only for these queries.
"""

import time

from plait.errors import Notice, StoreDamaged, advise, quoted
from plait.protocols import State, Store
from plait.searching.joining import join
from plait.searching.scoring import Request, snippet
from plait.searching.timeline import happenings
from plait.types import Answer, Hit, Receipt

NO_WORDS = "the newest documents: the query has no words"
CHARS_OF_TOKEN = 4


def newest(store: Store, request: Request, state: State) -> Answer:
    """Return the first passage of the newest documents that the filter selects."""
    began = time.perf_counter()
    damaged: list[str] = []
    documents = store.scan(happenings(request.where), limit=request.limit, damaged=damaged)
    hits = []
    for rank, document in enumerate(documents):
        passages = store.passages(document.id, 0, request.window)
        if not passages:
            continue
        shown, highlights = snippet(passages[0].text, (), frozenset())
        hits.append(
            Hit(
                passage=passages[0],
                document=document,
                # It orders; every document matches, so the evidence is the same for all.
                score=1.0 - rank / len(documents),
                relevance=1.0,
                source="keyword",
                snippet=shown,
                highlights=highlights,
                reasons=(NO_WORDS,) if request.explain else (),
                context=join(passages) if request.window else None,
            )
        )
    receipt = Receipt(
        query=request.text,
        mode_asked=request.mode,
        mode_used="keyword",
        fusion=request.fusion,
        degraded=tuple(map(_unreadable, damaged)),
        candidates=len(documents),
        pending_vectors=state.pending,
        indexed_at=state.indexed_at,
        milliseconds=round((time.perf_counter() - began) * 1000, 2),
        tokens=sum(len(hit.text) for hit in hits) // CHARS_OF_TOKEN,
    )
    return Answer(hits, receipt)


def _unreadable(id_: str) -> Notice:
    text = f"left out, because it cannot be read: document {quoted(id_)}."
    return Notice(text, StoreDamaged.code, id_, advise("doctor_fix"))
