"""Short ways to write down documents, entries, vectors and misbehaving embedders."""

from array import array
from collections.abc import Sequence
from typing import Any

from plait.errors import EmbedderError
from plait.protocols import Entry, Vector
from plait.testing import HashingEmbedder
from plait.types import Document, Passage, Space, TextKind

NOW = 1_700_000_000_000  # a fixed moment, so that no test depends on the clock
SPACE = Space("test", "axes", 4)


def vector(*numbers: float) -> Vector:
    return array("f", numbers)


def document(key: str | None = "note", text: str = "", **fields: Any) -> Document:
    times = {"created_at": NOW, "updated_at": NOW, "event_at": NOW, "indexed_at": NOW}
    return Document(**{**times, "key": key, "text": text, **fields})


def entry(
    key: str | None,
    *texts: str,
    vectors: Sequence[Vector | None] = (),
    space: Space | None = None,
    heading: str = "",
    **fields: Any,
) -> Entry:
    """A document cut into exactly these passages, one line each."""
    passages = []
    start = 0
    for ordinal, text in enumerate(texts):
        line = ordinal + 1
        passages.append(Passage(text, heading, line, line, start, ordinal))
        start += len(text)
    if vectors and space is None:
        space = SPACE
    return Entry(document(key, "".join(texts), **fields), passages, vectors, space)


class Counting(HashingEmbedder):
    """Remembers what it was asked."""

    def __init__(self, dims: int = 256) -> None:
        super().__init__(dims)
        self.asked: list[tuple[TextKind, str]] = []

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        self.asked += [(kind, text) for text in texts]
        return super().embed(texts, kind)


class Failing(HashingEmbedder):
    """Works for a number of calls, then is down until ``healthy`` is set."""

    def __init__(self, calls: int = 0, dims: int = 256) -> None:
        super().__init__(dims)
        self.healthy = False
        self._left = calls

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        if not self.healthy:
            self._left -= 1
            if self._left < 0:
                raise EmbedderError("the embedder is down")
        return super().embed(texts, kind)
