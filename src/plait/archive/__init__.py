"""Export and import: one JSON line per document or relation, whole enough to come back exactly.

Passages travel by id and place, not by text, so that an export is no larger than what it holds and
every id survives. Vectors do not travel: they belong to an embedder and are made again.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from plait.errors import UsageError
from plait.protocols import Entry, Store
from plait.times import LAST_MOMENT
from plait.types import KINDS, MEMORY_TYPES, ORIGINS, TRUSTS, Document, Filter, Passage, Relation

FORMAT = "plait"
VERSION = 1
# Documents held in memory at once while they are written out.
PAGE = 200
# An id as this program makes them; anything else could pass for a key or a prefix.
_ID = re.compile("[a-z2-7]{13}")
_TEXTS = ("key", "path", "project", "memory_type", "type", "summary", "session", "parent")
_MORE_TEXTS = ("topic", "supersedes", "sha256", "id", "title", "source")
_MOMENTS = ("created_at", "updated_at", "indexed_at", "event_at", "valid_from", "valid_to")
# In bytes and nanoseconds or less: no larger than a moment may be.
_OF_A_FILE = ("size", "mtime")


class Turn(NamedTuple):
    """When a fact last took the place of another in the exported memory, by its own clock."""

    moment: int


def header(latest: Turn | None = None) -> str:
    """The first line of an export."""
    record: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    if latest is not None:
        record["latest_turn"] = latest.moment
    return json.dumps(record)


def lines(store: Store, where: Filter) -> Iterator[str]:
    """What a filter lets through, as lines: its documents, then the relations between them."""
    # In their first order, which is the only one that entities' observations have.
    documents = store.in_order(where, whole=False)
    for start in range(0, len(documents), PAGE):
        page = documents[start : start + PAGE]
        for document in store.load([document.id for document in page]):
            yield line(document, store.neighbours(document.id, 0, 2**31))
    homes = {row.id: row.project for row in documents if row.kind == "entity"}
    for relation in store.relations(list(homes), Filter(all_versions=True, trusts=TRUSTS)):
        if relation.source_id in homes and relation.target_id in homes:
            # Where one end is personal, the other one's project still knows both.
            project = homes[relation.source_id] or homes[relation.target_id]
            yield edge_line(Edge(relation, project))


def line(document: Document, passages: Iterable[Passage]) -> str:
    """One document as one line of JSON; fields at their default are left out."""
    defaults = Document._field_defaults
    record: dict[str, Any] = {
        name: value
        for name, value in document._asdict().items()
        if name not in ("text", "chunk_count") and value != defaults[name]
    }
    record["text"] = document.text
    record["passages"] = [
        [p.id, p.start, p.start + len(p.text), p.start_line, p.end_line, p.heading]
        for p in _of_this_text(document.text, list(passages))
    ]
    return json.dumps(record, ensure_ascii=False)


def _of_this_text(text: str, passages: list[Passage]) -> list[Passage]:
    """The passages, unless the document was replaced while it was read: then it is cut anew."""
    last = passages[-1] if passages else Passage("")
    front = len(text) - (last.start + len(last.text))
    same = all(text.startswith(p.text, front + p.start) for p in passages)
    return passages if front >= 0 and same else []


class Edge(NamedTuple):
    """A relation of an export, between entities of one project."""

    relation: Relation
    project: str | None


def edge_line(edge: Edge) -> str:
    """One relation as one line of JSON."""
    fields = edge.relation._replace(source_id="", target_id="")._asdict()
    record = {
        name: value for name, value in fields.items() if value not in (None, "") or name == "type"
    }
    return json.dumps({"relation": record, "project": edge.project}, ensure_ascii=False)


def read(lines: Iterable[str]) -> Iterator[Entry | Edge | Turn]:
    """The documents and relations of an export, each checked; nothing is written here.

    Raises:
        UsageError: A line is not one of ours; says which.
    """
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"Line {number} is not JSON ({error}). Nothing was imported."
            ) from None
        if not isinstance(record, dict):
            raise UsageError(f"Line {number} is not a JSON object. Nothing was imported.")
        try:
            if "format" in record:
                yield from _turn(record)
            else:
                yield _edge(record) if "relation" in record else _entry(record)
        except (TypeError, ValueError, LookupError) as error:
            raise UsageError(
                f"Line {number} is no document of a plait export ({error}). Nothing was imported."
            ) from None


def _turn(record: dict[str, Any]) -> Iterator[Turn]:
    """What a header says of its memory, once it is known to be one that can be read."""
    if record.get("format") != FORMAT or record.get("version") != VERSION:
        raise UsageError(
            f"This is {record.get('format')} version {record.get('version')}; "
            f"this plait reads {FORMAT} version {VERSION}. Nothing was imported."
        )
    _check_moments(record, ("latest_turn",))
    if record.get("latest_turn") is not None:
        yield Turn(record["latest_turn"])


def _check_moments(record: dict[str, Any], names: Iterable[str]) -> None:
    for name in names:
        moment = record.get(name)
        if not isinstance(moment, int | None) or isinstance(moment, bool):
            raise TypeError(f"{name} is not a whole number")
        if abs(moment or 0) > LAST_MOMENT:
            raise ValueError(f"{name} is {moment}, which is no moment in milliseconds")


def _edge(record: dict[str, Any]) -> Edge:
    fields = record["relation"]
    if not isinstance(fields, dict) or not isinstance(record.get("project"), str | None):
        raise TypeError("relation is not an object")
    for name in ("source", "target", "type"):
        if not isinstance(fields.get(name), str) or not (fields[name].strip() or name == "type"):
            raise TypeError(f"{name} is not text")
        fields[name].encode()
    if not isinstance(fields.get("context"), str | None):
        raise TypeError("context is not text")
    _check_moments(fields, ("created_at", "valid_from", "valid_to"))
    return Edge(Relation(**fields), record.get("project"))


def _entry(record: dict[str, Any]) -> Entry:
    places = record.pop("passages", [])
    unknown = record.keys() - set(Document._fields)
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]}")
    document = _document(record)
    body_start = _body_start(document.text, places)
    passages = []
    for ordinal, (id_, start, end, first, last, heading) in enumerate(places):
        text = document.text[body_start + int(start) : body_start + int(end)]
        passages.append(
            Passage(text, str(heading), int(first), int(last), int(start), ordinal, _own_id(id_))
        )
    if passages and not tiles(passages, len(document.text) - body_start):
        passages = []
    return Entry(document, passages)


def _document(record: dict[str, Any]) -> Document:
    """A document whose every field has the type it should have."""
    if not isinstance(record.get("text"), str):
        raise TypeError("no text")
    record["text"].encode()  # lone surrogates are a ValueError here, before anything is written
    for name in (*_TEXTS, *_MORE_TEXTS):
        if not isinstance(record.get(name), str | None):
            raise TypeError(f"{name} is not text")
    _check_moments(record, (*_MOMENTS, *_OF_A_FILE))
    choices: tuple[tuple[str, tuple[str | None, ...]], ...] = (
        ("kind", KINDS),
        ("origin", ORIGINS),
        ("trust", TRUSTS),
        ("memory_type", (None, *MEMORY_TYPES)),
    )
    for name, allowed in choices:
        if name in record and record[name] not in allowed:
            raise ValueError(f"{name} is {record[name]!r}")
    tags = record.get("tags", [])
    metadata = record.get("metadata", {})
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise TypeError("tags is not a list of words")
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise TypeError("metadata is not an object of texts")
    importance = record.get("importance")
    return Document(
        **{
            **record,
            "tags": tuple(tags),
            "metadata": metadata,
            "importance": None if importance is None else float(importance),
            "pinned": bool(record.get("pinned", False)),
            "title": record.get("title") or "",
            "source": record.get("source") or "",
            "id": _own_id(record.get("id")),
        }
    )


def _own_id(value: object) -> str:
    """An id of ours, or none: then the store gives a new one."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


def _body_start(text: str, places: list[Any]) -> int:
    """Passages count from the end of the front matter, which is what they do not cover."""
    if not places:
        return 0
    return max(0, len(text) - max(int(place[2]) for place in places))


def tiles(passages: list[Passage], length: int) -> bool:
    """Whether passages cover a body of this length without a gap."""
    reached = 0
    for passage in passages:
        if passage.start > reached or not passage.text:
            return False
        reached = max(reached, passage.start + len(passage.text))
    return reached == length
