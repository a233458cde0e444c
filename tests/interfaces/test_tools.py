"""plait tools: the definitions of the tools, for the API of a model."""

import json

import pytest

from plait.tools import definitions
from plait.tools.formats import TOOL_FORMATS


@pytest.mark.parametrize("format", TOOL_FORMATS)
def test_the_command_prints_them_as_json(plait, format):
    ran = plait("tools", "--format", format, "--tools", "core,graph")
    assert ran.code == 0
    assert json.loads(ran.out) == definitions(format, ["core", "graph"])


@pytest.mark.parametrize("words", [("xml",), ("json",), ("text",), ("array",), ("markdown",)])
def test_the_command_lists_its_own_formats_and_no_others(plait, words):
    ran = plait("tools", "--format", *words)
    assert ran.code == 2
    assert f"choose one of: {', '.join(TOOL_FORMATS)}." in ran.err


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_the_command_asks_for_whom(plait, words):
    ran = plait("tools", *words)
    assert ran.code == 2
    assert "Give --format with one of: anthropic, openai" in ran.err


@pytest.mark.parametrize("format", ["json", "text", "gemini"])
def test_only_shapes_are_offered(plait, format):
    ran = plait("tools", "--format", format)
    assert ran.code == 2
    assert "choose one of: anthropic, openai, openai-responses, ollama, mcp.\n" in ran.err
    assert "array" not in ran.err
    assert "array" not in plait("tools", "--help").out
