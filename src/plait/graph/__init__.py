"""Entities and what is said of them: made, joined, read, and searched the way of seed 002.

An entity is a document whose one passage is its profile; an observation is a document that belongs
to it. Every method that writes is one transaction. How a text becomes passages and vectors is the
write path's business: it comes in through `Scribe`.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from plait.errors import NotFound
from plait.graph import semantic, walk
from plait.graph.values import (
    Added,
    Entity,
    Erased,
    Forgotten,
    Subgraph,
    added,
    bare,
    check_name,
    joined,
    relation_dict,
    unknown,
)
from plait.graph.walk import DIRECTIONS, Direction
from plait.protocols import Belongs, Embedder, Entry, Store
from plait.ranking import limbic
from plait.types import (
    ENTITY_SOURCE,
    TRUSTS,
    Deleted,
    Document,
    Filter,
    NewEntity,
    Origin,
    Ref,
    Relation,
    Stored,
    Trust,
)

__all__ = [
    "DIRECTIONS",
    "Added",
    "Direction",
    "Entity",
    "Erased",
    "Forgotten",
    "Graph",
    "Scribe",
    "Subgraph",
    "relation_dict",
]


# Whom reading shows: quarantined things are kept, and shown to nobody.
SHOWN = Filter().trusts


class Scribe(Protocol):
    """The write path as far as it is needed here."""

    def entry(self, document: Document) -> Entry:
        """A document, completed and cut into passages."""

    def write(self, entries: Sequence[Entry]) -> list[Stored]:
        """Store entries in one transaction, then make the vectors that are missing."""

    def fill(self) -> None:
        """Make the vectors that are missing."""

    def fresh(self, document: Document, about: str | None) -> str | None:
        """What of a text is new; ``None`` where all of it came out of this memory."""


class Graph:
    """The entities of one project, and personal ones unless a namesake of the project hides them.

    What is said of a personal entity is personal too, wherever it is said.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        scribe: Scribe,
        *,
        project: str | None,
        listed: Callable[[Sequence[Ref]], None] = lambda refs: None,
        constants: limbic.Constants = limbic.DEFAULTS,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._scribe = scribe
        self._project = project
        self._listed = listed
        self._constants = constants
        self._clock = clock

    # -- writing ---------------------------------------------------------------------------

    def create(
        self,
        entities: Iterable[NewEntity],
        *,
        merge: bool = True,
        origin: Origin = "user",
        trust: Trust = "trusted",
        session: str | None = None,
    ) -> list[Entity]:
        """Make entities; with ``merge`` a known one takes over type and observations.

        Without it a known one stays as it is and is left out of the answer, as is one without a
        name. An observation without text, or one that came out of this memory, is left out.

        Raises:
            UsageError: A name is empty.
        """
        wanted = joined(entities, merge=merge)
        fields = Document(origin=origin, trust=trust, session=session)
        ids = {row.key: row.id for row in self._heads(list(wanted), personal=False)}
        heads = [self._head(entity, fields, merge=merge) for entity in wanted.values()]
        facts = [
            self._said(text, entity.name, fields, "make" if merge else "new")
            for entity in wanted.values()
            for text in self._fresh(entity.observations, fields, ids.get(entity.name, ""))
            if text
        ]
        stored = self._scribe.write([*heads, *facts])
        made = {
            name: done
            for name, done in zip(wanted, stored, strict=False)
            if merge or not done.replaced
        }
        return self._in_order(list(made), personal=False)

    def _fresh(self, texts: Sequence[str], fields: Document, about: str) -> list[str | None]:
        """What of each text is new of this entity; ``None`` where nothing is."""
        return [
            self._scribe.fresh(fields._replace(text=text), about) if text.strip() else ""
            for text in texts
        ]

    def _head(self, entity: NewEntity, fields: Document, *, merge: bool) -> Entry:
        document = fields._replace(
            key=entity.name,
            title=entity.name,
            kind="entity",
            source=ENTITY_SOURCE,
            project=self._project,
            type=entity.type,
        )
        return Entry(document, (), belongs="make" if merge else "new")

    def _said(self, text: str, name: str, fields: Document, belongs: Belongs) -> Entry:
        document = fields._replace(kind="observation", text=text, project=self._project)
        return self._scribe.entry(document)._replace(entity=name, belongs=belongs)

    def observe(
        self,
        additions: Iterable[tuple[str, Sequence[str]]],
        *,
        make: bool = False,
        type: str | None = None,
        tags: Sequence[str] = (),
        origin: Origin = "user",
        trust: Trust = "trusted",
        session: str | None = None,
    ) -> list[Added]:
        """Add observations to entities, all of them or none.

        Args:
            additions: Names of entities, each with what is to be said of it.
            make: Make entities that do not exist, instead of refusing.
            type: The observations' type: decision, fact, preference, … or your own.
            tags: The observations' tags.
            origin: Who says it.
            trust: How far to trust it.
            session: The session it belongs to.

        Raises:
            NotFound: There is no entity of a name; nothing is written.
        """
        fields = Document(origin=origin, trust=trust, session=session, type=type, tags=tuple(tags))
        given = [(check_name(name), list(texts)) for name, texts in additions]
        belongs: Belongs = "make" if make else "known"
        ids = {row.key: row.id for row in self._heads([name for name, _ in given])}
        for name, _ in given:
            if not make and name not in ids:
                raise unknown(name)
        entries: list[Entry] = []
        answers: list[tuple[str, list[tuple[str, int | None]]]] = []
        for name, texts in given:
            mine: list[tuple[str, int | None]] = []
            for text, rest in zip(
                texts, self._fresh(texts, fields, ids.get(name, "")), strict=True
            ):
                if rest:
                    mine.append((rest, len(entries)))
                    entries.append(self._said(rest, name, fields, belongs))
                elif rest is None:
                    mine.append((text, None))
            answers.append((name, mine))
        stored = self._scribe.write(entries)
        return [
            added(name, [(text, None if place is None else stored[place]) for text, place in mine])
            for name, mine in answers
        ]

    def forget(self, deletions: Iterable[tuple[str, Sequence[str]]]) -> Forgotten:
        """Delete observations by their text or id; ones that nobody made are no failure."""
        given = [(name, {bare(text) for text in texts}) for name, texts in deletions]
        ids = {row.key: row.id for row in self._heads([name for name, _ in given])}
        texts_of: dict[str, set[str]] = {}
        for name, texts in given:
            if name in ids:
                texts_of.setdefault(ids[name], set()).update(texts)
        where = Filter(kinds=("observation",), parents=tuple(texts_of), trusts=TRUSTS)
        doomed = [
            said.id
            for said in (self._store.in_order(where) if texts_of else ())
            if texts_of[said.parent or ""] & {bare(said.text), said.id}
        ]
        gone = self._store.delete(doomed).ids if doomed else ()
        self._scribe.fill()
        return Forgotten(len(gone), tuple(name for name, _ in given if name not in ids))

    def relate(self, relations: Iterable[Relation]) -> list[Relation]:
        """Join entities; the edges that are new.

        An edge that holds already takes over the context that is given.

        Raises:
            NotFound: There is no entity of a name; nothing is written.
        """
        wanted = list(relations)
        fresh = self._store.relate(wanted, self._project)
        return [relation for relation, new in zip(wanted, fresh, strict=True) if new]

    def unrelate(self, relations: Iterable[Relation], *, end: int | None = None) -> int:
        """Remove edges, or with ``end`` let them hold until that moment; how many there were."""
        return self._store.unrelate(list(relations), self._project, end=end)

    def delete(self, names: Sequence[str], *, purge: bool = False) -> Erased:
        """Delete entities with all that belongs to them; 30 days of grace unless ``purge``.

        A purge reaches those of the same names that were deleted before.
        """
        doomed = {document.id: document for document in self._heads(names)}
        if purge:
            homes = {document.key: document.project for document in doomed.values()}
            trash = [row for _, _, row in self._store.trashed() if row.kind == "entity"]
            for project in (self._project, None):
                # As for those that are there, the project's own hide the personal ones.
                mine = [row for row in trash if row.project == project and row.key in names]
                mine = [row for row in mine if homes.get(row.key, project) == project]
                doomed.update({row.id: row for row in mine})
                homes.update({row.key: project for row in mine})
        gone = self._store.delete(list(doomed), purge=purge) if doomed else Deleted(purged=purge)
        known = {document.key for document in doomed.values()}
        return Erased(
            tuple(name for name in dict.fromkeys(names) if name in known),
            tuple(name for name in dict.fromkeys(names) if name not in known),
            gone,
        )

    # -- reading ---------------------------------------------------------------------------

    def open(self, names: Sequence[str], where: Filter = Filter()) -> Subgraph:  # noqa: B008
        """The entities of these names, in this order; unknown names are left out."""
        return self._around(self._heads(names, trusts=where.trusts), where)

    def ids_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """The ids of entities that must be there.

        Raises:
            NotFound: There is none of a name.
        """
        found = {document.key: document.id for document in self._heads(names)}
        for name in names:
            if name not in found:
                raise NotFound(f"There is no entity named '{name}'. See: plait entity list")
        return tuple(found.values())

    def search(self, query: str) -> Subgraph:
        """Entities whose name, type or observations hold a text, in whatever case."""
        wanted = query.casefold()
        whole = self.read()
        found = [
            entity
            for entity in whole.entities
            if any(
                wanted in said.casefold() for said in (entity.name, entity.type, *entity.contents)
            )
        ]
        ids = {entity.id for entity in found}
        touching = (
            edge for edge in whole.relations if edge.source_id in ids or edge.target_id in ids
        )
        return Subgraph(tuple(found), tuple(touching))

    def read(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        trusts: tuple[Trust, ...] = SHOWN,
    ) -> Subgraph:
        """The whole graph in the order in which it was made, or a page of it."""
        heads = self._heads(None, trusts=trusts)
        if after is not None:
            places = [place for place, document in enumerate(heads) if document.id == after]
            if not places:
                raise NotFound(
                    f"There is no page after '{after}' any more. Begin again without it."
                )
            heads = heads[places[0] + 1 :]
        page = heads if limit is None else heads[: max(1, limit)]
        found = self._around(page, Filter(trusts=trusts))
        more = len(page) < len(heads)
        return found._replace(next=page[-1].id if more else None)

    def neighbours(
        self,
        name: str,
        *,
        depth: int = 1,
        direction: Direction = "both",
        types: Sequence[str] = (),
    ) -> Subgraph:
        """An entity and what can be reached from it over at most ``depth`` edges, nearest first.

        Raises:
            NotFound: There is no entity of that name.
            UsageError: A depth or direction that there is none of.
        """
        walk.check(depth, direction)
        heads = self._heads([name], trusts=SHOWN)
        if not heads:
            raise unknown(name)

        def edges_of(ids: Sequence[str]) -> list[Relation]:
            touching = self._store.relations(ids, self._scope(Filter()))
            return [edge for edge in touching if not types or edge.type in types]

        reached, edges = walk.reach(heads[0].id, depth, direction, edges_of)
        found = {document.id: document for document in self._heads(None, trusts=SHOWN)}
        entities = self._entities([found[id_] for id_ in reached if id_ in found], Filter())
        return Subgraph(tuple(entities), tuple(edges))

    def search_semantic(self, query: str, limit: int = semantic.LIMIT) -> list[dict[str, Any]]:
        """Entities by meaning, words and use: seed 002's six steps, in its own shape.

        Every answer holds a ``distance``, null where keywords alone found the entity, and an
        ``rrf_score`` exactly when keywords found anything at all.

        Raises:
            UsageError: The query is empty or the limit out of its range.
        """
        where = self._scope(Filter(kinds=("entity",)))
        found = semantic.search(
            self._store, self._embedder, query, limit, where, self._clock(), self._constants
        )
        entities = self._entities([one.document for one in found], Filter())
        answer = [semantic.shown(*pair) for pair in zip(entities, found, strict=True)]
        self._listed([one.ref for one in found])
        return answer

    # -- inside ----------------------------------------------------------------------------

    def _scope(self, where: Filter) -> Filter:
        if where.projects is not None:
            return where
        return where._replace(projects=(self._project, None) if self._project else (None,))

    def _heads(
        self,
        names: Sequence[str] | None,
        *,
        personal: bool = True,
        trusts: tuple[Trust, ...] = TRUSTS,
    ) -> list[Document]:
        """The entities of these names in this order, or all in the order of their making.

        A name of this project hides the personal one.
        """
        if names is not None and not names:
            return []
        projects = (self._project, None) if personal else (self._project,)
        where = Filter(projects=projects, kinds=("entity",), trusts=trusts, keys=tuple(names or ()))
        found: dict[str, Document] = {}
        for document in self._store.in_order(where):
            name = document.key or ""
            if name not in found or document.project == self._project:
                found[name] = document
        if names is None:
            return list(found.values())
        return [found[name] for name in dict.fromkeys(names) if name in found]

    def _in_order(self, names: Sequence[str], *, personal: bool) -> list[Entity]:
        return self._entities(self._heads(names, personal=personal), Filter()) if names else []

    def _entities(self, heads: Sequence[Document], where: Filter) -> list[Entity]:
        said: dict[str, list[Document]] = {}
        parents = tuple(head.id for head in heads)
        wanted = where._replace(projects=None, kinds=("observation",), parents=parents)
        for observation in self._store.in_order(wanted) if parents else ():
            said.setdefault(observation.parent or "", []).append(observation)
        return [
            Entity(
                head.id,
                head.key or "",
                head.type or "",
                tuple(said.get(head.id, ())),
                head.project,
                head.created_at,
                head.updated_at,
                head.trust,
            )
            for head in heads
        ]

    def _around(self, heads: Sequence[Document], where: Filter) -> Subgraph:
        edges = self._store.relations([head.id for head in heads], self._scope(where))
        return Subgraph(tuple(self._entities(heads, where)), tuple(edges))
