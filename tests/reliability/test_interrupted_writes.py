"""Ctrl-C at any step of a transaction leaves none open."""

import subprocess
import sys
from pathlib import Path

LEAST_POINTS = 100


def test_an_ingest_that_is_interrupted_anywhere_leaves_no_transaction_open(tmp_path: Path) -> None:
    child = [sys.executable, "-m", "tests.reliability.interrupt_child", str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(child, capture_output=True, encoding="utf-8", cwd=root, check=False)
    *problems, last = done.stdout.splitlines() or [""]
    assert problems == [] and done.returncode == 0, done.stderr
    assert int(last.removeprefix("points ")) > LEAST_POINTS
