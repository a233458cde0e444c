"""Find documents by what they are called, and the stored ones that new ones replace."""

import json
from collections.abc import Sequence
from typing import Any

import apsw

from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.documents import (
    DOCUMENT_COLUMNS,
    MOST_NAMESAKES,
    ORDINAL_DIGITS,
    WITH_DOCUMENT,
    DocumentOrPassage,
    document_from,
    passage_and_document,
)
from plait.stores.sqlite.filters import Clause, joined, spellings_of
from plait.types import (
    Document,
)
from plait.types.ids import ID_LENGTH, ID_PREFIX, SCOPE_PREFIX

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
_BELONGING = (
    "SELECT o.id FROM documents AS e JOIN documents AS o ON o.parent = e.id "
    "WHERE e.kind = 'entity' AND e.id IN (SELECT value FROM json_each(?)) ORDER BY o.rowid"
)
_DOCUMENT = f"SELECT {DOCUMENT_COLUMNS} FROM documents AS d WHERE "  # noqa: S608


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


def _documents(
    connection: apsw.Connection, condition: str, values: Sequence[Any]
) -> list[DocumentOrPassage]:
    order = f" ORDER BY d.key, d.id LIMIT {MOST_NAMESAKES}"
    matches = rows(connection, _DOCUMENT + condition + order, values)
    return [(document_from(row), None) for row in matches]


def _passages(
    connection: apsw.Connection, condition: str, values: Sequence[Any]
) -> list[DocumentOrPassage]:
    order = f" ORDER BY d.key, p.ordinal, d.id LIMIT {MOST_NAMESAKES}"
    matches = rows(connection, WITH_DOCUMENT + condition + order, values)
    pairs = map(passage_and_document, matches)
    return [(document, passage) for passage, document in pairs]


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


def members(connection: apsw.Connection, entities: Sequence[str]) -> list[str]:
    """Return the ids of the documents that belong to these entities."""
    return [id_ for (id_,) in rows(connection, _BELONGING, (json.dumps(list(entities)),))]
