"""Commands as new processes: what an agent or a person at a shell waits for."""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from measure import Process, plain_environment, processes

ROOT = Path(__file__).resolve().parent.parent


HOW = "pip install . into a new virtual environment"
Questions = dict[str, list[str]]


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
    if (fresh / "bin" / "plait").exists():
        return Installed(fresh, HOW)
    venv.create(fresh, with_pip=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(fresh / "bin" / "python"), "-m", "pip", "install", "--quiet", str(ROOT)],
        env={**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode == 0:
        return Installed(fresh, HOW)
    shutil.rmtree(fresh)
    sys.stderr.write(f"pip install failed, measuring this environment instead:\n{done.stderr}\n")
    return Installed(Path(sys.prefix), "the environment that ran the benchmark")


def _searching(kind: str, *options: str) -> Callable[[Questions], list[list[str]]]:
    return lambda asked: [["search", *options, "--query", query] for query in asked[kind]]


# What is asked of each command, by the name of the row.
COMMANDS: dict[str, Callable[[Questions], list[list[str]]]] = {
    "plait search, short question": _searching("short"),
    "plait search, long question": _searching("long"),
    "plait search --mode keyword": _searching("mixed", "--mode", "keyword"),
    "plait search --mode vector": _searching("mixed", "--mode", "vector"),
    "plait search, 1 % pass the filter": _searching("narrow", "--tag", "one"),
    "plait search, stop words": _searching("stop"),
    "plait recall": lambda asked: [["recall", "--query", query] for query in asked["mixed"]],
    "plait get": lambda asked: [["get", key] for key in asked["keys"]],
    "plait timeline": lambda asked: [["timeline"] for _ in asked["mixed"]],
    "plait stats": lambda asked: [["stats"] for _ in asked["mixed"]],
    "plait": lambda asked: [[] for _ in asked["mixed"]],
    "plait store": lambda asked: [["store", f"New: {text[:200]}"] for text in asked["texts"]],
    "plait delete": lambda asked: [["delete", key] for key in asked["keys"]],
}
WRITING = {"plait store", "plait delete"}


def run(
    installed: Installed, path: Path, name: str, asked: Questions, most: int
) -> tuple[list[Process], int]:
    """Run a command once per question; what each cost, and the bytes left in the journal."""
    common = [installed.plait, "--db", str(path), "--project", "personal"]
    environment = plain_environment(path.parent)
    commands = [[*common, *words] for words in COMMANDS[name](asked)][: most + 1]
    # The first one compiles the bytecode and fills the page cache.
    costs = processes(commands, environment)[1:]
    failed = [process.code for process in costs if process.code not in (0, 3)]
    if failed:
        raise SystemExit(f"{name} ended with exit code {failed[0]}")
    journal = path.with_name(f"{path.name}-wal")
    return costs, journal.stat().st_size if journal.exists() else 0


def starting(installed: Installed, home: Path, most: int) -> list[Process]:
    """The cost of Python itself, which every command pays."""
    return processes([[installed.python, "-c", "pass"]] * most, plain_environment(home))
