"""Read a word that the memory does not hold in another way: as two, or in other letters.

A blank may be missing, or a keyboard may lack a letter.

Loaded only for a question with an unknown word.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice

from plait.searching.scoring import Request
from plait.text import capped, is_unspaced, parts, words_in
from plait.text.english import empty_words
from plait.text.operators import without_exact
from plait.text.spelling import LONGEST_CORRECTED
from plait.types.queries import Group, Query, Term

# "earplugs", "P525", "18500". Parts of letters are so long at least, those of digits are thousands,
# or of a number that nobody writes in one piece.
LEAST_OF_WORD = 2
# What else may be a part: a single letter before a hyphen, and little words behind some verbs.
_LETTERS = {"e": "", "o": "", "x": "", "t": "shirt"}
_VERBS = ("add", "built", "check", "drive", "log", "opt", "plug", "sign", "stand", "walk")
_PARTICLES = ("by", "in", "on")
# In so short a word another one is often an edit away: two that stand together are likelier.
SHORT_WORD = 5
THOUSANDS = 3
# Letters that are words, too: "A-2209" is a contract, but "a 4" may begin "a 4 GB card".
_ARTICLES = ("a", "i")
LONG_NUMBER = 7
# Digits of a telephone number, which people write in two or three groups.
LEAST_OF_TELEPHONE, MOST_OF_TELEPHONE = 9, 13
DIVIDED_WORDS = 3  # of a question, the first ones

# What people type for letters that the index keeps, because they are no letter with a mark, unlike
# "é", which is stored as "e".
_DOTLESS = "\u0435"  # the Cyrillic letter, not the Latin one
_INSTEAD = (
    *(("o", "ø"), ("oe", "ø"), ("l", "ł"), ("i", "\u0131"), ("d", "đ"), ("dj", "đ"), ("d", "ð")),
    *(("ss", "ß"), ("ae", "æ"), ("oe", "œ"), ("th", "þ"), (_DOTLESS, "ё")),
)
LEAST_RESPELT = 4  # letters
MOST_PLACES = 4  # in a word, where a letter may be another one
RESPELT_WORDS = 8  # of a question, the first ones

# Words, and what each may be: two, or one in other letters.
Divided = Mapping[str, Sequence[tuple[str, ...]]]


def divided_ones(request: Request, unknown: Sequence[str]) -> Divided:
    """Return those of the words that the memory does not hold that may be two."""
    text = capped(request.text)
    # "OReilly" and "eMail" have a single letter beside their part: people write them as two, too.
    named = {word.lower() for word in re.findall(r"\w+", text) if len(parts(word)) > 1}
    divisible = {*words_in(without_exact(text))} - named
    whole = [word for word in unknown if word in divisible and len(word) <= LONGEST_CORRECTED]
    pairs = ((word, two) for word in whole if (two := divisions(word)))
    read: dict[str, Sequence[tuple[str, ...]]] = dict(islice(pairs, DIVIDED_WORDS))
    for word in whole[:RESPELT_WORDS]:
        if respelt := respellings(word):
            read[word] = [*zip(respelt, strict=True), *read.get(word, ())]
    return read


def respellings(word: str) -> list[str]:
    """Return how a word may be stored that was typed on a keyboard without some letters, or with.

    >>> respellings("strasse"), respellings("Ørsted".lower()), respellings("lodz")[0]
    (['straße'], ['orsted', 'oersted'], 'lødz')
    >>> respellings("ежик"), respellings("ёлка")
    (['ёжик'], ['елка'])
    """
    if len(word) < LEAST_RESPELT or not word.isalpha():
        return []
    if not word.isascii():
        forms = [_typed(word, instead) for instead in (_INSTEAD, _INSTEAD[::-1])]
        # Most Russians leave out the dots of "ё", of which a word has one at most, as a rule.
        bare = [place for place, letter in enumerate(word) if letter == _DOTLESS]
        forms += [f"{word[:place]}ё{word[place + 1 :]}" for place in bare[:MOST_PLACES]]
        return [form for form in dict.fromkeys(forms) if form != word]
    return list(chain.from_iterable(_with_letter(word, *pair) for pair in _INSTEAD))


def _typed(word: str, instead: Sequence[tuple[str, str]]) -> str:
    for typed, letter in instead:
        word = word.replace(letter, typed)
    return word


def _with_letter(word: str, typed: str, letter: str) -> Iterator[str]:
    """Yield a word with a letter in some of the places where another one was typed."""
    pieces = word.split(typed)
    places = range(len(pieces) - 1)[:MOST_PLACES]
    for size in range(1, len(places) + 1):
        for chosen in combinations(places, size):
            joints = [letter if place in chosen else typed for place in range(len(pieces) - 1)]
            yield "".join(chain.from_iterable(zip(pieces, [*joints, ""], strict=True)))


def divisions(word: str) -> list[tuple[str, ...]]:
    """Return the words, mostly two, that a word may be if blanks are missing.

    >>> divisions("p525"), divisions("18500"), divisions("tvset")
    ([('p', '525')], [('18', '500')], [('tv', 'set'), ('tvs', 'et')])
    >>> divisions("email")[0], divisions("login")[-1]
    (('e', 'mail'), ('log', 'in'))
    >>> ("07531", "555", "012") in divisions("07531555012")
    True
    """
    if not word.isalnum():
        return []
    pairs = [(word[:place], word[place:]) for place in range(1, len(word))]
    return [*(pair for pair in pairs if _may_be_two(*pair)), *_numbers_in(word)]


def _numbers_in(word: str) -> Iterator[tuple[str, ...]]:
    """Yield the three groups of digits as which a telephone number may be written."""
    if not (word.isdecimal() and LEAST_OF_TELEPHONE <= len(word) <= MOST_OF_TELEPHONE):
        return
    for first, second in combinations(range(LEAST_OF_WORD, len(word) - 1), 2):
        if second - first >= LEAST_OF_WORD:
            yield word[:first], word[first:second], word[second:]


def _may_be_two(first: str, second: str) -> bool:
    if first.isdecimal() and second.isdecimal():
        long = len(first + second) >= LONG_NUMBER and len(second) > 1
        return long or (len(second) == THOUSANDS >= len(first))
    if second in _PARTICLES:
        return first in _VERBS
    if first in _ARTICLES and second.isdecimal():
        return len(second) >= THOUSANDS
    if not empty_words().isdisjoint((first, second)):
        return False
    if first in _LETTERS and len(second) > LEAST_OF_WORD:
        return second.isalpha() and second.startswith(_LETTERS[first])
    if first[-1].isdecimal() != second[0].isdecimal():
        return True
    enough = min(len(first), len(second)) >= LEAST_OF_WORD
    return enough and (first + second).isalpha() and not is_unspaced(first[:1])


def together(pair: tuple[str, ...]) -> Query:
    """Return a query for passages in which words stand together."""
    return Query("", pair, Term(pair), strict=True)


def any_together(divided: Divided) -> Query:
    """Return a query for passages in which any of the pairs stands together."""
    pairs = tuple(map(Term, chain.from_iterable(divided.values())))
    return Query("", (), Group("or", pairs), strict=True)


def pairs_of(divided: Divided) -> tuple[list[Query], list[str]]:
    """Return a query for each pair that stands together, and all their words."""
    pairs = [pair for two in divided.values() for pair in two]
    return [together(pair) for pair in pairs], list(dict.fromkeys(chain.from_iterable(pairs)))


def read_otherwise(divided: Divided, count_of: Callable[[Query], int]) -> dict[str, str]:
    """Return words as what most passages have: two together, or another spelling."""
    chosen: dict[str, str] = {}
    for word, pairs in divided.items():
        counts = {pair: count_of(together(pair)) for pair in pairs}
        most = max(counts, key=counts.__getitem__)
        if counts[most]:
            chosen[word] = " ".join(most)
    return chosen
