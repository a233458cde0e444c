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
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter, mul
from typing import Any, cast
from zlib import crc32

from plait.embedders import Embedder
from plait.errors import EmbedderError, advise
from plait.protocols import Vector
from plait.text.english import empty_words
from plait.types import Space, TextKind, Tuning

FILE = os.path.join(os.path.dirname(__file__), "builtin.bin")
# Where each piece is in the model's file: a hash table of their numbers, made by training/pack.py.
SLOTS_ENDING = ".slots"
SLOTS = 2**17  # more than twice the pieces, so that most are where they belong
EMPTY_SLOT = 0xFFFF
MODEL_FORMAT = "plait static embedder 1"
ZERO = 128  # rows are stored as 0..255 with 128 for zero
LANE_BYTES = 4
# 255 times the sum of weights must stay below a lane's 2**32; the rest of the text is left out.
MAX_WEIGHT_SUM = (2**32 - 1) // 255
LONGEST_WORD = 60  # characters; training ignored longer ones too
ODD_WORD = 12  # bytes: of a longer one, such as a key, few of the beginnings are pieces
SHORTEST_ROOT = 4  # letters of a word before its ending
# About 1 KB each: the sums of words, and of the pieces of rarer words.
CACHED_WORDS = 16_384
CACHED_PIECE_SUMS = 8_192
CACHED_PIECES = 16_384  # about 0.3 KB each
CACHED_TEXTS = 1_024  # 1.5 to 6 KB each
MARKS = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
BLANKED = bytes.maketrans(MARKS, b" " * len(MARKS))
NO_MARKS = bytes(sorted(frozenset(range(256)) - frozenset(MARKS)))
# Spaces that the model does not see: words on both sides of one are a single word.
UNSEEN_SPACES = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
ASCII_WORDS = re.compile(r"[!-/:-@\[-`{-~]|[^\s!-/:-@\[-`{-~]+")
BULK_TEXTS = 16  # from this many texts on, reading the whole vocabulary (12 ms) pays off
# A process that has answered so many searches goes on searching, and each one meets a hundred new
# words: then it pays off, too (9 MB).
SEARCHES_ALONE = 3

# -- late interaction
# The heaviest pieces of a pasted page tell its subject; each costs a comparison per passage word.
INTERACTING_PIECES = 32
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


class Builtin(Embedder):
    """plait's own static model. It needs no download, no numpy and no network."""

    dims: int
    space: Space

    def __init__(self, path: str = FILE) -> None:
        self._file = _Pieces(path)
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
                more = weight + (sums[word] >> sums.weight_at)
                if more > MAX_WEIGHT_SUM:
                    break
                total, weight = total + sums[word], more
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
            listed = [
                tuple(chain.from_iterable(map(pieces_of, words)))
                for words in self._file.sentences(text)
            ]
            sentences = tuple(filter(None, listed))
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

    def __init__(self, file: "_Pieces", kind: TextKind) -> None:
        super().__init__()
        self._file = file
        self._kind: TextKind = kind
        self._of_pieces: dict[int, int] = {}
        self.weight_at = 8 * LANE_BYTES * file.dims

    def __missing__(self, word: str) -> int:
        known = self._of_pieces
        total = 0
        for number in self._file.pieces(word):
            piece_sum = known.get(number)
            if piece_sum is None:
                piece_sum = self._file.weighted_row(number, self._kind)
                if len(known) < CACHED_PIECE_SUMS:
                    known[number] = piece_sum
            total += piece_sum
        if len(self) < CACHED_WORDS:
            self[word] = total
        return total


class _TellingPieces(dict[str, tuple[int, ...]]):
    """The pieces of each word; words that say nothing about a subject have none."""

    def __init__(self, file: "_Pieces") -> None:
        super().__init__()
        self._file = file

    def __missing__(self, word: str) -> tuple[int, ...]:
        pieces = () if word in empty_words() else tuple(self._file.pieces(word))
        if len(self) >= CACHED_PIECES:
            self.clear()
        self[word] = pieces
        return pieces


@cache
def _shipped() -> "_Pieces":
    return _Pieces(FILE)


# Endings of English, what they follow, and what the root may have instead. "Channes" is no plural.
_ENDINGS = (
    ("s", tuple("abcdefghijklmnopqrtuvwxyz"), ("",)),
    ("es", ("s", "x", "z", "ch", "sh", "o"), ("",)),
    ("ies", ("",), ("y",)),
    ("ed", ("",), ("", "e")),
    ("ing", ("",), ("", "e")),
    ("ly", ("",), ("", "e")),
)


def is_word(word: str) -> bool:
    """Tell whether the model knows a lower-case word as a whole, or without an English ending.

    >>> is_word("pregnancy"), is_word("searched"), is_word("certifcate")
    (True, True, False)
    """
    forms = [word]
    for ending, after, instead in _ENDINGS:
        root = word.removesuffix(ending)
        if SHORTEST_ROOT <= len(root) < len(word) and root.endswith(after):
            forms += [root + letters for letters in instead]
    return any(_shipped().is_piece(form) for form in forms)


class _Pieces:
    """The model's file: sorted pieces, their weights and rows, mapped into memory."""

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
        known, place = self._sorted, self._count
        while (place := bisect_right(known, text, 0, place) - 1) >= 0:
            shared = len(known[place])
            if text.startswith(known[place]):
                return shared
            while not text.startswith(known[place][:shared]):
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
