"""delete: delete documents, or restore them."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from plait.cli import NOTHING_FOUND, Output
from plait.cli.pace import Pace
from plait.cli.search import add_filters, filters_of
from plait.cli.shared import (
    add_verbose,
    first_unnamed,
    loaded,
    open_existing,
    or_empty,
    tell_of_others,
    warn_no_match,
    warn_of_copies,
)
from plait.cli.timeline import add_saved, saved_day
from plait.errors import NotFound, UsageError
from plait.memory import Memory
from plait.present.deleting import deleted_text, restored_text
from plait.present.json import deleted_dict
from plait.present.text import NAMES_SHOWN
from plait.types.reports import Deleted
from plait.writing.backfill import Progress


def delete_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait delete``."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="an id or its first six or more characters, or a key",
    )
    parser.add_argument(
        "--doc-id",
        "--key",
        dest="keys",
        action="append",
        default=[],
        metavar="NAME",
        help="a name, as an option",
    )
    parser.add_argument(
        "--undo",
        action="store_true",
        help="restore what the last delete or ingest in this project removed, or the documents you "
        "name",
    )
    parser.add_argument(
        "--purge", action="store_true", help="delete permanently: no undo, no trace in the memory"
    )
    add_saved(parser, "delete what hooks saved (auto_save), of this day or month if one is given")
    parser.add_argument(
        "--dry-run", action="store_true", help="only print what would be deleted or restored"
    )
    parser.add_argument(
        "--yes", action="store_true", help="confirm --purge with filters or --saved"
    )
    add_verbose(parser)
    add_filters(
        parser,
        "delete in all projects; otherwise names refer to this project or to personal documents, "
        "and filters to this project only (personal documents: --project personal)",
    )


def delete_run(arguments: Namespace, out: Output) -> int:
    """Delete documents, or restore them."""
    names = [*arguments.names, *arguments.keys]
    where = filters_of(arguments)
    if arguments.undo:
        return _undo(arguments, names, where, out)
    day = saved_day(arguments)
    is_listed = bool(where) or day is not None
    if arguments.purge and is_listed and not (arguments.yes or arguments.dry_run):
        raise UsageError(
            "Purging by filter cannot be undone. Check with --dry-run first, then add --yes."
        )
    with stoppable(out, "deleted") as show, open_existing(out) as memory:
        nothing = deleted_dict(Deleted(doc_ids=tuple(names), purged=arguments.purge))
        with or_empty(out, {**nothing, "doc_ids": [], "dry_run": arguments.dry_run}):
            if day is not None:
                names = _saved(memory, arguments, day, alone=not (names or where))
            delete = partial(
                memory.delete,
                *names,
                where=where or None,
                purge=arguments.purge,
                all_projects=arguments.all_projects,
            )
            deleted = delete(dry_run=True)
        # What is purged must not stay on the screen.
        is_shown = arguments.dry_run or not arguments.purge
        verbose = arguments.verbose and is_shown
        unnamed = first_unnamed(memory, deleted.ids, verbose=verbose) if is_shown else {}
        files = [] if arguments.dry_run else files_on_disk(memory, deleted.ids)
        if not arguments.dry_run:
            deleted = delete(progress=show)
            out.end_progress()
        if not deleted.ids:
            reason = "no document matches; nothing was deleted"
            personal = ("--project personal",) if where and memory.config.project else ()
            warn_no_match(memory, arguments, out, reason, *personal)
    verb = "Would delete" if arguments.dry_run else "Purged" if deleted.purged else "Deleted"
    text = f"{verb} {deleted_text(deleted, unnamed, verbose=verbose)}" if deleted.ids else ""
    out.result({**deleted_dict(deleted), "dry_run": arguments.dry_run}, text)
    if not deleted.ids:
        return 0 if memory.is_off else NOTHING_FOUND
    if arguments.dry_run:
        tell_of_others(len(deleted.ids), NAMES_SHOWN, arguments, out)
    if files:
        out.warn(files_remain(files))
    warn_of_copies(deleted, out)
    if not (deleted.purged or arguments.dry_run):
        out.suggest("plait delete --undo", "restore, within 30 days")
    return 0


@contextmanager
def stoppable(out: Output, done: str) -> Iterator[Progress]:
    """Yield how to show progress; say at Ctrl-C that nothing was done if no slice was."""
    pace, begun = Pace(out), False

    def show(count: int, total: int, name: str) -> None:
        nonlocal begun
        begun = True
        pace.show(count, total, name)

    try:
        yield show
    except KeyboardInterrupt as stop:
        if stop.args or begun:
            raise  # whoever did it says how far it came
        raise KeyboardInterrupt(f"Interrupted: nothing was {done}.") from stop
    finally:
        out.end_progress()


def _saved(memory: Memory, arguments: Namespace, day: str, *, alone: bool) -> list[str]:
    """Return the ids of what hooks saved."""
    from plait.agents.hooks.saving import saved_messages

    if not alone:
        raise UsageError("--saved takes a day, and neither names nor filters.")
    ids = [row.id for row in saved_messages(memory, day, all_projects=arguments.all_projects)]
    if not ids:
        raise NotFound("Hooks have saved nothing here.", code="nothing_saved", subject=day)
    return ids


def files_on_disk(memory: Memory, ids: Sequence[str]) -> list[str]:
    """Return the paths of the documents that are files and still exist."""
    paths = []
    for row in loaded(memory, ids):
        if row.kind == "file" and row.path is not None:
            paths.append(row.path)
    return [path for path in paths if os.path.exists(path)]


def files_remain(paths: Sequence[str]) -> str:
    """Say that deleted files come back with the next ingest, and how to keep them out."""
    from plait.writing.sources import IGNORE_FILE

    if len(paths) == 1:
        return (
            f"the file is still at {paths[0]}: the next ingest adds it again. "
            f"To keep it out, list it in {IGNORE_FILE}"
        )
    return (
        f"{len(paths):,} files are still on disk, such as {paths[0]}: the next ingest adds "
        f"them again. To keep them out, list them in {IGNORE_FILE}"
    )


def _undo(arguments: Namespace, names: list[str], where: dict[str, object], out: Output) -> int:
    if where:
        raise UsageError(
            "--undo takes names, or no names for the last delete. It takes no filters."
        )
    for option in ("purge", "saved"):
        if getattr(arguments, option) not in (None, False):
            raise UsageError(f"--undo restores, and --{option} deletes. Leave one of them out.")
    is_dry = arguments.dry_run
    nothing = {"restored": [], "dry_run": is_dry}
    with (
        stoppable(out, "restored") as show,
        open_existing(out, undo=True) as memory,
        or_empty(out, nothing),
    ):
        restored = memory.undo(*names, dry_run=is_dry, progress=show)
    ids = [document.doc_id for document in restored]
    verb = "Would restore" if is_dry else "Restored"
    text = f"{verb} {restored_text(restored)}" if ids else ""
    out.result({"restored": ids, "dry_run": is_dry}, text)
    return 0
