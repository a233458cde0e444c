"""The definitions of tools: one schema, in the shape of each provider."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from plait.errors import UsageError
from plait.tools import definitions
from plait.tools.formats import TOOL_FORMATS, FormatName, strict_schema
from plait.tools.profiles import PROFILES, tools_of
from tests.codes import has_code
from tests.mcp.talk import converse
from tests.test_house import loaded_by

# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
STRICT_KEYWORDS = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "description"),
    *("minimum", "maximum", "minItems", "maxItems"),
}
STRICT_MOST_PROPERTIES = 5_000
STRICT_MOST_LEVELS = 10


def functions(format: FormatName) -> list[dict[str, Any]]:
    """The part of each definition that has its name."""
    rows = definitions(format, PROFILES)
    return [row.get("function", row) for row in rows]


def objects(schema: dict[str, Any], level: int = 1) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every schema inside of one, with its depth."""
    yield level, schema
    for inner in schema.get("properties", {}).values():
        yield from objects(inner, level + 1)
    if "items" in schema:
        yield from objects(schema["items"], level + 1)


def test_each_provider_gets_the_keys_of_its_api():
    keys = {name: definitions(name, ["work"])[0] for name in TOOL_FORMATS}  # type: ignore[arg-type]
    assert set(keys["anthropic"]) == {"name", "description", "input_schema"}
    assert set(keys["openai"]) == {"type", "function"}
    assert set(keys["openai"]["function"]) == {"name", "description", "parameters", "strict"}
    assert set(keys["openai-responses"]) == {"type", "name", "description", "parameters", "strict"}
    assert set(keys["ollama"]["function"]) == {"name", "description", "parameters"}
    assert set(keys["mcp"]) == {"name", "description", "inputSchema", "annotations"}
    for name in ("openai", "openai-responses", "ollama"):
        assert keys[name]["type"] == "function"


@pytest.mark.parametrize("format", TOOL_FORMATS)
def test_the_tools_and_their_order_are_the_same_for_every_provider(format):
    assert [row["name"] for row in functions(format)] == [tool.name for tool in tools_of(PROFILES)]
    assert {row["name"]: row["description"] for row in functions(format)} == {
        tool.name: tool.description for tool in tools_of(PROFILES)
    }
    json.dumps(definitions(format, PROFILES))


@pytest.mark.parametrize("format", ["openai", "openai-responses"])
def test_what_openai_gets_obeys_its_strict_rules(format):
    count = 0
    for function in functions(format):
        assert function["strict"] is True
        parameters = function["parameters"]
        assert parameters["type"] == "object"
        for level, schema in objects(parameters):
            assert set(schema) <= STRICT_KEYWORDS
            assert level <= STRICT_MOST_LEVELS
            if "object" in schema["type"]:
                assert schema["additionalProperties"] is False
                assert schema["required"] == list(schema["properties"])
                count += len(schema["properties"])
    assert 60 < count <= STRICT_MOST_PROPERTIES


def test_an_optional_argument_may_be_null_and_a_required_one_may_not():
    (work,) = [row for row in functions("openai") if row["name"] == "memory_work"]
    properties = work["parameters"]["properties"]
    assert properties["query"]["type"] == "string"
    assert properties["max_tokens"]["type"] == ["integer", "null"]
    assert properties["max_tokens"]["description"] == "null: 800"
    (store,) = [row for row in functions("openai") if row["name"] == "memory_store"]
    assert store["parameters"]["properties"]["project"]["enum"] == ["personal", None]


def test_strict_rules_hold_inside_of_lists_too():
    inner = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}
    strict = strict_schema({"type": "array", "items": inner})
    assert strict["items"]["required"] == ["a"]
    assert strict["items"]["properties"] == {"a": {"type": ["string", "null"]}}


def test_what_a_caller_changes_stays_with_the_caller():
    before = definitions("anthropic")
    changed = definitions("anthropic")
    changed[0]["input_schema"]["properties"].clear()
    assert definitions("anthropic") == before


def test_the_definitions_for_mcp_are_those_that_the_server_lists(memory):
    listed = converse(memory, lambda client: client.list_tools(), profiles=PROFILES)
    served = [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed.tools]
    for row in served:
        row.pop("outputSchema", None)  # only clients of the reference server's tools get it
        row.pop("_meta", None)
    assert served == definitions("mcp", PROFILES)


def test_an_unknown_format_or_profile_is_refused():
    with pytest.raises(UsageError, match="of: anthropic", check=has_code("unknown_format")):
        definitions("gemini")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="choose one of: core", check=has_code("unknown_profile")):
        definitions("mcp", ["cor"])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "act",
    [
        "from plait.tools import definitions\ndefinitions('ollama', sys.argv[1:])",
        "from plait.mcp.server import Handlers\nHandlers(None, sys.argv[1:])",
    ],
    ids=["definitions", "server"],
)
def test_only_the_profile_that_is_used_is_loaded(act, profile):
    loaded = loaded_by(act, profile)
    others = {name for name in PROFILES if f"plait.tools.{name}" in loaded} - {profile}
    assert f"plait.tools.{profile}" in loaded
    assert others <= {"core"}, "others share its limits"
