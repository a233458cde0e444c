"""How uncommon the words of a hit are in English at large: what a small memory cannot tell itself.

Of a hundred notes one has "home", and one the name of the plumber. The memory takes both words for
rare; that a question has the second one in common with a note is no chance, whoever asks.
"""

import math
import os
from bisect import bisect
from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from itertools import accumulate

from plait.searching.evidence import KNOWS_ALL_WORDS
from plait.text.english import MONTHS, WEEKDAYS, empty_words, shows_english, without_comparison
from plait.types import Passage, Signals
from plait.types.queries import Vocabulary

# Lines of stems, made by training/word_shares.py. The first number of a line: in which share of the
# passages of English each of its words stands, as minus the logarithm.
SHARES = os.path.join(os.path.dirname(__file__), "word_shares.txt")
RAREST = 10.5  # of a stem that is not in the file
NAME = 9.0  # of a name, however many people have it: each means only one of them
MOST_UNCOMMON = 6.0  # e-folds, of all words of a passage together
# For each e-fold that a memory lacks of one that has nearly every word, so much is expected of the
# words that it shares with a question by chance.
EXPECTED = 0.45
# Fewer passages are counted as so many: a handful of notes has few words, and any of them is rare.
COUNTED_AS = 150
KEPT_STEMS = 4_096
SHOWN_IN_PASSAGE = 2  # different words of English, in a passage that is in it


class WordsAtLarge:
    """The words of a question over a small memory, as far as English is known of them."""

    def __init__(
        self, text: str, words: Iterable[str], vocabulary: Vocabulary, best: Iterable[str]
    ) -> None:
        """Take a question, its words, what the memory has of them, and the best passages."""
        self._vocabulary = vocabulary
        self._is_ascii = text.isascii()
        self._is_english = is_english(text, self._stems_of(words), best)
        names: Iterable[str] = ()
        if not text.islower() and not text.isupper():
            from plait.text.capitals import names_in

            # Written like names, but they name nobody.
            names = names_in(text).difference(MONTHS, WEEKDAYS)
        self._names = self._stems_of(names)
        # Many passages have the same words of the question, and each is asked about twice.
        self._rarer: dict[tuple[str, ...], float] = {}

    def tell(self, passage: Passage, signals: Signals) -> float:
        """Return how uncommon the words are that a passage has; 0 if no language is known."""
        if not self._is_english and not (
            self._is_ascii and shows_english(passage.text, SHOWN_IN_PASSAGE)
        ):
            return 0.0
        matched, passages = signals.matched, self._vocabulary.passages
        rarer = self._rarer.get(matched)
        if rarer is None:
            rarer = _rarer(self._stems_of(matched), passages, self._names)
            self._rarer[matched] = rarer
        told = max(signals.coverage, signals.sentence or 0.0)
        value = rarer - _expected(told, passages)
        # What is asked in unknown words is not known either: nothing is expected of a hit.
        return value if self._is_english else max(0.0, value)

    def _stems_of(self, words: Iterable[str]) -> frozenset[str]:
        """Return the terms of those of the words that tell what is asked."""
        terms = self._vocabulary.terms
        telling = (word for word in words if word not in empty_words())
        return frozenset(term for word in telling for _, _, term in terms.get(word, ()))


def uncommon(
    stems: Iterable[str], told: float, passages: int, names: frozenset[str] = frozenset()
) -> float:
    """Return how much rarer words are together than chance puts one into so many passages.

    In e-folds, less what is expected of any passage that does not tell all of the question.

    >>> [round(uncommon([stem], 1.0, 100), 1) for stem in ("home", "kitchen", "kraus")]
    [0.0, 2.5, 5.5]
    >>> [round(uncommon([stem], 0.4, 100), 1) for stem in ("home", "kitchen", "kraus")]
    [-1.4, 1.1, 4.1]

    Args:
        stems: Those of the question's words that a passage has, without function words.
        told: The share of the question that they are, or that its best sentence tells.
        passages: Of the memory.
        names: Those of the stems that are names in the question.
    """
    return _rarer(stems, passages, names) - _expected(told, passages)


def _rarer(stems: Iterable[str], passages: int, names: frozenset[str]) -> float:
    size = math.log(max(COUNTED_AS, passages))
    rarities = (max(rarity_at_large(stem), NAME * (stem in names)) for stem in {*stems})
    return min(MOST_UNCOMMON, math.fsum(sorted(max(0.0, rarity - size) for rarity in rarities)))


def _expected(told: float, passages: int) -> float:
    missing = max(0.0, math.log(KNOWS_ALL_WORDS) - math.log(max(COUNTED_AS, passages)))
    return EXPECTED * missing * (1.0 - told)


@cache
def _shares() -> tuple[str, list[int], list[float]]:
    """Return all lines as one text, where each of them ends, and the number of each."""
    with open(SHARES, "rb") as file:
        lines = file.read().decode().splitlines(keepends=True)
    numbers = [float(line.partition(" ")[0]) for line in lines]
    return "".join(lines), list(accumulate(map(len, lines))), numbers


@lru_cache(KEPT_STEMS)
def rarity_at_large(stem: str) -> float:
    """Return minus the logarithm of the share of the passages of English that have a word.

    >>> rarity_at_large("home"), rarity_at_large("kitchen"), rarity_at_large("kraus")
    (4.0, 7.5, 10.5)
    """
    # "Cheapest" is as common as "cheap".
    return min(_rarity_of(stem), _rarity_of(without_comparison(stem)))


def _rarity_of(stem: str) -> float:
    text, ends, numbers = _shares()
    place = text.find(f" {stem} ")
    return numbers[bisect(ends, place)] if place >= 0 else RAREST


def is_english(question: str, stems: Collection[str], passages: Iterable[str]) -> bool:
    """Tell whether a question is in English, and what was found by it, if it does not show that.

    >>> is_english("where is it", [], []), is_english("blood type", ["blood", "type"], [])
    (True, False)
    >>> is_english("blood type", ["blood", "type"], ["This is the type that you have."])
    True

    Args:
        question: By a function word it shows that it is.
        stems: Its telling words; if half of them are known, it may be.
        passages: The best ones.
    """
    if shows_english(question):
        return True
    known = sum(rarity_at_large(stem) < RAREST for stem in stems)
    may_be = question.isascii() and 2 * known >= len(stems) > 0
    return may_be and any(shows_english(passage, SHOWN_IN_PASSAGE) for passage in passages)
