"""Words of texts as FTS5 reads them: its tokenizer, and where terms are in a text."""

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Any

import apsw

from plait.protocols import Token
from plait.text import SPLIT_VERSION, names_of, needs_no_runs, placed_parts
from plait.types import Document, Passage

# Combining marks belong to words: without them FTS5 cuts Thai and Hindi words apart. Variation
# selectors (U+FE0E, U+FE0F) are marks too, but only choose how an emoji is drawn.
_CATEGORIES = "L* N* Co Mn Mc"
_SEPARATORS = "\ufe0e\ufe0f"
TOKENIZER = (
    f"porter unicode61 remove_diacritics 2 categories '{_CATEGORIES}' separators '{_SEPARATORS}'"
)
# The keyword index, its terms, and what it indexes: the text itself, or its pre-split form where a
# script has no spaces. Part of migration 1: never edit them.
INDEX = f"""CREATE VIRTUAL TABLE passages_fts USING fts5 (
    title, heading, text,
    content = 'passages_terms', content_rowid = 'rowid', tokenize = "{TOKENIZER}"
)"""
INDEX_TERMS = "CREATE VIRTUAL TABLE passages_vocab USING fts5vocab ('passages_fts', 'row')"
INDEXED_VIEW = """CREATE VIEW passages_terms AS
    SELECT rowid, title_terms AS title, coalesce(heading_terms, heading) AS heading,
           coalesce(text_terms, text) AS text
    FROM passages"""
INDEXING = (INDEX, INDEX_TERMS, INDEXED_VIEW)
_UNICODE = ("remove_diacritics", "2", "categories", _CATEGORIES, "separators", _SEPARATORS)
_TOKENIZER_ARGUMENTS = ("porter", ["unicode61", *_UNICODE])
ANALYZER = f"porter unicode61, marks kept, 1; split {SPLIT_VERSION}"

MOST_STEMS = 20_000  # that a process keeps, about 3 MB


def terms_as_indexed(connection: apsw.Connection, text: str) -> list[str]:
    """Return the terms of a text that was split already, as FTS5 indexes or looks it up."""
    return [term for _, _, term in _fts_tokens(connection, text.replace("\0", " "), 0)]


def tokens(connection: apsw.Connection, text: str) -> list[Token]:
    """Return the terms that a text is indexed under, with their places in characters."""
    if needs_no_runs(text):
        return _fts_tokens(connection, text, 0)
    from plait.text.unspaced import grams, segments

    listed: list[Token] = []
    for start, end, width in segments(text):
        if width:
            listed += grams(text, start, end, width)
        else:
            listed += _fts_tokens(connection, text[start:end], start)
    return listed


def one_of_each_stem(connection: apsw.Connection, counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of words without those that are indexed like one before them.

    "commands" and "command" are no pair: each passage that has one has the other.
    """
    stems: dict[tuple[str, ...], str] = {}
    for word in counts:
        stems.setdefault(tuple(term for _, _, term in tokens(connection, word)), word)
    return {word: counts[word] for word in stems.values()}


def tokens_and_parts(connection: apsw.Connection, text: str) -> list[Token]:
    """Return the terms of a text, and of the parts of its names of code, in order."""
    listed = tokens(connection, text)
    named = [
        (start, end, term)
        for start, end, part in placed_parts(text)
        for _, _, term in _fts_tokens(connection, part, 0)
    ]
    return sorted([*listed, *named], key=lambda token: token[0]) if named else listed


def tokens_among(
    connection: apsw.Connection, text: str, terms: frozenset[str] | None
) -> list[Token]:
    """Return `tokens_and_parts` that are among some terms; ``None``: all.

    A search wants to know where a few words are in twenty passages. In plain English only words
    that begin like one of the terms need to be stemmed.
    """
    if terms is None or not (text.isascii() or _PLAIN.fullmatch(text)):
        listed = tokens_and_parts(connection, text)
        return listed if terms is None else [token for token in listed if token[2] in terms]
    beginnings, lower = _beginnings(terms), text.lower()
    places = _words_beginning_like(beginnings, lower)
    if not places and not any(beginning in lower for beginning in beginnings):
        return []  # nor has a name of code such a part
    named = list(placed_parts(text))
    stems = _stems(connection, {word for _, _, word in places + named})
    stemmed = [(start, end, stems[word]) for start, end, word in places + named]
    kept = [token for token in stemmed if token[2] in terms]
    return sorted(kept, key=lambda token: token[0]) if named else kept


@lru_cache(maxsize=16)
def _beginnings(terms: frozenset[str]) -> list[str]:
    """Return how the words begin that may have one of these stems.

    Porter's rules leave the beginning of a word, and change its last letter only so that the stem
    ends like this: "trying" becomes "try" and "tri", "hoping" "hope", and "stability" "stabl".
    """
    plain = [term for term in terms if term.isascii() and term.isalnum()]
    return sorted({term[:-1] or term if term.endswith(_CHANGED) else term for term in plain})


def _words_beginning_like(beginnings: list[str], text: str) -> list[Token]:
    """Return the words of a plain text in lower case that begin like one of these, in order.

    A pattern would have to be compiled for each query, which takes longer than all of this.
    """
    words: dict[int, Token] = {}
    for beginning in beginnings:
        start = text.find(beginning)
        while start >= 0:
            # At most once a word, however often it has the beginning inside.
            end = _REST_OF_WORD.match(text, start).end()  # type: ignore[union-attr]
            if not start or text[start - 1] not in _LETTERS:
                words[start] = (start, end, text[start:end])
            start = text.find(beginning, end)
    return [words[start] for start in sorted(words)]


_CHANGED = ("e", "i", "bl")  # ends of stems
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_REST_OF_WORD = re.compile("[a-z0-9]*")
# 1 for a byte that begins a character of UTF-8, 0 for one that continues it.
_FIRST_BYTES = bytes(byte & 0xC0 != 0x80 for byte in range(256))
_known_stems: dict[str, str] = {}
# ASCII, and marks that are in no word: quotes, dashes, arrows.
_PLAIN = re.compile(
    "[\x00-\x7f\xa0-\xa9\xab-\xb1\xbb\xbf\xd7\u2010-\u2027\u2030-\u205e\u20ac\u2122\u2190-\u21ff]*+"
)


def _stems(connection: apsw.Connection, words: set[str]) -> Mapping[str, str]:
    """Return the stem of each word, which is lower case and of ASCII letters and digits."""
    # Other threads may clear what is kept.
    stems = {word: stem for word in words if (stem := _known_stems.get(word))}
    missing = sorted(words - stems.keys())
    if missing:
        listed = _fts_tokens(connection, " ".join(missing), 0)
        fresh = dict(zip(missing, [term for _, _, term in listed], strict=True))
        if len(_known_stems) > MOST_STEMS:
            _known_stems.clear()
        _known_stems.update(fresh)
        stems |= fresh
    return stems


def _fts_tokens(connection: apsw.Connection, text: str, offset: int) -> list[Token]:
    """Return FTS5's own tokens; its byte offsets become characters."""
    tokenize = connection.fts5_tokenizer(*_TOKENIZER_ARGUMENTS)
    data = text.encode("utf-8", "replace")
    listed: Any = tokenize(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
    if len(data) == len(text):
        return [(offset + start, offset + end, term) for start, end, term in listed]
    # How many characters begin before each byte.
    place = list(accumulate(data.translate(_FIRST_BYTES), initial=offset))
    return [(place[start], place[end], term) for start, end, term in listed]


def name_terms(
    connection: apsw.Connection,
    passage: Passage,
    document: Document,
    terms: frozenset[str] | None = None,
) -> frozenset[str]:
    """Return the terms of a passage's heading and of its names; if given, of ``terms``."""
    text = f"{names_of(document, passage.ordinal)}\n{passage.heading}"
    if len(text) == 1:
        return frozenset()  # a message has no names
    return frozenset(term for _, _, term in tokens_among(connection, text, terms))
