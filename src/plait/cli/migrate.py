"""migrate: move a memory from a file into a database, or back."""

import os
from argparse import ArgumentParser, Namespace

from plait.cli import Output, as_database_path, to_run
from plait.cli.shared import bar, or_empty
from plait.errors import NotFound, Notice, PlaitError, UsageError, advise, shell_word
from plait.memory.opening import MEMORY_OFF
from plait.present.json import migrated_dict
from plait.present.text import counted
from plait.types.ids import is_address
from plait.types.reports import Migrated

_STOPPED = Notice("Stopped. Run the same command again to go on, or with --drop to undo it.")


def migrate_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait migrate``."""
    parser.add_argument(
        "--from",
        dest="source",
        type=as_database_path,
        metavar="PLACE",
        help="the memory to move: a file, or postgresql://…?namespace=NAME; by default yours",
    )
    parser.add_argument(
        "--to",
        dest="target",
        type=as_database_path,
        metavar="PLACE",
        required=True,
        help="where to: a new file, or postgresql://…?namespace=NAME",
    )
    parser.add_argument(
        "--drop",
        action="store_true",
        help="remove what a move that was not finished has copied there",
    )


def migrate_run(arguments: Namespace, out: Output) -> int:
    """Move a memory, go on with a move that was stopped, or drop it."""
    from plait.exporting import migrating

    if arguments.drop:
        if arguments.source is not None:
            raise UsageError("--drop takes no --from: it removes what was copied.")
        with or_empty(out, {"dropped": None}):
            place = migrating.drop(arguments.target)
        out.result({"dropped": place}, f"Removed the unfinished move at {place}")
        return 0
    settings = out.config.settings
    if arguments.source is None and settings.backend == "none":
        raise NotFound(MEMORY_OFF.text, code=MEMORY_OFF.code)
    source = arguments.source or settings.db_path
    try:
        with or_empty(out, migrated_dict(Migrated(source, arguments.target, (), 0, 0, 0))):
            done = migrating.migrate(
                source,
                arguments.target,
                timeout=settings.sqlite_open_timeout_secs,
                progress=lambda done, total, table: out.step(f"{bar(done, total)} {table}"),
                warn=out.warn,
            )
    except PlaitError as error:
        out.end_progress()
        raise error.with_notice(_of_option(error.notice, arguments)) from error
    except KeyboardInterrupt as stop:
        out.end_progress()
        raise KeyboardInterrupt(_STOPPED) from stop
    out.end_progress()
    out.result(migrated_dict(done), _text(done))
    if done.same < done.queries:
        others = counted(done.queries, "sample query")
        out.error(
            f"{done.queries - done.same:,} of {others} found other passages there. The rows are "
            f"the same; check the indexes: {to_run('plait doctor', db_path=done.target)}"
        )
        return 1
    return 0


def _of_option(notice: Notice, arguments: Namespace) -> Notice:
    """Return an error about a place with the option that names it: here --db may name neither."""
    if notice.code == "no_memory":
        return _of_missing(notice, arguments)
    if notice.advice != advise("choose_file"):
        return notice
    for option, path in (("--to", arguments.target), ("--from", arguments.source)):
        if path is not None and os.path.realpath(path) == os.path.realpath(notice.subject):
            text = f"{notice.text} Choose another file with {option} PATH."
            return notice._replace(text=text, advice=None)
    return notice


def _of_missing(notice: Notice, arguments: Namespace) -> Notice:
    """Return the error that there is no memory to move, with how to see which there are."""
    step = "Check what --from names." if arguments.source else "Name the memory with --from."
    if is_address(notice.subject):
        address = shell_word(notice.subject, "ADDRESS")
        step = to_run(f"To see which there are: plait postgres list {address}")
    return notice._replace(text=f"{notice.text} {step}", advice=None)


def _text(done: Migrated) -> str:
    rows = {table.name: table.rows for table in done.tables}
    moved = f"{counted(rows['documents'], 'document')}, {counted(rows['passages'], 'passage')}"
    lines = [
        f"Moved {done.source} to {done.target}: {moved}",
        f"Verified: {counted(sum(rows.values()), 'row')} in {counted(len(rows), 'table')}, and the "
        f"hits of {done.same:,} of {counted(done.queries, 'sample query')}, are the same",
    ]
    return "\n".join(lines)
