"""What a sentence states: about what, with which numbers, dates and days, and whether it denies it.

Two sentences about the same thing repeat each other if their values are the same, and contradict
each other if one value, or a "not", differs. Pure; a wrong answer costs a person one look.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from plait.facts.likeness import NEGATIONS
from plait.text.english import MONTHS, WEEKDAYS, empty_words
from plait.types.records import NamedTuple

# Words in common, by Dice, where one text only says more than the other.
SAME_SUBJECT = 0.75
# The same where each has a word that the other lacks: whether these mean the same, a model tells.
SIMILAR_SUBJECT = 0.5
# Fewer words tell too little to say that two texts are about the same thing, unless all else is
# the same, too.
LEAST_SUBJECT = 2
# Words of one text that the other has not, for which a model is asked.
MOST_UNLIKE = 3
# Only so many texts with the same rare word are compared, the nearest in writing, and only so many
# in all with one text: what has a rarer word in common comes first.
MOST_WITH_WORD = 60
MOST_COMPARED = 60
# Characters of a sentence that is read; a longer one is a table or a log.
LONGEST_SENTENCE = 400

Comparison = Literal["same", "value", "denial", "other"]

# A few languages; a word that is missing costs one finding.
_OTHER_DAYS = (
    "montag dienstag mittwoch donnerstag freitag samstag sonntag "
    "lunes martes miércoles jueves viernes sábado domingo"
)
_DAYS = frozenset((*WEEKDAYS, *_OTHER_DAYS.split()))
_MONTHS = frozenset(MONTHS) - {"may"}  # "may" is a verb, too
# Words that change with the time of writing and not with what is stated.
_FILLING = (
    "now currently today actually really still already again also just new instead since please "
    "note remember that always usually"
)
_FILLERS = frozenset(_FILLING.split())
# What a number behind these names: "server 3" is not a value of "server".
_NUMBERED_THINGS = (
    "server node host rack room floor step phase part chapter section issue ticket bug task item "
    "option question group team sprint week lesson page line building gate platform route flight "
    "test case milestone figure table appendix channel zone shard replica customer user "
    "example exercise volume"
)
_NUMBERED = frozenset(_NUMBERED_THINGS.split())
_PIECE = re.compile(
    r"\d{4}-\d\d-\d\d|\d+(?:[.,:]\d+)*+(?:%|[^\W\d_]{1,3}(?![^\W_]))?+|[^\W_]++(?:[-'\u2019][^\W_]++)*+"
)
_STATEMENT = re.compile(r"[^.!?\n\u3002]++(?:[.!?\u3002](?!\s|$)[^.!?\n\u3002]*+)*+")
_NAME_BEFORE = frozenset("-#/_.@\\:+")
_HAS_VALUE = re.compile(r"\d|\b(?:" + "|".join(sorted(_DAYS | _MONTHS)) + r")s?\b", re.I)


class StatedFact(NamedTuple):
    """A sentence: the words of its subject, its values in order, and whether it denies.

    A value is its kind and itself, as in ``("day", "friday")``. ``frame`` is all but the values.
    """

    words: frozenset[str]
    values: tuple[tuple[str, str], ...] = ()
    denies: bool = False
    frame: str = ""


def statement(text: str, about: str = "") -> StatedFact:
    """Return what a sentence states; ``about`` is what it does not name itself.

    >>> statement("We don't deploy on Fridays.").values, statement("Port 8080").words
    ((('day', 'friday'),), frozenset({'port'}))
    """
    words: set[str] = set()
    values: list[tuple[str, str]] = []
    denies, before = False, ""
    frame: list[str] = []
    empty = empty_words()
    for match in _PIECE.finditer(f"{about} {text}" if about else text):
        token = match[0].lower().removesuffix("'s").removesuffix("\u2019s")
        if token[0].isdigit() and not _is_name(match, before):
            _add_value(values, token, follows_month=before in _MONTHS)
        elif token in NEGATIONS or token.endswith(("n't", "n\u2019t")):
            denies = not denies
        elif (day := token.removesuffix("s")) in _DAYS:
            values.append(("day", day))
        elif token in _MONTHS:
            _add_month(values, token)
        else:
            frame.append(token)
        if frame and frame[-1] is token and token not in empty and token not in _FILLERS:
            name = f"{before} {token}" if token[0].isdigit() else token
            words.add(stem(name))
        before = token
    return StatedFact(frozenset(words), tuple(values), denies, " ".join(frame))


def _is_name(match: re.Match[str], before: str) -> bool:
    """Tell whether a number is part of a name: "web-2", "#12", "server 3"."""
    start = match.start()
    is_date = match[0][4:5] == "-"
    joined = start > 0 and match.string[start - 1] in _NAME_BEFORE and not is_date
    return joined or before in _NUMBERED or stem(before) in _NUMBERED


def _add_value(values: list[tuple[str, str]], token: str, *, follows_month: bool) -> None:
    if follows_month and values:
        kind, date = values[-1]
        values[-1] = (kind, f"{date} {token}")
        return
    kind = "date" if token[4:5] == "-" else "time" if ":" in token else "number"
    values.append((kind, token.replace(",", "") if kind == "number" else token))


def _add_month(values: list[tuple[str, str]], month: str) -> None:
    if values and values[-1][0] == "number" and values[-1][1].rstrip("sthndr").isdigit():
        month = f"{values.pop()[1]} {month}"
    values.append(("date", month))


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return a word without the usual English endings.

    >>> stem("deploys"), stem("deployed"), stem("deploying"), stem("class")
    ('deploy', 'deploy', 'deploy', 'class')
    """
    for ending in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            root = word[: -len(ending)]
            return f"{root}y" if ending == "ies" else root.removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, line by line; those that are too long are left out."""
    for match in _STATEMENT.finditer(text):
        sentence = match[0].strip(" \t-*>#|`_")
        if sentence and len(sentence) <= LONGEST_SENTENCE:
            yield sentence


def has_value(text: str) -> bool:
    """Tell whether a text has a number, a date or a day."""
    return _HAS_VALUE.search(text) is not None


def overlap(first: StatedFact, second: StatedFact) -> float:
    """Return the share of words that two statements have in common, by Dice."""
    total = len(first.words) + len(second.words)
    return 2 * len(first.words & second.words) / total if total else 0.0


def compare(first: StatedFact, second: StatedFact) -> Comparison:
    """Tell how two statements are to each other, if they are about the same thing.

    >>> one, other, third = map(statement, ("We ship on Fridays", "We ship on Mondays", "Ship it"))
    >>> compare(one, other), compare(one, third)
    ('value', 'other')
    """
    if overlap(first, second) < SIMILAR_SUBJECT:
        return "other"
    if min(len(first.words), len(second.words)) < LEAST_SUBJECT and first.frame != second.frame:
        return "other"
    if sorted(first.values) == sorted(second.values):
        return "same" if first.denies == second.denies else "denial"
    if first.denies != second.denies or len(first.values) != len(second.values):
        return "other"
    unlike = [pair for pair in zip(first.values, second.values, strict=True) if pair[0] != pair[1]]
    return "value" if len(unlike) == 1 and unlike[0][0][0] == unlike[0][1][0] else "other"


def is_about_the_same(first: StatedFact, second: StatedFact) -> bool:
    """Tell whether two statements are surely about the same thing.

    One may say more than the other. If each has a word that the other lacks, these may name two
    things: "the payments service" and "the search service".
    """
    one_says_more = first.words <= second.words or second.words <= first.words
    return one_says_more and overlap(first, second) >= SAME_SUBJECT


def unlike_words(first: StatedFact, second: StatedFact) -> tuple[str, str] | None:
    """Return the words that only one of two statements has; ``None`` if no words can tell.

    These are too many, or one has a digit: "web-2" and "web-3" mean nearly the same to a model.
    """
    texts = []
    for own, other in ((first, second), (second, first)):
        words = [word for word in own.frame.split() if stem(word) in own.words - other.words]
        text = " ".join(words)
        if not 0 < len(words) <= MOST_UNLIKE or any(map(str.isdigit, text)):
            return None
        texts.append(text)
    return texts[0], texts[1]


def difference(first: StatedFact, second: StatedFact) -> str:
    """Return in which value two statements differ, for people: "8080 and 8443"."""
    for (_, old), (_, new) in zip(first.values, second.values, strict=False):
        if old != new:
            return f"{old} and {new}"
    return "one of them denies it"


class SubjectIndex:
    """Finds statements with similar subjects without comparing all with all.

    Two sets of words that have enough in common share one of their rarest words: how many have to
    be looked at follows from how much they must have in common (Chaudhuri and others, 2006).
    """

    def __init__(self, statements: Sequence[StatedFact], least: float = SIMILAR_SUBJECT) -> None:
        counts: dict[str, int] = {}
        for row in statements:
            for word in row.words:
                counts[word] = counts.get(word, 0) + 1
        self._counts = counts
        # Jaccard's measure, in which the length of the prefix is told.
        self._share = least / (2 - least)
        self._with_word: dict[str, list[int]] = {}
        for place, row in enumerate(statements):
            for word in self._prefix(row):
                self._with_word.setdefault(word, []).append(place)

    def _prefix(self, row: StatedFact) -> list[str]:
        size = len(row.words)
        ordered = sorted(row.words, key=lambda word: (self._counts.get(word, 0), word))
        return ordered[: size - int(self._share * size + 0.999) + 1]

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of statements that may have similar subjects, each once."""
        seen: dict[int, set[int]] = {}
        for places in sorted(self._with_word.values(), key=lambda places: (len(places), places)):
            for first, place in enumerate(places[:-1], start=1):
                others = seen.setdefault(place, set())
                if len(others) >= MOST_COMPARED:
                    continue
                for other in places[first : first + MOST_WITH_WORD]:
                    if other not in others:
                        others.add(other)
                        yield place, other

    def near(self, row: StatedFact) -> Iterable[int]:
        """Return the statements that may have a subject similar to this one's."""
        places: dict[int, None] = {}
        for word in self._prefix(row):
            if len(places) < MOST_COMPARED:
                places.update(dict.fromkeys(self._with_word.get(word, ())[:MOST_WITH_WORD]))
        return places
