"""plait's export format: a header, then one JSON line per document or relation.

Passages are written by id and position, not by text, so that an export is not larger than its
documents and every id is kept. Vectors are not exported: they belong to an embedder and can be
made again.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from plait.errors import StoreDamaged, UsageError, flattened, quotable, quoted
from plait.protocols import Entry, Store
from plait.searching.readable import load_readable
from plait.searching.steps import stored_steps
from plait.text import clean
from plait.times import LAST_MOMENT, show_time
from plait.types import (
    EVERYTHING,
    KINDS,
    MEMORY_TYPES,
    ORIGINS,
    STATUSES,
    TRUSTS,
    Document,
    Filter,
    Passage,
)
from plait.types.ids import is_id
from plait.types.records import NamedTuple
from plait.types.relations import Relation
from plait.types.steps import Step, step_from
from plait.types.visibility import TEAM, VISIBILITIES, Visibility

EXPORT_FORMAT = "plait"
EXPORT_VERSION = 1
# Of a step: what its numbers are less than, and the characters that its texts have at most.
_MOST = 1 << 32
_LONGEST_IN_STEP = 10_000
# Of what is wrong with a line: it may repeat a value of the file.
_PROBLEM_CHARS = 200
# Documents loaded at a time while they are written.
DOCUMENTS_PER_READ = 200
_TEXTS = ("key", "path", "project", "memory_type", "type", "summary", "session", "parent", "role")
_OTHER_TEXTS = ("topic", "supersedes", "sha256", "id", "title", "source")
MOMENTS = ("created_at", "updated_at", "indexed_at", "event_at", "valid_from", "valid_to")
# Of a file, in bytes and milliseconds; checked like a moment.
_OTHER_NUMBERS = ("size", "mtime")
# More than `MAX_TURN`: messages that follow the last one have higher numbers.
_LAST_TURN = 2**62
_LAST_PLACE = 2**31  # of a character or a line
# A passage repeats less than half of the one before: a line must not become many times its size.
MOST_REPEATED = 4


class ExportHeader(NamedTuple):
    """The first line of an export; ``changed_at`` is when a fact last replaced another."""

    changed_at: int | None = None


class ExportedRelation(NamedTuple):
    """A relation of an export, between entities of one project; ``visibility``: if told."""

    relation: Relation
    project: str | None
    visibility: Visibility | None = None


ExportPart = Entry | ExportedRelation | ExportHeader
# Tells who sees documents, by their ids.
SeenBy = Callable[[Sequence[str]], Mapping[str, Visibility]]


# -- writing -------------------------------------------------------------------------------


def header_line(header: ExportHeader = ExportHeader()) -> str:  # noqa: B008 - it cannot change
    """Return the first line of an export."""
    record: dict[str, Any] = {"format": EXPORT_FORMAT, "version": EXPORT_VERSION}
    if header.changed_at is not None:
        record["latest_turn"] = header.changed_at
    return json.dumps(record)


def export_lines(
    store: Store, where: Filter, seen_by: SeenBy, damaged: list[str] | None = None
) -> Iterator[str]:
    """Yield the documents that pass a filter as lines, then the relations between them.

    Documents and relations that cannot be read are named in ``damaged``, if it is given.
    """
    # In the order of writing: the observations of an entity have no other order.
    documents = store.scan(where, by_writing=True, damaged=damaged)
    hidden = hidden_among(documents, seen_by)
    for document, passages in whole_documents(store, documents, damaged):
        steps = exported_steps(store, document, damaged)
        yield document_line(document, passages, steps, hidden.get(document.id))
    for relation in relations_between(store, documents, hidden, damaged):
        yield relation_line(relation)


def hidden_among(documents: Sequence[Document], seen_by: SeenBy) -> dict[str, Visibility]:
    """Return who sees those documents, by id, that not all members of the memory see."""
    ids = [document.id for document in documents]
    pages = (ids[at : at + DOCUMENTS_PER_READ] for at in range(0, len(ids), DOCUMENTS_PER_READ))
    return {
        id_: visibility
        for page in pages
        for id_, visibility in seen_by(page).items()
        if visibility != TEAM
    }


def whole_documents(
    store: Store, documents: Sequence[Document], damaged: list[str] | None
) -> Iterator[tuple[Document, list[Passage]]]:
    """Yield documents with their text and passages, some read at a time."""
    for start in range(0, len(documents), DOCUMENTS_PER_READ):
        page = documents[start : start + DOCUMENTS_PER_READ]
        for document in load_readable(store, [document.id for document in page], damaged):
            try:
                passages = store.passages(document.id)
            except StoreDamaged:
                if damaged is None:
                    raise
                passages = []  # its text is whole, and the import cuts it again
            yield document, passages


def exported_steps(store: Store, document: Document, damaged: list[str] | None) -> list[Step]:
    """Return the steps that a document tells of; only messages do."""
    try:
        return stored_steps(store, document.id) if document.kind == "message" else []
    except StoreDamaged:
        if damaged is None:
            raise
        return []  # its text tells of them as well


def relations_between(
    store: Store,
    documents: Sequence[Document],
    hidden: Mapping[str, Visibility],
    damaged: list[str] | None,
) -> Iterator[ExportedRelation]:
    """Yield the relations whose two entities are among these documents.

    A relation is seen by those who see both; ``hidden`` is what `hidden_among` returned.
    """
    projects = {row.id: row.project for row in documents if row.kind == "entity"}
    for relation in store.relations(list(projects), EVERYTHING, damaged=damaged):
        if relation.source_id in projects and relation.target_id in projects:
            # A personal entity is visible in every project: the other end decides.
            project = projects[relation.source_id] or projects[relation.target_id]
            visibility = hidden.get(relation.source_id) or hidden.get(relation.target_id)
            yield ExportedRelation(relation, project, visibility)


def document_line(
    document: Document,
    passages: Iterable[Passage],
    steps: Iterable[Step] = (),
    visibility: Visibility | None = None,
) -> str:
    """Return a document as one line of JSON; fields with their default value are left out."""
    defaults = Document._field_defaults
    record: dict[str, Any] = {
        name: value
        for name, value in document._asdict().items()
        if name not in ("text", "chunk_count") and value != defaults[name]
    }
    record["text"] = document.text
    record["passages"] = places_of(document.text, passages)
    if steps:
        record["steps"] = list(steps)
    if visibility is not None:
        record["visibility"] = visibility
    return json.dumps(record, ensure_ascii=False)


def places_of(text: str, passages: Iterable[Passage]) -> list[list[Any]]:
    """Return passages as they are exported: by id and position, with lines and heading."""
    return [
        [row.id, row.start, row.start + len(row.text), row.start_line, row.end_line, row.heading]
        for row in _matching(text, list(passages))
    ]


def _matching(text: str, passages: list[Passage]) -> list[Passage]:
    """Return the passages if they are of this text; else none, and the import cuts it again.

    They differ if the document was replaced between reading it and reading its passages.
    """
    last = passages[-1] if passages else Passage("")
    front = len(text) - (last.start + len(last.text))
    same = all(text.startswith(passage.text, front + passage.start) for passage in passages)
    return passages if front >= 0 and same else []


def relation_line(exported: ExportedRelation) -> str:
    """Return a relation as one line of JSON."""
    fields = exported.relation._replace(source_id="", target_id="")._asdict()
    relation = {
        name: value for name, value in fields.items() if value not in (None, "") or name == "type"
    }
    record: dict[str, Any] = {"relation": relation, "project": exported.project}
    if exported.visibility is not None:
        record["visibility"] = exported.visibility
    return json.dumps(record, ensure_ascii=False)


# -- reading -------------------------------------------------------------------------------


def read_export(lines: Iterable[str]) -> Iterator[ExportPart]:
    """Yield the header, documents and relations of an export, each checked.

    Raises:
        UsageError: A line is not part of an export ("bad_export", with the line's number as the
            subject), or the format is another one ("unknown_format").
    """
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _bad_line(number, f"is not JSON ({error})") from None
        if not isinstance(record, dict):
            raise _bad_line(number, "is not a JSON object")
        try:
            if "format" in record:
                yield _header(record)
            else:
                yield read_relation(record) if "relation" in record else read_entry(record)
        except (TypeError, ValueError, LookupError) as error:
            raise _bad_line(number, f"is not a line of a plait export ({error})") from None


def _bad_line(number: int, problem: str) -> UsageError:
    return UsageError(
        f"Line {number} {flattened(problem)[:_PROBLEM_CHARS]}. Nothing was imported.",
        code="bad_export",
        subject=str(number),
    )


def _header(record: dict[str, Any]) -> ExportHeader:
    name, version = record.get("format"), record.get("version")
    if (name, version) != (EXPORT_FORMAT, EXPORT_VERSION):
        raise UsageError(
            f"The format is {quoted(str(name))} version {quotable(str(version))}; only "
            f"{EXPORT_FORMAT} version {EXPORT_VERSION} can be read. Nothing was imported.",
            code="unknown_format",
            subject=f"{quotable(str(name))} {quotable(str(version))}",
        )
    return read_header(record)


def read_header(record: dict[str, Any]) -> ExportHeader:
    """Return what a header says, checked.

    Raises:
        TypeError, ValueError: It names no moment.
    """
    _check_moments(record, ("latest_turn",))
    return ExportHeader(record.get("latest_turn"))


def _check_moments(record: dict[str, Any], names: Collection[str]) -> None:
    for name in names:
        moment = record.get(name)
        if not isinstance(moment, int | None) or isinstance(moment, bool):
            raise TypeError(f"{name} is not a whole number")
        if abs(moment or 0) > LAST_MOMENT:
            raise ValueError(f"{name} is {moment}, which is not a time in milliseconds")
    begins, ends = record.get("valid_from"), record.get("valid_to")
    if "valid_to" in names and begins is not None and ends is not None and ends < begins:
        told = f"valid_to is {show_time(ends)}, which is before valid_from, {show_time(begins)}"
        raise ValueError(f"{told}; swap them, or leave one out")


def read_relation(record: dict[str, Any]) -> ExportedRelation:
    """Return the relation of a record, every field checked.

    Raises:
        TypeError, ValueError: A field has a wrong value.
    """
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
    visibility = _visibility(record.get("visibility"))
    return ExportedRelation(Relation(**fields), record.get("project"), visibility)


def _visibility(value: object) -> Visibility | None:
    for known in VISIBILITIES:
        if value == known:
            return known
    if value is not None:
        raise ValueError(f"visibility is {value!r}")
    return None


def read_entry(record: dict[str, Any]) -> Entry:
    """Return the document of a record with its passages, every field checked.

    Raises:
        TypeError, ValueError: A field is unknown or has a wrong value.
    """
    places = record.pop("passages", [])
    steps = record.pop("steps", None)
    visibility = _visibility(record.pop("visibility", None))
    if not isinstance(steps, list | None):
        raise TypeError("steps is not a list")
    unknown = record.keys() - set(Document._fields)
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]}")
    document = _document(record)
    _check_places(places, len(document.text))
    if any(end > len(document.text) for _, _, end, *_ in places):
        places = []  # the text was edited since: it is cut anew
    body_start = _body_start(document.text, places)
    passages = []
    for ordinal, (id_, start, end, first, last, heading) in enumerate(places):
        text = document.text[body_start + start : body_start + end]
        passages.append(Passage(text, str(heading), first, last, start, ordinal, _own_id(id_)))
    if passages and not cover_without_gap(passages, len(document.text) - body_start):
        passages = []
    if steps and document.kind != "message":
        raise ValueError(f"a {document.kind} has steps")
    taken = None if steps is None else [_read_step(step) for step in steps]
    return Entry(document, passages, steps=taken, visibility=visibility)


def _read_step(values: Sequence[Any]) -> Step:
    """Return a step as an import of sessions would keep it.

    Its program and its failure are what its command and its error say: another answer to "how" or
    "fixed" could not be told from a true one.
    """
    from plait.facts.masking import masked
    from plait.text.commands import program_of
    from plait.text.failures import failure_of

    step = step_from(values)
    if any(isinstance(value, int) and abs(value) >= _MOST for value in step):
        raise ValueError("a step has a number out of range")
    if any(isinstance(value, str) and len(value) > _LONGEST_IN_STEP for value in step):
        raise ValueError("a step has a text that is too long")

    def safe(text: str | None) -> str | None:
        return None if text is None else masked(clean(text))[0]

    command, error = safe(step.command), safe(step.error)
    return step._replace(
        tool=safe(step.tool) or "",
        path=safe(step.path),
        command=command,
        program=program_of(command) if command else None,
        error=error,
        failure=failure_of(error) if error else None,
    )


def _check_places(places: list[Any], length: int) -> None:
    """Check where passages lie in a text of this length, before anything is cut out of it."""
    repeated = 0
    for _, start, end, first, last, _ in places:
        for number in (start, end, first, last):
            if type(number) is not int or not 0 <= number <= _LAST_PLACE:
                raise ValueError(f"a passage has {number!r} for a number from 0 to {_LAST_PLACE}")
        if end < start:
            raise ValueError(f"a passage ends at {end}, before {start}")
        repeated += end - start
    if repeated > MOST_REPEATED * length:
        raise ValueError(f"its passages are longer than {MOST_REPEATED} times its text")


def _document(record: dict[str, Any]) -> Document:
    """Return the document of a record, every field checked for its type."""
    if not isinstance(record.get("text"), str):
        raise TypeError("no text")
    record["text"].encode()  # raises ValueError for lone surrogates, before anything is written
    for name in (*_TEXTS, *_OTHER_TEXTS):
        if not isinstance(record.get(name), str | None):
            raise TypeError(f"{name} is not text")
    _check_moments(record, (*MOMENTS, *_OTHER_NUMBERS))
    turn = record.get("turn")
    if turn is not None and (type(turn) is not int or not 0 <= turn <= _LAST_TURN):
        raise ValueError(f"turn is {turn!r}, which is not a whole number from 0 to {_LAST_TURN}")
    choices: tuple[tuple[str, tuple[str | None, ...]], ...] = (
        ("kind", KINDS),
        ("origin", ORIGINS),
        ("trust", TRUSTS),
        ("memory_type", (None, *MEMORY_TYPES)),
        ("status", (None, *STATUSES)),
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
    if importance is not None and not (type(importance) in (int, float) and 0 <= importance <= 1):
        raise ValueError(f"importance is {importance!r}, which is not a number from 0 to 1")
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
    """Return an id of plait; "" for anything else, and the store gives a new one.

    Anything else could be taken for a key or a prefix.
    """
    return value if isinstance(value, str) and is_id(value) else ""


def _body_start(text: str, places: list[Any]) -> int:
    """Return where the body starts: passages do not cover the front matter."""
    if not places:
        return 0
    end: int = max(place[2] for place in places)
    return max(0, len(text) - end)


def cover_without_gap(passages: list[Passage], length: int) -> bool:
    """Return whether passages cover a body of this length without a gap."""
    reached = 0
    for passage in passages:
        if passage.start > reached or not passage.text:
            return False
        reached = max(reached, passage.start + len(passage.text))
    return reached == length
