"""A parsed search string: terms, groups of them, and the query that holds both."""

from typing import Literal, NamedTuple


class Term(NamedTuple):
    """One thing to look for: a word, a phrase of several words, a prefix, or words near each other.

    ``near`` is the largest number of words between them; 0 means an ordinary word or phrase.
    """

    words: tuple[str, ...]
    prefix: bool = False
    near: int = 0


class Group(NamedTuple):
    """Terms and groups joined by one operator; for ``not`` the first part minus all the others."""

    operator: Literal["and", "or", "not"]
    parts: "tuple[Term | Group, ...]"


Expression = Term | Group


class Query(NamedTuple):
    """A parsed search string; every string is valid.

    ``words`` are the content words in order (stop words dropped where enough remain): the bag that
    is joined by OR, ranked, highlighted and counted for relevance. ``expression`` contains the
    operators, if a bag of words is not enough; ``strict`` means that the caller wrote them, so
    that neither branch may return anything else. ``left_out`` counts the words beyond the limit.
    ``local``: how rare a word is among the passages that may be returned decides its weight, and
    nothing else does.
    """

    text: str
    words: tuple[str, ...] = ()
    expression: Expression | None = None
    strict: bool = False
    left_out: int = 0
    local: bool = False
