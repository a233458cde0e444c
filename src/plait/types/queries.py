"""A parsed search string: terms, groups of them, and the query that holds both; turns of talks.

Also what chance would find: the scale on which an answer is judged.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, Self

from plait.types.records import NamedTuple

LEAST_SPREAD = 0.01  # of the best cosines: a smaller one would make too much of a difference
IQR_PER_SPREAD = 1.349  # of a normal distribution

# Of Latin, Greek and Cyrillic, of Chinese and Japanese, of Arabic, of Armenian.
QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u055e")
AFTER_A_MARK = " \t\r\n\"')]*_\u00bb\u201d\u2019\u300d"
NAME_MARKS = "./-_"  # in a query that may be a name
LAST_CHARS = 16  # of a message, enough to see its last mark

# A word that more passages hold is no slip of the hand, whoever may see them: not looked up.
FEW_PASSAGES = 200


class Term(NamedTuple):
    """One thing to look for: a word, a phrase of several words, a prefix, or words near each other.

    ``near`` is the largest number of words between them; 0 means an ordinary word or phrase. A word
    with an ``ending`` matches those too that have up to so many letters more.
    """

    words: tuple[str, ...]
    prefix: bool = False
    near: int = 0
    ending: int = 0


class Group(NamedTuple):
    """Terms and groups joined by one operator; for ``not`` the first part minus all the others."""

    operator: Literal["and", "or", "not"]
    parts: "tuple[Term | Group, ...]"


Expression = Term | Group
# As the keyword index has them; ``None`` stands for all.
Terms = frozenset[str] | None


class Date(NamedTuple):
    """A date in a question: its words, phrases that rank, and patterns of all ways to write it.

    All of these ways have the ``number``, but for the ``eastern`` ones, which may have numerals.
    """

    words: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...]
    pattern: str
    number: str
    eastern: str = ""
    is_day: bool = False  # else a month


class Query(NamedTuple):
    """A parsed search string; every string is valid.

    ``words`` are the content words in order (stop words dropped where enough remain): the bag that
    is joined by OR, ranked, highlighted and counted for relevance. ``expression`` contains the
    operators, if a bag of words is not enough; ``strict`` means that the caller wrote them, so
    that neither branch may return anything else. ``boosts`` are joined by OR too, but nobody misses
    them: phrases, and beginnings of inflected words. ``left_out`` counts the words beyond the
    limit, ``unbegun`` the beginnings (``prefix*``) beyond theirs, searched as whole words.
    ``misread``: it has operators, but not as an expression, and is read as words.
    ``local``: how rare a word is among the passages that may be returned decides its weight, and
    nothing else does. ``rarest``: only passages with its rarest words are wanted. ``forms`` are
    English words with other stems that count as words of it, each with these words. ``dates`` are
    found however a passage writes them.
    """

    text: str
    words: tuple[str, ...] = ()
    expression: Expression | None = None
    strict: bool = False
    boosts: tuple[Term, ...] = ()
    left_out: int = 0
    local: bool = False
    misread: bool = False
    rarest: bool = False
    forms: tuple[tuple[str, tuple[str, ...]], ...] = ()
    dates: tuple[Date, ...] = ()
    unbegun: int = 0


def asks(text: str) -> bool:
    """Tell whether a text ends with a question.

    >>> asks("Shall I deploy it?)"), asks("Done. Why not? Because.")
    (True, False)
    """
    return text.rstrip(AFTER_A_MARK).endswith(QUESTION_MARKS)


def may_be_name(text: str) -> bool:
    """Tell whether a query may be a key, a path or the name of a file: one word with marks in it.

    >>> [may_be_name(text) for text in ("gifts.md", "door-code", "deploy", "where is it?")]
    [True, True, False, False]
    """
    word = text.strip()
    inside = word[1:-1]
    return any(mark in inside for mark in NAME_MARKS) and not any(map(str.isspace, word))


class Turn(NamedTuple):
    """The place of a message in its conversation, and whether it asks something."""

    session: str
    number: int
    asks: bool = False

    @classmethod
    def of(cls, session: str, number: int, text: str) -> "Turn":
        """Return the turn of a message; its last characters tell whether it asks."""
        # subtle: a search makes hundreds, and calling the class takes twice as long.
        return tuple.__new__(cls, (session, number, asks(text)))


class Spelling(NamedTuple):
    """A word as some passages write it, how many hold it, and its edits from the one asked for."""

    word: str
    holding: int
    cost: float


class Chance(NamedTuple):
    """How near the nearest of some passages is to a question that none of them answers.

    ``cosine`` and ``spread`` are the middle and the spread of the best cosines of many such
    questions, ``passages`` the number of passages among which they were best.
    """

    cosine: float
    spread: float
    passages: int

    @classmethod
    def of(cls, cosines: Sequence[float], passages: int) -> Self:
        """Return the middle and the spread of the best cosines among so many passages.

        >>> Chance.of([0.1, 0.2, 0.3, 0.4, 0.9], 7)
        Chance(cosine=0.3, spread=0.1483, passages=7)
        """
        ranked = sorted(cosines)
        last = len(ranked) - 1
        first, middle, third = (ranked[round(last * share)] for share in (0.25, 0.5, 0.75))
        spread = max(LEAST_SPREAD, (third - first) / IQR_PER_SPREAD)
        return cls(round(min(1.0, max(0.0, middle)), 4), round(spread, 4), passages)


class Vocabulary(NamedTuple):
    """How this memory's analyzer reads some words, and how common their terms are.

    ``beginnings`` gives the term of an inflected word for its beginning; ``holding`` counts both.
    ``unseen`` are the words that only passages out of sight contain, and few of them: they weigh
    what the counts say, but are not known. ``forms`` has those of a query that some passages
    contain, each with its term and the terms that it counts as; ``holding`` counts both.
    """

    passages: int
    terms: Mapping[str, Sequence[tuple[int, int, str]]]
    holding: Mapping[str, int]
    beginnings: Mapping[str, str] = MappingProxyType({})
    unseen: frozenset[str] = frozenset()
    forms: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType({})

    def in_few(self) -> list[str]:
        """Return the words that some passages contain, but few."""
        return [
            word
            for word, terms in self.terms.items()
            if len(terms) == 1 and 0 < self.holding.get(terms[0][2], 0) <= FEW_PASSAGES
        ]
