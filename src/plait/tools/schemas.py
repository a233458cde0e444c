"""Builders for the JSON schemas of tool arguments and results."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def object_of(*required: str, **properties: Schema) -> Schema:
    """Return the schema of an object with these properties, the named ones required."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema


def string(description: str = "", **more: Any) -> Schema:
    """Return the schema of a text."""
    return _described("string", description, more)


def decimal(description: str = "", **more: Any) -> Schema:
    """Return the schema of a number."""
    return _described("number", description, more)


def integer(description: str = "", **more: Any) -> Schema:
    """Return the schema of a whole number."""
    return _described("integer", description, more)


def boolean(description: str = "", **more: Any) -> Schema:
    """Return the schema of true or false."""
    return _described("boolean", description, more)


def strings(description: str = "", **more: Any) -> Schema:
    """Return the schema of a list of texts."""
    return array_of({"type": "string"}, description, **more)


def array_of(items: Schema, description: str = "", **more: Any) -> Schema:
    """Return the schema of a list."""
    return _described("array", description, {"items": items, **more})


def _described(kind: str, description: str, more: Mapping[str, Any]) -> Schema:
    return {"type": kind, **({"description": description} if description else {}), **more}


# An answer of rows, with what it costs.
ROWS = object_of(
    "results", "tokens", results=array_of({"type": "object"}), tokens={"type": "integer"}
)
