"""Entities, their observations and their relations, as dicts and as text."""

from typing import TYPE_CHECKING, Any

from plait.present.json import document_dict
from plait.present.text import as_lines
from plait.times import show_day, show_time
from plait.types import Document
from plait.types.ids import SHORT_ID
from plait.types.relations import Relation

if TYPE_CHECKING:
    from plait.graph import Entity, Subgraph

_OBSERVATION_FIELDS = (
    *("id", "text", "type", "tags", "topic", "origin", "trust", "event_at", "valid_from"),
)


def subgraph_dict(graph: "Subgraph") -> dict[str, Any]:
    """Return entities and the relations between them."""
    return {
        "entities": [entity_dict(entity) for entity in graph.entities],
        "relations": [full_relation_dict(relation) for relation in graph.relations],
    }


def entity_dict(entity: "Entity") -> dict[str, Any]:
    """Return an entity with the reference memory server's field names, and our own."""
    return {
        "id": entity.id,
        **entity.dict(),
        "project": entity.project,
        "facts": [observation_dict(observation) for observation in entity.observations],
    }


def observation_dict(observation: Document) -> dict[str, Any]:
    """Return an observation with its origin, trust and dates."""
    fields = document_dict(observation)
    return {name: fields.get(name) for name in _OBSERVATION_FIELDS}


def full_relation_dict(relation: Relation) -> dict[str, Any]:
    """Return a relation with its context and period, which the reference shape does not have."""
    return {
        "from": relation.source,
        "to": relation.target,
        "relationType": relation.type,
        "context": relation.context,
        "valid_from": None if relation.valid_from is None else show_time(relation.valid_from),
        "valid_to": None if relation.valid_to is None else show_time(relation.valid_to),
    }


def subgraph_text(graph: "Subgraph") -> str:
    """Return entities with their observations, then the relations."""
    lines = []
    for entity in graph.entities:
        lines.append(f"{entity.name}  ({entity.type})")
        for observation in entity.observations:
            label = f"{observation.id[:SHORT_ID]}  {show_day(observation.event_at)}"
            warning = "" if observation.trust == "trusted" else f"  [{observation.trust}]"
            lines.append(f"  {label}  {' '.join(observation.text.split())}{warning}")
    if graph.relations and len(graph.entities) > 1:
        lines += ["", "Relations"]  # without it they would seem to belong to the last entity
    lines += [f"  {relation_text(relation)}" for relation in graph.relations]
    return as_lines(lines)


def relation_text(relation: Relation) -> str:
    """Return a relation in one line.

    >>> relation_text(Relation("Ana", "Deploy", "approves", "since the outage"))
    'Ana -approves-> Deploy (since the outage)'
    """
    period = [
        f"{word} {show_day(value)}"
        for word, value in (("from", relation.valid_from), ("until", relation.valid_to))
        if value is not None
    ]
    remarks = "; ".join([*([relation.context] if relation.context else []), *period])
    line = f"{relation.source} -{relation.type}-> {relation.target}"
    return as_lines([f"{line} ({remarks})" if remarks else line])
