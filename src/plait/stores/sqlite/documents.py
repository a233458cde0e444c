"""Documents and passages: rows to values and back, and what is read by ref or by ordinal."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from plait.errors import quoted
from plait.protocols import Use
from plait.stores.sqlite.connection import rows
from plait.types import (
    KINDS,
    MEMORY_TYPES,
    ORIGINS,
    STATUSES,
    TRUSTS,
    Document,
    Passage,
    Ref,
)
from plait.types.ids import may_be_id

# Columns of `documents` in the order of `Document`'s fields; text is put together from passages.
FIELDS = tuple(name for name in Document._fields if name != "text")
DOCUMENT_COLUMNS = ", ".join(f"d.{name}" for name in FIELDS)
PASSAGE_COLUMNS = "p.text, p.heading, p.start_line, p.end_line, p.start, p.ordinal, p.id, p.rowid"
PASSAGE_WIDTH = 8
_TEXT_AT = Document._fields.index("text")
_PROJECT_AT = FIELDS.index("project")
_TAGS_AT = FIELDS.index("tags")
_METADATA_AT = FIELDS.index("metadata")
_PINNED_AT = FIELDS.index("pinned")
_EVENT_AT = FIELDS.index("event_at")
# As `json.dumps`, which makes a new encoder for each value.
_JSON = json.JSONEncoder(ensure_ascii=False).encode
ID_AT = FIELDS.index("id")

# What a sound row has in each column. SQLite keeps anything anywhere, and a damaged page reads as
# anything; what passes here can be shown, sorted and written as JSON.
_NONE = type(None)
_CHOICES = {"kind": KINDS, "origin": ORIGINS, "trust": TRUSTS}
_CHOSEN = (
    *((FIELDS.index(name), frozenset[str | None](values)) for name, values in _CHOICES.items()),
    (FIELDS.index("status"), frozenset((None, *STATUSES))),
    (FIELDS.index("memory_type"), frozenset((None, *MEMORY_TYPES))),
)
_TEXTS = ("id", "title", "source", "project", "tags", "metadata", *_CHOICES)
_NUMBERS = ("pinned", "created_at", "updated_at", "event_at", "indexed_at", "chunk_count")
_OPTIONAL_NUMBERS = ("turn", "valid_from", "valid_to", "size", "mtime")
DOCUMENT_TYPES: tuple[tuple[type, ...], ...] = tuple(
    (str,)
    if name in _TEXTS
    else (int,)
    if name in _NUMBERS
    else (int, _NONE)
    if name in _OPTIONAL_NUMBERS
    else (float, int, _NONE)
    if name == "importance"
    else (str, _NONE)
    for name in FIELDS
)
PASSAGE_TYPES = (str, str, int, int, int, int, str, int)
# Rows repeat a few combinations of types: each is compared with the rules once.
_sound: set[tuple[type, ...]] = set()

MOST_NAMESAKES = 20
ORDINAL_DIGITS = 9  # a longer one cannot be an ordinal
LAST_ORDINAL = 10**ORDINAL_DIGITS - 1

WITH_DOCUMENT = (
    f"SELECT {PASSAGE_COLUMNS}, {DOCUMENT_COLUMNS} FROM passages AS p "  # noqa: S608
    "JOIN documents AS d ON d.rowid = p.document WHERE "
)
_HYDRATE = WITH_DOCUMENT + "p.rowid IN (SELECT value FROM json_each(?))"  # noqa: S608
EMBEDDED_HASHES = (
    "SELECT p.hash FROM passages AS p WHERE p.document = ? AND NOT EXISTS "
    "(SELECT 1 FROM unembedded AS u WHERE u.generation = ? AND u.passage = p.rowid)"
)
_PASSAGES = (
    f"SELECT {PASSAGE_COLUMNS} FROM passages AS p "  # noqa: S608
    "JOIN documents AS d ON d.rowid = p.document "
    "WHERE d.id = ? AND p.ordinal BETWEEN ? AND ? ORDER BY p.ordinal"
)
_SUCCESSORS = (
    "SELECT d.id, coalesce("
    "(SELECT n.id FROM documents AS n WHERE n.supersedes = d.id ORDER BY n.rowid DESC LIMIT 1), "
    # One text may end several of its topic, but supersedes names only one of them.
    "(SELECT n.id FROM documents AS n WHERE n.topic = d.topic AND n.project = d.project "
    "AND coalesce(n.parent, '') = coalesce(d.parent, '') AND n.valid_from = d.valid_to "
    "AND n.id <> d.id ORDER BY n.rowid DESC LIMIT 1)) AS successor FROM documents AS d "
    "WHERE d.id IN (SELECT value FROM json_each(?)) "
    "AND d.valid_to IS NOT NULL AND successor IS NOT NULL"
)
DocumentOrPassage = tuple[Document, Passage | None]


def document_from(row: Sequence[Any], text: str = "") -> Document:
    """Return a row of `DOCUMENT_COLUMNS` as a value.

    Raises:
        apsw.CorruptError: A column has a value that plait never writes; the message names it.
    """
    values = list(row)
    check_document(values)
    values[_PROJECT_AT] = values[_PROJECT_AT] or None
    values[_TAGS_AT] = _tags(values) if values[_TAGS_AT] != "[]" else ()
    values[_METADATA_AT] = _metadata(values) if values[_METADATA_AT] != "{}" else {}
    values[_PINNED_AT] = bool(values[_PINNED_AT])
    values.insert(_TEXT_AT, text)
    return Document(*values)


def check_document(values: Sequence[Any]) -> None:
    """Check the types of a row, and the columns with few possible values.

    Raises:
        apsw.CorruptError: One of them is wrong.
    """
    types = tuple(map(type, values))
    if types not in _sound:
        for name, kind, allowed in zip(FIELDS, types, DOCUMENT_TYPES, strict=True):
            if kind not in allowed:
                raise _damaged(values, name)
        _sound.add(types)
    for place, allowed_values in _CHOSEN:
        if values[place] not in allowed_values:
            raise _damaged(values, FIELDS[place])
    if not may_be_id(values[ID_AT]):
        raise _damaged(values, "id")


def _damaged(values: Sequence[Any], name: str) -> apsw.CorruptError:
    return apsw.CorruptError(f"document {quoted(str(values[ID_AT]))}: its {name} cannot be read")


def _tags(values: list[Any]) -> tuple[str, ...]:
    try:
        tags = json.loads(values[_TAGS_AT])
    except (ValueError, RecursionError):
        raise _damaged(values, "tags") from None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise _damaged(values, "tags")
    return tuple(tags)


def _metadata(values: list[Any]) -> dict[str, str]:
    try:
        metadata = json.loads(values[_METADATA_AT])
    except (ValueError, RecursionError):
        raise _damaged(values, "metadata") from None
    if not isinstance(metadata, dict):
        raise _damaged(values, "metadata")
    return metadata


def document_from_record(record: dict[str, Any]) -> Document:
    """Return a document that was written as JSON, where tuples become lists."""
    document = Document(**{**record, "tags": tuple(record["tags"])})
    return document_from(document_row(document), document.text)


def metadata_text(metadata: Mapping[str, str]) -> str:
    """Return metadata as it is stored; many documents have none."""
    return _JSON(dict(metadata)) if metadata else "{}"


def document_row(document: Document, metadata: str | None = None) -> list[Any]:
    """Return the values of `FIELDS`, ready to bind; ``metadata`` is its text, if it is known."""
    values: list[Any] = [*document[:_TEXT_AT], *document[_TEXT_AT + 1 :]]
    values[_PROJECT_AT] = values[_PROJECT_AT] or ""
    # Most documents have no tags.
    values[_TAGS_AT] = _JSON(values[_TAGS_AT]) if values[_TAGS_AT] else "[]"
    if metadata is None:
        metadata = metadata_text(values[_METADATA_AT])
    values[_METADATA_AT] = metadata
    values[_PINNED_AT] = int(values[_PINNED_AT])
    values[_EVENT_AT] = values[_EVENT_AT] or 0
    return values


def passage_from(row: Sequence[Any]) -> Passage:
    """Return a row of `PASSAGE_COLUMNS` as a value.

    Raises:
        apsw.CorruptError: A column has a value that plait never writes.
    """
    passage = Passage(*row)
    sound = tuple(map(type, row)) == PASSAGE_TYPES and passage.ordinal >= 0 and passage.start >= 0
    if not sound or not may_be_id(passage.id):
        raise apsw.CorruptError(f"passage {quoted(str(passage.id))} cannot be read")
    return passage


def passage_hash(heading: str, text: str) -> bytes:
    """Return the identity of a passage in its document: what a reader and the embedder see."""
    from hashlib import blake2b  # 2 ms that a search does not need

    seen = f"{heading}\0{text}".encode("utf-8", "surrogatepass")
    return blake2b(seen, digest_size=16).digest()


def stitched(preface: str, pieces: Sequence[tuple[int, str]]) -> str:
    """Join passages into the text of their document, each at its offset."""
    parts = [preface]
    reached = 0
    for start, text in pieces:
        fresh = text[reached - start :] if start < reached else text
        parts.append(fresh)
        reached = max(reached, start + len(text))
    return "".join(parts)


def hydrate(
    connection: apsw.Connection, refs: Sequence[Ref]
) -> dict[Ref, tuple[Passage, Document]]:
    """Return passages with their documents, in one query."""
    wanted = json.dumps(list(refs))
    pairs = [passage_and_document(row) for row in rows(connection, _HYDRATE, (wanted,))]
    return {passage.ref: (passage, document) for passage, document in pairs}


def uses(connection: apsw.Connection, refs: Sequence[Ref], now: int) -> dict[Ref, Use]:
    """Return how these passages were read, alone and together; unread ones are absent."""
    if not connection.execute("SELECT 1 FROM signals LIMIT 1").get:
        return {}  # the usual case, which loads one module less
    from plait.stores.sqlite import signals

    return signals.uses(connection, refs, now)


def passages(
    connection: apsw.Connection, document: str, first: int, last: int | None
) -> list[Passage]:
    """Return passages of one document, by ordinal."""
    span = (document, first, LAST_ORDINAL if last is None else last)
    # subtle: all are fetched before one is refused: what is left of a read would lock out `doctor`.
    return [passage_from(row) for row in rows(connection, _PASSAGES, span)]


def successors(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, str]:
    """Return the id of the successor of each of these documents."""
    return dict(rows(connection, _SUCCESSORS, (json.dumps(list(ids)),)))


def passage_and_document(row: Sequence[Any]) -> tuple[Passage, Document]:
    """Return a row of `WITH_DOCUMENT` as a passage and its document."""
    return passage_from(row[:PASSAGE_WIDTH]), document_from(row[PASSAGE_WIDTH:])
