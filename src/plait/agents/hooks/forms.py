"""What each agent sends to a hook, and the exact form in which it takes an answer: data only.

Codex drops an answer with one key that it does not know, so no form has a key too many. Where an
agent takes no text, there is no form, and the hook answers nothing.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.agents.hooks.tools import ToolCall

# When it is: a session begins, a person asks something, a tool is about to be used, a tool may have
# failed, or what was said may be lost soon.
Occasion = Literal["start", "prompt", "before", "failure", "save"]
# Where the text goes in the answer.
AnswerForm = Literal["named", "nested", "snake", "camel"]

# More is no payload of ours: what a hint is about is short.
MAX_PAYLOAD_BYTES = 4 * 1024 * 1024


class Event(NamedTuple):
    """An event of an agent: the agent's word for it, what it means, how the agent takes a text."""

    word: str
    moment: Occasion
    form: AnswerForm | None = None


class Payload(NamedTuple):
    """What an agent told, under the same names for all agents; empty where it told nothing."""

    session: str = ""
    cwd: str = ""
    prompt: str = ""
    transcript: str = ""
    source: str = ""
    call: "ToolCall | None" = None


_SHARED = (
    Event("SessionStart", "start", "named"),
    Event("UserPromptSubmit", "prompt", "named"),
    Event("PreCompact", "save"),
    # A text at a stop makes the agent go on.
    Event("Stop", "save"),
    Event("SessionEnd", "save"),
    Event("PreToolUse", "before", "named"),
)
# PostToolUse comes only after what went well.
_CLAUDE_CODE = (*_SHARED, Event("PostToolUseFailure", "failure", "named"))

HOOK_EVENTS: dict[str, tuple[Event, ...]] = {
    "claude-code": _CLAUDE_CODE,
    # What Codex and VS Code tell after a command does not say how it ended.
    "codex": _SHARED,
    "qwen": _CLAUDE_CODE,
    # Takes no text at a prompt.
    "vscode": tuple(
        event._replace(form=None) if event.moment == "prompt" else event for event in _SHARED
    ),
    "gemini": (
        Event("SessionStart", "start", "nested"),
        Event("BeforeAgent", "prompt", "nested"),
        Event("PreCompress", "save"),
        Event("AfterAgent", "save"),
        Event("SessionEnd", "save"),
        # BeforeTool takes no text.
        Event("AfterTool", "failure", "nested"),
    ),
    "cursor": (
        Event("sessionStart", "start", "snake"),
        Event("beforeSubmitPrompt", "prompt"),
    ),
    "copilot": (
        Event("sessionStart", "start", "camel"),
        Event("userPromptSubmitted", "prompt"),
        # The name that it gives the same event in files of Claude Code.
        Event("UserPromptSubmit", "prompt"),
        Event("preCompact", "save"),
        Event("agentStop", "save"),
        Event("Stop", "save"),
        Event("sessionEnd", "save"),
        # A command that failed is a tool that did its work; after a tool that failed, Copilot takes
        # a text only with an exit code that others take for a refusal.
        Event("postToolUse", "failure", "camel"),
    ),
    # Has no hooks of its own: the plugin that `plait connect` writes asks for these.
    "opencode": (
        Event("session.created", "start", "nested"),
        Event("chat.message", "prompt", "nested"),
        Event("tool.execute.after", "failure", "nested"),
    ),
}
AGENT_ALIASES = {
    "claude": "claude-code",
    "gemini-cli": "gemini",
    "qwen-code": "qwen",
    "copilot-cli": "copilot",
    "vs-code": "vscode",
    "code": "vscode",
}
# The names under which agents send the same thing; the first one that is there counts.
_FIELDS: dict[str, tuple[str, ...]] = {
    "session": ("session_id", "sessionId", "conversation_id"),
    "cwd": ("cwd", "workspace_roots"),
    "prompt": ("prompt",),
    "transcript": ("transcript_path", "transcriptPath"),
    "source": ("source",),
}
# Prompts that no person typed: Claude Code wakes itself up.
WRITTEN_BY_PROGRAMS = ("system", "loop_wakeup", "schedule_wakeup", "poll_event")


def agent_named(word: str) -> str | None:
    """Return the name of an agent, in any case and under its other names; ``None`` if unknown.

    >>> agent_named("Claude_Code"), agent_named("gemini-cli"), agent_named("emacs")
    ('claude-code', 'gemini', None)
    """
    name = word.strip().lower().replace("_", "-").replace(" ", "-")
    name = AGENT_ALIASES.get(name, name)
    return name if name in HOOK_EVENTS else None


def event_named(agent: str, word: str) -> Event | None:
    """Return an event of an agent by the agent's own word, in any case.

    >>> event_named("codex", "userpromptsubmit").word, event_named("codex", "SubagentStop")
    ('UserPromptSubmit', None)
    """
    events = {event.word.lower(): event for event in HOOK_EVENTS[agent]}
    return events.get(word.strip().lower())


def read_payload(data: bytes) -> Payload | None:
    r"""Return what an agent sent; ``None`` if that is no JSON object.

    >>> read_payload(b'\xef\xbb\xbf{"sessionId": "s1", "cwd": 7}').session
    's1'
    """
    if len(data) > MAX_PAYLOAD_BYTES:
        return None
    # Windows' shells write UTF-16 when they pass text on.
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        sent = json.loads(data.removeprefix(b"\xef\xbb\xbf").decode(encoding, "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(sent, dict):
        return None
    fields: dict[str, Any] = {name: _first(sent, names) for name, names in _FIELDS.items()}
    payload = Payload(**fields)
    if "tool_name" not in sent and "toolName" not in sent:
        return payload
    from plait.agents.hooks.tools import call_of

    return payload._replace(call=call_of(sent))


def _first(sent: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = sent.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str):
            # Half of a character, as in a text that was cut, can neither be searched nor opened.
            return value.encode("utf-8", "replace").decode("utf-8")
    return ""


def answer_for(event: Event, text: str) -> str:
    """Return the answer that shows a text to the agent; nothing for no text.

    It is ASCII, so that no code page can change it.

    >>> answer_for(Event("sessionStart", "start", "snake"), "We deploy on Fridays")
    '{"additional_context": "We deploy on Fridays"}'
    """
    if not text or event.form is None:
        return ""
    forms: dict[AnswerForm, dict[str, Any]] = {
        "named": {"hookSpecificOutput": {"hookEventName": event.word, "additionalContext": text}},
        "nested": {"hookSpecificOutput": {"additionalContext": text}},
        "snake": {"additional_context": text},
        "camel": {"additionalContext": text},
    }
    return json.dumps(forms[event.form])
