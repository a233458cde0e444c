"""kill -9 at any moment: what was acknowledged is whole and found, the rest is wholly absent."""

import random
import shutil
from pathlib import Path

import pytest

from plait.errors import StoreError
from plait.memory import Memory
from plait.writing.backfill import embedding_input
from tests.reliability import kill_child, memories
from tests.reliability.processes import Child, children, posix_only
from tests.reliability.scale import SCALE

pytestmark = [posix_only, pytest.mark.slow, pytest.mark.unmeasured]

# About how many seconds an operation of each kind takes.
SCENARIOS = {"write": 0.012, "ingest": 0.03, "reindex": 0.04, "create": 0.05}


class Killer:
    """Kills one life after another on the same memory and keeps the ledger of what was promised."""

    def __init__(self, folder: Path, *, seed: int, plant: str = "") -> None:
        self._folder = folder
        self._dice = random.Random(seed)
        self._plant = plant
        self._memory = folder / "memory.db"
        self._ledger: memories.Contents = {}
        self._tokens: dict[str, str] = {}
        self._lives = 0
        self.acknowledged = 0
        self.problems: list[str] = []

    def kill(self, scenario: str) -> None:
        """One life, one death, one look at what is left."""
        self._lives += 1
        path = self._memory
        if scenario == "create":
            path, self._ledger = self._folder / f"new{self._lives}.db", {}
        seed = self._dice.randrange(10**9)
        with children(Child(kill_child.live, path, scenario, seed, self._plant)) as (child,):
            child.expect("ready")
            # Counted in operations, so that on a busy machine too most deaths find work to spoil.
            child.listen_until("begin", self._dice.randint(0 if scenario == "create" else 1, 5))
            child.listen(self._dice.uniform(0, SCENARIOS[scenario] * self._dice.choice([1, 1, 4])))
            child.kill()
        self.problems += [f"{scenario}: {error}" for error in child.errors()]
        try:
            self._examine(path, child, f"{scenario} {seed}")
        except StoreError as error:
            self.problems.append(f"{scenario} {seed}: {error}")
        if scenario == "create":
            with memories.open_memory(self._memory) as memory:
                self._ledger = memories.contents(memory)

    def _examine(self, path: Path, child: Child, life: str) -> None:
        with memories.open_memory(path) as memory:
            unsure = self._compare(memory, child)
            problems = [
                *memories.faults(memory),
                *memories.unsearchable(memory, self._ledger, self._tokens),
                *self._vectors(memory, unsure),
            ]
            self._backup(self._folder / "backup.db")
            self._tokens = {}
            self.problems += [f"{life}: {problem}" for problem in problems]

    def _compare(self, memory: Memory, child: Child) -> set[str]:
        """The ledger against the memory; only what was in flight may have gone either way."""
        flying: tuple[kill_child.Effects, bool] | None = None
        for message in child.messages:
            if message[0] == "begin":
                flying = message[1], message[2]
            elif message[0] == "ack" and flying is not None:
                self._apply(flying[0])
                self.acknowledged += 1
                flying = None
        if flying is not None:
            effects, atomic = flying
            actual = memories.contents(memory)
            done = {name: text for name, text in effects.items() if actual.get(name) == text}
            undone = {name for name in effects if actual.get(name) == self._ledger.get(name)}
            if atomic and effects and len(done) < len(effects) and len(undone) < len(effects):
                self.problems.append(f"half of an operation: {sorted(done)} of {sorted(effects)}")
            self._apply(done)
        self.problems += memories.differences(memory, self._ledger)
        # What was found wrong once must not be counted after every later death too.
        self._ledger = memories.contents(memory)
        return set() if flying is None else set(flying[0])

    def _apply(self, effects: kill_child.Effects) -> None:
        for name, text in effects.items():
            if text is None:
                old = self._ledger.pop(name, None)
            else:
                old, self._ledger[name] = self._ledger.get(name), text
                self._tokens[memories.token_of(text)] = name
            if old is not None:
                self._tokens[memories.token_of(old)] = name

    def _vectors(self, memory: Memory, unsure: set[str]) -> list[str]:
        """Search by vector never goes dark, and a reindex takes up what a crash left behind.

        What an undo brought back gets its vectors right after, so death may come in between.
        """
        space = memories.store_of(memory).state().space
        dims = memories.DIMS if space is None else space.dims
        problems = []
        certain = sorted(self._ledger.keys() - unsure)
        with memories.open_memory(Path(memory.path), dims) as same:
            if space is not None and certain:
                problems += self._lost_vector(same, self._dice.choice(certain))
            # Also where nothing is certain: what is left behind now would be missed after the next
            # death, as if that had lost it.
            if unsure or self._dice.random() < 0.2:
                same.reindex(embeddings=self._dice.random() < 0.5)
                problems += [
                    f"after reindex: {finding.message}"
                    for finding in same.doctor()
                    if finding.level != "ok"
                    and finding.check not in ("vectors being built", "leftovers")
                ]
        return problems

    def _lost_vector(self, memory: Memory, name: str) -> list[str]:
        """Search by vector for one passage of a document, by the text that was embedded."""
        document = next(d for d in memories.documents(memory) if memories.name_of(d) == name)
        passages = memory.passages_of(document.id)
        if not passages:
            return [f"{name} has no passages"]
        passage = self._dice.choice(passages)
        seen = embedding_input(document.title, passage.heading, passage.text, 8_000)
        hits = memory.search(seen, mode="vector", limit=20)
        return [] if passage.id in [hit.id for hit in hits] else [f"no vector leads to {name}"]

    def _backup(self, target: Path) -> None:
        if target.exists():
            with memories.open_memory(target) as copy:
                self.problems += [f"backup: {fault}" for fault in memories.faults(copy)]
            for left in target.parent.glob("backup.db*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def test_nothing_acknowledged_is_lost_and_nothing_is_half_done_after_kill_9(tmp_path):
    killer = Killer(tmp_path, seed=2026)
    scenarios = ["write", "ingest", "write", "reindex", "create"]
    for number in range(SCALE.kills):
        killer.kill(scenarios[number % len(scenarios)])
        assert killer.problems == []
    assert killer.acknowledged > SCALE.kills  # most deaths came in the middle of real work


@pytest.mark.parametrize(
    ("plant", "scenario", "complaint"),
    [
        ("two transactions", "write", "passages"),
        ("vectors later", "write", "vectors"),
        (kill_child.ACK_FIRST, "write", "lost"),
        ("rebuild in place", "reindex", "no vector"),
        ("migration in pieces", "create", "not a plait memory"),
    ],
)
def test_the_harness_catches(tmp_path, plant, scenario, complaint):
    killer = Killer(tmp_path, seed=7, plant=plant)
    for _ in range(200):
        killer.kill(scenario)
        if any(complaint in problem for problem in killer.problems):
            return
    pytest.fail(f"200 kills did not show the planted bug: {killer.problems}")
