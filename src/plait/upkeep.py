"""Bringing a memory up to date: missing vectors, another embedder, other rules of cutting.

What is read here may change while it is worked on: everything is written only over what was read.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from plait.embedding import learn
from plait.errors import EmbedderError
from plait.filling import Progress
from plait.ingest import Pen, style_of
from plait.protocols import Embedder, Store
from plait.types import TRUSTS, Cut, Document, Filter

# How often a reindex starts over after another one has dropped what it made.
BEGINNINGS = 2


class Reindexed(NamedTuple):
    """What ``reindex`` did."""

    chunks: int
    embedded: int = 0
    rechunked: int = 0
    swapped: bool = False
    trouble: str | None = None


def reindex(
    store: Store, embedder: Embedder, pen: Pen, cut: Cut, *, anew: bool, progress: Progress | None
) -> Reindexed:
    """Bring passages, words and vectors under today's rules, while searches go on."""
    rechunked = 0
    if store.meta("chunker") not in (None, cut.identity):
        rechunked = rechunk(store, pen, store.scan(Filter(trusts=TRUSTS, all_versions=True)))
    chunks = store.rebuild_keywords()
    store.set_meta("chunker", cut.identity)
    store.set_meta("analyzer", store.analyzer)
    embedded, swapped = 0, False
    if embedder.dims != 0:
        embedded, swapped = embed_all(store, embedder, pen, anew=anew, progress=progress)
    return Reindexed(chunks, embedded, rechunked, swapped, pen.trouble)


def follow_embedder(store: Store, embedder: Embedder, pen: Callable[[], Pen]) -> None:
    """Give a memory of another embedder's vectors those of this one."""
    if embedder.dims != 0 and store.space() not in (None, embedder.space):
        embed_all(store, embedder, pen(), anew=False, progress=None)


def embed_all(
    store: Store, embedder: Embedder, pen: Pen, *, anew: bool, progress: Progress | None
) -> tuple[int, bool]:
    """Bring the vectors of a memory up to date; (how many were made, whether a space took over).

    A new space, or ``anew``, fills a generation beside the one that answers searches and takes its
    place in one short transaction.
    """
    try:
        learnt = learn(embedder, anew=anew)
    except EmbedderError as error:
        pen.trouble = str(error)
        return 0, False
    space = embedder.space
    current = store.begin(space, anew=anew, sample=learnt.sample, resume=learnt.resume)
    made, begun = 0, 1
    while True:
        made += pen.filler.fill(progress)
        if pen.trouble is not None:
            return made, False
        if store.swap(space):
            return made, not current
        if store.pending(space, 0, 1):
            continue  # stored while we worked
        # Nothing is left to embed, and still there is nothing to swap in.
        if begun == BEGINNINGS:
            pen.trouble = (
                "another reindex keeps replacing these vectors by those of another embedder. "
                "Stop it, then run: plait reindex"
            )
            return made, False
        begun += 1
        current = store.begin(space, sample=learnt.sample)


def rechunk(store: Store, pen: Pen, documents: Iterable[Document]) -> int:
    """Cut documents anew under today's rules, each in its own transaction.

    What another process has replaced or deleted since it was read stays as that one left it.
    """
    changed = 0
    for document in documents:
        for whole in store.load([document.id]):
            entry = pen.entry(whole, style_of(whole))
            if entry.passages:
                [done] = pen.write([entry._replace(expects=whole)])
                changed += done.replaced
    return changed
