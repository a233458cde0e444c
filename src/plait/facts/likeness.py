"""Tell whether two short texts are near duplicates, and how they differ.

The result is a hint for people and agents, never a reason to drop a text: two facts that differ in
one number or in a "not" are almost equal texts. Pure; knows nothing of stores.
"""

import re
from collections.abc import Collection
from typing import NamedTuple

from plait.text import empty_words
from plait.text import split as split_scripts
from plait.text.normal_form import compatible

# The two rules of mcp-memory.
NEAR_COSINE = 0.85
LONGER_BY = 2.0  # times the characters of the shorter text
NEAR_CONTAINMENT = 0.7
# Our rule without a cosine: one content word in five may differ; one in four is another fact.
NEAR_SIMILARITY = 0.8

# Words that negate a statement, in a few languages. A wrong one costs only an odd hint.
_NEGATING = (
    "not no never none neither nor without cannot nunca jamás tampoco sin nicht kein keine keinen "
    "nie niemals ohne ne pas jamais sans não nem"
)
NEGATIONS = frozenset(_NEGATING.split())
_CONTRACTED = re.compile(r"\b\w*n['\u2019]t\b", re.I)
_CLOSING = ",.;:!\"')]"
_OPENING = "\"'(["
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


class Likeness(NamedTuple):
    """How similar two texts are. ``reason`` is empty unless they are near duplicates.

    ``similarity`` and ``containment`` compare words; the caller gives ``cosine``. ``differences``
    never decide.
    """

    near: bool
    reason: str = ""
    differences: tuple[str, ...] = ()
    similarity: float = 0.0
    containment: float = 0.0
    cosine: float | None = None


def compare(first: str, second: str, cosine: float | None = None) -> Likeness:
    """Compare two texts; their order does not matter.

    >>> compare("The API listens on port 8080", "The API listens on port 8443", 0.97).differences
    ('numbers differ: 8080 and 8443',)

    Args:
        first: A text.
        second: Another text.
        cosine: The cosine of their vectors; without it words alone decide.
    """
    alike = similarity(first, second)
    contained = _containment(first, second)
    reason = _reason(first, second, cosine, alike, contained)
    differences = _differences(first, second) if reason else ()
    return Likeness(bool(reason), reason, differences, alike, contained, cosine)


def similarity(first: str, second: str) -> float:
    """Return the share of content words that two texts have in common, 0..1.

    Negations do not count, so that a fact and its denial are about the same subject:

    >>> similarity("We deploy on Fridays.", "We don't deploy on Fridays")
    1.0
    """
    return in_common(content_words(first), content_words(second))


def _reason(first: str, second: str, cosine: float | None, alike: float, contained: float) -> str:
    if cosine is not None and cosine >= NEAR_COSINE:
        return f"cosine {cosine:.2f}"
    shorter, longer = sorted((_length(first), _length(second)))
    if longer >= LONGER_BY * shorter and contained >= NEAR_CONTAINMENT:
        return f"the longer text contains {contained:.0%} of the shorter one's words"
    if cosine is None and alike >= NEAR_SIMILARITY:
        return f"{alike:.0%} of the content words in common"
    return ""


def _differences(first: str, second: str) -> tuple[str, ...]:
    differences = []
    left, right = _numbers(first), _numbers(second)
    if left != right:
        only_left = ", ".join(sorted(left - right)) or "none"
        only_right = ", ".join(sorted(right - left)) or "none"
        differences.append(f"numbers differ: {only_left} and {only_right}")
    if _is_negated(first) != _is_negated(second):
        differences.append("one of them is negated")
    if _is_reordered(_words(first), _words(second)):
        differences.append("the same words in another order")
    return tuple(differences)


def _is_reordered(first: list[str], second: list[str]) -> bool:
    return first != second and sorted(first) == sorted(second)


def without_punctuation(text: str) -> str:
    """Return a text without spacing, and without signs at the ends of words that change no fact.

    A question mark, a minus and a plus do change one, and so does case in a name or a password.

    >>> without_punctuation('Deploy,  then "rest".') == without_punctuation("Deploy then rest")
    True
    """
    return " ".join(word.rstrip(_CLOSING).lstrip(_OPENING) for word in text.split())


def _words(text: str) -> list[str]:
    """List the words in order, folded; scripts without spaces are cut as in the index."""
    import unicodedata

    split = split_scripts(text) or text
    # Vowel signs belong to their word: without them Hindi falls into consonants.
    kept = "".join(
        character if character.isalnum() or unicodedata.category(character)[0] == "M" else " "
        for character in compatible(_CONTRACTED.sub(" not", split))
    )
    return kept.casefold().split()


def content_words(text: str) -> frozenset[str]:
    """Return the words without function words and negations, or all if nothing else is left."""
    all_words = frozenset(_words(text))
    return (all_words - empty_words() - NEGATIONS) or all_words


def in_common(first: Collection[str], second: Collection[str]) -> float:
    """Compute Dice's coefficient of two sets; two empty ones have nothing in common."""
    total = len(first) + len(second)
    return 2 * len(frozenset(first).intersection(second)) / total if total else 0.0


def _containment(first: str, second: str) -> float:
    """Return the share of the words of the shorter text that the longer one contains."""
    left, right = frozenset(_words(first)), frozenset(_words(second))
    # If both are equally long, the one with fewer words is the shorter: order must not matter.
    shorter = min((_length(first), len(left)), (_length(second), len(right)))[1]
    return len(left & right) / shorter if shorter else 0.0


def _length(text: str) -> int:
    return len(text.strip())


def _numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(_THOUSANDS.sub("", text)))


def _is_negated(text: str) -> bool:
    return not NEGATIONS.isdisjoint(_words(text))
