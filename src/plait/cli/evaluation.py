"""eval: how well search finds, on folders of questions with known answers."""

from argparse import ArgumentParser, Namespace

from plait.cli.output import Output


def eval_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait eval``."""
    parser.add_argument("folders", nargs="+")


def eval_run(arguments: Namespace, out: Output) -> int:
    """Measure."""
    return 0
