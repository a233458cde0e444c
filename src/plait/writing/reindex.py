"""Bring a memory up to date: missing vectors, another embedder, other chunking rules.

Data may change meanwhile: a write happens only if what was read is still there.
"""

from collections.abc import Iterable

from plait.errors import EmbedderError, Notice, advise
from plait.types import EVERYTHING, Document
from plait.types.reports import Reindexed
from plait.writing import documents
from plait.writing.backfill import Progress
from plait.writing.changes import Change
from plait.writing.writer import Writer

# How often a reindex starts over after another one has dropped its vectors.
BEGINNINGS = 2


def reindex(writer: Writer, *, afresh: bool, progress: Progress | None) -> Reindexed:
    """Apply the current rules to passages, keyword index and vectors, while searches continue."""
    store, identity = writer.store, writer.cut.identity
    rechunked = 0
    if writer.state.chunker not in (None, identity):
        rechunked = rechunk(writer, store.scan(EVERYTHING))
    store.tidy(keywords=True)
    with store.transaction() as transaction:
        transaction.remember(chunker=identity, indexed_by=transaction.state.analyzer)
    embedded, swapped = 0, False
    if writer.embedder.dims != 0:
        embedded, swapped = embed_all(writer, afresh=afresh, progress=progress)
    elif writer.embedder.reason is None and writer.state.space is not None:
        # A person chose to have none: an embedder that only cannot be used has a reason.
        with store.transaction() as transaction:
            swapped = transaction.swap(writer.embedder.space)
            transaction.remember(embedder=writer.embedder.space.spec)
    chunks = store.stats().chunk_count
    is_wanted = writer.embedder.space.provider != "none"
    trouble = writer.trouble or (writer.state.vectorless if is_wanted else None)
    return Reindexed(chunks, embedded, rechunked, swapped, trouble)


def follow_embedder(writer: Writer) -> None:
    """Replace the vectors of another embedder with those of this one."""
    if writer.embedder.dims != 0 and writer.state.space not in (None, writer.embedder.space):
        embed_all(writer, afresh=False, progress=None)


def embed_all(writer: Writer, *, afresh: bool, progress: Progress | None) -> tuple[int, bool]:
    """Bring the vectors up to date; return how many were computed, and whether a space was swapped.

    A new space, or any with ``afresh``, is built beside the current vectors and replaces
    them in one short transaction.
    """
    store, embedder = writer.store, writer.embedder
    try:
        learnt = embedder.learn(afresh=afresh)
    except EmbedderError as error:
        writer.backfill.trouble = error.notice
        return 0, False
    space = embedder.space
    with store.transaction() as transaction:
        current = transaction.begin(
            space, afresh=afresh, sample=learnt.sample, resume=learnt.resume
        )
    made, begun = 0, 1
    while True:
        made += writer.backfill.fill(progress)
        if writer.trouble is not None:
            return made, False
        with store.transaction() as transaction:
            if transaction.swap(space):
                return made, not current
        if store.pending(space, 1, building=True):
            continue  # stored while we worked
        # Nothing is left to embed, and still there is nothing to swap in.
        if begun == BEGINNINGS:
            writer.backfill.trouble = Notice(
                "Another reindex keeps replacing these vectors with another embedder's. "
                "Stop it first.",
                code="rival_reindex",
                advice=advise("reindex"),
            )
            return made, False
        begun += 1
        with store.transaction() as transaction:
            current = transaction.begin(space, sample=learnt.sample)


def rechunk(writer: Writer, stored: Iterable[Document]) -> int:
    """Cut documents again under the current rules, each in its own transaction.

    Documents that another process has replaced or deleted meanwhile are left as they are.
    """
    changed = 0
    for document in stored:
        for whole in writer.store.load([document.id]):
            draft = documents.as_draft(whole, writer.store.passages(whole.id))
            entry = writer.chunk(draft)
            if entry.passages:
                [done] = writer.write([Change(entry, expects=whole)])
                changed += done.replaced
    return changed
