"""Entities, their observations and relations: create, relate, read and search them.

An entity is a document whose only passage is its profile; an observation is a document that belongs
to it. Every method that writes is one transaction. Turning text into passages and vectors belongs
to `plait.writing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from plait.facts.echo import MACHINES
from plait.facts.names import unknown_entity
from plait.facts.trust import COPYING
from plait.graph import edges
from plait.graph.erasing import with_trashed
from plait.graph.reading import ReadableGraph
from plait.graph.values import (
    Added,
    Created,
    Entity,
    Erased,
    Forgotten,
    Subgraph,
    added_from,
    check_name,
    lowered_among,
    merge_entities,
    reference_relation,
)
from plait.graph.walk import DIRECTIONS, Direction
from plait.protocols import Entry
from plait.text import single_spaced
from plait.text.normal_form import composed
from plait.times import Moment, as_moment, check_order
from plait.types import TRUSTS, Document, Filter, Origin, Trust
from plait.types.guarding import guarded, recorded
from plait.types.ids import ENTITY_SOURCE
from plait.types.relations import Relation
from plait.types.reports import Deleted, NewEntity, Stored
from plait.writing import deleting, observations
from plait.writing.chance import sample_chance
from plait.writing.changes import Belongs, Change
from plait.writing.copies import New, with_trust_of_copies
from plait.writing.documents import check_size
from plait.writing.writer import Writer

__all__ = [
    "DIRECTIONS",
    "Added",
    "Created",
    "Direction",
    "Entity",
    "Erased",
    "Forgotten",
    "Graph",
    "Subgraph",
    "reference_relation",
]


@guarded
class Graph(ReadableGraph):
    """The entities of one project, and personal ones whose name the project does not have.

    Observations about a personal entity are personal too, whatever the project.
    """

    # -- writing ---------------------------------------------------------------------------

    @recorded("create")
    def create(
        self,
        entities: Iterable[NewEntity],
        *,
        merge: bool = True,
        origin: Origin = "user",
        trust: Trust = "trusted",
        session: str | None = None,
        allow_secret: bool = False,
    ) -> Created:
        """Create entities; with ``merge``, existing ones get the new type and observations.

        Without it, an existing entity stays as it is and is left out of the result, as is one
        without a name. An observation without text, or one recalled from this memory, is left out.

        Raises:
            UsageError: A name is empty, or an agent stores a secret; nothing is written.
        """
        wanted = merge_entities(entities, merge=merge)
        fields = Document(origin=origin, trust=trust, session=session)
        ids = {row.key: row.id for row in self._heads(list(wanted), personal=False)}
        belongs: Belongs = "make" if merge else "new"
        writer = self._begin(allow_secret=allow_secret)
        heads = self._head_changes(writer, wanted.values(), fields, belongs)
        new = [
            New(fields._replace(text=text), entity.name)
            for entity in wanted.values()
            for text in entity.observations
        ]
        facts = [
            self._fact(writer, part, row.entity or "", belongs)
            for row, part in zip(new, observations.new_parts(writer, new, ids), strict=True)
            if part is not None and part.text.strip()
        ]
        for head in heads:
            writer.check_secrets(head.entry.document)
        changes = [*heads, *facts]
        stored = self._write(writer, changes)
        created = {
            name: done
            for name, done in zip(wanted, stored, strict=False)
            if merge or not done.replaced
        }
        result = Created(self._in_order(list(created), personal=False))
        result.trouble = writer.trouble
        result.secret = tuple(dict.fromkeys(kind for done in stored for kind in done.secret))
        result.lowered = lowered_among(trust, changes, stored)
        return result

    def _begin(self, *, allow_secret: bool = False) -> Writer:
        return Writer.begin(
            self._store,
            self._embedder,
            self._cut,
            self._project,
            max_bytes=self._max_bytes,
            allow_secret=allow_secret,
        )

    @staticmethod
    def _write(writer: Writer, changes: Sequence[Change]) -> list[Stored]:
        """Write changes in one transaction, then compute the missing vectors."""
        stored = writer.write(changes)
        observations.fill_profiles(writer)
        sample_chance(writer.store, writer.embedder, writer.state)
        return stored

    def _head_changes(
        self, writer: Writer, entities: Iterable[NewEntity], fields: Document, belongs: Belongs
    ) -> list[Change]:
        heads = [
            fields._replace(
                key=entity.name,
                title=entity.name,
                kind="entity",
                source=ENTITY_SOURCE,
                project=self._project,
                type=entity.type,
            )
            for entity in entities
        ]
        for head in heads:
            writer.check_size(head)
        # A name or a type may be copied from untrusted text as well as a fact.
        trusted = with_trust_of_copies(self._store, [New(head) for head in heads])
        return [Change(Entry(head, ()), belongs=belongs) for head in trusted]

    def _fact(self, writer: Writer, part: Document, name: str, belongs: Belongs) -> Change:
        document = part._replace(kind="observation", project=self._project)
        return Change(writer.prepare(document), entity=name, belongs=belongs)

    @recorded("observe")
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
        allow_secret: bool = False,
    ) -> list[Added]:
        """Add observations to entities, all of them or none.

        Args:
            additions: Names of entities, each with its new observations.
            make: Create entities that do not exist, instead of refusing.
            type: The observations' type: decision, fact, preference, … or your own.
            tags: The observations' tags.
            origin: Where they come from.
            trust: How far to trust them.
            session: The session they belong to.
            allow_secret: Store secrets of an agent or a tool, instead of refusing.

        Raises:
            NotFound: An entity does not exist; nothing is written.
            UsageError: An agent stores a secret; nothing is written.
        """
        fields = Document(origin=origin, trust=trust, session=session, type=type, tags=tuple(tags))
        given = [(check_name(name), list(texts)) for name, texts in additions]
        belongs: Belongs = "make" if make else "known"
        ids = {row.key: row.id for row in self._heads([name for name, _ in given])}
        for name, _ in given:
            if not make and name not in ids:
                raise unknown_entity(name)
        writer = self._begin(allow_secret=allow_secret)
        changes: list[Change] = []
        results: list[tuple[str, list[tuple[str, int | None]]]] = []
        new = [New(fields._replace(text=text), name) for name, texts in given for text in texts]
        parts = iter(observations.new_parts(writer, new, ids))
        for name, texts in given:
            if name not in ids:
                writer.check_size(Document(key=name))
                writer.check_secrets(Document(key=name, origin=origin))
            mine: list[tuple[str, int | None]] = []
            for text, part in zip(texts, parts, strict=False):
                if part is None:
                    mine.append((text, None))
                elif part.text.strip():
                    mine.append((part.text, len(changes)))
                    changes.append(self._fact(writer, part, name, belongs))
            results.append((name, mine))
        stored = self._write(writer, changes)
        added = []
        for name, mine in results:
            own = [(text, None if place is None else stored[place]) for text, place in mine]
            places = [place for _, place in mine if place is not None]
            lowered = lowered_among(
                trust, [changes[place] for place in places], [stored[place] for place in places]
            )
            added.append(added_from(name, own)._replace(trouble=writer.trouble, lowered=lowered))
        return added

    @recorded("forget")
    def forget(self, deletions: Iterable[tuple[str, Sequence[str]]]) -> Forgotten:
        """Delete observations by their text or id; unknown ones are ignored."""
        given = [
            (composed(name), {single_spaced(composed(text)) for text in texts})
            for name, texts in deletions
        ]
        ids = {row.key: row.id for row in self._heads([name for name, _ in given])}
        texts_of: dict[str, set[str]] = {}
        for name, texts in given:
            if name in ids:
                texts_of.setdefault(ids[name], set()).update(texts)
        where = Filter(kinds=("observation",), parents=tuple(texts_of), trusts=TRUSTS)
        known = self._store.scan(where, by_writing=True, whole=True) if texts_of else []
        doomed = [
            row.id
            for row in known
            if texts_of[row.parent or ""] & {single_spaced(composed(row.text)), row.id}
        ]
        gone: tuple[str, ...] = ()
        if doomed:
            gone = deleting.delete(self._store, doomed, home=self._project or "").ids
            observations.fill_profiles(self._begin())
        return Forgotten(len(gone), tuple(name for name, _ in given if name not in ids))

    @recorded("relate")
    def relate(
        self,
        relations: Iterable[Relation],
        *,
        origin: Origin = "user",
        allow_secret: bool = False,
    ) -> list[Relation]:
        """Add edges between entities; return those that are new.

        An edge that exists already gets the given context.

        Raises:
            NotFound: An entity does not exist; nothing is written.
            UsageError: Not a user's, and one repeats untrusted text ("untrusted_relation"), or an
                agent stores a secret, or one ends before it begins ("bad_order"); nothing is
                written.
        """
        wanted = list(relations)
        if origin in MACHINES and not allow_secret:
            edges.refuse_held_secrets(wanted)
        if origin in COPYING:
            edges.refuse_copies(self._store, wanted, self._project)
        for edge in wanted:
            check_order("valid_from", edge.valid_from, "valid_to", edge.valid_to)
            check_size((edge.source, edge.target, edge.type, edge.context or ""), self._max_bytes)
        fresh = edges.relate(self._store, wanted, self._project)
        return [relation for relation, new in zip(wanted, fresh, strict=True) if new]

    @recorded("unrelate")
    def unrelate(self, relations: Iterable[Relation], *, end: Moment | None = None) -> int:
        """Remove edges, or end them at the moment ``end``; return how many there were."""
        moment = as_moment(end, "end")
        return edges.unrelate(self._store, list(relations), self._project, end=moment)

    @recorded("delete")
    def delete(self, names: Sequence[str], *, purge: bool = False) -> Erased:
        """Delete entities and all that belongs to them; undo within 30 days unless ``purge``.

        A purge also removes deleted entities of the same names from the trash.
        """
        names = list(map(composed, names))
        doomed = {document.id: document for document in self._heads(names)}
        if purge:
            doomed = with_trashed(self._store, doomed, names, self._project)
        gone = Deleted(purged=purge)
        if doomed:
            gone = deleting.delete(self._store, list(doomed), purge=purge, home=self._project or "")
        known = {document.key for document in doomed.values()}
        return Erased(
            tuple(name for name in dict.fromkeys(names) if name in known),
            tuple(name for name in dict.fromkeys(names) if name not in known),
            gone,
        )
