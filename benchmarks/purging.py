"""Measure how long a large purge keeps other writers waiting.

    .venv/bin/python benchmarks/purging.py                  # 17,000 of 20,000 documents
    .venv/bin/python benchmarks/purging.py --document 10    # one document of 10 MB

For each number of other processes that store notes without a pause: the longest time that the
purge had the lock, in wall and CPU time, and the longest time that one of the others waited for
it. The others also wait for one another: the same is measured without a purge.
"""

import argparse
import multiprocessing
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from plait.memory import Memory
from plait.protocols import Entry
from plait.settings.loading import Config
from plait.settings.schema import Settings
from plait.stores.sqlite import connection as connections
from plait.stores.sqlite import scrubbing
from plait.stores.sqlite.write_lock import WriteLock
from plait.testing import HashingEmbedder
from plait.types import Document, Passage
from plait.writing.changes import Change, put

DOCUMENTS, DOOMED = 20_000, 17_000
WRITERS = (3, 1)
QUIET_S = 10  # of measuring the writers without a purge
WORDS = 60  # per note
VOCABULARY = 30_000
# From these calls to their ends, no other process can write.
_CHECKPOINT = connections.checkpoint


class Held(NamedTuple):
    """How long a lock was held: seconds by the clock, and of CPU time."""

    wall: float
    cpu: float
    where: str = ""


class Locks:
    """The times for which this process has kept others from writing, and waited for them."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self.waited: list[float] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Measure what happens meanwhile."""
        begin, end = WriteLock.__enter__, WriteLock.__exit__
        began: list[tuple[float, float]] = []

        def enter(lock: WriteLock) -> Any:
            asked = time.monotonic()
            entered = begin(lock)
            self.waited.append(time.monotonic() - asked)
            began.append((time.monotonic(), time.process_time()))
            return entered

        def leave(lock: WriteLock, *error: Any) -> None:
            try:
                end(lock, *error)
            finally:
                self._note("transaction", *began.pop())

        def checkpoint(*arguments: Any) -> bool:
            start = (time.monotonic(), time.process_time())
            done = _CHECKPOINT(*arguments)
            if arguments[1] == "TRUNCATE" and done:
                self._note("checkpoint", *start)
            return done

        with (
            mock.patch.object(WriteLock, "__enter__", enter),
            mock.patch.object(WriteLock, "__exit__", leave),
            mock.patch.object(scrubbing, "checkpoint", checkpoint),
        ):
            yield

    def _note(self, where: str, clock: float, cpu: float) -> None:
        self.held.append(Held(time.monotonic() - clock, time.process_time() - cpu, where))


def open_memory(path: Path) -> Memory:
    settings = Settings(db_path=str(path))
    return Memory.open(embedder=HashingEmbedder(256), config=Config(settings, {}, (), None, ()))


def fill(path: Path) -> None:
    """Store the notes; those to be purged are spread among the others."""
    dice = random.Random(8)
    vocabulary = ["".join(dice.choices("bcdfghklmnprst", k=8)) for _ in range(VOCABULARY)]
    doomed = set(dice.sample(range(DOCUMENTS), DOOMED))
    changes = []
    for number in range(DOCUMENTS):
        text = " ".join(dice.choices(vocabulary, k=WORDS))
        tag = "gone" if number in doomed else "kept"
        document = Document(key=f"note-{number}", text=text, tags=(tag,), title=f"Note {number}")
        changes.append(Change(Entry(document, [Passage(text=text, ordinal=0)])))
    with open_memory(path) as memory:
        for start in range(0, DOCUMENTS, 250):
            put(memory.engine, changes[start : start + 250])
        memory.reindex()
        memory.engine.tidy()


def write_constantly(path: Path, seed: int, stop: Any, results: Any) -> None:
    """Store notes without a pause; tell the longest wait for the lock, and how many they were."""
    dice = random.Random(seed)
    locks, stored = Locks(), 0
    with open_memory(path) as memory:
        memory.store(f"the first of {seed}")
        with locks.watched():
            while not stop.is_set():
                memory.store(" ".join(str(dice.random()) for _ in range(20)))
                stored += 1
    results.put((max(locks.waited), stored))


class Beside(NamedTuple):
    """What writers beside something report: the longest wait of each, and their writes."""

    waits: list[float]
    stored: int


def beside(path: Path, writers: int, act: Callable[[], None]) -> Beside:
    """Do something while other processes write constantly."""
    stop, results = multiprocessing.Event(), multiprocessing.Queue()
    processes = [
        multiprocessing.Process(target=write_constantly, args=(path, seed, stop, results))
        for seed in range(writers)
    ]
    for process in processes:
        process.start()
    time.sleep(1)
    act()
    stop.set()
    reports = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return Beside(sorted(wait for wait, _ in reports), sum(count for _, count in reports))


def purge(path: Path, locks: Locks) -> None:
    with open_memory(path) as memory, locks.watched():
        began, cpu = time.monotonic(), time.process_time()
        deleted = memory.delete(where={"tags": ("gone",)}, purge=True)
        wall, cpu = time.monotonic() - began, time.process_time() - cpu
    print(f"  purged {len(deleted.ids):,} documents: {wall:.1f} s, {cpu:.1f} s of CPU time")


def report(locks: Locks) -> None:
    for where in ("transaction", "checkpoint"):
        held = [row for row in locks.held if row.where == where]
        if held:
            wall, cpu = max(row.wall for row in held), max(row.cpu for row in held)
            print(f"  longest {where}: {wall:.3f} s, {cpu:.3f} s of CPU time, of {len(held):,}")


def measure_documents(folder: Path) -> None:
    base = folder / "base.db"
    fill(base)
    print(f"{DOOMED:,} of {DOCUMENTS:,} documents, {base.stat().st_size / 1e6:.0f} MB")
    for writers in WRITERS:
        path = folder / f"{writers}.db"
        shutil.copyfile(base, path)
        print(f"{writers} other writers", flush=True)
        quiet = beside(path, writers, lambda: time.sleep(QUIET_S))
        print(f"  longest wait without a purge: {quiet.waits[-1]:.3f} s, {quiet.stored:,} stored")
        locks = Locks()
        busy = beside(path, writers, lambda path=path, locks=locks: purge(path, locks))
        report(locks)
        print(f"  longest wait beside it: {busy.waits[-1]:.3f} s, {busy.stored:,} stored")


def measure_document(folder: Path, megabytes: int) -> None:
    dice = random.Random(8)
    vocabulary = ["".join(dice.choices("bcdfghklmnprst", k=8)) for _ in range(VOCABULARY)]
    notes = folder / "notes"
    notes.mkdir()
    words = megabytes * 1_000_000 // 9
    lines = [" ".join(dice.choices(vocabulary, k=90)) for _ in range(words // 90)]
    (notes / "huge.md").write_text("\n\n".join(lines), encoding="utf-8")
    path = folder / "huge.db"
    locks = Locks()
    with open_memory(path) as memory, locks.watched():
        memory.store("something else")
        locks.held.clear()
        print(f"storing one document of {megabytes} MB")
        memory.ingest(notes)
        report(locks)
        locks.held.clear()
        print(f"purging it ({memory.stats().chunk_count:,} passages)")
        memory.delete("huge.md", purge=True)
        report(locks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--document", type=int, metavar="MB", help="one document instead")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.document:
            measure_document(Path(folder), arguments.document)
        else:
            measure_documents(Path(folder))


if __name__ == "__main__":
    main()
