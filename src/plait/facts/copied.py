"""Tell whether a text copies another, word for word, however it is wrapped, quoted or punctuated.

Used to keep text that was shown as untrusted from coming back as trusted. A paraphrase is not a
copy: nobody can tell it from a text of one's own. `plait.writing.copies` looks up the sources.
"""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TypeVar

from plait.text.normal_form import compatible
from plait.types import Document

# Words. A run this long does not occur in two texts by chance; a shorter sentence counts whole.
RUN_WORDS = 8
# The same in scripts without spaces, where each character is a word.
RUN_IDEOGRAPHS = 12
RUN_LETTERS = 24
# Characters. "Yes." or "See below." does not tell where it came from.
SHORTEST_COPY = 20
# Words of one part. Each part begins so far behind the one before that no run falls between.
WINDOW_WORDS = 24
WIDE_WINDOW_WORDS = 48
# Han and hiragana; words in katakana stand out from them and are read whole.
_IDEOGRAPHS = (
    "\u3005-\u3007\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Thai, Lao, Myanmar, Khmer, Tai, Balinese and Javanese, with their vowel signs.
_LETTERS = (
    "\u0e00-\u0e4e\u0e50-\u0e59\u0e80-\u0eff\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u17dc-\u17ff"
    "\u1950-\u19df\u1a20-\u1a9f\u1b00-\u1b59\ua980-\ua9c0\ua9cf-\uaa7f"
)
_FIRST_UNSPACED = "\u0e00"
# An underscore is Markdown's emphasis, or a space in a name.
_ASCII_WORD = re.compile(r"[a-z0-9]+")
# The full stops of scripts without spaces need none behind them.
_END = re.compile(r"(?<![.!?])[.!?]++(?=\s|$)|[\u104a\u104b\u17d4\u17d5\u3002]")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
# What Unicode calls ignorable, and every other format character: nobody sees them inside of a word.
UNSEEN = (
    *((0xAD, 0xAD), (0x34F, 0x34F), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD)),
    *((0x70F, 0x70F), (0x890, 0x891), (0x8E2, 0x8E2), (0x115F, 0x1160), (0x17B4, 0x17B5)),
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB)),
    *((0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1345F), (0x1BCA0, 0x1BCA3)),
    *((0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
_READ: dict[int, str | None] = {
    **{mark: None for first, last in UNSEEN for mark in range(first, last + 1)},
    # The wide marks end a sentence too; their normal form would need a space.
    **dict.fromkeys((0xFF01, 0xFF0E, 0xFF1F), "\u3002"),
}
# A longer number is no character, and takes long to read.
_ENTITY = re.compile(r"&(?:#0{0,20}+[0-9]{1,7};?|#[xX]0{0,20}+[0-9a-fA-F]{1,6};?|[a-zA-Z]{2,31};)")
# What vanishes between two letters when a page is shown: emphasis, tags that say nothing, and a
# hyphen where the line ends. An underscore alone is a space.
_EMPHASIS = re.compile(r"[*~`_](?<=[^\W_].)(?:(?<!_)|_*+[*~`])[*~`_]*+(?=[^\W_])")
_TAG = r"(?:/?(?:b|i|u|s|em|strong|span|mark|small|wbr|font|a|code) ?/?|!---{0,2})>"
_TAGS = re.compile(rf"<(?<=[^\W_].){_TAG}(?:<{_TAG})*+(?=[^\W_])")
_HYPHEN = re.compile(r"-(?<=[^\W_].)\r?\n[ \t>]*+(?=[^\W_])")


_T = TypeVar("_T")
# A part of a text: the words of a sentence, or some of a longer one.
Window = tuple[str, ...]
# What is compared: a run of words, or all of a shorter sentence.
Gram = tuple[str, ...]


# Compiled when a text needs them: these three take 2 ms each, and most texts are ASCII.


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{_IDEOGRAPHS}{_LETTERS}]")


@cache
def _ideograph() -> re.Pattern[str]:
    return re.compile(f"[{_IDEOGRAPHS}]")


@cache
def _word() -> re.Pattern[str]:
    return re.compile(f"[{_IDEOGRAPHS}{_LETTERS}]|[^\\W_{_IDEOGRAPHS}{_LETTERS}]+")


def _words(folded: str) -> list[str]:
    return (_ASCII_WORD if folded.isascii() else _word()).findall(folded)


def _folded(text: str) -> str:
    if "&" in text:
        text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    if text.isascii():
        return text.lower()
    return compatible(text.translate(_READ)).casefold()


def _readings(text: str) -> list[str]:
    """Return a text as it is written and, if marks divide words, as it is shown."""
    folded = shown = _folded(text)
    if "*" in folded or "~" in folded or "`" in folded:
        shown = _EMPHASIS.sub("", shown)
    if "<" in folded:
        shown = _TAGS.sub("", shown)
    if "-\n" in folded or "-\r" in folded:
        shown = _HYPHEN.sub("", shown)
    return [folded] if shown == folded else [folded, shown]


def windows(text: str, *, by_line: bool = False) -> list[Window]:
    r"""Return the parts of a text; repeated ones once.

    Sentences are read across lines, as in a paragraph, or line by line, as in a list.

    >>> [" ".join(window) for window in windows("It is up. Ana\nsays so.")]
    ['it is up', 'ana says so']
    >>> windows("Stra\u00dfe, Jose\u0301!") == windows("STRASSE jos\u00e9")
    True
    """
    parts: dict[Window, None] = {}
    for reading in _readings(text):
        for sentence in _sentences(reading, by_line=by_line):
            parts.update(dict.fromkeys(_of_sentence(sentence)))
    return list(parts)


def _sentences(folded: str, *, by_line: bool = False) -> Iterator[str]:
    for unit in re.split("\n" if by_line else _BLANK_LINE, folded):
        yield from _END.split(unit)


def _of_sentence(sentence: str) -> Iterator[Window]:
    words = tuple(_words(sentence))
    if words:
        size, run = WINDOW_WORDS, RUN_WORDS
        if not sentence.isascii() and _unspaced().search(sentence):
            size, run = WIDE_WINDOW_WORDS, RUN_LETTERS
        for start in range(0, max(1, len(words) - run + 1), size - run):
            yield words[start : start + size]


def as_text(words: Sequence[str]) -> str:
    r"""Return words as they are written: with spaces, where their script has some.

    >>> as_text(("deploy", "key", "\u5bc6", "\u94a5")) == "deploy key \u5bc6\u94a5"
    True
    """
    unspaced = [_run_length(word) != RUN_WORDS for word in words]
    gaps = ["" if first and second else " " for first, second in pairwise(unspaced)]
    return "".join(f"{word}{gap}" for word, gap in zip(words, [*gaps, ""], strict=True))


def runs(window: Window) -> Iterator[Gram]:
    """Yield the runs of words in a part that are too long to be chance."""
    if max(window) < _FIRST_UNSPACED:  # the quick way for most texts
        yield from _ngrams(window, RUN_WORDS)
        return
    lengths = [_run_length(word) for word in window]
    for length in sorted({RUN_WORDS, *lengths}):
        for gram, needed in zip(_ngrams(window, length), _ngrams(lengths, length), strict=True):
            if max(needed) == length:
                yield gram


def _run_length(word: str) -> int:
    if word < _FIRST_UNSPACED or not _unspaced().match(word):
        return RUN_WORDS
    return RUN_IDEOGRAPHS if _ideograph().match(word) else RUN_LETTERS


def _ngrams(row: Sequence[_T], length: int) -> Iterator[tuple[_T, ...]]:
    return zip(*(row[place:] for place in range(length)), strict=False)


def grams(window: Window) -> list[Gram]:
    """Return what is compared of a part: each of its runs, or all of a shorter sentence."""
    return list(runs(window)) or [window]


class Sought:
    """The parts of new texts, to look for in stored ones: each of those is read once."""

    def __init__(self, parts: Iterable[Window]) -> None:
        self._by_length: dict[int, set[Gram]] = {}
        for window in parts:
            for gram in grams(window):
                self._by_length.setdefault(len(gram), set()).add(gram)

    def shared_with(self, texts: Iterable[str], *, in_sentences: bool = False) -> set[Gram]:
        """Return what the texts contain, or what single sentences of them contain."""
        words: list[str] = []
        for text in texts:
            for reading in _readings(text):
                for part in _sentences(reading) if in_sentences else (reading,):
                    words += _words(part)
                    words.append("")  # no run goes on from one text to the next
        shared: set[Gram] = set()
        for length, wanted in self._by_length.items():
            shared |= wanted.intersection(_ngrams(words, length))
        return shared


def statements(document: Document) -> list[str]:
    """Return the fields of a document in which every sentence counts."""
    fields = [document.text, document.summary, *document.metadata, *document.metadata.values()]
    return [field for field in fields if field]


def names(document: Document) -> list[str]:
    """Return the other fields with words: two texts may have a short name in common."""
    fields = (document.title, document.key, document.topic, document.type, *document.tags)
    others = (document.path, document.session, document.role)
    return [field for field in (*fields, *others) if field]


def tells(window: Window) -> bool:
    """Tell whether a copied part is long enough to show where it came from.

    >>> tells(("yes",)), tells(("the", "password", "is", "hunter2"))
    (False, True)
    """
    return len(" ".join(window)) >= SHORTEST_COPY
