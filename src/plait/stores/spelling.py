"""Words of an index that are spelt like others.

The index has stems, and words are shown as they were written. So stems that could be meant are read
from the index by their first letters; then passages that hold one, and that the search may see,
give its spellings. Nothing else is stored, so nothing else has to be deleted. Loaded only for a
word that the memory does not hold.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from plait.protocols import Token
from plait.text import spelling
from plait.text.stemming import LIKELIEST_ENDINGS
from plait.types import Ref
from plait.types.queries import Spelling
from plait.types.records import NamedTuple

# Stems whose passages are read for one word.
STEMS = 10
# Hidden words must not keep visible ones out, but many of them must not cost a search its time
# either: after so many stems nobody could have meant the word.
TRIED_STEMS = 60
LISTED_STEMS = 4_000
# Passages that are read for the spellings of one stem.
PASSAGES = 3
READ_PASSAGES = 15  # until one writes the word as it may have been meant
# A passage that has "log" stands for "logging" too; shorter words have too many relatives.
FAMILY_LETTERS = 5
FAMILY_EDITS = 4
FAMILY_COST = 0.3
# Passages that are counted if not all may be seen; more of them say no more.
COUNTED = 50
LONGEST_ENDING = 6  # letters that the stemmer takes from a word; the few longer ones are missed
_WORDS = re.compile(r"\w+")
SHORT_STEM = 4  # with an edit, so short a stem begins too many words

# Words that are also looked up with an edit in their first letters, which costs most. A question
# with more unknown words is seldom misspelt, but in another language.
VARIED = 3
NEAR = 1.0  # edits: a spelling so near needs no rarer guesses beside it
# A spelling so near, in so many passages, is what was meant, whatever other first letters give.
MEANT = 0.7  # edits
MEANT_PASSAGES = 20


class Index(Protocol):
    """What is read of an engine's index. ``confined``: some passages may not be seen."""

    confined: bool

    def expect_words(self, typed: Sequence[str]) -> None:
        """Be told which words are looked up: an engine may read the stems of all at once."""

    def expect_stems(self, stems: Iterable[str], possible: Iterable[Sequence[str]]) -> None:
        """Be told which stems are likely, and which possible, for an engine that reads ahead.

        Those that are ``possible`` are in lists, each in the order in which it is tried, until so
        many as `STEMS` may be seen.
        """

    def has_between(self, low: str, high: str) -> bool:
        """Tell whether there is a term from ``low`` up to, but without, ``high``."""

    def between(self, low: str, high: str, limit: int) -> list[tuple[str, int]]:
        """Return such terms in order, and how many passages contain each."""

    def known(self, terms: Collection[str]) -> list[tuple[str, int]]:
        """Return those of the terms that there are, and how many passages contain each."""

    def holding(self, stem: str) -> list[Ref]:
        """Return some passages that hold a word with this stem and may be seen."""

    def texts(self, refs: Sequence[Ref]) -> list[tuple[str, ...]]:
        """Return the text, the heading and the names of passages."""

    def tokens(self, text: str) -> list[Token]:
        """Return the terms that a text is indexed under."""


def alike(index: Index, words: Iterable[str]) -> dict[str, list[Spelling]]:
    """Return, for each word, the words of visible passages that are spelt like it, nearest first.

    How common a word is counts visible passages only, and nothing depends on the others.
    """
    looked_up = _looked_up(words)
    index.expect_words([row.typed for row in looked_up])
    listed = [(row, _with_first_letters(index, row.typed)) for row in looked_up]
    index.expect_stems(_likely(index, listed), _possible(index, listed))
    return {row.word: _alike(index, row, stems) for row, stems in listed}


def stems_for(index: Index, words: Iterable[str]) -> tuple[list[str], Iterator[Sequence[str]]]:
    """Return what `alike` will tell `Index.expect_stems`, once the index knows the words."""
    listed = [(row, _with_first_letters(index, row.typed)) for row in _looked_up(words)]
    return list(_likely(index, listed)), _possible(index, listed)


def _looked_up(words: Iterable[str]) -> "list[_LookedUp]":
    return [
        _LookedUp(word, spelling.folded(word), place < VARIED)
        for place, word in enumerate(words)
        if spelling.allowed(word)
    ]


class _LookedUp(NamedTuple):
    """A word to look up, and without its marks; ``varies``: with edits in its first letters too."""

    word: str
    typed: str
    varies: bool


class _Stems(NamedTuple):
    """Stems that may be meant: their passages, the costs of words that are known, and the others.

    ``expected`` has the cost of the word that was meant, where a stem tells it.
    """

    counts: Mapping[str, int]
    expected: Mapping[str, float]
    begun: Collection[str] = ()

    @property
    def fitting(self) -> list[str]:
        """Those whose word is known already, the likeliest first."""
        return sorted(self.expected, key=lambda stem: (self.expected[stem], stem))

    @property
    def others(self) -> list[str]:
        """The others, those first that an edit in the ending leaves whole."""
        rest = set(self.begun) - self.expected.keys()
        return sorted(rest, key=lambda stem: (-len(stem), stem))

    @property
    def tried(self) -> list[str]:
        """Those whose passages may be read, in this order."""
        return [*self.fitting, *self.others][:TRIED_STEMS]


def _alike(index: Index, row: _LookedUp, stems: _Stems) -> list[Spelling]:
    """Return the spellings of a word: with its first letters; only else with an edit in them."""
    if not _is_known_script(index, row.typed):
        return []
    spellings = _spelt(index, row.typed, stems)
    if row.varies and not any(_is_enough(spelt) for spelt in spellings):
        known = {spelt.word for spelt in spellings}
        varied = _spelt(index, row.typed, _varied(index, row.typed, stems.expected))
        spellings += [spelt for spelt in varied if spelt.word not in known]
    return sorted(spellings, key=lambda spelt: (spelt.cost, spelt.word))


def _with_first_letters(index: Index, typed: str) -> _Stems:
    """Return the stems with the same first letters as a word."""
    if not _is_known_script(index, typed):
        return _Stems({}, {})
    most = spelling.allowed(typed)
    counts, begun = _begun(index, typed, most)
    return _Stems(counts, _expected(index, counts, typed, most), begun)


def _likely(index: Index, listed: Sequence[tuple[_LookedUp, _Stems]]) -> Iterator[str]:
    """Yield the stems whose passages will be read, as a rule."""
    for row, stems in listed:
        yield from (stems.fitting or stems.others)[:STEMS]
        if row.varies and _is_known_script(index, row.typed):
            yield from _varied(index, row.typed, stems.expected).fitting[:STEMS]


def _possible(index: Index, listed: Sequence[tuple[_LookedUp, _Stems]]) -> Iterator[Sequence[str]]:
    """Yield all stems whose passages may be read, a list for each look in the order of trying."""
    for row, stems in listed:
        yield stems.tried
        if row.varies and _is_known_script(index, row.typed):
            yield _varied(index, row.typed, stems.expected).tried


def _is_known_script(index: Index, typed: str) -> bool:
    """Tell whether any term begins with the first or the second letter of a word.

    Questions in another language than all notes have many unknown words, and no spelling helps.
    """
    return typed.isascii() or any(
        index.has_between(letter, chr(ord(letter) + 1)) for letter in typed[:2]
    )


def _is_enough(row: Spelling) -> bool:
    """Tell whether a spelling leaves no need to look for others: it is near, and not rare."""
    return row.cost <= MEANT and row.holding >= MEANT_PASSAGES


def _spelt(index: Index, typed: str, stems: _Stems) -> list[Spelling]:
    """Return spellings of a word whose stems are among these, as visible passages have them."""
    most = spelling.allowed(typed)
    counts, expected = stems.counts, stems.expected
    spellings: list[Spelling] = []
    seen = 0  # only what may be seen counts: hidden words must not keep others out
    for stem in stems.tried:
        near = any(row.cost <= NEAR for row in spellings)
        if seen >= STEMS or (near and stem not in expected):
            break
        holding = index.holding(stem)
        seen += bool(holding)
        costs: dict[str, int] = {}
        for first in range(0, len(holding), PASSAGES):
            for surface in _surfaces(index, stem, holding[first : first + PASSAGES]):
                costs[surface] = spelling.edits(typed, spelling.folded(surface))
            if min(costs.values(), default=most) <= 1:
                break
        nearest = min(costs, key=lambda surface: (costs[surface], surface), default="")
        cost = math.inf
        if nearest and costs[nearest] <= most:
            cost = spelling.cost(typed, spelling.folded(nearest))
        if len(typed) >= FAMILY_LETTERS and costs.get(nearest, math.inf) <= most + FAMILY_EDITS:
            # Passages not read may have the very word; one of its family is shown instead.
            cost = min(cost, expected.get(stem, math.inf) + FAMILY_COST)
        if cost < math.inf:
            spellings.append(
                Spelling(nearest, len(holding) if index.confined else counts[stem], cost)
            )
    return spellings


def _begun(index: Index, typed: str, most: int) -> tuple[dict[str, int], set[str]]:
    """Return stems with the same first letters that may be meant, with their passages.

    The second value has the stems with fewer edits than allowed: there may be one in the ending,
    too.
    """
    low, high = beginning(typed)
    shortest, longest = len(typed) - most - LONGEST_ENDING, len(typed) + most
    counts: dict[str, int] = {}
    begun: set[str] = set()
    for stem, count in index.between(low, high, LISTED_STEMS):
        if not shortest <= len(stem) <= longest:
            continue
        if len(stem) <= SHORT_STEM and not typed.startswith(stem):
            # Only with an ending: "tesitng" may be "testing".
            if typed.startswith(stem[:-1]):
                counts[stem] = count
            continue
        if spelling.begins(stem, typed, most):
            counts[stem] = count
            if spelling.begins(stem, typed, most - 1):
                begun.add(stem)
    return counts, begun


def beginning(typed: str) -> tuple[str, str]:
    """Return the range of the words with the same first letters."""
    low = typed[: spelling.kept_letters(typed)]
    return low, low[:-1] + chr(ord(low[-1]) + 1)


def _varied(index: Index, typed: str, without: Collection[str]) -> _Stems:
    """Return stems with one edit in the first letters: their passages, and the cost of the word.

    The rest of the word is right then, so that all such words can be looked up at once.
    """
    words = varied_words(index, typed)
    counts = dict(index.known(words.keys() - without))
    costs = {stem: min(spelling.cost(typed, word) for word in words[stem]) for stem in counts}
    return _Stems(counts, costs)


def varied_words(index: Index, typed: str) -> dict[str, list[str]]:
    """Return the words with one edit in their first letters, by their stems."""
    text = " ".join(spelling.beginnings(typed))
    words: dict[str, list[str]] = {}
    for start, end, term in index.tokens(text):
        words.setdefault(term, []).append(text[start:end])
    return words


def word_of(index: Index, stem: str) -> str | None:
    """Return a word with this stem, to search for."""
    guesses = [stem + ending for ending in LIKELIEST_ENDINGS]
    read = index.tokens(" ".join(guesses))
    if len(read) != len(guesses):
        return None
    return next((word for word, row in zip(guesses, read, strict=True) if row[2] == stem), None)


def _expected(index: Index, stems: Collection[str], typed: str, most: int) -> dict[str, float]:
    """Return the cost of the word that was meant, for stems with which the typed ending fits."""
    costs: dict[str, float] = {}
    words = {word for stem in stems for word in spelling.continued(stem, typed)} - {typed}
    text = " ".join(word for word in words if spelling.is_within(typed, word, most))
    for start, end, term in index.tokens(text):
        word = text[start:end]
        if term in stems:
            costs[term] = min(spelling.cost(typed, word), costs.get(term, math.inf))
    return costs


def _surfaces(index: Index, stem: str, refs: list[Ref]) -> set[str]:
    """Return how passages write the word with this stem, in lower case."""
    surfaces = set()
    for texts in index.texts(refs):
        text = " ".join(part for part in texts if isinstance(part, str)).lower()
        # A tenth of the time of reading all words. Marks may hide the first letter.
        begun = tuple(letter for letter in set(text) if spelling.folded(letter) == stem[0])
        if text.isascii():
            begun = (stem[:-1],)
        text = " ".join({word for word in _WORDS.findall(text) if word.startswith(begun)})
        surfaces |= {text[start:end] for start, end, term in index.tokens(text) if term == stem}
    return surfaces
