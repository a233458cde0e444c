"""An embedder for tests and demonstrations: small, deterministic, no download.

`HashingEmbedder` knows nothing about meaning. It compares character n-grams, so it matches
misspellings and word forms that keyword search misses.
"""

import math
from array import array
from collections.abc import Sequence
from zlib import crc32

from plait.embedders import Embedder
from plait.protocols import Vector
from plait.types import Space, TextKind, Tuning

NGRAM = 3
WORDS_CACHED = 50_000


class HashingEmbedder(Embedder):
    """Character trigrams of every word, hashed into a fixed number of signed buckets.

    >>> embedder = HashingEmbedder()
    >>> first, second, other = embedder.embed(["kubernetes", "kuberntes", "garden"], "passage")
    >>> cosine(first, second) > 0.5 > cosine(first, other)
    True
    """

    dims: int
    space: Space

    def __init__(self, dims: int = 256) -> None:
        self.dims = dims
        self.space = Space("hashing", f"char-{NGRAM}-grams", dims, revision="1")
        # At 0.8 keyword it adds 0.010 to keyword's mean nDCG@10, at 0.5 it loses 0.004
        # (benchmarks/quality.md).
        # Measured on pairs of sentences: unrelated ones lie around 0.15, one typo apart above 0.7.
        self.tuning = Tuning(keyword_weight=0.8, vector_weight=0.2, unrelated=0.4, spread=0.1)
        self._words: dict[str, tuple[tuple[int, int], ...]] = {}

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """Return one vector per text; a text without a letter or digit has none."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector | None:
        counts = [0.0] * self.dims
        for word in text.lower().split():
            for bucket, sign in self._buckets(word):
                counts[bucket] += sign
        length = math.sqrt(sum(value * value for value in counts))
        if not length:
            return None
        return array("f", [value / length for value in counts])

    def _buckets(self, word: str) -> tuple[tuple[int, int], ...]:
        known = self._words.get(word)
        if known is None:
            letters = "".join(char for char in word if char.isalnum())
            padded = f"^{letters}$"
            grams = (
                [padded[i : i + NGRAM] for i in range(len(padded) - NGRAM + 1)] if letters else []
            )
            hashes = [crc32(gram.encode("utf-8", "surrogatepass")) for gram in grams]
            known = tuple((value % self.dims, 1 if value & 0x8000_0000 else -1) for value in hashes)
            if len(self._words) < WORDS_CACHED:
                self._words[word] = known
        return known


def cosine(first: Vector, second: Vector) -> float:
    """Return the cosine of the angle between two vectors; 0 if either has no length."""
    dot = sum(a * b for a, b in zip(first, second, strict=True))
    lengths = math.sqrt(sum(a * a for a in first)) * math.sqrt(sum(b * b for b in second))
    return dot / lengths if lengths else 0.0
