"""``plait`` alone: where the memory is, what is in it, and three commands to try."""

from argparse import Namespace

from plait import present
from plait.cli.output import Output
from plait.cli.read import open_to_read


def greet(arguments: Namespace) -> int:
    """Say hello to a newcomer, or say what is there."""
    out = Output(arguments)
    with open_to_read(out) as memory:
        stats = memory.stats()
    if stats.doc_count:
        lines = [present.stats_text(stats), "", "Try:"]
        tries = [
            ("plait search WORDS", "find the passages that answer"),
            ("plait timeline --since 7d", "what is new"),
            ('plait store "a fact"', "remember something"),
        ]
    else:
        lines = [f"Your memory will be at {stats.path}; there is nothing in it yet.", "", "Try:"]
        tries = [
            ("plait ingest ~/notes", "index a folder of Markdown"),
            ('plait store "We deploy on Fridays"', "remember something"),
            ("plait search when do we deploy", "ask it"),
        ]
    width = max(len(command) for command, _ in tries)
    lines += [f"  {command:<{width}}  # {why}" for command, why in tries]
    lines.append("\nAll commands: plait --help")
    out.result(present.stats_dict(stats), "\n".join(lines))
    out.flush()
    return 0
