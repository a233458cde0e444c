"""Compute missing vectors: in batches, outside any transaction, resumable.

Whatever an embedder does, text stays searchable by keyword; passages without a vector are pending.
"""

from collections.abc import Callable, Sequence

from plait.embedders import Embedder
from plait.errors import EmbedderError, Notice
from plait.protocols import State, Store, Unembedded, Vector
from plait.text import first_words
from plait.types import Passage, Space

EMBED_BATCH = 256
# An external model may fail at any moment: its vectors are written more often.
EXTERNAL_BATCH = 32
BREADCRUMB_CHARS = 120
# Passages that one `store` embeds beyond its own: after an outage thousands may wait, and storing
# one sentence must not wait for them. `ingest` and `reindex` compute all.
ON_THE_SIDE = 64

# How many are done, how many there are (0 if unknown), and the last one's name.
Progress = Callable[[int, int, str], None]


def embedding_input(title: str, heading: str, text: str, limit: int) -> str:
    """Return the text to embed for a passage: its title and headings, then its text."""
    trail = heading[-BREADCRUMB_CHARS:]
    title = first_words(title)  # a title of a megabyte would leave no room for the text
    parts = [title if title and title.casefold() not in trail.casefold() else "", trail, text]
    return "\n".join(part for part in parts if part)[:limit]


class Backfill:
    """Computes vectors during one write; ``trouble`` is why it stopped, if it did."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self.trouble: Notice | None = None

    def input(self, title: str, passage: Passage | Unembedded) -> str:
        """Return the text to embed for a passage."""
        limit = self._embedder.tuning.max_chars
        return embedding_input(title, passage.heading, passage.text, limit)

    def vectors(self, texts: Sequence[str]) -> list[Vector | None]:
        """Return vectors for as many texts as the embedder managed, in order."""
        vectors: list[Vector | None] = []
        size = self._batch
        try:
            for start in range(0, len(texts), size):
                vectors += self._embedder.embed_safely(texts[start : start + size], "passage")
        except EmbedderError as error:
            self.trouble = error.notice
        return vectors

    def catch_up(self, state: State | None = None, *, most: int | None = None) -> int:
        """Compute missing vectors and return how many. Those of another embedder stay.

        The first vectors of a memory create their space. ``most`` limits the work to whole batches.
        """
        if self._embedder.dims == 0:
            return 0
        state = self._store.state() if state is None else state
        pending = state.pending
        if state.space is None:
            if state.indexed_at is None:
                return 0
            try:
                sample = self._embedder.learn().sample
            except EmbedderError as error:
                self.trouble = error.notice
                return 0
            with self._store.transaction() as transaction:
                transaction.begin(self._embedder.space, sample=sample)
            pending = 1  # all of them
        elif state.space != self._embedder.space:
            return 0
        # Vectors that another run is building belong to that run, perhaps to another model.
        return self.fill(building=False, most=most) if pending else 0

    def fill(
        self,
        progress: Progress | None = None,
        *,
        building: bool = True,
        most: int | None = None,
    ) -> int:
        """Embed what is pending in the embedder's space; a killed run can be continued.

        Args:
            progress: Told how many are done.
            building: Fill the vectors being built, if there are any, instead of the current ones.
            most: Stop after this many.
        """
        space = self._embedder.space
        filled = 0
        while batch := self._store.pending(space, self._batch, building=building):
            vectors = self.vectors([self.input(row.title, row) for row in batch])
            rows = list(zip(batch, vectors, strict=False))
            written = self._write(space, rows, building=building)
            filled += written
            if progress is not None:
                progress(filled, 0, "")
            if self.trouble is not None or (most is not None and filled >= most):
                break
            if written == len(batch) < self._batch:
                break  # that was the rest, and nothing of it changed meanwhile
        return filled

    @property
    def _batch(self) -> int:
        external = self._embedder.tuning.external
        return min(EMBED_BATCH, EXTERNAL_BATCH) if external else EMBED_BATCH

    def _write(
        self, space: Space, rows: Sequence[tuple[Unembedded, Vector | None]], *, building: bool
    ) -> int:
        """Write a batch; when the store refuses one vector of it, the others still get in.

        ``space`` is that of the pending passages. The embedder may call itself otherwise by now,
        and a batch that is written elsewhere stays pending for ever.
        """
        if not rows:
            return 0
        try:
            return self._put(space, rows, building=building)
        except EmbedderError as error:
            trouble = error.notice
        written = 0
        refused: list[tuple[Unembedded, Vector | None]] = []
        for row in rows:
            try:
                written += self._put(space, [row], building=building)
            except EmbedderError:
                refused.append((row[0], None))
        if not written:
            self.trouble = trouble
            return 0
        # No direction, no vector: like a passage that the embedder declined. A few of these must
        # not keep a whole memory from its new vectors.
        self._put(space, refused, building=building)
        return written

    def _put(
        self, space: Space, rows: Sequence[tuple[Unembedded, Vector | None]], *, building: bool
    ) -> int:
        with self._store.transaction() as transaction:
            return transaction.fill(space, rows, building=building)
