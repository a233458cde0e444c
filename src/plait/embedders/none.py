"""The embedder without vectors: search is keyword search alone, with full weight."""

from collections.abc import Sequence

from plait.embedders import Embedder
from plait.errors import Notice
from plait.protocols import State, Vector
from plait.types import Space, TextKind, Tuning


class NoEmbedder(Embedder):
    """Makes no vectors; hybrid search is then keyword search."""

    space = Space("none", "none", 0)
    dims = 0
    tuning = Tuning(keyword_weight=1.0, vector_weight=0.0)

    def __init__(self, reason: Notice | None = None) -> None:
        self.reason = reason
        if reason is not None:
            # It replaces an embedder that cannot be used: the memory's weights stay as usual.
            self.tuning = Tuning()

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """Return no vector for any text."""
        return [None] * len(texts)


def where_vectors_are_kept(embedder: Embedder, state: State) -> Embedder:
    """Return the embedder, or, for a memory that can keep no vectors, one that makes none.

    It has the name of the other: the memory gets its vectors once it can keep them.
    """
    if state.vectorless is None or embedder.dims == 0:
        return embedder
    instead = NoEmbedder()
    instead.space, instead.tuning = embedder.space._replace(dims=0), Tuning()
    return instead
