"""Terms of texts and their places, as the postings have them: FTS5's own, read without a file."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from plait.protocols import Token
from plait.stores.sqlite import analysis, fileless
from plait.stores.sqlite.keyword import COLUMN_WEIGHTS
from plait.text.columns import split_columns
from plait.types import Passage
from plait.types.queries import Vocabulary
from plait.types.records import NamedTuple

# A place is a position, and above these bits its column.
POSITION_BITS = 29
TEXT_COLUMN = 2
# An index of PostgreSQL takes no longer ones: the rest of a term counts by its hash.
LONGEST_TERM_BYTES = 1_000


class Posting(NamedTuple):
    """A term of one passage: how often it is there, weighted by column, and where."""

    term: str
    times: float
    places: list[int]


def terms_of(text: str) -> list[str]:
    """Return the terms of some words, in order."""
    listed = analysis.terms_as_indexed(fileless.connection(), text) if text else []
    return [kept_term(term) for term in listed]


def kept_term(term: str) -> str:
    """Return a term as its postings have it."""
    data = term.encode()
    if len(data) <= LONGEST_TERM_BYTES:
        return term
    start = data[:LONGEST_TERM_BYTES].decode(errors="ignore")
    return f"{start}\x01{blake2b(data, digest_size=16).hexdigest()}"


def listed_terms(terms: Iterable[str]) -> str:
    """Return terms, or lists, as the server reads a list: they never have quotes."""
    return "{" + ",".join(f'"{term}"' for term in terms) + "}"


def column_of(place: int) -> int:
    """Return the column of a place."""
    return place >> POSITION_BITS


def postings(passage: Passage, title: str) -> tuple[list[Posting], int]:
    """Return the terms of a passage, of its heading and of its names, and how many words it has."""
    heading, text = split_columns(passage.heading, passage.text)
    columns: Sequence[str] = (
        title,
        passage.heading if heading is None else heading,
        passage.text if text is None else text,
    )
    places: dict[str, list[int]] = {}
    length = 0
    for column, words in enumerate(columns):
        listed = terms_of(words)
        length += len(listed)
        for position, term in enumerate(listed):
            places.setdefault(term, []).append(column << POSITION_BITS | position)
    return [
        Posting(term, sum(COLUMN_WEIGHTS[column_of(place)] for place in where), where)
        for term, where in places.items()
    ], length


def is_held(vocabulary: Vocabulary, word: str) -> bool:
    """Tell whether passages surely have a word itself: others may be counted that begin so."""
    terms = {term for _, _, term in vocabulary.terms.get(word, ())}
    surely = bool(terms) and not vocabulary.beginnings
    return surely and all(vocabulary.holding.get(term) for term in terms)


def is_absent(vocabulary: Vocabulary, word: str) -> bool:
    """Tell whether no passage has any term of a word."""
    terms = [term for _, _, term in vocabulary.terms.get(word, ())]
    return bool(terms) and not any(vocabulary.holding.get(term, 1) for term in terms)


def without_common_terms(words: Mapping[str, Sequence[Token]]) -> list[dict[str, Sequence[Token]]]:
    """Return words in as few groups as it takes that none has two with the same term."""
    groups: list[tuple[set[str], dict[str, Sequence[Token]]]] = []
    for word, tokens in words.items():
        terms = {term for _, _, term in tokens}
        fitting = (group for group in groups if not group[0] & terms)
        taken, group = next(fitting, None) or (set[str](), dict[str, Sequence[Token]]())
        if not group:
            groups.append((taken, group))
        taken |= terms
        group[word] = tokens
    return [group for _, group in groups]
