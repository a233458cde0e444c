"""export and import: documents and relations as JSON lines."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from plait.cli import Output, as_path
from plait.cli.search import add_filters, filters_of
from plait.cli.shared import open_existing, tell_damaged, vectors_missing, warn_if_empty
from plait.errors import PlaitError, UsageError, lacks_descriptors
from plait.memory import Memory
from plait.present.text import counted


def export_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait export``."""
    parser.add_argument(
        "target",
        nargs="?",
        type=as_path,
        default="-",
        metavar="FILE",
        help="a new file, or - for standard output",
    )
    parser.add_argument(
        "--graph",
        action="store_true",
        help="only entities and relations, in the format of the MCP reference memory server",
    )
    add_filters(parser)


def export_run(arguments: Namespace, out: Output) -> int:
    """Write documents and relations as JSON lines."""
    with open_existing(out) as memory:
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
            warn_if_empty(memory, out)
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
        except BaseException:
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
    parser.add_argument(
        "path", type=as_path, metavar="FILE", help="an export, or - for standard input"
    )


def import_run(arguments: Namespace, out: Output) -> int:
    """Read an export, all of it or nothing."""
    path = arguments.path
    name = "Standard input" if path == "-" else path
    try:
        # closefd: the parent process owns standard input.
        source = sys.stdin.fileno() if path == "-" else path
        with (
            open(source, encoding="utf-8", closefd=path != "-") as lines,
            Memory.open(config=out.config) as memory,
        ):
            done = memory.import_lines(lines)
    except OSError as error:
        if lacks_descriptors(error):
            raise
        raise PlaitError(f"Cannot read {name}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise PlaitError(
            f"{name} is not an export: it is not UTF-8 text ({error.reason}). Nothing was imported."
        ) from error
    text = f"Imported {counted(done.added, 'document')}"
    if done.replaced or done.kept:
        text += f"; {done.replaced:,} replaced, {done.kept:,} kept"
    if done.relations:
        text += f"; {counted(done.relations, 'relation')}"
    counts = done._asdict()
    trouble = counts.pop("trouble")
    out.result({"documents": done.added + done.replaced, **counts}, text)
    out.warn_all(vectors_missing(trouble))
    if done.untrusted_relations:
        left_out = counted(done.untrusted_relations, "relation")
        out.warn(f"left out {left_out} with untrusted text")
    if done.unknown:
        out.warn(f"unknown fields were ignored: {', '.join(done.unknown)}")
    return 0
