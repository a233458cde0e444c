"""One memory, many threads: as if each had it alone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from plait.memory import Memory
from tests.reliability import memories, plants
from tests.reliability.scale import SCALE

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

THREADS = 8
FILTERS = 10  # more than a store remembers, so that they push each other out


def share(path: Path, rounds: int) -> list[str]:
    """Eight threads store, replace, delete and search through one memory; what was wrong."""
    start = Barrier(THREADS)

    def work(memory: Memory, number: int) -> memories.Contents:
        mine: memories.Contents = {}
        start.wait()
        for turn in range(rounds):
            key = f"t{number}k{turn % 5}"
            text = memories.prose(f"{key}v{turn}", 5)
            if turn % 4 == 3:
                memory.delete(f"t{number}k{(turn - 1) % 5}")
                del mine[f"note:t{number}k{(turn - 1) % 5}"]
            memory.store(text, key=key, tags=[f"tag{turn % FILTERS}"])
            mine[f"note:{key}"] = text
            where = {"tags": (f"tag{turn % FILTERS}",)}
            assert key in {hit.doc_id for hit in memory.search(text[:80], where=where, limit=50)}
            assert memory.get(key).text == text
        return mine

    expected: memories.Contents = {}
    with (
        memories.open_memory(path, durability="normal") as memory,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        running = [pool.submit(work, memory, number) for number in range(THREADS)]
        errors = [repr(task.exception()) for task in running if task.exception() is not None]
        for task in running:
            expected |= task.result() if task.exception() is None else {}
        return errors or [*memories.differences(memory, expected), *memories.faults(memory)]


def test_eight_threads_may_share_one_memory(tmp_path):
    assert share(tmp_path / "memory.db", SCALE.thread_rounds) == []


@pytest.mark.parametrize("plant", ["one connection", "deferred begin"])
def test_the_threads_catch(tmp_path, plant):
    with plants.planted(plant):
        assert share(tmp_path / "memory.db", 10) != []
