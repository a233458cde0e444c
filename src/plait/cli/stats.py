"""stats: how much is in a memory."""

from argparse import ArgumentParser, Namespace

from plait.cli import NOTHING_FOUND, Output, to_run
from plait.cli.search import open_to_read
from plait.cli.shared import warn_if_empty
from plait.present.json import stats_dict
from plait.present.text import stats_text


def stats_options(parser: ArgumentParser) -> None:
    """Declare no options: ``plait stats`` has none of its own."""


def stats_run(arguments: Namespace, out: Output) -> int:
    """Print how much is in the memory."""
    with open_to_read(out) as memory:
        stats = memory.stats()
        undo, embedder = to_run("plait delete --undo"), memory.embedder.space.spec
        out.result(stats_dict(stats), stats_text(stats, undo, embedder))
        warn_if_empty(memory, out)
        return 0 if memory.is_there or memory.is_off else NOTHING_FOUND
