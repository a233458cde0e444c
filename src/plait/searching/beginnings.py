"""Every word that begins like ``prefix*``, although the index has stems.

The stem of "warning" is shorter than ``warni``, and that of ``key`` is "kei", which "keyboard" does
not begin with. So a prefix is also searched for as the words that complete an ending begun in it,
and, if the stemmer takes its last letter, with each letter or digit after it. Loaded only for
operators.
"""

import string
from collections.abc import Iterable, Sequence

from plait.errors import Notice, UsageError
from plait.text.operators import MAX_BEGINNINGS, terms_of
from plait.text.stemming import ENDINGS
from plait.types.queries import Expression, Group, Query, Term, Vocabulary

_FOLLOWING = string.ascii_lowercase + string.digits
_AFTER_TWICE = ("ed", "ing", "ings")  # which two equal consonants become one before
MANY_BEGINNINGS = "many_beginnings"  # code of a notice
LEAST_STEMMED = 3  # letters that the stemmer changes


def beyond_most(count: int, *, strict: bool) -> Notice:
    """Return the notice that so many beginnings were searched as whole words.

    Raises:
        UsageError: The search is strict.
    """
    if strict:
        raise UsageError(
            f"The query has too many beginnings with *; give at most {MAX_BEGINNINGS}.",
            code=MANY_BEGINNINGS,
            subject="query",
        )
    these = "1 of them was" if count == 1 else f"{count} of them were"
    told = f"the query has too many beginnings with *: {these} searched as whole words"
    return Notice(told, MANY_BEGINNINGS)


def completed_words(start: str) -> list[str]:
    """Return words with a beginning that their stems need not have.

    >>> [word for word in completed_words("warni") if word in ("warning", "warnings")]
    ['warning', 'warnings']
    """
    if len(start) < LEAST_STEMMED or not start.isalpha():
        return []
    words = [
        start + ending[begun:]
        for ending in ENDINGS
        for begun in range(1, len(ending))
        if start.endswith(ending[:begun])
    ]
    if start[-1] == start[-2]:
        words += [start + ending for ending in _AFTER_TWICE]
    if start[-1] == "y":
        words.append(f"{start}s")
    return list(dict.fromkeys(words))


def longer_beginnings(start: str) -> list[str]:
    """Return beginnings with one character more, where the stem of this one begins other words.

    "kei" begins "keine". What is stemmed like this one, as "keys", has two characters more.

    >>> longer_beginnings("key")[:2], longer_beginnings("key")[-1], longer_beginnings("warni")
    (['keya', 'keyb'], 'keys9', [])
    """
    if not _loses_last(start):
        return []
    longer = [start + following for following in _FOLLOWING]
    if start.endswith("y"):
        plural = f"{start}s"
        longer.remove(plural)
        longer += [plural + following for following in _FOLLOWING]
    return longer


def _loses_last(start: str) -> bool:
    """Tell whether the stemmer takes or changes the last letter: "nos" would begin "note"."""
    is_plural = start.endswith("s") and not start.endswith("ss")
    return (is_plural or start.endswith("y")) and len(start) >= LEAST_STEMMED and start.isalpha()


def looked_up(prefixes: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the words to look up besides some prefixes, and all that are prefixes."""
    longer = [word for start in prefixes for word in longer_beginnings(start)]
    words = [*longer, *(word for start in prefixes for word in completed_words(start))]
    return words, (*(start for start in prefixes if not _loses_last(start)), *longer)


def with_completed(
    vocabulary: Vocabulary, words: Iterable[str], prefixes: Iterable[str]
) -> Vocabulary:
    """Return the vocabulary of a query's words in which what completes a prefix counts as it."""
    begun, holding = dict(vocabulary.beginnings), dict(vocabulary.holding)
    for start in prefixes:
        if len(vocabulary.terms[start]) != 1:
            continue
        own = vocabulary.terms[start][0][2]
        listed = map(vocabulary.terms.__getitem__, looked_up([start])[0])
        # The stems of words, which several of them share, and how others begin.
        for term in dict.fromkeys(row[0][2] for row in listed if len(row) == 1):
            held = vocabulary.holding.get(term, 0)
            if held and term != own:
                begun[term] = own
                holding[own] = min(vocabulary.passages, holding.get(own, 0) + held)
    terms = {word: vocabulary.terms[word] for word in words}
    return vocabulary._replace(terms=terms, holding=holding, beginnings=begun)


def with_completed_words(query: Query) -> Query:
    """Return a query whose prefixes are joined by what completes them."""
    if query.expression is None or not any(
        term.prefix for term in terms_of(query.expression, denied=True)
    ):
        return query
    return query._replace(expression=_completed(query.expression))


def with_completed_boosts(query: Query) -> Query:
    """Return a query that what completes a prefix raises, too."""
    boosts = [term for boost in query.boosts for term in terms_of(_completed(boost))]
    return query._replace(boosts=tuple(dict.fromkeys(boosts)))


def _completed(expression: Expression) -> Expression:
    if isinstance(expression, Group):
        return expression._replace(parts=tuple(map(_completed, expression.parts)))
    if not expression.prefix:
        return expression
    *before, start = expression.words
    longer = [Term((*before, word), prefix=True) for word in longer_beginnings(start)]
    own = expression._replace(prefix=not _loses_last(start))
    words = [Term((*before, word)) for word in completed_words(start)]
    return Group("or", (own, *longer, *words)) if longer or words else own
