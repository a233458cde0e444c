"""Measure searches by a fresh process: what an agent or a person at a shell waits for."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from measure import Process, Spread, plain_environment, processes, spread

ROOT = Path(__file__).resolve().parent.parent
STARTS = 20


class Installed(NamedTuple):
    """An environment with plait in it, and how it was installed."""

    folder: Path
    how: str

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def plait(self) -> str:
        return str(self.folder / "bin" / "plait")


def install(folder: Path) -> Installed:
    """Install plait into a new environment; without a network, use the current one."""
    fresh = folder / "venv"
    venv.create(fresh, with_pip=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(fresh / "bin" / "python"), "-m", "pip", "install", "--quiet", str(ROOT)],
        env={**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return Installed(fresh, "pip install . into a new virtual environment")
    shutil.rmtree(fresh)
    sys.stderr.write(f"pip install failed, measuring this environment instead:\n{done.stderr}\n")
    return Installed(Path(sys.prefix), "the environment that ran the benchmark")


class Fresh(NamedTuple):
    """CPU milliseconds and peak memory of fresh processes."""

    cpu: Spread
    rss_mb: float


def _cost(costs: Sequence[Process]) -> Fresh:
    failed = [process.code for process in costs if process.code not in (0, 3)]
    if failed:
        raise SystemExit(f"a measured process ended with exit code {failed[0]}")
    return Fresh(spread(cost.cpu_ms for cost in costs), max(cost.rss_mb for cost in costs))


def starts(installed: Installed, home: Path) -> dict[str, Fresh]:
    """Measure processes that search nothing: the cost of Python and the imports."""
    commands = {
        "python -c pass": [installed.python, "-c", "pass"],
        "import plait": [installed.python, "-c", "import plait"],
        "import plait.memory": [installed.python, "-c", "import plait.memory"],
        "plait --version": [installed.plait, "--version"],
    }
    # In turns, so that a busy moment of the machine affects all of them equally.
    costs = processes(list(commands.values()) * (STARTS + 1), plain_environment(home))
    number = len(commands)
    return {name: _cost(costs[number + place :: number]) for place, name in enumerate(commands)}


def modules(installed: Installed, home: Path, statement: str) -> int:
    """Return how many modules a statement loads beyond the interpreter's own."""
    counted = (
        f"import sys; before = len(sys.modules); {statement}; print(len(sys.modules) - before)"
    )
    done = subprocess.run(
        [installed.python, "-c", counted],
        env=plain_environment(home),
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


def search(
    installed: Installed, home: Path, path: Path, asked: Sequence[str], *options: str
) -> Fresh:
    """Run ``plait search`` once per query, each in its own process."""
    common = [installed.plait, "search", "--db", str(path), *options, "--query"]
    environment = plain_environment(home)
    processes([[*common, asked[0]]], environment)  # compiles the bytecode, fills the page cache
    return _cost(processes([[*common, query] for query in asked], environment))
