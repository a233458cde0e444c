"""What is in the settings of agents: plait's entry, hooks and files; nothing is changed here."""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from plait.agents.connecting import jsonc, toml, yaml
from plait.agents.connecting.jsonc import NotEditable
from plait.agents.connecting.places import (
    AGENTS,
    Agent,
    AgentScope,
    Hooks,
    Machine,
    Piece,
    ServerEntry,
)
from plait.agents.connecting.texts import PLUGIN_MARK, SKILL_MARK
from plait.errors import ConfigError

ReadFile = Callable[[str], bytes | None]
_PLAIT_WORD = re.compile(r"plait(?:\.exe)?[\"']?(?: |$)")


def runs_plait(words: Sequence[object]) -> bool:
    """Tell whether a command starts a plait.

    >>> runs_plait(["/opt/bin/plait", "mcp"]), runs_plait(["uv", "run", "other"])
    (True, False)
    """
    texts = [str(word) for word in words]
    program = texts[0].replace("\\", "/").rpartition("/")[2] if texts else ""
    if program.lower() in ("plait", "plait.exe"):
        return True
    return any(pair == ("-m", "plait") for pair in itertools.pairwise(texts))


def is_own_hook(command: object, agent: str) -> bool:
    """Tell whether a command line is a hook that plait wrote for an agent.

    >>> is_own_hook("'/my bin/plait' hook codex Stop", "codex"), is_own_hook("hook codex", "codex")
    (True, False)
    """
    head, mark, event = str(command).rpartition(f" hook {agent} ")
    is_plait = _PLAIT_WORD.search(head) is not None
    return bool(mark) and event.isidentifier() and is_plait


def words_of(entry: object) -> list[str]:
    """Return the command of an entry and its arguments; none if it starts nothing."""
    if not isinstance(entry, dict):
        return []
    command, arguments = entry.get("command"), entry.get("args", [])
    if isinstance(command, list):
        return [str(word) for word in command]
    if not isinstance(command, str) or not isinstance(arguments, list):
        return []
    return [command, *map(str, arguments)]


def entry_in(entry: ServerEntry, data: bytes | None) -> Any:
    """Return what a file has under plait's name, or ``None``.

    Raises:
        NotEditable: The file is not what it should be.
    """
    text = text_of(data)
    if not text.strip():
        return None
    if entry.form == "yaml":
        return yaml.entry_of(text, entry.keys)
    if entry.form == "toml":
        values: Any = toml.parse_toml(text)
        for key in entry.keys:
            values = values.get(key) if isinstance(values, dict) else None
        return values
    node = jsonc.find(jsonc.parse(text, json5=entry.form == "json5"), entry.keys)
    return None if node is None else node.value


def hooks_in(data: bytes | None, agent: str) -> dict[str, list[str]]:
    """Return the commands of plait's hooks for an agent, by event.

    Raises:
        NotEditable: The file is not what it should be.
    """
    text = text_of(data)
    if not text.strip():
        return {}
    node = jsonc.find(jsonc.parse(text), ["hooks"])
    events = node.value if node is not None and isinstance(node.value, dict) else {}
    commands = {
        event: [
            str(handler["command"])
            for group in groups
            for handler in handlers_of(group)
            if is_own_hook(handler.get("command"), agent)
        ]
        for event, groups in events.items()
        if isinstance(groups, list)
    }
    return {event: lines for event, lines in commands.items() if lines}


def hook_places(data: bytes | None, agent: str) -> list[tuple[str, int, int]]:
    """Return event, number of the group and number of the handler of each of plait's hooks.

    Raises:
        NotEditable: The file is not what it should be.
    """
    text = text_of(data)
    node = jsonc.find(jsonc.parse(text), ["hooks"]) if text.strip() else None
    events = node.value if node is not None and isinstance(node.value, dict) else {}
    return [
        (event, group_number, number)
        for event, groups in events.items()
        if isinstance(groups, list)
        for group_number, group in enumerate(groups)
        for number, handler in enumerate(handlers_of(group))
        if is_own_hook(handler.get("command"), agent)
    ]


def handlers_of(group: object) -> list[dict[str, Any]]:
    """Return the handlers of a group, or the group itself where hooks are not grouped."""
    if not isinstance(group, dict):
        return []
    inner = group.get("hooks")
    if isinstance(inner, list):
        return [handler for handler in inner if isinstance(handler, dict)]
    return [group]


def is_own_file(data: bytes | None) -> bool:
    """Tell whether plait wrote a file."""
    text = "" if data is None else data[:4_000].decode("utf-8", "replace")
    return SKILL_MARK in text or text.startswith(PLUGIN_MARK) or _is_hooks_file(data)


def _is_hooks_file(data: bytes | None) -> bool:
    """Tell whether all hooks in a file of Copilot are plait's, however it is written."""
    try:
        text = text_of(data)
        value = jsonc.parse(text).value if text.lstrip("\ufeff").startswith("{") else {}
    except NotEditable:
        return False
    hooks = value.get("hooks")
    groups = list(hooks.values()) if isinstance(hooks, dict) else []
    handlers = [row for rows in groups for row in (rows if isinstance(rows, list) else [rows])]
    return bool(handlers) and all(
        isinstance(row, dict) and is_own_hook(row.get("bash", row.get("powershell")), "copilot")
        for row in handlers
    )


def is_present(piece: Piece, agent: str, read: ReadFile) -> bool:
    """Tell whether a piece is there; what cannot be read is not."""
    try:
        data = read(piece.path)
        if isinstance(piece, ServerEntry):
            return runs_plait(words_of(entry_in(piece, data)))
        if isinstance(piece, Hooks):
            return bool(hooks_in(data, agent))
    except (ConfigError, NotEditable):
        return False
    return is_own_file(data)


def users_of(machine: Machine, scope: AgentScope) -> dict[str, set[str]]:
    """Return the names of the agents that read each file of a scope."""
    users: dict[str, set[str]] = {}
    for agent in AGENTS.values():
        for piece in agent.pieces(machine, scope):
            users.setdefault(piece.path, set()).add(agent.name)
    return users


def with_own_pieces(machine: Machine, scope: AgentScope, read: ReadFile) -> set[str]:
    """Return the agents for which plait is in a file that no other agent reads."""
    users = users_of(machine, scope)
    return {
        agent.name
        for agent in AGENTS.values()
        for piece in agent.pieces(machine, scope)
        if len(users[piece.path]) == 1 and is_present(piece, agent.name, read)
    }


def is_connected(agent: Agent, machine: Machine, scope: AgentScope, read: ReadFile) -> bool:
    """Tell whether an agent has an entry of plait.

    An entry that several agents read is of those that have more of plait, or else of all of them.
    """
    for piece in agent.pieces(machine, scope)[:1]:
        users = users_of(machine, scope)[piece.path]
        others = users & with_own_pieces(machine, scope, read) if len(users) > 1 else set()
        return is_present(piece, agent.name, read) and (not others or agent.name in others)
    return False


def text_of(data: bytes | None) -> str:
    """Return the text of a file, nothing if there is no file.

    Raises:
        NotEditable: It is not UTF-8.
    """
    if data is None:
        return ""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotEditable(f"byte {error.start}: it is not UTF-8") from error
