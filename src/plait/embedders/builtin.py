"""The built-in model: one vector and two weights per word piece, read in place from one file.

A text's vector is the weighted sum of its pieces' vectors. Sums are whole numbers, so the same
text gives the same bits on every machine, and they are fast without numpy: a row of int8 values is
spread into 32-bit lanes of one large integer, and adding rows is adding integers.
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

from plait.errors import EmbedderError
from plait.protocols import Vector
from plait.types import Space, TextKind, Tuning

FILE = os.path.join(os.path.dirname(__file__), "builtin.bin")
FORMAT = "plait static embedder 1"
ZERO = 128  # rows are stored as 0..255 with 128 for zero
LANE_BYTES = 4
# 255 times the sum of weights must stay below a lane's 2**32; what comes later is left out.
MOST_WEIGHT = (2**32 - 1) // 255
LONGEST_WORD = 60  # characters; a longer one is no word, and was none in training
CACHED_WORDS = 8_192  # about 1 KB each
ASCII_WORDS = re.compile(r"[!-/:-@\[-`{-~]|[^\s!-/:-@\[-`{-~]+")
BULK_TEXTS = 16  # from here on the vocabulary is worth reading as a whole (12 ms)


class Builtin:
    """plait's own static model. It needs no download, no numpy and no network."""

    def __init__(self, path: str = FILE) -> None:
        self._file = _Pieces(path)
        self.dims = self._file.dims
        self.space = Space("builtin", "plait-static", self.dims, revision=self._file.revision)
        # Weights and cosines from benchmarks/quality.md.
        self.tuning = Tuning(keyword_weight=0.65, vector_weight=0.35, floor=0.18, ceiling=0.7)
        self._sums: dict[TextKind, dict[str, tuple[int, int]]] = {"query": {}, "passage": {}}

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """One unit vector per text; a text without any known piece has none."""
        if len(texts) >= BULK_TEXTS:
            self._file.read_vocabulary()
        return [self._one(text, kind) for text in texts]

    def _one(self, text: str, kind: TextKind) -> Vector | None:
        known = self._sums[kind]
        total = weight = 0
        for word in self._file.words(text):
            found = known.get(word)
            if found is None:
                found = self._file.sum_of(word, kind)
                if len(known) < CACHED_WORDS:
                    known[word] = found
            if weight + found[1] > MOST_WEIGHT:
                break
            total += found[0]
            weight += found[1]
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
    """The model's file: sorted pieces, their weights and rows, mapped and never read whole."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                header = json.loads(file.readline())
                self._start = file.tell()
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise EmbedderError(f"The built-in model {path} cannot be read: {error}.") from error
        if header.get("format") != FORMAT:
            raise EmbedderError(f"{path} is not a model of this plait. Install plait again.")
        self.dims: int = header["dims"]
        self.revision: str = header["revision"]
        self._count: int = header["pieces"]
        sections: dict[str, list[int]] = header["sections"]
        self._at = {name: self._start + place for name, (place, _) in sections.items()}
        # Which characters stand alone is the file's to say: Python's Unicode differs by version.
        self._alone: str = header["alone"]
        self._invisible: str = header["invisible"]
        self._compiled: tuple[re.Pattern[str], re.Pattern[str]] | None = None
        self._numbers: dict[str, int] = {}

    def words(self, text: str) -> list[str]:
        """Lower-case words; every punctuation mark and ideograph is one of its own."""
        if text.isascii() and text.isprintable():
            return ASCII_WORDS.findall(text.lower())
        words, invisible = self._patterns()
        found: list[str] = words.findall(invisible.sub("", text).lower())
        return found

    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """Compiled at the first text that needs them: 4 ms that most queries do not."""
        if self._compiled is None:
            alone = self._alone
            self._compiled = (
                re.compile(f"[{alone}]|[^\\s{alone}]+"),
                re.compile(f"[{self._invisible}]+"),
            )
        return self._compiled

    def sum_of(self, word: str, kind: TextKind) -> tuple[int, int]:
        """A word's pieces, weighted and added up, and the sum of their weights."""
        total = weight = 0
        for number in self._pieces(word):
            mine = self._unsigned(self._at[kind] + 2 * number, 2)
            total += mine * self._row(number)
            weight += mine
        return total, weight

    def _row(self, number: int) -> int:
        place = self._at["rows"] + number * self.dims
        wide = bytearray(self.dims * LANE_BYTES)
        wide[::LANE_BYTES] = self._map[place : place + self.dims]
        return int.from_bytes(wide, "little")

    def _pieces(self, word: str) -> list[int]:
        """The longest known piece first, then the longest continuation; none if any part is new."""
        if len(word) > LONGEST_WORD:
            return []
        found: list[int] = []
        rest = word
        while rest:
            prefix = "##" if found else ""
            number, length = self._longest(prefix + rest, len(prefix))
            if number is None:
                return []
            found.append(number)
            rest = rest[length:]
        return found

    def _longest(self, text: str, least: int) -> tuple[int | None, int]:
        """The longest piece that starts a text, and its length beyond ``least``."""
        if self._numbers:
            for end in range(len(text), least, -1):
                number = self._numbers.get(text[:end])
                if number is not None:
                    return number, end - least
            return None, 0
        wanted = text.encode("utf-8", "surrogatepass")  # half a character is in no piece
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
        """How many pieces there are."""
        return self._count

    def __getitem__(self, number: int) -> bytes:
        """The bytes of one piece; pieces are sorted by them."""
        place = self._at["starts"] + 4 * number
        first, last = self._unsigned(place, 4), self._unsigned(place + 4, 4)
        names = self._at["names"]
        return self._map[names + first : names + last]

    def _unsigned(self, place: int, size: int) -> int:
        return int.from_bytes(self._map[place : place + size], "little")

    def read_vocabulary(self) -> None:
        """Read all pieces into a dictionary: worth it for many texts, not for one query."""
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


def _common(one: bytes, other: bytes) -> int:
    """How many bytes two texts start with in common."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
