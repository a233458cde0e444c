"""Calls of tools as agents tell of them to a hook: what is edited or run, and whether it failed.

A failure is one only if the agent says so, or gives the status of the command. Words of an output
are no proof.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from plait.agents.histories.acts import target_of, unframed
from plait.types.records import NamedTuple
from plait.types.steps import Step

# Characters of an output that are kept, at each end: errors stand first or last.
_KEPT = 4_000
_LONGEST_NAME = 200
# The names under which agents send the same thing.
_NAMES = ("tool_name", "toolName")
_GIVEN = ("tool_input", "toolArgs")
_RESPONSES = ("tool_response", "toolResult", "tool_result")
_OUTPUTS = ("llmContent", "textResultForLlm", "text_result_for_llm", "output", "stdout")
_STATUSES = ("exit_code", "exitCode", "exit")
# How Gemini CLI and Copilot end the output of a command that failed: a line of their own.
_EXIT_LINE = re.compile(r"(?:Exit Code: (-?\d{1,5})|<exited with exit code (-?\d{1,5})>)")
_LAST_LINES = 6


class ToolCall(NamedTuple):
    """A call of a tool: a file, a command, what it printed, and whether it is known to have failed.

    Of a long output, both ends.
    """

    tool: str = ""
    path: str | None = None
    command: str | None = None
    output: str = ""
    has_failed: bool = False

    @property
    def is_edit(self) -> bool:
        """Whether it changes a file."""
        return self.command is None and Step(self.tool, self.path).is_edit


def call_of(sent: Mapping[str, Any]) -> ToolCall:
    """Return the call that a payload tells of.

    >>> call_of({"tool_name": "Bash", "tool_input": {"command": "make"}, "error": "x"}).has_failed
    True
    """
    given = _first(sent, _GIVEN)
    if isinstance(given, str):  # Copilot sends arguments as a text
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = None
    tool = _first(sent, _NAMES)
    name = tool if isinstance(tool, str) else ""
    path: str | None = None
    command: str | None = None
    if isinstance(given, Mapping):
        name, path, command = target_of(name, given)
    output, has_failed = _ending(sent)
    line = _exit_line(output)
    if line is not None and line[1]:  # Gemini CLI's frame, which the importer takes off, too
        output = unframed(output)
    name = _sound(name[:_LONGEST_NAME])
    return ToolCall(name, _sound(path), _sound(command), _sound(output), has_failed)


def _ending(sent: Mapping[str, Any]) -> tuple[str, bool]:
    """Return what a call printed, and whether it failed."""
    error = sent.get("error")
    if isinstance(error, str) and error.strip():
        # The user stopped it: nothing is wrong with it.
        return _ends(error), sent.get("is_interrupt") is not True
    response = _first(sent, _RESPONSES)
    if not isinstance(response, Mapping):
        return "", False
    output = _ends(_text(_first(response, _OUTPUTS)))
    status = _status(response)
    if status is None:
        status = _status(response.get("metadata"))
    if status is None:
        line = _exit_line(output)
        status = None if line is None else int(line[1] or line[2])
    failed = bool(status) or response.get("is_error") is True
    if not failed and status is None and response.get("error"):
        error = response["error"]
        return _ends(_text(error.get("message") if isinstance(error, Mapping) else error)), True
    return output, failed


def _status(value: Any) -> int | None:
    status = _first(value, _STATUSES) if isinstance(value, Mapping) else None
    return status if type(status) is int else None


def _exit_line(output: str) -> re.Match[str] | None:
    """Return the line with the status among those that the agent puts below an output."""
    lines = reversed(output.rstrip().splitlines()[-_LAST_LINES:])
    matches = (_EXIT_LINE.fullmatch(line.strip()) for line in lines)
    return next((match for match in matches if match is not None), None)


def _text(value: Any) -> str:
    """Return a text, or the texts of a list of parts."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else [value]
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _KEPT else f"{text[:_KEPT]}\n{text[-_KEPT:]}"


def _first(sent: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((sent[name] for name in names if sent.get(name) is not None), None)


def _sound(text: Any) -> Any:
    """Return a text without halves of characters, which can neither be searched nor opened."""
    return text.encode("utf-8", "replace").decode("utf-8") if isinstance(text, str) else text
