"""The file of the built-in model: word pieces with their weights and rows, mapped into memory.

It splits texts into words and sentences, and words into pieces, as the training did.
"""

import json
import math
import mmap
import os
import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from typing import cast
from zlib import crc32

from plait.errors import EmbedderError, advise
from plait.text.english import roots_of
from plait.types import TextKind

FILE = os.path.join(os.path.dirname(__file__), "builtin.bin")
# Where each piece is in the model's file: a hash table of their numbers, made by training/pack.py.
SLOTS_ENDING = ".slots"
SLOTS = 2**17  # more than twice the pieces, so that most are where they belong
EMPTY_SLOT = 0xFFFF
MODEL_FORMAT = "plait static embedder 1"
ZERO = 128  # rows are stored as 0..255 with 128 for zero
LANE_BYTES = 4
LONGEST_WORD = 60  # characters; training ignored longer ones too
ODD_WORD = 12  # bytes: of a longer one, such as a key, few of the beginnings are pieces
MARKS = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
BLANKED = bytes.maketrans(MARKS, b" " * len(MARKS))
NO_MARKS = bytes(sorted(frozenset(range(256)) - frozenset(MARKS)))
# Spaces that the model does not see: words on both sides of one are a single word.
UNSEEN_SPACES = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
ASCII_WORDS = re.compile(r"[!-/:-@\[-`{-~]|[^\s!-/:-@\[-`{-~]+")
# Of ASCII, whatever is no letter, digit or end of a line becomes a space.
WORDS_AND_LINES = bytes(
    byte if chr(byte).isalnum() or byte == ord("\n") else ord(" ") for byte in range(128)
).ljust(256)
# Cheap to compile and right for Latin letters: most passages need no more than this.
LATIN_WORDS = re.compile(r"[^\W_]+")
OTHER_LETTERS = "[^\x00-\u02ff\u2000-\u2bff]"
SENTENCE_ENDS = "[.!?][)\"'\\]]*\\s+"
OTHER_SENTENCE_ENDS = f"{SENTENCE_ENDS}|[\u0964\u3002\uff01\uff1f\u061f]"
WRAPPED_LINE = 50  # characters: a line of this length that ends without a stop may go on
FLIPPED = bytes((value + ZERO) % 256 for value in range(256))


class Pieces:
    """The pieces of the model, sorted, and what the file has of each."""

    def __init__(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                header = json.loads(file.readline())
                self._start = file.tell()
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with open(path.removesuffix(".bin") + SLOTS_ENDING, "rb") as file:
                slots = mmap.mmap(file.fileno(), 2 * SLOTS, access=mmap.ACCESS_READ)
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
        self._starts = self._numbers_at("starts", "I", self._count + 1)
        # A copy: slices of a map take three times as long to compare.
        self._names = self._map[self._at["names"] : self._at["names"] + self._starts[self._count]]
        self._weights: dict[TextKind, Sequence[int]] = {
            "query": self._numbers_at("query", "H", self._count),
            "passage": self._numbers_at("passage", "H", self._count),
        }
        self._slots: Sequence[int] = _unsigned(memoryview(slots), "H")
        # From the file, because Python's Unicode tables differ from version to version.
        self._alone: str = header["alone"]
        self._invisible: str = header["invisible"]
        self._compiled: tuple[re.Pattern[str], re.Pattern[str]] | None = None
        self._numbers: dict[bytes, int] = {}
        self._sorted: list[bytes] = []
        self._ordinary: set[str] = set()  # characters that `words` reads as other patterns do
        self._odd: set[str] = set()

    def _numbers_at(self, section: str, format: str, count: int) -> Sequence[int]:
        place = self._at[section]
        size = array(format).itemsize
        return _unsigned(memoryview(self._map)[place : place + size * count], format)

    def words(self, text: str) -> list[str]:
        """Return lower-case words; each punctuation mark and ideograph is a word by itself."""
        if text.isascii() and text.isprintable():
            return ASCII_WORDS.findall(text.lower())
        words, invisible = self._patterns()
        return cast(list[str], words.findall(invisible.sub("", text).lower()))

    def bag_of_words(self, text: str) -> list[str]:
        """Return what `words` does, in any order, and faster."""
        if UNSEEN_SPACES.search(text):
            return self.words(text)
        others = ""
        if not text.isascii():
            parts = text.split()
            others = " ".join([part for part in parts if not part.isascii()])
            text = " ".join(filter(str.isascii, parts))
        elif not text.isprintable():
            text = " ".join(text.split())
        if not text.isprintable():
            return self.words(f"{text} {others}")
        plain = text.lower().encode()
        words = plain.translate(BLANKED).decode().split()
        words += plain.translate(None, NO_MARKS).decode()
        return words + self.words(others) if others else words

    def sentences(self, text: str) -> list[list[str]]:
        """Return the words of each sentence, line of code or item of a list, without marks.

        A long line without a full stop goes on in the next one, if that begins in lower case.
        """
        wrapped: list[list[str]] = []
        for line in text.split("\n"):
            last = wrapped[-1][-1] if wrapped and line[:1].islower() else ""
            if len(last) >= WRAPPED_LINE and (last[-1].isalnum() or last[-1] == ","):
                wrapped[-1].append(line)
            elif line:
                wrapped.append([line])
        lines = [" ".join(parts) for parts in wrapped]
        if text.isascii():
            plain = re.sub(SENTENCE_ENDS, "\n", "\n".join(lines).lower()).encode()
            return [part.split() for part in plain.translate(WORDS_AND_LINES).decode().splitlines()]
        ends = re.compile(OTHER_SENTENCE_ENDS)
        parts = [part for line in lines for part in ends.split(line)]
        if not re.search(OTHER_LETTERS, text) or self._is_ordinary(text):
            return [LATIN_WORDS.findall(part.lower()) for part in parts]
        return [[word for word in self.words(part) if word[0].isalnum()] for part in parts]

    def _is_ordinary(self, text: str) -> bool:
        """Tell whether `words` reads a text as runs of letters and digits, which is faster."""
        if not self._odd.isdisjoint(text):
            return False
        for character in set(text) - self._ordinary:
            words, invisible = self._patterns()
            lower = character.lower()
            in_word = words.fullmatch(f"{lower}x") is not None
            if len(lower) > 1 or in_word != lower.isalnum() or invisible.search(character):
                self._odd.add(character)
                return False
            self._ordinary.add(character)
        return True

    def _patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """Return the patterns, compiled on first use: 4 ms that most queries do not need."""
        if self._compiled is None:
            alone = self._alone
            self._compiled = (
                re.compile(f"[{alone}]|[^\\s{alone}]+"),
                re.compile(f"[{self._invisible}]+"),
            )
        return self._compiled

    def is_piece(self, word: str) -> bool:
        """Tell whether a whole word is one piece."""
        return self._number(word) is not None

    def weighted_row(self, number: int, kind: TextKind) -> int:
        """Return the weight of a piece times its row, spread into lanes; a 1 is behind the row."""
        place = self._at["rows"] + number * self.dims
        wide = bytearray((self.dims + 1) * LANE_BYTES)
        wide[::LANE_BYTES] = self._map[place : place + self.dims] + b"\1"
        return self._weights[kind][number] * int.from_bytes(wide, "little")

    def row(self, number: int) -> bytes:
        """Return the row of a piece as int8 values."""
        return self.rows([number])

    def rows(self, numbers: Iterable[int]) -> bytes:
        """Return the rows of pieces as int8 values, one after the other."""
        dims, rows = self.dims, memoryview(self._map)[self._at["rows"] :]  # slices copy nothing
        return b"".join([rows[n * dims : n * dims + dims] for n in numbers]).translate(FLIPPED)

    def weight(self, number: int) -> float:
        """Return how much a piece counts in a query, with the length of its row."""
        values = memoryview(self.row(number)).cast("b")
        return self._weights["query"][number] * math.hypot(*values)

    def pieces(self, word: str) -> list[int]:
        """Split greedily into the longest known pieces; none if any part is unknown."""
        if len(word) > LONGEST_WORD:
            return []
        find = self._numbers.get if self._numbers else self._stored_number
        rest = word.encode("utf-8", "surrogatepass")  # a lone surrogate is in no piece
        pieces: list[int] = []
        prefix = b""
        while rest:
            end = len(rest)
            number = find(prefix + rest)
            if number is None and end >= ODD_WORD and self._sorted:
                end = max(0, self._longest(prefix + rest) - len(prefix))
                number = find(prefix + rest[:end])
            while number is None and end > 1:
                end -= 1
                # Only whole characters can be a piece.
                if rest[end] & 0xC0 != 0x80:
                    number = find(prefix + rest[:end])
            if number is None:
                return []
            pieces.append(number)
            rest = rest[end:]
            prefix = b"##"
        return pieces

    def _longest(self, text: bytes) -> int:
        """Return the size of the longest piece that a text begins with; 0 if there is none."""
        names, place = self._sorted, self._count
        while (place := bisect_right(names, text, 0, place) - 1) >= 0:
            shared = len(names[place])
            if text.startswith(names[place]):
                return shared
            while not text.startswith(names[place][:shared]):
                shared -= 1
            text = text[:shared]  # whatever shorter piece it begins with, that is in this
        return 0

    def _number(self, piece: str) -> int | None:
        """Return the number of a piece; ``None`` if it is unknown."""
        find = self._numbers.get if self._numbers else self._stored_number
        return find(piece.encode("utf-8", "surrogatepass"))

    def _stored_number(self, piece: bytes) -> int | None:
        slots = self._slots
        slot = crc32(piece) % SLOTS
        while (number := slots[slot]) != EMPTY_SLOT:
            start = self._starts[number]
            size = self._starts[number + 1] - start
            if size == len(piece) and self._names.startswith(piece, start):
                return number
            slot = (slot + 1) % SLOTS
        return None

    def read_vocabulary(self) -> None:
        """Read all pieces into a dictionary, which pays off for many texts."""
        if self._numbers:
            return
        starts = list(self._starts)
        self._numbers = {
            self._names[starts[number] : starts[number + 1]]: number
            for number in range(self._count)
        }
        self._sorted = list(self._numbers)


def _unsigned(data: memoryview, format: str) -> Sequence[int]:
    """Return little-endian numbers of a file."""
    if sys.byteorder == "little":
        return data.cast("B").cast(format)  # type: ignore[call-overload, no-any-return]
    numbers = array(format, data.tobytes())
    numbers.byteswap()
    return numbers


@cache
def _shipped() -> Pieces:
    return Pieces(FILE)


def is_word(word: str) -> bool:
    """Tell whether the model knows a lower-case word as a whole, or without an English ending.

    >>> is_word("pregnancy"), is_word("searched"), is_word("certifcate")
    (True, True, False)
    """
    forms = (word, *roots_of(word))
    return any(_shipped().is_piece(form) for form in forms)
