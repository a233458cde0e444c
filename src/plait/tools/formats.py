"""The definitions of tools in the shapes that providers of models take."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from plait.errors import UsageError, advise
from plait.tools.profiles import DEFAULT_PROFILES, tools_of
from plait.tools.schemas import Schema
from plait.tools.tool import Tool

FormatName = Literal["anthropic", "openai", "openai-responses", "ollama", "mcp"]
TOOL_FORMATS: tuple[str, ...] = get_args(FormatName)
# What OpenAI's strict mode refuses, and what a description tells instead; a limit that is not
# told is still checked when the tool is called.
_NOT_STRICT = ("default", "maxLength")

Definition = dict[str, Any]


def definitions(format: FormatName, profiles: Sequence[str] = DEFAULT_PROFILES) -> list[Definition]:
    """Return the definitions of tools as a provider's API takes them, in its ``tools``.

    >>> [tool["name"] for tool in definitions("anthropic", ["work"])]
    ['memory_work']

    Args:
        format: ``anthropic``, ``openai`` (chat completions), ``openai-responses``, ``ollama`` or
            ``mcp``. Those for OpenAI are strict: its server makes sure that calls fit the schema.
        profiles: ``core``, ``layers``, ``graph``, ``work`` and ``review``.

    Raises:
        UsageError: There is no such format or profile.
    """
    build = _BUILDERS.get(format)
    if build is None:
        raise UsageError(
            f"There is no format '{format}' for tools.",
            code="unknown_format",
            subject="format",
            advice=advise("choose", choices=", ".join(TOOL_FORMATS)),
        )
    from copy import deepcopy

    # The tools keep their schemas, whatever a caller does with these.
    return deepcopy([build(tool) for tool in tools_of(profiles)])


def mcp_definition(tool: Tool, *, typed: bool = False) -> Definition:
    """Return a tool as an MCP server lists it; ``typed``: its results are sent as data too."""
    # Only what is not the protocol's default: it is in the context of every conversation.
    annotations: Definition = {"openWorldHint": False}
    if not tool.writes:
        annotations["readOnlyHint"] = True
    else:
        annotations["destructiveHint"] = tool.destroys
        if tool.idempotent:
            annotations["idempotentHint"] = True
    definition: Definition = {"name": tool.name, "description": tool.description}
    if tool.title is not None:
        definition["title"] = tool.title
    definition["inputSchema"] = dict(tool.input)
    if typed and tool.output:
        definition["outputSchema"] = dict(tool.output)
    return {**definition, "annotations": annotations}


def _for_anthropic(tool: Tool) -> Definition:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input)}


def _for_openai(tool: Tool) -> Definition:
    return {"type": "function", "function": _strict_function(tool)}


def _for_openai_responses(tool: Tool) -> Definition:
    return {"type": "function", **_strict_function(tool)}


def _strict_function(tool: Tool) -> Definition:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": strict_schema(tool.input),
        "strict": True,
    }


def _for_ollama(tool: Tool) -> Definition:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.input),
    }
    return {"type": "function", "function": function}


_BUILDERS: Mapping[str, Callable[[Tool], Definition]] = {
    "anthropic": _for_anthropic,
    "openai": _for_openai,
    "openai-responses": _for_openai_responses,
    "ollama": _for_ollama,
    "mcp": mcp_definition,
}


# -- OpenAI's strict mode ------------------------------------------------------------------


def strict_schema(schema: Schema) -> Definition:
    """Return a schema by the rules of OpenAI's strict mode.

    Every property of an object is required, and null where it was optional; no others are allowed.
    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas

    >>> limit = {"type": "integer", "default": 5}
    >>> strict_schema({"type": "object", "properties": {"limit": limit}})
    ... # doctest: +NORMALIZE_WHITESPACE
    {'type': 'object',
     'properties': {'limit': {'type': ['integer', 'null'], 'description': 'null: 5'}},
     'required': ['limit'], 'additionalProperties': False}
    """
    kept = {name: value for name, value in schema.items() if name not in _NOT_STRICT}
    if schema["type"] == "array":
        kept["items"] = strict_schema(schema["items"])
    if schema["type"] != "object":
        return kept
    required = schema.get("required", ())
    properties = {
        name: strict_schema(inner) if name in required else _nullable(inner)
        for name, inner in schema.get("properties", {}).items()
    }
    kept.update(properties=properties, required=list(properties), additionalProperties=False)
    return kept


def _nullable(schema: Schema) -> Definition:
    strict = strict_schema(schema)
    strict["type"] = [schema["type"], "null"]
    if "enum" in strict:
        strict["enum"] = [*strict["enum"], None]
    if "default" in schema:
        instead = f"null: {schema['default']}"
        strict["description"] = "; ".join(filter(None, [strict.get("description"), instead]))
    return strict
