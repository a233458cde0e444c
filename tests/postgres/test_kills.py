"""Several processes write to one memory while its server is killed, and killed again."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import IO

import pytest

from plait.protocols import Store
from plait.types.ids import new_id
from tests.builders import EVERYTHING
from tests.postgres.conftest import Opening
from tests.postgres.own_server import OwnServer
from tests.postgres.test_lost_connections import assert_sound, names, put
from tests.postgres.writing_child import write_note
from tests.reliability.scale import SOAK

CHILD = Path(__file__).with_name("writing_child.py")
KILLS = 50 if SOAK else 3
WRITERS, RIVALS = (4, 8) if SOAK else (2, 8)
# Acknowledged writes between two kills, and of every one of many writers, at least.
BETWEEN, OF_EACH = 12, 12
RIVALRY_S = 60 if SOAK else 0


@pytest.fixture(scope="module")
def mortal() -> Iterator[OwnServer]:
    own = OwnServer()
    yield own
    own.remove()


class Writer:
    """What one writer was told, note by note."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcomes: list[tuple[str, int]] = []

    def count(self) -> int:
        return sum(outcome == "kept" for outcome, _ in self.outcomes)

    def expected(self) -> tuple[set[str], set[str]]:
        """The notes that must be there, and those that may be."""
        must, may = set[str](), set[str]()
        for outcome, number in self.outcomes:
            own = {f"{self.name}-{number}"}
            gone = {f"{self.name}-{number - 2}"} if number % 3 == 0 else set[str]()
            if outcome == "kept":
                must = (must | own) - gone
                may -= gone
            elif outcome == "commit_unknown":
                may |= own | (must & gone)
                must -= gone
        return must, may


class Child(Writer):
    """A process that writes."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(name)
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), address, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._reading = Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reading.start()

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            outcome, number = line.split()
            self.outcomes.append((outcome.decode(), int(number)))

    def count(self) -> int:
        assert self._process.poll() is None, "a writer has ended"
        return super().count()

    def end(self) -> None:
        with self._process as process:  # closes both pipes
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(120) == 0
            self._reading.join()


class Rival(Writer):
    """A thread that writes, with connections of its own."""

    def __init__(self, store: Store, name: str, until: float) -> None:
        super().__init__(name)
        self.thread = Thread(target=self._write, args=(store, until), daemon=True)
        self.thread.start()

    def _write(self, store: Store, until: float) -> None:
        while len(self.outcomes) < OF_EACH or time.monotonic() < until:
            number = 1 + len(self.outcomes)
            self.outcomes.append((write_note(store, self.name, number), number))


def assert_nothing_lost_or_doubled(store: Store, writers: Sequence[Writer]) -> None:
    counted = Counter(names(store))
    pairs = [writer.expected() for writer in writers]
    must = {name for pair in pairs for name in pair[0]}
    may = {name for pair in pairs for name in pair[1]}
    assert must - {*counted} == set(), "lost"
    assert {*counted} - must - may == set(), "kept, although nobody was told"
    assert {*counted.values()} <= {1}
    assert store.stats().chunk_count == len(counted) == len(store.scan(EVERYTHING))
    assert_sound(store)


def test_no_acknowledged_write_is_lost_when_the_server_is_killed(
    mortal: OwnServer, opening: Opening
) -> None:
    store = opening(mortal.dsn)
    address = f"{mortal.dsn}&namespace={_namespace(store)}"
    writers = [Child(address, f"w{number}") for number in range(WRITERS)]
    try:
        # Whoever has never reached the server does not wait for it.
        while not all([writer.count() for writer in writers]):
            time.sleep(0.005)
        for kill in range(KILLS):
            seen = sum(writer.count() for writer in writers)
            while sum(writer.count() for writer in writers) < seen + BETWEEN:
                time.sleep(0.005)
            if kill % 2:
                mortal.stop()
            else:
                mortal.kill()
            mortal.start()
    finally:
        for writer in writers:
            writer.end()
    assert_nothing_lost_or_doubled(store, writers)
    # Whoever was only waiting, or could go on with what it had sent, was not disturbed.
    outcomes = Counter(outcome for writer in writers for outcome, _ in writer.outcomes)
    assert {*outcomes} <= {"kept", "connection_lost", "commit_unknown"}
    assert outcomes["commit_unknown"] == 0


def _namespace(store: Store) -> str:
    return str(store.stats().path.rpartition("namespace=")[2])


def test_many_writers_of_one_memory_lose_and_double_nothing(
    mortal: OwnServer, opening: Opening
) -> None:
    until = time.monotonic() + RIVALRY_S
    rivals = [Rival(opening(mortal.dsn), f"w{number}", until) for number in range(RIVALS)]
    for rival in rivals:
        rival.thread.join()
    assert_nothing_lost_or_doubled(opening(mortal.dsn), rivals)
    assert {outcome for rival in rivals for outcome, _ in rival.outcomes} == {"kept"}


def test_a_server_that_starts_again_is_waited_for(mortal: OwnServer, opening: Opening) -> None:
    store = opening(mortal.dsn, timeout=60.0)
    put(store, "first")
    for number, end in enumerate((mortal.stop, mortal.kill)):
        end()
        starting = Thread(target=mortal.start, daemon=True)
        starting.start()
        assert len(names(store)) == 1 + number
        put(store, new_id())
        starting.join()
    assert len(names(store)) == 3
