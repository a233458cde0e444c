"""prune: delete what the person's rules do not keep, and archive what is unused."""

from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import Any

from plait.cli import NOTHING_FOUND, Output
from plait.cli.shared import (
    add_verbose,
    first_unnamed,
    loaded,
    open_existing,
    or_empty,
    tell_of_others,
    warn_if_empty,
)
from plait.errors import shell_word
from plait.present.deleting import deleted_text
from plait.present.json import deleted_dict
from plait.present.text import NAMES_SHOWN, counted
from plait.types.ids import SHORT_ID
from plait.types.reports import Deleted

ARCHIVED_SHOWN = 5  # ids
RULES = (
    ("keep_days", "KIND=N,…", "days to keep each kind, such as message=90,observation=365"),
    ("keep_most", "NAME=N,…", "documents to keep of a kind or an origin, such as web=500"),
    ("keep_mb", "NAME=N,…", "megabytes to keep of a kind or an origin, such as message=50"),
    ("archive_days", "KIND=N,…", "days after which what nobody changed or read is archived"),
    (
        "delete_archived_days",
        "N",
        "days after which what was archived by this command, and read by nobody for as long, is "
        "deleted",
    ),
)


def prune_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait prune``."""
    for name, metavar, text in RULES:
        flag = f"--{name.replace('_', '-')}"
        help_ = f"{text} (default: the setting)"
        parser.add_argument(flag, dest=name, metavar=metavar, help=help_)
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--yes", action="store_true", help="do it; without it, only list")
    doing.add_argument("--dry-run", action="store_true", help="only list, as without --yes")
    parser.add_argument(
        "--all-projects", action="store_true", help="in all projects, not only this one"
    )
    add_verbose(parser)


def prune_run(arguments: Namespace, out: Output) -> int:
    """Delete and archive what the rules say, or list it."""
    empty = pruned_dict(Deleted(), {}, dry_run=not arguments.yes)
    with open_existing(out) as memory, or_empty(out, empty):
        listed = memory.prune(all_projects=arguments.all_projects)
        unnamed = first_unnamed(memory, listed.ids, verbose=arguments.verbose)
        kinds = Counter(str(row.kind) for row in loaded(memory, listed.ids))
        if arguments.yes and (listed.ids or listed.archived):
            listed = memory.prune(dry_run=False, all_projects=arguments.all_projects)
        if not (listed.ids or listed.archived):
            out.result(empty, "")
            if not warn_if_empty(memory, out):
                settings = out.config.settings
                rules = [name for name, *_ in RULES if getattr(settings, name) is not None]
                out.warn(f"nothing goes by {', '.join(rules)}")
            return 0 if memory.is_off else NOTHING_FOUND
    lines = []
    if listed.ids:
        verb = "Deleted" if arguments.yes else "Would delete"
        tally = ", ".join(counted(count, kind) for kind, count in sorted(kinds.items()))
        why = f"{tally}; {_rules_text(listed)}"
        text = deleted_text(listed, unnamed, why, verbose=arguments.verbose)
        lines.append(f"{verb} {text}")
    if listed.archived:
        verb = "Archived" if arguments.yes else "Would archive"
        lines.append(f"{verb} {archived_text(listed.archived, verbose=arguments.verbose)}")
    out.result(pruned_dict(listed, kinds, dry_run=not arguments.yes), "\n".join(lines))
    if not arguments.yes:
        tell_of_others(len(listed.ids), NAMES_SHOWN, arguments, out)
        tell_of_others(len(listed.archived), ARCHIVED_SHOWN, arguments, out)
        out.suggest(f"plait prune{_repeated(arguments)} --yes", "do it")
    elif listed.ids:
        out.suggest("plait delete --undo", "restore, within 30 days")
    else:
        id_ = listed.archived[0][:SHORT_ID]
        out.suggest(f"plait mark {id_} --status active", "take the status back")
    return 0


def pruned_dict(done: Deleted, kinds: dict[str, int], *, dry_run: bool) -> dict[str, Any]:
    """Return what was deleted and archived, and by which rule."""
    return {
        **deleted_dict(done),
        "kinds": dict(kinds),
        "rules": dict(done.rules),
        "archived": list(done.archived),
        "dry_run": dry_run,
    }


def _rules_text(done: Deleted) -> str:
    """Return by which rules documents go, and how many by each if there are several.

    >>> _rules_text(Deleted(rules=(("keep_days", 2), ("keep_most", 1))))
    '2 by keep_days, 1 by keep_most'
    """
    if len(done.rules) == 1:
        return f"by {done.rules[0][0]}"
    return ", ".join(f"{count:,} by {name}" for name, count in done.rules)


def archived_text(ids: tuple[str, ...], *, verbose: bool = False) -> str:
    """Return how many documents were archived, with the first of their ids; ``verbose``: all."""
    count = len(ids) if verbose else ARCHIVED_SHOWN
    shown = ", ".join(id_[:SHORT_ID] for id_ in ids[:count])
    more = ", …" if len(ids) > count else ""
    return f"{counted(len(ids), 'document')}: {shown}{more}"


def _repeated(arguments: Namespace) -> str:
    """Return the options of this command, to repeat it."""
    words = [
        f" --{name.replace('_', '-')} {shell_word(str(value), metavar)}"
        for name, metavar, _ in RULES
        if (value := getattr(arguments, name)) is not None
    ]
    return "".join([*words, " --all-projects" if arguments.all_projects else ""])
