"""backup, restore: copy a memory, and put a copy in its place."""

import os
from argparse import ArgumentParser, Namespace

from plait.cli import Output, as_database_path
from plait.cli.shared import open_existing, or_empty
from plait.errors import NotFound, SourceError
from plait.memory import Memory
from plait.present.text import counted
from plait.types.reports import Restored


def backup_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait backup``."""
    parser.add_argument("target", type=as_database_path, metavar="FILE", help="the new file")


def backup_run(arguments: Namespace, out: Output) -> int:
    """Copy the memory while it is in use."""
    with or_empty(out, {"path": None, "bytes": 0}), open_existing(out) as memory:
        copy = memory.backup(arguments.target)
    size = os.stat(copy).st_size
    out.result({"path": copy, "bytes": size}, f"Copied to {copy} ({size:,} bytes)")
    return 0


def restore_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait restore``."""
    parser.add_argument(
        "source",
        nargs="?",
        type=as_database_path,
        metavar="FILE",
        help="the backup; without one, only rename a journal that belongs to another file",
    )
    parser.add_argument(
        "--undo", action="store_true", help="bring back what the last restore replaced"
    )


def restore_run(arguments: Namespace, out: Output) -> int:
    """Replace the memory by a backup, or undo that."""
    try:
        done = Memory.restore(arguments.source, undo=arguments.undo, config=out.config)
    except NotFound as error:
        if arguments.source is None or error.code != "no_backup":
            if arguments.undo:
                out.result(Restored(out.config.settings.db_path, None)._asdict(), "")
            raise
        # A file that is missing is a failure, as for import and ingest.
        text = f"{error.notice.text} Check the path."
        raise SourceError(text, code=error.code, subject=error.subject) from error
    lines = []
    if done.source is not None:
        count = counted(done.documents or 0, "document")
        lines.append(f"Restored {done.path} from {done.source} ({count})")
    if done.kept is not None:
        lines.append(f"The memory before is kept at {done.kept}")
    if done.journal is not None:
        lines.append(f"The journal of another file is kept at {done.journal}")
    out.result(done._asdict(), "\n".join(lines))
    if done.undoable:
        out.suggest("plait restore --undo", "bring the memory before back")
    elif done.kept is not None:
        why = "it is damaged: save what it has"
        out.suggest("plait doctor --salvage NEW.db", why, db_path=done.kept)
    return 0
