"""All writes of one transaction: documents, the effects of new facts, then profiles.

An observation may repeat, replace or contradict known facts; it may belong to an entity, whose
profile is then rebuilt. Rivals are read, `plait.facts` decides and the result is written inside
one transaction, so that concurrent processes get the same result as sequential ones.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from plait.facts import profiles, trash, versions
from plait.facts.fingerprints import fingerprint
from plait.facts.names import entity_named, unknown_entity
from plait.facts.trust import may_replace
from plait.protocols import Entry, PassageUse, Store, Transaction, Trashed
from plait.types import Document, Passage, Trust
from plait.types.ids import ENTITY_SOURCE, new_id
from plait.types.records import NamedTuple
from plait.types.visibility import visible_to
from plait.writing.replacing import (
    check_home,
    dated,
    existing,
    keep_version,
    raised,
    replacing,
    taken_back,
)
from plait.writing.retired import unmarked
from plait.writing.turns import Turns

# What to do about the entity of an observation: create it if missing, require
# it, or write the observation only if this very transaction created it.
Belongs = Literal["make", "known", "new"]

# Fields that creating an entity again may change.
ENTITY_FIELDS = ("type", "tags", "metadata", "summary", "importance", "pinned", "memory_type")


class Change(NamedTuple):
    """A document to write.

    ``expects`` is the stored document that it was made from: if the memory has another one by now,
    or none, nothing is written. ``entity`` names the entity that an observation belongs to.
    ``former`` is the document of the same file at another path or in the trash: its ids are kept.
    ``imported``: it has its own id, project and trust. ``undated``: it follows its session's last.
    """

    entry: Entry
    expects: Document | None = None
    entity: str | None = None
    belongs: Belongs = "make"
    former: Document | None = None
    imported: bool = False
    undated: bool = False


class Changed(NamedTuple):
    """The result of one change.

    ``superseded`` are the ids of what it ended, ``beside`` of the trusted facts that it contradicts
    and may not end, ``parent`` of the entity that it belongs to. ``lowered`` is the trust that the
    document has instead of the one it came with.
    """

    id: str
    chunks: int
    replaced: bool = False
    duplicate: bool = False
    pending: int = 0
    superseded: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    parent: str | None = None
    lowered: Trust | None = None
    turn: int | None = None


def put(
    store: Store,
    changes: Sequence[Change],
    *,
    changed_at: int | None = None,
    rules: Mapping[str, str] | None = None,
    values: Mapping[str, str | None] | None = None,
    check: Callable[[], None] | None = None,
) -> list[Changed]:
    """Write all changes in one transaction.

    Args:
        store: The memory.
        changes: What to write; the results keep this order.
        changed_at: When a fact last changed in the memory that the changes were exported from.
        rules: Values about the memory that its first write fixes.
        values: Values of the caller that are to be true exactly if the changes are.
        check: Called first, inside the transaction; if it raises, nothing is written.

    Raises:
        NotFound: A change names an entity or a superseded document that does not exist.
        UsageError: The document it names cannot be superseded, or the one it replaces is more
            trusted or belongs to another project.
    """
    with store.transaction() as transaction:
        if check is not None:
            check()
        writes = Changes(transaction)
        changed = writes.put_all(changes)
        if changed_at is not None:
            writes.advance(changed_at)
        writes.note_rules(rules or {})
        writes.note(values or {})
        writes.finish()
    return changed


class Changes:
    """Writes documents in one transaction; `finish` rebuilds the affected profiles.

    The time is that of the transaction, not of the request, so that the order of times is the
    order of writes.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._start: int | None = None
        self._changed_at = transaction.state.changed_at
        # Entities whose profile must be rebuilt and whether it tells anything new, those created
        # here, and ids with another name.
        self._touched: dict[str, bool] = {}
        self._created: set[str] = set()
        self._known_as: dict[str, str] = {}
        # The ids of profiles in an export or in the trash, and how the latter were used.
        self._profile_ids: dict[str, str] = {}
        self._profile_uses: dict[str, PassageUse] = {}
        self._turns = Turns(transaction)
        self._has_dates = False
        self._facts: dict[str, str | None] = {}

    def put_all(self, changes: Sequence[Change]) -> list[Changed]:
        """Write changes, entities before what belongs to them; the results keep the order."""
        entities_first = sorted(
            enumerate(changes), key=lambda pair: pair[1].entry.document.kind != "entity"
        )
        changed: dict[int, Changed] = {}
        for place, change in entities_first:
            if change.entry.visibility is None:
                changed[place] = self.put(change)
                continue
            with visible_to(change.entry.visibility):
                changed[place] = self.put(change)
        return [changed[place] for place in range(len(changes))]

    def put(self, change: Change) -> Changed:
        """Write one whole document, unless the memory has another one than the change expects."""
        entry, document = change.entry, change.entry.document
        if change.expects is not None and not self._is_still(change.expects):
            return Changed(document.id, 0)
        if document.kind == "entity":
            changed = self._put_entity(
                document, amend=change.belongs != "new", imported=change.imported
            )
            if entry.passages:
                self._profile_ids[changed.id] = entry.passages[0].id
            return changed
        if change.entity is not None:
            home = self._home(change.entity, change)
            if home is None:
                return Changed("", 0)
            document = document._replace(parent=home.id, project=home.project)
        elif document.parent is not None:
            parent = self._known_as.get(document.parent, document.parent)
            document = document._replace(parent=parent)
            home = None if change.imported else self._transaction.known(Document(id=parent))
            if home is not None:
                check_home(home, document)
        if document.kind == "observation" and document.key is None:
            return self._put_observation(document, change)
        if change.former is not None:
            change = change._replace(entry=self._continuing(change.entry, change.former))
            document = change.entry.document
        return self._put(document, change)

    def _continuing(self, entry: Entry, former: Document) -> Entry:
        """Return a file with the ids of its former document, unless that is something else by now.

        Another process may have stored the file, or taken the former document for another one.
        """
        document = entry.document._replace(id="")
        if self._transaction.known(document) is not None:
            return entry._replace(document=document)
        stored = self._transaction.known(document._replace(id=former.id))
        if stored is not None:
            moved = document._replace(id=former.id) if stored.path == former.path else document
            return entry._replace(document=moved)
        for row in self._transaction.trashed([former.id], related=False):
            return taken_back(self._transaction, entry._replace(document=document), row)
        return entry._replace(document=document)

    def _put(self, document: Document, change: Change, mark: bytes | None = None) -> Changed:
        entry, asked = change.entry, document.trust
        old = existing(self._transaction, document)
        is_new = old is None and not document.id
        if old is not None:
            if not change.imported:
                check_home(old, document)
            document = replacing(self._transaction, old, document, imported=change.imported)
            self._touch(old.parent)
        self._touch(document.parent)
        place = self._turns.place_of(document, old, undated=change.undated)
        document = document._replace(id=document.id or new_id(), **place)
        entry = entry._replace(document=document, is_new=is_new)
        written = self._transaction.write(entry, fingerprint=mark)
        self._facts |= unmarked(self._transaction.state, document, change.former)
        return Changed(
            document.id,
            written.chunks,
            replaced=old is not None,
            duplicate=trash.is_same_file(old, document),
            pending=written.pending,
            parent=document.parent,
            lowered=None if document.trust == asked else document.trust,
            turn=document.turn,
        )

    # -- facts -----------------------------------------------------------------------------

    def _put_observation(self, document: Document, change: Change) -> Changed:
        """Keep one of two duplicates; let a new fact end those it replaces."""
        mark = fingerprint(document.text)
        self._note_dates(document)
        if document.id:
            return self._put_decided(document, change, mark)
        start = self._next_moment() if document.valid_from is None else document.valid_from
        rivals = self._transaction.rivals(document, mark, start)
        twin = versions.repeated(document, start, rivals)
        if twin is not None:
            return _repetition(twin)
        verdict = versions.decide(document, start, rivals, self._superseded(document, start))
        self._note_dates(verdict.document)
        if verdict.changes:
            self._remember_change(start)
        for old in verdict.ended:
            self._transaction.amend(old.id, valid_to=versions.end_of(old, start))
            self._touch(old.parent)
        changed = self._put(verdict.document, change, mark)
        return changed._replace(
            superseded=tuple(old.id for old in verdict.ended),
            beside=tuple(old.id for old in verdict.beside),
        )

    def _put_decided(self, document: Document, change: Change, mark: bytes) -> Changed:
        """Write an observation of an export, where its effects were already decided."""
        now = self._present()
        rivals = self._transaction.rivals(document, mark, now)
        twin = versions.find_twin(document, rivals.same_text, max(now, document.valid_from or now))
        if twin is not None and versions.answers(twin, document.topic):
            return _repetition(twin)
        document, ended = versions.reconcile(document, rivals.same_topic, now)
        for old, moment in ended:
            self._transaction.amend(old.id, valid_to=moment)
        return self._put(document, change, mark)

    def _superseded(self, document: Document, start: int) -> Document | None:
        """Return the document that a new one names as superseded.

        Raises:
            NotFound: No document has that id.
            UsageError: It cannot be superseded.
        """
        if document.supersedes is None:
            return None
        old = self._transaction.known(Document(id=document.supersedes))
        successor = None
        if old is not None and versions.is_over(old, start):
            successor = self._transaction.successors([old.id]).get(old.id)
        versions.check_superseded(old, document, start, successor)
        return old

    def revive(self, row: Trashed) -> Document | None:
        """Restore a deleted document with its ids; its vectors are pending.

        Return ``None`` if a newer document has its name or topic, if a newer observation repeats
        it, or if its entity no longer exists. An earlier version takes the place of the present
        one, unless that is more trusted. An entity stays in the trash too: the caller drops it when
        all that belongs to it is back.
        """
        document = row.document._replace(id=row.version_of or row.document.id)
        present = self._transaction.known(document)
        if present is not None and document.kind == "entity" and present.id == document.id:
            return present  # an interrupted undo has brought it back
        if present is not None and (
            present.id != row.version_of or not may_replace(present, document)
        ):
            return None
        if self._is_orphan(document):
            return None
        mark = None
        if document.kind == "observation" and document.key is None:
            mark = fingerprint(document.text)
            now = self._present()
            rivals = self._transaction.rivals(document, mark, now)
            twin = versions.find_twin(
                document, rivals.same_text, max(now, document.valid_from or now)
            )
            repeated = twin is not None and versions.answers(twin, document.topic)
            if repeated or versions.is_taken(document, rivals.same_topic, now):
                return None
        if document.kind != "entity":
            # This makes room for the version that it replaces.
            self._transaction.forget([row.document.id], edges=False)
        if present is not None:
            keep_version(self._transaction, present)
        self._note_dates(document)
        self._facts |= unmarked(self._transaction.state, document)
        in_its_place = present is not None and present.session == document.session
        if document.session is not None and document.turn is not None and not in_its_place:
            # It was said before what has its number now.
            self._transaction.free_turn(document.project, document.session, document.turn)
        document = self._turns.placed(trash.detached(document), present, undated=False)
        use = row.use or {}
        self._transaction.write(
            Entry(document, row.passages, steps=row.steps, use=use), fingerprint=mark
        )
        if document.kind == "entity" and row.names:
            self._profile_ids[document.id], self._profile_uses[document.id] = row.names[0], use
        self._touch(document.id if document.kind == "entity" else document.parent, news=False)
        return document

    def delete(self, documents: Sequence[Document]) -> int:
        """Delete documents; return the number of their passages."""
        for document in documents:
            self._touch(document.parent, news=False)
        return self._transaction.delete([document.id for document in documents])

    def _is_still(self, expected: Document) -> bool:
        stored = self._transaction.known(Document(id=expected.id))
        return stored == expected._replace(text="")

    def _is_orphan(self, document: Document) -> bool:
        parent = document.parent
        return parent is not None and self._transaction.known(Document(id=parent)) is None

    # -- entities --------------------------------------------------------------------------

    def _home(self, name: str, change: Change) -> Document | None:
        """Return the entity of a change, created if needed; ``None``: write nothing.

        If the project has none of that name, use the personal one.
        """
        document = change.entry.document
        only_created = change.belongs == "new"
        for project in dict.fromkeys(
            (document.project, document.project if only_created else None)
        ):
            home = self._transaction.known(entity_named(name, project))
            if home is None:
                continue
            if only_created and home.id not in self._created:
                return None
            self._amend(home, raised(home, document))
            return home
        if change.belongs == "known":
            raise unknown_entity(name)
        created = entity_named(name, document.project)._replace(
            title=name, origin=document.origin, trust=document.trust
        )
        return created._replace(id=self._put_entity(created).id)

    def _put_entity(
        self, document: Document, *, amend: bool = True, imported: bool = False
    ) -> Changed:
        """Create an entity, or amend a known one; its passage is written by `finish`."""
        document = document._replace(source=ENTITY_SOURCE, title=document.key or "", text="")
        old = self._transaction.known(document)
        if old is None:
            document = dated(document, self._transaction.now)
            self._transaction.write(Entry(document, ()))
            self._created.add(document.id)
        else:
            fields = {
                name: getattr(document, name)
                for name in ENTITY_FIELDS
                if amend
                and may_replace(old, document)
                and getattr(document, name) not in ("", Document._field_defaults[name])
            }
            if document.id and document.id != old.id:
                self._known_as[document.id] = old.id
            document = raised(old, document, imported=imported)._replace(**fields)
            self._amend(old, document)
        self._touch(document.id)
        return Changed(document.id, 1, replaced=old is not None)

    def _amend(self, old: Document, new: Document) -> None:
        fields = {
            name: value for name, value in new._asdict().items() if value != getattr(old, name)
        }
        if fields:
            self._transaction.amend(old.id, **fields)

    # -- the end of the transaction --------------------------------------------------------

    def advance(self, changed_at: int) -> None:
        """Move the present to the last change of another memory, if that is later.

        Only within the usual error of clocks: a date in the next century would move all later ones.
        """
        if changed_at <= self._transaction.now + versions.CLOCKS_DIFFER_MS:
            self._remember_change(changed_at)

    def note_rules(self, rules: Mapping[str, str]) -> None:
        """Record the rules of a memory's first write; later writes follow them."""
        state = self._transaction.state
        missing = {name: rule for name, rule in rules.items() if getattr(state, name) is None}
        self._facts.update(missing)

    def note(self, values: Mapping[str, str | None]) -> None:
        """Record values of a caller, in the same transaction."""
        self._facts.update(values)

    def create(self, entity: Document) -> str:
        """Create an entity and return its id."""
        return self._put_entity(entity).id

    def refresh(self, entities: Iterable[str]) -> None:
        """Have the profiles of these entities rebuilt by `finish`."""
        for entity in entities:
            self._touch(entity)

    def finish(self) -> None:
        """Rebuild the affected profiles, and write the recorded values."""
        self._rebuild_profiles()
        if self._facts:
            self._transaction.remember(**self._facts)

    def _rebuild_profiles(self) -> None:
        due = self._transaction.state.profiles_due
        if not self._touched and due is None:
            return
        now = self._present()
        is_due = due is not None and due <= now
        if due is not None and is_due:
            self.refresh(self._transaction.entities_changed(due - 1, now))
        for entity in self._touched:
            self._rebuild_profile(entity, now)
        if is_due or self._has_dates:
            change = self._transaction.next_change(now)
            self._facts["profiles_due"] = None if change is None else str(change)

    def _rebuild_profile(self, id_: str, now: int) -> None:
        """Write an entity's passage, with its old id and use counts."""
        entity = self._transaction.known(Document(id=id_))
        if entity is None:
            return  # deleted with all that belonged to it
        if entity.kind != "entity":
            return  # an export may name any document as the parent of another
        known = self._transaction.current_observations(id_, profiles.SHOWN_TRUST, now)
        texts = self._transaction.openings(profiles.prominent(known))
        text = profiles.compose(entity.title, entity.type, texts)
        before = self._transaction.passages(id_)
        if before and before[0].text == text:
            return
        passage_id = before[0].id if before else self._profile_ids.get(id_, "")
        document = entity._replace(text=text, chunk_count=1)
        if self._touched[id_] and id_ not in self._created:
            moment = self._transaction.now
            document = document._replace(updated_at=moment, indexed_at=moment)
        passage = Passage(text, end_line=text.count("\n") + 1, id=passage_id)
        use = self._profile_uses.get(id_, {})
        self._transaction.write(Entry(document, [passage], use=use), keep_use=True)

    def _touch(self, parent: str | None, *, news: bool = True) -> None:
        """Have a profile rebuilt; what was deleted or brought back makes no entity younger."""
        if parent is not None:
            self._touched[parent] = news or self._touched.get(parent, False)

    # -- time ------------------------------------------------------------------------------

    def _present(self) -> int:
        state = self._transaction.state._replace(changed_at=self._changed_at)
        return versions.present(state, self._transaction.now)

    def _next_moment(self) -> int:
        """Return when the facts of this transaction become valid: one moment for all of them."""
        if self._start is None:
            state = self._transaction.state._replace(changed_at=self._changed_at)
            self._start = versions.next_moment(state, self._transaction.now)
        return self._start

    def _remember_change(self, moment: int) -> None:
        """Record when a fact changed, so that a clock that is set back does not undo it."""
        if self._changed_at is None or self._changed_at < moment:
            self._changed_at = moment
            self._facts["changed_at"] = str(moment)

    def _note_dates(self, document: Document) -> None:
        self._has_dates |= document.valid_from is not None or document.valid_to is not None


def _repetition(twin: Document) -> Changed:
    return Changed(twin.id, twin.chunk_count, duplicate=True, parent=twin.parent)
