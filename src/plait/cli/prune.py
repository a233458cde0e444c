"""prune: delete what has outlived its kind's time."""

from argparse import ArgumentParser, Namespace
from collections import Counter

from plait.cli import NOTHING_FOUND, Output
from plait.cli.shared import first_unnamed, loaded, open_existing, or_empty, warn_if_empty
from plait.errors import shell_word
from plait.present.deleting import deleted_text
from plait.present.json import deleted_dict
from plait.present.text import counted
from plait.types.reports import Deleted


def prune_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait prune``."""
    parser.add_argument(
        "--keep-days",
        dest="keep_days",
        metavar="KIND=N,…",
        help="days to keep each kind, such as message=90,observation=365 (default: the setting)",
    )
    parser.add_argument("--yes", action="store_true", help="do it; without it, only list")
    parser.add_argument(
        "--all-projects", action="store_true", help="in all projects, not only this one"
    )


def prune_run(arguments: Namespace, out: Output) -> int:
    """Move documents that are too old to the trash, or list them."""
    empty = {**deleted_dict(Deleted()), "kinds": {}, "dry_run": not arguments.yes}
    with open_existing(out) as memory, or_empty(out, empty):
        listed = memory.prune(all_projects=arguments.all_projects)
        unnamed = first_unnamed(memory, listed.ids)
        kinds = Counter(row.kind for row in loaded(memory, listed.ids))
        if arguments.yes and listed.ids:
            listed = memory.prune(dry_run=False, all_projects=arguments.all_projects)
        if not listed.ids:
            out.result(empty, "")
            if not warn_if_empty(memory, out):
                out.warn("nothing is too old")
            return 0 if memory.is_off else NOTHING_FOUND
    verb = "Deleted" if arguments.yes else "Would delete"
    tally = ", ".join(counted(count, kind) for kind, count in sorted(kinds.items()))
    value = {**deleted_dict(listed), "kinds": dict(kinds), "dry_run": not arguments.yes}
    out.result(value, f"{verb} {deleted_text(listed, unnamed, tally)}")
    if arguments.yes:
        out.suggest("plait delete --undo", "restore, within 30 days")
    else:
        rules = ""
        if arguments.keep_days:
            rules = f" --keep-days {shell_word(arguments.keep_days, 'KIND=N')}"
        everywhere = " --all-projects" if arguments.all_projects else ""
        out.suggest(f"plait prune{rules}{everywhere} --yes", "do it")
    return 0
