"""Write documents with their passages and vectors, in a caller's transaction."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import apsw

from plait.protocols import Entry, Vector, Written
from plait.stores.sqlite import blocks, signals, steps
from plait.stores.sqlite.audit import Recorder
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.documents import (
    DOCUMENT_COLUMNS,
    FIELDS,
    document_from,
    document_row,
    metadata_text,
    passage_hash,
)
from plait.stores.sqlite.filters import LIST_TAGS_OF_NEW
from plait.stores.sqlite.generations import EMBEDDED, UNEMBEDDED, begin
from plait.stores.sqlite.lookup import BY_ID
from plait.stores.sqlite.stale_terms import erased_later
from plait.stores.sqlite.state import generations, space_text
from plait.text import names_of
from plait.text.columns import split_columns, split_terms
from plait.types import Document, Passage, Ref, Space
from plait.types.ids import new_id

_CHUNK_COUNT_AT = FIELDS.index("chunk_count")
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
_PASSAGE_FIELDS = (
    *("rowid", "id", "document", "ordinal", "start", "start_line", "end_line", "heading", "text"),
    *("title_terms", "heading_terms", "text_terms", "hash"),
)
_DOCUMENT, _ORDINAL, _TEXT = map(_PASSAGE_FIELDS.index, ("document", "ordinal", "text"))
_INSERT_PASSAGES = f"INSERT INTO passages ({', '.join(_PASSAGE_FIELDS)}) VALUES "  # noqa: S608
_PASSAGE = f"({','.join('?' * len(_PASSAGE_FIELDS))})"
# Passages that one statement inserts: few different statements, which are then compiled once, but
# for the largest. FTS5 makes a segment of what each inserts, and has to merge these later.
_AT_ONCE = (1024, 256, 64, 16, 4, 2, 1)
_LAST_PASSAGE = (
    "SELECT max(coalesce((SELECT max(rowid) FROM passages), 0), "
    "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'passages'), 0))"
)
_PASSAGES_OF = (
    "SELECT p.rowid FROM json_each(?) AS wanted JOIN documents AS d ON d.id = wanted.value "
    "JOIN passages AS p ON p.document = d.rowid"
)
_DOOMED = (
    f"SELECT d.id, {DOCUMENT_COLUMNS} FROM documents AS d "  # noqa: S608
    "WHERE d.id IN (SELECT value FROM json_each(?))"
)
_DELETE_DOCUMENTS = "DELETE FROM documents WHERE id IN (SELECT value FROM json_each(?))"
_TITLE, _HASH, _TAGS = map(FIELDS.index, ("title", "sha256", "tags"))
_PASSAGE_ID_TAKEN = "SELECT 1 FROM passages WHERE id = ?"
_MOVE_PASSAGE = (
    "UPDATE passages SET ordinal = ?, start = ?, start_line = ?, end_line = ? WHERE rowid = ?"
)
_HAS_OTHER_TITLE = (
    "SELECT 1 FROM passages "
    "WHERE document = ?1 AND title_terms <> CASE WHEN ordinal = 0 THEN ?2 ELSE ?3 END LIMIT 1"
)
_RETITLE_FIRST = (
    "UPDATE passages SET title_terms = ?1 WHERE document = ?2 AND ordinal = 0 AND title_terms <> ?1"
)
_RETITLE_OTHERS = (
    "UPDATE passages SET title_terms = ?1 WHERE document = ?2 AND ordinal > 0 AND title_terms <> ?1"
)


def title_columns(document: Document) -> tuple[str, str]:
    """Return what the title column indexes of the first passage, and of the others."""
    first = names_of(document)
    if not first:
        return "", ""
    others = names_of(document, 1)
    whole = split_terms(first) or first
    return whole, whole if others == first else split_terms(others) or others


class DocumentWriter:
    """Writes documents with their passages; `finish` writes all vectors at once.

    New passages are collected until `settle`: at the end of each statement that inserts some, FTS5
    writes out its part of the index, which for single ones takes longer than to read their words.
    """

    def __init__(self, connection: apsw.Connection, recorder: Recorder) -> None:
        self._connection = connection
        self._recorder = recorder
        self._generations = generations(connection)
        self._rows: dict[int, dict[Ref, bytes | None]] = {
            generation.id: {} for generation in self._generations
        }
        # Rows of passages that were not written yet, and what to note of them afterwards.
        self._added: list[tuple[Any, ...]] = []
        # Documents that have some of them, and the ids that those passages were given.
        self._waiting: set[str] = set()
        self._given_ids: set[str] = set()
        self._unembedded: list[tuple[int, Ref, str]] = []
        self._steps: list[tuple[Any, ...]] = []
        self._last: Ref | None = None
        # The metadata of the last document as it is stored: all messages of a session share it.
        self._metadata: tuple[Mapping[str, str], str] | None = None
        # The space of the last vector as `generations` has it: nearly always the same.
        self._space: tuple[Space, str] | None = None

    def settle(self) -> None:
        """Write the passages that were collected; call it before anything reads passages."""
        if self._steps:
            taken, self._steps = self._steps, []
            steps.add(self._connection, taken)
        added, self._added = self._added, []
        self._waiting.clear()
        self._given_ids.clear()
        place = 0
        for most in _AT_ONCE:
            while len(added) - place >= most:
                values = chain.from_iterable(added[place : place + most])
                sql = _INSERT_PASSAGES + ",".join([_PASSAGE] * most)
                self._connection.execute(sql, tuple(values))
                place += most
        if self._unembedded:
            rows_, self._unembedded = self._unembedded, []
            self._connection.executemany(UNEMBEDDED, rows_)

    def settle_of(self, document: str) -> None:
        """Write the passages that were collected if some are of this document."""
        if document in self._waiting:
            self.settle()

    def waiting_openings(self) -> dict[int, str]:
        """Return the first passages of documents that were not written yet, by row."""
        return {row[_DOCUMENT]: row[_TEXT] for row in self._added if row[_ORDINAL] == 0}

    def finish(self) -> None:
        """Write what was collected, and the vectors of passages that were written or removed."""
        self.settle()
        for generation in self._generations:
            patches = self._rows[generation.id]
            blocks.write(self._connection, generation.id, generation.dims, patches)

    def write(self, entry: Entry, fingerprint: bytes | None, *, keep_use: bool) -> Written:
        """Write a whole document; it replaces the one with the same id."""
        if entry.space is not None and not self._generations:
            # If the current generation is of another space, new passages simply stay pending.
            self._generations = [begin(self._connection, entry.space)]
            self._rows[self._generations[0].id] = {}
        document, fields = entry.document, self._fields_of(entry)
        values = [*fields, preface_of(entry), fingerprint]
        row = None
        if not entry.is_new:
            row = self._connection.execute(BY_ID, (document.id,)).fetchone()
        if keep_use:  # a profile repeats what other documents say
            self._recorder.tallies.move(row and row[1:], fields)
        else:
            self._recorder.change(document.id, row and row[1:], fields)
            self._recorder.wrote(document.id, document.origin)
        if row is None:
            self._connection.execute(_INSERT_DOCUMENT, values)
            rowid, old_title, use = self._connection.last_insert_rowid(), None, None
            if document.tags:
                self._connection.execute(LIST_TAGS_OF_NEW, (rowid, fields[_TAGS]))
            if entry.steps:
                self._steps += steps.rows_of(rowid, entry.steps)
        else:
            self.settle_of(document.id)
            rowid, old_title, old_hash = row[0], row[1 + _TITLE], row[1 + _HASH]
            # Other words may tell of other steps.
            if entry.steps is not None or old_hash != document.sha256:
                steps.write(self._connection, rowid, entry.steps or ())
            use = signals.keep(self._connection, rowid) if keep_use else None
            self._connection.execute(_UPDATE_DOCUMENT, (*values, rowid))
        pending = self._passages(rowid, document, old_title, entry, is_profile=keep_use)
        self._waiting.add(document.id)
        if use is not None and (use.reads or use.pairs):
            self.settle()
            signals.hand_on(self._connection, use, rowid)
        if entry.use:
            self.settle()
            signals.restore(self._connection, rowid, entry.use)
        return Written(len(entry.passages), pending)

    def _fields_of(self, entry: Entry) -> list[Any]:
        """Return the columns of a document that is written with its passages."""
        metadata = entry.document.metadata
        if self._metadata is None or self._metadata[0] is not metadata:
            self._metadata = (metadata, metadata_text(metadata))
        fields = document_row(entry.document, self._metadata[1])
        fields[_CHUNK_COUNT_AT] = len(entry.passages)
        return fields

    def _passages(
        self,
        rowid: int,
        document: Document,
        old_title: str | None,
        entry: Entry,
        *,
        is_profile: bool,
    ) -> int:
        """Keep what is unchanged, write what is new, drop what is gone; how many stay pending.

        ``old_title`` is ``None`` for a document that was not stored before.
        """
        titles = title_columns(document)
        marks = [passage_hash(passage.heading, passage.text) for passage in entry.passages]
        if old_title is None:
            return self._all_new(rowid, entry, titles, marks)
        connection = self._connection
        kept: dict[bytes, list[tuple[Any, ...]]] = {}
        for row in rows(connection, _OLD_PASSAGES, (rowid,)):
            kept.setdefault(row[1], []).append(row)
        retitled = old_title != document.title
        twins = [kept[mark].pop(0) if kept.get(mark) else None for mark in marks]
        # First, so that a passage of an import may keep its id although its text was edited.
        gone = [row[0] for left in kept.values() for row in left]
        if is_profile and gone:
            with erased_later(connection):
                self.remove(gone)
        else:
            self.remove(gone)
        pending = 0
        for place, passage in enumerate(entry.passages):
            vector = entry.vectors[place] if place < len(entry.vectors) else None
            twin = twins[place]
            fresh = twin is None
            if twin is None:
                ref = self._add(rowid, passage, titles[passage.ordinal > 0], marks[place])
            else:
                ref = self._keep(twin, passage)
            if fresh or retitled or vector is not None:
                reason = "declined" if place in entry.declined else "pending"
                pending += self._embed(ref, vector, entry.space, reason, fresh=fresh)
        self._retitle(rowid, titles)
        return pending

    def _all_new(
        self, rowid: int, entry: Entry, titles: tuple[str, str], marks: Sequence[bytes]
    ) -> int:
        """Write the passages of a new document; return how many stay pending."""
        pending, vectors = 0, entry.vectors
        for place, passage in enumerate(entry.passages):
            ref = self._add(rowid, passage, titles[passage.ordinal > 0], marks[place])
            vector = vectors[place] if place < len(vectors) else None
            reason = "declined" if place in entry.declined else "pending"
            pending += self._embed(ref, vector, entry.space, reason, fresh=True)
        return pending

    def _keep(self, row: tuple[Any, ...], passage: Passage) -> Ref:
        ref, _, *place = row
        moved = [passage.ordinal, passage.start, passage.start_line, passage.end_line]
        if place != moved:
            self._connection.execute(_MOVE_PASSAGE, (*moved, ref))
        return int(ref)

    def _free_id(self, wanted: str) -> str:
        """Return the id that an import or undo wants, unless another document's passage has it."""
        if wanted in self._given_ids:
            return new_id()
        if self._connection.execute(_PASSAGE_ID_TAKEN, (wanted,)).get:
            return new_id()
        self._given_ids.add(wanted)
        return wanted

    def _add(self, rowid: int, passage: Passage, title: str, mark: bytes) -> Ref:
        if len(self._added) >= _AT_ONCE[0]:
            self.settle()
        id_ = self._free_id(passage.id) if passage.id else new_id()
        if self._last is None:
            self._last = int(self._connection.execute(_LAST_PASSAGE).get)
        self._last += 1
        self._added.append(
            (
                self._last,
                id_,
                rowid,
                passage.ordinal,
                passage.start,
                passage.start_line,
                passage.end_line,
                passage.heading,
                passage.text,
                title,
                *split_columns(passage.heading, passage.text),
                mark,
            )
        )
        return self._last

    def _embed(
        self, ref: Ref, vector: Vector | None, space: Space | None, reason: str, *, fresh: bool
    ) -> int:
        """Write a passage's vector to every generation; return 1 if it stays pending."""
        waiting = 0
        name = None if space is None else self._name_of(space)
        for generation in self._generations:
            if vector is not None and generation.space == name:
                self._rows[generation.id][ref] = blocks.quantised(vector, generation.dims)
                if not fresh:
                    self._connection.execute(EMBEDDED, (generation.id, ref))
            else:
                if not fresh:
                    self._rows[generation.id][ref] = None
                mine = reason if generation.space == name else "pending"
                self._unembedded.append((generation.id, ref, mine))
                waiting += generation.current and mine == "pending"
        return waiting

    def _name_of(self, space: Space) -> str:
        if self._space is None or self._space[0] is not space:
            self._space = (space, space_text(space))
        return self._space[1]

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

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents with their passages; return how many passages there were.

        All of them by one statement: each statement makes FTS5 write out its part of the index.
        """
        self.settle()
        listed = json.dumps(list(ids))
        refs = [ref for (ref,) in rows(self._connection, _PASSAGES_OF, (listed,))]
        for id_, *row in rows(self._connection, _DOOMED, (listed,)):
            self._recorder.change(id_, row, None)
        self.remove(refs)
        self._connection.execute(_DELETE_DOCUMENTS, (listed,))
        return len(refs)

    def retitle(self, id_: str) -> None:
        """Index the passages of a document under its present title, tags and key."""
        self.settle()
        for rowid, *row in rows(self._connection, BY_ID, (id_,)):
            self._retitle(rowid, title_columns(document_from(row)))

    def _retitle(self, rowid: int, titles: tuple[str, str]) -> None:
        first, others = titles
        # An update, even of nothing, makes FTS5 write out its part of the index.
        if not self._connection.execute(_HAS_OTHER_TITLE, (rowid, first, others)).get:
            return
        self._connection.execute(_RETITLE_FIRST, (first, rowid))
        self._connection.execute(_RETITLE_OTHERS, (others, rowid))


def preface_of(entry: Entry) -> str:
    """Return the front matter: the text before the first passage."""
    if not entry.passages:
        return entry.document.text
    last = entry.passages[-1]
    body = last.start + len(last.text)
    return entry.document.text[: len(entry.document.text) - body]
