"""reindex, stats, doctor, backup: maintain a memory."""

import os
from argparse import ArgumentParser, Namespace

from plait.cli import Output, as_path, in_shell
from plait.cli.search import open_to_read
from plait.cli.shared import open_existing, warn_if_empty
from plait.present.json import findings_dict, stats_dict
from plait.present.text import counted, findings_text, stats_text


def reindex_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait reindex``."""
    parser.add_argument("--embeddings", action="store_true", help="recompute all vectors")
    parser.add_argument(
        "--compact", action="store_true", help="return unused space to the file system"
    )


def reindex_run(arguments: Namespace, out: Output) -> int:
    """Rebuild the keyword index and make missing vectors; searches keep working meanwhile."""
    with open_existing(out) as memory:
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
    text = f"{counted(done.chunks, 'passage')} indexed, {done.embedded:,} embedded"
    out.result(value, text)
    if done.trouble is not None:
        out.warn(f"some vectors are still missing: {in_shell(done.trouble)}")
        return 1
    return 0


def stats_options(parser: ArgumentParser) -> None:
    """Declare no options: ``plait stats`` has none of its own."""


def stats_run(arguments: Namespace, out: Output) -> int:
    """Print how much is in the memory."""
    with open_to_read(out) as memory:
        stats = memory.stats()
        out.result(stats_dict(stats), stats_text(stats, undo="plait delete --undo"))
        warn_if_empty(memory, out)
    return 0


def doctor_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait doctor``."""
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired")


def doctor_run(arguments: Namespace, out: Output) -> int:
    """Check the memory, and repair it with ``--fix``."""
    with open_existing(out) as memory:
        findings = memory.doctor(fix=arguments.fix)
    out.result(
        findings_dict(findings, in_shell),
        findings_text(findings, in_shell, color=out.color),
    )
    return 1 if any(finding.level == "error" for finding in findings) else 0


def backup_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait backup``."""
    parser.add_argument("target", type=as_path, metavar="FILE", help="the new file")


def backup_run(arguments: Namespace, out: Output) -> int:
    """Copy the memory while it is in use."""
    with open_existing(out) as memory:
        copy = memory.backup(arguments.target)
    size = os.stat(copy).st_size
    out.result({"path": copy, "bytes": size}, f"Copied to {copy} ({size:,} bytes)")
    return 0
