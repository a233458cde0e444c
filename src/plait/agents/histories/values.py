"""Values of foreign records, whatever they are: a reader asks for a type and gets it, or nothing.

No function here raises for a value: files may be broken, cut, hostile, or of a later version.
"""

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from plait.text import clean
from plait.times import FIRST_MOMENT, LAST_MOMENT, parse_time

Fields = Mapping[str, Any]

# Smaller numbers are seconds since 1970, others milliseconds.
_FIRST_MILLISECONDS = 1e11
_LONGEST_NAME = 200
# What file systems allow; a longer name is no folder that an agent worked in.
_LONGEST_FOLDER, _LONGEST_PART = 4_000, 255
# Of a session.
_MOST_FOLDERS = 200
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")


def string(record: Any, name: str) -> str:
    """Return a text of a record; empty if it has none."""
    value = record.get(name) if isinstance(record, Mapping) else None
    return clean(value) if isinstance(value, str) else ""


def identifier(record: Any, name: str) -> str:
    """Return an id or a short name of a record, on one line; empty if it has none."""
    value = record.get(name) if isinstance(record, Mapping) else None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        return str(value)
    return " ".join(string(record, name)[: 4 * _LONGEST_NAME].split())[:_LONGEST_NAME]


def folder(record: Any, name: str) -> str:
    """Return a path of a record; empty if it has none that could exist."""
    path = string(record, name)
    is_path = path.startswith(("/", "\\")) or path[1:3] in (":\\", ":/")
    parts = path.replace("\\", "/").split("/") if len(path) <= _LONGEST_FOLDER else ()
    is_short = all(len(part.encode()) <= _LONGEST_PART for part in parts)
    return path if is_path and parts and is_short and path.isprintable() else ""


def note_folder(state: dict[str, Any], record: Any) -> None:
    """Add the folder of a record to those of its session; the first is where the session began."""
    known: list[str] = state.setdefault("folders", [])
    if (record if type(record) is dict else record_of(record)).get("cwd") not in known:
        place = folder(record, "cwd")
        if place and place not in known and len(known) < _MOST_FOLDERS:
            known.append(place)


def record_of(value: Any) -> Fields:
    """Return a record; an empty one if it is something else."""
    return value if isinstance(value, Mapping) else {}


def records_of(value: Any) -> list[Fields]:
    """Return the records of a list; nothing else of it."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def number(record: Any, name: str) -> int | None:
    """Return a whole number of a record, if it is one that makes sense."""
    value = record.get(name) if isinstance(record, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < 1 << 53 else None


def moment_of(value: Any) -> int | None:
    """Return UTC milliseconds of a time in any of the forms that agents write.

    >>> moment_of(1762070400), moment_of("1762070400000"), moment_of("2025-11-02T08:00:00.5Z")
    (1762070400000, 1762070400000, 1762070400500)
    """
    if isinstance(value, str):
        if _ISO.match(value):
            return _in_range(parse_time(value[:40]))
        try:
            value = float(value[:40])
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # subtle: not a number compares false with everything
    if not 0 < value <= LAST_MOMENT:
        return None
    return round(value * 1000) if value < _FIRST_MILLISECONDS else round(value)


def _in_range(moment: int | None) -> int | None:
    is_time = moment is not None and FIRST_MOMENT <= moment <= LAST_MOMENT
    return moment if is_time else None


def decoded(raw: Any) -> Any:
    """Return what a JSON text says; ``None`` if it is none."""
    if isinstance(raw, bytes):
        raw = raw.decode("utf-8", "replace")
    if not isinstance(raw, str):
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def texts_of(content: Any, *kinds: str) -> list[str]:
    """Return the texts of a message: a text, or a list of texts and of parts with one.

    With ``kinds``, only of parts that have one of these types.
    """
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list):
        content = [content]
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(clean(part))
        elif isinstance(part, Mapping) and (not kinds or part.get("type") in kinds):
            texts.append(string(part, "text"))
    return texts


def joined(texts: list[str]) -> str:
    """Return texts as one, in paragraphs; empty ones are left out."""
    return "\n\n".join(stripped for text in texts if (stripped := text.strip()))


def hashed(*parts: object) -> str:
    """Return an id for what has none: the same for the same parts."""
    whole = "\0".join(map(str, parts))
    return blake2b(whole.encode("utf-8", "replace"), digest_size=12).hexdigest()
