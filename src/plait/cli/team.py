"""team: who the members of a memory in PostgreSQL are, and what they may see and do."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from plait.cli import Output, to_run
from plait.cli.shared import open_existing
from plait.errors import UsageError
from plait.memory import Memory
from plait.present.text import on_a_line
from plait.types.visibility import MEMBER_ROLES, TeamMember

# How many words an action takes, and what they may be.
_EXAMPLES = {0: "", 1: " ana", 2: " ana writer"}
_WORDS = {"list": 0, "add": 1, "role": 2, "remove": 1}


def team_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait team``."""
    parser.add_argument(
        "action",
        choices=tuple(_WORDS),
        metavar="ACTION",
        help="list: show the members; add: let a role of the database in, or give it another role "
        "or project; role: change what a member may do; remove: end a membership",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="add, remove: the name of a role of the database; role: that name, and reader, writer "
        "or owner",
    )
    parser.add_argument(
        "--role",
        choices=MEMBER_ROLES,
        metavar="ROLE",
        help="add: reader, writer (default) or owner; with --project NAME, the member sees the "
        "documents of that project, too",
    )


def team_run(arguments: Namespace, out: Output) -> int:
    """List, add, change or remove members."""
    action, words = arguments.action, arguments.words
    if len(words) != _WORDS[action]:
        needed = {0: "no name", 1: "one name", 2: "a name and a role"}[_WORDS[action]]
        example = to_run(f"For example: plait team {action}{_EXAMPLES[_WORDS[action]]}")
        raise UsageError(
            f"The action {action} takes {needed}. {example}", code="bad_value", subject=action
        )
    if arguments.role is not None and action != "add":
        raise UsageError("--role belongs to the action add.", code="bad_value", subject="--role")
    with open_existing(out) as memory:
        if action == "list":
            return _list(memory.team.members(), out)
        member = _change(memory, arguments)
    is_removed = action == "remove"
    text = f"{on_a_line(member.name)} is no longer a member." if is_removed else _line(member)
    out.result({"member": _as_dict(member), "removed": is_removed}, text)
    if action == "add":
        out.suggest("plait team list", "see all members")
    return 0


def _change(memory: Memory, arguments: Namespace) -> TeamMember:
    name, *others = arguments.words
    if arguments.action == "role":
        return memory.team.role(name, others[0])
    if arguments.action == "remove":
        return memory.team.remove(name)
    projects = [arguments.project] if arguments.project else []
    return memory.team.add(name, role=arguments.role, projects=projects)


def _list(members: Sequence[TeamMember], out: Output) -> int:
    text = "\n".join(map(_line, members))
    out.result({"members": [_as_dict(member) for member in members]}, text)
    if not members:
        out.warn("there are no members: only the owner of the tables uses this memory")
        out.suggest("plait team add NAME", "add a role of the database")
    return 0


def _line(member: TeamMember) -> str:
    projects = f"  projects: {', '.join(map(on_a_line, member.projects))}"
    return f"{on_a_line(member.name)}  {member.role}{projects if member.projects else ''}"


def _as_dict(member: TeamMember) -> dict[str, Any]:
    return {"name": member.name, "role": member.role, "projects": list(member.projects)}
