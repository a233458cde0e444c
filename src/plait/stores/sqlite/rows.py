"""Rows to values and back: the one place where columns and fields meet."""

import json
from collections.abc import Sequence
from os import urandom
from typing import Any

import apsw

from plait.types import Document, Passage

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
ID_LENGTH = 13  # 65 random bits: a billion ids collide with a chance of 1 in 70
MIN_PREFIX = 6

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


Row = tuple[Any, ...]


def rows(connection: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Row]:
    """All rows of one statement; APSW types every column as anything SQLite can hold."""
    found: list[Row] = connection.execute(sql, values).fetchall()
    return found


def new_id() -> str:
    """A fresh id: 13 random base32 characters."""
    number = int.from_bytes(urandom(9), "big")
    letters = []
    for _ in range(ID_LENGTH):
        number, digit = divmod(number, 32)
        letters.append(_ALPHABET[digit])
    return "".join(letters)


def document_from(row: Sequence[Any], text: str = "") -> Document:
    """A row of `DOCUMENT_COLUMNS` as a value."""
    values = list(row)
    values[_PROJECT_AT] = values[_PROJECT_AT] or None
    values[_TAGS_AT] = tuple(json.loads(values[_TAGS_AT])) if values[_TAGS_AT] != "[]" else ()
    values[_METADATA_AT] = json.loads(values[_METADATA_AT]) if values[_METADATA_AT] != "{}" else {}
    values[_PINNED_AT] = bool(values[_PINNED_AT])
    values.insert(_TEXT_AT, text)
    return Document(*values)


def document_from_record(record: dict[str, Any]) -> Document:
    """A document that was written as JSON, where tuples become lists."""
    return Document(**{**record, "tags": tuple(record["tags"])})


def document_row(document: Document) -> list[Any]:
    """The values of `FIELDS`, ready to bind."""
    values = [getattr(document, name) for name in FIELDS]
    values[_PROJECT_AT] = values[_PROJECT_AT] or ""
    values[_TAGS_AT] = json.dumps(values[_TAGS_AT], ensure_ascii=False)
    values[_METADATA_AT] = json.dumps(dict(values[_METADATA_AT]), ensure_ascii=False)
    values[_PINNED_AT] = int(values[_PINNED_AT])
    values[_EVENT_AT] = values[_EVENT_AT] or 0
    return values


def passage_from(row: Sequence[Any]) -> Passage:
    """A row of `PASSAGE_COLUMNS` as a value."""
    return Passage(*row)


def passage_hash(heading: str, text: str) -> bytes:
    """Identity of a passage within its document: what a reader and the embedder would see."""
    from hashlib import blake2b  # 2 ms that a search does not need

    digest = blake2b(digest_size=16)
    digest.update(heading.encode("utf-8", "surrogatepass"))
    digest.update(b"\0")
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.digest()


def fingerprint(text: str) -> bytes:
    """Equal for two observations that say the same in other spacing.

    Case counts: a password or a branch name in other letters is another fact.
    """
    from hashlib import blake2b
    from unicodedata import normalize

    said = normalize("NFC", " ".join(text.split()))
    return blake2b(said.encode("utf-8"), digest_size=16).digest()


def stitched(preface: str, pieces: Sequence[tuple[int, str]]) -> str:
    """A document's text from its passages, each laid down at its offset."""
    parts = [preface]
    reached = 0
    for start, text in pieces:
        fresh = text[reached - start :] if start < reached else text
        parts.append(fresh)
        reached = max(reached, start + len(text))
    return "".join(parts)
