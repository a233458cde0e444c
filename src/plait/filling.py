"""Making vectors: in batches, outside any transaction, taken up again where a run was cut off.

Whatever an embedder does, text stays searchable by keyword; what has no vector yet is pending.
"""

from collections.abc import Callable, Sequence

from plait.embedders import embed_safely
from plait.embedding import learn
from plait.errors import EmbedderError
from plait.protocols import Embedder, Pending, Store, Vector
from plait.types import Passage, Ref, Tuning

EMBED_BATCH = 256
# Somebody else's model may fail at any moment: what it has made is written down more often.
EXTERNAL_BATCH = 32
BREADCRUMB_CHARS = 120
# Passages that one `store` embeds beyond its own: after an outage thousands may wait, and whoever
# stores a sentence must not wait for them. `ingest` and `reindex` make all.
ON_THE_SIDE = 64

# How many are done, how many there are (0 where nobody knows yet), and the last one's name.
Progress = Callable[[int, int, str], None]


def embedding_input(title: str, heading: str, text: str, limit: int) -> str:
    """What the embedder sees of a passage: where it stands, then what it says."""
    trail = heading[-BREADCRUMB_CHARS:]
    parts = [title if title and title.casefold() not in trail.casefold() else "", trail, text]
    return "\n".join(part for part in parts if part)[:limit]


class Filler:
    """Makes vectors for one act; remembers when the embedder failed, and why."""

    def __init__(self, store: Store, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self.tuning: Tuning = getattr(embedder, "tuning", Tuning())
        self.trouble: str | None = None
        doubt = getattr(embedder, "doubt", None)
        if doubt is not None:
            doubt()

    def input(self, title: str, passage: Passage | Pending) -> str:
        """What the embedder gets to see of a passage."""
        return embedding_input(title, passage.heading, passage.text, self.tuning.max_chars)

    def vectors(self, texts: Sequence[str]) -> list[Vector | None]:
        """Vectors for as many texts as the embedder managed, in order."""
        found: list[Vector | None] = []
        size = self._batch
        try:
            for start in range(0, len(texts), size):
                found += embed_safely(self._embedder, texts[start : start + size], "passage")
        except EmbedderError as error:
            self.trouble = str(error)
        return found

    def catch_up(self, *, most: int | None = None) -> int:
        """Make the vectors that are missing; how many. Those of another embedder stay as they are.

        The first vectors of a memory open their space. ``most`` bounds the work, by whole batches.
        """
        if self._embedder.dims == 0:
            return 0
        current = self._store.space()
        if current is None:
            if self._store.newest() is None:
                return 0
            try:
                learnt = learn(self._embedder)
            except EmbedderError as error:
                self.trouble = str(error)
                return 0
            self._store.begin(self._embedder.space, sample=learnt.sample)
        elif current != self._embedder.space:
            return 0
        # What another run is filling in the wings is that run's own, perhaps by another model.
        return self.fill(answering=True, most=most) if self._store.pending_count() else 0

    def fill(
        self,
        progress: Progress | None = None,
        *,
        answering: bool = False,
        most: int | None = None,
    ) -> int:
        """Embed what has no vector in the embedder's space; killed anywhere, the next goes on.

        With ``answering`` in the vectors that answer searches, else in those in the wings.
        """
        space = self._embedder.space
        after, filled = 0, 0
        while True:
            batch = self._store.pending(space, after, self._batch, answering=answering)
            if not batch:
                return filled
            found = self.vectors([self.input(row.title, row) for row in batch])
            rows = list(zip((row.ref for row in batch), found, strict=False))
            after = rows[-1][0] if rows else batch[-1].ref
            filled += self._write(rows, answering=answering)
            if progress is not None:
                progress(filled, 0, "")
            if self.trouble is not None or (most is not None and filled >= most):
                return filled

    @property
    def _batch(self) -> int:
        return min(EMBED_BATCH, EXTERNAL_BATCH) if self.tuning.external else EMBED_BATCH

    def _write(self, rows: Sequence[tuple[Ref, Vector | None]], *, answering: bool) -> int:
        """Write a batch; when the store refuses one vector of it, the others still get in."""
        if not rows:
            return 0
        space = self._embedder.space
        try:
            return self._store.fill(space, rows, upto=rows[-1][0], answering=answering)
        except EmbedderError as error:
            trouble = str(error)
        written = 0
        refused: list[tuple[Ref, Vector | None]] = []
        for row in rows:
            try:
                written += self._store.fill(space, [row], answering=answering)
            except EmbedderError:
                refused.append((row[0], None))
        if not written:
            self.trouble = trouble
            return 0
        # No direction, no vector: like a passage that the embedder declined. A few of these must
        # not keep a whole memory from its new vectors.
        self._store.fill(space, refused, upto=rows[-1][0], answering=answering)
        return written
