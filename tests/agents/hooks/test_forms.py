"""What each agent sends is understood, and what it gets has exactly the keys that it knows."""

import json
from pathlib import Path

import pytest

from plait.agents.hooks.answering import TOOL_MOMENTS
from plait.agents.hooks.forms import (
    HOOK_EVENTS,
    MAX_PAYLOAD_BYTES,
    Event,
    agent_named,
    answer_for,
    event_named,
    read_payload,
)
from plait.text.failures import telling_line

PAYLOADS = Path(__file__).parent / "payloads"
RECORDED = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in PAYLOADS.glob("*.json")
}
EVENTS = [(agent, event) for agent, events in HOOK_EVENTS.items() for event in events]
NAMED = {"hookSpecificOutput": {"hookEventName", "additionalContext"}}
NESTED = {"hookSpecificOutput": {"additionalContext"}}
# Every key of every answer, by agent and event. What is not here is answered with nothing.
KEYS: dict[tuple[str, str], object] = {
    **{
        (agent, event): NAMED
        for agent in ("claude-code", "codex", "qwen", "vscode")
        for event in ("SessionStart", "UserPromptSubmit", "PreToolUse")
        if (agent, event) != ("vscode", "UserPromptSubmit")
    },
    ("claude-code", "PostToolUseFailure"): NAMED,
    ("qwen", "PostToolUseFailure"): NAMED,
    ("gemini", "AfterTool"): NESTED,
    ("opencode", "tool.execute.after"): NESTED,
    ("copilot", "postToolUse"): {"additionalContext"},
    ("gemini", "SessionStart"): NESTED,
    ("gemini", "BeforeAgent"): NESTED,
    ("opencode", "session.created"): NESTED,
    ("opencode", "chat.message"): NESTED,
    ("cursor", "sessionStart"): {"additional_context"},
    ("copilot", "sessionStart"): {"additionalContext"},
}


def keys(answer: str) -> object:
    value = json.loads(answer)
    inner = {name: set(part) for name, part in value.items() if isinstance(part, dict)}
    return inner or set(value)


def test_there_is_a_recorded_payload_of_every_event() -> None:
    assert {agent: list(sent) for agent, sent in RECORDED.items()} == {
        agent: [event.word for event in events] for agent, events in HOOK_EVENTS.items()
    }


@pytest.mark.parametrize(("agent", "event"), EVENTS, ids=str)
def test_an_answer_has_exactly_the_keys_that_the_agent_knows(agent: str, event: Event) -> None:
    answer = answer_for(event, "We deploy on Fridays – never after 15:00")
    expected = KEYS.get((agent, event.word))
    assert answer.isascii()
    assert (keys(answer) if answer else None) == expected
    if expected == NAMED:
        assert json.loads(answer)["hookSpecificOutput"]["hookEventName"] == event.word
    assert answer_for(event, "") == ""


@pytest.mark.parametrize(("agent", "event"), EVENTS, ids=str)
def test_a_payload_is_read_whatever_its_names(agent: str, event: Event) -> None:
    sent = RECORDED[agent][event.word]
    payload = read_payload(json.dumps(sent).encode())
    assert payload is not None
    assert payload.session and payload.cwd == "/home/ann/shop"
    assert bool(payload.prompt) == (event.moment == "prompt" or event.word == "AfterAgent")
    known = [sent.get(name) for name in ("transcript_path", "transcriptPath") if sent.get(name)]
    assert payload.transcript == (known[0] if known else "")
    assert (payload.call is None) == (event.moment not in TOOL_MOMENTS)
    if payload.call is not None:
        assert payload.call.command == "pytest -q" and payload.call.path is None
        assert payload.call.has_failed == (event.moment == "failure")
        assert telling_line(payload.call.output) == ("KeyError: 'total'" * payload.call.has_failed)


@pytest.mark.parametrize(("agent", "event"), EVENTS, ids=str)
def test_events_are_known_in_any_case(agent: str, event: Event) -> None:
    for word in (event.word.lower(), event.word.upper(), f" {event.word} "):
        assert event_named(agent, word) == event
    assert event_named(agent, "SubagentStop") is None


@pytest.mark.parametrize("word", ["Claude", "claude_code", " CLAUDE-CODE "])
def test_agents_are_known_by_their_other_names(word: str) -> None:
    assert agent_named(word) == "claude-code"
    assert agent_named("") is None


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b" ", b"nonsense", b"[]", b"7", b'"text"', b"null", b'{"a": 1', b"\xff", b"\0"),
        b"[" * 100_000,
        b" " * (MAX_PAYLOAD_BYTES + 1),
    ],
    ids=lambda data: repr(data[:10]),
)
def test_what_is_no_object_is_no_payload(data: bytes) -> None:
    assert read_payload(data) is None


def test_marks_of_windows_are_read_over() -> None:
    text = json.dumps({"prompt": "Grüße 日本"}, ensure_ascii=False)
    for data in (text.encode("utf-8-sig"), text.encode("utf-16"), text.encode()):
        payload = read_payload(data)
        assert payload is not None and payload.prompt == "Grüße 日本"


def test_values_of_other_types_and_halves_of_characters_do_no_harm() -> None:
    sent: dict[str, object] = {
        "session_id": 7,
        "cwd": None,
        "workspace_roots": [],
        "prompt": "a\ud83d b",
    }
    payload = read_payload(json.dumps(sent).encode())
    assert payload is not None
    assert payload == payload._replace(session="", cwd="", prompt="a? b")
