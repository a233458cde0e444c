"""reindex, stats, doctor, backup, export, import: looking after a memory."""

import os
import sys
from argparse import ArgumentParser, Namespace

from plait import present
from plait.cli.filters import add_filters, filters_of
from plait.cli.output import Output
from plait.cli.read import open_to_read
from plait.errors import PlaitError
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
    text = f"{done.chunks} passages indexed, {done.embedded} vectors made"
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
    if not stats.doc_count:
        out.warn(f"the memory at {stats.path} is empty. Start with: plait ingest FOLDER")
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
    parser.add_argument("target", help="the new file")


def backup_run(arguments: Namespace, out: Output) -> int:
    """Copy the memory while it is in use."""
    with Memory.open(config=out.config, create=False) as memory:
        place = memory.backup(arguments.target)
    size = os.stat(place).st_size
    out.result({"path": place, "bytes": size}, f"Copied to {place} ({size:,} bytes)")
    return 0


def export_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait export``."""
    parser.add_argument("target", nargs="?", default="-", help="a new file, or - for stdout")
    add_filters(parser)


def export_run(arguments: Namespace, out: Output) -> int:
    """Write everything as JSON lines."""
    with Memory.open(config=out.config, create=False) as memory:
        lines = memory.export(where=filters_of(arguments) or None)
        if arguments.target == "-":
            for line in lines:
                out.line(line)
            return 0
        # 0600 from the first byte: an export holds everything that is remembered.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            handle = os.open(arguments.target, flags, 0o600)
        except OSError as error:
            raise PlaitError(f"Cannot write {arguments.target}: {error.strerror}.") from error
        count = -1  # the header is no document
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            for line in lines:
                file.write(line + "\n")
                count += 1
    out.result(
        {"path": arguments.target, "documents": count},
        f"Wrote {count} documents to {arguments.target}",
    )
    return 0


def import_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait import``."""
    parser.add_argument("path", help="an export, or - for standard input")


def import_run(arguments: Namespace, out: Output) -> int:
    """Take in an export, all of it or nothing."""
    if arguments.path == "-":
        with Memory.open(config=out.config) as memory:
            count = memory.import_lines(sys.stdin)
    else:
        try:
            with (
                open(arguments.path, encoding="utf-8") as lines,
                Memory.open(config=out.config) as memory,
            ):
                count = memory.import_lines(lines)
        except OSError as error:
            raise PlaitError(f"Cannot read {arguments.path}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise PlaitError(f"{arguments.path} is not UTF-8 text: {error.reason}.") from error
    out.result({"documents": count}, f"Imported {count} documents")
    return 0
