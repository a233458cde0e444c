"""export and import: documents and relations as JSON lines or Markdown files."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from typing import Any

from plait.cli import FORMAT_HELP, FORMS, NOTHING_FOUND, Output, as_path, to_run
from plait.cli.search import add_filters, filters_of, open_memory
from plait.cli.shared import (
    open_existing,
    or_empty,
    refuse_closed_input,
    tell_damaged,
    vectors_missing,
    warn_no_match,
)
from plait.cli.store import VISIBILITY_HELP
from plait.errors import (
    Notice,
    PlaitError,
    UsageError,
    advise,
    lacks_descriptors,
    quoted,
    shell_word,
)
from plait.memory import Memory
from plait.present.text import counted, secret_remark
from plait.types import TRUSTS
from plait.types.ids import is_address
from plait.types.reports import Exported, Imported
from plait.types.visibility import VISIBILITIES

KEPT_SHOWN = 3
# What is imported from these needs no name.
_OWN_FORMATS = ("plait", "markdown", "graph")


def export_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait export``."""
    parser.add_argument(
        "target",
        nargs="?",
        type=as_path,
        default="-",
        metavar="FILE",
        help="a new file, or - for standard output; with --format markdown a folder",
    )
    parser.add_argument(
        "--graph",
        action="store_true",
        help="only entities and relations, in the format of the MCP reference memory server",
    )
    parser.set_defaults(formats=((*FORMS, "markdown"), FORMAT_HELP))
    parser.add_argument(
        "--allow-removal",
        action="store_true",
        help="with --format markdown: remove files even if nearly all of them have to go",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="with --format markdown: write over files that were edited since the last export",
    )
    add_filters(parser)


def export_run(arguments: Namespace, out: Output) -> int:
    """Write documents and relations as JSON lines, or as a folder of Markdown files."""
    if arguments.format == "markdown":
        return _export_folder(arguments, out)
    if arguments.allow_removal or arguments.overwrite:
        raise UsageError("--allow-removal and --overwrite need --format markdown.")
    with open_existing(out) as memory:
        if memory.is_off:
            return NOTHING_FOUND
        where = filters_of(arguments)
        if arguments.graph and where:
            raise UsageError("--graph exports the graph of the project and takes no filters.")
        damaged: list[str] = []
        lines = (
            memory.export_graph(damaged=damaged)
            if arguments.graph
            else memory.export(
                where=where or None, all_projects=arguments.all_projects, damaged=damaged
            )
        )
        noun = "line" if arguments.graph else "document"
        count = 0
        if arguments.target == "-":
            for line in lines:
                out.line(line)
                count += 1
            count -= not arguments.graph  # the header
        else:
            count = _write_new(arguments.target, lines)
            out.result(
                {"path": os.path.abspath(arguments.target), f"{noun}s": count},
                f"Wrote {counted(count, noun)} to {arguments.target}",
            )
        if not count:  # what was written needs no counts, which damaged vectors forbid
            warn_no_match(memory, arguments, out, "nothing was exported")
        absent = 0 if memory.is_there else NOTHING_FOUND
    return tell_damaged(damaged, out) or absent


def _export_folder(arguments: Namespace, out: Output) -> int:
    """Write a folder of Markdown files."""
    out.form = "text" if out.on_terminal and not arguments.json else "json"
    if arguments.target == "-" or arguments.graph:
        raise UsageError(
            "A Markdown export needs a folder, and has no --graph. "
            + to_run("Example: plait export --format markdown notes-snapshot")
        )
    damaged: list[str] = []
    empty = Exported(os.path.abspath(arguments.target))._asdict()
    with or_empty(out, empty), open_existing(out) as memory:
        done = memory.export_folder(
            arguments.target,
            where=filters_of(arguments) or None,
            all_projects=arguments.all_projects,
            allow_removal=arguments.allow_removal,
            overwrite=arguments.overwrite,
            damaged=damaged,
        )
        if not done.documents:
            warn_no_match(memory, arguments, out, "nothing was exported")
    text = (
        f"{counted(done.documents, 'document')} in {arguments.target}: {done.written:,} written, "
        f"{done.unchanged:,} unchanged, {done.removed:,} removed"
    )
    out.result(done._asdict(), text)
    if done.kept:
        shown = ", ".join(quoted(name) for name in done.kept[:KEPT_SHOWN])
        more = f" and {len(done.kept) - KEPT_SHOWN} more" if len(done.kept) > KEPT_SHOWN else ""
        out.warn(
            Notice(
                f"{counted(len(done.kept), 'file')} edited since the last export "
                f"{'stays as it is' if len(done.kept) == 1 else 'stay as they are'}: "
                f"{shown}{more}.",
                "edited_files",
                advice=advise("import_edits", path=arguments.target),
            )
        )
    if done.with_secrets:
        out.warn(
            f"{counted(done.with_secrets, 'written file')} with secrets "
            f"({', '.join(done.secret)}): do not publish the folder"
        )
    return tell_damaged(damaged, out)


# Fields of the lines that are not documents: the header, and relations.
_NO_DOCUMENT = frozenset({"format", "relation"})


def _write_new(target: str, lines: Iterable[str]) -> int:
    """Write lines to a new file, all or none, and return the number of documents."""
    count = 0
    try:
        # Mode 0600 from the first byte: an export contains everything that was stored.
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                for line in lines:
                    file.write(line + "\n")
                    count += _NO_DOCUMENT.isdisjoint(json.loads(line))
        except BaseException:  # all or none, also after Ctrl-C
            os.unlink(target)
            raise
    except FileExistsError as error:
        raise UsageError(f"{target} already exists. Choose another name for the export.") from error
    except OSError as error:
        if lacks_descriptors(error):
            raise
        raise PlaitError(
            f"Cannot write {target}: {error.strerror}. Choose another place."
        ) from error
    return count


def import_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait import``."""
    from plait.agents.histories import READERS

    parser.add_argument(
        "path",
        nargs="?",
        type=as_path,
        metavar="PATH | AGENT",
        help="an export, a folder that export wrote, a database of another system, or - for "
        f"standard input; or whose sessions to import: {', '.join(READERS)}, or auto for all that "
        "are found",
    )
    parser.add_argument(
        "file", nargs="?", type=as_path, metavar="FILE", help="of an agent's sessions only this one"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="count what would be imported; write nothing"
    )
    sessions = parser.add_argument_group("sessions of agents")
    sessions.add_argument(
        "--since", metavar="TIME", help="only sessions used since then, as in 90d"
    )
    sessions.add_argument(
        "--path", dest="folder", type=as_path, metavar="DIR", help="only sessions of this folder"
    )
    sessions.add_argument("--session", metavar="ID", help="only this session, as ID or AGENT:ID")
    sessions.add_argument("--subagents", action="store_true", help="the steps of subagents, too")
    sessions.add_argument("--headless", action="store_true", help="sessions of programs, too")
    sessions.add_argument(
        "--again", action="store_true", help="read files again that were read to their end"
    )
    sessions.add_argument(
        "--undo",
        nargs="?",
        const=True,  # the latest; an empty name is refused
        metavar="RUN",
        help="delete what an import of sessions brought, by default the latest",
    )
    parser.add_argument(
        "--trust",
        choices=TRUSTS,
        default="trusted",
        help="the highest trust that a document gets, whatever the import says",
    )
    parser.add_argument(
        "--visibility",
        choices=VISIBILITIES,
        metavar="X",
        help=f"{VISIBILITY_HELP}; where the import does not say it",
    )
    parser.add_argument(
        "--scopes",
        action="store_true",
        help="import what belongs to users' scopes too, into these scopes",
    )


def import_run(arguments: Namespace, out: Output) -> int:
    """Read an export, all of it or nothing; or the sessions of agents, as far as they are new."""
    from plait.cli import histories

    if histories.is_meant(arguments):
        return histories.run(arguments, out)
    path = arguments.path
    options = {
        "trust": arguments.trust,
        "dry_run": arguments.dry_run,
        "scopes": arguments.scopes,
        "visibility": arguments.visibility,
    }
    if path == "-":
        refuse_closed_input()
    try:
        # What cannot be imported must not leave an empty memory.
        with open_memory(out, create=False) as memory:
            if memory.is_off:
                out.warn_all(memory.opening_notices)
            done = _imported(memory, path, options)
    except UnicodeDecodeError as error:
        raise PlaitError(
            f"Standard input is not an export: it is not UTF-8 text ({error.reason}). Nothing was "
            "imported."
        ) from error
    counts = done._asdict()
    trouble = counts.pop("trouble")
    out.result({"documents": done.added + done.replaced, **counts}, _import_text(done))
    out.warn_all(vectors_missing(trouble))
    _warn_of_import(done, out)
    return 0


def _warn_of_import(done: Imported, out: Output) -> None:
    """Say what was not imported, and what is not as it was."""
    if done.untrusted_relations:
        left_out = counted(done.untrusted_relations, "relation")
        out.warn(f"left out {left_out} with untrusted text")
    if done.scoped:
        out.warn(f"left out {counted(done.scoped, 'record')} of users' scopes; see --scopes")
    if done.unhidden:
        hidden = counted(done.unhidden, "document")
        out.warn(f"{hidden} not all members saw there; here, without members, every reader does")
    if done.unknown:
        out.warn(f"unknown fields were ignored: {', '.join(done.unknown)}")
    for part in done.left_out:
        out.warn(f"not imported: {part}")
    if done.secret and not done.dry_run:
        out.warn(secret_remark(done.secret))


def _imported(memory: Memory, path: str, options: Mapping[str, Any]) -> Imported:
    if path == "-":
        # closefd: the parent process owns standard input.
        with open(sys.stdin.fileno(), encoding="utf-8", closefd=False) as lines:
            return memory.import_lines(lines, **options)
    if not is_address(path):
        _check_readable(path)
    try:
        return memory.import_from(path, **options)
    except UsageError as error:
        if error.code != "own_database" or is_address(path):
            raise
        # Of two commands, the table of advice gives the options to the first one only.
        restore = to_run(f"plait restore {shell_word(path, 'FILE')}")
        text = f"{error.notice.text} If it is a backup: {restore}."
        raise error.with_notice(error.notice._replace(text=text)) from error


def _check_readable(path: str) -> None:
    """Refuse a path that is not there, in the words of this command."""
    try:
        os.stat(path)
    except OSError as error:
        from plait.agents.histories import READERS
        from plait.settings.schema import closest

        agent = closest(path, READERS)
        meant = f" Or did you mean: {to_run(f'plait import {agent}')}" if agent else ""
        raise PlaitError(f"Cannot read {path}: {error.strerror}. Check the path.{meant}") from error


def _import_text(done: Imported) -> str:
    """Return what an import did, or would do."""
    text = f"{'Would import' if done.dry_run else 'Imported'} {counted(done.added, 'document')}"
    others = (
        (done.replaced, "replaced"),
        (done.kept, "kept"),
        (done.unchanged, "unchanged"),
    )
    remarks = [f"{count:,} {outcome}" for count, outcome in others if count]
    text += f"; {', '.join(remarks)}" if remarks else ""
    text += f"; {counted(done.relations, 'relation')}" if done.relations else ""
    return text + (f" (from {done.source})" if done.source not in _OWN_FORMATS else "")
