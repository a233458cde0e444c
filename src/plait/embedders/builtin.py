"""The built-in model: one vector and two weights per word piece, mapped from one file.

The vector of a text is the weighted sum of its pieces' vectors. Sums are whole numbers, so a text
gives the same bits on every machine. They are fast without numpy: a row of int8 values is spread
into 32-bit lanes of one large integer, so that adding rows is adding integers.
"""

import json
import math
import mmap
import os
import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence

from plait.embedders import Embedder
from plait.errors import EmbedderError, advise
from plait.protocols import Vector
from plait.types import Space, TextKind, Tuning

FILE = os.path.join(os.path.dirname(__file__), "builtin.bin")
MODEL_FORMAT = "plait static embedder 1"
ZERO = 128  # rows are stored as 0..255 with 128 for zero
LANE_BYTES = 4
# 255 times the sum of weights must stay below a lane's 2**32; the rest of the text is left out.
MAX_WEIGHT_SUM = (2**32 - 1) // 255
LONGEST_WORD = 60  # characters; training ignored longer ones too
CACHED_WORDS = 8_192  # about 1 KB each
ASCII_WORDS = re.compile(r"[!-/:-@\[-`{-~]|[^\s!-/:-@\[-`{-~]+")
BULK_TEXTS = 16  # from this many words on, reading the whole vocabulary (12 ms) pays off


class Builtin(Embedder):
    """plait's own static model. It needs no download, no numpy and no network."""

    dims: int
    space: Space

    def __init__(self, path: str = FILE) -> None:
        self._file = _Pieces(path)
        self.dims = self._file.dims
        self.space = Space("builtin", "plait-static", self.dims, revision=self._file.revision)
        # Weights and cosines from benchmarks/quality.md.
        self.tuning = Tuning(keyword_weight=0.65, vector_weight=0.35, floor=0.18, ceiling=0.7)
        self._sums: dict[TextKind, dict[str, tuple[int, int]]] = {"query": {}, "passage": {}}

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """Return one unit vector per text; ``None`` for a text without any known piece."""
        if len(texts) >= BULK_TEXTS:
            self._file.read_vocabulary()
        return [self._embed_text(text, kind) for text in texts]

    def _embed_text(self, text: str, kind: TextKind) -> Vector | None:
        known = self._sums[kind]
        total = weight = 0
        for word in self._file.words(text):
            word_sum = known.get(word)
            if word_sum is None:
                word_sum = self._file.sum_of(word, kind)
                if len(known) < CACHED_WORDS:
                    known[word] = word_sum
            if weight + word_sum[1] > MAX_WEIGHT_SUM:
                break
            total += word_sum[0]
            weight += word_sum[1]
        return self._unit(total, weight) if weight else None

    def _unit(self, total: int, weight: int) -> Vector | None:
        lanes = array("I", total.to_bytes(self.dims * LANE_BYTES, "little"))
        if sys.byteorder == "big":
            lanes.byteswap()
        shift = ZERO * weight
        values = [lane - shift for lane in lanes]
        length = math.sqrt(sum(value * value for value in values))
        return array("f", [value / length for value in values]) if length else None


class _Pieces:
    """The model's file: sorted pieces, their weights and rows, mapped into memory."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                header = json.loads(file.readline())
                self._start = file.tell()
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise EmbedderError(
                f"The built-in model {path} cannot be read: {error}.",
                code="model_unreadable",
                subject=path,
                advice=advise("reinstall"),
            ) from error
        if header.get("format") != MODEL_FORMAT:
            raise EmbedderError(
                f"{path} is not a model of this version of plait.",
                code="model_unreadable",
                subject=path,
                advice=advise("reinstall"),
            )
        self.dims: int = header["dims"]
        self.revision: str = header["revision"]
        self._count: int = header["pieces"]
        sections: dict[str, list[int]] = header["sections"]
        self._at = {name: self._start + place for name, (place, _) in sections.items()}
        # From the file, because Python's Unicode tables differ from version to version.
        self._alone: str = header["alone"]
        self._invisible: str = header["invisible"]
        self._compiled: tuple[re.Pattern[str], re.Pattern[str]] | None = None
        self._numbers: dict[str, int] = {}

    def words(self, text: str) -> list[str]:
        """Return lower-case words; each punctuation mark and ideograph is a word by itself."""
        if text.isascii() and text.isprintable():
            return ASCII_WORDS.findall(text.lower())
        words, invisible = self._patterns()
        split: list[str] = words.findall(invisible.sub("", text).lower())
        return split

    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """Return the patterns, compiled on first use: 4 ms that most queries do not need."""
        if self._compiled is None:
            alone = self._alone
            self._compiled = (
                re.compile(f"[{alone}]|[^\\s{alone}]+"),
                re.compile(f"[{self._invisible}]+"),
            )
        return self._compiled

    def sum_of(self, word: str, kind: TextKind) -> tuple[int, int]:
        """Return the weighted sum of a word's pieces, and the sum of their weights."""
        total = weight = 0
        for number in self._pieces(word):
            piece_weight = self._unsigned(self._at[kind] + 2 * number, 2)
            total += piece_weight * self._row(number)
            weight += piece_weight
        return total, weight

    def _row(self, number: int) -> int:
        place = self._at["rows"] + number * self.dims
        wide = bytearray(self.dims * LANE_BYTES)
        wide[::LANE_BYTES] = self._map[place : place + self.dims]
        return int.from_bytes(wide, "little")

    def _pieces(self, word: str) -> list[int]:
        """Split greedily into the longest known pieces; none if any part is unknown."""
        if len(word) > LONGEST_WORD:
            return []
        pieces: list[int] = []
        rest = word
        while rest:
            prefix = "##" if pieces else ""
            number, length = self._longest(prefix + rest, len(prefix))
            if number is None:
                return []
            pieces.append(number)
            rest = rest[length:]
        return pieces

    def _longest(self, text: str, least: int) -> tuple[int | None, int]:
        """Return the longest piece that starts a text, and its length beyond ``least``."""
        if self._numbers:
            for end in range(len(text), least, -1):
                number = self._numbers.get(text[:end])
                if number is not None:
                    return number, end - least
            return None, 0
        wanted = text.encode("utf-8", "surrogatepass")  # a lone surrogate is in no piece
        shortest = len(text[:least].encode("utf-8"))
        while len(wanted) > shortest:
            # The piece just before a text in sorted order shares the longest start with it.
            number = bisect_right(self, wanted) - 1
            if number < 0:
                break
            piece = self[number]
            if wanted.startswith(piece):
                if len(piece) > shortest:
                    return number, len(piece.decode("utf-8")) - least
                break
            wanted = wanted[: _common(wanted, piece)]
        return None, 0

    def __len__(self) -> int:
        """Return the number of pieces."""
        return self._count

    def __getitem__(self, number: int) -> bytes:
        """Return the bytes of a piece; pieces are sorted by them."""
        place = self._at["starts"] + 4 * number
        first, last = self._unsigned(place, 4), self._unsigned(place + 4, 4)
        names = self._at["names"]
        return self._map[names + first : names + last]

    def _unsigned(self, place: int, size: int) -> int:
        return int.from_bytes(self._map[place : place + size], "little")

    def read_vocabulary(self) -> None:
        """Read all pieces into a dictionary, which pays off for many texts."""
        if self._numbers:
            return
        starts = array(
            "I", self._map[self._at["starts"] : self._at["starts"] + 4 * (self._count + 1)]
        )
        if sys.byteorder == "big":
            starts.byteswap()
        names = self._map[self._at["names"] : self._at["names"] + starts[-1]]
        self._numbers = {
            names[starts[number] : starts[number + 1]].decode("utf-8"): number
            for number in range(self._count)
        }


def _common(left: bytes, right: bytes) -> int:
    """Return the length of the common prefix."""
    for place, (first, second) in enumerate(zip(left, right, strict=False)):
        if first != second:
            return place
    return min(len(left), len(right))
