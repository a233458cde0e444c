"""Values out of the columns of another program's tables, as plait can store them.

A column of a foreign file may have any type: what does not fit is empty, never an error.
"""

import json
from base64 import b32encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from plait.stores.sqlite.others import Row
from plait.text import clean
from plait.times import LAST_MOMENT
from plait.types.ids import ID_LENGTH

# A number this large counts milliseconds: as seconds it would be the year 5138.
_MILLISECONDS_FROM = 1e11


def stable_id(*parts: object) -> str:
    """Return an id of plait's form that is the same at every import."""
    mark = sha256(json.dumps(parts, default=str).encode("utf-8", "surrogatepass")).digest()
    return b32encode(mark).decode().lower()[:ID_LENGTH]


def as_text(value: object) -> str:
    """Return a text as it can be stored; empty for anything else than text or a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return clean(value.replace("\0", "\ufffd")) if isinstance(value, str) else ""


def size_of(text: str) -> int:
    """Return the bytes of a text, which is what limits count."""
    return len(text.encode("utf-8", "replace"))


def as_moment(value: object, otherwise: int) -> int:
    """Return a time as plait counts it: numbers are seconds or milliseconds, texts are UTC."""
    moment = known_moment(value)
    return otherwise if moment is None else moment


def known_moment(value: object) -> int | None:
    """Return a time as `as_moment` does; ``None`` if it is none."""
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        value = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 < value <= LAST_MOMENT:  # also not a number
        return None
    return round(value if value >= _MILLISECONDS_FROM else value * 1000)


def as_object(value: object) -> dict[str, Any]:
    """Return a column of JSON; empty if it is none."""
    if not isinstance(value, str):
        return {}
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def as_words(value: object) -> list[str]:
    """Return a column with a list of words, as JSON or separated by commas."""
    if not isinstance(value, str):
        return []
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        parsed = value.split(",")
    words = [as_text(word).strip() for word in parsed] if isinstance(parsed, list) else []
    return list(dict.fromkeys(filter(None, words)))


def as_metadata(fields: Mapping[str, object]) -> dict[str, str]:
    """Return values as metadata: texts and numbers as they are, what has parts as JSON."""
    kept = {}
    for name, value in fields.items():
        nested = isinstance(value, dict | list | bool)
        text = json.dumps(value, ensure_ascii=False) if nested else as_text(value)
        if text.strip():
            kept[as_text(name)] = clean(text)
    return kept


def sorted_by(rows: Iterable[Row], *names: str) -> list[Row]:
    """Return rows in the order of some columns, whatever types they have."""
    return sorted(rows, key=lambda row: [_order(row[name]) for name in names])


def _order(value: object) -> tuple[bool, str, object]:
    # Only values of one type are compared with each other; those that are missing come last.
    kind = "number" if isinstance(value, int | float) else type(value).__name__
    return value is None, kind, value
