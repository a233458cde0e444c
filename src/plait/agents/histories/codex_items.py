"""The lines of Codex's files: what each holds, and which thread it was forked from."""

import re
from pathlib import Path
from typing import Any

from plait.agents.histories import Act, SessionKind
from plait.agents.histories.acts import act_of, patched_files
from plait.agents.histories.files import below
from plait.agents.histories.lines import JsonLines
from plait.agents.histories.stripping import holds_block, is_plan, without_head
from plait.agents.histories.values import (
    Fields,
    decoded,
    identifier,
    joined,
    number,
    record_of,
    string,
    texts_of,
)
from plait.agents.hooks.prompts import REQUESTS

_MAIN: SessionKind = "main"
_MOST_FORKS = 50
# What a text begins with that the user did not type.
_NOT_TYPED = (
    *("# AGENTS.md instructions", "<user_shell_command>", "<turn_aborted>", "<skill>"),
    *("<subagent_notification>", "<codex_internal_context", "<goal_context>", "<hook_prompt"),
)
_HEAD_TAGS = (
    *("user_instructions", "environment_context", "recommended_plugins", "INSTRUCTIONS"),
    *("permissions", "collaboration_mode", "in-app-browser-context", "additional_context"),
    *("internal_model_context", "image"),
)
# The editor's extension and the desktop app put what is open and attached before what was typed.
_EDITOR = "# Context from my IDE setup:"
_CONTEXTS = (
    _EDITOR,
    *("# Files mentioned by the user:", "# Files pasted by the user:", "# In app browser:"),
    "# Applications mentioned by the user:",
)
# The user's comments among the words of what they are about: pages, changes, other chats.
_COMMENTS = (
    *("# Browser comments:", "# Diff comments:", "# Selected text:", "# Review findings:"),
    *("## Referenced chats with Codex:", "ntrusted page evidence"),
)
_EXIT = re.compile(r"(?:exited with code|exit code:?) (-?\d{1,5})\b", re.I)
# Of a tool's answer, the part that tells how it ended, and what ends that part.
_FRAME = 400
_OUTPUT = "Output:\n"
# Files of a patch that are kept as data; one that changes more is no one's work on a file.
_MOST_FILES = 50


def payload_of(record: Fields) -> tuple[str, Fields]:
    """Return the kind of a line and what it holds; the oldest files have items without a frame."""
    kind = string(record, "type")
    if "payload" in record:
        return kind, record_of(record["payload"])
    if not kind and "id" in record:
        return "session_meta", record
    return "response_item", record


def kind_of(meta: Fields) -> SessionKind:
    """Return who started a thread, by its first line: a person, an agent or a program."""
    origin = meta.get("source")
    if identifier(meta, "parent_thread_id") or (isinstance(origin, dict) and "subagent" in origin):
        return "subagent"
    is_program = isinstance(origin, dict) or origin in ("exec", "mcp")
    return "headless" if is_program or string(meta, "originator") == "codex_exec" else _MAIN


def parent_of(meta: Fields) -> str:
    """Return the thread whose lines a thread repeats, by its first line; empty if it does not.

    Newer forks only tell where in their parent they begin.
    """
    return "" if meta.get("history_base") else identifier(meta, "forked_from_id")


def prompt_of(kind: str, payload: Fields) -> str:
    """Return what the user typed, if a line may hold that; else nothing."""
    form = payload.get("type")
    if kind == "event_msg" and form == "user_message":
        return _typed(string(payload, "message"))
    if kind == "event_msg" and form == "item_completed":
        item = record_of(payload.get("item"))
        if item.get("type") == "UserMessage":
            return joined([_typed(text) for text in texts_of(item.get("content"))])
    if kind == "response_item" and form == "message" and payload.get("role") == "user":
        return joined([_typed(text) for text in texts_of(_told_to_be_typed(payload))])
    return ""


def _told_to_be_typed(message: Fields) -> Any:
    """Return the content of a message; if it tells of each part what it is, what was typed."""
    content = message.get("content")
    about = record_of(message.get("internal_chat_message_metadata_passthrough"))
    kinds = about.get("content_item_kinds")
    if not (isinstance(content, list) and isinstance(kinds, list) and len(kinds) == len(content)):
        return content
    return [part for part, kind in zip(content, kinds, strict=True) if kind == "user.text"]


def words_of(kind: str, payload: Fields) -> str:
    """Return all words of a line, whoever wrote them: by them, lines of a fork are recognised."""
    form = payload.get("type")
    if kind == "event_msg" and form == "user_message":
        return f"event: {string(payload, 'message')}"
    if kind == "response_item" and form == "message":
        return f"{payload.get('role')}: {joined(texts_of(payload.get('content')))}"
    return ""


def _typed(text: str) -> str:
    text = without_head(text, _HEAD_TAGS)
    if text.startswith((*_CONTEXTS, *REQUESTS)):
        # The last one: a file that is shown before it may hold the same line.
        place, request = max((text.rfind(request), request) for request in REQUESTS)
        if place >= 0:
            return text[place + len(request) :].strip()
        if text.startswith(_EDITOR):
            return ""
    return "" if text.startswith(_NOT_TYPED) else text


def holds_context(text: str) -> bool:
    """Tell whether words of a program or a model may be in what the user typed."""
    # What stands before a request may be a context of a later version.
    has_context = any(words in text for words in (*_CONTEXTS, *_COMMENTS, *REQUESTS))
    return has_context or is_plan(text) or holds_block(text, _HEAD_TAGS)


def call_of(item: Fields) -> Act:
    """Return a call of a tool; for a patch, with the files that it changes."""
    tool = string(item, "name") or string(item, "type").removesuffix("_call")
    given = item.get("arguments", item.get("input", item.get("action")))
    if isinstance(given, str):
        files = patched_files(given)[:_MOST_FILES]
        if files:
            act = act_of(tool, {"path": ", ".join(files)})
            return act._replace(path=files[0], also=tuple(files[1:]))
        given = decoded(given)
    given = dict(record_of(given))
    command = given.get("command")
    if isinstance(command, list) and len(command) == 3 and command[1] in ("-lc", "-c"):
        given["command"] = command[2]
    return act_of(tool, given)


def result_of(output: Any) -> tuple[str, int | None, bool]:
    """Return the words of a tool's answer, its exit status, and whether it failed."""
    inner = decoded(output) if isinstance(output, str) and output.startswith("{") else output
    told = record_of(inner)
    text = string(told, "output") or joined(texts_of(told.get("content") if told else output))
    code = number(told.get("metadata"), "exit_code")
    if code is None:
        # What the command printed may speak of other exit codes.
        match = _EXIT.search(text.partition(_OUTPUT)[0][:_FRAME])
        code = int(match[1]) if match is not None else None
    return text.partition(_OUTPUT)[2] or text, code, told.get("success") is False


def root_of(path: str, parent: str) -> str:
    """Return the first thread of a chain of forks, as far as their files are there."""
    threads = [parent]
    top = next((row for row in Path(path).parents if row.name.endswith("sessions")), None)
    while top is not None and len(threads) < _MOST_FORKS:
        names = (top.parent / "sessions", top.parent / "archived_sessions")
        files = (row for name in names for row in below(name, (f"{threads[-1]}.jsonl",)))
        file = next((row for row in files if row.is_file()), None)
        lines = iter(JsonLines(str(file), None)) if file is not None else iter(())
        kind, meta = payload_of(next((line.record for line in lines if line.record), {}))
        above = parent_of(meta) if kind == "session_meta" else ""
        if not above or above in threads:
            break
        threads.append(above)
    return threads[-1]
