"""Execute a tool call of a model. Whatever the model sends, the answer is a text for it."""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plait.errors import PlaitError, UsageError, flattened
from plait.text import visible
from plait.tools.arguments import check_arguments
from plait.tools.profiles import ALIASES, DEFAULT_PROFILES, tools_of
from plait.tools.replies import Reply
from plait.tools.tool import Call, Tool
from plait.tools.wording import worded, wording_for
from plait.types.audit import acting
from plait.types.guarding import VALUE_CHARS
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.memory import Memory

# What most names begin with, and how alike their rests must be for a typing error, 0 to 1.
_PREFIX = "memory_"
_SIMILAR = 0.65


class ToolResult(NamedTuple):
    """What goes back to the model; Anthropic and MCP also ask whether it is an error."""

    text: str
    is_error: bool = False


def run(
    memory: "Memory",
    name: str,
    args: Mapping[str, Any] | str | None,
    *,
    profiles: Sequence[str] = DEFAULT_PROFILES,
    session: str | None = None,
) -> str:
    """Execute a tool call and return JSON: ``{"results": […]}`` or ``{"error": "…"}``.

    It raises nothing, whatever a model sends: an unknown tool, wrong or missing arguments and
    failures of the memory are errors with the next step. A ``note`` beside the results says what
    else the model should know. Rows of `memory_search`, `memory_recall` and `memory_get` have
    ``content``, ``file_path``, ``file_title``, ``memory_type``, ``start_line`` and ``end_line``.

    >>> from plait import Memory
    >>> with Memory.open(":memory:") as memory:
    ...     print(run(memory, "memory_search", {}))
    {"error": "memory_search needs query, a text. Call it again with query."}

    Args:
        memory: An open memory.
        name: The tool's name, as in its definition.
        args: The arguments; OpenAI sends them as JSON text.
        profiles: Which tools the model has, as for `definitions`; no other is executed.
        session: The name of the conversation, for what the model stores.
    """
    outcome = reply_to(memory, name, args, profiles=profiles, session=session, as_rows=True)
    if isinstance(outcome, str):
        return _json({"error": outcome})
    data = {field: value for field, value in outcome.data.items() if field != "tokens"}
    if "results" in data:
        return _json(data)
    note = data.pop("note", None)
    rows = {"results": [data]}
    return _json(rows if note is None else {**rows, "note": note})


def run_text(
    memory: "Memory",
    name: str,
    args: Mapping[str, Any] | str | None,
    *,
    profiles: Sequence[str] = DEFAULT_PROFILES,
    session: str | None = None,
) -> ToolResult:
    """Execute a tool call like `run`; the answer is the fenced text that MCP clients get.

    It costs fewer tokens than JSON, and its fence tells a model where stored text begins and ends.
    """
    outcome = reply_to(memory, name, args, profiles=profiles, session=session)
    if isinstance(outcome, str):
        return ToolResult(outcome, is_error=True)
    return ToolResult(outcome.text)


def reply_to(
    memory: "Memory",
    name: str,
    args: object,
    *,
    profiles: Sequence[str] = DEFAULT_PROFILES,
    only: Collection[str] | None = None,
    session: str | None = None,
    as_rows: bool = False,
) -> Reply | str:
    """Return the reply to a call, as text and data, or the sentence why there is none.

    ``only`` names the tools of the profiles that the model has; ``as_rows`` is that of `Call`.

    Raises:
        UsageError: There is no such profile; the caller chose it, not a model.
    """
    chosen = tools_of(profiles)
    tools = {tool.name: tool for tool in chosen if only is None or tool.name in only}
    wording = wording_for(tools)
    outcome = _outcome(memory, name, args, tools, wording, session, as_rows=as_rows)
    if isinstance(outcome, str):
        return _sendable(outcome)
    return outcome._replace(text=_sendable(outcome.text))


def _outcome(
    memory: "Memory",
    name: str,
    args: object,
    tools: Mapping[str, Tool],
    wording: Mapping[str, str],
    session: str | None,
    *,
    as_rows: bool,
) -> Reply | str:
    try:
        tool = tool_named(name, tools)
        values = check_arguments(tool.name, tool.input, _parsed(args), strict=tool.strict)
        call = Call(memory, values, session, wording, with_data=as_rows, as_rows=as_rows)
        with acting(door="tools", session=session):
            return tool.run(call)
    except PlaitError as error:
        return worded(error, memory.config, wording)
    except Exception:  # noqa: BLE001 - the one broad handler of this interface
        import traceback

        sys.stderr.write(visible(traceback.format_exc()))
        return f"{_shown(name)} failed. This is a bug in plait: tell the user."


def tool_named(name: object, tools: Mapping[str, Tool]) -> Tool:
    """Return the tool that a model named.

    Raises:
        UsageError: There is none; the code is "unknown_tool".
    """
    tool = tools.get(ALIASES.get(name, name)) if isinstance(name, str) else None
    if tool is not None:
        return tool
    from difflib import get_close_matches

    shown = _shown(name)
    words = {known.removeprefix(_PREFIX): known for known in tools}
    similar = get_close_matches(shown.removeprefix(_PREFIX), words, n=1, cutoff=_SIMILAR)
    hint = f" Did you mean {words[similar[0]]}?" if similar else ""
    rest = f" Use: {', '.join(tools)}." if tools else ""
    raise UsageError(
        f"There is no tool '{shown}'.{hint}{rest}",
        code="unknown_tool",
        subject=shown,
    )


def _shown(name: object) -> str:
    return flattened(str(name))[:VALUE_CHARS]


def _parsed(args: object) -> object:
    """Return the arguments out of JSON text; anything else as it is, to be checked."""
    if not isinstance(args, str):
        return args
    if not args.strip():
        return None
    try:
        return json.loads(args)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            "The arguments are not JSON. Call it again with a JSON object.", code="bad_argument"
        ) from error


def _json(data: Mapping[str, Any]) -> str:
    return _sendable(json.dumps(data, ensure_ascii=False))


def _sendable(text: str) -> str:
    """Return a text that can be sent: half a character, which a model may write, becomes "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")
