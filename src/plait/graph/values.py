"""What the graph answers with, and how the reference memory server writes the same."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from plait.errors import NotFound, UsageError
from plait.types import Deleted, Document, Relation, Stored


class Entity(NamedTuple):
    """A named thing with a type, and its observations in the order in which they were made."""

    id: str
    name: str
    type: str
    observations: tuple[Document, ...] = ()
    project: str | None = None
    created_at: int = 0
    updated_at: int = 0

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


def added(name: str, texts: Sequence[str], stored: Sequence[Stored | None]) -> Added:
    """What became of some texts; ``None`` stands for one that came out of this memory."""
    pairs = list(zip(texts, stored, strict=True))
    fresh = [(text, done) for text, done in pairs if done is not None and not done.duplicate]
    return Added(
        name,
        tuple(text for text, _ in fresh),
        tuple(done.id for _, done in fresh),
        tuple(text for text, done in pairs if done is not None and done.duplicate),
        tuple(text for text, done in pairs if done is None),
    )
