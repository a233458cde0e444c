"""A store that shows one project and hides all others, for `Memory.scope`.

Whatever a verb asks for, only documents of the scope and of the projects shared with it answer, and
only those of the scope can be written. Nothing else need know that there are other users: what they
stored has no id, no name and no count here.

Every method of `Store` is written out: a new one must be given its rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from plait.protocols import (
    Candidate,
    Nearest,
    Replies,
    Scored,
    State,
    Store,
    Transaction,
    Trashed,
    Unembedded,
    Vector,
)
from plait.stores.confined_writes import ConfinedTransaction, not_here
from plait.types import EVERYTHING, Document, Filter, Passage, Ref, Space
from plait.types.queries import Query, Spelling, Terms, Turn, Vocabulary
from plait.types.relations import Relation

if TYPE_CHECKING:
    from plait.types.audit import AuditEntry, AuditQuery
    from plait.types.reports import DocumentUsage, Finding, Stats
    from plait.types.steps import StepName, StepTaken
    from plait.types.visibility import Visibility


class ConfinedStore:
    """Reads the projects ``own`` and ``shared`` of another store, and writes ``own``."""

    ahead = None  # each read passes the fence alone, also to a store on another machine

    def __init__(self, store: Store, own: str, shared: Collection[str | None] = ()) -> None:
        self._store = store
        self.own = own
        self.readable: tuple[str | None, ...] = tuple(dict.fromkeys((own, *shared)))

    # -- what is visible -------------------------------------------------------------------

    def _within(self, where: Filter) -> Filter | None:
        """Return a filter without other projects; ``None`` if it selects nothing here."""
        if not where.projects:
            return where._replace(projects=self.readable)
        projects = tuple(name for name in where.projects if name in self.readable)
        return where._replace(projects=projects) if projects else None

    def _visible(self, ids: Iterable[str]) -> set[str]:
        """Return those ids that belong to documents that may be read here."""
        wanted = [Document(id=id_) for id_ in dict.fromkeys(ids) if id_]
        known = self._store.known(wanted) if wanted else []
        return {row.id for row in known if row is not None and row.project in self.readable}

    def own_refs(self, refs: Collection[Ref]) -> set[Ref]:
        """Return those passages that belong to the scope's own documents."""
        rows = self._store.hydrate(list(refs)) if refs else {}
        return {ref for ref, row in rows.items() if row.document.project == self.own}

    # -- reading ---------------------------------------------------------------------------

    def state(self) -> State:
        """Return the state of the memory, without what tells of other users."""
        state = self._store.state()
        mine = EVERYTHING._replace(projects=(self.own,))
        newest = self._store.scan(mine, limit=1)
        pending = self._store.stats(mine).pending_count if state.pending else 0
        return state._replace(
            pending=pending,
            indexed_at=newest[0].indexed_at if newest else None,
            changed_at=None,
            passages=0,
            chance=None,
        )

    def keyword(
        self, query: Query, limit: int, where: Filter, *, deadline: float | None = None
    ) -> list[Scored]:
        """Return the best passages by BM25 that are visible here."""
        within = self._within(where)
        if within is None:
            return []
        # The weights of words in the whole memory would tell what other users have stored.
        local = query._replace(local=True)
        return self._store.keyword(local, limit, within, deadline=deadline)

    def vector(
        self,
        vector: Vector,
        space: Space,
        limit: int,
        where: Filter,
        *,
        also: Sequence[Ref] = (),
        latest: bool = False,
    ) -> Nearest:
        """Return the nearest passages that are visible here."""
        within = self._within(where)
        if within is None:
            return Nearest([], {})
        return self._store.vector(vector, space, limit, within, also=also, latest=latest)

    def vocabulary(
        self,
        words: Iterable[str],
        where: Filter | None = None,
        *,
        prefixes: Iterable[str] = (),
        seen_by: Filter | None = None,
    ) -> Vocabulary:
        """Return the terms of some words, and how many passages here contain each.

        The counts of the whole memory would tell which words other users have stored.
        """
        nowhere = EVERYTHING._replace(projects=(self.own,), keys=("",))
        within = self._within(EVERYTHING if where is None else where) or nowhere
        seen = None if seen_by is None else self._within(seen_by) or nowhere
        return self._store.vocabulary(words, within, prefixes=prefixes, seen_by=seen)

    def hidden(self, limit: int) -> tuple[list[Document], bool]:
        """Return documents that not all members see, of those that may be read here."""
        listed = getattr(self._store, "hidden", None)  # a memory of one person hides nothing
        rows, everything = listed(limit) if listed is not None else ([], True)
        return [row for row in rows if row.project in self.readable], everything

    def visibilities(self, ids: Sequence[str]) -> dict[str, Visibility]:
        """Return who sees documents, by their ids."""
        asked = getattr(self._store, "visibilities", None)
        return asked(ids) if asked is not None else {}

    def alike(self, words: Iterable[str], where: Filter) -> dict[str, list[Spelling]]:
        """Return the words of passages visible here that are spelt like these, nearest first."""
        within = self._within(where)
        return {} if within is None else self._store.alike(words, within)

    def turns(self, refs: Sequence[Ref]) -> dict[Ref, Turn]:
        """Return the places in a conversation of messages that are visible here."""
        rows = self.hydrate(list(refs)) if refs else {}
        return self._store.turns([ref for ref in refs if ref in rows])

    def replies(self, asked: Sequence[Ref], where: Filter) -> Replies:
        """Return what follows each of these questions, if it is visible here."""
        within = self._within(where)
        return {} if within is None else self._store.replies([*self.turns(asked)], within)

    def hydrate(
        self, refs: Sequence[Ref], *, ranking: bool = False, terms: Terms = None
    ) -> dict[Ref, Candidate]:
        """Read passages that are visible here."""
        rows = {
            ref: row
            for ref, row in self._store.hydrate(refs, ranking=ranking, terms=terms).items()
            if row.document.project in self.readable
        }
        successors = [row.superseded_by for row in rows.values() if row.superseded_by is not None]
        hidden = set(successors) - self._visible(successors)
        return {
            ref: row._replace(superseded_by=None) if row.superseded_by in hidden else row
            for ref, row in rows.items()
        }

    def passages(self, document: str, first: int = 0, last: int | None = None) -> list[Passage]:
        """Return passages of a document that is visible here."""
        visible = self._visible([document])
        return self._store.passages(document, first, last) if visible else []

    def embedded(self, document: Document, passages: Sequence[Passage]) -> frozenset[int]:
        """Return the ordinals of passages that would keep their vector in this document."""
        known = self.known([document])[0]
        return frozenset() if known is None else self._store.embedded(document, passages)

    def known(self, documents: Sequence[Document]) -> list[Document | None]:
        """Return for each document the one of the scope that it would replace."""
        rows = self._store.known(documents)
        return [row if row is not None and row.project == self.own else None for row in rows]

    def find(self, name: str, where: Filter) -> list[tuple[Document, Passage | None]]:
        """Return what a name refers to here."""
        within = self._within(where)
        return [] if within is None else self._store.find(name, within)

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents that are visible here."""
        visible = self._visible(ids)
        return self._store.load([id_ for id_ in ids if id_ in visible])

    def scan(
        self,
        where: Filter,
        *,
        limit: int | None = None,
        before: tuple[int, str] | None = None,
        after: tuple[int, str] | None = None,
        by_writing: bool = False,
        by_turn: bool = False,
        whole: bool = False,
        damaged: list[str] | None = None,
    ) -> list[Document]:
        """Return documents that are visible here."""
        within = self._within(where)
        if within is None:
            return []
        return self._store.scan(
            within,
            limit=limit,
            before=before,
            after=after,
            by_writing=by_writing,
            by_turn=by_turn,
            whole=whole,
            damaged=damaged,
        )

    def steps(
        self, where: Filter, named: StepName | None = None, limit: int | None = None
    ) -> list[StepTaken]:
        """Return what agents did, by messages that are visible here."""
        within = self._within(where)
        return [] if within is None else self._store.steps(within, named, limit)

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the id of the successor of each of these documents, where both are visible."""
        visible = self._visible(ids)
        pairs = self._store.successors([id_ for id_ in ids if id_ in visible])
        shown = self._visible(pairs.values())
        return {old: new for old, new in pairs.items() if new in shown}

    def relations(
        self, ids: Sequence[str] | None, where: Filter, *, damaged: list[str] | None = None
    ) -> list[Relation]:
        """Return edges whose two ends are visible here."""
        within = self._within(where)
        if within is None:
            return []
        edges = self._store.relations(ids, within, damaged=damaged)
        ends = self._visible(id_ for edge in edges for id_ in (edge.source_id, edge.target_id))
        return [edge for edge in edges if edge.source_id in ends and edge.target_id in ends]

    def trashed(self, *, texts: bool = True, distrusted: int | None = None) -> list[Trashed]:
        """Return what can be restored here; with ``distrusted`` also of shared projects."""
        if distrusted is None:
            rows = self._store.trashed(texts=texts)
            return [row for row in rows if row.document.project == self.own]
        rows = self._store.trashed(distrusted=distrusted)
        if sum(max(1, len(row.passages)) for row in rows) >= distrusted:
            # Not the newest of all users: those of one must not hide those of another.
            rows = [row for row in self._store.trashed() if row.document.trust != "trusted"]
        rows = [row for row in rows if row.document.project in self.readable]
        most, kept = distrusted, list[Trashed]()
        for row in rows:
            if most <= 0:
                break
            most -= max(1, len(row.passages))
            kept.append(row)
        return kept

    def pending(
        self, space: Space, limit: int, *, building: bool, project: str | None = None
    ) -> list[Unembedded]:
        """Return the scope's own passages without a vector.

        What a server says about another user's text would be told to this one.
        """
        if project not in (None, self.own):
            return []
        return self._store.pending(space, limit, building=building, project=self.own)

    def cached(self, names: Sequence[str]) -> dict[str, Vector]:
        """Return vectors that were made before; who knows the text can make them."""
        return self._store.cached(names)

    def remembered(self, prefix: str) -> dict[str, str]:
        """Return nothing: what a caller keeps there is about the whole memory."""
        return {}

    def audit(self, wanted: AuditQuery, limit: int) -> list[AuditEntry]:
        """Return entries about the scope's own documents."""
        if wanted.projects is not None and self.own not in wanted.projects:
            return []
        return self._store.audit(wanted._replace(projects=(self.own,)), limit)

    @contextmanager
    def transaction(self, *, patient: bool = True) -> Iterator[Transaction]:
        """Begin a write transaction that reaches only the scope."""
        with self._store.transaction(patient=patient) as transaction:
            yield ConfinedTransaction(transaction, self)

    def sample_chance(self, space: Space, foreign: Sequence[Vector]) -> None:
        """Sample what chance finds in the whole memory."""
        self._store.sample_chance(space, foreign)

    def tidy(
        self, *, keywords: bool = False, compact: bool = False, purged: bool = False
    ) -> tuple[str, ...]:
        """Tidy up the whole memory, which changes no text."""
        return self._store.tidy(keywords=keywords, compact=compact, purged=purged)

    def stats(self, where: Filter | None = None) -> Stats:
        """Return counts of what is visible here, and no sizes."""
        within = self._within(EVERYTHING if where is None else where)
        within = EVERYTHING._replace(projects=(self.own,)) if within is None else within
        trash = 0 if where is not None else len(self.trashed(texts=False))
        return self._store.stats(within)._replace(trash_count=trash)

    def usage(self, where: Filter) -> dict[str, DocumentUsage]:
        """Return the sizes of documents that are visible here, and how they were read."""
        within = self._within(where)
        return {} if within is None else self._store.usage(within)

    def check(self, *, fix: bool = False) -> list[Finding]:
        """Refuse: the file belongs to all users."""
        raise not_here("The whole memory cannot be checked in a scope.", "check")

    def close(self) -> None:
        """Leave the store open: it belongs to the memory."""
