"""The reference memory server's file: one JSON line per entity or relation.

What its relatives write is read too: other spellings of a field, a missing ``type``, the graph as
one object. A line that cannot be meant as either is an error that names it.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from plait.errors import UsageError
from plait.types import NewEntity, Relation

# Spellings that are in use, the server's own first.
_NAME = ("name", "entityName", "id")
_TYPE = ("entityType", "entity_type")
_SAID = ("observations",)
_FROM = ("from", "from_id", "source")
_TO = ("to", "to_id", "target")
_KIND = ("relationType", "relation_type")
# Inside an observation that is an object.
_TEXT = ("content", "text")
_ENTITY_FIELDS = frozenset(("type", *_NAME, *_TYPE, *_SAID))
_RELATION_FIELDS = frozenset(("type", *_FROM, *_TO, *_KIND, "context"))
_MARK = "\ufeff"


class Graph(NamedTuple):
    """What such a file holds; ``unknown`` names the fields that nothing here has a place for."""

    entities: tuple[NewEntity, ...] = ()
    relations: tuple[Relation, ...] = ()
    unknown: tuple[str, ...] = ()


def recognise(lines: Iterable[str]) -> tuple[bool, Iterator[str]]:
    """Whether lines are such a file, and the lines, none of them lost by looking."""
    rest = iter(lines)
    seen: list[str] = []
    for line in rest:
        seen.append(line.lstrip(_MARK) if not seen else line)
        if seen[-1].strip():
            break
    first = seen[-1].strip() if seen else ""
    try:
        record = json.loads(first) if first else {}
    except (ValueError, RecursionError):
        # The whole graph as one object, spread over lines for people to read.
        record = {"entities": None} if first in ("{", "[") else {}
    return _is_ours(record), chain(seen, rest)


def _is_ours(record: object) -> bool:
    if isinstance(record, list):
        return bool(record) and all(_is_ours(one) for one in record)
    if not isinstance(record, dict) or "format" in record or "text" in record:
        return False
    named = any(name in record for name in (*_NAME, *_FROM))
    return "entities" in record or (named and not {"kind", "passages"} & record.keys())


def read(lines: Iterable[str]) -> Graph:
    """Entities and relations, each of a name once.

    Raises:
        UsageError: A line is neither; says which.
    """
    entities: dict[str, NewEntity] = {}
    relations: dict[tuple[str, str, str], Relation] = {}
    unknown: dict[str, None] = {}
    for place, record in _records(lines):
        try:
            if _is_relation(record):
                edge = _relation(record)
                relations.setdefault(edge[:3], edge)
                fields = _RELATION_FIELDS
            else:
                entity = _entity(record)
                entities[entity.name] = _merged(entities.get(entity.name), entity)
                fields = _ENTITY_FIELDS
        except (TypeError, ValueError) as error:
            raise UsageError(f"{place}: {error}. Nothing was imported.") from None
        unknown.update(dict.fromkeys(name for name in record if name not in fields))
    # The server itself lists an edge whose end is missing; here an edge needs both.
    for edge in relations.values():
        for name in edge[:2]:
            entities.setdefault(name, NewEntity(name))
    return Graph(tuple(entities.values()), tuple(relations.values()), tuple(unknown))


def _records(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object with where it stands."""
    given = list(lines)
    whole = "".join(line if line.endswith("\n") else line + "\n" for line in given).strip()
    if whole.startswith(("{\n", "{\r", "[")) or whole in ("{", "["):
        yield from _inside("The file", _loaded("The file", whole))
        return
    for number, line in enumerate(given, start=1):
        if line.strip().lstrip(_MARK):
            place = f"Line {number}"
            yield from _inside(place, _loaded(place, line.lstrip(_MARK)))


def _loaded(place: str, text: str) -> object:
    try:
        found: object = json.loads(text)
        text.encode()  # lone surrogates cannot be stored
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place} is not JSON ({error}). Nothing was imported.") from None
    return found


def _inside(place: str, found: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(found, dict) and ("entities" in found or "relations" in found):
        found = [*(found.get("entities") or ()), *(found.get("relations") or ())]
    if isinstance(found, list):
        for number, one in enumerate(found, start=1):
            yield from _inside(f"{place}, object {number}", one)
    elif isinstance(found, dict):
        yield place, found
    else:
        raise UsageError(f"{place} is not a JSON object. Nothing was imported.")


def _is_relation(record: dict[str, Any]) -> bool:
    stated = record.get("type")
    if stated in ("entity", "relation"):
        return bool(stated == "relation")
    return any(name in record for name in _FROM)


def _entity(record: dict[str, Any]) -> NewEntity:
    said = _first(record, _SAID)
    if isinstance(said, str):
        said = [said]
    if not isinstance(said, list | None):
        raise TypeError("observations is not a list")
    texts = [_observation(one) for one in said or ()]
    type_ = _first(record, _TYPE)
    if not isinstance(type_, str | None):
        raise TypeError("entityType is not text")
    kept = tuple(dict.fromkeys(text for text in texts if text.strip()))
    return NewEntity(_required(record, _NAME), type_, kept)


def _observation(value: object) -> str:
    if isinstance(value, dict):
        value = _first(value, _TEXT)
    if not isinstance(value, str):
        raise TypeError("an observation is not text")
    return value


def _relation(record: dict[str, Any]) -> Relation:
    context = record.get("context")
    return Relation(
        _required(record, _FROM),
        _required(record, _TO),
        _required(record, _KIND, empty=True),
        context if isinstance(context, str) else None,
    )


def _required(record: dict[str, Any], names: tuple[str, ...], *, empty: bool = False) -> str:
    value = _first(record, names)
    if not isinstance(value, str) or not (empty or value.strip()):
        raise ValueError(f"{names[0]} is missing or not text")
    value.encode()
    return value


def _first(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _merged(first: NewEntity | None, second: NewEntity) -> NewEntity:
    if first is None:
        return second
    said = tuple(dict.fromkeys((*first.observations, *second.observations)))
    type_ = second.type if first.type is None else first.type
    return NewEntity(first.name, type_, said)


def write(entities: Iterable[NewEntity], relations: Iterable[Relation]) -> Iterator[str]:
    """The lines of such a file, entities first."""
    for entity in entities:
        yield json.dumps(
            {
                "type": "entity",
                "name": entity.name,
                "entityType": entity.type or "",
                "observations": list(entity.observations),
            },
            ensure_ascii=False,
        )
    for edge in relations:
        yield json.dumps(
            {
                "type": "relation",
                "from": edge.source,
                "to": edge.target,
                "relationType": edge.type,
            },
            ensure_ascii=False,
        )
