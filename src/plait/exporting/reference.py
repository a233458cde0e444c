"""The reference memory server's file: one JSON line per entity or relation.

The files of related servers can be read too: other spellings of a field, a missing ``type``, the
graph as one object. Any other line is an error that names the line.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from plait.errors import UsageError
from plait.types.records import NamedTuple
from plait.types.relations import Relation
from plait.types.reports import NewEntity

# Spellings in use, the server's own first.
_NAME = ("name", "entityName", "id")
_TYPE = ("entityType", "entity_type")
_OBSERVATIONS = ("observations",)
_FROM = ("from", "from_id", "source")
_TO = ("to", "to_id", "target")
_KIND = ("relationType", "relation_type")
# Inside an observation that is an object:
_TEXT = ("content", "text")
_ENTITY_FIELDS = frozenset(("type", *_NAME, *_TYPE, *_OBSERVATIONS))
_RELATION_FIELDS = frozenset(("type", *_FROM, *_TO, *_KIND, "context"))
_BYTE_ORDER_MARK = "\ufeff"


class ReferenceGraph(NamedTuple):
    """The contents of such a file; ``unknown`` names the fields that plait cannot store."""

    entities: tuple[NewEntity, ...] = ()
    relations: tuple[Relation, ...] = ()
    unknown: tuple[str, ...] = ()


def recognise(lines: Iterable[str]) -> tuple[bool, Iterator[str]]:
    """Return whether lines are such a file, and all the lines."""
    rest = iter(lines)
    seen: list[str] = []
    for line in rest:
        seen.append(line.lstrip(_BYTE_ORDER_MARK) if not seen else line)
        if seen[-1].strip():
            break
    first = seen[-1].strip() if seen else ""
    try:
        record = json.loads(first) if first else {}
    except (ValueError, RecursionError):
        # The whole graph as one indented object.
        record = {"entities": None} if first in ("{", "[") else {}
    return _is_graph_record(record), chain(seen, rest)


def _is_graph_record(record: object) -> bool:
    if isinstance(record, list):
        return bool(record) and all(_is_graph_record(part) for part in record)
    if not isinstance(record, dict) or "format" in record or "text" in record:
        return False
    named = any(name in record for name in (*_NAME, *_FROM))
    return "entities" in record or (named and not {"kind", "passages"} & record.keys())


def read_graph_file(lines: Iterable[str]) -> ReferenceGraph:
    """Return entities and relations, repeated ones merged.

    Raises:
        UsageError: A line is neither ("bad_graph_file", with its place as the subject).
    """
    types: dict[str, str | None] = {}
    observations: dict[str, dict[str, None]] = {}
    relations: dict[tuple[str, str, str], Relation] = {}
    unknown: dict[str, None] = {}
    for place, record in _records(lines):
        try:
            if _is_relation(record):
                relation = _relation(record)
                relations.setdefault(relation[:3], relation)
                fields = _RELATION_FIELDS
            else:
                entity = _entity(record)
                if types.get(entity.name) is None:
                    types[entity.name] = entity.type
                known = observations.setdefault(entity.name, {})
                known.update(dict.fromkeys(entity.observations))
                fields = _ENTITY_FIELDS
        except (TypeError, ValueError) as error:
            raise _bad_place(place, f": {error}") from None
        unknown.update(dict.fromkeys(name for name in record if name not in fields))
    # The server keeps a relation whose entity is missing; plait needs both entities.
    for relation in relations.values():
        for name in relation[:2]:
            types.setdefault(name, None)
    entities = (
        NewEntity(name, type_, tuple(observations.get(name, ()))) for name, type_ in types.items()
    )
    return ReferenceGraph(tuple(entities), tuple(relations.values()), tuple(unknown))


def _records(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object with its place in the file."""
    all_lines = list(lines)
    whole = "".join(line if line.endswith("\n") else line + "\n" for line in all_lines).strip()
    if whole.startswith(("{\n", "{\r", "[")) or whole in ("{", "["):
        yield from _objects("The file", _loaded("The file", whole))
        return
    for number, line in enumerate(all_lines, start=1):
        if line.strip().lstrip(_BYTE_ORDER_MARK):
            place = f"Line {number}"
            yield from _objects(place, _loaded(place, line.lstrip(_BYTE_ORDER_MARK)))


def _loaded(place: str, text: str) -> object:
    try:
        value: object = json.loads(text)
        text.encode()  # lone surrogates cannot be stored
    except (ValueError, RecursionError) as error:
        raise _bad_place(place, f" is not JSON ({error})") from None
    return value


def _bad_place(place: str, problem: str) -> UsageError:
    message = f"{place}{problem}. Nothing was imported."
    return UsageError(message, code="bad_graph_file", subject=place)


def _objects(place: str, value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict) and ("entities" in value or "relations" in value):
        value = [*(value.get("entities") or ()), *(value.get("relations") or ())]
    if isinstance(value, list):
        for number, part in enumerate(value, start=1):
            yield from _objects(f"{place}, object {number}", part)
    elif isinstance(value, dict):
        yield place, value
    else:
        raise _bad_place(place, " is not a JSON object")


def _is_relation(record: dict[str, Any]) -> bool:
    stated = record.get("type")
    if stated in ("entity", "relation"):
        return bool(stated == "relation")
    return any(name in record for name in _FROM)


def _entity(record: dict[str, Any]) -> NewEntity:
    observations = _first(record, _OBSERVATIONS)
    if isinstance(observations, str):
        observations = [observations]
    if not isinstance(observations, list | None):
        raise TypeError("observations is not a list")
    texts = [_observation(observation) for observation in observations or ()]
    type_ = _first(record, _TYPE)
    if not isinstance(type_, str | None):
        raise TypeError("entityType is not text")
    distinct = tuple(dict.fromkeys(text for text in texts if text.strip()))
    return NewEntity(_required(record, _NAME), type_, distinct)


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


def graph_file_lines(entities: Iterable[NewEntity], relations: Iterable[Relation]) -> Iterator[str]:
    """Yield the lines of such a file, entities first."""
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
    for relation in relations:
        yield json.dumps(
            {
                "type": "relation",
                "from": relation.source,
                "to": relation.target,
                "relationType": relation.type,
            },
            ensure_ascii=False,
        )
