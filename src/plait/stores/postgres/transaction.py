"""`plait.protocols.Transaction` for PostgreSQL. Nothing here decides between facts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from plait.stores.postgres import (
    cache,
    documents,
    generations,
    histories,
    relations,
    signals,
    trash,
)
from plait.stores.postgres.audit import Recorder, erase_project
from plait.stores.postgres.commits import Write
from plait.stores.postgres.connection import Channel
from plait.stores.postgres.documents import by_id, document_from, plain_row, row_of
from plait.stores.postgres.labels import refuse_member
from plait.stores.postgres.sharing import Sharing, follow_project, share
from plait.stores.postgres.state import OF_STATE, answering, set_fact, state_of
from plait.stores.postgres.state import generations as all_generations
from plait.stores.postgres.writer import DocumentWriter
from plait.stores.sqlite.documents import DOCUMENT_COLUMNS, FIELDS, document_row
from plait.stores.sqlite.filters import spellings_of
from plait.stores.sqlite.histories import PREFIX
from plait.stores.sqlite.state import CHANGED_AT, Generation
from plait.types import Document, Passage, Ref, Space, Trust
from plait.types.relations import Relation
from plait.types.visibility import Visibility

_COLUMNS = f"SELECT {DOCUMENT_COLUMNS} FROM plait.documents AS d WHERE d.ns = %(ns)s AND "  # noqa: S608
_OF_ONE_HOME = (
    "d.project = %(project)s AND coalesce(d.parent, '') = %(parent)s AND d.kind = 'observation' "
    "AND d.label = %(label)s "
)
_OTHERS_STILL = (
    "AND d.id <> %(id)s AND (d.valid_to IS NULL OR d.valid_to > %(moment)s) ORDER BY d.place"
)
_SAME_TEXT = _COLUMNS + "d.fingerprint = %(fingerprint)s AND " + _OF_ONE_HOME + _OTHERS_STILL
_ON_TOPIC = "d.topic = ANY(%(topics)s) AND "
_SAME_TOPIC = _COLUMNS + _ON_TOPIC + _OF_ONE_HOME + _OTHERS_STILL
_TOPIC_KNOWN = (
    "SELECT 1 FROM plait.documents AS d WHERE d.ns = %(ns)s AND "  # noqa: S608
    f"{_ON_TOPIC}{_OF_ONE_HOME} LIMIT 1"
)
# Only facts that the same people see: a profile repeats them.
_CURRENT = (
    "SELECT d.id, d.pinned, d.importance, d.event_at FROM plait.documents AS d "
    "WHERE d.ns = %(ns)s AND d.parent = %(entity)s AND d.kind = 'observation' "
    "AND d.trust = %(trust)s AND NOT EXISTS (SELECT 1 FROM plait.documents AS e "
    "WHERE e.ns = %(ns)s AND e.id = %(entity)s AND e.label <> d.label) "
    "AND (d.valid_from IS NULL OR d.valid_from <= %(moment)s) "
    "AND (d.valid_to IS NULL OR d.valid_to > %(moment)s) ORDER BY d.place"
)
_OPENINGS = (
    "SELECT d.id, p.text FROM plait.documents AS d JOIN plait.passages AS p "
    "ON p.ns = %(ns)s AND p.document = d.place AND p.label = d.label AND p.ordinal = 0 "
    "WHERE d.ns = %(ns)s AND d.id = ANY(%(ids)s)"
)
_NEXT_CHANGE = (
    "SELECT least((SELECT min(valid_from) FROM plait.documents WHERE ns = %(ns)s "
    "AND valid_from > %(moment)s AND parent IS NOT NULL), (SELECT min(valid_to) "
    "FROM plait.documents WHERE ns = %(ns)s AND valid_to > %(moment)s AND parent IS NOT NULL))"
)
_CHANGED = (
    "SELECT parent FROM plait.documents WHERE ns = %(ns)s AND parent IS NOT NULL AND "
    "((valid_from > %(since)s AND valid_from <= %(until)s) "
    "OR (valid_to > %(since)s AND valid_to <= %(until)s)) GROUP BY parent ORDER BY min(place)"
)
_IN_SESSION = "WHERE ns = %(ns)s AND project = %(project)s AND session = %(session)s"
_LAST_TURN = f"SELECT max(turn) FROM plait.documents {_IN_SESSION} AND turn IS NOT NULL"  # noqa: S608
_LAST_EVENT = (
    f"SELECT event_at FROM plait.documents {_IN_SESSION} AND turn IS NOT NULL "  # noqa: S608
    "ORDER BY turn DESC LIMIT 1"
)
# Through negative numbers, because every single row must keep its turn unique.
_MOVE_TURNS = (
    f"UPDATE plait.documents SET turn = -turn - 1 {_IN_SESSION} AND turn >= %(turn)s",  # noqa: S608
    f"UPDATE plait.documents SET turn = -turn {_IN_SESSION} AND turn < 0",  # noqa: S608
)
_TURN_TAKEN = f"SELECT 1 FROM plait.documents {_IN_SESSION} AND turn = %(turn)s"  # noqa: S608
_FACT_NAMES = {"changed_at": CHANGED_AT, "indexed_by": "analyzer"}


class PostgresTransaction:
    """One transaction on one connection; `finish` writes what was postponed to its end."""

    def __init__(self, session: Write, analyzer: str, *, now: int, has_vectors: bool) -> None:
        # For what reads no passages: new ones are written together, and may not be there yet.
        self._documents = session
        self._analyzer = analyzer
        self._has_vectors = has_vectors
        self._opened: DocumentWriter | None = None
        self._recorder = Recorder(session)
        self._sharing = Sharing(session, now)
        self._state: State | None = None
        self._spaces: list[Generation] | None = None
        self.now = now

    @property
    def state(self) -> State:
        """What the memory said about itself when this was first asked."""
        if self._state is None:
            answers = self._session.together(*OF_STATE)
            self._state = state_of(answers, self._analyzer, has_vectors=self._has_vectors)
            if self._opened is None:
                self._spaces = [Generation(*row) for row in answers[1]]
        return self._state

    @property
    def _session(self) -> Channel:
        if self._opened is not None:
            self._opened.settle()
        return self._documents

    @property
    def _writer(self) -> DocumentWriter:
        if self._opened is None:
            session, recorder = self._documents, self._recorder
            spaces = all_generations(session) if self._spaces is None else self._spaces
            self._opened = DocumentWriter(session, recorder, spaces, has_vectors=self._has_vectors)
        return self._opened

    def finish(self) -> None:
        """Write what was postponed to the end: new passages, and who changed what."""
        self._write_vectors()
        self._recorder.finish(self.now)

    def _write_vectors(self) -> None:
        self._spaces = None  # what follows may change them
        if self._opened is not None:
            self._opened.finish()
            self._opened = None

    # -- reading ---------------------------------------------------------------------------

    def known(self, document: Document) -> Document | None:
        """Return the stored document that this one replaces, without its text."""
        return self._sharing.existing(document)

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents, in the order asked for."""
        return documents.load(self._session, ids)

    def passages(self, document: str) -> list[Passage]:
        """Return the passages of one document, in order."""
        return documents.passages(self._session, document, 0, None)

    def rivals(self, document: Document, fingerprint: bytes, moment: int) -> Rivals:
        """Return what an observation may repeat or replace at a moment."""
        values: dict[str, Any] = {
            "project": document.project or "",
            "parent": document.parent or "",
            "id": document.id,
            "moment": moment,
            "fingerprint": fingerprint,
            "label": self._sharing.label(document),
        }
        same_text = [document_from(row) for row in self._documents.rows(_SAME_TEXT, values)]
        if document.topic is None:
            return Rivals(same_text)
        values["topics"] = spellings_of(document.topic)
        same_topic = self._documents.rows(_SAME_TOPIC, values)
        known = same_topic or self._documents.value(_TOPIC_KNOWN, values)
        return Rivals(same_text, [document_from(row) for row in same_topic], topic_is_new=not known)

    def members(self, entities: Sequence[str]) -> list[str]:
        """Return the ids of the documents that belong to these entities."""
        return documents.members(self._documents, entities)

    def current_observations(self, entity: str, trust: Trust, moment: int) -> list[Standing]:
        """Return the observations of an entity that hold at a moment, as first written."""
        listed = self._documents.rows(_CURRENT, entity=entity, trust=trust, moment=moment)
        return [Standing(id_, bool(pinned), *others) for id_, pinned, *others in listed]

    def openings(self, ids: Sequence[str]) -> list[str]:
        """Return the first passage of each document, in the order asked for."""
        texts: dict[str, str] = dict(self._session.rows(_OPENINGS, ids=list(ids)))
        return [texts[id_] for id_ in ids if id_ in texts]

    def entities_changed(self, since: int, until: int) -> list[str]:
        """Return entities with an observation that began or ended in between."""
        listed = self._documents.rows(_CHANGED, since=since, until=until)
        return [entity for (entity,) in listed]

    def next_change(self, moment: int) -> int | None:
        """Return when the next observation of any entity begins or ends."""
        change: int | None = self._documents.value(_NEXT_CHANGE, moment=moment)
        return change

    def next_turn(self, project: str | None, session: str, wanted: int | None = None) -> int:
        """Return the ``wanted`` turn number of a session if it is free, else the next one."""
        home = {"project": project or "", "session": session}
        if wanted is not None and not self._documents.value(_TURN_TAKEN, home, turn=wanted):
            return wanted
        return 1 + (self._documents.value(_LAST_TURN, home) or 0)

    def last_event(self, project: str | None, session: str) -> int | None:
        """Return the time of a session's last turn; ``None`` if it has none."""
        home = {"project": project or "", "session": session}
        last: int | None = self._documents.value(_LAST_EVENT, home)
        return last

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the id of the successor of each of these documents."""
        return documents.successors(self._documents, ids)

    def edges(self, source: str, target: str, type: str) -> list[Relation]:
        """Return all edges of one type between two entities."""
        return relations.between(self._documents, source, target, type)

    def trashed(
        self,
        ids: Sequence[str] | None = None,
        *,
        related: bool = True,
        texts: bool = True,
    ) -> list[Trashed]:
        """Return what can be restored, the latest delete first; without ``texts``: no passages."""
        listed = trash.labelled(self._documents, ids, related=related, texts=texts)
        restores = self._sharing.restores
        return [row for label, row in listed if not texts or restores(row, label)]

    # -- writing ---------------------------------------------------------------------------

    def write(
        self, entry: Entry, *, fingerprint: bytes | None = None, keep_use: bool = False
    ) -> Written:
        """Write a whole document; it replaces the one with the same id."""
        label = self._sharing.label(entry.document)
        # A profile may be outdated at any write, whatever is wanted of that.
        bound = not keep_use and self._sharing.has_label(entry.document)
        return self._writer.write(entry, fingerprint, keep_use=keep_use, label=label, bound=bound)

    def free_turn(self, project: str | None, session: str, turn: int) -> None:
        """If a message of a session has this turn number, move it and all later ones up by one."""
        home = {"project": project or "", "session": session, "turn": turn}
        if self._documents.value(_TURN_TAKEN, home):
            for sql in _MOVE_TURNS:
                self._documents.execute(sql, home)

    def amend(self, id: str, **fields: Any) -> None:
        """Change fields of a document; its text and its passages stay."""
        changed = Document()._replace(**fields)
        row = row_of(changed)
        places = [FIELDS.index(name) for name in fields]
        changes = ", ".join(f"{FIELDS[place]} = %({FIELDS[place]})s" for place in places)
        sql = f"UPDATE plait.documents SET {changes} WHERE ns = %(ns)s AND id = %(own_id)s"  # noqa: S608
        before = by_id(self._documents, id)
        self._sharing.check_amended(id, fields)
        if before is not None and "project" in fields:
            session, has_vectors = self._session, self._has_vectors
            project = changed.project
            follow_project(session, self._recorder, id, project, has_vectors=has_vectors)
        self._documents.execute(sql, {FIELDS[place]: row[place] for place in places}, own_id=id)
        if before is not None:
            after = plain_row(before[1:])
            recorded = document_row(changed)
            for place in places:
                after[place] = recorded[place]
            self._recorder.change(id, plain_row(before[1:]), after)
        if {"title", "tags", "key", "metadata"} & fields.keys():
            self._writer.retitle(id)

    def share(self, ids: Sequence[str], visibility: Visibility) -> list[str]:
        """Change who sees documents, and the facts of entities among them; return their ids."""
        session, has_vectors = self._session, self._has_vectors
        return share(session, self._recorder, ids, visibility, has_vectors=has_vectors)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents with all that belongs to them; return the number of passages."""
        return self._writer.delete(ids)

    def put_edge(self, relation: Relation) -> None:
        """Write an edge; it replaces the one with the same ends, type and ``created_at``."""
        relations.put(self._documents, relation, self._writer.next_number)
        self._recorder.relate(relation)

    def drop_edge(self, relation: Relation) -> None:
        """Delete an edge."""
        relations.drop(self._documents, relation)
        self._recorder.relate(relation, dropped=True)

    def trash(self, documents: Sequence[Trashed]) -> None:
        """Copy documents that are about to be deleted, and their edges, to the trash."""
        labels = self._sharing.deleted_labels
        trash.keep(self._session, documents, self._writer.next_number, labels)

    def set_aside(self, ids: Sequence[str]) -> None:
        """Make deleted documents restorable only by id."""
        trash.set_aside(self._documents, ids, self._sharing.deleted_labels)

    def forget(self, ids: Sequence[str], *, edges: bool = True) -> None:
        """Drop documents from the trash; with ``edges``, their edges and audit entries too."""
        if edges:
            trash.purge(self._session, ids)
            self._recorder.purge(ids)
        else:
            trash.forget(self._session, ids, self._sharing.deleted_labels)

    def restore_edges(self) -> None:
        """Restore deleted edges whose two ends exist again."""
        relations.revive(self._documents, self._writer.next_number)

    def expire(self, before: int) -> None:
        """Drop from the trash what was deleted before a moment."""
        trash.expire(self._documents, before)

    def remember(self, **facts: str | None) -> None:
        """Store values about the memory by name; ``None`` drops one."""
        for name, value in facts.items():
            if name.startswith(PREFIX):
                histories.keep(self._documents, name, value)
            else:
                set_fact(self._documents, _FACT_NAMES.get(name, name), value)

    def touch(self, answers: Sequence[Sequence[Ref]]) -> None:
        """Count passages as read."""
        signals.count(self._session, answers, self.now)

    def judge(self, refs: Sequence[Ref], *, good: int = 0, wrong: int = 0) -> None:
        """Add to the feedback on passages; without both, take all of it back."""
        session = self._session
        self._recorder.judge(refs, good, wrong)
        signals.judge(session, refs, good, wrong)

    def unrecord(self, project: str) -> None:
        """Drop all entries of a project from the audit log."""
        erase_project(self._documents, project)

    def cache(self, vectors: Mapping[str, Vector], used: Iterable[str], most: int) -> None:
        """Cache vectors by the name of their text; keep the ``most`` recently used ones."""
        cache.keep(self._documents, vectors, used, most, self.now)

    def clear_cache(self) -> None:
        """Drop every cached vector, and every cached answer of a chat."""
        cache.forget(self._documents)

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
            self._documents,
            space,
            has_vectors=self._has_vectors,
            afresh=afresh,
            sample=sample,
            resume=resume,
        )
        return bool(begun.current)

    def fill(
        self, space: Space, vectors: Sequence[tuple[Unembedded, Vector | None]], *, building: bool
    ) -> int:
        """Write vectors of passages that are still the same; ``None`` marks one as keyword-only."""
        self._write_vectors()  # first, because the new vectors may replace these
        return generations.fill(self._documents, space, vectors, building=building)

    def swap(self, space: Space) -> bool:
        """Make searches use this space if no passage is pending in it; drop the others."""
        self._write_vectors()
        if self._documents.membership.is_administrator:
            return generations.swap(self._documents, space, has_vectors=self._has_vectors)
        current = answering(self._documents, space)
        if current is None:
            refuse_member(self._documents.membership, "replace vectors")
        return True
