"""No vectors: keyword search alone, at full strength."""

from collections.abc import Sequence

from plait.protocols import Vector
from plait.types import Space, TextKind, Tuning


class NoEmbedder:
    """Makes no vectors; hybrid search is then keyword search."""

    space = Space("none", "none", 0)
    dims = 0
    tuning = Tuning(keyword_weight=1.0, vector_weight=0.0)

    def __init__(self, reason: str = "") -> None:
        # Why there is none although the memory has vectors; empty when that is a choice.
        self.reason = reason
        if reason:
            self.tuning = Tuning()

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """No vector for any text."""
        return [None] * len(texts)
