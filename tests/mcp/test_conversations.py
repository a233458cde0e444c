"""Conversations through the tools: stored turn by turn, read back within a budget."""

import json
from pathlib import Path
from typing import Any

import pytest

from plait.agents.histories import Places
from plait.agents.importing import import_histories, sources_of
from plait.memory import Memory
from plait.searching.recall import tokens_of
from tests.agents.test_claude_code import SESSION, transcript, user
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


def test_a_hit_of_an_imported_session_shows_as_much_of_its_name_as_can_be_read(
    memory: Memory, tmp_path: Path
) -> None:
    twin = f"{SESSION[:-1]}2"
    transcript(tmp_path, user("u1", "The harbour museum opens at noon.", cwd=""))
    import_histories(memory, sources_of(Places(str(tmp_path), {}), ["claude-code"]))
    result = call(memory, "memory_search", {"query": "harbour museum"})
    short = f"claude-code:{SESSION[:8]}"
    assert f"(user, {short}, " in text_of(result)
    data: Any = result.structured_content
    assert data["results"][0]["session"] == f"claude-code:{SESSION}"
    assert read(memory, ids=[short])[1]["results"][0]["text"].startswith("The harbour")
    # One that was not imported is not read by its beginning, so it is shown whole.
    say(memory, "The harbour museum is closed today.", session=f"chat:{SESSION}")
    transcript(tmp_path, user("u2", "The harbour museum opens late.", cwd=""), session=twin)
    import_histories(memory, sources_of(Places(str(tmp_path), {}), ["claude-code"]))
    text = text_of(call(memory, "memory_search", {"query": "harbour museum"}))
    assert all(f"(user, {name}, " in text for name in (f"chat:{SESSION}", f"claude-code:{twin}"))


def test_an_unknown_session_is_an_unknown_name(memory: Memory) -> None:
    say(memory, "hello", session="s1")
    assert call(memory, "memory_get", {"ids": ["s2"]}).is_error
    _, data = read(memory, ids=["s1", "s2"])
    assert data["not_found"] == ["s2"]
    assert len(data["results"]) == 1
