"""`plait.protocols.Transaction` for SQLite.

Loaded only by writers. Nothing here decides between facts; see `plait.facts`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw

from plait.protocols import (
    Entry,
    Rivals,
    Standing,
    State,
    Trashed,
    Unembedded,
    Vector,
    Written,
)
from plait.stores.sqlite import cache, documents, generations, histories, relations, signals, trash
from plait.stores.sqlite.audit import Recorder, erase_project
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.documents import (
    DOCUMENT_COLUMNS,
    FIELDS,
    document_from,
    document_row,
)
from plait.stores.sqlite.filters import spellings_of
from plait.stores.sqlite.lookup import BY_ID, find_existing, members
from plait.stores.sqlite.scanning import load
from plait.stores.sqlite.state import CHANGED_AT, forget_meta, read_state, set_meta
from plait.stores.sqlite.writer import DocumentWriter
from plait.types import Document, Passage, Ref, Space, Trust
from plait.types.relations import Relation

_COLUMNS = f"SELECT {DOCUMENT_COLUMNS} FROM documents AS d WHERE "  # noqa: S608
_OF_ONE_HOME = "d.project = ? AND coalesce(d.parent, '') = ? AND d.kind = 'observation' "
_OTHERS_STILL = "AND d.id <> ? AND (d.valid_to IS NULL OR d.valid_to > ?) ORDER BY d.rowid"
_SAME_TEXT = _COLUMNS + "d.fingerprint = ? AND " + _OF_ONE_HOME + _OTHERS_STILL
_ON_TOPIC = "d.topic IN (SELECT value FROM json_each(?)) AND "
_SAME_TOPIC = _COLUMNS + _ON_TOPIC + _OF_ONE_HOME + _OTHERS_STILL
_TOPIC_KNOWN = (
    "SELECT 1 FROM documents AS d WHERE " + _ON_TOPIC + _OF_ONE_HOME + "LIMIT 1"  # noqa: S608
)
_CURRENT = (
    "SELECT id, pinned, importance, event_at FROM documents "
    "WHERE parent = ?1 AND kind = 'observation' AND trust = ?2 "
    "AND (valid_from IS NULL OR valid_from <= ?3) AND (valid_to IS NULL OR valid_to > ?3) "
    "ORDER BY rowid"
)
_OPENINGS = (
    "SELECT d.rowid, p.text FROM json_each(?) AS wanted JOIN documents AS d ON d.id = wanted.value "
    "LEFT JOIN passages AS p ON p.document = d.rowid AND p.ordinal = 0 ORDER BY wanted.key"
)
_NEXT_CHANGE = (
    "SELECT min(valid_from) FROM documents WHERE valid_from > ?1 AND parent IS NOT NULL "
    "UNION ALL SELECT min(valid_to) FROM documents WHERE valid_to > ?1 AND parent IS NOT NULL"
)
_CHANGED = (
    "SELECT DISTINCT parent FROM documents WHERE parent IS NOT NULL AND "
    "((valid_from > ?1 AND valid_from <= ?2) OR (valid_to > ?1 AND valid_to <= ?2))"
)
# subtle: only with the last condition can SQLite use the index of turns; else it reads the session.
LAST_TURN = "SELECT max(turn) FROM documents WHERE project = ? AND session = ? AND turn IS NOT NULL"
_LAST_EVENT = (
    "SELECT event_at FROM documents WHERE project = ? AND session = ? AND turn IS NOT NULL "
    "ORDER BY turn DESC LIMIT 1"
)
# Through negative numbers, because every single row must keep its turn unique.
_MOVE_TURNS = (
    "UPDATE documents SET turn = -turn - 1 WHERE project = ?1 AND session = ?2 AND turn >= ?3",
    "UPDATE documents SET turn = -turn WHERE project = ?1 AND session = ?2 AND turn < 0",
)
_TURN_TAKEN = "SELECT 1 FROM documents WHERE project = ? AND session = ? AND turn = ?"
_META_NAMES = {
    "changed_at": CHANGED_AT,
    "indexed_by": "analyzer",
}


class SQLiteTransaction:
    """One transaction on one connection; `finish` writes what was postponed to its end."""

    def __init__(self, connection: apsw.Connection, analyzer: str, *, now: int) -> None:
        # For what reads no passages: new ones are written together, and may not be there yet.
        self._documents = connection
        self._analyzer = analyzer
        self._opened: DocumentWriter | None = None
        self._recorder = Recorder(connection)
        self._state: State | None = None
        self.now = now

    @property
    def state(self) -> State:
        """What the memory said about itself when this was first asked."""
        if self._state is None:
            # Only when asked: it counts what is pending, and a fill of many small transactions
            # would count all of it each time.
            self._state = read_state(self._connection, self._analyzer)
        return self._state

    @property
    def _connection(self) -> apsw.Connection:
        if self._opened is not None:
            self._opened.settle()
        return self._documents

    @property
    def _writer(self) -> DocumentWriter:
        if self._opened is None:
            self._opened = DocumentWriter(self._documents, self._recorder)
        return self._opened

    def finish(self) -> None:
        """Write what was postponed to the end: vectors of new passages, and who changed what."""
        self._write_vectors()
        self._recorder.finish(self.now)

    def _write_vectors(self) -> None:
        if self._opened is not None:
            self._opened.finish()
            self._opened = None

    # -- reading ---------------------------------------------------------------------------

    def known(self, document: Document) -> Document | None:
        """Return the stored document that this one replaces, without its text."""
        existing = find_existing(self._documents, document)
        return None if existing is None else existing[1]

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents, in the order asked for."""
        loaded = {document.id: document for _, document in load(self._connection, ids)}
        return [loaded[id_] for id_ in ids if id_ in loaded]

    def passages(self, document: str) -> list[Passage]:
        """Return the passages of one document, in order."""
        if self._opened is not None:
            self._opened.settle_of(document)
        return documents.passages(self._documents, document, 0, None)

    def rivals(self, document: Document, fingerprint: bytes, moment: int) -> Rivals:
        """Return what an observation may repeat or replace at a moment."""
        home = (document.project or "", document.parent or "")
        still = (*home, document.id, moment)
        same_text = rows(self._documents, _SAME_TEXT, (fingerprint, *still))
        if document.topic is None:
            return Rivals([document_from(row) for row in same_text])
        topic = json.dumps(spellings_of(document.topic))
        same_topic = rows(self._documents, _SAME_TOPIC, (topic, *still))
        known = same_topic or self._documents.execute(_TOPIC_KNOWN, (topic, *home)).get
        return Rivals(
            [document_from(row) for row in same_text],
            [document_from(row) for row in same_topic],
            topic_is_new=not known,
        )

    def members(self, entities: Sequence[str]) -> list[str]:
        """Return the ids of the documents that belong to these entities."""
        return members(self._connection, entities)

    def current_observations(self, entity: str, trust: Trust, moment: int) -> list[Standing]:
        """Return the observations of an entity that hold at a moment, as first written."""
        return [
            Standing(id_, bool(pinned), importance, event_at)
            for id_, pinned, importance, event_at in rows(
                self._documents, _CURRENT, (entity, trust, moment)
            )
        ]

    def openings(self, ids: Sequence[str]) -> list[str]:
        """Return the first passage of each document, in the order asked for."""
        waiting = {} if self._opened is None else self._opened.waiting_openings()
        openings = (
            waiting.get(row) if text is None else text
            for row, text in rows(self._documents, _OPENINGS, (json.dumps(list(ids)),))
        )
        return [text for text in openings if isinstance(text, str)]  # `doctor` tells the others

    def entities_changed(self, since: int, until: int) -> list[str]:
        """Return entities with an observation that began or ended in between."""
        return [entity for (entity,) in rows(self._connection, _CHANGED, (since, until))]

    def next_change(self, moment: int) -> int | None:
        """Return when the next observation of any entity begins or ends."""
        # One that is no number is left out: every later read would fail on it.
        changes = [
            at for (at,) in rows(self._connection, _NEXT_CHANGE, (moment,)) if type(at) is int
        ]
        return min(changes, default=None)

    def next_turn(self, project: str | None, session: str, wanted: int | None = None) -> int:
        """Return the ``wanted`` turn number of a session if it is free, else the next one."""
        home = (project or "", session)
        if wanted is not None and not self._documents.execute(_TURN_TAKEN, (*home, wanted)).get:
            return wanted
        last = self._documents.execute(LAST_TURN, home).get or 0
        if not isinstance(last, int):
            raise apsw.CorruptError("the turn of a message is not a number")
        return 1 + last

    def last_event(self, project: str | None, session: str) -> int | None:
        """Return the time of a session's last turn; ``None`` if it has none."""
        last = self._documents.execute(_LAST_EVENT, (project or "", session)).get
        if not isinstance(last, int | None):
            raise apsw.CorruptError("the time of a message is not a number")
        return last

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the id of the successor of each of these documents."""
        return documents.successors(self._connection, ids)

    def edges(self, source: str, target: str, type: str) -> list[Relation]:
        """Return all edges of one type between two entities."""
        return relations.between(self._connection, source, target, type)

    def trashed(
        self,
        ids: Sequence[str] | None = None,
        *,
        related: bool = True,
        texts: bool = True,
    ) -> list[Trashed]:
        """Return what can be restored, the latest delete first; without ``texts``: no passages."""
        return trash.listed(self._connection, ids, related=related, texts=texts)

    # -- writing ---------------------------------------------------------------------------

    def write(
        self, entry: Entry, *, fingerprint: bytes | None = None, keep_use: bool = False
    ) -> Written:
        """Write a whole document; it replaces the one with the same id."""
        return self._writer.write(entry, fingerprint, keep_use=keep_use)

    def free_turn(self, project: str | None, session: str, turn: int) -> None:
        """If a message of a session has this turn number, move it and all later ones up by one."""
        home = (project or "", session)
        if self._connection.execute(_TURN_TAKEN, (*home, turn)).get:
            self._connection.execute(_MOVE_TURNS[0], (*home, turn))
            self._connection.execute(_MOVE_TURNS[1], home)

    def amend(self, id: str, **fields: Any) -> None:
        """Change fields of a document; its text and its passages stay."""
        row = document_row(Document()._replace(**fields))
        places = [FIELDS.index(name) for name in fields]
        values = [row[place] for place in places]
        changes = ", ".join(f"{FIELDS[place]} = ?" for place in places)
        sql = f"UPDATE documents SET {changes} WHERE id = ?"  # noqa: S608
        before = self._documents.execute(BY_ID, (id,)).fetchone()
        self._connection.execute(sql, (*values, id))
        if before is not None:
            changed = dict(zip(places, values, strict=True))
            after = [changed.get(place, value) for place, value in enumerate(before[1:])]
            self._recorder.change(id, before[1:], after)
        if {"title", "tags", "key", "metadata"} & fields.keys():
            self._writer.retitle(id)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents with all that belongs to them; return the number of passages."""
        return self._writer.delete(ids)

    def put_edge(self, relation: Relation) -> None:
        """Write an edge; it replaces the one with the same ends, type and ``created_at``."""
        relations.put(self._connection, relation)
        self._recorder.relate(relation)

    def drop_edge(self, relation: Relation) -> None:
        """Delete an edge."""
        relations.drop(self._connection, relation)
        self._recorder.relate(relation, dropped=True)

    def trash(self, documents: Sequence[Trashed]) -> None:
        """Copy documents that are about to be deleted, and their edges, to the trash."""
        trash.keep(self._connection, documents)

    def set_aside(self, ids: Sequence[str]) -> None:
        """Make deleted documents restorable only by id."""
        trash.set_aside(self._connection, ids)

    def forget(self, ids: Sequence[str], *, edges: bool = True) -> None:
        """Drop documents from the trash; with ``edges``, their edges and audit entries too."""
        trash.forget(self._connection, ids, edges=edges)
        if edges:
            self._recorder.purge(ids)

    def restore_edges(self) -> None:
        """Restore deleted edges whose two ends exist again."""
        relations.revive(self._connection)

    def expire(self, before: int) -> None:
        """Drop from the trash what was deleted before a moment."""
        trash.expire(self._connection, before)

    def remember(self, **facts: str | None) -> None:
        """Store values about the memory by name; ``None`` drops one."""
        for name, value in facts.items():
            stored = _META_NAMES.get(name, name)
            if name.startswith(histories.PREFIX):
                histories.keep(self._connection, name, value)
            elif value is None:
                forget_meta(self._connection, stored)
            else:
                set_meta(self._connection, stored, value)

    def touch(self, answers: Sequence[Sequence[Ref]]) -> None:
        """Count passages as read."""
        signals.count(self._connection, answers, self.now)

    def judge(self, refs: Sequence[Ref], *, good: int = 0, wrong: int = 0) -> None:
        """Add to the feedback on passages; without both, take all of it back."""
        self._recorder.judge(refs, good, wrong)
        signals.judge(self._connection, refs, good, wrong)

    def unrecord(self, project: str) -> None:
        """Drop all entries of a project from the audit log."""
        erase_project(self._connection, project)

    def cache(self, vectors: Mapping[str, Vector], used: Iterable[str], most: int) -> None:
        """Cache vectors by the name of their text; keep the ``most`` recently used ones."""
        cache.keep(self._connection, vectors, used, most, self.now)

    def clear_cache(self) -> None:
        """Drop every cached vector, and every cached answer of a chat."""
        cache.forget(self._connection)

    def begin(
        self,
        space: Space,
        *,
        afresh: bool = False,
        sample: Vector | None = None,
        resume: bool = True,
    ) -> bool:
        """Make sure that vectors of this space can be written; return whether searches use them."""
        self._write_vectors()  # the next write must know the new space
        begun = generations.begin(
            self._connection, space, afresh=afresh, sample=sample, resume=resume
        )
        return bool(begun.current)

    def fill(
        self, space: Space, vectors: Sequence[tuple[Unembedded, Vector | None]], *, building: bool
    ) -> int:
        """Write vectors of passages that are still the same; ``None`` marks one as keyword-only."""
        self._write_vectors()  # first, because the new vectors may replace these
        return generations.fill(self._connection, space, vectors, building=building)

    def swap(self, space: Space) -> bool:
        """Make searches use this space if no passage is pending in it; drop the others."""
        self._write_vectors()
        return generations.swap(self._connection, space)
