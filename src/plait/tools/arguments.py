"""Check the arguments of a call against the tool's schema.

Models send "5" for 5 and "x" for ["x"]. Where a value can mean only one thing, it is converted.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from plait.errors import UsageError
from plait.tools.schemas import Schema
from plait.types.guarding import VALUE_CHARS

_NAMES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_TRUTHS = {"true": True, "false": False}
# Characters of one text. More than a model can write, and about a second of work.
MAX_ARGUMENT_CHARS = 1_000_000
# Of one list, where its schema sets no other limit.
MAX_ARGUMENT_ITEMS = 1_000
# Similarity (0 to 1) from which an unknown argument counts as a typing error.
TYPO_SIMILARITY = 0.6


def check_arguments(
    tool: str, schema: Schema, arguments: object, *, strict: bool = True
) -> dict[str, Any]:
    """Return the arguments in the schema's types, with defaults; a missing boolean is false.

    Args:
        tool: The tool's name, for the error.
        schema: The schema of an object.
        arguments: What the client sent.
        strict: Refuse unknown arguments instead of ignoring them.

    Raises:
        UsageError: An argument is wrong; the error names it and what is allowed. Its code is
            "bad_argument", "missing_argument" or "unknown_argument".
    """
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise UsageError(
            f"The arguments of {tool} must be an object; got {_shown(arguments)}.",
            code="bad_argument",
        )
    return _object(tool, schema, arguments, "", strict=strict)


def separated(values: Sequence[str]) -> list[str]:
    """Return values that a model may have written as one text with commas.

    >>> separated(["red, blue", "green"])
    ['red', 'blue', 'green']
    """
    parts = [part.strip() for value in values for part in value.split(",")]
    return [part for part in parts if part]


def as_written(name: str) -> str:
    """Return the id in a name that was copied out of an answer, with its number or brackets.

    >>> as_written("ajt2k3da "), as_written("[2] ajt2k3da notes.md:4"), as_written("[ajt2k3da]")
    ('ajt2k3da', 'ajt2k3da', 'ajt2k3da')

    Raises:
        UsageError: It is only the number of a row.
    """
    name = name.strip()
    if re.fullmatch(r"\[\d{1,3}\]", name):
        raise UsageError(
            f"{name} is the number of a row, not an id. The id is the word after it.",
            code="unknown_name",
            subject=name,
        )
    copied = re.match(r"\[\d{1,3}\]\s{1,4}([a-z2-7]{6,13})(?!\S)", name)
    bracketed = re.fullmatch(r"\[([a-z2-7]{6,13})\]", name)
    written = copied or bracketed
    return name if written is None else written[1]


def _object(
    tool: str, schema: Schema, arguments: Mapping[str, Any], path: str, *, strict: bool
) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    # A program that decodes something else than JSON may have other names than texts.
    arguments = {_spelled(str(name), properties): value for name, value in arguments.items()}
    unknown = [name for name in arguments if name not in properties]
    if unknown and strict:
        raise _unknown(tool, f"{path}{unknown[0]}", unknown[0], properties)
    values: dict[str, Any] = {}
    for name, inner in properties.items():
        value = arguments.get(name)
        required = name in schema.get("required", ())
        if value == "" and not required:
            value = None  # models fill in every argument, also those that they leave open
        if value is None:
            if required:
                raise UsageError(
                    f"{tool} needs {path}{name}, {_allowed(inner)}. Call it again with {name}.",
                    code="missing_argument",
                    subject=f"{path}{name}",
                )
            if "default" in inner or inner["type"] == "boolean":
                values[name] = inner.get("default", False)
            continue
        values[name] = _value(tool, inner, value, f"{path}{name}", strict=strict)
    return values


def _spelled(name: str, properties: Mapping[str, Schema]) -> str:
    """Return the argument that a name stands for: ``tag`` is ``tags``, ``types`` is ``type``."""
    forms = (name, f"{name}s", name.removesuffix("s"))
    return next((form for form in forms if form in properties), name)


def _value(tool: str, schema: Schema, value: Any, path: str, *, strict: bool) -> Any:
    kind = schema["type"]
    value = _converted(kind, value)
    if not _fits(kind, value):
        raise _wrong(path, schema, value)
    if kind == "object":
        return _object(tool, schema, value, f"{path}.", strict=strict)
    if kind == "array":
        limits = {"maxItems": MAX_ARGUMENT_ITEMS, **schema}
        if not schema.get("minItems", 0) <= len(value) <= limits["maxItems"]:
            raise _wrong(path, limits, shown=f"{len(value)} items" if value else "an empty list")
        return [
            _value(tool, schema["items"], item, f"{path}[{place}]", strict=strict)
            for place, item in enumerate(value)
        ]
    if "enum" in schema and value not in schema["enum"]:
        raise _wrong(path, schema, value)
    if kind == "string" and len(value) > schema.get("maxLength", MAX_ARGUMENT_CHARS):
        limit = {"maxLength": MAX_ARGUMENT_CHARS, **schema}
        raise _wrong(path, limit, shown=f"{len(value):,} characters")
    if kind in ("integer", "number") and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    ):
        raise _wrong(path, schema, value)
    return value


def _converted(kind: str, value: Any) -> Any:
    """Return the value as the wanted type if that is unambiguous; otherwise unchanged."""
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "array" and not isinstance(value, list):
        items = _from_json(value, list) if isinstance(value, str) else None
        return [value] if items is None else items
    if not isinstance(value, str):
        return value
    if kind == "boolean":
        return _TRUTHS.get(value.strip().lower(), value)
    if kind in ("integer", "number"):
        number = _from_json(value, (int, float))
        return value if number is None else _converted(kind, number)
    if kind == "object":
        inner = _from_json(value, dict)
        return value if inner is None else inner
    return value


def _from_json(text: str, kind: type | tuple[type, ...]) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, kind) and not isinstance(value, bool) else None


def _fits(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "number":
        # NaN, which JSON does not have, is not equal to itself.
        return isinstance(value, (int, float)) and value == value
    kinds = {"string": str, "integer": int, "array": list, "object": Mapping, "boolean": bool}
    return isinstance(value, kinds[kind])


def _allowed(schema: Schema) -> str:
    """Return in words which values are allowed.

    >>> _allowed({"type": "integer", "minimum": 1, "maximum": 50})
    'a whole number from 1 to 50'
    """
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    words = _NAMES[schema["type"]]
    if "minimum" in schema:
        words += f" from {schema['minimum']}"
    if "maximum" in schema:
        words += f" to {schema['maximum']}"
    if "maxLength" in schema:
        words += f" of at most {schema['maxLength']:,} characters"
    if "items" in schema:
        words += f" of {_NAMES[schema['items']['type']].partition(' ')[2] or 'values'}s"
    if "minItems" in schema:
        words += f", at least {schema['minItems']}"
    if "maxItems" in schema:
        words += f", at most {schema['maxItems']:,}"
    return words


def _wrong(path: str, schema: Schema, value: Any = None, *, shown: str = "") -> UsageError:
    message = f"{path} must be {_allowed(schema)}; got {shown or _shown(value)}."
    return UsageError(message, code="bad_argument", subject=path)


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = str(type(value).__name__)
    return text if len(text) <= VALUE_CHARS else f"{text[: VALUE_CHARS - 1]}…"


def _unknown(tool: str, path: str, name: str, properties: Mapping[str, Schema]) -> UsageError:
    from difflib import get_close_matches

    similar = get_close_matches(name[:VALUE_CHARS], properties, n=1, cutoff=TYPO_SIMILARITY)
    hint = f"Did you mean {similar[0]}? " if similar else ""
    names = ", ".join(properties) or "no arguments"
    return UsageError(
        f"{tool} has no argument {path[:VALUE_CHARS]}. {hint}It takes: {names}.",
        code="unknown_argument",
        subject=path,
    )
