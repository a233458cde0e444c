"""Many doors at once, every write verb, kill -9 of process groups: no acknowledged act is lost."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from plait.errors import PlaitError
from plait.memory import Memory
from plait.types import Document
from tests.interfaces.command import ROOT, environment
from tests.reliability.chaos_doors import EVERYTHING, MARK, Keeper, mark_of
from tests.reliability.chaos_oracle import Line, Oracle, acts_of, restores_of
from tests.reliability.chaos_worker import Ledger
from tests.reliability.processes import posix_only
from tests.reliability.scale import SCALE

pytestmark = [posix_only, pytest.mark.slow, pytest.mark.unmeasured]

DOORS = ("library", "command line", "server", "watch", "keeper")
# A planted bug shows within seconds; the run ends with the first that does.
BITE_S = 6.0
ATTEMPTS = 30
# Two workers must delete at nearly the same moment, and no restore may hide what came of it: among
# all doors and acts that takes minutes. Without acts of files nobody may watch any.
OF_UNDO = (("library", "library", "command line", "server"), ("_store", "_delete_and_undo"))
PLANTED: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "lost slice": (DOORS, ()),
    "cross-project undo": OF_UNDO,
    "unguarded journal": (DOORS, ()),
}
SEED = os.environ.get("CHAOS_SEED", "1")
# Between two kills: long enough for acts to be acknowledged, short enough to hit many of them.
PAUSE_S = (0.3, 1.5)
BY_HAND = 0.15  # how often a backup is moved over the memory while nobody works
RESTORE_S = 0.1  # about what a restore takes
# On a busy machine most workers would be killed before their first act: most may finish one.
WAITED_FOR = 0.8
PATIENCE_S = 10.0


class Workers:
    """Processes that work on one memory, each in a project and a process group of its own."""

    def __init__(
        self,
        folder: Path,
        plant: str = "",
        doors: Sequence[str] = DOORS,
        only: Sequence[str] = (),
    ) -> None:
        self._folder, self._plant, self._only = folder, plant, only
        self.doors = doors
        self.database = folder / "memory.db"
        self._lives = [0] * len(doors)
        self._written = [0] * len(doors)
        self._running = [self._start(number) for number in range(len(doors))]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        name, life = f"w{number}", f"{SEED}{self._lives[number]:03}"
        self._lives[number] += 1
        self._written[number] = self._ledger_size(number)
        place = [str(self.database), str(self._folder)]
        words = [self.doors[number], *place, name, life, self._plant, *self._only]
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

    def _ledger_size(self, number: int) -> int:
        return sum(path.stat().st_size for path in self._folder.glob(f"w{number}.*er"))

    def has_worked(self, number: int) -> bool:
        """Tell whether a worker wrote anything down in its present life."""
        return self._ledger_size(number) > self._written[number]

    def kill(self, number: int, *, again: bool = True) -> None:
        """Kill a worker and all its processes at once; start it again."""
        process = self._running[number]
        # Before it is waited for, so that the number is still its own; its children may live on.
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if again:
            self._running[number] = self._start(number)

    def stop(self) -> None:
        """Kill everybody."""
        for number in range(len(self.doors)):
            self.kill(number, again=False)

    def ledgers(self) -> list[list[Line]]:
        """What each worker wrote down."""
        return [_lines(path) for path in sorted(self._folder.glob("*.ledger"))]

    def restore_by_hand(self) -> None:
        """Kill everybody, and move a backup over the memory, beside the journal that they left."""
        self.stop()
        marks = [line["saved"] for line in self.ledger("keeper") if "saved" in line]
        if marks and not self.is_restoring():
            copy = self._folder / "moving"
            shutil.copyfile(self._folder / marks[-1], copy)
            copy.chmod(0o600)
            [path] = self._folder.glob("*.keeper")
            # The keeper's next life accepts the file, and writes down that it is there.
            Ledger(path).write(restoring=marks[-1])
            copy.replace(self.database)
        self._running = [self._start(number) for number in range(len(self.doors))]

    def is_restoring(self) -> bool:
        """Tell whether the keeper is about to replace the memory."""
        return "restoring" in (self.ledger("keeper") or [{}])[-1]

    def ledger(self, ending: str) -> list[Line]:
        """What the keeper wrote down."""
        return [line for path in self._folder.glob(f"*.{ending}") for line in _lines(path)]

    def errors(self) -> list[str]:
        """What workers printed before they ended by themselves."""
        texts = [path.read_text(encoding="utf-8") for path in self._folder.glob("*.errors")]
        return [text[-2_000:] for text in texts if text.strip()]


def _lines(path: Path) -> list[Line]:
    """Return the lines of a ledger; the last may be cut off by the end of its writer."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


@contextmanager
def working(
    folder: Path, plant: str = "", doors: Sequence[str] = DOORS, only: Sequence[str] = ()
) -> Iterator[Workers]:
    folder.mkdir()
    workers = Workers(folder, plant, doors, only)
    try:
        yield workers
    finally:
        workers.stop()


def disturb(workers: Workers, seconds: float) -> None:
    """Kill a random worker again and again."""
    dice = random.Random(SEED)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(dice.uniform(*PAUSE_S))
        if dice.random() < BY_HAND:
            workers.restore_by_hand()
        number = dice.randrange(len(workers.doors))
        patience = time.monotonic() + PATIENCE_S * (dice.random() < WAITED_FOR)
        while not workers.has_worked(number) and time.monotonic() < patience:
            time.sleep(0.01)
        is_keeper = workers.doors[number] == "keeper"
        while is_keeper and not workers.is_restoring() and time.monotonic() < end:
            time.sleep(0.005)  # a restore is short, and to be hit
        time.sleep(dice.uniform(0, RESTORE_S))
        workers.kill(number)
    workers.stop()


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
    problems = workers.errors()
    Keeper(str(workers.database)).close()
    with Memory.open(workers.database, project="") as memory:
        memory.reindex()
        problems += [
            f"{row.check}: {row.message}"
            for row in memory.doctor()
            if row.level != "ok" and row.check != "leftovers"
        ]
        memory.doctor(fix=True)  # what killed backups left
        held = contents(memory)
        restores = restores_of(workers.ledger("keeper"), mark_of(memory))
    oracles = [Oracle(acts_of(lines), restores) for lines in workers.ledgers()]
    allowed = {name: texts for oracle in oracles for name, texts in oracle.allowed.items()}
    for name in sorted((allowed.keys() | held.keys()) - {MARK}):
        texts = held.get(name, [])
        if len(texts) > 1:
            problems.append(f"{name} is there {len(texts)} times")
        if (texts[0] if texts else None) not in allowed.get(name, {None}):
            problems.append(f"{name} is {texts}, not one of {allowed.get(name)}")
    left = b"".join(
        path.read_bytes()
        for suffix in ("", "-wal", "-shm")
        if (path := Path(f"{workers.database}{suffix}")).exists()
    )
    gone = {text for oracle in oracles for text in oracle.purged}
    gone -= {text for texts in held.values() for text in texts}
    problems += [f"purged, but there: {text}" for text in gone if text.encode() in left]
    problems += [f"left: {path}" for path in workers.database.parent.glob("*.partial")]
    return problems


def test_no_acknowledged_act_is_lost_through_any_door(tmp_path: Path) -> None:
    with working(tmp_path / "chaos") as workers:
        disturb(workers, SCALE.chaos_seconds)
        assert problems_of(workers) == []
        assert sum(map(len, workers.ledgers())) > len(DOORS)


@pytest.mark.parametrize("plant", PLANTED)
def test_the_chaos_catches(tmp_path: Path, plant: str) -> None:
    for attempt in range(ATTEMPTS):
        with working(tmp_path / f"chaos{attempt}", plant, *PLANTED[plant]) as workers:
            disturb(workers, BITE_S)
            if bites(workers):
                return
    pytest.fail(f"nothing was wrong with the bug: {plant}")


def bites(workers: Workers) -> bool:
    """Tell whether something is wrong, or the memory cannot even be opened."""
    if workers.errors():
        return True
    try:
        return bool(problems_of(workers))
    except PlaitError:
        return True
