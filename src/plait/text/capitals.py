"""Names in what a person typed, as far as capitals and signs show them."""

import re

from plait.text import words_in
from plait.text.english import empty_words

_WORD = re.compile(r"\w+")
# Names of code, files and versions: a part of a word tells that it is one.
_NAME_OF_CODE = re.compile(r"_\w|\w_|[^\W\d]\d|\d[^\W\d]|[a-z][A-Z]|\w[./]\w|^[A-Z]{2,}$")


def names_in(text: str) -> frozenset[str]:
    """Return the names in a text, and the parts of names of code, in lower case.

    A capital counts where no sentence begins, and not in German, where every noun has one.

    >>> sorted(names_in("Where did Mara put the max_retries of the API?"))
    ['api', 'mara', 'max', 'max_retries', 'retries']
    """
    names: set[str] = set()
    for match in re.finditer(r"[\w./-]+", text):
        if _NAME_OF_CODE.search(match.group()):
            names |= {match.group().lower(), *re.findall(r"[^\W_]+", match.group().lower())}
    capitals = _capitals(text)
    if capitals and not _is_german(text):
        names.update(capitals)
    return frozenset(names - empty_words())


def _capitals(text: str) -> list[str]:
    """Return the words with a capital where no sentence begins, in lower case."""
    capitals: list[str] = []
    end = 0
    for match in _WORD.finditer(text):
        between = text[end : match.start()].rstrip(" \t\"'(")
        opens = between[-1] in ".!?:\n" if between else not end
        if match.group()[0].isupper() and not opens:
            capitals.append(match.group().lower())
        end = match.end()
    return capitals


def _is_german(text: str) -> bool:
    from plait.text.function_words import function_words_of

    return "nicht" in function_words_of(words_in(text))
