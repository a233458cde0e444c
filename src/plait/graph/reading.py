"""Reading the graph: entities by name, by text, by meaning and by relations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from plait.embedders import Embedder
from plait.errors import NotFound, advise
from plait.facts.names import unknown_entity
from plait.graph import semantic, walk
from plait.graph.erasing import with_composed_name
from plait.graph.values import Entity, Subgraph, entities_from
from plait.graph.walk import Direction
from plait.protocols import Store
from plait.text.normal_form import composed
from plait.types import TRUSTS, Cut, Document, Filter, Trust
from plait.types.guarding import guarded
from plait.types.relations import Relation
from plait.writing.use import UseCounter

# Reading leaves out what is quarantined.
SHOWN_TRUSTS = Filter().trusts
# A longer answer is a list to look through, not something that was read.
READ_TOGETHER = 50


@guarded
class ReadableGraph:
    """The part of `Graph` that reads and changes nothing."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        project: str | None,
        max_bytes: int,
        places: Sequence[str | None] = (),
        cut: Cut = Cut(),  # noqa: B008 - an immutable value
        reads: UseCounter | None = None,
        for_queries: Callable[[], Embedder] | None = None,
        ranking: semantic.EntityRanking = semantic.EntityRanking(),  # noqa: B008
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._project = project
        # Where entities are read; the project's own hide others of the same name.
        self._places = tuple(dict.fromkeys(places or (project, None)))
        self._cut = cut
        self._max_bytes = max_bytes
        self._reads = reads or UseCounter(None)
        # A memory is searched with the embedder of its vectors until it is reindexed.
        self._for_queries = for_queries or (lambda: embedder)
        self._ranking = ranking
        self._clock = clock

    # -- reading ---------------------------------------------------------------------------

    def open(
        self,
        names: Sequence[str],
        where: Filter = Filter(),  # noqa: B008
        *,
        as_created: bool = False,
    ) -> Subgraph:
        """Return the entities with these names, in this order; unknown names are left out.

        ``as_created``: in the order of their creation instead.
        """
        return self._around(self._heads(names, trusts=where.trusts, as_created=as_created), where)

    def elsewhere(self, names: Sequence[str] = ()) -> int:
        """Return how many trusted entities other projects have, of these names or of any."""
        where = Filter(kinds=("entity",), trusts=("trusted",), keys=tuple(map(composed, names)))
        return sum(document.project not in self._places for document in self._store.scan(where))

    def ids_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the ids of the entities with these names.

        Raises:
            NotFound: An entity does not exist.
        """
        ids = {document.key: document.id for document in self._heads(names)}
        for name in names:
            if composed(name) not in ids:
                raise unknown_entity(name, advise("list_entities"))
        return tuple(ids.values())

    def search(self, query: str) -> Subgraph:
        """Return entities whose name, type or observations contain a text, ignoring case."""
        graph = self.read()
        entities = [entity for entity in graph.entities if entity.contains(query)]
        ids = {entity.id for entity in entities}
        relations = (
            edge for edge in graph.relations if edge.source_id in ids or edge.target_id in ids
        )
        return Subgraph(tuple(entities), tuple(relations))

    def read(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        trusts: tuple[Trust, ...] = SHOWN_TRUSTS,
        damaged: list[str] | None = None,
    ) -> Subgraph:
        """Return the whole graph in the order of creation, or a page of it.

        ``damaged`` gets the ids of what cannot be read; without it, the first one is an error.

        Raises:
            NotFound: The last entity of the previous page no longer exists.
        """
        heads = self._heads(None, trusts=trusts, damaged=damaged)
        if after is not None:
            places = [place for place, document in enumerate(heads) if document.id == after]
            if not places:
                raise NotFound(
                    f"There is no page after '{after}' any more. Start over without a cursor.",
                    code="unknown_cursor",
                    subject=after,
                )
            heads = heads[places[0] + 1 :]
        page = heads if limit is None else heads[: max(1, limit)]
        graph = self._around(page, Filter(trusts=trusts), damaged)
        more = len(page) < len(heads)
        return graph._replace(next=page[-1].id if more else None)

    def neighbours(
        self,
        name: str,
        *,
        depth: int = 1,
        direction: Direction = "both",
        types: Sequence[str] = (),
    ) -> Subgraph:
        """Return an entity and those within ``depth`` relations of it, nearest first.

        Raises:
            NotFound: There is no entity of that name.
            UsageError: The depth is out of range, or the direction is unknown.
        """
        walk.check_walk(depth, direction)
        wanted = {*map(composed, types)}
        heads = self._heads([name], trusts=SHOWN_TRUSTS)
        if not heads:
            raise unknown_entity(name)

        def edges_of(ids: Sequence[str]) -> list[Relation]:
            touching = self._store.relations(ids, self._scope(Filter()))
            return [edge for edge in touching if not wanted or composed(edge.type) in wanted]

        reached, crossed = walk.reach(heads[0].id, depth, direction, edges_of)
        documents = {document.id: document for document in self._heads(None, trusts=SHOWN_TRUSTS)}
        near = [documents[id_] for id_ in reached if id_ in documents]
        entities = self._entities(near, Filter())
        return Subgraph(tuple(entities), tuple(crossed))

    def search_semantic(
        self,
        query: str,
        limit: int = semantic.DEFAULT_ENTITIES,
        *,
        trusts: tuple[Trust, ...] = SHOWN_TRUSTS,
    ) -> semantic.RankedEntities:
        """Search entities by meaning, words and use: mcp-memory's six steps and result shape.

        ``distance`` is null for a hit by keywords only; ``rrf_score`` is absent if no keyword
        matched anything. The entities in the answer count as read.

        Raises:
            UsageError: The query is empty or the limit is out of range.
        """
        where = self._scope(Filter(trusts=trusts))
        search = semantic.SemanticSearch(
            self._store, self._for_queries(), where, lambda ids: self._visible(ids, trusts)
        )
        ranked = search.run(query, limit, self._clock(), self._ranking)
        entities = self._entities([row.document for row in ranked], Filter(trusts=trusts))
        answer = semantic.RankedEntities(map(semantic.semantic_dict, entities, ranked))
        answer.degraded = tuple(search.degraded)
        self._reads.read([row.ref for row in ranked])
        return answer

    def count_as_read(self, ids: Sequence[str]) -> None:
        """Count the first entities of an answer, given by id, as read together."""
        profiles = (self._store.passages(id_, 0, 0) for id_ in ids[:READ_TOGETHER])
        self._reads.read([passage.ref for passages in profiles for passage in passages])

    # -- inside ----------------------------------------------------------------------------

    def _scope(self, where: Filter) -> Filter:
        if where.projects is not None:
            return where
        return where._replace(projects=self._places)

    def _heads(
        self,
        names: Sequence[str] | None,
        *,
        personal: bool = True,
        trusts: tuple[Trust, ...] = TRUSTS,
        as_created: bool = False,
        damaged: list[str] | None = None,
    ) -> list[Document]:
        """Return the entities with these names in this order, or all in the order of creation.

        An entity of this project hides a personal one of the same name.
        """
        if names is not None and not names:
            return []
        projects = self._places if personal else (self._project,)
        where = Filter(projects=projects, kinds=("entity",), trusts=trusts, keys=tuple(names or ()))
        entities: dict[str, Document] = {}
        ahead = self._store.ahead  # what a search expects goes with the entities of its filter
        rows = (
            self._store.scan(where, by_writing=True, damaged=damaged)
            if ahead is None
            else ahead.scan(where)
        )
        for document in map(with_composed_name, rows):
            name = document.key or ""
            if name not in entities or document.project == self._project:
                entities[name] = document
        if names is None:
            return list(entities.values())
        wanted = dict.fromkeys(map(composed, names))
        if as_created:
            return [entity for name, entity in entities.items() if name in wanted]
        return [entities[name] for name in wanted if name in entities]

    def _visible(self, ids: Sequence[str], trusts: tuple[Trust, ...]) -> dict[str, Document]:
        """Return those of some entities that no other of the same name hides."""
        names = [document.key or "" for document in self._store.load(ids)]
        wanted = set(ids)
        return {head.id: head for head in self._heads(names, trusts=trusts) if head.id in wanted}

    def _in_order(self, names: Sequence[str], *, personal: bool) -> list[Entity]:
        return self._entities(self._heads(names, personal=personal), Filter()) if names else []

    def _entities(
        self, heads: Sequence[Document], where: Filter, damaged: list[str] | None = None
    ) -> list[Entity]:
        if not heads:
            return []
        parents = tuple(head.id for head in heads)
        wanted = where._replace(projects=None, kinds=("observation",), parents=parents)
        known = self._store.scan(wanted, by_writing=True, whole=True, damaged=damaged)
        return entities_from(heads, known)

    def _around(
        self, heads: Sequence[Document], where: Filter, damaged: list[str] | None = None
    ) -> Subgraph:
        ids = [head.id for head in heads]
        touching = self._store.relations(ids, self._scope(where), damaged=damaged)
        return Subgraph(tuple(self._entities(heads, where, damaged)), tuple(touching))
