"""The built-in model: one vector and two weights per word piece (`plait.embedders.pieces`).

The vector of a text is the weighted sum of its pieces' vectors. Sums are whole numbers, so a text
gives the same bits on every machine. They are fast without numpy: a row of int8 values is spread
into 32-bit lanes of one large integer, so that adding rows is adding integers.
"""

import math
import sys
from array import array
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter, mul
from typing import Any, cast

from plait.embedders import Embedder
from plait.embedders.pieces import FILE, LANE_BYTES, ZERO, Pieces
from plait.protocols import Vector
from plait.text.english import empty_words
from plait.types import Space, TextKind, Tuning

# 255 times the sum of weights must stay below a lane's 2**32; the rest of the text is left out.
MAX_WEIGHT_SUM = (2**32 - 1) // 255
# About 1 KB each: the sums of words, and of the pieces of rarer words.
CACHED_WORDS = 16_384
CACHED_PIECE_SUMS = 8_192
CACHED_PIECES = 16_384  # about 0.3 KB each
CACHED_TEXTS = 1_024  # 1.5 to 6 KB each
BULK_TEXTS = 16  # from this many texts on, reading the whole vocabulary (12 ms) pays off
# A process that has answered so many searches goes on searching, and each one meets a hundred new
# words: then it pays off, too (9 MB).
SEARCHES_ALONE = 3
# The heaviest pieces of a pasted page tell its subject; each costs a comparison per passage word.
INTERACTING_PIECES = 32


class Builtin(Embedder):
    """plait's own static model. It needs no download, no numpy and no network."""

    dims: int
    space: Space

    def __init__(self, path: str = FILE) -> None:
        self._file = Pieces(path)
        self.dims = self._file.dims
        self.space = Space("builtin", "plait-static", self.dims, revision=self._file.revision)
        # Measured in benchmarks/quality.md.
        self.tuning = Tuning(keyword_weight=0.65, vector_weight=0.35, unrelated=0.22, spread=0.04)
        self._sums: dict[TextKind, _Sums] = {
            "query": _Sums(self._file, "query"),
            "passage": _Sums(self._file, "passage"),
        }
        self._telling_pieces = _TellingPieces(self._file)
        self._known_texts: dict[str, tuple[tuple[int, ...], ...]] = {}
        self._weights: dict[int, float] = {}  # at most one per piece
        self._searches = 0

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """Return one unit vector per text; ``None`` for a text without any known piece."""
        if len(texts) >= BULK_TEXTS:
            self._file.read_vocabulary()
        return [self._embed_text(text, kind) for text in texts]

    def _embed_text(self, text: str, kind: TextKind) -> Vector | None:
        sums = self._sums[kind]
        total = sum(map(sums.__getitem__, self._file.bag_of_words(text)))
        weight = total >> sums.weight_at
        if weight > MAX_WEIGHT_SUM:
            total = weight = 0
            for word in self._file.words(text):
                next_weight = weight + (sums[word] >> sums.weight_at)
                if next_weight > MAX_WEIGHT_SUM:
                    break
                total, weight = total + sums[word], next_weight
        return self._unit(total, weight) if weight else None

    def _unit(self, total: int, weight: int) -> Vector | None:
        lanes = array("I", total.to_bytes((self.dims + 1) * LANE_BYTES, "little"))
        if sys.byteorder == "big":
            lanes.byteswap()
        lanes.pop()  # the weight
        shift = ZERO * weight
        values = [lane - shift for lane in lanes]
        length = math.sqrt(sum(map(mul, values, values)))
        return array("f", [value / length for value in values]) if length else None

    def knows(self, text: str) -> bool:
        """Tell whether any word of a text is a piece by itself; nonsense falls into several."""
        words = self._file.words(text)
        return any(self._file.is_piece(word) for word in words if word[0].isalpha())

    # -- late interaction ------------------------------------------------------------------

    def interact(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """Return how well the best sentence of each text meets the query, word piece by word piece.

        Each piece of the query counts by its weight times its cosine with the nearest piece of the
        sentence. One vector per text blurs what several sentences say; this does not.
        """
        self._searches += 1
        if self._searches > SEARCHES_ALONE:
            self._file.read_vocabulary()
        weights, rows = self._interacting(query)
        compared = [self._sentences_of(text) for text in texts]
        numbers = list(set(chain.from_iterable(chain.from_iterable(compared))))
        if not weights or not numbers:
            return None
        distances = _distances(rows, self._file.rows(numbers), self.dims)
        weighed = list(zip(weights, distances, strict=True))
        place_of = {number: place for place, number in enumerate(numbers)}
        total = sum(weights)
        met = []
        for sentences in compared:
            least = total
            for sentence in sentences:
                where = [place_of[number] for number in sentence]
                pick = itemgetter(*where, where[0])  # one index alone would give no tuple
                far = 0.0
                for weight, row in weighed:
                    far += weight * min(pick(row))
                    if far >= least:
                        break  # another sentence is nearer, whatever the lighter pieces add
                else:
                    least = far
            met.append(max(0.0, 1.0 - least / total))
        return met

    def _interacting(self, query: str) -> tuple[list[float], list[bytes]]:
        """Return the weights and rows of the query's pieces, the heaviest first."""
        words = dict.fromkeys(chain.from_iterable(self._file.sentences(query)))
        telling = [word for word in words if word not in empty_words()]
        numbers = [number for word in telling or words for number in self._file.pieces(word)]
        weighed = [(self._weight(n), self._file.row(n)) for n in dict.fromkeys(numbers)]
        weighed.sort(reverse=True)
        del weighed[INTERACTING_PIECES:]
        return [weight for weight, _ in weighed], [row for _, row in weighed]

    def _sentences_of(self, text: str) -> tuple[tuple[int, ...], ...]:
        """Return the telling pieces of each sentence that has any; texts are often met again."""
        sentences = self._known_texts.get(text)
        if sentences is None:
            pieces_of = self._telling_pieces.__getitem__
            # Tuples: what is kept in lists makes each garbage collection slower.
            pieces_by_sentence = [
                tuple(chain.from_iterable(map(pieces_of, words)))
                for words in self._file.sentences(text)
            ]
            sentences = tuple(filter(None, pieces_by_sentence))
            if len(self._known_texts) >= CACHED_TEXTS:
                self._known_texts.clear()
            self._known_texts[text] = sentences
        return sentences

    def _weight(self, number: int) -> float:
        if number not in self._weights:
            self._weights[number] = self._file.weight(number)
        return self._weights[number]


def _distances(rows: Sequence[bytes], matrix: bytes, dims: int) -> list[list[float]]:
    """Return the cosine distances from each row to those of a matrix."""
    import simsimd

    shaped = memoryview(matrix).cast("b", shape=[len(matrix) // dims, dims])
    distances = []
    for row in rows:
        tensor: Any = simsimd.cosine(memoryview(row).cast("b"), shaped)
        # The values are doubles; memoryview's type only knows of integers.
        distances.append(cast(list[float], memoryview(tensor).tolist()))
    return distances


class _Sums(dict[str, int]):
    """The weighted sum of each word's rows, as one integer of lanes; the last one is its weight."""

    def __init__(self, file: Pieces, kind: TextKind) -> None:
        super().__init__()
        self._file = file
        self._kind: TextKind = kind
        self._of_pieces: dict[int, int] = {}
        self.weight_at = 8 * LANE_BYTES * file.dims

    def __missing__(self, word: str) -> int:
        sums_of_pieces = self._of_pieces
        total = 0
        for number in self._file.pieces(word):
            piece_sum = sums_of_pieces.get(number)
            if piece_sum is None:
                piece_sum = self._file.weighted_row(number, self._kind)
                if len(sums_of_pieces) < CACHED_PIECE_SUMS:
                    sums_of_pieces[number] = piece_sum
            total += piece_sum
        if len(self) < CACHED_WORDS:
            self[word] = total
        return total


class _TellingPieces(dict[str, tuple[int, ...]]):
    """The pieces of each word; words that say nothing about a subject have none."""

    def __init__(self, file: Pieces) -> None:
        super().__init__()
        self._file = file

    def __missing__(self, word: str) -> tuple[int, ...]:
        pieces = () if word in empty_words() else tuple(self._file.pieces(word))
        if len(self) >= CACHED_PIECES:
            self.clear()
        self[word] = pieces
        return pieces
