"""Read messages as chat APIs write them: roles, texts, parts and calls of tools.

These are rules on one message; `plait.writing.conversations` stores them. Nothing is executed or
fetched: an image or another part that is not text is only named.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plait.errors import UsageError, is_plain_name
from plait.facts.echo import MACHINES
from plait.types import Document, Origin
from plait.types.guarding import check_type
from plait.types.records import NamedTuple

_PERSONS = ("user", "human")
_INSTRUCTIONS = ("system", "developer")
# Any other role is a program's: it must not speak for a person.
_ORIGINS: dict[str, Origin] = {
    **dict.fromkeys((*_PERSONS, *_INSTRUCTIONS), "user"),
    **dict.fromkeys(("tool", "function"), "tool"),
}
_CONTENT = ("content", "parts", "text")
# A message without any of these is not one of a chat API.
_SAID = (*_CONTENT, "tool_calls", "function_call")
_TIMES = ("time", "created_at", "timestamp")
# Fields that describe a message; the other fields of a chat API are about its requests.
_ABOUT = ("name", "tool_call_id")
# Parts in which a model thinks aloud. They were not said to anybody.
_UNSAID = frozenset({"thinking", "redacted_thinking", "reasoning"})
_RESULTS = frozenset(
    {"tool_result", "function_call_output", "web_search_tool_result", "mcp_tool_result"}
)
LARGEST_ID = 2**63
# Results of tools contain parts again; deeper ones are only named.
_DEEPEST = 4
# The type of a part that does not name one.
_NAMELESS = "part"


class ChatMessage(NamedTuple):
    """A message of a chat API. ``time`` is as given, ``text`` empty if nothing was said."""

    role: str
    text: str
    time: Any = None
    id: str | None = None
    metadata: Mapping[str, str] = {}
    origin: Origin = "user"


def origin_of(role: str) -> Origin:
    """Return where the text of a role comes from.

    >>> origin_of("User"), origin_of("tool"), origin_of("assistant"), origin_of("critic")
    ('user', 'tool', 'agent', 'agent')
    """
    return _ORIGINS.get(role.strip().lower(), "agent")


def is_person(role: str | None) -> bool:
    """Tell whether a role is that of whoever talks to an agent.

    >>> is_person("User"), is_person("system"), is_person(None)
    (True, False, False)
    """
    return (role or "").strip().lower() in _PERSONS


def is_instruction(role: str | None) -> bool:
    """Tell whether a role gives an agent instructions, instead of talking to it."""
    return (role or "").strip().lower() in _INSTRUCTIONS


def speaks_as_another(message: Document) -> bool:
    """Tell whether a message has the role of a person or of instructions, but is not theirs.

    An agent that stores a message says itself whose words they are.
    """
    claims = is_person(message.role) or is_instruction(message.role)
    return claims and (message.trust != "trusted" or message.origin in MACHINES)


def read_message(message: Mapping[str, Any]) -> ChatMessage:
    """Return a message as a value.

    >>> read_message({"role": "user", "content": [{"type": "text", "text": "Hi"}]}).text
    'Hi'
    >>> call = {"function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    >>> read_message({"role": "assistant", "content": None, "tool_calls": [call]}).text
    'weather({"city": "Oslo"})'

    Raises:
        UsageError: A field has a bad value.
    """
    role = check_type("role", message.get("role"), "str")
    if message.keys().isdisjoint(_SAID):
        raise UsageError(
            f"A message has none of the fields {', '.join(_SAID)}.",
            code="no_content",
            subject="content",
        )
    content = next((message[name] for name in _CONTENT if message.get(name) is not None), None)
    if not isinstance(content, str | Sequence | Mapping | None) or isinstance(content, bytes):
        check_type("content", content, "str | list[str] | None")
    calls = [*_listed(message.get("tool_calls")), *_listed(message.get("function_call"))]
    texts = [*_texts(content), *map(_call, calls)]
    times = (message.get(name) for name in _TIMES)
    about = {name: message[name] for name in _ABOUT if message.get(name)}
    for name, value in about.items():
        check_type(name, value, "str")
    return ChatMessage(
        role,
        "\n\n".join(text for text in texts if text.strip()),
        next((time for time in times if time is not None), None),
        _name(message.get("id")),
        about,
        # A person's turn carries results of tools in some chat APIs; a person did not write them.
        "tool" if _has_results(content) else origin_of(role),
    )


def _name(value: object) -> str | None:
    """Return a message's id: a text, or a number as a text."""
    value = check_type("id", value, "str | int | None")
    if isinstance(value, int) and abs(value) > LARGEST_ID:
        raise UsageError("id is too large a number.", code="bad_value", subject="id")
    return None if value in (None, "") else str(value)


def _listed(value: object) -> list[Any]:
    """Return the values of a list; one value alone counts as a list."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _has_results(content: Any) -> bool:
    parts = (part for part in _listed(content) if isinstance(part, Mapping))
    return any(part.get("type") in _RESULTS for part in parts if isinstance(part.get("type"), str))


def _texts(content: Any, depth: int = 0) -> Iterator[str]:
    for part in _listed(content):
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping) and depth < _DEEPEST:
            yield from _texts_of_part(part, depth)
        else:
            yield f"[{_NAMELESS}]"


def _texts_of_part(part: Mapping[str, Any], depth: int) -> Iterator[str]:
    kind = part["type"] if isinstance(part.get("type"), str) else None
    text = part.get("text", part.get("refusal"))
    if isinstance(text, Mapping):
        text = text.get("value")
    if kind in _UNSAID:
        return
    if isinstance(text, str):
        yield text
    elif kind in ("tool_use", "function_call"):
        yield _call(part)
    elif kind in _RESULTS:
        yield from _texts(part.get("content", part.get("output")), depth + 1)
    else:
        yield f"[{kind if kind is not None and is_plain_name(kind) else _NAMELESS}]"


def _call(call: Any) -> str:
    """Return the call of a tool as a program writes it: the name, and its arguments."""
    if not isinstance(call, Mapping):
        return f"[{_NAMELESS}]"
    inner = call.get("function")
    inner = inner if isinstance(inner, Mapping) else call
    name = inner.get("name")
    given = next((inner[key] for key in ("arguments", "input", "args") if key in inner), "")
    return f"{name if isinstance(name, str) else 'tool'}({_as_json(given)})"


def _as_json(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # no value of JSON, or one that holds itself
        return "…"
