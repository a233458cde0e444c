"""How far two spellings of a word are apart. Pure: knows no store.

Loaded only for a question with a word that the memory does not hold.
"""

from collections.abc import Iterator
from functools import cache

from plait.text import is_unspaced
from plait.text.stemming import DOUBLED_CONSONANTS, USUAL_ENDINGS

SHORTEST_CORRECTED = 4  # shorter words have too many neighbours that mean something else
LONGEST_CORRECTED = 40  # a longer run of letters is a token, not a word
TWO_EDITS_FROM = 8  # letters; in a shorter word two edits make another word
# An edit lies either among the first letters or behind them. Of two edits none is among them.
KEPT_LETTERS = 3
KEPT_OF_LONG = 4

# What a slip costs, in edits. One that hands often make is more likely than one they do not.
NEAR_KEY = 0.7
SWAPPED = 0.7
DOUBLED = 0.6  # a letter typed twice, or once instead of twice
FIRST_LETTER = 0.2  # added: people rarely miss the first letter

# Rows of keys, shifted by about half a key each: German, French and Turkish boards differ by few.
_BOARDS = (
    ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    ("йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),
    ("ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"),
)
_AFTER_BASE = "aei"  # vowels that such an ending begins with
_MORE_LETTERS = ("ı", "ёіїєґў", "")


def allowed(word: str) -> int:
    """Return how many edits a word may be from the one that was meant.

    Short words, numbers, identifiers and scripts without spaces are never corrected.

    >>> [allowed(word) for word in ("ssh", "serber", "certifcate", "utf8", "日本語文")]
    [0, 1, 2, 0, 0]
    """
    if len(word) < SHORTEST_CORRECTED or not is_plain(word) or is_unspaced(word[:1]):
        return 0
    return 2 if len(word) >= TWO_EDITS_FROM else 1


def is_plain(word: str) -> bool:
    """Tell whether a word is nothing but letters, and not too many."""
    return word.isalpha() and len(word) <= LONGEST_CORRECTED


def is_identifier(word: str) -> bool:
    """Tell whether capitals mark a word as an abbreviation or an identifier.

    >>> is_identifier("COPD"), is_identifier("useState"), is_identifier("Certifcate")
    (True, True, False)
    """
    capitals = sum(letter.isupper() for letter in word)
    # A swapped first letter leaves one capital in the second place: "eDploy".
    return capitals > 1 or word[2:] != word[2:].lower()


def folded(word: str) -> str:
    """Return a word in lower case without diacritics, as the index has it before stemming.

    >>> folded("Müller")
    'muller'
    """
    if word.isascii() or len(word) > LONGEST_CORRECTED:
        return word.lower()
    import unicodedata

    letters = unicodedata.normalize("NFC", word.lower())
    # The index strips marks from Latin letters; a Cyrillic "й" is a letter of its own.
    bare = ((letter, unicodedata.normalize("NFD", letter)[0]) for letter in letters)
    return "".join(base if base.isascii() else letter for letter, base in bare)


@cache
def _neighbours() -> frozenset[str]:
    """Return the pairs of keys that touch, in both orders."""
    pairs = set()
    for rows in _BOARDS:
        for row, keys in enumerate(rows):
            for place, key in enumerate(keys):
                beside = keys[place + 1 : place + 2]
                below = rows[row + 1][max(0, place - 1) : place + 1] if row + 1 < len(rows) else ""
                pairs |= {key + other for other in beside + below}
    return frozenset(pairs | {pair[::-1] for pair in pairs})


def edits(left: str, right: str) -> int:
    """Count the letters to insert, delete, replace or swap with the next to get the other word.

    >>> edits("certifcate", "certificate"), edits("teh", "the"), edits("cat", "dog")
    (1, 1, 3)
    """
    return round(_distance(left, right, weighed=False))


def cost(typed: str, meant: str) -> float:
    """Return how unlikely it is that a hand that meant one word typed the other.

    >>> cost("servre", "server"), cost("serber", "server"), cost("sezver", "server")
    (0.7, 0.7, 1.0)
    """
    extra = FIRST_LETTER if typed[:1] != meant[:1] else 0.0
    return _distance(typed, meant, weighed=True) + extra


def _distance(left: str, right: str, *, weighed: bool) -> float:
    """Return the optimal string alignment distance; the three last rows are enough."""
    near = _neighbours() if weighed else frozenset()
    swapped, doubled = (SWAPPED, DOUBLED) if weighed else (1.0, 1.0)
    left, right = _differing(left, right)
    before: list[float] = []
    row: list[float] = [float(place) for place in range(len(right) + 1)]
    for at, letter in enumerate(left):
        older, before, row = before, row, [at + 1.0]
        extra = doubled if at and left[at - 1] == letter else 1.0
        for to, other in enumerate(right):
            if letter == other:
                best = before[to]
            else:
                best = before[to] + (NEAR_KEY if letter + other in near else 1.0)
            missing = doubled if to and right[to - 1] == other else 1.0
            best = min(best, before[to + 1] + extra, row[to] + missing)
            if at and to and letter == right[to - 1] and left[at - 1] == other != letter:
                best = min(best, older[to - 1] + swapped)
            row.append(best)
    return row[-1]


def _differing(left: str, right: str) -> tuple[str, str]:
    """Return both words without what they share at both ends, but for one letter each."""
    shorter = min(len(left), len(right))
    start = end = 0
    while start < shorter and left[start] == right[start]:
        start += 1
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    # subtle: whether a letter is doubled shows only with the one before it.
    start, end = max(0, start - 1), max(0, end - 1)
    return left[start : len(left) - end], right[start : len(right) - end]


def is_within(left: str, right: str, most: int) -> bool:
    """Tell whether two words are at most so many edits apart: for few edits much faster.

    >>> is_within("certifcate", "certificate", 1), is_within("cat", "dog", 2)
    (True, False)
    """
    if left == right:
        return True
    if not most or abs(len(left) - len(right)) > most:
        return False
    common = 0
    for letter, other in zip(left, right, strict=False):
        if letter != other:
            break
        common += 1
    left, right, rest = left[common:], right[common:], most - 1
    return (
        is_within(left[1:], right[1:], rest)
        or is_within(left[1:], right, rest)
        or is_within(left, right[1:], rest)
        or (left[:2] == right[1::-1] and is_within(left[2:], right[2:], rest))
    )


def begins(stem: str, typed: str, most: int) -> bool:
    """Tell whether a typed word begins with a stem, but for its last letter and some edits.

    >>> begins("certif", "certifcate", 1), begins("deploi", "deplyo", 1), begins("dog", "cat", 1)
    (True, True, False)
    """
    body = stem[:-1]
    if typed.startswith(body):
        return True
    if not most:
        return False
    common = 0
    while common < len(typed) and body[common] == typed[common]:
        common += 1
    rest, tail = stem[common:], typed[common:]
    left = most - 1
    if not left:
        after = rest[1:-1]
        return (
            tail.startswith((after, rest[:-1]), 1)
            or tail.startswith(after)
            or (rest[:2] == tail[1::-1] and tail.startswith(rest[2:-1], 2))
        )
    return (
        begins(rest[1:], tail[1:], left)
        or begins(rest[1:], tail, left)
        or begins(rest, tail[1:], left)
        or (rest[:2] == tail[1::-1] and begins(rest[2:], tail[2:], left))
    )


def continued(stem: str, typed: str) -> list[str]:
    """Return words that a stem may come from: it and the typed ending, or any if that is wrong.

    >>> continued("deploi", "delpoy")
    ['deploi', 'deploie', 'deploiy', 'deploy', 'deployy']
    """
    end = len(stem)
    words = [stem, stem + "e", *(stem + typed[at:] for at in (end - 1, end, end + 1) if typed[at:])]
    endings = USUAL_ENDINGS if typed.startswith(stem[:-1]) else ()
    words += [stem + ending for ending in endings]
    # The stemmer writes "i" for "y", puts an "e" back, and takes one of two consonants off:
    # "deploying", "pruning", "logging".
    last = stem[-1]
    base = {"i": stem[:-1] + "y", "e": stem[:-1]}.get(
        last, stem + last if last in DOUBLED_CONSONANTS else ""
    )
    if base:
        end = len(base)
        words += [base, *(base + typed[at:] for at in (end - 1, end, end + 1) if typed[at:])]
        words += [base + ending for ending in endings if ending[0] in _AFTER_BASE]
    return list(dict.fromkeys(words))


def kept_letters(typed: str) -> int:
    """Return how many first letters `beginnings` varies, and a range of words shares."""
    return KEPT_OF_LONG if len(typed) >= TWO_EDITS_FROM else KEPT_LETTERS


def beginnings(typed: str) -> Iterator[str]:
    """Yield the words that are one edit among the first letters away from a typed word."""
    kept = kept_letters(typed)
    letters = next(
        (
            "".join(rows) + more
            for rows, more in zip(_BOARDS, _MORE_LETTERS, strict=True)
            if typed[0] in "".join(rows) + more
        ),
        "",
    )
    for at in range(kept + 1):
        head, tail = typed[:at], typed[at:]
        yield from (head + letter + tail for letter in letters)
        if at < kept:
            yield head + tail[1:]
            yield from (head + letter + tail[1:] for letter in letters if letter != tail[0])
            if len(tail) > 1 and tail[0] != tail[1]:
                yield head + tail[1] + tail[0] + tail[2:]
