"""How uncommon the words of a hit are in English at large: what a small memory cannot tell itself.

Of a hundred notes one has "home", and one the name of the plumber. The memory takes both words for
rare; that a question has the second one in common with a note is no chance, whoever asks.
"""

import math
import os
import re
from bisect import bisect
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import accumulate

from plait.searching.evidence import KNOWS_ALL_WORDS
from plait.text import empty_words

# Lines of words, made by training/word_shares.py. The first number of a line: in which share of the
# passages of English each of its words stands, as minus the logarithm.
SHARES = os.path.join(os.path.dirname(__file__), "word_shares.txt")
RAREST = 10.5  # of a word that is not in the file
MOST_UNCOMMON = 6.0  # e-folds, of all words of a passage together
# For each e-fold that a memory lacks of one that has nearly every word, so much is expected of the
# words that it shares with a question by chance.
EXPECTED = 0.4
KNOWS_WORDS = math.log(KNOWS_ALL_WORDS)
# Fewer passages are counted as so many: a handful of notes has few words, and any of them is rare.
COUNTED_AS = 150
ENDINGS = ("s", "es", "d", "ed", "ing", "er", "est", "ly")
SHORTEST_BASE = 4  # letters before an ending
KEPT_WORDS = 4_096
BEGINNING = 1_000  # characters of a passage that show its language

# Words that hardly any other language has: "was" is German, and "no" is Spanish.
_ENGLISH_WORDS = (
    "about and are because could did does each every from how its that the their them then there "
    "these they this those what when where which who why with would you your"
)
_ENGLISH = frozenset(_ENGLISH_WORDS.split())


def uncommon(matched: Iterable[str], told: float, passages: int) -> float:
    """Return how much rarer words are together than chance puts one into so many passages.

    In e-folds, less what is expected of any passage that does not tell all of the question.

    >>> [round(uncommon([word], 1.0, 100), 1) for word in ("home", "kitchen", "krause")]
    [0.0, 2.0, 5.5]
    >>> [round(uncommon([word], 0.4, 100), 1) for word in ("home", "kitchen", "krause")]
    [-1.3, 0.7, 4.2]

    Args:
        matched: The words of the question that a passage has.
        told: The share of the question that they are, or that its best sentence tells.
        passages: Of the memory.
    """
    size = math.log(max(COUNTED_AS, passages))
    rare = (rarity_at_large(word) - size for word in {*matched} - empty_words())
    surprise = min(MOST_UNCOMMON, math.fsum(sorted(max(0.0, value) for value in rare)))
    return surprise - EXPECTED * max(0.0, KNOWS_WORDS - size) * (1.0 - told)


@cache
def _shares() -> tuple[str, list[int], list[float]]:
    """Return all lines as one text, where each of them ends, and the number of each."""
    with open(SHARES, "rb") as file:
        lines = file.read().decode().splitlines(keepends=True)
    numbers = [float(line.partition(" ")[0]) for line in lines]
    return "".join(lines), list(accumulate(map(len, lines))), numbers


@lru_cache(KEPT_WORDS)
def rarity_at_large(word: str) -> float:
    """Return minus the logarithm of the share of the passages of English that have a word.

    A form counts as the word that it is made of, if that is more common.

    >>> rarity_at_large("home"), rarity_at_large("cheapest"), rarity_at_large("krause")
    (4.0, 7.0, 10.5)
    """
    forms = [word]
    for ending in ENDINGS:
        if len(word) >= SHORTEST_BASE + len(ending) and word.endswith(ending):
            forms.append(word.removesuffix(ending))
    return min(map(_rarity_of, forms))


def _rarity_of(form: str) -> float:
    text, ends, numbers = _shares()
    place = text.find(f" {form} ")
    return numbers[bisect(ends, place)] if place >= 0 else RAREST


def is_english(text: str) -> bool:
    """Tell whether a text shows by a function word that it is in English."""
    return not _ENGLISH.isdisjoint(re.findall("[a-z]+", text[:BEGINNING].lower()))
