"""Power cuts: with ``full`` nothing acknowledged is lost; with ``normal`` only the newest."""

import random
from pathlib import Path

import pytest

from plait.errors import StoreError
from plait.memory import Memory
from tests.reliability import memories, power
from tests.reliability.scale import SCALE

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

OPERATIONS = 120
CHECKPOINT_PAGES = 40  # many checkpoints: they are when the main file is at risk
DIMS = 16

States = list[memories.Contents]


class Verdict:
    """What a number of cuts did."""

    def __init__(self) -> None:
        self.damaged: list[str] = []
        self.lost: list[int] = []  # acknowledged operations that were gone, per cut
        self.holes: list[str] = []


def record(path: Path, durability: str, *, plant: str = "") -> tuple[list[power.Event], States]:
    """Work on a memory with the log running; the log, and the contents after each operation."""
    dice = random.Random(5)
    states: States = [{}]
    with power.logged(checkpoint_pages=CHECKPOINT_PAGES) as log:
        memory = memories.open_specially(path, DIMS, durability=durability, vfs=power.VFS)
        if plant:
            memories.store_of(memory)._connections._durability = plant  # for later connections
            memories.connection_of(memory).pragma("synchronous", plant)
        with memory:
            for number in range(OPERATIONS):
                log.append(power.Event("begin"))
                states.append(operate(memory, dict(states[-1]), number, dice))
                log.append(power.Event("ack"))
    return log, states


def operate(
    memory: Memory, state: memories.Contents, number: int, dice: random.Random
) -> memories.Contents:
    """One operation that changes the contents; what they are then."""
    if number % 5 == 4 and state:
        name = dice.choice(sorted(state))
        memory.delete(name.partition(":")[2], purge=number % 10 == 9)
        del state[name]
        return state
    old = dice.choice(sorted(state)) if state and number % 3 == 2 else ""
    key = old.partition(":")[2] or f"k{number}"
    state[f"note:{key}"] = text = memories.prose(f"n{number}", dice.randint(2, 12))
    memory.store(text, key=key)
    if number == OPERATIONS // 2:
        memory.reindex(embeddings=True)
    return state


def cut_power(folder: Path, log: list[power.Event], states: States, cuts: int) -> Verdict:
    """Replay the log, cutting it at random places; look at what each cut left."""
    dice = random.Random(len(log))
    verdict, disk = Verdict(), power.Disk()
    begun = acknowledged = 0
    places = set(dice.sample(range(len(log)), cuts))
    for place, event in enumerate(log):
        if place in places:
            target = folder / f"{place}"
            target.mkdir()
            for name, image in disk.after_power_cut(dice).items():
                (target / name).write_bytes(image)
            judge(verdict, target / "memory.db", states[: begun + 1], acknowledged)
        begun += event.what == "begin"
        acknowledged += event.what == "ack"
        disk.apply(event)
    return verdict


def judge(verdict: Verdict, path: Path, states: States, acknowledged: int) -> None:
    """Open what is left: which moment of the past is it?"""
    try:
        with memories.open_memory(path, DIMS) as memory:
            actual = memories.contents(memory)
            verdict.damaged += memories.faults(memory)
            memory.store(memories.prose("after"), key="after")
            verdict.damaged += memories.unsearchable(
                memory, {"note:after": memories.prose("after")}, {"after": "note:after"}
            )
    except StoreError as error:
        verdict.damaged.append(str(error))
        return
    moments = [number for number, state in enumerate(states) if state == actual]
    if not moments:
        verdict.holes.append(f"{path}: contents that never were")
        return
    verdict.lost.append(max(0, acknowledged - moments[-1]))


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_a_power_cut_never_damages_and_loses_at_most_the_newest(tmp_path, durability):
    log, states = record(tmp_path / "memory.db", durability)
    verdict = cut_power(tmp_path, log, states, SCALE.cuts)
    assert verdict.damaged == []
    assert verdict.holes == []
    assert len(verdict.lost) == SCALE.cuts
    if durability == "full":
        assert max(verdict.lost) == 0


@pytest.mark.parametrize(
    ("synchronous", "symptom"), [("off", "damaged"), ("normal", "lost acknowledged")]
)
def test_the_power_cut_catches(tmp_path, synchronous, symptom):
    log, states = record(tmp_path / "memory.db", "full", plant=synchronous)
    verdict = cut_power(tmp_path, log, states, 25)
    symptoms = verdict.damaged or verdict.holes if symptom == "damaged" else max(verdict.lost)
    assert symptoms, f"synchronous={synchronous} was not {symptom}"
