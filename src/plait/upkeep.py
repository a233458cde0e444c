"""Bringing a memory up to date: missing vectors, other rules of cutting, and exports taken in.

What is read here may change while it is worked on: everything is written only over what was read.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from plait import ingest
from plait.embedding import learn
from plait.errors import EmbedderError, UsageError
from plait.ingest import Pen, Progress, complete, now_ms, style_of
from plait.protocols import Embedder, Entry, Store, Vector
from plait.types import Document, Imported

# How often a reindex starts over after another one has dropped what it made.
BEGINNINGS = 2


class Reindexed(NamedTuple):
    """What ``reindex`` did."""

    chunks: int
    embedded: int = 0
    rechunked: int = 0
    swapped: bool = False
    trouble: str | None = None


def embed_all(
    store: Store, embedder: Embedder, pen: Pen, *, anew: bool, progress: Progress | None
) -> tuple[int, bool]:
    """Bring the vectors of a memory up to date; (how many were made, whether a space took over).

    A new space, or ``anew``, fills a generation beside the one that answers searches and takes its
    place in one short transaction.
    """
    try:
        learn(embedder, anew=anew)
    except EmbedderError as error:
        pen.trouble = str(error)
        return 0, False
    space = embedder.space
    current = store.begin(space, anew=anew)
    made, begun = 0, 1
    while True:
        made += fill_pending(store, embedder, pen, progress)
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
        current = store.begin(space)


def fill_pending(
    store: Store, embedder: Embedder, pen: Pen, progress: Progress | None = None
) -> int:
    """Embed what has no vector yet, batch by batch; killed anywhere, the next run goes on."""
    space = embedder.space
    after, filled = 0, 0
    while True:
        batch = store.pending(space, after, ingest.EMBED_BATCH)
        if not batch:
            return filled
        found = pen.vectors([pen._input(row.title, row) for row in batch])
        rows = list(zip((row.ref for row in batch), found, strict=False))
        after = rows[-1][0] if rows else batch[-1].ref
        filled += _fill_singly_if_needed(store, embedder, rows, pen)
        if progress is not None:
            progress(filled, 0, "")
        if pen.trouble is not None:
            return filled


def _fill_singly_if_needed(
    store: Store, embedder: Embedder, rows: Sequence[tuple[int, Vector | None]], pen: Pen
) -> int:
    """Write a batch; when the store refuses one vector of it, the others still get in."""
    if not rows:
        return 0
    try:
        return store.fill(embedder.space, rows, upto=rows[-1][0])
    except EmbedderError as error:
        trouble = str(error)
    written = 0
    refused: list[tuple[int, Vector | None]] = []
    for row in rows:
        try:
            written += store.fill(embedder.space, [row])
        except EmbedderError:
            refused.append((row[0], None))
    if not written:
        pen.trouble = trouble
        return 0
    # No direction, no vector: like a passage that the embedder declined. A few of these must not
    # keep a whole memory from its new vectors.
    store.fill(embedder.space, refused, upto=rows[-1][0])
    return written


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


def import_entries(store: Store, pen: Pen, entries: Iterable[Entry]) -> Imported:
    """Take in the documents of an export, all of them or none; a newer one in the memory stays.

    Raises:
        UsageError: A document's key belongs to another document of the memory.
    """
    now = now_ms()
    owners: dict[tuple[str | None, str, str], str] = {}
    chosen: list[Entry] = []
    kept = 0
    for entry in entries:
        document = complete(entry.document, now)
        here = _counterpart(store, document, owners)
        # An entity only learns: what is newer here stays, and what belongs to it finds it.
        learns = document.kind == "entity"
        if here is not None and here.updated_at > document.updated_at and not learns:
            kept += 1
            continue
        if not entry.passages:
            entry = pen.entry(document, style_of(document))
        same = here is not None and here.id == document.id
        chosen.append(entry._replace(document=document, expects=here if same else None))
    written = pen.write(chosen)
    replaced = sum(done.replaced for done in written)
    # Said already, or replaced in the meantime: neither was written.
    left = sum(
        not done.replaced and (done.duplicate or entry.expects is not None)
        for entry, done in zip(chosen, written, strict=True)
    )
    return Imported(len(chosen) - replaced - left, replaced, kept + left)


def _counterpart(
    store: Store, document: Document, owners: dict[tuple[str | None, str, str], str]
) -> Document | None:
    """The stored document that this one would replace; notes in ``owners`` whose key is whose."""
    same, _ = store.known(Document(id=document.id)) if document.id else (None, frozenset())
    if document.key is None:
        return same
    namesake, _ = store.known(document._replace(id=""))
    name = (document.project, document.source, document.key)
    owner = owners.get(name) or (document.id if namesake is None else namesake.id)
    if same is not None and owner != same.id:
        raise UsageError(
            f"The import's document {same.id} has the key '{document.key}', which belongs to "
            f"{owner}. Delete or rename one of them. Nothing was imported."
        )
    owners[name] = owner
    return same or namesake
