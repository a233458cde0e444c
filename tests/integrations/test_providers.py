"""What providers' own packages say about our definitions and our memory tool."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import flattened
from plait.memory import Memory
from plait.tools import MemoryTool, definitions
from plait.tools.profiles import PROFILES


def test_openai_finds_the_schemas_strict_already():
    strict_schema = pytest.importorskip("agents.strict_schema", reason="no openai-agents")
    for tool in definitions("openai-responses", PROFILES):
        as_sent = tool["parameters"]
        (again,) = [
            row for row in definitions("openai-responses", PROFILES) if row["name"] == tool["name"]
        ]
        assert strict_schema.ensure_strict_json_schema(again["parameters"]) == as_sent


def test_openai_takes_the_definitions():
    openai = pytest.importorskip("openai.types.responses", reason="openai is not installed")
    chat = pytest.importorskip("openai.types.shared")
    for tool in definitions("openai-responses", PROFILES):
        openai.FunctionTool.model_validate(tool, strict=True, extra="forbid")
    for tool in definitions("openai", PROFILES):
        chat.FunctionDefinition.model_validate(tool["function"], strict=True, extra="forbid")


def test_ollama_takes_the_definitions():
    ollama = pytest.importorskip("ollama", reason="ollama is not installed")
    for tool in definitions("ollama", PROFILES):
        read = ollama.Tool.model_validate(tool).model_dump(exclude_none=True, by_alias=True)
        assert read["function"]["name"] == tool["function"]["name"]
        sent = tool["function"]["parameters"]["properties"]
        assert set(read["function"]["parameters"].get("properties", {})) == set(sent)


def test_anthropic_takes_the_definitions():
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    from anthropic.types import MemoryTool20250818Param, ToolParam
    from pydantic import TypeAdapter

    for tool in definitions("anthropic", PROFILES):
        assert TypeAdapter(ToolParam).validate_python(tool)["name"] == tool["name"]
    TypeAdapter(MemoryTool20250818Param).validate_python(dict(MemoryTool.definition))


def test_mcp_takes_the_definitions():
    types = pytest.importorskip("mcp.types", reason="mcp is not installed")
    for tool in definitions("mcp", PROFILES):
        read = types.Tool.model_validate(tool).model_dump(by_alias=True, exclude_none=True)
        assert read == tool


# -- the memory tool, compared with Anthropic's own ----------------------------------------

FILES = ["/memories/a.md", "/memories/sub/b.md", "/memories/sub", "/memories"]
TEXTS = st.sampled_from(["", "one\n", "one\ntwo\nthree\n", "tail", "a\r\nb\r\n", "one one"])
COMMANDS = st.one_of(
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": st.sampled_from(FILES)},
        optional={"view_range": st.sampled_from([[1, 2], [2, -1], [1, 1], [3, 9]])},
    ),
    st.fixed_dictionaries(
        {
            "command": st.just("create"),
            "path": st.sampled_from(FILES[:2]),
            "file_text": TEXTS,
        }
    ),
    st.fixed_dictionaries(
        {
            "command": st.just("str_replace"),
            "path": st.sampled_from(FILES),
            "old_str": st.sampled_from(["one", "two", "zebra", "\n", "e\nt"]),
            "new_str": st.sampled_from(["", "1", "x\ny"]),
        }
    ),
    st.fixed_dictionaries(
        {
            "command": st.just("insert"),
            "path": st.sampled_from(FILES),
            "insert_line": st.integers(-1, 4),
            "insert_text": TEXTS,
        }
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": st.sampled_from(FILES)}),
    st.fixed_dictionaries(
        {
            "command": st.just("rename"),
            "old_path": st.sampled_from(FILES),
            "new_path": st.sampled_from(["/memories/c.md", "/memories/sub/d.md", *FILES]),
        }
    ),
)


@settings(max_examples=60)
@given(commands=st.lists(COMMANDS, min_size=1, max_size=8))
def test_the_memory_tool_answers_as_anthropics_own(tmp_path_factory, commands):
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    from anthropic.lib.tools import ToolError
    from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool

    place = tmp_path_factory.mktemp("both")
    reference = BetaLocalFilesystemMemoryTool(str(place / "theirs"))
    with Memory.open(":memory:", embedder="none", project="") as memory:
        ours = MemoryTool(memory, place / "ours")
        for command in commands:
            if command["command"] == "rename" and inside(command["old_path"], command["new_path"]):
                continue  # the reference fails with an error of the system
            try:
                expected = (reference.call(dict(command)), False)
            except ToolError as error:
                # An error is one line here, whatever it repeats.
                expected = (flattened(str(error.content)), True)
            except OSError:
                return  # it follows names into files
            assert tuple(ours.run(command)) == expected, command
            assert files_of(place / "ours") == files_of(place / "theirs" / "memories")


def inside(old: str, new: str) -> bool:
    return new == old or new.startswith(f"{old}/")


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_sdks_runner_executes_the_memory_tool(memory, tmp_path):
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    from anthropic.lib.tools import ToolError

    from plait.tools.adapters.anthropic import AnthropicMemoryTool

    tool = AnthropicMemoryTool(MemoryTool(memory, tmp_path / "memories"))
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}
    made: Any = {
        "command": "create",
        "path": "/memories/a.md",
        "file_text": "We deploy on Fridays.",
    }
    assert tool.call(made) == "File created successfully at: /memories/a.md"
    assert memory.search("deploy", mode="keyword")
    with pytest.raises(ToolError, match="already exists"):
        tool.call(made)
    with pytest.raises(ToolError, match="would escape"):
        tool.call({"command": "view", "path": "/memories/../x"})
    assert asyncio.iscoroutinefunction(tool.call) is False
