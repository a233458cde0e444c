"""The index of SQLite, for `plait.stores.spelling`. Loaded only for a word that is not there."""

import json
from collections.abc import Collection, Iterable, Sequence

import apsw

from plait.protocols import Token
from plait.stores import spelling
from plait.stores.sqlite import analysis, filters, keyword
from plait.stores.sqlite.connection import rows
from plait.types import Ref
from plait.types.queries import Spelling

_ANY = "SELECT 1 FROM passages_vocab WHERE term >= ? AND term < ? LIMIT 1"
_RANGE = "SELECT term, doc FROM passages_vocab WHERE term >= ? AND term < ? LIMIT ?"
_KNOWN = (
    "SELECT v.term, v.doc FROM json_each(?) AS wanted CROSS JOIN passages_vocab AS v "
    "ON v.term = wanted.value"
)
_TEXTS = (
    "SELECT text, heading, title_terms FROM passages "
    "WHERE rowid IN (SELECT value FROM json_each(?))"
)
_HOLDING = "SELECT rowid FROM passages_fts WHERE passages_fts MATCH ? LIMIT ?"
_VISIBLE = (
    "SELECT rowid FROM passages_fts WHERE passages_fts MATCH ? AND EXISTS (SELECT 1 FROM passages "
    "AS p JOIN documents AS d ON d.rowid = p.document WHERE p.rowid = passages_fts.rowid "
    "AND /*conditions*/) LIMIT ?"
)


def alike(
    connection: apsw.Connection,
    words: Iterable[str],
    conditions: list[filters.Clause],
    selections: filters.Selections,
) -> dict[str, list[Spelling]]:
    """Return, for each word, the words of visible passages that are spelt like it."""
    refs: set[Ref] | None = None
    if conditions:
        listed = selections.find(connection, conditions, keyword.passage_count(connection)).refs
        refs = None if listed is None else set(listed)
    if refs is not None and not refs:
        return {}
    return spelling.alike(_Index(connection, conditions, refs), words)


class _Index:
    """What may be seen of the index: all, these passages, or those that meet the conditions."""

    def __init__(
        self,
        connection: apsw.Connection,
        conditions: list[filters.Clause],
        refs: set[Ref] | None,
    ) -> None:
        self._connection = connection
        self._conditions = conditions
        self._refs = refs
        self.confined = bool(conditions)

    def has_between(self, low: str, high: str) -> bool:
        return bool(self._connection.execute(_ANY, (low, high)).get)

    def between(self, low: str, high: str, limit: int) -> list[tuple[str, int]]:
        return rows(self._connection, _RANGE, (low, high, limit))

    def known(self, terms: Collection[str]) -> list[tuple[str, int]]:
        return rows(self._connection, _KNOWN, (json.dumps(list(terms)),))

    def expect_words(self, typed: Sequence[str]) -> None:
        """Read each when it is asked for: nothing is far away."""

    def expect_stems(self, stems: Iterable[str], possible: Iterable[Sequence[str]]) -> None:
        """Read each when it is asked for: nothing is far away."""

    def holding(self, stem: str) -> list[Ref]:
        word = spelling.word_of(self, stem)
        if word is None:
            return []
        connection, quoted = self._connection, keyword.quote(word)
        if not self._conditions:
            read = spelling.READ_PASSAGES
            return [ref for (ref,) in rows(connection, _HOLDING, (quoted, read))]
        if self._refs is not None:
            listed = rows(connection, _HOLDING, (quoted, -1))
            return [ref for (ref,) in listed if ref in self._refs][: spelling.COUNTED]
        sql, values = filters.joined(self._conditions)
        visible = _VISIBLE.replace("/*conditions*/", sql)
        return [ref for (ref,) in rows(connection, visible, (quoted, *values, spelling.COUNTED))]

    def texts(self, refs: Sequence[Ref]) -> list[tuple[str, ...]]:
        return rows(self._connection, _TEXTS, (json.dumps(list(refs)),))

    def tokens(self, text: str) -> list[Token]:
        return analysis.tokens(self._connection, text)
