"""The memories that are searched, built through the store from the corpus."""

import time
from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, NamedTuple

import corpus

from plait.embedders import Embedder
from plait.protocols import Entry, Vector
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Document, Passage
from plait.types.ids import new_id
from plait.writing.chance import sample_chance

BATCH_DOCUMENTS = 500
EMBED_BATCH = 256  # as `ingest` does
FIRST_EVENT_MS = 1_700_000_000_000
# Documents that carry each tag, in hundredths, spread evenly by a multiplicative hash.
TAGS = (("one", 1), ("half", 50), ("most", 99))


class Built(NamedTuple):
    """What a finished memory cost."""

    passages: int
    documents: int
    seconds: float
    embedding_seconds: float
    bytes: int

    @property
    def rows_per_second(self) -> float:
        """Passages a CPU second, vectors given."""
        return self.passages / (self.seconds - self.embedding_seconds)


def tags_of(number: int) -> tuple[str, ...]:
    """The tags of a document, so that filters of known selectivity can be asked for."""
    place = (number * 2_654_435_761 & 0xFFFF_FFFF) * 100 >> 32
    return tuple(name for name, share in TAGS if place < share)


def embedded(
    found: Sequence[corpus.Passage], embedder: Embedder, spent: list[float], copy: BinaryIO
) -> Iterator[Vector | None]:
    """The vector of every passage, made in batches and also written to a file for other systems."""
    none = array("f", bytes(4 * (embedder.dims or 0)))
    for start in range(0, len(found), EMBED_BATCH):
        texts = [passage.text for passage in found[start : start + EMBED_BATCH]]
        began = time.process_time()
        vectors = embedder.embed(texts, "passage")
        for vector in vectors:
            (vector or none).tofile(copy)
        spent[0] += time.process_time() - began
        yield from vectors


def entries(
    found: Sequence[corpus.Passage], embedder: Embedder, spent: list[float], copy: BinaryIO
) -> Iterator[Entry]:
    """Documents of up to eight neighbouring passages, with their vectors."""
    made = embedded(found, embedder, spent, copy)
    for number, group in groupby(found, key=lambda passage: passage.document):
        texts = [passage.text for passage in group]
        vectors = [next(made) for _ in texts]
        passages, start = [], 0
        for place, text in enumerate(texts):
            passages.append(Passage(text, start=start, ordinal=place))
            start += len(text)
        moment = FIRST_EVENT_MS + number * 1000
        document = Document(
            id=new_id(),
            key=f"{number:08d}",
            kind="file",
            title=f"Document {number}",
            text="".join(texts),
            source="corpus",
            tags=tags_of(number),
            created_at=moment,
            updated_at=moment,
            event_at=moment,
            indexed_at=moment,
        )
        yield Entry(document, passages, vectors, embedder.space)


def _write(store: SQLiteStore, batch: Sequence[Entry]) -> None:
    with store.transaction() as tx:
        for entry in batch:
            tx.write(entry)


def build(path: Path, found: Sequence[corpus.Passage], embedder: Embedder) -> Built:
    """Write the corpus into a new memory, and its vectors into a file beside it."""
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    store = SQLiteStore(str(path), durability="normal")
    spent = [0.0]
    documents = 0
    began = time.process_time()
    batch: list[Entry] = []
    with path.with_suffix(".f32").open("wb") as copy:
        for entry in entries(found, embedder, spent, copy):
            batch.append(entry)
            documents += 1
            if len(batch) == BATCH_DOCUMENTS:
                _write(store, batch)
                batch = []
    _write(store, batch)
    store.tidy()
    sample_chance(store, embedder, store.state())  # as whoever fills a memory does
    store.close()
    return Built(len(found), documents, time.process_time() - began, spent[0], path.stat().st_size)
