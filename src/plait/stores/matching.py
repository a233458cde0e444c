"""Operator queries over terms with their places, by the rules and scores of FTS5, in plain Python.

For engines that keep postings of their own. See https://sqlite.org/fts5.html#the_bm25_function and
#full_text_query_syntax.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from plait.stores.sqlite.alone import K1, LEAST_IDF, B
from plait.stores.sqlite.keyword import COLUMN_WEIGHTS
from plait.types import Ref
from plait.types.queries import Expression, Query, Term
from plait.types.records import NamedTuple

# A place of a term: column and position.
Position = tuple[int, int]
TermsOf = Callable[[str], Sequence[str]]


class Indexed(NamedTuple):
    """The terms of one passage: the places of each, and how many there are in all."""

    places: Mapping[str, Sequence[Position]]
    length: int


class Phrase:
    """Consecutive terms; with ``prefix`` the last one is the beginning of a term.

    With an ``ending``, it is the beginning of terms that are at most so many letters longer.
    """

    def __init__(self, terms: Sequence[str], *, prefix: bool = False, ending: int = 0) -> None:
        self.terms = terms
        self.prefix = prefix
        self._ending = ending

    def places(self, passage: Indexed) -> list[Position]:
        """Return where the phrase begins in a passage."""
        if not self.terms:
            return []
        *firsts, last = self.terms
        lists = [set(passage.places.get(term, ())) for term in firsts]
        lists.append(set(self._endings(passage, last)))
        return sorted(
            (column, position)
            for column, position in lists[0]
            if all((column, position + step) in places for step, places in enumerate(lists))
        )

    def _endings(self, passage: Indexed, last: str) -> Iterator[Position]:
        if not self.prefix and not self._ending:
            yield from passage.places.get(last, ())
            return
        for term, places in passage.places.items():
            near = self.prefix or len(term) <= len(last) + self._ending
            if near and term.startswith(last):
                yield from places


Matches = list[tuple[Phrase, list[Position]]]


class Node:
    """One part of a query: terms, or parts joined by an operator."""

    def __init__(self, operator: str, parts: "Sequence[Node | Phrase]", near: int = 0) -> None:
        self.operator = operator
        self.parts = parts
        self._near = near

    def phrases(self) -> Iterator[Phrase]:
        """Yield every phrase in order."""
        for part in self.parts:
            if isinstance(part, Phrase):
                yield part
            else:
                yield from part.phrases()

    def match(self, passage: Indexed) -> Matches | None:
        """Return the phrases that a passage contains with their places; ``None``: no match.

        Phrases of a part that does not match count for nothing, as in FTS5.
        """
        if self.operator == "near":
            return self._match_near(passage)
        matches = [part.match(passage) for part in self.parts if isinstance(part, Node)]
        held = [match for match in matches if match is not None]
        if self.operator == "or":
            return [pair for match in held for pair in match] if held else None
        if self.operator == "and":
            return [pair for match in held for pair in match] if len(held) == len(matches) else None
        return matches[0] if matches[0] is not None and len(held) == 1 else None

    def _match_near(self, passage: Indexed) -> Matches | None:
        phrases = [part for part in self.parts if isinstance(part, Phrase)]
        lists = [phrase.places(passage) for phrase in phrases]
        if not lists or not all(lists):
            return None
        if len(lists) > 1:
            lengths = [len(phrase.terms) for phrase in phrases]
            lists = _near(lists, lengths, self._near)
        return list(zip(phrases, lists, strict=True)) if lists[0] else None


def _near(
    lists: Sequence[list[Position]], lengths: Sequence[int], distance: int
) -> list[list[Position]]:
    """Keep the places that lie near places of all other phrases.

    FTS5's own sweep (fts5ExprNearIsMatch): it decides which places count, not only whether any do.
    """
    kept: list[list[Position]] = [[] for _ in lists]
    at = [0] * len(lists)
    while True:
        farthest = lists[0][at[0]]
        together = False
        while not together:
            together = True
            for phrase, places in enumerate(lists):
                nearest = (farthest[0], farthest[1] - lengths[phrase] - distance)
                if nearest <= places[at[phrase]] <= farthest:
                    continue
                together = False
                while places[at[phrase]] < nearest:
                    at[phrase] += 1
                    if at[phrase] == len(places):
                        return kept
                farthest = max(farthest, places[at[phrase]])
        for phrase, places in enumerate(lists):
            place = places[at[phrase]]
            if not kept[phrase] or kept[phrase][-1] != place:
                kept[phrase].append(place)
        ahead = [
            (places[at[phrase] + 1], phrase)
            for phrase, places in enumerate(lists)
            if at[phrase] + 1 < len(places)
        ]
        if not ahead:
            return kept
        at[min(ahead)[1]] += 1


def compile_query(query: Query, terms_of: TermsOf) -> Node:
    """Return a query as a tree of phrases; plain words are joined by OR."""
    words = [_phrase(word, terms_of) for word in query.words]
    if query.expression is not None:
        words = [_compile(query.expression, terms_of)]
    boosts = [_compile(term, terms_of) for term in query.boosts]
    return words[0] if [*words, *boosts] == words[:1] else Node("or", [*words, *boosts])


def _compile(expression: Expression, terms_of: TermsOf) -> Node:
    if not isinstance(expression, Term):
        # Operators of several parts group from the left: (a NOT b) NOT c.
        return _grouped(
            expression.operator, [_compile(part, terms_of) for part in expression.parts]
        )
    if not expression.near:
        terms = terms_of(" ".join(expression.words))
        phrase = Phrase(terms, prefix=expression.prefix, ending=expression.ending)
        return Node("near", [phrase])
    phrases = [Phrase(terms_of(word)) for word in expression.words]
    return Node("near", [phrase for phrase in phrases if phrase.terms], expression.near)


def _grouped(operator: str, parts: Sequence[Node]) -> Node:
    grouped, *others = parts
    for part in others:
        grouped = Node(operator, [grouped, part])
    return grouped


def _phrase(text: str, terms_of: TermsOf) -> Node:
    return Node("near", [Phrase(terms_of(text))])


def bm25(
    passages: Mapping[Ref, Indexed],
    query: Node,
    *,
    count: int,
    words: int,
    holding: Sequence[int] | None = None,
) -> dict[Ref, float]:
    """Return the score of each passage that matches, higher is better.

    ``passages`` are those that may match, of ``count`` with so many ``words`` in all. ``holding``
    tells how many of all have each phrase; without it, all that have one are among ``passages``.
    """
    # Both may have been counted after others deleted passages.
    count, words = max(count, len(passages)), max(words, 1)
    matches = {
        ref: match
        for ref, passage in passages.items()
        if (match := query.match(passage)) is not None
    }
    if not matches:
        return {}
    phrases = list(query.phrases())
    if holding is None:
        holding = [sum(bool(one.places(row)) for row in passages.values()) for one in phrases]
    rarity = {one: _idf(number, count) for one, number in zip(phrases, holding, strict=True)}
    average = words / count
    scores = {}
    for ref, match in matches.items():
        damping = K1 * (1.0 - B + B * passages[ref].length / average)
        scores[ref] = sum(
            rarity[phrase] * weight * (K1 + 1.0) / (weight + damping)
            for phrase, places in match
            if (weight := sum(COLUMN_WEIGHTS[column] for column, _ in places))
        )
    return scores


def _idf(holding: int, count: int) -> float:
    idf = math.log((max(count - holding, 0) + 0.5) / (holding + 0.5))
    return idf if idf > 0.0 else LEAST_IDF
