"""connect and disconnect: put plait into the settings of agents, or take it out."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from plait.agents.connecting.checking import Status, read_in, statuses
from plait.agents.connecting.files import apply
from plait.agents.connecting.handshake import Proof, launch_of, prove
from plait.agents.connecting.places import AGENTS, SCOPES, Agent, AgentScope, Launch, Machine
from plait.agents.connecting.planning import (
    FileChange,
    FileRecord,
    WantedConnection,
    plan_connect,
    plan_disconnect,
)
from plait.agents.connecting.texts import SNIPPETS, snippet
from plait.cli import Output, to_run, write_error
from plait.cli.shared import or_empty
from plait.cli.trust import YES
from plait.errors import NotFound, UsageError, advise
from plait.settings.file import write_value
from plait.settings.loading import (
    config_folder,
    environment,
    find_project,
    home_folder,
    user_config_path,
    working_folder,
)
from plait.types.ids import is_address

MAX_DIFF_LINE = 300
AUTO_SAVE_QUESTION = (
    "Save your messages and the agents' answers by itself? Off by default: until you say yes, "
    "plait stores only what it is asked to store. [y/N] "
)


def connect_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait connect``."""
    parser.add_argument(
        "agent",
        nargs="?",
        choices=tuple(AGENTS),
        metavar="AGENT",
        help=f"{', '.join(AGENTS)}; without one, look for installed agents and offer each",
    )
    _add_shared_options(parser)
    parser.add_argument(
        "--no-work",
        action="store_true",
        help="no hooks before an edit or a command and after a failure",
    )
    parser.add_argument("--no-hooks", action="store_true", help="only the tools and the skill")
    parser.add_argument(
        "--auto-save",
        choices=("on", "off"),
        help="whether hooks save conversations; asked once on a terminal if you leave it out",
    )
    parser.add_argument(
        "--print",
        choices=tuple(SNIPPETS),
        help="print a text for agents: the skill, or lines for AGENTS.md or HEARTBEAT.md",
    )


def disconnect_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait disconnect``."""
    names = ", ".join(AGENTS)
    parser.add_argument("agent", choices=tuple(AGENTS), metavar="AGENT", help=names)
    _add_shared_options(parser)


def _add_shared_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        default="user",
        help="user: all your folders (default); project: this project only",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would change, and change nothing"
    )


def connect_run(arguments: Namespace, out: Output) -> int:
    """Connect an agent, or offer every agent that is installed."""
    if arguments.print is not None:
        text = snippet(arguments.print)
        out.result({"text": text}, text.rstrip("\n"))
        return 0
    _refuse_read_only(arguments, "connect")
    machine = machine_here()
    if arguments.agent is not None:
        _connect(AGENTS[arguments.agent], machine, arguments, out)
        return 0
    return _offer(machine, arguments, out)


def disconnect_run(arguments: Namespace, out: Output) -> int:
    """Take plait out of the settings of an agent."""
    _refuse_read_only(arguments, "disconnect")
    agent, machine, scope = AGENTS[arguments.agent], machine_here(), arguments.scope

    def plan(records: dict[str, FileRecord]) -> list[FileChange]:
        return plan_disconnect(agent, machine, scope, read_in(scope, machine), records)

    changes, backups = _applied(plan, arguments)
    answer = {"agent": agent.name, "scope": scope, **_as_json(changes, backups, arguments)}
    if not changes:
        with or_empty(out, answer):
            raise NotFound(f"{agent.title} is not connected ({scope} scope).", subject=agent.name)
    done = "would be disconnected" if arguments.dry_run else "is disconnected"
    out.result(answer, "\n".join([*_lines(changes, arguments), f"{agent.title} {done}."]))
    return 0


def machine_here() -> Machine:
    """Return the folders of this user and of the project that the working folder is in."""
    here = os.path.realpath(working_folder())
    environ = environment()
    return Machine(home_folder(environ), find_project(here) or here, environ)


def chosen_launch(options: dict[str, Any]) -> Launch:
    """Return the command that starts this plait with the typed options that choose the memory."""
    words: list[str] = []
    for flag, name in (("--db", "db_path"), ("--config", "config"), ("--project", "project")):
        value = options.get(name)
        if value is not None:
            words += [flag, value if name == "project" else _elsewhere(value)]
    return launch_of(words)


def _elsewhere(value: str) -> str:
    """Return a path, or the address of a database, as a program in another folder needs it.

    Raises:
        UsageError: The address has a password, and other programs' files are no place for one.
    """
    if not is_address(value):
        return os.path.abspath(value)
    from plait.stores.postgres.address import ShownAddress

    address = ShownAddress.of(value)
    if address.has_secret:
        raise UsageError(
            f"The address of {address} has a password or an option that plait does not write into "
            "the settings of other programs.",
            code="password_in_address",
            subject=str(address),
            advice=advise("hide_password"),
        )
    return str(address)


def _refuse_read_only(arguments: Namespace, verb: str) -> None:
    if arguments.read_only and not arguments.dry_run:
        raise UsageError(
            f"{verb} writes, and --read-only writes nothing. Leave it out, or add --dry-run.",
            code="read_only",
        )


# -- one agent -------------------------------------------------------------------------------


def _connect(agent: Agent, machine: Machine, arguments: Namespace, out: Output) -> None:
    chosen = vars(arguments)
    if out.config.origins["db_path"].startswith("environment "):
        # An agent may be started where the variable of this shell is not set.
        chosen = {**chosen, "db_path": out.config.settings.db_path}
    launch = chosen_launch(chosen)
    scope: AgentScope = arguments.scope
    wanted = WantedConnection(launch, hooks=not arguments.no_hooks, work=not arguments.no_work)

    def plan(records: dict[str, FileRecord]) -> list[FileChange]:
        return plan_connect(agent, machine, scope, wanted, read_in(scope, machine), records)

    proof = None
    if not arguments.dry_run:
        plan({})  # what cannot be edited is refused before a server is started
        proof = prove(launch, machine.environ, machine.home)
    # Before any agent's file: settings of plait that cannot be read or written stop it here.
    auto_save = _settle_auto_save(arguments, out)
    changes, backups = _applied(plan, arguments)
    answer = {
        "agent": agent.name,
        "scope": scope,
        "command": [launch.program, *launch.server],
        "tools": None if proof is None else proof.tools,
        **_as_json(changes, backups, arguments),
        "auto_save": auto_save,
        "note": agent.note,
    }
    out.result(answer, "\n".join([*_lines(changes, arguments), _summary(agent, proof, changes)]))
    if agent.note:
        out.warn(agent.note)
    if proof is not None and changes:
        out.suggest(to_run("plait import auto"), "make what agents did on this machine searchable")
    if scope == "project" and changes:
        out.warn("the files name a command of this machine: do not commit them for others.")


def _summary(agent: Agent, proof: Proof | None, changes: Sequence[FileChange]) -> str:
    if proof is None:
        return f"{agent.title} would be connected." if changes else f"{agent.title} is connected."
    state = "connected" if changes else "connected already"
    return f"{agent.title} is {state}: {proof.tools} tools. Start it anew to use them."


def _applied(plan: Any, arguments: Namespace) -> tuple[list[FileChange], list[str]]:
    """Write the changes, unless they are only to be shown."""
    if arguments.dry_run:
        from plait.agents.connecting.files import read_records

        return plan(read_records(config_folder())), []
    return apply(config_folder(), plan, private=arguments.scope == "user")


def _as_json(
    changes: Sequence[FileChange], backups: list[str], arguments: Namespace
) -> dict[str, Any]:
    files = [{"path": change.path, "change": _kind(change)} for change in changes]
    answer: dict[str, Any] = {"files": files, "backups": backups, "dry_run": arguments.dry_run}
    if arguments.dry_run:
        answer["diff"] = "\n".join(_lines(changes, arguments))
    return answer


def _kind(change: FileChange) -> str:
    if change.before is None:
        return "created"
    return "removed" if change.after is None else "changed"


def _lines(changes: Sequence[FileChange], arguments: Namespace) -> list[str]:
    if arguments.dry_run:
        # Settings first: the skill and other texts are long, and known before.
        changes = sorted(changes, key=lambda change: change.path.endswith(".md"))
        return [line for change in changes for line in diff_lines(change)]
    return [f"{_kind(change):<8} {change.path}" for change in changes]


def diff_lines(change: FileChange) -> list[str]:
    """Return the lines that a change adds and removes, without those around them.

    The lines around may be keys of other programs.
    """
    from difflib import unified_diff

    old, new = (
        [] if data is None else data.decode("utf-8", "replace").splitlines()
        for data in (change.before, change.after)
    )
    lines = unified_diff(old, new, change.path, change.path, n=0, lineterm="")
    return [
        line if len(line) <= MAX_DIFF_LINE else line[: MAX_DIFF_LINE - 1] + "…" for line in lines
    ]


# -- all agents ------------------------------------------------------------------------------


def _offer(machine: Machine, arguments: Namespace, out: Output) -> int:
    """List the agents; on a terminal, ask for each that is installed and not connected."""
    rows = statuses(machine)
    out.result({"agents": [_status_dict(row) for row in rows]}, _status_text(rows))
    is_asked = out.form == "text" and sys.stdin is not None and sys.stdin.isatty()
    for row in rows:
        if not row.is_installed or arguments.scope in row.scopes:
            continue
        if not is_asked:
            out.suggest(f"plait connect {row.agent.name}", f"connect {row.agent.title}")
        elif ask(f"Connect {row.agent.title}? [y/N] "):
            _connect(row.agent, machine, arguments, out)
    return 0


def _status_dict(row: Status) -> dict[str, Any]:
    return {
        "agent": row.agent.name,
        "title": row.agent.title,
        "installed": row.is_installed,
        "connected": list(row.scopes),
    }


def _status_text(rows: Sequence[Status]) -> str:
    lines = []
    for row in rows:
        state = "not installed"
        if row.scopes:
            state = f"connected ({', '.join(row.scopes)})"
        elif row.is_installed:
            state = "installed"
        lines.append(f"{row.agent.name:<12} {state}")
    return "\n".join(lines)


def ask(question: str) -> bool:
    """Ask a person; anything but yes is no."""
    write_error(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in YES


def _settle_auto_save(arguments: Namespace, out: Output) -> bool:
    """Return whether hooks save; ask once on a terminal, and keep the answer."""
    config = out.config_with()  # read anew: the answer for the agent before may be in the file
    settings, answer = config.settings, arguments.auto_save
    if arguments.dry_run:
        return settings.auto_save if answer is None else answer == "on"
    if answer is None:
        is_asked = out.form == "text" and sys.stdin is not None and sys.stdin.isatty()
        if config.origins["auto_save"] != "default" or not is_asked:
            return settings.auto_save
        answer = "on" if ask(AUTO_SAVE_QUESTION) else "off"
    path = user_config_path() if arguments.config is None else os.path.abspath(arguments.config)
    write_value(path, "auto_save", answer)
    if answer == "on":
        out.suggest(to_run("plait config set auto_save off"), "stop saving by itself")
    return bool(answer == "on")
