"""Measure what the audit log costs a store: CPU time with and without it, in turns.

    .venv/bin/python benchmarks/audit.py

Prints the median ratio of rounds in which both ways store as many facts, one transaction each.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

from plait import Memory
from plait.stores.sqlite.audit import Recorder

ROUNDS = 14
FACTS = 60


def stored(memory: Memory, first: int) -> float:
    """Store facts and return the CPU time in seconds."""
    began = time.process_time()
    for number in range(first, first + FACTS):
        memory.store(f"Fact {number} says that service {number * 7} listens on port {number}")
    return time.process_time() - began


def main() -> None:
    """Print the ratio for the built-in model and for none."""
    without = {"finish": lambda self, now: None, "change": lambda self, *rows: None}
    for embedder in ("builtin", "none"):
        ratios, costs = [], []
        with (
            tempfile.TemporaryDirectory() as folder,
            Memory.open(Path(folder) / "memory.db", project="", embedder=embedder) as memory,
        ):
            stored(memory, 0)
            for turn in range(ROUNDS):
                seconds = {}
                for place, logs in enumerate((turn % 2 == 0, turn % 2 == 1)):
                    first = (2 * turn + place + 1) * FACTS
                    if logs:
                        seconds[True] = stored(memory, first)
                    else:
                        with mock.patch.multiple(Recorder, **without):
                            seconds[False] = stored(memory, first)
                ratios.append(seconds[True] / seconds[False])
                costs.append(1000 * seconds[False] / FACTS)
        sys.stdout.write(
            f"{embedder}: {statistics.median(ratios):.3f} times the CPU time, "
            f"{statistics.median(costs):.2f} ms a store without it\n"
        )


if __name__ == "__main__":
    main()
