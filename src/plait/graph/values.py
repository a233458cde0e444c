"""What the graph answers with, and how the reference memory server writes the same."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from plait.errors import NotFound, UsageError
from plait.types import Deleted, Document, NewEntity, Relation, Stored, Trust


class Entity(NamedTuple):
    """A named thing with a type, and its observations in the order in which they were made.

    It is trusted as far as whoever is trusted most of those who made it or spoke of it.
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
        """What the observations say."""
        return tuple(observation.text for observation in self.observations)

    def dict(self) -> dict[str, Any]:
        """As the reference memory server writes it."""
        return {"name": self.name, "entityType": self.type, "observations": list(self.contents)}


class Subgraph(NamedTuple):
    """Entities, and the edges with at least one end among them; ``next`` is where a page ended."""

    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    next: str | None = None

    def dict(self) -> dict[str, Any]:
        """As the reference memory server writes it."""
        return {
            "entities": [entity.dict() for entity in self.entities],
            "relations": [relation_dict(relation) for relation in self.relations],
        }


class Added(NamedTuple):
    """What became of new observations of one entity; ``recalled`` came out of this memory."""

    name: str
    added: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    recalled: tuple[str, ...] = ()


class Forgotten(NamedTuple):
    """How many observations went, and which entities there are none of."""

    deleted: int
    missing: tuple[str, ...] = ()


class Erased(NamedTuple):
    """Which entities went, which there are none of, and everything that went with them."""

    deleted: tuple[str, ...]
    missing: tuple[str, ...]
    documents: Deleted


def relation_dict(relation: Relation) -> dict[str, Any]:
    """A relation as the reference memory server writes it."""
    return {"from": relation.source, "to": relation.target, "relationType": relation.type}


def check_name(name: str) -> str:
    """A name that an entity can have.

    Raises:
        UsageError: It is empty.
    """
    if not name.strip():
        raise UsageError("An entity needs a name, as in: plait entity add Deploy")
    return name


def unknown(name: str) -> NotFound:
    """What to say of an entity that does not exist."""
    return NotFound(f"There is no entity named '{name}'. Make it with: plait entity add '{name}'")


def added(name: str, said: Sequence[tuple[str, Stored | None]]) -> Added:
    """What became of some texts; ``None`` stands for one that came out of this memory."""
    fresh = [(text, done) for text, done in said if done is not None and not done.duplicate]
    return Added(
        name,
        tuple(text for text, _ in fresh),
        tuple(done.id for _, done in fresh),
        tuple(text for text, done in said if done is not None and done.duplicate),
        tuple(text for text, done in said if done is None),
    )


def joined(entities: Iterable[NewEntity], *, merge: bool) -> dict[str, NewEntity]:
    """Entities by name; the first of several decides, as if they had come one by one.

    Raises:
        UsageError: A name is empty, and not to be passed over.
    """
    wanted: dict[str, NewEntity] = {}
    for entity in entities:
        first = wanted.get(entity.name)
        if first is not None:
            if merge:
                said = (*first.observations, *entity.observations)
                type_ = first.type if entity.type is None else entity.type
                wanted[entity.name] = entity._replace(observations=said, type=type_)
        elif merge or entity.name.strip():
            wanted[check_name(entity.name)] = entity
    return wanted


def bare(text: str) -> str:
    """A text as it counts among observations, of which spacing makes no two."""
    return " ".join(text.split())
