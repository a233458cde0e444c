"""Many doors at once, every write verb, kill -9 of process groups: no acknowledged act is lost."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from plait.memory import Memory
from plait.types import TRUSTS, Document, Filter
from tests.interfaces.command import ROOT, environment
from tests.reliability.processes import posix_only
from tests.reliability.scale import SCALE

pytestmark = [posix_only, pytest.mark.slow]

EVERYTHING = Filter(trusts=TRUSTS, all_versions=True)
DOORS = ("library", "library", "command line", "server")
# Between two kills: long enough for acts to be acknowledged, short enough to hit many of them.
PAUSE_S = (0.3, 1.5)


class Workers:
    """Processes that work on one memory, each in a project and a process group of its own."""

    def __init__(self, folder: Path, plant: str = "") -> None:
        self._folder, self._plant = folder, plant
        self.database = folder / "memory.db"
        self._lives = [0] * len(DOORS)
        self._running = [self._start(number) for number in range(len(DOORS))]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        name, life = f"w{number}", str(self._lives[number])
        self._lives[number] += 1
        words = [DOORS[number], str(self.database), str(self._folder), name, life, self._plant]
        with (self._folder / f"{name}.errors").open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.reliability.chaos_worker", *words],
                cwd=ROOT,
                env=environment(
                    HOME=str(self._folder), PYTHONPATH=f"{ROOT / 'src'}{os.pathsep}{ROOT}"
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def kill(self, number: int, *, again: bool = True) -> None:
        """Kill a worker and all its processes at once; start it again."""
        process = self._running[number]
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if again:
            self._running[number] = self._start(number)

    def stop(self) -> None:
        """Kill everybody."""
        for number in range(len(DOORS)):
            self.kill(number, again=False)

    def ledgers(self) -> dict[str, list[dict[str, object]]]:
        """What each worker wrote down; the last line may be cut off by its end."""
        written = {}
        for path in sorted(self._folder.glob("*.ledger")):
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
            written[path.stem] = [json.loads(line) for line in lines]
        return written

    def errors(self) -> list[str]:
        """What workers printed before they ended by themselves."""
        texts = [path.read_text(encoding="utf-8") for path in self._folder.glob("*.errors")]
        return [text[-2_000:] for text in texts if text.strip()]


@contextmanager
def working(folder: Path, plant: str = "") -> Iterator[Workers]:
    folder.mkdir()
    workers = Workers(folder, plant)
    try:
        yield workers
    finally:
        workers.stop()


def disturb(workers: Workers, seconds: float) -> None:
    """Kill a random worker again and again."""
    dice = random.Random(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(dice.uniform(*PAUSE_S))
        workers.kill(dice.randrange(len(DOORS)))
    workers.stop()


class Oracle:
    """What must be in the memory by the ledgers: for each name, every text it may have."""

    def __init__(self, ledgers: dict[str, list[dict[str, object]]]) -> None:
        self.allowed: dict[str, set[str | None]] = {}
        self.purged: set[str] = set()
        self.acknowledged = 0
        self._ever: dict[str, set[str | None]] = {}
        for lines in ledgers.values():
            self._read(lines)

    def _read(self, lines: list[dict[str, object]]) -> None:
        begun: dict[str, object] | None = None
        for line in lines:
            if "begun" in line:
                self._end(begun, sure=False)
                begun = line
            else:
                self.acknowledged += "done" in line
                if begun is not None and "done" in line:
                    self._end(begun, sure=True)
                begun = None
        self._end(begun, sure=False)

    def _end(self, act: dict[str, object] | None, *, sure: bool) -> None:
        if act is None:
            return
        outcome = act["begun"]
        assert isinstance(outcome, dict)
        purged = act.get("purged", [])
        assert isinstance(purged, list)
        for name in purged if sure else ():
            self.purged |= {text for text in self._ever.get(name, ()) if text is not None}
        for name, text in outcome.items():
            known = self.allowed.get(name, {None})
            self.allowed[name] = {text} if sure else known | {text}
            self._ever.setdefault(name, {None}).add(text)
        if name := act.get("any"):
            self.allowed[str(name)] = self._ever.get(str(name), {None}) | {None}


def contents(memory: Memory) -> dict[str, list[str]]:
    """The texts of the memory by the names that the workers use."""
    held: dict[str, list[str]] = {}
    ids = [document.id for document in memory.engine.scan(EVERYTHING)]
    for document in memory.engine.load(ids):
        for name in names_of(document):
            held.setdefault(name, []).append(document.text)
    return held


def names_of(document: Document) -> list[str]:
    if document.kind == "file":
        return [f"file {document.path}"]
    if document.kind == "note":
        return [document.key or ""]
    if document.topic is not None:
        return [f"topic {document.topic}"] if document.valid_to is None else []
    if document.kind == "observation":
        return [f"fact {document.text.split()[1]}"]
    return []


def problems_of(workers: Workers) -> list[str]:
    """Everything that is wrong with the memory after the workers are gone."""
    oracle = Oracle(workers.ledgers())
    assert oracle.acknowledged > len(DOORS), workers.errors()
    problems = workers.errors()
    with Memory.open(workers.database, project="") as memory:
        memory.reindex()
        problems += [f"{row.check}: {row.message}" for row in memory.doctor() if row.level != "ok"]
        held = contents(memory)
        for name in sorted(oracle.allowed.keys() | held.keys()):
            allowed, texts = oracle.allowed.get(name, {None}), held.get(name, [])
            if len(texts) > 1:
                problems.append(f"{name} is there {len(texts)} times")
            if (texts[0] if texts else None) not in allowed:
                problems.append(f"{name} is {texts}, not one of {allowed}")
    paths = [Path(f"{workers.database}{suffix}") for suffix in ("", "-wal", "-shm")]
    left = b"".join(path.read_bytes() for path in paths if path.exists())
    gone = oracle.purged - {text for texts in held.values() for text in texts}
    problems += [f"purged, but there: {text}" for text in gone if text.encode() in left]
    return problems


def test_no_acknowledged_act_is_lost_through_any_door(tmp_path: Path) -> None:
    with working(tmp_path / "chaos") as workers:
        disturb(workers, SCALE.chaos_seconds)
        assert problems_of(workers) == []


@pytest.mark.parametrize("plant", ["lost slice", "cross-project undo"])
def test_the_chaos_catches(tmp_path: Path, plant: str) -> None:
    for attempt in range(6):
        with working(tmp_path / f"chaos{attempt}", plant) as workers:
            disturb(workers, SCALE.load_seconds)
            if problems_of(workers):
                return
    pytest.fail(f"nothing was wrong with the bug: {plant}")
