"""delete: delete documents, or restore them."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial

from plait.cli import NOTHING_FOUND, Output
from plait.cli.search import add_filters, filters_of
from plait.cli.shared import loaded, open_existing, or_empty, warn_no_match, warn_of_copies
from plait.errors import UsageError
from plait.memory import Memory
from plait.present.json import deleted_dict
from plait.present.text import deleted_text, restored_text
from plait.types.reports import Deleted


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
        "--purge", action="store_true", help="delete permanently: no undo, no byte left in the file"
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    parser.add_argument("--yes", action="store_true", help="confirm --purge with filters")
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
        return _undo(names, where, out)
    if arguments.purge and where and not (arguments.yes or arguments.dry_run):
        raise UsageError(
            "Purging by filter cannot be undone. Check with --dry-run first, then add --yes."
        )
    with open_existing(out) as memory:
        delete = partial(
            memory.delete,
            *names,
            where=where or None,
            purge=arguments.purge,
            all_projects=arguments.all_projects,
        )
        nothing = deleted_dict(Deleted(doc_ids=tuple(names), purged=arguments.purge))
        with or_empty(out, {**nothing, "doc_ids": [], "dry_run": arguments.dry_run}):
            deleted = delete(dry_run=True)
        files = [] if arguments.dry_run else _files_on_disk(memory, deleted.ids)
        if not arguments.dry_run:
            deleted = delete()
        if not deleted.ids:
            reason = "no document matches; nothing was deleted"
            personal = ("--project personal",) if where and memory.config.project else ()
            warn_no_match(memory, arguments, out, reason, *personal)
    verb = "Would delete" if arguments.dry_run else "Purged" if deleted.purged else "Deleted"
    text = f"{verb} {deleted_text(deleted)}" if deleted.ids else ""
    out.result({**deleted_dict(deleted), "dry_run": arguments.dry_run}, text)
    if not deleted.ids:
        return 0 if memory.is_off else NOTHING_FOUND
    if files:
        out.warn(_files_remain(files))
    warn_of_copies(deleted, out)
    if not (deleted.purged or arguments.dry_run):
        out.suggest("plait delete --undo", "restore, within 30 days")
    return 0


def _files_on_disk(memory: Memory, ids: Sequence[str]) -> list[str]:
    """Return the paths of the documents that are files and still exist."""
    paths = []
    for row in loaded(memory, ids):
        if row.kind == "file" and row.path is not None:
            paths.append(row.path)
    return [path for path in paths if os.path.exists(path)]


def _files_remain(paths: Sequence[str]) -> str:
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


def _undo(names: list[str], where: dict[str, object], out: Output) -> int:
    if where:
        raise UsageError(
            "--undo takes names, or no names for the last delete. It takes no filters."
        )
    with open_existing(out, undo=True) as memory, or_empty(out, {"restored": []}):
        restored = memory.undo(*names)
    ids = [document.doc_id for document in restored]
    out.result({"restored": ids}, f"Restored {restored_text(ids)}" if ids else "")
    return 0
