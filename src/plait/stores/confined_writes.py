"""The write side of a confined store: a transaction in which only one scope's documents exist.

Every method of `Transaction` is written out: a new one must be given its rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plait.errors import UsageError
from plait.protocols import (
    Entry,
    Rivals,
    Standing,
    State,
    Transaction,
    Trashed,
    Unembedded,
    Vector,
    Written,
)
from plait.types import Document, Passage, Ref, Space, Trust
from plait.types.relations import Relation

if TYPE_CHECKING:
    from plait.stores.confined import ConfinedStore


def not_here(sentence: str, subject: str = "") -> UsageError:
    """Return the error for what concerns the whole memory, or another project."""
    return UsageError(sentence, code="not_in_scope", subject=subject)


def shared_only(document: Document) -> UsageError:
    """Return the error for a change of a document that a scope may only read."""
    sentence = f"{document.id} is shared with this scope and cannot be changed."
    return not_here(sentence, document.doc_id)


class ConfinedTransaction:
    """One write transaction in which only the documents of a scope exist."""

    def __init__(self, transaction: Transaction, store: ConfinedStore) -> None:
        self._transaction = transaction
        self._store = store
        self._own = store.own
        self.now = transaction.now
        # Ids of the scope's documents that this transaction has deleted.
        self._gone: set[str] = set()

    def _mine(self, ids: Iterable[str]) -> set[str]:
        """Return those ids that belong to the scope's documents.

        Raises:
            UsageError: One belongs to a project that is only shared.
        """
        mine = set[str]()
        for id_ in dict.fromkeys(ids):
            row = self._transaction.known(Document(id=id_)) if id_ else None
            if row is None:
                continue
            if row.project == self._own:
                mine.add(id_)
            elif row.project in self._store.readable:
                raise shared_only(row)
        return mine

    def _check(self, ids: Iterable[str]) -> None:
        """Refuse ids that are not the scope's; the verbs resolve names before they write."""
        ids = list(ids)
        if set(ids) - self._mine(ids):
            raise not_here("What is not in this scope cannot be changed.")

    # -- reading ---------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state of the memory; profiles that are due wait for the whole memory's turn."""
        return self._transaction.state._replace(profiles_due=None)

    def known(self, document: Document) -> Document | None:
        """Return the document of the scope that this one replaces."""
        row = self._transaction.known(document)
        return row if row is not None and row.project == self._own else None

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents of the scope."""
        mine = self._mine(ids)
        return self._transaction.load([id_ for id_ in ids if id_ in mine])

    def passages(self, document: str) -> list[Passage]:
        """Return the passages of a document of the scope."""
        return self._transaction.passages(document) if self._mine([document]) else []

    def rivals(self, document: Document, fingerprint: bytes, moment: int) -> Rivals:
        """Return the scope's other observations that this one may repeat or replace."""
        return self._transaction.rivals(document._replace(project=self._own), fingerprint, moment)

    def members(self, entities: Sequence[str]) -> list[str]:
        """Return the ids of what belongs to these entities of the scope."""
        mine = self._mine(entities)
        members = self._transaction.members([id_ for id_ in entities if id_ in mine])
        own = self._mine(members)
        return [id_ for id_ in members if id_ in own]

    def current_observations(self, entity: str, trust: Trust, moment: int) -> list[Standing]:
        """Return the observations of an entity of the scope."""
        if not self._mine([entity]):
            return []
        return self._transaction.current_observations(entity, trust, moment)

    def openings(self, ids: Sequence[str]) -> list[str]:
        """Return the text of the first passage of each document of the scope."""
        mine = self._mine(ids)
        return self._transaction.openings([id_ for id_ in ids if id_ in mine])

    def entities_changed(self, since: int, until: int) -> list[str]:
        """Return the scope's entities with an observation that begins or ends in between."""
        changed = self._transaction.entities_changed(since, until)
        mine = self._mine(changed)
        return [id_ for id_ in changed if id_ in mine]

    def next_change(self, moment: int) -> int | None:
        """Return when the next observation of any entity begins or ends."""
        return self._transaction.next_change(moment)

    def next_turn(self, project: str | None, session: str, wanted: int | None = None) -> int:
        """Return the next turn number of a session of the scope."""
        return self._transaction.next_turn(self._own, session, wanted)

    def last_event(self, project: str | None, session: str) -> int | None:
        """Return the time of the last turn of a session of the scope."""
        return self._transaction.last_event(self._own, session)

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the id of the successor of each of these documents of the scope."""
        mine = self._mine(ids)
        pairs = self._transaction.successors([id_ for id_ in ids if id_ in mine])
        shown = self._mine(pairs.values())
        return {old: new for old, new in pairs.items() if new in shown}

    def edges(self, source: str, target: str, type: str) -> list[Relation]:
        """Return the edges between two entities of the scope."""
        ends = {source, target}
        return self._transaction.edges(source, target, type) if self._mine(ends) == ends else []

    def trashed(
        self, ids: Sequence[str] | None = None, *, related: bool = True, texts: bool = True
    ) -> list[Trashed]:
        """Return what can be restored in the scope."""
        rows = self._transaction.trashed(ids, related=related, texts=texts)
        return [row for row in rows if row.document.project == self._own]

    # -- writing ---------------------------------------------------------------------------

    def write(
        self, entry: Entry, *, fingerprint: bytes | None = None, keep_use: bool = False
    ) -> Written:
        """Write a document of the scope; it refers to nothing outside."""
        document = entry.document
        if document.project != self._own:
            raise not_here("What is not in this scope cannot be changed.")
        if self._is_elsewhere(document.id):
            raise not_here("What is not in this scope cannot be changed.")
        if self._is_elsewhere(document.parent):
            document = document._replace(parent=None)
        if self._is_elsewhere(document.supersedes):
            document = document._replace(supersedes=None)
        return self._transaction.write(
            entry._replace(document=document), fingerprint=fingerprint, keep_use=keep_use
        )

    def _is_elsewhere(self, id_: str | None) -> bool:
        row = self._transaction.known(Document(id=id_)) if id_ else None
        return row is not None and row.project != self._own

    def free_turn(self, project: str | None, session: str, turn: int) -> None:
        """Make room for a message in a session of the scope."""
        self._transaction.free_turn(self._own, session, turn)

    def amend(self, id: str, **fields: Any) -> None:
        """Change fields of a document of the scope."""
        self._check([id])
        if fields.get("project", self._own) != self._own:
            raise not_here("What is not in this scope cannot be changed.")
        self._transaction.amend(id, **fields)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents of the scope."""
        self._check(ids)
        self._gone.update(ids)
        return self._transaction.delete(ids)

    def put_edge(self, relation: Relation) -> None:
        """Write an edge between two entities of the scope."""
        self._check((relation.source_id, relation.target_id))
        self._transaction.put_edge(relation)

    def drop_edge(self, relation: Relation) -> None:
        """Delete an edge between two entities of the scope."""
        self._check((relation.source_id, relation.target_id))
        self._transaction.drop_edge(relation)

    def trash(self, documents: Sequence[Trashed]) -> None:
        """Copy documents of the scope to the trash."""
        if any(row.document.project != self._own for row in documents):
            raise not_here("What is not in this scope cannot be changed.")
        self._transaction.trash(documents)

    def set_aside(self, ids: Sequence[str]) -> None:
        """Make deleted documents of the scope restorable only by id."""
        self._transaction.set_aside(self._deleted(ids))

    def forget(self, ids: Sequence[str], *, edges: bool = True) -> None:
        """Drop documents of the scope from the trash."""
        self._transaction.forget(self._deleted(ids), edges=edges)

    def _deleted(self, ids: Sequence[str]) -> list[str]:
        rows = self._transaction.trashed(ids, related=False, texts=False)
        mine = {row.document.id for row in rows if row.document.project == self._own}
        others = {row.document.id for row in rows} - mine
        living = self._mine(ids)
        known = mine | living | self._gone
        return [id_ for id_ in ids if id_ in known and id_ not in others]

    def restore_edges(self) -> None:
        """Restore deleted edges whose two ends exist again."""
        self._transaction.restore_edges()

    def expire(self, before: int) -> None:
        """Drop from the trash what was deleted too long ago, whoever deleted it."""
        self._transaction.expire(before)

    def remember(self, **facts: str | None) -> None:
        """Store values about the memory; other users' profiles stay due.

        Raises:
            UsageError: A value is a caller's own, which concerns the whole memory.
        """
        if any(":" in name for name in facts):
            raise not_here("What was imported is known for the whole memory, not in a scope.")
        due = self._transaction.state.profiles_due
        if "profiles_due" in facts and due is not None:
            fresh = facts["profiles_due"]
            facts["profiles_due"] = str(due if fresh is None else min(due, int(fresh)))
        self._transaction.remember(**facts)

    def touch(self, answers: Sequence[Sequence[Ref]]) -> None:
        """Count passages of the scope as read."""
        own = self._store.own_refs({ref for answer in answers for ref in answer})
        mine = [[ref for ref in answer if ref in own] for answer in answers]
        self._transaction.touch([answer for answer in mine if answer])

    def judge(self, refs: Sequence[Ref], *, good: int = 0, wrong: int = 0) -> None:
        """Add to the feedback on passages of the scope."""
        own = self._store.own_refs(refs)
        self._transaction.judge([ref for ref in refs if ref in own], good=good, wrong=wrong)

    def unrecord(self, project: str) -> None:
        """Drop the scope's entries from the audit log."""
        if project != self._own:
            raise not_here("What is not in this scope cannot be changed.")
        self._transaction.unrecord(project)

    def cache(self, vectors: Mapping[str, Vector], used: Iterable[str], most: int) -> None:
        """Cache vectors by the name of their text."""
        self._transaction.cache(vectors, used, most)

    def clear_cache(self) -> None:
        """Drop every cached vector, and every cached answer of a chat."""
        self._transaction.clear_cache()

    def begin(
        self,
        space: Space,
        *,
        afresh: bool = False,
        sample: Vector | None = None,
        resume: bool = True,
    ) -> bool:
        """Make sure that vectors of this space can be written."""
        return self._transaction.begin(space, afresh=afresh, sample=sample, resume=resume)

    def fill(
        self, space: Space, vectors: Sequence[tuple[Unembedded, Vector | None]], *, building: bool
    ) -> int:
        """Write vectors of passages, of whatever user."""
        return self._transaction.fill(space, vectors, building=building)

    def swap(self, space: Space) -> bool:
        """Make searches use this space if no passage is pending in it."""
        return self._transaction.swap(space)
