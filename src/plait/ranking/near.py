"""Whether two short texts say nearly the same, and in what they differ all the same.

A flag for people and agents to judge by, never a reason to drop a text: two facts that differ in
one number or in a "not" are as alike as two can be. Pure; knows nothing of stores.
"""

import re
from collections.abc import Collection
from typing import NamedTuple

from plait import text as words

# Seed 002's two rules.
NEAR_COSINE = 0.85
LONGER_BY = 2.0  # times the characters of the shorter text
NEAR_CONTAINMENT = 0.7
# Ours, where there is no cosine: one telling word in five may differ, one in four is another fact.
NEAR_WORDS = 0.8

# What turns a statement around, in a few languages. A word too many here costs one odd remark.
_NEGATING = (
    "not no never none neither nor without cannot nunca jamás tampoco sin nicht kein keine keinen "
    "nie niemals ohne ne pas jamais sans não nem"
)
_NEGATIONS = frozenset(_NEGATING.split())
_CONTRACTED = re.compile(r"\b\w*n['\u2019]t\b", re.I)
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


class Nearness(NamedTuple):
    """A verdict on two texts. ``reason`` is empty unless near; ``differences`` is never a verdict.

    ``cosine`` is the caller's; ``similarity`` and ``containment`` are of words.
    """

    near: bool
    reason: str = ""
    differences: tuple[str, ...] = ()
    similarity: float = 0.0
    containment: float = 0.0
    cosine: float | None = None


def similarity(one: str, other: str) -> float:
    """Share of telling words that two texts have in common, 0..1; 1 when they hold the same ones.

    Negations do not count, so that a fact and its denial are found to be about the same:

    >>> similarity("We deploy on Fridays.", "We don't deploy on Fridays")
    1.0
    """
    return _in_common(_telling(one), _telling(other))


def is_near(one: str, other: str, cosine: float | None = None) -> bool:
    """Whether two texts should be flagged as saying nearly the same.

    Args:
        one: A text.
        other: Another; the order does not matter.
        cosine: Of their vectors; without it words alone decide.
    """
    return compare(one, other, cosine).near


def compare(one: str, other: str, cosine: float | None = None) -> Nearness:
    """The verdict of `is_near` with its reason, and how the two differ all the same.

    >>> compare("The API listens on port 8080", "The API listens on port 8443", 0.97).differences
    ('numbers differ: 8080 and 8443',)
    """
    alike = similarity(one, other)
    held = _containment(one, other)
    reason = _reason(one, other, cosine, alike, held)
    differences = _differences(one, other) if reason else ()
    return Nearness(bool(reason), reason, differences, alike, held, cosine)


def _reason(one: str, other: str, cosine: float | None, alike: float, held: float) -> str:
    if cosine is not None and cosine >= NEAR_COSINE:
        return f"cosine {cosine:.2f}"
    shorter, longer = sorted((_length(one), _length(other)))
    if longer >= LONGER_BY * shorter and held >= NEAR_CONTAINMENT:
        return f"the longer text holds {held:.0%} of the shorter one's words"
    if cosine is None and alike >= NEAR_WORDS:
        return f"{alike:.0%} of the telling words in common"
    return ""


def _differences(one: str, other: str) -> tuple[str, ...]:
    found = []
    first, second = _numbers(one), _numbers(other)
    if first != second:
        left = ", ".join(sorted(first - second)) or "none"
        right = ", ".join(sorted(second - first)) or "none"
        found.append(f"numbers differ: {left} and {right}")
    if _denies(one) != _denies(other):
        found.append("one of them is negated")
    if _shuffled(_words(one), _words(other)):
        found.append("the same words in another order")
    return tuple(found)


def _shuffled(first: list[str], second: list[str]) -> bool:
    return first != second and sorted(first) == sorted(second)


def _words(text: str) -> list[str]:
    """Every word in order, folded; runs of scripts without spaces in the pieces of the index."""
    import unicodedata

    split = words.split(text) or text
    # Vowel signs belong to their word: without them Hindi falls into consonants.
    kept = "".join(
        character if character.isalnum() or unicodedata.category(character)[0] == "M" else " "
        for character in unicodedata.normalize("NFKC", _CONTRACTED.sub(" not", split))
    )
    return kept.casefold().split()


def _telling(text: str) -> frozenset[str]:
    """The content words, or all of them in a text that has no other."""
    every = frozenset(_words(text))
    return (every - words.empty_words() - _NEGATIONS) or every


def _in_common(first: Collection[str], second: Collection[str]) -> float:
    """Dice's coefficient of two sets; two empty ones have nothing in common."""
    total = len(first) + len(second)
    return 2 * len(frozenset(first).intersection(second)) / total if total else 0.0


def _containment(one: str, other: str) -> float:
    """Share of the words of the shorter text that the longer one holds."""
    first, second = frozenset(_words(one)), frozenset(_words(other))
    # Equally long texts are told apart by their words: the order of the arguments is no matter.
    shorter = min((_length(one), len(first)), (_length(other), len(second)))[1]
    return len(first & second) / shorter if shorter else 0.0


def _length(text: str) -> int:
    return len(text.strip())


def _numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(_THOUSANDS.sub("", text)))


def _denies(text: str) -> bool:
    return not _NEGATIONS.isdisjoint(_words(text))
