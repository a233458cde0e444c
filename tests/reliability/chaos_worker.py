"""One worker of the chaos test: acts on a memory through one door until it is killed.

    python -m tests.reliability.chaos_worker DOOR DATABASE FOLDER NAME LIFE PLANT [ACT ...]

It owns one project, so it knows what its acts must lead to. Before each act it writes the expected
outcome into its ledger, afterwards that the act was acknowledged. `chaos_oracle` reads the ledger.
One worker, the keeper, replaces the whole memory again and again.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from plait.errors import NotFound, PlaitError
from tests.reliability import plants
from tests.reliability.chaos_doors import (
    PATIENCE_S,
    REPLACED,
    CommandLine,
    Door,
    Keeper,
    Library,
    Server,
    Unsure,
    Watch,
)

NAMES = 6
MANY = 120  # more than two slices of a delete
FILES = 5

# What a name leads to: its text, or nothing.
Outcome = dict[str, str | None]


class Ledger:
    """A file of lines, each written at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, **line: object) -> None:
        """Add a line with the moment, which all processes count alike."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "at": time.monotonic()}) + "\n")


class Worker:
    """Chooses acts, and writes down what they must lead to."""

    def __init__(
        self, door: Door, folder: Path, name: str, life: int, only: Sequence[str] = ()
    ) -> None:
        self._door = door
        self._only = only
        self._dice = random.Random(f"{name} {life}")
        self._name, self._life, self._count = name, life, 0
        self._files = folder / name
        self._files.mkdir(exist_ok=True)
        self._ledger = Ledger(folder / f"{name}.ledger")
        self._alive: dict[str, str] = {}

    def act(self) -> None:
        """Do one thing; what others hold back is tried again as another act."""
        self._count += 1
        key = f"{self._name}-{self._dice.randrange(NAMES)}"
        token = f"{self._name}x{self._life}x{self._count}"
        verbs: list[Callable[[str, str], None]] = [
            *[self._store] * 4,
            self._fact,
            self._observe,
            self._delete,
            self._undo,
            *[self._delete_and_undo] * 3,
            self._purge,
            *[self._ingest] * 2,
            self._purge_many,
            self._look_after,
        ]
        chosen = [verb for verb in verbs if not self._only or verb.__name__ in self._only]
        self._dice.choice(chosen)(key, token)

    def _ledgered(self, outcome: Outcome, act: Callable[[], object], **more: object) -> bool:
        """Run an act between two lines of the ledger; a refusal is written down, too."""
        self._ledger.write(begun=outcome, **more)
        try:
            act()
        except NotFound:
            self._ledger.write(refused=True)
            return False
        except Unsure:
            self._ledger.write(unsure=True)
            return False
        except PlaitError as error:
            if error.code not in REPLACED:
                raise
            self._ledger.write(unsure=True)
            return False
        self._ledger.write(done=True)
        self._alive |= {name: text for name, text in outcome.items() if text is not None}
        for name, text in outcome.items():
            if text is None:
                self._alive.pop(name, None)
        return True

    def _store(self, key: str, token: str) -> None:
        text = f"Note {token} of {key} about anchors."
        self._ledgered({key: text}, lambda: self._door.store(text, key=key))

    def _fact(self, key: str, token: str) -> None:
        text = f"The code word is {token}."
        topic = f"{self._name}-topic"
        self._ledgered({f"topic {topic}": text}, lambda: self._door.store(text, topic=topic))

    def _observe(self, key: str, token: str) -> None:
        text = f"Observed {token} there."
        entity = f"{self._name}-entity"
        self._ledgered({f"fact {token}": text}, lambda: self._door.observe(entity, text))

    def _delete(self, key: str, token: str) -> None:
        if key in self._alive:
            self._ledgered({key: None}, lambda: self._door.delete(key))

    def _undo(self, key: str, token: str) -> None:
        if key not in self._alive:
            # What comes back was this worker's, whichever version it is.
            self._ledgered({}, lambda: self._door.undo(key), any=key)

    def _delete_and_undo(self, key: str, token: str) -> None:
        """Undo without a name brings back this project's latest delete, and nobody else's."""
        since = time.monotonic()
        if key in self._alive and self._ledgered({key: None}, lambda: self._door.delete(key)):
            time.sleep(self._dice.uniform(0, 0.1))  # for deletes of others
            self._ledgered({}, self._door.undo, back=key, since=since)

    def _purge(self, key: str, token: str) -> None:
        if key in self._alive:
            self._ledgered({key: None}, lambda: self._door.purge(key), purged=[key])

    def _purge_many(self, key: str, token: str) -> None:
        """Many documents are deleted in slices: each counts."""
        prefix = f"{self._name}-many-{self._life}-{self._count}-"
        outcome: Outcome = {f"{prefix}{n}": f"Note {token}y{n} of many." for n in range(MANY)}
        if self._ledgered(outcome, lambda: self._door.store_many(outcome)):
            gone: Outcome = dict.fromkeys(outcome)
            self._ledgered(gone, lambda: self._door.purge_many(prefix), purged=list(gone))

    def _ingest(self, key: str, token: str) -> None:
        outcome: Outcome = {}
        for number in range(FILES):
            file = self._files / f"{number}.md"
            if number == 0 or self._dice.random() < 0.4:
                text = f"File {token} number {number} about harbours."
                file.write_text(text, encoding="utf-8")
            elif self._dice.random() < 0.1:
                file.unlink(missing_ok=True)
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            outcome[f"file {file}"] = text or None
        self._ledgered(
            outcome,
            lambda: self._door.ingest(self._files),
            watched=isinstance(self._door, Watch),
        )

    def _look_after(self, key: str, token: str) -> None:
        self._ledgered({}, lambda: self._door.look_after(self._dice))


def command(plant: str) -> None:
    """Run the command line with a planted bug, or with none."""
    from plait.cli import main

    with plants.planted(plant):
        sys.exit(main(sys.argv[1:]))


def keep(keeper: Keeper, folder: Path, name: str, life: int) -> None:
    """Make a backup, and replace the memory by it, again and again."""
    dice, ledger = random.Random(f"{name} {life}"), Ledger(folder / f"{name}.keeper")
    # Whether a restore that was killed is done or not, this tells.
    ledger.write(state=keeper.marked())
    for number in range(sys.maxsize):
        mark = f"{name}-{life}-{number}.backup"
        source = str(folder / mark)
        keeper.mark(mark)
        ledger.write(saving=mark)
        keeper.backup(source)
        ledger.write(saved=mark)
        keeper.mark(f"After {mark}")
        time.sleep(dice.uniform(0.1, 1.0))
        ledger.write(restoring=mark)
        keeper.restore(source, dice)
        assert keeper.marked() == mark
        ledger.write(restored=mark)
        time.sleep(dice.uniform(0.1, 1.5))


def patiently(act: Callable[[], object]) -> None:
    """Do something again until the memory that was put in place by hand is accepted."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            act()
        except PlaitError as error:
            if error.code not in REPLACED or time.monotonic() > end:
                raise AssertionError(f"{type(error).__name__} {error.code}: {error}") from error
            time.sleep(0.05)
        else:
            return


def run(
    door: str, database: str, folder: str, name: str, life: str, plant: str, *only: str
) -> None:
    """Work until killed; ``only`` names the acts to do, if not all."""
    os.environ["PLAIT_QUIET"] = "1"
    files = Path(folder) / name
    files.mkdir(exist_ok=True)
    with plants.planted(plant):
        if door == "keeper":
            keepers: list[Keeper] = []
            patiently(lambda: keepers.append(Keeper(database)))
            keep(keepers[0], Path(folder), name, int(life))
        opened: list[Door] = []
        doors: dict[str, Callable[[], Door]] = {
            "library": lambda: Library(database, name),
            "command line": lambda: CommandLine(database, name, plant),
            "server": lambda: Server(database, name, plant),
            "watch": lambda: Watch(database, name, plant, files),
        }
        patiently(lambda: opened.append(doors[door]()))
        worker = Worker(opened[0], Path(folder), name, int(life), only)
        while True:
            try:
                worker.act()
            except PlaitError as error:
                raise AssertionError(f"{type(error).__name__} {error.code}: {error}") from error


if __name__ == "__main__":
    run(*sys.argv[1:])
