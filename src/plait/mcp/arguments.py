"""What a model wrote as arguments, checked against the tool's schema: values, or one sentence.

Models send "5" for 5 and "x" for ["x"]; where only one thing can be meant, that is taken.
"""

import json
from collections.abc import Mapping
from typing import Any

from plait.errors import UsageError

Schema = Mapping[str, Any]

_NAMES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
}
_TRUTHS = {"true": True, "false": False}
# Characters of a wrong value that an answer repeats.
SHOWN = 60
# Likeness (0 to 1) at which an unknown argument counts as a slip of the pen.
ALMOST_THE_SAME = 0.6


def checked(tool: str, schema: Schema, given: object, *, strict: bool = True) -> dict[str, Any]:
    """The arguments as the schema wants them, defaults filled in; a yes or no left out is a no.

    Args:
        tool: Its name, for the sentence.
        schema: Of type object.
        given: What came.
        strict: Refuse arguments that the tool does not have, rather than leave them out.

    Raises:
        UsageError: Says which argument, what is wrong with it and what is allowed.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise UsageError(f"The arguments of {tool} must be an object; got {_shown(given)}.")
    return _object(tool, schema, given, "", strict=strict)


def _object(
    tool: str, schema: Schema, given: Mapping[str, Any], path: str, *, strict: bool
) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    unknown = [name for name in given if name not in properties]
    if unknown and strict:
        raise UsageError(_no_such(tool, f"{path}{unknown[0]}", unknown[0], properties))
    found: dict[str, Any] = {}
    for name, inner in properties.items():
        value = given.get(name)
        if value is None:
            if name in schema.get("required", ()):
                raise UsageError(
                    f"{tool} needs {path}{name}, {_allowed(inner)}. Call it again with it."
                )
            if "default" in inner or inner["type"] == "boolean":
                found[name] = inner.get("default", False)
            continue
        found[name] = _value(tool, inner, value, f"{path}{name}", strict=strict)
    return found


def _value(tool: str, schema: Schema, value: Any, path: str, *, strict: bool) -> Any:
    kind = schema["type"]
    value = _meant(kind, value)
    if not _fits(kind, value):
        raise _wrong(path, schema, value)
    if kind == "object":
        return _object(tool, schema, value, f"{path}.", strict=strict)
    if kind == "array":
        least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
        if not least <= len(value) <= most:
            raise _wrong(path, schema, f"{len(value)} of them")
        return [
            _value(tool, schema["items"], item, f"{path}[{place}]", strict=strict)
            for place, item in enumerate(value)
        ]
    if "enum" in schema and value not in schema["enum"]:
        raise _wrong(path, schema, value)
    if kind == "string" and len(value) > schema.get("maxLength", len(value)):
        raise _wrong(path, schema, f"{len(value):,} characters")
    if kind in ("integer", "number") and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    ):
        raise _wrong(path, schema, value)
    return value


def _meant(kind: str, value: Any) -> Any:
    """The value that can only have been meant; itself where nothing is certain."""
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "array" and not isinstance(value, list):
        listed = _from_json(value, list) if isinstance(value, str) else None
        return [value] if listed is None else listed
    if not isinstance(value, str):
        return value
    if kind == "boolean":
        return _TRUTHS.get(value.strip().lower(), value)
    if kind in ("integer", "number"):
        number = _from_json(value, (int, float))
        return value if number is None else _meant(kind, number)
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
        # NaN is not equal to itself, and no limit holds for it.
        return isinstance(value, (int, float)) and value == value
    kinds = {"string": str, "integer": int, "array": list, "object": Mapping, "boolean": bool}
    return isinstance(value, kinds[kind])


def _allowed(schema: Schema) -> str:
    """What a value may be, in words.

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
        words += f", at most {schema['maxItems']}"
    return words


def _wrong(path: str, schema: Schema, value: Any) -> UsageError:
    return UsageError(f"{path} must be {_allowed(schema)}; got {_shown(value)}.")


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = str(type(value).__name__)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _no_such(tool: str, path: str, name: str, properties: Mapping[str, Schema]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name[:SHOWN], properties, n=1, cutoff=ALMOST_THE_SAME)
    hint = f"Did you mean {near[0]}? " if near else ""
    takes = ", ".join(properties) or "no arguments"
    return f"{tool} has no argument {path[:SHOWN]}. {hint}It takes: {takes}."
