"""Keep what a program makes out of a hidden text hidden from those who do not see that text.

In a memory with members, what agents and tools store is the team's unless somebody says otherwise.
A text of theirs that repeats, word for word, what is private or a project's is seen by the same
people as that. The rules of a copy are those of `plait.writing.copies`.
"""

from collections.abc import Collection, Sequence
from typing import Protocol, cast

from plait.errors import UsageError, quoted
from plait.facts.trust import COPYING
from plait.protocols import Store
from plait.types import EVERYTHING, Document, Filter
from plait.types.ids import ENTITY_SOURCE
from plait.types.queries import Query
from plait.types.relations import Relation
from plait.types.visibility import TEAM, Visibility, wanted_visibility
from plait.writing.changes import Change
from plait.writing.copies import MOST_SOURCES, CopySearch, New, NewParts

# Passages with the words of a text, among which hidden ones are looked for.
_LOOKED_AT = 50


class _HidingStore(Protocol):
    def hidden(self, limit: int) -> tuple[list[Document], bool]:
        """Return the latest documents that not all see, and whether these are all of them."""

    def visibilities(self, ids: Sequence[str]) -> dict[str, Visibility]:
        """Return who sees documents, by their ids."""


def confined(store: Store, changes: Sequence[Change]) -> list[Change]:
    """Return changes with who sees each: copies of what not all see stay with those who see it."""
    places = [place for place, change in enumerate(changes) if _may_copy(change)]
    if not places or wanted_visibility() is not None or not hasattr(store, "hidden"):
        return list(changes)
    documents = [changes[place].entry.document for place in places]
    parts = [
        NewParts(New(document, changes[place].entity))
        for place, document in zip(places, documents, strict=True)
    ]
    seen = _seen_by(store, parts, [document.project for document in documents])
    wanted = {place: who for place, who in zip(places, seen, strict=True) if who is not None}
    for place, who in wanted.items():
        _refuse_fact(store, changes[place], who)
    # An entity and its facts are seen by the same people.
    entities = {_entity_of(changes[place]): who for place, who in wanted.items()}
    entities.pop(None, None)
    return [
        _seen(change, wanted.get(place) or entities.get(_entity_of(change)))
        for place, change in enumerate(changes)
    ]


def refuse_hidden(store: Store, relations: Sequence[Relation], project: str | None) -> None:
    """Refuse relations that tell more people of a hidden text than see it.

    A relation is seen by those who see both of its entities.

    Raises:
        UsageError: The type or context of one is such a copy ("hidden_relation").
    """
    texts = ("\n\n".join((edge.type, edge.context or "")) for edge in relations)
    parts = [NewParts(New(Document(text=text)), is_label=True) for text in texts]
    seen = _seen_by(store, parts, [project] * len(parts))
    for edge, who in zip(relations, seen, strict=True):
        if who is not None and not {who, "private"} & _who_see_ends(store, edge, project):
            raise UsageError(
                f"The relation from {quoted(edge.source)} to {quoted(edge.target)} repeats a text "
                "that not all who see them may see. Nothing was stored; relate entities that are "
                f"visible to the same people as that text ({who}).",
                code="hidden_relation",
                subject=edge.source,
            )


def _who_see_ends(store: Store, edge: Relation, project: str | None) -> set[Visibility]:
    return _who_see(store, (edge.source, edge.target), project)


def _who_see(store: Store, entities: Sequence[str], project: str | None) -> set[Visibility]:
    fields = Document(kind="entity", source=ENTITY_SOURCE, project=project)
    known = store.known([fields._replace(key=name) for name in entities])
    who = cast("_HidingStore", store).visibilities([row.id for row in known if row is not None])
    return set(who.values())


def _refuse_fact(store: Store, change: Change, who: Visibility) -> None:
    """Refuse a fact that would tell of a hidden text in the profile of an entity others see."""
    name = change.entity
    if name is not None and _who_see(store, [name], change.entry.document.project) - {who}:
        raise UsageError(
            f"A fact of {quoted(name)} repeats a text that not all who see it may see. Nothing "
            f"was stored; use an entity that is visible to the same people as that text ({who}).",
            code="hidden_fact",
            subject=name,
        )


def _may_copy(change: Change) -> bool:
    is_programs = change.entry.document.origin in COPYING and not change.imported
    return is_programs and change.entry.visibility is None


def _entity_of(change: Change) -> str | None:
    document = change.entry.document
    return document.key if document.kind == "entity" else change.entity


def _seen(change: Change, who: Visibility | None) -> Change:
    if who is None or change.entry.visibility is not None:
        return change
    return change._replace(entry=change.entry._replace(visibility=who))


def _seen_by(
    store: Store, parts: Sequence[NewParts], projects: Sequence[str | None]
) -> list[Visibility | None]:
    """Return who may see each text; ``None``: it copies nothing that is hidden."""
    sources, everything = cast("_HidingStore", store).hidden(MOST_SOURCES)
    if not sources:
        return [None] * len(parts)
    seen: list[Visibility | None] = [None] * len(parts)
    copies = _HiddenSearch(store, sources, everything=everything).copies(parts)
    for place, is_copy in enumerate(copies):
        if is_copy:
            seen[place] = _narrowest(store, sources, parts[place], projects[place])
    return seen


def _narrowest(
    store: Store, sources: Sequence[Document], parts: NewParts, project: str | None
) -> Visibility:
    """Return who sees a copy: a project, if all that it may come from is that project's."""
    if project is None:
        return "private"
    who = cast("_HidingStore", store).visibilities([row.id for row in sources])
    others = [row for row in sources if who.get(row.id) != "project" or row.project != project]
    [is_others] = _HiddenSearch(store, others, everything=True).copies([parts])
    return "private" if is_others else "project"


class _HiddenSearch(CopySearch):
    """Looks for the parts of new documents in texts that not all see."""

    def __init__(self, store: Store, sources: Sequence[Document], *, everything: bool) -> None:
        super().__init__(store, sources, (), everything=everything)

    def _is_suspected(self, phrase: Query) -> bool:
        rows = self._store.hydrate(
            [ref for ref, _ in self._store.keyword(phrase, _LOOKED_AT, EVERYTHING)]
        )
        return bool(self._hidden([row.document for row in rows.values()]))

    def _where(self, *, vouching: bool) -> Filter:
        return EVERYTHING

    def _counting(self, documents: Sequence[Document], *, vouching: bool) -> Collection[str]:
        hidden = self._hidden(documents)
        return {row.id for row in documents} - hidden if vouching else hidden

    def _hidden(self, documents: Sequence[Document]) -> set[str]:
        who = cast("_HidingStore", self._store).visibilities([row.id for row in documents])
        return {id_ for id_, visibility in who.items() if visibility != TEAM}
