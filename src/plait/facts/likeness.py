"""Tell whether two short texts are near duplicates, and how they differ.

The result is a hint for people and agents, never a reason to drop a text: two facts that differ in
one number or in a "not" are almost equal texts. Pure; knows nothing of stores.
"""

import re
from collections.abc import Collection

from plait.text.english import empty_words
from plait.text.normal_form import compatible
from plait.text.unspaced import split as split_scripts
from plait.types.records import NamedTuple

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

    ``similarity`` compares words; the caller gives ``cosine``. ``differences`` never decide.
    """

    near: bool
    reason: str = ""
    differences: tuple[str, ...] = ()
    similarity: float = 0.0
    cosine: float | None = None


class TextWords:
    """A text and its words, read once for all comparisons."""

    __slots__ = ("content", "length", "text", "unique", "words")

    def __init__(self, text: str) -> None:
        self.text = text
        self.length = len(text.strip())
        self.words = _words(text)
        self.unique = frozenset(self.words)
        self.content = _content(self.unique)


def compare(first: TextWords, second: TextWords, cosine: float | None = None) -> Likeness:
    """Compare two texts; their order does not matter.

    >>> texts = ("The API listens on port 8080", "The API listens on port 8443")
    >>> compare(*map(TextWords, texts), 0.97).differences
    ('numbers differ: 8080 and 8443',)

    Args:
        first: A text.
        second: Another text.
        cosine: The cosine of their vectors; without it words alone decide.
    """
    alike = in_common(first.content, second.content)
    contained = _containment(first, second)
    reason = _reason(first, second, cosine, alike, contained)
    differences = _differences(first, second) if reason else ()
    return Likeness(bool(reason), reason, differences, alike, cosine)


def _reason(
    first: TextWords, second: TextWords, cosine: float | None, alike: float, contained: float
) -> str:
    if cosine is not None and cosine >= NEAR_COSINE:
        return f"cosine {cosine:.2f}"
    shorter, longer = sorted((first.length, second.length))
    if longer >= LONGER_BY * shorter and contained >= NEAR_CONTAINMENT:
        return f"the longer text contains {contained:.0%} of the shorter one's words"
    if cosine is None and alike >= NEAR_SIMILARITY:
        return f"{alike:.0%} of the content words in common"
    return ""


def _differences(first: TextWords, second: TextWords) -> tuple[str, ...]:
    differences = []
    left, right = _numbers(first.text), _numbers(second.text)
    if left != right:
        only_left = ", ".join(sorted(left - right)) or "none"
        only_right = ", ".join(sorted(right - left)) or "none"
        differences.append(f"numbers differ: {only_left} and {only_right}")
    if _is_negated(first) != _is_negated(second):
        differences.append("one of them is negated")
    if _is_reordered(first.words, second.words):
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
    split = split_scripts(text) or text
    negated = _CONTRACTED.sub(" not", split)
    return compatible(negated).translate(_KEPT).casefold().split()


class _Kept(dict[int, int]):
    """What becomes of each character: itself in a word, else a space. Filled as they occur."""

    def __missing__(self, code: int) -> int:
        import unicodedata

        character = chr(code)
        # Vowel signs belong to their word: without them Hindi falls into consonants.
        in_word = character.isalnum() or unicodedata.category(character)[0] == "M"
        kept = self[code] = code if in_word else ord(" ")
        return kept


_KEPT = _Kept()


def content_words(text: str) -> frozenset[str]:
    """Return the words without function words and negations, or all if nothing else is left."""
    return _content(frozenset(_words(text)))


def _content(words: frozenset[str]) -> frozenset[str]:
    # Negations do not count, so that a fact and its denial are about the same subject.
    return (words - empty_words() - NEGATIONS) or words


def in_common(first: Collection[str], second: Collection[str]) -> float:
    """Compute Dice's coefficient of two sets; two empty ones have nothing in common."""
    total = len(first) + len(second)
    return 2 * len(frozenset(first).intersection(second)) / total if total else 0.0


def _containment(first: TextWords, second: TextWords) -> float:
    """Return the share of the words of the shorter text that the longer one contains."""
    left, right = first.unique, second.unique
    # If both are equally long, the one with fewer words is the shorter: order must not matter.
    shorter = min((first.length, len(left)), (second.length, len(right)))[1]
    return len(left & right) / shorter if shorter else 0.0


def _numbers(text: str) -> frozenset[str]:
    return frozenset(_NUMBER.findall(_THOUSANDS.sub("", text)))


def _is_negated(text: TextWords) -> bool:
    return not NEGATIONS.isdisjoint(text.unique)
