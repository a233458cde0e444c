"""Read documents and passages: rows to values, by name, by ref, whole, or in order."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from plait.errors import quoted
from plait.protocols import Use
from plait.stores.sqlite.connection import SQLRow, rows
from plait.stores.sqlite.filters import Clause, joined, spellings_of
from plait.types import (
    AFTER_TURNS,
    KINDS,
    MEMORY_TYPES,
    ORIGINS,
    STATUSES,
    TRUSTS,
    Document,
    Passage,
    Ref,
)
from plait.types.ids import ID_LENGTH, ID_PREFIX, SCOPE_PREFIX, may_be_id

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
_ID_AT = FIELDS.index("id")

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

_DOCUMENT = f"SELECT {DOCUMENT_COLUMNS} FROM documents AS d WHERE "  # noqa: S608
_PASSAGE = (
    f"SELECT {PASSAGE_COLUMNS}, {DOCUMENT_COLUMNS} FROM passages AS p "  # noqa: S608
    "JOIN documents AS d ON d.rowid = p.document WHERE "
)
_HYDRATE = _PASSAGE + "p.rowid IN (SELECT value FROM json_each(?))"  # noqa: S608
EMBEDDED_HASHES = (
    "SELECT p.hash FROM passages AS p WHERE p.document = ? AND NOT EXISTS "
    "(SELECT 1 FROM unembedded AS u WHERE u.generation = ? AND u.passage = p.rowid)"
)
_PASSAGES = (
    f"SELECT {PASSAGE_COLUMNS} FROM passages AS p "  # noqa: S608
    "JOIN documents AS d ON d.rowid = p.document "
    "WHERE d.id = ? AND p.ordinal BETWEEN ? AND ? ORDER BY p.ordinal"
)
_LOAD = (
    f"SELECT d.rowid, d.preface, {DOCUMENT_COLUMNS} FROM documents AS d "  # noqa: S608
    "WHERE d.id IN (SELECT value FROM json_each(?))"
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
BY_ID = f"SELECT d.rowid, {DOCUMENT_COLUMNS} FROM documents AS d WHERE d.id = ?"  # noqa: S608
_BY_NAME = (
    f"SELECT d.rowid, {DOCUMENT_COLUMNS} FROM documents AS d "  # noqa: S608
    "WHERE d.project = ? AND d.source = ? AND d.key = ?"
)
_TAKEN_KEYS = (
    "SELECT key FROM documents WHERE project = ? AND source = ? "
    "AND key IN (SELECT value FROM json_each(?))"
)
# The caller's own project comes first, so that a path that several have known keeps its document.
_BY_PATH = (
    f"SELECT d.rowid, {DOCUMENT_COLUMNS} FROM documents AS d "  # noqa: S608
    "WHERE d.kind = 'file' AND d.path = ?1 "
    # As `share_files` tells.
    f"AND (d.project = ?2 OR NOT (d.project GLOB '{SCOPE_PREFIX}*' OR ?2 GLOB '{SCOPE_PREFIX}*')) "
    "ORDER BY d.project <> ?2, d.rowid LIMIT 1"
)
# A new file has none. To sort even no rows, SQLite first makes a table, which takes 40 µs.
_PATH_KNOWN = "SELECT 1 FROM documents WHERE kind = 'file' AND path = ?"
_PIECES = "SELECT start, text FROM passages WHERE document = ? ORDER BY ordinal"
_SCAN = f"SELECT d.rowid, d.preface, {DOCUMENT_COLUMNS} FROM documents AS d WHERE "  # noqa: S608
_ROWIDS = "SELECT d.rowid FROM documents AS d WHERE "
_RAW_ID = "SELECT CAST(coalesce(id, '') AS BLOB) FROM documents WHERE rowid = ?"
_BELONGING = (
    "SELECT o.id FROM documents AS e JOIN documents AS o ON o.parent = e.id "
    "WHERE e.kind = 'entity' AND e.id IN (SELECT value FROM json_each(?)) ORDER BY o.rowid"
)
DocumentOrPassage = tuple[Document, Passage | None]


# `Document.place`, but for the id.
PLACE = f"coalesce(d.turn, d.event_at + {AFTER_TURNS})"


class Order:
    """Orders of a scan."""

    NEWEST = " ORDER BY d.event_at DESC, d.id DESC LIMIT ?"
    OLDEST = " ORDER BY d.event_at, d.id LIMIT ?"
    WRITTEN = " ORDER BY d.created_at, d.rowid LIMIT ?"
    FORWARDS = f" ORDER BY {PLACE}, d.id LIMIT ?"
    BACKWARDS = f" ORDER BY {PLACE} DESC, d.id DESC LIMIT ?"


def order_of(
    before: tuple[int, str] | None,
    after: tuple[int, str] | None,
    *,
    by_turn: bool,
    by_writing: bool,
) -> str:
    """Return the order of a scan; a cursor tells its direction."""
    if by_writing:
        return Order.WRITTEN
    if by_turn:
        return Order.FORWARDS if before is None else Order.BACKWARDS
    return Order.NEWEST if after is None else Order.OLDEST


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
    if not may_be_id(values[_ID_AT]):
        raise _damaged(values, "id")


def _damaged(values: Sequence[Any], name: str) -> apsw.CorruptError:
    return apsw.CorruptError(f"document {quoted(str(values[_ID_AT]))}: its {name} cannot be read")


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
    pairs = [_passage_and_document(row) for row in rows(connection, _HYDRATE, (wanted,))]
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


def find(
    connection: apsw.Connection, name: str, conditions: list[Clause]
) -> list[DocumentOrPassage]:
    """Return what a name refers to: an id, else a key, else a chunk_id, else an id prefix.

    The key of a message is what a chat program calls it, such as "1": it counts if nothing else has
    the name.
    """
    sql, values = joined(conditions)
    others = f"d.kind <> 'message' AND {sql}"
    return (
        _documents(connection, f"d.id = ? AND {sql}", [name, *values])
        or _passages(connection, f"p.id = ? AND {sql}", [name, *values])
        or _documents(connection, f"d.key = ? AND {others}", [name, *values])
        or _chunk(connection, name, others, values)
        or _prefixed(connection, name, sql, values)
        or _documents(connection, f"d.key = ? AND {sql}", [name, *values])
        or _chunk(connection, name, sql, values)
    )


def _chunk(
    connection: apsw.Connection, name: str, sql: str, values: list[object]
) -> list[DocumentOrPassage]:
    head, dash, tail = name.rpartition("-")
    # subtle: int() would also take "٣" and "1_0".
    if not dash or not (tail.isascii() and tail.isdigit()) or len(tail) > ORDINAL_DIGITS:
        return []
    condition = f"p.ordinal = ? AND (d.id = ? OR d.key = ?) AND {sql}"
    return _passages(connection, condition, [int(tail), head, head, *values])


def _prefixed(
    connection: apsw.Connection, name: str, sql: str, values: list[object]
) -> list[DocumentOrPassage]:
    if not ID_PREFIX <= len(name) < ID_LENGTH or not name.isascii() or not name.isalnum():
        return []
    span = [name.lower(), name.lower() + "~", *values]
    # subtle: as plain conditions, SQLite would rather read a whole project than a range of ids.
    of_documents = "d.rowid IN (SELECT rowid FROM documents WHERE id > ? AND id < ?)"
    of_passages = "p.rowid IN (SELECT rowid FROM passages WHERE id > ? AND id < ?)"
    return [
        *_documents(connection, f"{of_documents} AND {sql}", span),
        *_passages(connection, f"{of_passages} AND {sql}", span),
    ]


def load(connection: apsw.Connection, ids: Sequence[str]) -> list[tuple[int, Document]]:
    """Return whole documents with their rowids, text joined from passages."""
    with connection:  # One snapshot: between two, another process may replace or delete it.
        documents = _whole(connection, rows(connection, _LOAD, (json.dumps(list(ids)),)))
    return documents


def successors(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, str]:
    """Return the id of the successor of each of these documents."""
    return dict(rows(connection, _SUCCESSORS, (json.dumps(list(ids)),)))


def _whole(connection: apsw.Connection, listed: list[SQLRow]) -> list[tuple[int, Document]]:
    documents = []
    for rowid, preface, *row in listed:
        pieces = [(start, text) for start, text in rows(connection, _PIECES, (rowid,))]
        if not _are_pieces(preface, pieces):
            raise apsw.CorruptError(f"document {quoted(str(row[_ID_AT]))}: its text cannot be read")
        documents.append((rowid, document_from(row, stitched(preface, pieces))))
    return documents


def _are_pieces(preface: object, pieces: Sequence[tuple[object, object]]) -> bool:
    return isinstance(preface, str) and all(
        isinstance(start, int) and isinstance(text, str) for start, text in pieces
    )


def members(connection: apsw.Connection, entities: Sequence[str]) -> list[str]:
    """Return the ids of the documents that belong to these entities."""
    return [id_ for (id_,) in rows(connection, _BELONGING, (json.dumps(list(entities)),))]


def find_existing(connection: apsw.Connection, document: Document) -> tuple[int, Document] | None:
    """Return the stored document that this one replaces, with its row number.

    It has the same id, else the same project, source and key, however its accents are written,
    except for a file: two files may differ in that. A file is also found by its path, so
    that a folder that is read alone and then as part of another is not stored twice.
    """
    row = None
    if document.id:
        row = connection.execute(BY_ID, (document.id,)).fetchone()
    if row is None and document.key is not None:
        forms = (document.key,) if document.kind == "file" else spellings_of(document.key)
        for form in forms:
            name = (document.project or "", document.source, form)
            row = row or connection.execute(_BY_NAME, name).fetchone()
    if row is None and document.kind == "file" and document.path is not None:
        place = (document.path, document.project or "")
        if connection.execute(_PATH_KNOWN, place[:1]).get:
            row = connection.execute(_BY_PATH, place).fetchone()
    return None if row is None else (row[0], document_from(row[1:]))


def find_all_existing(
    connection: apsw.Connection, wanted: Sequence[Document]
) -> list[Document | None]:
    """Return for each document the stored one that it replaces; quick where most are new."""
    names: dict[tuple[str, str], list[str]] = {}
    for document in wanted:
        if _is_named(document):
            home = (document.project or "", document.source)
            names.setdefault(home, []).append(document.key or "")
    taken = {
        (*home, key)
        for home, keys in names.items()
        for (key,) in rows(connection, _TAKEN_KEYS, (*home, json.dumps(keys)))
    }
    existing: list[Document | None] = []
    for document in wanted:
        name = (document.project or "", document.source, document.key)
        is_new = _is_named(document) and name not in taken
        pair = None if is_new else find_existing(connection, document)
        existing.append(None if pair is None else pair[1])
    return existing


def _is_named(document: Document) -> bool:
    """Tell whether a document can only be known by its key, which has one spelling."""
    key = document.key
    return not document.id and document.kind != "file" and key is not None and key.isascii()


def scan(
    connection: apsw.Connection,
    conditions: list[Clause],
    order: str,
    limit: int | None,
    *,
    whole: bool,
) -> list[Document]:
    """Return documents in one of the orders of `Order`; call it inside a snapshot."""
    sql, values = joined(conditions)
    if limit is None:
        listed = rows(connection, _SCAN + sql + order, (*values, -1))
    else:
        # Sorting whole rows, of which nearly all are dropped, takes twice as long.
        chosen = f"d.rowid IN ({_ROWIDS}{sql}{order})"
        listed = rows(connection, _SCAN + chosen + order, (*values, limit, limit))
    if whole:
        return [document for _, document in _whole(connection, listed)]
    return [document_from(row) for _, _, *row in listed]


def scan_readable(
    connection: apsw.Connection,
    conditions: list[Clause],
    order: str,
    limit: int | None,
    damaged: list[str],
    *,
    whole: bool,
) -> list[Document]:
    """Return the documents of a scan that can be read, row by row, and name the others."""
    sql, values = joined(conditions)
    statement = _ROWIDS + sql + order
    readable = []
    for (rowid,) in rows(connection, statement, (*values, -1 if limit is None else limit)):
        try:
            [(_, document)] = _whole(connection, rows(connection, _SCAN + "d.rowid = ?", (rowid,)))
            readable.append(document if whole else document._replace(text=""))
        except (apsw.CorruptError, UnicodeDecodeError):
            [(id_,)] = rows(connection, _RAW_ID, (rowid,))
            damaged.append(bytes(id_).decode("utf-8", "replace"))
    return readable


def _documents(
    connection: apsw.Connection, condition: str, values: Sequence[Any]
) -> list[DocumentOrPassage]:
    order = f" ORDER BY d.key, d.id LIMIT {MOST_NAMESAKES}"
    listed = rows(connection, _DOCUMENT + condition + order, values)
    return [(document_from(row), None) for row in listed]


def _passages(
    connection: apsw.Connection, condition: str, values: Sequence[Any]
) -> list[DocumentOrPassage]:
    order = f" ORDER BY d.key, p.ordinal, d.id LIMIT {MOST_NAMESAKES}"
    pairs = [
        _passage_and_document(row) for row in rows(connection, _PASSAGE + condition + order, values)
    ]
    return [(document, passage) for passage, document in pairs]


def _passage_and_document(row: Sequence[Any]) -> tuple[Passage, Document]:
    return passage_from(row[:PASSAGE_WIDTH]), document_from(row[PASSAGE_WIDTH:])
