"""The results of the graph, and their form in the reference memory server."""

from collections.abc import Iterable, Sequence
from typing import Any

from plait.errors import Notice, UsageError
from plait.facts.trust import lowered_to
from plait.text.normal_form import composed
from plait.types import Document, Trust
from plait.types.records import NamedTuple
from plait.types.relations import Relation
from plait.types.reports import Deleted, NewEntity, Stored
from plait.writing.changes import Change


class Entity(NamedTuple):
    """A named thing with a type, and its observations in the order of their creation.

    Its trust is the highest among its sources: its creation and its observations.
    """

    id: str
    name: str
    type: str
    observations: tuple[Document, ...] = ()
    project: str | None = None
    created_at: int = 0
    updated_at: int = 0
    trust: Trust = "trusted"

    @property
    def contents(self) -> tuple[str, ...]:
        """The texts of the observations."""
        return tuple(observation.text for observation in self.observations)

    def contains(self, query: str) -> bool:
        """Tell whether the name, the type or an observation contains a text, ignoring case."""
        wanted = composed(query).casefold()
        texts = (self.name, self.type, *self.contents)
        return any(wanted in composed(text).casefold() for text in texts)

    def dict(self) -> dict[str, Any]:
        """Return the entity in the form of the reference memory server."""
        return {"name": self.name, "entityType": self.type, "observations": list(self.contents)}


class Subgraph(NamedTuple):
    """Entities, and the relations with at least one end among them.

    ``next`` is the cursor of the next page, ``None`` on the last one.
    """

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    next: str | None = None

    def dict(self) -> dict[str, Any]:
        """Return the graph in the form of the reference memory server."""
        return {
            "entities": [entity.dict() for entity in self.entities],
            "relations": [reference_relation(relation) for relation in self.relations],
        }


class Added(NamedTuple):
    """The result of adding observations to one entity.

    ``duplicates`` existed before; ``recalled`` came from this memory and was not stored.
    ``trouble`` is why vectors are missing; ``secret`` names the kinds of secrets in what was added,
    ``lowered`` is the lowest trust that any of it got instead of the one asked for.
    """

    name: str
    added: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    recalled: tuple[str, ...] = ()
    trouble: Notice | None = None
    secret: tuple[str, ...] = ()
    lowered: Trust | None = None


class Created(list[Entity]):
    """The entities that were created, in order; ``trouble`` is why vectors are missing.

    ``secret`` names the kinds of secrets in them and in their new observations, ``lowered`` is the
    lowest trust that any of these got instead of the one asked for.
    """

    trouble: Notice | None = None
    secret: tuple[str, ...] = ()
    lowered: Trust | None = None


class Forgotten(NamedTuple):
    """How many observations were deleted, and which of the named entities do not exist."""

    deleted: int
    missing: tuple[str, ...] = ()


class Erased(NamedTuple):
    """The entities that were deleted, those that do not exist, and all deleted documents."""

    deleted: tuple[str, ...]
    missing: tuple[str, ...]
    documents: Deleted


def reference_relation(relation: Relation) -> dict[str, Any]:
    """Return a relation in the form of the reference memory server."""
    return {"from": relation.source, "to": relation.target, "relationType": relation.type}


def entities_from(heads: Sequence[Document], known: Iterable[Document]) -> list[Entity]:
    """Return entities with those of the observations that belong to them."""
    observations: dict[str, list[Document]] = {}
    for observation in known:
        observations.setdefault(observation.parent or "", []).append(observation)
    return [
        Entity(
            head.id,
            head.key or "",
            head.type or "",
            tuple(observations.get(head.id, ())),
            head.project,
            head.created_at,
            head.updated_at,
            head.trust,
        )
        for head in heads
    ]


def check_name(name: str) -> str:
    """Return the name of an entity as it is stored.

    Raises:
        UsageError: The name is empty.
    """
    if not name.strip():
        raise UsageError("An entity needs a name.", code="empty_name")
    return composed(name)


def added_from(name: str, results: Sequence[tuple[str, Stored | None]]) -> Added:
    """Sort the results of adding texts; ``None``: the text was recalled from this memory."""
    new = [(text, done) for text, done in results if done is not None and not done.duplicate]
    return Added(
        name,
        tuple(text for text, _ in new),
        tuple(done.id for _, done in new),
        tuple(text for text, done in results if done is not None and done.duplicate),
        tuple(text for text, done in results if done is None),
        secret=tuple(dict.fromkeys(kind for _, done in new for kind in done.secret)),
    )


def lowered_among(
    asked: Trust, changes: Sequence[Change], stored: Sequence[Stored]
) -> Trust | None:
    """Return the lowest trust that new texts got; those that were there already keep theirs."""
    new = [
        change.entry.document.trust
        for change, done in zip(changes, stored, strict=True)
        if done.id and not done.duplicate and not done.replaced
    ]
    return lowered_to(asked, new)


def merge_entities(entities: Iterable[NewEntity], *, merge: bool) -> dict[str, NewEntity]:
    """Return entities by name, as if they had been created one after the other.

    With ``merge`` a later one of the same name adds its observations and may change the type;
    without it the first one decides, and entities without a name are left out.

    Raises:
        UsageError: A name is empty, with ``merge``.
    """
    merged: dict[str, NewEntity] = {}
    for entity in entities:
        entity = entity._replace(name=composed(entity.name))
        first = merged.get(entity.name)
        if first is not None:
            if merge:
                observations = (*first.observations, *entity.observations)
                type_ = first.type if entity.type is None else entity.type
                merged[entity.name] = entity._replace(observations=observations, type=type_)
        elif merge or entity.name.strip():
            merged[check_name(entity.name)] = entity
    return merged
