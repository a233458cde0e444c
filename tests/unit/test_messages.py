"""Messages as chat APIs write them: what is their text, and whose it is."""

from typing import Any

import pytest

from plait.errors import UsageError
from plait.facts.messages import origin_of, read_message
from tests.codes import has_code

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"in": 3}'}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"content": "Hello"}, "Hello"),
        ({"content": ""}, ""),
        ({"content": "  \n"}, ""),
        ({"content": None}, ""),
        ({"text": "in another field"}, "in another field"),
        ({"content": []}, ""),
        ({"content": "a\ud800b"}, "a\ud800b"),
        ({"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
         "one\n\ntwo"),
        ({"content": ["one", {"type": "input_text", "text": "two"}]}, "one\n\ntwo"),
        ({"content": {"type": "text", "text": "alone"}}, "alone"),
        ({"content": [{"type": "text", "text": {"value": "of a thread"}}]}, "of a thread"),
        ({"content": [{"type": "refusal", "refusal": "No."}]}, "No."),
        ({"parts": [{"text": "of Gemini"}]}, "of Gemini"),
        ({"content": [IMAGE, {"type": "text", "text": "What is this?"}]},
         "[image_url]\n\nWhat is this?"),
        ({"content": [{"type": "now\nobey"}]}, "[part]"),
        ({"content": [{}, 5, None, {"type": 7}]}, "[part]\n\n[part]\n\n[part]\n\n[part]"),
        ({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes"}]},
         "Yes"),
        ({"content": None, "tool_calls": [CALL]}, 'weather({"in": 3})'),
        ({"content": "Let me see.", "tool_calls": [CALL, CALL]},
         'Let me see.\n\nweather({"in": 3})\n\nweather({"in": 3})'),
        ({"content": "", "function_call": {"name": "f", "arguments": "{}"}}, "f({})"),
        ({"content": "", "tool_calls": [{"name": "f", "args": {"ä": 1}}]}, 'f({"ä": 1})'),
        ({"content": "", "tool_calls": ["odd", {}, None]}, "[part]\n\ntool()\n\n[part]"),
        ({"content": [{"type": "tool_use", "id": "t", "name": "ls", "input": {"path": "/"}}]},
         'ls({"path": "/"})'),
        ({"content": [{"type": "tool_result", "tool_use_id": "t", "content": "a.md"}]}, "a.md"),
        ({"content": [{"type": "tool_result", "content": [{"type": "text", "text": "b"}, IMAGE]}]},
         "b\n\n[image_url]"),
    ],
)  # fmt: skip
def test_the_text_of_a_message(fields: dict[str, Any], text: str) -> None:
    assert read_message({"role": "user", **fields}).text == text


@pytest.mark.parametrize("fields", [{}, {"contents": "Hello"}, {"name": "Ana"}])
def test_a_message_without_any_content_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError, check=has_code("no_content", "content")):
        read_message({"role": "user", **fields})


def test_what_holds_itself_ends() -> None:
    part: dict[str, Any] = {"type": "tool_result"}
    part["content"] = [part]
    arguments: dict[str, Any] = {}
    arguments["self"] = arguments
    call = {"function": {"name": "f", "arguments": arguments}}
    read = read_message({"role": "tool", "content": [part], "tool_calls": [call]})
    assert read.text == "[part]\n\nf(…)"


@pytest.mark.parametrize(
    ("fields", "subject"),
    [
        ({"role": None}, "role"),
        ({"role": 5}, "role"),
        ({"content": 5}, "content"),
        ({"content": b"bytes"}, "content"),
        ({"id": 1.5}, "id"),
        ({"id": True}, "id"),
        ({"name": ["Ana"]}, "name"),
        ({"tool_call_id": 7}, "tool_call_id"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, Any], subject: str) -> None:
    with pytest.raises(UsageError, check=has_code("bad_type", subject)):
        read_message({"role": "user", "content": "x", **fields})


@pytest.mark.parametrize("given", ["time", "created_at", "timestamp"])
def test_a_message_may_have_a_time_an_id_and_a_name(given: str) -> None:
    read = read_message(
        {"role": "tool", "content": "x", given: 0, "id": 7, "name": "ls", "tool_call_id": "c1"}
    )
    assert (read.time, read.id) == (0, "7")
    assert read.metadata == {"name": "ls", "tool_call_id": "c1"}


def test_other_fields_of_a_chat_api_change_nothing() -> None:
    dumped: dict[str, Any] = {
        "refusal": None,
        "audio": None,
        "annotations": [],
        "tool_calls": None,
        "id": "",
    }
    assert read_message({"role": "user", "content": "x", **dumped}) == read_message(
        {"role": "user", "content": "x"}
    )


@pytest.mark.parametrize(
    ("role", "origin"),
    [
        *(("user", "user"), ("human", "user"), ("system", "user"), ("developer", "user")),
        *(("assistant", "agent"), ("model", "agent"), ("ai", "agent"), ("Ana", "agent")),
        *(("tool", "tool"), ("function", "tool"), (" User ", "user")),
    ],
)
def test_only_known_roles_speak_for_a_person(role: str, origin: str) -> None:
    assert origin_of(role) == origin


@pytest.mark.parametrize("kind", ["tool_result", "function_call_output", "mcp_tool_result"])
@pytest.mark.parametrize("before", [[], [{"type": "text", "text": "Look:"}]])
def test_what_a_tool_returned_does_not_speak_for_a_person(kind: str, before: list[Any]) -> None:
    message = {"role": "user", "content": [*before, {"type": kind, "content": "a page"}]}
    assert read_message(message).origin == "tool"


@pytest.mark.parametrize("part", [{"type": ["x"]}, {"type": {}}, {"type": None, "text": 3}])
def test_a_part_of_an_odd_type_is_only_named(part: dict[str, Any]) -> None:
    assert read_message({"role": "user", "content": [part]}).text == "[part]"


def test_an_id_that_is_too_large_is_refused() -> None:
    with pytest.raises(UsageError, check=has_code("bad_value", "id")):
        read_message({"role": "user", "content": "x", "id": 10**5000})
