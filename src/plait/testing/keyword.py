"""The words of `InMemoryStore`: how texts are read, counted and misspelt."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping

from plait.protocols import Token
from plait.stores.matching import Indexed, Position
from plait.text import names_of, parts, placed_parts, spelling
from plait.types import Document, Passage, Ref
from plait.types.queries import Spelling, Vocabulary

Analyze = Callable[[str], list[Token]]


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
