"""Settle what a review found: change a document's status, end it in favour of another, move it.

No text changes. `unmark` restores what was changed, exactly as it was.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from plait.errors import UsageError, advise
from plait.facts import versions
from plait.facts.fingerprints import fingerprint
from plait.facts.names import entity_named
from plait.facts.trust import outranks
from plait.protocols import Store, Transaction
from plait.text import clean
from plait.text.normal_form import composed
from plait.types import DEFAULT_ENTITY_TYPE, EVERYTHING, Document, DocumentStatus
from plait.types.ids import ARCHIVED_FIELD, SCOPE_PREFIX, new_id, without
from plait.types.review import MarkedDocuments
from plait.writing.changes import Changes
from plait.writing.replacing import raised

# What a profile that is made anew changes of its entity.
_STAMPS = ("updated_at", "indexed_at")
# What `raised` changes of an entity that gets a more trusted fact.
_RAISED = ("trust", "type", "tags", "metadata", "summary", "importance", "pinned", "memory_type")
_REMADE = ("text", "chunk_count", *_STAMPS)


def mark(
    store: Store,
    ids: Sequence[str],
    *,
    status: DocumentStatus | None = None,
    superseded_by: str | None = None,
    not_superseded: bool = False,
    entity: str | None = None,
    to_project: str | None = None,
    share: Callable[[Transaction, Sequence[str]], object] | None = None,
) -> MarkedDocuments:
    """Change documents in one transaction; return what takes it back.

    Args:
        store: The memory.
        ids: The documents to change.
        status: Their new status.
        superseded_by: The id of the document that they end in favour of.
        not_superseded: Whether they hold again, and are no longer the history of another.
        entity: The name of the entity that the facts are to belong to; created if needed.
        to_project: The project that notes and facts, with what they replaced, are to belong to.
        share: Changes who sees them, before anything else is changed.

    Raises:
        NotFound: A document does not exist any more.
        UsageError: One cannot be superseded or moved; nothing is changed.
    """
    with store.transaction() as transaction:
        marking = _Marking(transaction, ids)
        if share is not None:
            share(transaction, ids)
        if status is not None:
            marking.set_status(status)
        if not_superseded:
            marking.reinstate()
        if superseded_by is not None:
            marking.supersede(superseded_by)
        if entity is not None:
            marking.move(entity)
        if to_project is not None:
            marking.move_to(to_project)
        return marking.finish()


class _Marking:
    """The changes of one call, inside a transaction."""

    def __init__(self, transaction: Transaction, ids: Sequence[str]) -> None:
        self._transaction = transaction
        self._changes = Changes(transaction)
        self._before: dict[str, Document] = {}
        self._created: list[str] = []
        self._changed_at = transaction.state.changed_at
        self._moment: int | None = None
        self._rows = [self._noted(id_) for id_ in dict.fromkeys(ids)]
        self.ids = tuple(row.id for row in self._rows)

    def _noted(self, id_: str) -> Document:
        """Return a document, and remember it and its entity as they are now."""
        row = self._known(id_)
        if row is None:
            raise UsageError(
                f"{id_} was deleted meanwhile. Nothing was changed.",
                code="unknown_name",
                subject=id_,
            )
        self._before.setdefault(id_, row)
        if row.parent is not None and row.parent not in self._before:
            entity = self._transaction.known(Document(id=row.parent))
            if entity is not None:
                self._before[entity.id] = entity
        return row

    def set_status(self, status: DocumentStatus) -> None:
        """Give the documents a status; active is the same as none."""
        stored = None if status == "active" else status
        for row in self._rows:
            self._transaction.amend(row.id, status=stored)
            if ARCHIVED_FIELD in row.metadata:
                # From now on it is the person's choice, which no rule deletes.
                self._transaction.amend(row.id, metadata=without(row.metadata, (ARCHIVED_FIELD,)))

    def supersede(self, successor: str) -> None:
        """End the documents in favour of another one."""
        new = self._noted(successor)
        moment = versions.next_moment(self._transaction.state, self._transaction.now)
        self._moment = moment
        if versions.is_over(new, moment):
            # Nothing would be left that holds, and two facts could end each other.
            later = self._transaction.successors([new.id]).get(new.id)
            by = f" by {later}. Name that one." if later else "."
            raise UsageError(
                f"{new.id} was already superseded{by}", code="already_superseded", subject=new.id
            )
        for old in self._rows:
            if old.id == new.id:
                raise UsageError(
                    f"{old.id} cannot supersede itself.", code="bad_value", subject="superseded_by"
                )
            follower = self._transaction.successors([old.id]).get(old.id)
            versions.check_superseded(old, new._replace(supersedes=old.id), moment, follower)
            if outranks(old.trust, new.trust):
                raise UsageError(
                    f"{old.id} is {old.trust}, and a text that is {new.trust} does not replace it.",
                    code="more_trusted",
                    subject=old.doc_id,
                )
            self._transaction.amend(old.id, valid_to=versions.end_of(old, moment))
            self._put_first(old, new, moment)
            self._changes.refresh(filter(None, [old.parent]))
        self._changes.advance(moment)

    def reinstate(self) -> None:
        """Let documents that have ended hold again; what replaced them stays, without them."""
        moment = versions.next_moment(self._transaction.state, self._transaction.now)
        self._moment = moment
        for old in self._rows:
            if not versions.is_over(old, moment):
                raise UsageError(
                    f"{old.id} has not ended: nothing superseded it.",
                    code="not_superseded",
                    subject=old.doc_id,
                )
            follower = self._transaction.successors([old.id]).get(old.id)
            again = old._replace(valid_to=None)
            rivals = self._transaction.rivals(again, fingerprint(again.text), moment)
            if versions.is_taken(again, rivals.same_topic, moment):
                rival = follower or rivals.same_topic[0].id
                raise UsageError(
                    f"{old.id} cannot hold beside {rival}: both are on one topic.",
                    code="topic_taken",
                    subject=rival,
                    advice=advise("delete_first", id=rival),
                )
            # subtle: before it holds again, because only what has ended has a successor.
            self._leave(old.id)
            self._transaction.amend(old.id, valid_to=None)
            self._changes.refresh(filter(None, [old.parent]))
        self._changes.advance(moment)

    def _put_first(self, old: Document, new: Document, moment: int) -> None:
        """Let the history of a document begin with the one that ends now, and what that replaced.

        What ended earlier in favour of the same document follows, and no text is there twice: one
        that held again, by `unmark`, may still be in either history.
        """
        successor, *before = _history(self._transaction, new.id)
        ended = [row for row in _history(self._transaction, old.id) if row.id != new.id]
        ids = {new.id, *(row.id for row in ended)}
        chain = [successor, *ended, *(row for row in before if row.id not in ids)]
        for row, next_ in pairwise(chain):
            self._link(row, next_.id)
        if chain[-1].supersedes in {row.id for row in chain}:
            self._link(chain[-1], None)
        if new.kind != "entity":
            # Being preferred is a change, by which rules of retention tell how old it is; the
            # moment of an entity is that of its profile.
            self._transaction.amend(new.id, updated_at=max(successor.updated_at, moment))

    def _leave(self, id_: str) -> None:
        """Take a document out of the history that it is in.

        What it names goes on in that history, unless it is known to have ended in favour of it.
        """
        row = self._noted(id_)
        before = None if row.supersedes is None else self._known(row.supersedes)
        rest = row.supersedes
        if before is not None and _ended_for(before, row):
            rest = None
        is_followed = False
        while (follower := self._transaction.successors([id_]).get(id_)) is not None:
            new = self._noted(follower)
            if new.supersedes != id_:
                break  # it is only on the same topic
            self._link(new, None if is_followed or rest == new.id else rest)
            is_followed = True
        if is_followed and rest is not None:
            self._link(row, None)

    def _link(self, row: Document, replaced: str | None) -> None:
        """Let a document name another one as superseded; remember whom it named."""
        if row.supersedes == replaced:
            return
        self._noted(row.id)
        if row.supersedes is not None and self._known(row.supersedes) is not None:
            self._noted(row.supersedes)
        self._transaction.amend(row.id, supersedes=replaced)

    def _known(self, id_: str) -> Document | None:
        return self._transaction.known(Document(id=id_))

    def move(self, name: str) -> None:
        """Let facts belong to another entity."""
        name = composed(clean(name)).strip()
        if not name:
            raise UsageError("The entity is empty.", code="empty_name", subject="entity")
        for row in self._rows:
            if row.kind != "observation":
                raise UsageError(
                    f"{row.id} is of kind {row.kind}; only an observation belongs to an entity.",
                    code="not_a_fact",
                    subject=row.id,
                )
            home = self._home(name, row)
            self._transaction.amend(row.id, parent=home.id)
            self._changes.refresh(filter(None, [row.parent, home.id]))

    def move_to(self, project: str) -> None:
        """Let notes and facts belong to another project, with what they replaced or that did it."""
        moment, rows = self._transaction.now, self._with_histories()
        names = (project, *(row.project or "" for row in rows))
        if not project or any(name.startswith(SCOPE_PREFIX) for name in names):
            raise UsageError(
                "Nothing moves into a user's scope or out of one, and a project has a name. "
                "Nothing was changed.",
                code="not_in_scope",
                subject="to_project",
            )
        for row in rows:
            if row.kind not in ("note", "observation"):
                raise UsageError(
                    f"{row.id} is of kind {row.kind}; only notes and facts move to a project. "
                    "Files follow their folder when it is ingested.",
                    code="not_a_fact",
                    subject=row.id,
                )
            if row.project == project:
                continue
            moved = row._replace(project=project)
            entity = None if row.parent is None else self._known(row.parent)
            if entity is not None:
                moved = moved._replace(parent=self._home(entity.doc_id, moved).id)
            self._refuse_twin(moved, moment)
            self._transaction.amend(row.id, project=project, parent=moved.parent)
            self._changes.refresh(filter(None, [row.parent, moved.parent]))

    def _with_histories(self) -> list[Document]:
        """Return the documents, with all that they replaced and that replaced them, noted."""
        waiting = [row.id for row in self._rows]
        rows: dict[str, Document] = {}
        while waiting:
            id_ = waiting.pop()
            if id_ in rows or self._known(id_) is None:
                continue
            rows[id_] = self._noted(id_)
            follower = self._transaction.successors([id_]).get(id_)
            waiting += filter(None, [rows[id_].supersedes, follower])
        return list(rows.values())

    def _refuse_twin(self, moved: Document, moment: int) -> None:
        """Refuse to move a document to where one of its name, text or topic is already."""
        twin = None
        if moved.key is not None:
            twin = self._transaction.known(moved._replace(id=""))
        elif not versions.is_over(moved, moment):
            [whole] = self._transaction.load([moved.id])
            rivals = self._transaction.rivals(moved, fingerprint(whole.text), moment)
            twin = next(iter((*rivals.same_text, *rivals.same_topic)), None)
        if twin is not None:
            raise UsageError(
                f"{moved.id} cannot move: {twin.id}, which is there, has the same name, text or "
                "topic. Nothing was changed.",
                code="topic_taken",
                subject=twin.id,
                advice=advise("delete_first", id=twin.id),
            )

    def _home(self, name: str, row: Document) -> Document:
        """Return the entity of a name, as a new fact would get it; created if needed."""
        for project in dict.fromkeys((row.project, None)):
            home = self._transaction.known(entity_named(name, project))
            if home is not None:
                if home.id not in self._created:
                    self._before.setdefault(home.id, home)
                _amend(self._transaction, home, raised(home, row), _RAISED)
                return home
        before = self._before.get(row.parent or "")
        type_ = before.type if before is not None else DEFAULT_ENTITY_TYPE
        made = entity_named(name, row.project)._replace(
            id=new_id(), title=name, origin=row.origin, trust=row.trust, type=type_
        )
        self._created.append(self._changes.create(made))
        return made._replace(id=self._created[-1])

    def finish(self) -> MarkedDocuments:
        """Rebuild the profiles, and return what takes all of it back."""
        self._changes.finish()
        moments = (self._changed_at, self._moment)
        before = tuple(self._before.values())
        created = tuple(self._created)
        changed = (*self._before, *created)
        after = tuple(filter(None, (self._transaction.known(Document(id=id_)) for id_ in changed)))
        return MarkedDocuments(self.ids, before, created, moments, after)


def unmark(store: Store, marked: MarkedDocuments) -> None:
    """Restore what `mark` changed; if nobody changed it meanwhile, exactly as it was.

    What others changed or deleted since then stays as they left it.
    """
    with store.transaction() as transaction:
        changes = Changes(transaction)
        after = {row.id: row for row in marked.after}
        untouched, linked = [], []
        settled = _settled_since(transaction, marked.after)
        for old in marked.before:
            row = transaction.known(Document(id=old.id))
            if row is not None and old.id in after:
                changes.refresh([row.id] if row.kind == "entity" else filter(None, [row.parent]))
                linked += _take_back(transaction, row, after[old.id], old)
                if row.kind == "entity" and _has_stamps_of(row, after[old.id]):
                    untouched.append(old)
        for row in linked:
            _check_link(transaction, row, settled)
        made = [after[id_] for id_ in marked.created if id_ in after]
        transaction.delete([row.id for row in made if _is_unused(store, transaction, row)])
        former, latest = marked.changed_at
        if latest is not None and transaction.state.changed_at == latest:
            changes.note({"changed_at": None if former is None else str(former)})
        changes.finish()
        # The profiles have the same text as before, and so the same age.
        for old in untouched:
            transaction.amend(old.id, **{name: getattr(old, name) for name in _STAMPS})


def _amend(transaction: Transaction, row: Document, wanted: Document, names: Sequence[str]) -> None:
    """Give a stored document some fields of another one."""
    fields = {name: getattr(wanted, name) for name in names}
    changed = {name: value for name, value in fields.items() if value != getattr(row, name)}
    if changed:
        transaction.amend(row.id, **changed)


def _take_back(
    transaction: Transaction, row: Document, left: Document, old: Document
) -> list[Document]:
    """Restore the fields that `mark` changed, unless somebody has changed them again.

    Returns the document if it names another one as superseded again.
    """
    remade = _REMADE if row.kind == "entity" else ()
    fields = {
        name: value
        for name, value in old._asdict().items()
        if name not in remade and value != getattr(left, name) == getattr(row, name)
    }
    home = fields.get("parent")
    if home is not None and transaction.known(Document(id=home)) is None:
        del fields["parent"]  # the entity was deleted meanwhile: it would belong to nothing
    if fields:
        transaction.amend(row.id, **fields)
    return [old] if fields.get("supersedes") is not None else []


def _settled_since(transaction: Transaction, left: Sequence[Document]) -> set[str]:
    """Return which documents somebody ended, or let hold again, after `mark` had left them."""
    rows = [(transaction.known(Document(id=row.id)), row) for row in left]
    return {old.id for row, old in rows if row is not None and row.valid_to != old.valid_to}


def _check_link(transaction: Transaction, row: Document, settled: set[str]) -> None:
    """Drop a restored link if what it names holds now, is another's history, or leads back here."""
    replaced = row.supersedes or ""
    leads_back = any(other.id == row.id for other in _history(transaction, replaced))
    if replaced in settled or leads_back:
        transaction.amend(row.id, supersedes=None)


def _history(transaction: Transaction, id_: str) -> list[Document]:
    """Return a document and what it replaced, as far as that still exists, each once."""
    rows: dict[str, Document] = {}
    next_: str | None = id_
    while next_ is not None and next_ not in rows:
        row = transaction.known(Document(id=next_))
        if row is None:
            break  # it was deleted: its place in the history is free
        rows[row.id], next_ = row, row.supersedes
    return list(rows.values())


def _ended_for(old: Document, new: Document) -> bool:
    """Tell whether a document is known to have ended in favour of another.

    It ended when the other one began, or was last changed: `mark` changes what it prefers.
    """
    is_changed = new.updated_at > new.created_at
    return old.valid_to is not None and (
        old.valid_to == new.valid_from or (is_changed and old.valid_to == new.updated_at)
    )


def _has_stamps_of(row: Document, left: Document) -> bool:
    return all(getattr(row, name) == getattr(left, name) for name in _STAMPS)


def _is_unused(store: Store, transaction: Transaction, made: Document) -> bool:
    """Tell whether an entity is as `mark` created it, without facts and relations."""
    row = transaction.known(Document(id=made.id))
    as_made = row is not None and all(
        value == getattr(made, name) for name, value in row._asdict().items() if name not in _REMADE
    )
    # subtle: the store reads what is committed; nobody else can commit during a transaction.
    everything = EVERYTHING._replace(all_versions=True)
    return (
        as_made
        and not transaction.members([made.id])
        and not store.relations([made.id], everything)
    )
