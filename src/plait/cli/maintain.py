"""reindex, stats, doctor, backup, restore: maintain a memory."""

import os
from argparse import ArgumentParser, Namespace

from plait.cli import Output, as_database_path, in_shell, to_run
from plait.cli.search import open_to_read
from plait.cli.shared import bar, open_existing, or_empty, warn_if_empty
from plait.memory import Memory
from plait.present.json import findings_dict, reindexed_dict, stats_dict
from plait.present.text import counted, findings_text, stats_text
from plait.types.reports import Reindexed


def reindex_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait reindex``."""
    parser.add_argument("--embeddings", action="store_true", help="recompute all vectors")
    parser.add_argument(
        "--compact", action="store_true", help="return unused space to the file system"
    )


def reindex_run(arguments: Namespace, out: Output) -> int:
    """Rebuild the keyword index and make missing vectors; searches keep working meanwhile."""
    with open_existing(out) as memory, or_empty(out, reindexed_dict(Reindexed(0))):
        out.warn_all(notice for notice in memory.opening_notices if notice.code == "no_effect")
        done = memory.reindex(
            embeddings=arguments.embeddings,
            compact=arguments.compact,
            progress=lambda done, total, _: out.step(bar(done, total)),
        )
    out.end_progress()
    value = reindexed_dict(done)
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
        undo, embedder = to_run("plait delete --undo"), memory.embedder.space.spec
        out.result(stats_dict(stats), stats_text(stats, undo, embedder))
        warn_if_empty(memory, out)
    return 0


def doctor_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait doctor``."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--fix", action="store_true", help="repair what can be repaired")
    group.add_argument(
        "--salvage",
        type=as_database_path,
        metavar="NEW.db",
        help="copy all that can still be read into a new memory; the old file is not changed",
    )


def doctor_run(arguments: Namespace, out: Output) -> int:
    """Check the memory, and repair it with ``--fix`` or copy it with ``--salvage``."""
    if arguments.salvage is not None:
        return _salvage_run(arguments.salvage, out)
    from plait.agents.connecting.checking import check_connections
    from plait.cli.connect import chosen_launch, machine_here

    findings = [
        *Memory.examine(out.config.settings.db_path, fix=arguments.fix, config=out.config),
        *check_connections(machine_here(), chosen_launch({})),
    ]
    out.result(
        findings_dict(findings, in_shell),
        findings_text(findings, in_shell, color=out.color),
    )
    return 1 if any(finding.level == "error" for finding in findings) else 0


def _salvage_run(target: str, out: Output) -> int:
    """Copy what can be read of a damaged memory into a new one, and finish that."""
    from plait.present.json import salvaged_dict
    from plait.present.text import salvaged_text

    done = Memory.salvage(
        out.config.settings.db_path, target, config=out.config_with(db_path=target)
    )
    out.result(salvaged_dict(done), salvaged_text(done))
    out.suggest("plait reindex", "make its vectors", db_path=done.target)
    return 1 if done.lost else 0


def backup_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait backup``."""
    parser.add_argument("target", type=as_database_path, metavar="FILE", help="the new file")


def backup_run(arguments: Namespace, out: Output) -> int:
    """Copy the memory while it is in use."""
    with open_existing(out) as memory:
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
    done = Memory.restore(arguments.source, undo=arguments.undo, config=out.config)
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
