"""Distractors: documents that answer no question and make the memory larger."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from random import Random

from plait.evaluate.collections import Collection, load_documents
from plait.memory import Memory
from plait.types import Document

# Distractors are made of runs of this many words, so that neighbouring words still co-occur.
FRAGMENT_WORDS = 30
FRAGMENTS = 4
PAD_BATCH = 2_000  # documents between two counts of the passages
PAD_SEED = 20  # the same distractors on every run
PAD_PREFIX = "pad/"


def pad(
    store: Callable[[Sequence[Document]], object],
    memory: Memory,
    collection: Collection,
    folders: Sequence[str],
    passages: int,
) -> None:
    """Fill the memory up to a number of passages.

    First come the documents of other collections, then mixed phrases of all documents.
    """
    others = [
        document._replace(key=name, session=name)
        for number, folder in enumerate(folders)
        for document in load_documents(folder)
        for name in [f"{PAD_PREFIX}{number}/{document.key}"]
    ]
    distractors = chain(others, _mixed_phrases([*collection.documents, *others]))
    # A document makes at least one passage, so the last batch adds only a little too much.
    while (missing := passages - memory.stats().chunk_count) > 0:
        store(list(islice(distractors, min(PAD_BATCH, missing))))


def _mixed_phrases(documents: Sequence[Document]) -> Iterator[Document]:
    """Yield documents without end, made of phrases of these, so that common words stay common."""
    dice = Random(PAD_SEED)
    texts = [document.text.split() for document in documents]
    number = 0
    while True:
        parts: list[str] = []
        for _ in range(FRAGMENTS):
            source = dice.choice(texts)
            start = dice.randrange(max(1, len(source) - FRAGMENT_WORDS))
            parts += source[start : start + FRAGMENT_WORDS]
        key = f"{PAD_PREFIX}mixed/{number}"
        yield Document(key=key, kind="message", session=key, text=" ".join(parts))
        number += 1
