"""Conversations through the tools: stored turn by turn, read back within a budget."""

import json
from typing import Any

import pytest

from plait.memory import Memory
from plait.searching.recall import tokens_of
from tests.mcp.talk import call, text_of

LONG = [f"message {number} about the harbour museum and its opening hours" for number in range(60)]


def say(memory: Memory, text: str, role: str = "user", **more: Any) -> Any:
    return call(memory, "memory_store", {"text": text, "role": role, **more})


def read(memory: Memory, **arguments: Any) -> tuple[str, Any]:
    result = call(memory, "memory_get", arguments)
    assert not result.is_error, text_of(result)
    return text_of(result), result.structured_content


def test_turns_are_stored_and_read_in_order(memory: Memory) -> None:
    for role, text in (("user", "Shall we?"), ("assistant", "yes"), ("assistant", "yes")):
        result = say(memory, text, role, session="s1")
    assert result.structured_content["turn"] == 3
    text, data = read(memory, ids=["s1"])
    assert [(row["role"], row["turn"], row["text"]) for row in data["results"]] == [
        ("user", 1, "Shall we?"),
        ("assistant", 2, "yes"),
        ("assistant", 3, "yes"),
    ]
    assert text.index("Shall we?") < text.index("  assistant  (message; s1; ")
    assert text.startswith("<<plait-recall ")


def test_the_session_of_the_client_counts_if_none_is_given(memory: Memory) -> None:
    arguments = {"text": "hello", "role": "user"}
    assert not call(memory, "memory_store", arguments, meta={"session": "s9"}).is_error
    assert [row.text for row in memory.conversation("s9")] == ["hello"]
    refused = call(memory, "memory_store", arguments)
    assert refused.is_error
    assert "session" in text_of(refused)


@pytest.mark.parametrize("budget", [150, 400, 2_000])
def test_of_a_long_session_the_end_is_read_within_the_budget(memory: Memory, budget: int) -> None:
    memory.add_messages([{"role": "user", "content": text} for text in LONG], session="s1")
    text, data = read(memory, ids=["s1"], max_tokens=budget)
    assert max(tokens_of(text), tokens_of(json.dumps(data))) <= budget
    shown = [row["text"] for row in data["results"]]
    assert shown == LONG[-len(shown) :]
    assert data["left_out"] == 60 - len(shown)
    assert "did not fit: earlier ones; raise max_tokens" in text


def test_the_timeline_of_a_session_pages_from_its_beginning(memory: Memory) -> None:
    memory.add_messages([{"role": "user", "content": text} for text in LONG], session="s1")
    memory.store("Something else.")
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(10):
        arguments = {"session": "s1", "limit": 13, **cursor}
        result = call(memory, "memory_timeline", arguments)
        data: Any = result.structured_content
        seen += [row["summary"] for row in data["results"]]
        assert {row["role"] for row in data["results"]} == {"user"}
        if "next" not in data:
            break
        assert f"Later ones: cursor={data['next']}." in text_of(result)
        cursor = {"cursor": data["next"]}
    assert seen == LONG


def test_a_hit_names_role_and_session_in_both_forms(memory: Memory) -> None:
    say(memory, "The harbour museum opens at noon.", "assistant", session="s1")
    result = call(memory, "memory_search", {"query": "harbour museum"})
    data: Any = result.structured_content
    row = data["results"][0]
    assert (row["role"], row["session"], row["turn"]) == ("assistant", "s1", 1)
    assert "(assistant, s1, " in text_of(result)
    recalled = text_of(call(memory, "memory_recall", {"query": "harbour museum"}))
    assert "(assistant, 2" in recalled


def test_an_unknown_session_is_an_unknown_name(memory: Memory) -> None:
    say(memory, "hello", session="s1")
    assert call(memory, "memory_get", {"ids": ["s2"]}).is_error
    _, data = read(memory, ids=["s1", "s2"])
    assert data["not_found"] == ["s2"]
    assert len(data["results"]) == 1
