"""FTS5's own view of words: its tokens, how many passages it holds and how common a term is."""

import json
from typing import Any

import apsw

from plait import text as words
from plait.protocols import Token
from plait.stores.sqlite import schema
from plait.stores.sqlite.rows import rows

# Below this many passages plain OR is always fast enough, so nothing needs counting first.
PLANNER_PASSAGES = 20_000
# From here on the index is tidied after bulk writing: at 10,000 passages that takes 40 ms once and
# saves every search 0.5 of 4 ms. Above the second number one merge would hold the file for seconds.
TIDY_PASSAGES = 1_000
MERGED_PASSAGES = 200_000
# Terms in more than this share of the passages are counted when they are indexed.
FREQUENT_SHARE = 0.005

# The name under which triggers keep the number of passages in `meta`.
COUNTED = "passages"

_STATISTICS = "SELECT block FROM passages_fts_data WHERE id = 1"
_FREQUENT = (
    "SELECT term, passages FROM frequent_terms WHERE term IN (SELECT value FROM json_each(?))"
)
_FREQUENCY = "SELECT doc FROM passages_vocab WHERE term = ?"
_COUNT_FREQUENT = "INSERT INTO frequent_terms SELECT term, doc FROM passages_vocab WHERE doc > ?"


def tokens(connection: apsw.Connection, text: str) -> list[Token]:
    """The terms a text is indexed under, with their places in characters."""
    found: list[Token] = []
    for start, end, width in words.segments(text):
        if width:
            found += words.grams(text, start, end, width)
        else:
            found += _fts_tokens(connection, text[start:end], start)
    return found


def _fts_tokens(connection: apsw.Connection, text: str, offset: int) -> list[Token]:
    """FTS5's own tokens; its byte offsets turned into characters."""
    tokenize = connection.fts5_tokenizer(*schema.TOKENIZER_ARGUMENTS)
    data = text.encode("utf-8", "replace")
    found: Any = tokenize(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
    if len(data) == len(text):
        return [(offset + start, offset + end, term) for start, end, term in found]
    placed: list[Token] = []
    reached, place = 0, offset
    for start, end, term in found:
        first = place + len(data[reached:start].decode("utf-8", "replace"))
        last = first + len(data[start:end].decode("utf-8", "replace"))
        placed.append((first, last, term))
        reached, place = end, last
    return placed


def passage_count(connection: apsw.Connection) -> int:
    """How many passages FTS5 holds, from its own statistics: counting rows would be linear."""
    record = connection.execute(_STATISTICS).get
    number = 0
    for byte in record if isinstance(record, bytes) else b"":
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number


def frequencies(connection: apsw.Connection, terms: set[str]) -> dict[str, int]:
    """How many passages hold each term; the common ones were counted when they were indexed."""
    if not terms:
        return {}
    found: dict[str, int] = {}
    if not _stale(connection):
        found = dict(rows(connection, _FREQUENT, (json.dumps(sorted(terms)),)))
    for term in terms - found.keys():
        found[term] = connection.execute(_FREQUENCY, (term,)).get or 0
    return found


def tidy(connection: apsw.Connection) -> None:
    """Merge the index and remember how common its common terms are.

    FTS5 looks into every unmerged piece, and walks a term's whole list to count it.
    """
    passages = passage_count(connection)
    if passages <= MERGED_PASSAGES:
        connection.execute("INSERT INTO passages_fts (passages_fts) VALUES ('optimize')")
    connection.execute("DELETE FROM frequent_terms")
    connection.execute(_COUNT_FREQUENT, (max(PLANNER_PASSAGES, passages) * FREQUENT_SHARE,))
    set_meta(connection, "counted_passages", str(passages))


def outgrown(connection: apsw.Connection) -> bool:
    """Whether the memory is large enough to be tidied, and has changed enough since it was."""
    return passage_count(connection) >= TIDY_PASSAGES and _stale(connection)


def _stale(connection: apsw.Connection) -> bool:
    """Whether the counts of common terms are far enough off to mislead."""
    passages = passage_count(connection)
    counted = int(get_meta(connection, "counted_passages") or 0)
    return abs(passages - counted) > passages // 5


def get_meta(connection: apsw.Connection, name: str) -> str | None:
    """A fact about the memory."""
    value = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).get
    return None if value is None else str(value)


def set_meta(connection: apsw.Connection, name: str, value: str) -> None:
    """Remember a fact about the memory."""
    connection.execute(
        "INSERT INTO meta (name, value) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )
