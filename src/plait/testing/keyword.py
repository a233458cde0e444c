"""Keyword search in plain Python: the scores of FTS5's ``bm25()`` over terms with their positions.

See https://sqlite.org/fts5.html#the_bm25_function and #full_text_query_syntax.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from plait.protocols import Token
from plait.text import names_of, parts, placed_parts, spelling
from plait.types import Document, Passage, Ref
from plait.types.queries import Expression, Query, Spelling, Term, Vocabulary
from plait.types.records import NamedTuple

Analyze = Callable[[str], list[Token]]
# A place of a term: column and position.
Position = tuple[int, int]

# Title, heading, text: the weights of the SQLite store.
_COLUMN_WEIGHTS = (2.0, 1.0, 1.0)
_K1 = 1.2
_B = 0.75
_MIN_IDF = 1e-6  # of a term that at least half of the passages contain


def plain_words(text: str) -> list[Token]:
    """Return the words of a text, casefolded and without diacritics, with their places.

    >>> plain_words("Über uns!")
    [(0, 4, 'uber'), (5, 8, 'uns')]
    """
    return [(word.start(), word.end(), _folded(word[0])) for word in re.finditer(r"\w+", text)]


def _folded(word: str) -> str:
    letters = unicodedata.normalize("NFKD", word.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter)) or word


def alike(
    words: Iterable[str], texts: Mapping[Ref, str], analyze: Analyze
) -> dict[str, list[Spelling]]:
    """Return the words of some texts that are spelt like these, nearest first."""
    holding: dict[str, set[Ref]] = {}
    for ref, text in texts.items():
        for start, end, _ in analyze(text):
            holding.setdefault(text[start:end].lower(), set()).add(ref)
    similar: dict[str, list[Spelling]] = {}
    for word in words:
        typed, most = spelling.folded(word), spelling.allowed(word)
        near = [other for other in holding if spelling.edits(typed, spelling.folded(other)) <= most]
        if most:
            rows = [
                Spelling(other, len(holding[other]), spelling.cost(typed, spelling.folded(other)))
                for other in near
            ]
            similar[word] = sorted(rows, key=lambda row: (row.cost, row.word))
    return similar


def with_parts(text: str, analyze: Analyze) -> list[Token]:
    """Return the terms of a text, and of the parts of its names of code, in order."""
    tokens = analyze(text)
    for start, end, part in placed_parts(text):
        tokens += [(start, end, term) for _, _, term in analyze(part)]
    return sorted(tokens, key=lambda token: token[0])


class Indexed(NamedTuple):
    """The terms of one passage: the places of each, and how many there are in all."""

    places: Mapping[str, Sequence[Position]]
    length: int


def index(document: Document, passage: Passage, analyze: Analyze) -> Indexed:
    """Return the terms of a passage's title, heading and text."""
    places: dict[str, list[Position]] = {}
    length = 0
    title, heading = names_of(document, passage.ordinal), passage.heading
    # The parts of names of code go with the heading, as in the SQLite store.
    columns = (
        " ".join([title, *parts(title)]),
        " ".join([heading, *dict.fromkeys([*parts(heading), *parts(passage.text)])]),
        passage.text,
    )
    for column, text in enumerate(columns):
        tokens = analyze(text)
        length += len(tokens)
        for position, (_, _, term) in enumerate(tokens):
            places.setdefault(term, []).append((column, position))
    return Indexed(places, length)


class Phrase:
    """Consecutive terms; with ``prefix`` the last one is the beginning of a term.

    With an ``ending``, it is the beginning of terms that are at most so many letters longer.
    """

    def __init__(self, terms: Sequence[str], *, prefix: bool = False, ending: int = 0) -> None:
        self.terms = terms
        self._prefix = prefix
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
        if not self._prefix and not self._ending:
            yield from passage.places.get(last, ())
            return
        for term, places in passage.places.items():
            near = self._prefix or len(term) <= len(last) + self._ending
            if near and term.startswith(last):
                yield from places


Matches = list[tuple[Phrase, list[Position]]]


class Node:
    """One part of a query: terms, or parts joined by an operator."""

    def __init__(self, operator: str, parts: "Sequence[Node | Phrase]", near: int = 0) -> None:
        self._operator = operator
        self._parts = parts
        self._near = near

    def phrases(self) -> Iterator[Phrase]:
        """Yield every phrase in order."""
        for part in self._parts:
            if isinstance(part, Phrase):
                yield part
            else:
                yield from part.phrases()

    def match(self, passage: Indexed) -> Matches | None:
        """Return the phrases that a passage contains with their places; ``None``: no match.

        Phrases of a part that does not match count for nothing, as in FTS5.
        """
        if self._operator == "near":
            return self._match_near(passage)
        matches = [part.match(passage) for part in self._parts if isinstance(part, Node)]
        held = [match for match in matches if match is not None]
        if self._operator == "or":
            return [pair for match in held for pair in match] if held else None
        if self._operator == "and":
            return [pair for match in held for pair in match] if len(held) == len(matches) else None
        return matches[0] if matches[0] is not None and len(held) == 1 else None

    def _match_near(self, passage: Indexed) -> Matches | None:
        phrases = [part for part in self._parts if isinstance(part, Phrase)]
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


def compile_query(query: Query, analyze: Analyze) -> Node:
    """Return a query as a tree of phrases; plain words are joined by OR."""
    words = [_phrase(word, analyze) for word in query.words]
    if query.expression is not None:
        words = [_compile(query.expression, analyze)]
    boosts = [_compile(term, analyze) for term in query.boosts]
    return words[0] if [*words, *boosts] == words[:1] else Node("or", [*words, *boosts])


def _compile(expression: Expression, analyze: Analyze) -> Node:
    if not isinstance(expression, Term):
        # Operators of several parts group from the left: (a NOT b) NOT c.
        return _grouped(expression.operator, [_compile(part, analyze) for part in expression.parts])
    if not expression.near:
        terms = _terms(" ".join(expression.words), analyze)
        phrase = Phrase(terms, prefix=expression.prefix, ending=expression.ending)
        return Node("near", [phrase])
    phrases = [Phrase(_terms(word, analyze)) for word in expression.words]
    return Node("near", [phrase for phrase in phrases if phrase.terms], expression.near)


def _grouped(operator: str, parts: Sequence[Node]) -> Node:
    grouped, *others = parts
    for part in others:
        grouped = Node(operator, [grouped, part])
    return grouped


def _phrase(text: str, analyze: Analyze) -> Node:
    return Node("near", [Phrase(_terms(text, analyze))])


def _terms(text: str, analyze: Analyze) -> list[str]:
    return [term for _, _, term in analyze(text)]


def holds(passage: Indexed, term: str, start: str | None) -> bool:
    """Tell whether a passage contains a term, or one that begins like it."""
    if term in passage.places:
        return True
    return start is not None and any(other.startswith(start) for other in passage.places)


def unseen(vocabulary: Vocabulary, passages: Collection[Indexed]) -> frozenset[str]:
    """Return the words of a vocabulary that few passages contain, but none of these."""
    start_of = {term: start for start, term in vocabulary.beginnings.items()}
    return frozenset(
        word
        for word in vocabulary.in_few()
        for _, _, term in vocabulary.terms[word]
        if not any(holds(passage, term, start_of.get(term)) for passage in passages)
    )


def bm25(passages: Mapping[Ref, Indexed], query: Node) -> dict[Ref, float]:
    """Return the score of each passage that matches, higher is better."""
    matches = {
        ref: match
        for ref, passage in passages.items()
        if (match := query.match(passage)) is not None
    }
    if not matches:
        return {}
    rarity = {phrase: _idf(phrase, passages) for phrase in query.phrases()}
    average = sum(passage.length for passage in passages.values()) / len(passages)
    scores = {}
    for ref, match in matches.items():
        damping = _K1 * (1.0 - _B + _B * passages[ref].length / average)
        scores[ref] = sum(
            rarity[phrase] * weight * (_K1 + 1.0) / (weight + damping)
            for phrase, places in match
            if (weight := sum(_COLUMN_WEIGHTS[column] for column, _ in places))
        )
    return scores


def _idf(phrase: Phrase, passages: Mapping[Ref, Indexed]) -> float:
    holding = sum(bool(phrase.places(passage)) for passage in passages.values())
    idf = math.log((len(passages) - holding + 0.5) / (holding + 0.5))
    return idf if idf > 0.0 else _MIN_IDF
