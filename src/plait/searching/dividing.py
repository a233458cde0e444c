"""Divide a word that the memory does not hold in two: a blank may be missing.

Loaded only for a question with an unknown word.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice

from plait.searching.scoring import Request
from plait.text import capped, empty_words, is_unspaced, parts, words_in
from plait.text.operators import without_exact
from plait.text.spelling import LONGEST_CORRECTED
from plait.types.queries import Group, Query, Term

# "earplugs", "P525", "18500". Parts of letters are so long at least, those of digits are thousands,
# or of a number that nobody writes in one piece.
LEAST_OF_WORD = 2
# What else may be a part: a single letter before a hyphen, and little words behind some verbs.
_LETTERS = {"e": "", "x": "", "t": "shirt"}
_VERBS = ("add", "built", "check", "drive", "log", "opt", "plug", "sign", "stand", "walk")
_PARTICLES = ("by", "in", "on")
# In so short a word another one is often an edit away: two that stand together are likelier.
SHORT_WORD = 5
THOUSANDS = 3
LONG_NUMBER = 7
DIVIDED_WORDS = 3  # of a question, the first ones

# Words, and the pairs that each may be.
Divided = Mapping[str, Sequence[tuple[str, str]]]


def divided_ones(request: Request, unknown: Sequence[str]) -> Divided:
    """Return those of the words that the memory does not hold that may be two."""
    text = capped(request.text)
    named = {word.lower() for word in re.findall(r"\w+", text) if parts(word)}
    divisible = {*words_in(without_exact(text))} - named
    whole = [word for word in unknown if word in divisible and len(word) <= LONGEST_CORRECTED]
    pairs = ((word, two) for word in whole if (two := divisions(word)))
    return dict(islice(pairs, DIVIDED_WORDS))


def divisions(word: str) -> list[tuple[str, str]]:
    """Return the pairs of words that a word may be if a blank is missing.

    >>> divisions("p525"), divisions("18500"), divisions("tvset")
    ([('p', '525')], [('18', '500')], [('tv', 'set'), ('tvs', 'et')])
    >>> divisions("email")[0], divisions("login")[-1]
    (('e', 'mail'), ('log', 'in'))
    """
    pairs = [(word[:place], word[place:]) for place in range(1, len(word))]
    return [pair for pair in pairs if word.isalnum() and _may_be_two(*pair)]


def _may_be_two(first: str, second: str) -> bool:
    if first.isdecimal() and second.isdecimal():
        long = len(first + second) >= LONG_NUMBER and len(second) > 1
        return long or (len(second) == THOUSANDS >= len(first))
    if second in _PARTICLES:
        return first in _VERBS
    if not empty_words().isdisjoint((first, second)):
        return False
    if first in _LETTERS and len(second) > LEAST_OF_WORD:
        return second.isalpha() and second.startswith(_LETTERS[first])
    if first[-1].isdecimal() != second[0].isdecimal():
        return True
    enough = min(len(first), len(second)) >= LEAST_OF_WORD
    return enough and (first + second).isalpha() and not is_unspaced(first[:1])


def together(pair: tuple[str, str]) -> Query:
    """Return a query for passages in which two words stand together."""
    return Query("", pair, Term(pair), strict=True)


def any_together(divided: Divided) -> Query:
    """Return a query for passages in which any of the pairs stands together."""
    pairs = tuple(map(Term, chain.from_iterable(divided.values())))
    return Query("", (), Group("or", pairs), strict=True)


def pairs_of(divided: Divided) -> tuple[list[Query], list[str]]:
    """Return a query for each pair that stands together, and all their words."""
    pairs = [pair for two in divided.values() for pair in two]
    return [together(pair) for pair in pairs], list(dict.fromkeys(chain.from_iterable(pairs)))


def as_two(divided: Divided, count_of: Callable[[Query], int]) -> dict[str, str]:
    """Return words as the two that most passages have together."""
    chosen: dict[str, str] = {}
    for word, pairs in divided.items():
        counts = {pair: count_of(together(pair)) for pair in pairs}
        most = max(counts, key=counts.__getitem__)
        if counts[most]:
            chosen[word] = " ".join(most)
    return chosen
