"""reindex: rebuild the indexes of a memory."""

from argparse import ArgumentParser, Namespace

from plait.cli import Output, in_shell
from plait.cli.shared import bar, open_existing, or_empty
from plait.present.json import reindexed_dict
from plait.present.text import counted
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
