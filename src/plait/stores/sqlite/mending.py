"""Rows with values that plait never writes: what is wrong with one, and what of it can be kept.

Pure functions on one row; a text that is not UTF-8 comes as bytes. `plait.stores.sqlite.rowcheck`
and `plait.stores.sqlite.salvage` read and write the rows.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import apsw

from plait.protocols import Vector
from plait.stores.sqlite import audit, steps, tallies
from plait.stores.sqlite.cache import is_vector
from plait.stores.sqlite.documents import (
    DOCUMENT_TYPES,
    FIELDS,
    LAST_ORDINAL,
    document_from,
    passage_from,
)
from plait.stores.sqlite.foreign import is_last_row
from plait.stores.sqlite.histories import PREFIX
from plait.stores.sqlite.state import (
    CHANGED_AT,
    PROFILES_DUE,
    STALE_TERMS,
    UNSCRUBBED,
    Generation,
)
from plait.stores.sqlite.trash import trashed_from
from plait.stores.sqlite.vectors import is_block
from plait.times import LAST_MOMENT
from plait.types import KINDS, MEMORY_TYPES, ORIGINS, STATUSES, TRUSTS, Space
from plait.types.ids import is_id, new_id

Row = dict[str, Any]

# Where a document goes whose project cannot be read: a personal one would be seen by every project.
UNKNOWN_PROJECT = "salvaged"
PASSAGE_FIELDS = ("text", "heading", "start_line", "end_line", "start", "ordinal", "id", "rowid")
REASONS = ("pending", "declined")
_MOMENTS = ("created_at", "updated_at", "event_at", "valid_from", "valid_to", "indexed_at")
_DIMS = Space._fields.index("dims")
_NUMBERS_IN_META = (CHANGED_AT, PROFILES_DUE, "passages", "counted_passages")
# What a lost value becomes where plait would not look again without one: nothing is counted, every
# profile may be outdated, and bytes of purged text may be left.
_LOST_META = {
    "passages": "0",
    "counted_passages": "0",
    PROFILES_DUE: "0",
    UNSCRUBBED: "lost",
    STALE_TERMS: "lost",
}
# The least favourable value: what cannot be read must not gain trust.
_CHOICES: dict[str, tuple[tuple[str, ...], str]] = {
    "kind": (KINDS, "note"),
    "origin": (ORIGINS, "import"),
    "trust": (TRUSTS, "untrusted"),
}


def as_text(value: object) -> str | None:
    """Return a value as text; what is not UTF-8 in it becomes U+FFFD."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)


def as_number(value: object) -> int | None:
    """Return a value as a whole number, if it is one in any form."""
    if isinstance(value, int):
        return value
    try:
        return int(value) if isinstance(value, float | str) else None
    except (ValueError, OverflowError):
        return None


# -- what is wrong -------------------------------------------------------------------------


def is_sound(table: str, row: Row) -> bool:
    """Tell whether plait can read a row."""
    try:
        return _CHECKS[table](row)
    except (apsw.CorruptError, TypeError, ValueError):
        return False


def _document_is_sound(row: Row) -> bool:
    document_from([row[name] for name in FIELDS])
    if any(abs(row[name] or 0) > LAST_MOMENT for name in _MOMENTS):
        return False
    return isinstance(row["preface"], str) and isinstance(row["fingerprint"], bytes | None)


def _passage_is_sound(row: Row) -> bool:
    passage_from([row[name] for name in PASSAGE_FIELDS])
    if row["start"] >= LAST_ORDINAL or row["ordinal"] >= LAST_ORDINAL:
        return False
    terms = [value for name, value in row.items() if name.endswith("_terms")]
    return isinstance(row["document"], int) and all(isinstance(text, str | None) for text in terms)


def _edge_is_sound(row: Row) -> bool:
    times = (row["valid_from"], row["valid_to"])
    ends = tuple(type(row[name]) for name in ("source", "target"))
    return (
        ends in ((int, int), (str, str))
        and isinstance(row["type"], str)
        and isinstance(row["context"], str | None)
        and isinstance(row["created_at"], int)
        and all(isinstance(moment, int | None) for moment in times)
        and isinstance(row.get("deleted_at", 0), int)
    )


def _trash_is_sound(row: Row) -> bool:
    trashed_from((row["batch"], row["deleted_at"], row["document"]))
    return isinstance(row["id"], str)


def _numbers_are_sound(row: Row) -> bool:
    return all(isinstance(value, int) for value in row.values())


def _meta_is_sound(row: Row) -> bool:
    if row["name"] in _NUMBERS_IN_META:
        int(row["value"])
    texts = isinstance(row["name"], str) and isinstance(row["value"], str)
    return texts and not _is_of_histories(row)


def _history_is_sound(row: Row) -> bool:
    return isinstance(row["value"], str) and _is_of_histories(row)


def _step_is_sound(row: Row) -> bool:
    place, *values = (value for name, value in row.items() if name != "document")
    return isinstance(row["document"], int) and isinstance(place, int) and steps.is_sound(values)


def _is_of_histories(row: Row) -> bool:
    return isinstance(row["name"], str) and row["name"].startswith(PREFIX)


def _generation_is_sound(row: Row) -> bool:
    fields = (row["id"], row["space"], row["dims"], row["current"], row["canary"])
    return Generation(*fields).is_sound()


def _cache_is_sound(row: Row) -> bool:
    times = (row["created_at"], row["accessed_at"])
    return (
        isinstance(row["text_hash"], str)
        and is_vector(row["embedding"])
        and all(isinstance(moment, int) for moment in times)
    )


_CHECKS: dict[str, Callable[[Row], bool]] = {
    "documents": _document_is_sound,
    "passages": _passage_is_sound,
    "relations": _edge_is_sound,
    "trashed_relations": _edge_is_sound,
    "trash": _trash_is_sound,
    "signals": _numbers_are_sound,
    "signal_pairs": _numbers_are_sound,
    "meta": _meta_is_sound,
    "histories": _history_is_sound,
    "steps": _step_is_sound,
    "audit": lambda row: audit.is_sound([value for name, value in row.items() if name != "rowid"]),
    "generations": _generation_is_sound,
    "embedding_cache": _cache_is_sound,
    "frequent_terms": lambda row: has_own_types("frequent_terms", row) and row["passages"] > 0,
    "tallies": lambda row: (
        row["part"] in tallies.PARTS
        and isinstance(row["name"], str)
        and isinstance(row["documents"], int)
    ),
    "unembedded": lambda row: (
        row["reason"] in REASONS
        and isinstance(row["generation"], int)
        and isinstance(row["passage"], int)
    ),
    "block_versions": lambda row: (
        isinstance(row["generation"], int)
        and is_block(row["block"])
        and isinstance(row["version"], bytes)
    ),
    "vector_signs": lambda row: (
        isinstance(row["generation"], int)
        and is_block(row["block"])
        and isinstance(row["data"], bytes)
    ),
    "vector_rows": lambda row: isinstance(row["data"], bytes),
    # Without its row, a table goes on behind the highest number that it has.
    "sqlite_sequence": lambda row: isinstance(row["name"], str) and is_last_row(row["seq"]),
}
CHECKED_TABLES = tuple(_CHECKS)
# What is damaged in these is dropped: it comes again with use, or is told by a text as well.
DROPPED_TABLES = ("signals", "signal_pairs", "embedding_cache", "histories", "steps", "audit")


def has_own_types(table: str, row: Row) -> bool:
    """Tell whether an unsound row has the types of its table: then no other table's lies there."""
    types = (type(row.get("term")), type(row.get("passages")))
    return table == "frequent_terms" and types == (str, int)


# -- what can be kept ----------------------------------------------------------------------


def mended(table: str, row: Row) -> Row | None:
    """Return a row that plait can read, with all that can be kept of this one.

    ``None`` if nothing can be kept, or if it comes again by itself: counts of use and of terms,
    cached vectors, and the rules of the first write, which the next one writes down.
    """
    rule = _RULES.get(table)
    return None if rule is None else rule(row)


def _mended_document(row: Row) -> Row:
    fixed = dict(row)
    for name, types in zip(FIELDS, DOCUMENT_TYPES, strict=True):
        value = row[name]
        if int in types:
            fixed[name] = as_number(value)
            if name in _MOMENTS and abs(fixed[name] or 0) > LAST_MOMENT:
                fixed[name] = None
            if fixed[name] is None and None.__class__ not in types:
                fixed[name] = 0
        else:
            fixed[name] = as_text(value)
    fixed["importance"] = row["importance"] if isinstance(row["importance"], int | float) else None
    fixed["id"] = fixed["id"] if is_id(fixed["id"] or "") else new_id()
    fixed["project"] = UNKNOWN_PROJECT if row["project"] is None else fixed["project"]
    fixed["event_at"] = fixed["event_at"] or fixed["created_at"]
    if fixed["memory_type"] not in MEMORY_TYPES:
        fixed["memory_type"] = None
    if fixed["status"] not in STATUSES:
        fixed["status"] = None
    for name, (values, least) in _CHOICES.items():
        fixed[name] = row[name] if row[name] in values else least
    for name in ("title", "source"):
        fixed[name] = fixed[name] or ""
    fixed["preface"] = as_text(row["preface"]) or ""
    fixed["tags"] = json.dumps(_list_of_texts(fixed["tags"]), ensure_ascii=False)
    fixed["metadata"] = json.dumps(_object(fixed["metadata"]), ensure_ascii=False)
    fixed["fingerprint"] = row["fingerprint"] if isinstance(row["fingerprint"], bytes) else None
    return fixed


def _list_of_texts(text: str | None) -> list[str]:
    listed = _parsed(text)
    return [tag for tag in listed if isinstance(tag, str)] if isinstance(listed, list) else []


def _object(text: str | None) -> dict[str, Any]:
    parsed = _parsed(text)
    return parsed if isinstance(parsed, dict) else {}


def _parsed(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return None


def _mended_passage(row: Row) -> Row | None:
    """Return a passage; where its place is lost, ``ordinal`` and ``start`` are ``None``."""
    document, text = as_number(row["document"]), as_text(row["text"])
    if document is None or not text:
        return None
    fixed = {**row, "document": document, "text": text, "heading": as_text(row["heading"]) or ""}
    places = [as_number(row[name]) for name in ("ordinal", "start")]
    known = all(place is not None and 0 <= place < LAST_ORDINAL for place in places)
    fixed["ordinal"], fixed["start"] = places if known else (None, None)
    for name in ("start_line", "end_line"):
        fixed[name] = max(1, as_number(row[name]) or 1)
    id_ = as_text(row["id"]) or ""
    fixed["id"] = id_ if is_id(id_) else new_id()
    terms = {name: as_text(value) for name, value in row.items() if name.endswith("_terms")}
    return {**fixed, **terms}


def _mended_edge(row: Row) -> Row | None:
    fixed = {**row, "type": as_text(row["type"]) or "", "context": as_text(row["context"])}
    fixed["created_at"] = as_number(row["created_at"]) or 0
    for name in ("valid_from", "valid_to"):
        fixed[name] = as_number(row[name])
    if "deleted_at" in row:
        fixed["deleted_at"] = as_number(row["deleted_at"]) or 0
    return fixed if _edge_is_sound(fixed) else None


def _mended_trash(row: Row) -> Row | None:
    fixed = {
        **row,
        "id": as_text(row["id"]) or new_id(),
        "deleted_at": as_number(row["deleted_at"]) or 0,
        "batch": as_text(row["batch"]) or "",
        "document": as_text(row["document"]) or "",
    }
    return fixed if is_sound("trash", fixed) else None


def _mended_reason(row: Row) -> Row | None:
    fixed = {**row, "reason": REASONS[0]}
    return fixed if is_sound("unembedded", fixed) else None


def _mended_meta(row: Row) -> Row | None:
    value = row["value"]
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            value = value.decode()
    kept = {**row, "value": value}
    if is_sound("meta", kept):
        return kept
    return {**row, "value": _LOST_META[row["name"]]} if row["name"] in _LOST_META else None


def _mended_generation(row: Row) -> Row | None:
    """Return a description of vectors; without their space nobody knows what they are."""
    fixed = {**row, "canary": row["canary"] if isinstance(row["canary"], bytes) else None}
    if len(fixed["canary"] or b"") % Vector("f").itemsize:
        fixed["canary"] = None
    if row["current"] not in (0, 1):
        fixed["current"] = 0  # a reindex goes on with them
    space = _parsed(as_text(row["space"]))
    if isinstance(space, list) and len(space) > _DIMS:
        fixed["dims"] = space[_DIMS]
    return fixed if is_sound("generations", fixed) else None


def _mended_version(row: Row) -> Row | None:
    fixed = row | {"version": os.urandom(8)}
    return fixed if is_sound("block_versions", fixed) else None


_RULES: dict[str, Callable[[Row], Row | None]] = {
    "documents": _mended_document,
    "passages": _mended_passage,
    "relations": _mended_edge,
    "trashed_relations": _mended_edge,
    "trash": _mended_trash,
    "unembedded": _mended_reason,
    "block_versions": _mended_version,
    "meta": _mended_meta,
    "generations": _mended_generation,
}
