"""Check the connections of this machine: which agents there are, and what is broken."""

import os
from collections.abc import Iterator, Sequence
from shutil import which

from plait.agents.connecting.files import reader
from plait.agents.connecting.jsonc import NotEditable
from plait.agents.connecting.looking import (
    ReadFile,
    entry_in,
    hook_places,
    hooks_in,
    is_connected,
    is_present,
    runs_plait,
    words_of,
)
from plait.agents.connecting.places import (
    AGENTS,
    Agent,
    AgentScope,
    Hooks,
    Launch,
    Machine,
    OwnFile,
    Piece,
    ServerEntry,
)
from plait.errors import ConfigError, advise, quotable
from plait.types.records import NamedTuple
from plait.types.reports import Finding


class Status(NamedTuple):
    """An agent: whether it is on this machine, and in which scopes plait is in its settings."""

    agent: Agent
    is_installed: bool
    scopes: tuple[AgentScope, ...]


def statuses(machine: Machine) -> list[Status]:
    """Return the status of every agent that plait knows."""
    return [
        Status(agent, is_installed(agent, machine), connected_scopes(agent, machine))
        for agent in AGENTS.values()
    ]


def is_installed(agent: Agent, machine: Machine) -> bool:
    """Tell whether an agent has a folder here, or a command in the user's path."""
    path = machine.environ.get("PATH", "")
    return any(map(os.path.isdir, agent.hints(machine))) or any(
        which(name, path=path) for name in agent.programs
    )


def connected_scopes(agent: Agent, machine: Machine) -> tuple[AgentScope, ...]:
    """Return where an agent has an entry of plait."""
    return tuple(
        scope
        for scope in machine.scopes
        if is_connected(agent, machine, scope, read_in(scope, machine))
    )


def read_in(scope: AgentScope, machine: Machine) -> ReadFile:
    """Return the reader for the files of a scope."""
    return reader(machine.project if scope == "project" else None)


def check_connections(machine: Machine, launch: Launch) -> list[Finding]:
    """Return one finding for every agent and scope that plait is connected in."""
    return [
        finding
        for agent in AGENTS.values()
        for scope in machine.scopes
        for finding in _check(agent, scope, machine, launch)
    ]


def _check(agent: Agent, scope: AgentScope, machine: Machine, launch: Launch) -> Iterator[Finding]:
    """Yield what is wrong with one connection, or that nothing is."""
    name = f"agent {agent.name}" + (" (project)" if scope == "project" else "")
    again = advise("connect", agent=agent.name)
    read = read_in(scope, machine)
    pieces = agent.pieces(machine, scope)
    own = [
        piece
        for piece in pieces
        if isinstance(piece, Hooks) or (isinstance(piece, OwnFile) and piece.part == "hooks")
    ]
    has_hooks = any(is_present(piece, agent.name, read) for piece in own)
    if not (has_hooks or is_connected(agent, machine, scope, read)):
        return
    try:
        entries = list(_commands(agent, pieces, read))
        missing = _missing_hooks(agent, pieces, launch, read)
        untrusted = _untrusted(pieces, machine, read) if agent.name == "codex" else ""
    except (ConfigError, NotEditable) as error:
        yield Finding(name, "warning", f"Its settings cannot be read: {error}.", code="unreadable")
        return
    if not entries or not isinstance(entries[0][0], ServerEntry):
        yield Finding(name, "warning", "It has hooks of plait, but no entry.", advice=again)
        return
    path = machine.environ.get("PATH", "")
    for piece, command in entries:
        program = which(command, path=path) or command  # written by hand, it may be a bare name
        if not os.path.isfile(program):
            text = f"'{quotable(program)}' in {piece.path} does not exist."
            yield Finding(name, "warning", text, advice=again, code="no_such_command")
            return
        if not os.path.samefile(program, launch.program):
            text = f"{piece.path} starts another plait, '{quotable(program)}'."
            yield Finding(name, "warning", text, advice=again, code="other_plait")
            return
    chosen = _chosen_by_others(entries[0][0], read) if scope == "project" else ""
    if chosen:
        text = f"{entries[0][0].path} chooses the memory ({chosen}), and may be part of a clone."
        yield Finding(name, "warning", text, advice=again, code="chooses_memory")
        return
    if missing:
        yield Finding(name, "warning", missing, advice=again, code="missing_hooks")
        return
    if untrusted:
        yield Finding(name, "warning", untrusted, code="untrusted_hooks")
        return
    yield Finding(name, "ok", f"connected in {entries[0][0].path}")


def _chosen_by_others(entry: ServerEntry, read: ReadFile) -> str:
    """Return what in an entry chooses the memory that plait opens: options and variables."""
    value = entry_in(entry, read(entry.path))
    words = [word.partition("=")[0] for word in words_of(value)]
    options = [word for word in ("--db", "--config") if word in words]
    return ", ".join(
        [*options, *(key for key in ("env", "environment", "envFile") if value.get(key))]
    )


def _missing_hooks(agent: Agent, pieces: Sequence[Piece], launch: Launch, read: ReadFile) -> str:
    """Return that an agent has some of plait's hooks and not all; nothing if it has none."""
    for piece in pieces:
        if isinstance(piece, Hooks) and (there := hooks_in(read(piece.path), agent.name)):
            wanted = piece.groups(launch, False)
            missing = [event for event in wanted if event not in there]
            if missing:
                return f"{piece.path} has no hook of plait at {', '.join(missing)}."
    return ""


def _untrusted(pieces: Sequence[Piece], machine: Machine, read: ReadFile) -> str:
    """Return that Codex does not trust some of plait's hooks, or nothing.

    Codex keeps the hash of each hook that its user trusted in his own ``config.toml``, under the
    hook's file, event and numbers. Whether the hash is still right, only Codex knows.
    """
    user = AGENTS["codex"].pieces(machine, "user")[0]
    state = None
    if isinstance(user, ServerEntry):
        settings = user._replace(keys=("hooks", "state"))
        state = entry_in(settings, read_in("user", machine)(user.path))
    rows = state.items() if isinstance(state, dict) else ()
    trusted = {key for key, row in rows if isinstance(row, dict) and row.get("trusted_hash")}
    [hooks] = [piece for piece in pieces if isinstance(piece, Hooks)]
    places = hook_places(read(hooks.path), "codex")
    files = {hooks.path, os.path.realpath(hooks.path)}
    missing = [
        event
        for event, group, handler in places
        if not any(f"{file}:{snake_case(event)}:{group}:{handler}" in trusted for file in files)
    ]
    if not missing:
        return ""
    return (
        f"Codex does not run {len(missing)} of {len(places)} hooks, because you have not trusted "
        "them yet: start codex and type /hooks."
    )


def snake_case(event: str) -> str:
    """Return an event as Codex writes it in its keys.

    >>> snake_case("UserPromptSubmit")
    'user_prompt_submit'
    """
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in event).lstrip("_")


def _commands(
    agent: Agent, pieces: Sequence[Piece], read: ReadFile
) -> Iterator[tuple[ServerEntry | Hooks, str]]:
    """Yield the programs that an agent's settings start."""
    from shlex import split

    for piece in pieces:
        if isinstance(piece, ServerEntry):
            words = words_of(entry_in(piece, read(piece.path)))
            if runs_plait(words):
                yield piece, words[0]
        elif isinstance(piece, Hooks):
            for lines in hooks_in(read(piece.path), agent.name).values():
                for line in lines:
                    try:
                        yield piece, split(line)[0]
                    except ValueError:  # a quotation mark is missing
                        yield piece, line
