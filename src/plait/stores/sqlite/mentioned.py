"""Conditions on what a document is named and on words that it mentions, as links ask for both.

Loaded only for filters that have them.
"""

import json
from collections.abc import Sequence

import apsw

from plait.stores.sqlite.filters import Clause, spellings_of, words_of
from plait.types import Filter

# So many names are one condition each, which takes a third to an eighth of the time that a list of
# them takes; with many more, the expression would be too deep for SQLite.
FEW_NAMES = 100
_IN_KEY = "instr(lower(d.key), ?)"
_IN_NAMES = "instr(a.names, ?)"
# subtle: metadata that is damaged must not keep other documents from being read. To look for the
# word first takes a tenth of the time.
_ALIASED = """ OR CASE WHEN instr(d.metadata, '"alias') AND json_valid(d.metadata) THEN {} END"""
_ALIASES = "concat_ws(', ', d.metadata ->> '$.aliases', d.metadata ->> '$.alias')"
_IN_ALIASES = f"EXISTS (SELECT 1 FROM (SELECT lower({_ALIASES}) AS names) AS a WHERE {{}})"  # noqa: S608
_NAMED = (
    "EXISTS (SELECT 1 FROM json_each(?) AS part WHERE instr(lower(d.key), part.value)"  # noqa: S608
    + _ALIASED.format(f"instr(lower({_ALIASES}), part.value)")
    + ")"
)
_MENTIONED = (
    "d.rowid IN (SELECT m.document FROM json_each(?) AS part CROSS JOIN passages AS m "
    "WHERE instr(lower(m.text), lower(part.value)))"
)
# The keyword index narrows the search to the passages with these words: a hundredth of the time.
_INDEXED = (
    "d.rowid IN (SELECT m.document FROM json_each(?) AS part CROSS JOIN passages_fts "
    "CROSS JOIN passages AS m ON m.rowid = passages_fts.rowid "
    "WHERE passages_fts MATCH (part.value ->> 0) "
    "AND instr(lower(m.text), lower(part.value ->> 1)))"
)
# One document after another, the newest first: where messages mention a word by the thousand, but
# few documents are asked for. Each condition is that of one word.
_TOLD = (
    "EXISTS (SELECT 1 FROM (SELECT rowid AS ref, lower(text) AS words FROM passages "
    "WHERE document = d.rowid) AS m WHERE {})"
)
_WORD_TOLD = (
    "(instr(m.words, ?) AND EXISTS (SELECT 1 FROM passages_fts "
    "WHERE passages_fts MATCH ? AND passages_fts.rowid = m.ref))"
)
_COUNT_MATCHES = (
    "SELECT count(*) FROM (SELECT 1 FROM passages_fts WHERE passages_fts MATCH ? LIMIT ?)"
)
_COUNT_OTHERS = "SELECT count(*) FROM (SELECT 1 FROM documents WHERE kind <> 'message' LIMIT ?)"
# So many passages with a word are many, and so many documents that are no messages are few.
MANY_MENTIONS = 1_000
FEW_DOCUMENTS = 3_000


def named_or_mentioned(connection: apsw.Connection, where: Filter) -> list[Clause]:
    """Return the conditions of a filter on the names of documents and on words of their texts."""
    return [*_named(where.named), *_mentions(connection, where)]


def _named(parts: Sequence[str]) -> list[Clause]:
    """Return the condition that one of these parts is in the key or in an alias."""
    if not parts:
        return []
    # As lower() of SQLite, which changes only the letters of ASCII.
    names: list[object] = [form.encode().lower().decode() for form in spellings_of(*parts)]
    if len(names) > FEW_NAMES:
        return [(_NAMED, [json.dumps(names)])]
    in_key, in_names = (" OR ".join([sql] * len(names)) for sql in (_IN_KEY, _IN_NAMES))
    return [(f"({in_key}{_ALIASED.format(_IN_ALIASES.format(in_names))})", names * 2)]


def _mentions(connection: apsw.Connection, where: Filter) -> list[Clause]:
    """Return the condition that one of some words is in the text."""
    if not where.mentions:
        return []
    forms = spellings_of(*where.mentions)
    phrases = [(phrase, form) for form in forms if (phrase := _phrase(form))]
    others = [form for form in forms if not _phrase(form)]
    of_messages = not where.kinds or "message" in where.kinds
    if not (others or of_messages) and _are_mostly_messages(connection, phrases):
        # subtle: as lower() of SQLite, which changes only the letters of ASCII
        words = [[form.encode().lower().decode(), phrase] for phrase, form in phrases]
        told = _TOLD.format(" OR ".join([_WORD_TOLD] * len(words)))
        return [(told, [value for pair in words for value in pair])]
    searched = ((_INDEXED, phrases), (_MENTIONED, others))
    used = [(sql, json.dumps(values)) for sql, values in searched if values]
    return [(f"({' OR '.join(sql for sql, _ in used)})", [values for _, values in used])]


def _are_mostly_messages(connection: apsw.Connection, phrases: Sequence[tuple[str, str]]) -> bool:
    """Tell whether many passages match one of these phrases, but few documents are no messages."""
    match = " OR ".join(phrase for phrase, _ in phrases)
    matches = connection.execute(_COUNT_MATCHES, (match, MANY_MENTIONS)).get
    if matches < MANY_MENTIONS:
        return False
    others: int = connection.execute(_COUNT_OTHERS, (FEW_DOCUMENTS,)).get
    return others < FEW_DOCUMENTS


def _phrase(part: str) -> str:
    """Return the query of the keyword index for the words of a part; empty if it has none."""
    words = words_of(part).replace('"', '""').replace("\0", " ")
    return f'text : "{words}"' if words else ""
