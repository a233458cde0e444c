"""Putting documents in and taking them out, with what one says about the others.

An observation may repeat, replace or contradict what is known; it may belong to an entity, whose
profile then follows. All of it happens inside the transaction of the write that causes it, so that
several processes at once come to the same result as one after the other.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from plait.errors import NotFound
from plait.protocols import Entry, Written
from plait.stores.sqlite import profiles, signals, terms, versions, writing
from plait.stores.sqlite.filters import PROFILES_DUE, present_moment
from plait.stores.sqlite.rows import document_from, document_from_record, fingerprint, new_id
from plait.stores.sqlite.writing import BY_ID, RETITLE, Writer, name_terms
from plait.types import DEFAULT_ENTITY_TYPE, ENTITY_SOURCE, Document, Passage, Ref, Trust

_SAME_OBSERVATION = (
    "SELECT id, chunk_count, topic, supersedes, parent FROM documents WHERE fingerprint = ?1 "
    "AND project = ?2 AND coalesce(parent, '') = ?3 AND trust = ?4 AND id <> ?5 "
    "AND (valid_to IS NULL OR valid_to > ?7) "
    "AND (?8 OR valid_from IS NULL OR valid_from <= ?7) "
    # The same words may stand under several topics.
    "ORDER BY topic IS ?6 DESC, rowid LIMIT 1"
)
_ENTITY = "SELECT id, project, trust FROM documents WHERE project = ? AND source = ? AND key = ?"
_TRUST = "UPDATE documents SET trust = ? WHERE id = ?"
_PROFILE = "SELECT rowid, id FROM passages WHERE document = ?"
_EXISTS = "SELECT 1 FROM documents WHERE id = ?"
_PARENT = "SELECT parent FROM documents WHERE rowid = ?"
# What a second making of an entity may change.
_ENTITY_FIELDS = ("type", "tags", "metadata", "summary", "importance", "pinned", "memory_type")


class _Twin(NamedTuple):
    """A stored observation that says the same as a new one."""

    id: str
    chunks: int
    topic: str | None
    supersedes: str | None
    parent: str | None

    @property
    def written(self) -> Written:
        return Written(self.id, self.chunks, duplicate=True, parent=self.parent)

    def says_all_of(self, document: Document) -> bool:
        """Whether the new one adds nothing: no other topic, nothing else that it replaces."""
        replaces = document.supersedes in (None, self.id, self.supersedes)
        return replaces and self.answers(document.topic)

    def answers(self, topic: str | None) -> bool:
        """Whether it says the same of the same topic, or of none in particular."""
        return topic in (None, self.topic)


class _Home(NamedTuple):
    """The entity that an observation belongs to."""

    id: str
    project: str
    trust: Trust


class FactWriter(Writer):
    """Writes entries in one transaction; profiles and vector blocks are made once, at its end.

    ``now`` is the moment of the transaction, not of the request: what comes first in the file is
    what came first.
    """

    def __init__(
        self, connection: apsw.Connection, entries: Sequence[Entry] = (), *, now: int
    ) -> None:
        super().__init__(connection, entries)
        self._now = now
        self._start: int | None = None
        # Entities whose profile must be made anew, those made here, and ids that got another name.
        self._touched: dict[str, None] = {}
        self._made: set[str] = set()
        self._known_as: dict[str, str] = {}
        # Under which id an export knows a profile.
        self._profile_ids: dict[str, str] = {}
        self._dated = False

    def put_all(self, entries: Sequence[Entry]) -> list[Written]:
        """Write entries, entities before what belongs to them; the answers keep the order."""
        written = {
            place: self.put(entry)
            for place, entry in sorted(
                enumerate(entries), key=lambda pair: pair[1].document.kind != "entity"
            )
        }
        return [written[place] for place in range(len(entries))]

    def put(self, entry: Entry) -> Written:
        """Write one document whole, unless the memory holds another than the entry expects."""
        document = entry.document
        if entry.expects is not None and not self._is_still(entry.expects):
            return Written(document.id, 0)
        if document.kind == "entity":
            done = self._put_entity(document, amend=entry.belongs != "new")
            if entry.passages:
                self._profile_ids[done.id] = entry.passages[0].id
            return done
        if entry.entity is not None:
            home = self._home(entry.entity, entry)
            if home is None:
                return Written("", 0)
            document = document._replace(parent=home.id, project=home.project or None)
        elif document.parent is not None:
            parent = self._known_as.get(document.parent, document.parent)
            document = document._replace(parent=parent)
        if document.kind == "observation" and document.key is None:
            return self._put_observation(document, entry)
        return self._put(document, entry, None)

    def _put(self, document: Document, entry: Entry, mark: bytes | None) -> Written:
        existing = writing.find_existing(self._connection, document)
        document = document._replace(chunk_count=len(entry.passages))
        if existing is None:
            document = document._replace(id=document.id or new_id())
            rowid = self._insert(document, entry, mark)
            old: Document | None = None
        else:
            rowid, old = existing
            document = self._update(rowid, old, document, entry, mark)
            self._touch(old.parent)
        self._touch(document.parent)
        pending = self._passages(rowid, document, old, entry)
        return Written(
            document.id,
            len(entry.passages),
            replaced=old is not None,
            pending=pending,
            parent=document.parent,
        )

    def _put_observation(self, document: Document, entry: Entry) -> Written:
        """Keep one of two that say the same; let a new one close what it takes the place of."""
        mark = fingerprint(document.text)
        self._dated |= document.valid_from is not None or document.valid_to is not None
        if document.id:
            # It was decided elsewhere what this one replaced.
            now = present_moment(self._connection, self._now)
            twin = self._twin(document, mark, max(now, document.valid_from or now))
            if twin is not None and twin.answers(document.topic):
                return twin.written
            reconciled = versions.reconciled(self._connection, document, now)
            return self._put(reconciled, entry, mark)
        start = self._beginning() if document.valid_from is None else document.valid_from
        twin = self._twin(document, mark, start)
        if twin is not None and twin.says_all_of(document):
            return twin.written
        ends = versions.closing(self._connection, document, start)
        closed = ends.closed
        if twin is not None and twin.topic is None:
            # The same words, now under a topic or in the place of others: one of them is enough.
            closed += tuple(
                row for row in versions.by_id(self._connection, twin.id) if row not in closed
            )
        document = document._replace(supersedes=closed[0].id if closed else None)
        if ends.until is not None:
            until = ends.until if document.valid_to is None else min(document.valid_to, ends.until)
            document = document._replace(valid_to=until)
            self._dated = True
        if document.valid_from is None and (
            closed or not versions.is_first(self._connection, document)
        ):
            document = document._replace(valid_from=start)
            versions.remember(self._connection, start)
        if closed:
            versions.close(self._connection, closed, start)
            for old in closed:
                self._touch(old.parent)
        written = self._put(document, entry, mark)
        return written._replace(
            superseded=tuple(old.id for old in closed),
            beside=tuple(old.id for old in ends.beside),
        )

    def _beginning(self) -> int:
        """From when on that holds which this transaction says; one moment for all of it."""
        if self._start is None:
            self._start = versions.next_moment(self._connection, self._now)
        return self._start

    def _home(self, name: str, entry: Entry) -> "_Home | None":
        """The entity an entry belongs to, made if need be; ``None`` when it is not to be written.

        Where the project has none of that name, the personal one is meant.
        """
        document = entry.document
        made_here = entry.belongs == "new"
        for project in (document.project or "", *([] if made_here else [""])):
            row = self._connection.execute(_ENTITY, (project, ENTITY_SOURCE, name)).fetchone()
            if row is not None:
                home = _Home(*row)
                if made_here and home.id not in self._made:
                    return None
                self._vouch(home, document.trust)
                return home
        if entry.belongs == "known":
            raise NotFound(
                f"There is no entity named '{name}'. Make it with: plait entity add '{name}'"
            )
        made = Document(
            key=name,
            kind="entity",
            title=name,
            project=document.project,
            source=ENTITY_SOURCE,
            origin=document.origin,
            trust=document.trust,
        )
        return _Home(self._put_entity(made).id, document.project or "", document.trust)

    def _vouch(self, home: "_Home", trust: Trust) -> None:
        """Trust an entity as far as whoever is trusted most of those who speak of it."""
        if versions.outranks(trust, home.trust):
            self._connection.execute(_TRUST, (trust, home.id))

    def _put_entity(self, document: Document, *, amend: bool = True) -> Written:
        """Make an entity, or tell a known one what is new; its passage is made at the end."""
        document = document._replace(source=ENTITY_SOURCE, title=document.key or "", text="")
        existing = writing.find_existing(self._connection, document)
        if existing is None:
            now = self._now
            document = document._replace(
                id=document.id or new_id(),
                type=DEFAULT_ENTITY_TYPE if document.type is None else document.type,
                created_at=document.created_at or now,
                updated_at=document.updated_at or now,
                event_at=document.event_at or now,
                indexed_at=document.indexed_at or now,
                chunk_count=0,
                sha256=None,
            )
            self._insert(document, Entry(document, ()), None)
            self._made.add(document.id)
        else:
            rowid, old = existing
            said = {
                name: getattr(document, name)
                for name in _ENTITY_FIELDS
                if amend and getattr(document, name) not in ("", Document._field_defaults[name])
            }
            if versions.outranks(document.trust, old.trust):
                said["trust"] = document.trust
            if document.id and document.id != old.id:
                self._known_as[document.id] = old.id
            document = old._replace(**said)
            if document != old:
                self._update(rowid, old, document, Entry(document, ()), None)
        self._touch(document.id)
        return Written(document.id, 1, replaced=existing is not None)

    def advance(self, turn: int) -> None:
        """Let the present be no earlier than the latest turn of another memory."""
        versions.advance(self._connection, turn, self._now)

    def refresh(self, entities: Sequence[str]) -> None:
        """Have the profiles of these entities made anew at the end."""
        for entity in entities:
            self._touch(entity)

    def _touch(self, parent: str | None) -> None:
        if parent is not None:
            self._touched[parent] = None

    def finish(self) -> None:
        """Make profiles anew, and patch the vector blocks."""
        self._finish_profiles()
        super().finish()

    def _finish_profiles(self) -> None:
        due = terms.get_meta(self._connection, PROFILES_DUE)
        if not self._touched and due is None:
            return
        now = present_moment(self._connection, self._now)
        passed = due is not None and int(due) <= now
        if passed:
            for entity in profiles.turned(self._connection, int(due or 0) - 1, now):
                self._touch(entity)
        for entity in self._touched:
            self._profile(entity, now)
        if passed or self._dated:
            turn = profiles.next_turn(self._connection, now)
            if turn is None:
                self._connection.execute("DELETE FROM meta WHERE name = ?", (PROFILES_DUE,))
            else:
                terms.set_meta(self._connection, PROFILES_DUE, str(turn))

    def _profile(self, entity: str, now: int) -> None:
        """Write an entity's passage, under its old id and with the use it has seen."""
        row = self._connection.execute(BY_ID, (entity,)).fetchone()
        if row is None:
            return  # deleted with all that belonged to it
        rowid, old = row[0], document_from(row[1:])
        if old.kind != "entity":
            return  # an export may name any document as the parent of another
        said = profiles.current_observations(self._connection, entity, now)
        text = profiles.compose(old.title, old.type, said)
        before = self._connection.execute(_PROFILE, (rowid,)).fetchone()
        if before is not None and self._says(before[0], text):
            # The words are the same, but tags may have changed what the title column indexes.
            self._connection.execute(RETITLE, (name_terms(old), rowid, name_terms(old)))
            return
        kept = None if before is None else signals.keep(self._connection, before[0])
        id_ = self._profile_ids.get(entity, "") if before is None else before[1]
        document = old._replace(text=text, chunk_count=1)
        if entity not in self._made:
            document = document._replace(updated_at=self._now, indexed_at=self._now)
        entry = Entry(document, [Passage(text, end_line=text.count("\n") + 1, id=id_)])
        self._update(rowid, old, document, entry, None)
        self._passages(rowid, document, old, entry)
        if kept is not None:
            signals.hand_on(
                self._connection, kept, self._connection.execute(_PROFILE, (rowid,)).get[0]
            )

    def _says(self, ref: Ref, text: str) -> bool:
        sql = "SELECT text FROM passages WHERE rowid = ?"
        return bool(self._connection.execute(sql, (ref,)).get == text)

    def _is_still(self, expected: Document) -> bool:
        row = self._connection.execute(BY_ID, (expected.id,)).fetchone()
        return row is not None and document_from(row[1:]) == expected._replace(text="")

    def _twin(self, document: Document, mark: bytes, moment: int) -> "_Twin | None":
        """An observation that says the same at a moment; what no longer holds then has no twin."""
        if document.valid_to is not None and document.valid_to <= moment:
            return None
        home = (document.project or "", document.parent or "")
        # What is planned for a topic does not hold of it yet; a plan without one says it all.
        planned_too = document.topic is None and not document.id
        key = (mark, *home, document.trust, document.id, document.topic, moment, planned_too)
        row = self._connection.execute(_SAME_OBSERVATION, key).fetchone()
        return None if row is None else _Twin(*row)

    def delete(self, rowid: int) -> int:
        """Delete a document with its passages; how many there were."""
        self._touch(self._connection.execute(_PARENT, (rowid,)).get)
        return super().delete(rowid)

    def revive(self, record: dict[str, Any]) -> Document | None:
        """Put a document back as it was deleted, ids included; its vectors are pending.

        ``None`` when a newer document has its name or topic or, for an observation, says the same,
        or when the entity it belongs to is gone.
        """
        document = document_from_record(record["document"])
        if writing.find_existing(self._connection, document) is not None or self._is_orphan(
            document
        ):
            return None
        passages = [
            Passage(text, heading, start_line, end_line, start, ordinal, id_)
            for id_, ordinal, start, start_line, end_line, heading, text in record["passages"]
        ]
        entry = Entry(document, passages)
        mark = None
        if document.kind == "observation" and document.key is None:
            mark = fingerprint(document.text)
            now = present_moment(self._connection, self._now)
            twin = self._twin(document, mark, max(now, document.valid_from or now))
            said = twin is not None and twin.answers(document.topic)
            if said or versions.is_taken(self._connection, document, now):
                return None
        self._dated |= document.valid_from is not None or document.valid_to is not None
        rowid = self._insert(document, entry, mark)
        self._passages(rowid, document, None, entry)
        self._touch(document.id if document.kind == "entity" else document.parent)
        return document

    def _is_orphan(self, document: Document) -> bool:
        return (
            document.parent is not None
            and not self._connection.execute(_EXISTS, (document.parent,)).get
        )
