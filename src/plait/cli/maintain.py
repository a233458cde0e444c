"""maintain: what a memory needs from time to time, as one command for a schedule."""

from argparse import ArgumentParser, Namespace
from time import monotonic
from typing import Any

from plait.cli import Output, as_path
from plait.cli.prune import archived_text, pruned_dict
from plait.cli.shared import open_existing, open_to_write, or_empty
from plait.cli.store import VISIBILITY_HELP
from plait.errors import Notice, PlaitError, StoreReadOnly
from plait.memory import Memory
from plait.memory.upkeep import LOOK_S, is_due
from plait.present.text import counted
from plait.types.reports import Maintained
from plait.types.visibility import VISIBILITIES


def maintain_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait maintain``."""
    parser.add_argument(
        "paths",
        nargs="*",
        type=as_path,
        metavar="PATH",
        help="files and folders whose changes to index first (default: the memory_dir setting)",
    )
    parser.add_argument(
        "--agents", action="store_true", help="import new sessions of agents first, too"
    )
    parser.add_argument("--visibility", choices=VISIBILITIES, metavar="X", help=VISIBILITY_HELP)
    parser.add_argument("--dry-run", action="store_true", help="tell what would be done")


def maintain_run(arguments: Namespace, out: Output) -> int:
    """Do what is due in all projects."""
    empty = maintained_dict(Maintained(dry_run=arguments.dry_run))
    brings = arguments.paths or arguments.agents or out.config.settings.memory_dir
    opened = open_to_write if brings and not arguments.dry_run else open_existing
    with opened(out) as memory, or_empty(out, empty):
        messages, trouble = 0, None
        if arguments.agents and not (arguments.dry_run or memory.is_off):
            messages, trouble = _import_sessions(memory, arguments.visibility)
        done = memory.maintain(
            *arguments.paths, dry_run=arguments.dry_run, visibility=arguments.visibility
        )
        if trouble is not None:
            done = done._replace(troubles=(trouble, *done.troubles))
    out.result(maintained_dict(done, messages), maintained_text(done, messages))
    for notice in done.troubles:
        out.error(notice)  # it decides the exit code, so it is told under --quiet too
    if done.pruned.ids and not done.dry_run:
        out.suggest("plait delete --undo", "restore what your rules deleted, within 30 days")
    if done.dry_run and (done.pruned.ids or done.pruned.archived):
        out.suggest("plait prune --all-projects", "list what your rules would delete or archive")
    return 1 if done.troubles else 0


def _import_sessions(memory: Memory, visibility: str | None) -> tuple[int, Notice | None]:
    """Import what agents wrote; return how many messages, and what stopped it."""
    from plait.cli.histories import import_new

    try:
        report = import_new(memory, visibility)
    except StoreReadOnly:
        raise  # nothing else can be done either
    except PlaitError as error:
        return 0, error.notice
    if report.interrupted:
        raise KeyboardInterrupt
    return report.messages, report.trouble


def maintained_dict(done: Maintained, messages: int = 0) -> dict[str, Any]:
    """Return what a run did, for programs."""
    return {
        "files": done.ingested,
        "messages": messages,
        "pruned": pruned_dict(done.pruned, {}, dry_run=done.dry_run),
        "vectors": done.vectors,
        "expired": done.expired,
        "compacted": done.compacted,
        "dry_run": done.dry_run,
    }


def maintained_text(done: Maintained, messages: int = 0) -> str:
    """Return what a run did, for people."""
    would = "would be " if done.dry_run else ""
    parts = [
        (done.ingested, f"{counted(done.ingested, 'file')} indexed or removed"),
        (messages, f"{counted(messages, 'message')} imported"),
        (
            len(done.pruned.ids),
            f"{counted(len(done.pruned.ids), 'document')} {would}deleted by your rules"
            f" ({', '.join(name for name, _ in done.pruned.rules)})",
        ),
        (len(done.pruned.archived), f"{would}archived: {archived_text(done.pruned.archived)}"),
        (done.vectors, f"{counted(done.vectors, 'vector')} {would}made"),
        (done.expired, f"{counted(done.expired, 'document')} left the trash"),
        (done.compacted, f"free space {would}returned to the disk"),
    ]
    lines = [text for count, text in parts if count]
    return "\n".join(lines) or ("" if done.troubles else "Nothing is due.")


class Upkeep:
    """Lets a command that stays open maintain the memory when that is due and wanted."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._next = 0.0 if out.config.settings.maintain_hours is not None else float("inf")

    def look(self) -> None:
        """Maintain the memory if it is due; what goes wrong is told, and tried again later."""
        if monotonic() < self._next:
            return
        self._next = monotonic() + LOOK_S
        try:
            with open_existing(self._out) as memory:
                if is_due(memory):
                    self._run(memory)
        except PlaitError as error:
            self._out.warn(error.notice)

    def _run(self, memory: Memory) -> None:
        done = memory.maintain(light=True)
        if done != Maintained():
            self._out.result(maintained_dict(done), maintained_text(done))
            self._out.warn_all(done.troubles)
            self._out.flush()
