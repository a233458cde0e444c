"""reindex, stats, doctor, backup, export, import: looking after a memory."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable

from plait import present
from plait.cli.filters import add_filters, filters_of
from plait.cli.output import Output
from plait.cli.read import open_to_read, say_if_empty, suggesting
from plait.cli.verbs import place
from plait.errors import PlaitError, UsageError
from plait.memory import Memory


def reindex_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait reindex``."""
    parser.add_argument("--embeddings", action="store_true", help="make every vector anew")
    parser.add_argument("--compact", action="store_true", help="give free space back")


def reindex_run(arguments: Namespace, out: Output) -> int:
    """Rebuild the keyword index and make missing vectors, while searches go on."""
    with Memory.open(config=out.config, create=False) as memory:
        done = memory.reindex(
            embeddings=arguments.embeddings, compact=arguments.compact, progress=out.progress
        )
    out.end_progress()
    value = {
        "status": "ok" if done.trouble is None else "partial",
        "chunks": done.chunks,
        "embedded": done.embedded,
        "rechunked": done.rechunked,
        "swapped": done.swapped,
    }
    text = f"{present.counted(done.chunks, 'passage')} indexed, "
    text += f"{present.counted(done.embedded, 'vector')} made"
    out.result(value, text)
    if done.trouble is not None:
        out.warn(f"some vectors are still missing: {done.trouble}")
        return 1
    return 0


def stats_options(parser: ArgumentParser) -> None:
    """``plait stats`` has no options of its own."""


def stats_run(arguments: Namespace, out: Output) -> int:
    """Say how much is in the memory."""
    with open_to_read(out) as memory:
        stats = memory.stats()
        out.result(present.stats_dict(stats), present.stats_text(stats))
        say_if_empty(memory, out)
    return 0


def doctor_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait doctor``."""
    parser.add_argument("--fix", action="store_true", help="mend what can be mended")


def doctor_run(arguments: Namespace, out: Output) -> int:
    """Examine the memory."""
    with Memory.open(config=out.config, create=False) as memory:
        findings = memory.doctor(fix=arguments.fix)
    out.result(present.findings_dict(findings), present.findings_text(findings, color=out.color))
    return 1 if any(finding.level == "error" for finding in findings) else 0


def backup_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait backup``."""
    parser.add_argument("target", type=place, metavar="FILE", help="the new file")


def backup_run(arguments: Namespace, out: Output) -> int:
    """Copy the memory while it is in use."""
    with Memory.open(config=out.config, create=False) as memory:
        copy = memory.backup(arguments.target)
    size = os.stat(copy).st_size
    out.result({"path": copy, "bytes": size}, f"Copied to {copy} ({size:,} bytes)")
    return 0


def export_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait export``."""
    parser.add_argument(
        "target",
        nargs="?",
        type=place,
        default="-",
        metavar="FILE",
        help="a new file, or - for stdout",
    )
    parser.add_argument(
        "--graph",
        action="store_true",
        help="only entities and relations, as the reference memory server's JSON lines",
    )
    add_filters(parser)


def export_run(arguments: Namespace, out: Output) -> int:
    """Write everything as JSON lines."""
    with Memory.open(config=out.config, create=False) as memory:
        where = filters_of(arguments)
        if arguments.graph and where:
            raise UsageError("--graph writes the current graph of the project; it has no filters.")
        lines = (
            memory.export_graph()
            if arguments.graph
            else memory.export(where=where or None, all_projects=arguments.all_projects)
        )
        noun = "line" if arguments.graph else "document"
        with suggesting(memory, entities=where.get("entity", ())):
            if arguments.target == "-":
                for line in lines:
                    out.line(line)
                say_if_empty(memory, out)
                return 0
            count = _write_new(arguments.target, lines)
        out.result(
            {"path": os.path.abspath(arguments.target), f"{noun}s": count},
            f"Wrote {present.counted(count, noun)} to {arguments.target}",
        )
        say_if_empty(memory, out)
    return 0


# How the header of an export and its relations begin.
_NO_DOCUMENT = ('{"format"', '{"relation"')


def _write_new(target: str, lines: Iterable[str]) -> int:
    """Write lines to a file that did not exist, whole or not at all; its number of documents."""
    count = 0
    try:
        # 0600 from the first byte: an export holds everything that is remembered.
        handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                for line in lines:
                    file.write(line + "\n")
                    count += not line.startswith(_NO_DOCUMENT)
        except BaseException:
            os.unlink(target)
            raise
    except FileExistsError as error:
        raise UsageError(f"{target} exists already. Choose another name for the export.") from error
    except OSError as error:
        raise PlaitError(
            f"Cannot write {target}: {error.strerror}. Choose another place."
        ) from error
    return count


def import_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait import``."""
    parser.add_argument(
        "path", type=place, metavar="FILE", help="an export, or - for standard input"
    )


def import_run(arguments: Namespace, out: Output) -> int:
    """Take in an export, all of it or nothing."""
    path = arguments.path
    name = "Standard input" if path == "-" else path
    try:
        # closefd: standard input belongs to whoever started us.
        source = sys.stdin.fileno() if path == "-" else path
        with (
            open(source, encoding="utf-8", closefd=path != "-") as lines,
            Memory.open(config=out.config) as memory,
        ):
            done = memory.import_lines(lines)
    except OSError as error:
        raise PlaitError(f"Cannot read {name}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise PlaitError(
            f"{name} is no export: it is not UTF-8 text ({error.reason}). Nothing was imported."
        ) from error
    text = f"Imported {present.counted(done.added, 'document')}"
    if done.replaced or done.kept:
        text += f"; {done.replaced:,} written again, {done.kept:,} left as they were here"
    if done.relations:
        text += f"; {present.counted(done.relations, 'relation')}"
    out.result({"documents": done.added + done.replaced, **done._asdict()}, text)
    if done.unknown:
        out.warn(f"fields that have no place here were left out: {', '.join(done.unknown)}")
    return 0
