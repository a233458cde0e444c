"""Documents with their passages and vectors, row by row, inside a caller's transaction.

What a document means beside others is the business of `plait.stores.sqlite.facts`.
"""

import json
from collections.abc import Sequence
from typing import Any

import apsw

from plait import text as words
from plait.protocols import Entry, Vector
from plait.stores.sqlite import vectors
from plait.stores.sqlite.generations import EMBEDDED, UNEMBEDDED, begin, generations, space_text
from plait.stores.sqlite.rows import (
    DOCUMENT_COLUMNS,
    FIELDS,
    document_from,
    document_row,
    new_id,
    passage_hash,
    rows,
)
from plait.types import Document, Passage, Ref, Space

BY_ID = f"SELECT d.rowid, {DOCUMENT_COLUMNS} FROM documents AS d WHERE d.id = ?"  # noqa: S608
_BY_NAME = (
    f"SELECT d.rowid, {DOCUMENT_COLUMNS} FROM documents AS d "  # noqa: S608
    "WHERE d.project = ? AND d.source = ? AND d.key = ?"
)
# The caller's own project comes first, so that a path that several have known keeps its document.
_BY_PATH = (
    f"SELECT d.rowid, {DOCUMENT_COLUMNS} FROM documents AS d "  # noqa: S608
    "WHERE d.kind = 'file' AND d.path = ? ORDER BY d.project <> ?, d.rowid LIMIT 1"
)
_OLD_PASSAGES = (
    "SELECT rowid, hash, ordinal, start, start_line, end_line FROM passages WHERE document = ?"
)
_INSERT_DOCUMENT = (
    f"INSERT INTO documents ({', '.join(FIELDS)}, preface, fingerprint) "  # noqa: S608
    f"VALUES ({', '.join('?' * (len(FIELDS) + 2))})"
)
_UPDATE_DOCUMENT = (
    f"UPDATE documents SET {', '.join(name + ' = ?' for name in FIELDS)}, "  # noqa: S608
    "preface = ?, fingerprint = ? WHERE rowid = ?"
)
_INSERT_PASSAGE = (
    "INSERT INTO passages (id, document, ordinal, start, start_line, end_line, heading, text, "
    "title_terms, heading_terms, text_terms, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_PASSAGE_ID_TAKEN = "SELECT 1 FROM passages WHERE id = ?"
_MOVE_PASSAGE = (
    "UPDATE passages SET ordinal = ?, start = ?, start_line = ?, end_line = ? WHERE rowid = ?"
)
RETITLE = "UPDATE passages SET title_terms = ? WHERE document = ? AND title_terms <> ?"


def name_terms(document: Document) -> str:
    """What the title column indexes: title, tags and the file's own name, once each."""
    parts = [document.title, *document.tags]
    if document.kind == "file" and document.key:
        stem = document.key.rsplit("/", 1)[-1].rsplit(".", 1)[0]
        if stem.casefold() not in document.title.casefold():
            parts.append(stem)
    joined = " ".join(part for part in parts if part)
    return words.split(joined) or joined


def find_existing(connection: apsw.Connection, document: Document) -> tuple[int, Document] | None:
    """The stored document that this one replaces.

    It has the same id, else the same project, source and key. A file is known by its path too, so
    that a folder read first alone and then as part of another is not kept twice.
    """
    row = None
    if document.id:
        row = connection.execute(BY_ID, (document.id,)).fetchone()
    if row is None and document.key is not None:
        name = (document.project or "", document.source, document.key)
        row = connection.execute(_BY_NAME, name).fetchone()
    if row is None and document.kind == "file" and document.path is not None:
        place = (document.path, document.project or "")
        row = connection.execute(_BY_PATH, place).fetchone()
    return None if row is None else (row[0], document_from(row[1:]))


_SPLIT = "SELECT rowid, heading, text, heading_terms, text_terms FROM passages"


class Writer:
    """Writes documents with their passages; the vector blocks are patched once, at its end."""

    def __init__(self, connection: apsw.Connection, entries: Sequence[Entry] = ()) -> None:
        self._connection = connection
        for space in {entry.space for entry in entries if entry.space is not None}:
            # Beside a current generation of another space new passages simply stay pending.
            if not generations(connection):
                begin(connection, space)
        self._generations = generations(connection)
        self._rows: dict[int, dict[Ref, bytes | None]] = {
            generation.id: {} for generation in self._generations
        }

    def finish(self) -> None:
        """Patch the vector blocks."""
        for generation in self._generations:
            patches = self._rows[generation.id]
            vectors.write(self._connection, generation.id, generation.dims, patches)

    def _insert(self, document: Document, entry: Entry, mark: bytes | None) -> int:
        values = [*document_row(document), _preface(entry), mark]
        self._connection.execute(_INSERT_DOCUMENT, values)
        return self._connection.last_insert_rowid()

    def _update(
        self, rowid: int, old: Document, document: Document, entry: Entry, mark: bytes | None
    ) -> Document:
        document = document._replace(id=old.id, created_at=old.created_at)
        if document.sha256 is not None and document.sha256 == old.sha256:
            document = document._replace(updated_at=old.updated_at)
        values = [*document_row(document), _preface(entry), mark, rowid]
        self._connection.execute(_UPDATE_DOCUMENT, values)
        return document

    def _passages(self, rowid: int, document: Document, old: Document | None, entry: Entry) -> int:
        """Keep what is unchanged, write what is new, drop what is gone; how many stay pending."""
        connection = self._connection
        kept: dict[bytes, list[tuple[Any, ...]]] = {}
        if old is not None:
            for row in rows(connection, _OLD_PASSAGES, (rowid,)):
                kept.setdefault(row[1], []).append(row)
        retitled = old is not None and old.title != document.title
        title = name_terms(document)
        marks = [passage_hash(passage.heading, passage.text) for passage in entry.passages]
        twins = [kept[mark].pop(0) if kept.get(mark) else None for mark in marks]
        # First, so that a passage of an import may keep its id although its text was edited.
        self.remove([row[0] for left in kept.values() for row in left])
        pending = 0
        for place, passage in enumerate(entry.passages):
            vector = entry.vectors[place] if place < len(entry.vectors) else None
            twin = twins[place]
            fresh = twin is None
            if twin is None:
                ref = self._add(rowid, passage, title, marks[place])
            else:
                ref = self._keep(twin, passage)
            if fresh or retitled or vector is not None:
                reason = "declined" if place in entry.declined else "pending"
                pending += self._embed(ref, vector, entry.space, reason, fresh=fresh)
        if old is not None:
            connection.execute(RETITLE, (title, rowid, title))
        return pending

    def _keep(self, row: tuple[Any, ...], passage: Passage) -> Ref:
        ref, _, *place = row
        moved = [passage.ordinal, passage.start, passage.start_line, passage.end_line]
        if place != moved:
            self._connection.execute(_MOVE_PASSAGE, (*moved, ref))
        return int(ref)

    def _free_id(self, wanted: str) -> str:
        """The id that an import or undo asks for, unless another document's passage has it."""
        if not wanted or self._connection.execute(_PASSAGE_ID_TAKEN, (wanted,)).get:
            return new_id()
        return wanted

    def _add(self, rowid: int, passage: Passage, title: str, mark: bytes) -> Ref:
        self._connection.execute(
            _INSERT_PASSAGE,
            (
                self._free_id(passage.id),
                rowid,
                passage.ordinal,
                passage.start,
                passage.start_line,
                passage.end_line,
                passage.heading,
                passage.text,
                title,
                words.split(passage.heading),
                words.split(passage.text),
                mark,
            ),
        )
        return self._connection.last_insert_rowid()

    def _embed(
        self, ref: Ref, vector: Vector | None, space: Space | None, reason: str, *, fresh: bool
    ) -> int:
        """Give a passage its vector in every generation; 1 when the current one still waits."""
        waiting = 0
        name = None if space is None else space_text(space)
        for generation in self._generations:
            if vector is not None and generation.space == name:
                self._rows[generation.id][ref] = vectors.quantise(vector, generation.dims)
                self._connection.execute(EMBEDDED, (generation.id, ref))
            elif generation.current or ref <= generation.filled_to:
                if not fresh:
                    self._rows[generation.id][ref] = None
                mine = reason if generation.space == name else "pending"
                self._connection.execute(UNEMBEDDED, (generation.id, ref, mine))
                waiting += generation.current and mine == "pending"
        return waiting

    def remove(self, refs: Sequence[Ref]) -> None:
        """Delete passages; triggers take them out of the keyword index."""
        if not refs:
            return
        self._connection.execute(
            "DELETE FROM passages WHERE rowid IN (SELECT value FROM json_each(?))",
            (json.dumps(list(refs)),),
        )
        for generation in self._generations:
            self._rows[generation.id].update(dict.fromkeys(refs))

    def delete(self, rowid: int) -> int:
        """Delete a document with its passages; how many there were."""
        refs = [
            ref
            for (ref,) in self._connection.execute(
                "SELECT rowid FROM passages WHERE document = ?", (rowid,)
            )
        ]
        self.remove(refs)
        self._connection.execute("DELETE FROM documents WHERE rowid = ?", (rowid,))
        return len(refs)


def _preface(entry: Entry) -> str:
    """The front matter: what of the text lies before the first passage."""
    if not entry.passages:
        return entry.document.text
    last = entry.passages[-1]
    body = last.start + len(last.text)
    return entry.document.text[: len(entry.document.text) - body]


def split_afresh(connection: apsw.Connection) -> None:
    """Bring the pre-split forms up to today's rules."""
    stale = []
    for rowid, heading, text, *old in rows(connection, _SPLIT):
        if not (isinstance(heading, str) and isinstance(text, str)):
            raise apsw.CorruptError(f"passage {rowid} is no text")  # half-written pages read so
        fresh = [words.split(heading), words.split(text)]
        if fresh != old:
            stale.append((*fresh, rowid))
    connection.executemany(
        "UPDATE passages SET heading_terms = ?, text_terms = ? WHERE rowid = ?", stale
    )
