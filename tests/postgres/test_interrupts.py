"""Ctrl-C, or a limit of the server, at any step: no transaction, lock or connection is left."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from plait import Memory
from plait.errors import PlaitError
from plait.stores.postgres import pool
from plait.stores.postgres.connection import Channel, number_of
from plait.stores.postgres.pool import MOST_CONNECTIONS, Patience
from plait.stores.postgres.seats import Seat, Seats
from plait.stores.postgres.store import PostgresStore
from plait.types.ids import new_id
from tests import servers
from tests.postgres.interrupt_child import Outside

ROOT = Path(__file__).parents[2]
_CANCELLED = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'query_canceled'; END $$"


def interrupted(folder: Path, share: int, signals: int, *files: str) -> tuple[int, int]:
    """Interrupt each act at one in so many of its points; return at how many, and the signals."""
    words = [servers.need(), str(folder), str(share), str(signals), *files]
    child = [sys.executable, "-m", "tests.postgres.interrupt_child", *words]
    done = subprocess.run(child, capture_output=True, encoding="utf-8", cwd=ROOT, check=False)
    *problems, last = done.stdout.splitlines() or [""]
    assert problems == [] and done.returncode == 0, done.stderr
    _, points, _, came = last.split()
    return int(points), int(came)


@pytest.mark.slow
def test_an_act_that_is_interrupted_anywhere_leaves_nothing_behind(tmp_path: Path) -> None:
    points, came = interrupted(tmp_path, 80, 1, "plait/stores/postgres/")
    assert points > 75
    assert came


def test_ctrl_c_while_answers_are_fetched_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresStore(servers.address(new_id()))

    def stopped(_: object) -> Iterator[None]:
        raise KeyboardInterrupt
        yield

    with monkeypatch.context() as patched, store._connections.lent() as session:
        patched.setattr(pool, "_ended", stopped)
        with pytest.raises(KeyboardInterrupt):
            session.together(("SELECT 1", {}), ("SELECT 2", {}))
        assert session.connection.closed
    store.close()


@pytest.mark.soak
@pytest.mark.parametrize("files", ["plait/stores/postgres/", "psycopg/", "plait/"])
def test_every_point_of_every_act_may_be_interrupted(tmp_path: Path, files: str) -> None:
    points, _ = interrupted(tmp_path, 4 if files == "plait/" else 1, 100, files)
    assert points > 5_000


# -- limits of the server ------------------------------------------------------------------


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory.open(address(), embedder="hashing", project="") as opened:
        opened.store("Nothing else.", key="other")
        yield opened


NAME = new_id()


def address() -> str:
    namespace = servers.address(f"limits-{NAME}")
    return f"{namespace}&application_name=limits-{NAME}"


ACTS: Mapping[str, Callable[[Memory, Path], object]] = {
    "store": lambda memory, _: memory.store("Another text.", key="note"),
    "delete": lambda memory, _: memory.delete("other"),
    "search": lambda memory, _: memory.search("nothing else"),
    "ingest": lambda memory, folder: memory.ingest(folder),
}


@pytest.mark.unmeasured
@pytest.mark.parametrize("act", ACTS)
def test_a_statement_that_the_server_cancels_leaves_nothing_behind(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    (tmp_path / "note.md").write_text("A file.", encoding="utf-8")
    outside = Outside(servers.need(), f"limits-{NAME}")
    send, sent, wanted = Channel._send, 0, 0

    def cancelling(self: Channel, sql: str, values: Mapping[str, Any]) -> Any:
        nonlocal sent
        sent += 1
        return self._connection.execute(_CANCELLED) if sent == wanted else send(self, sql, values)

    monkeypatch.setattr(Channel, "_send", cancelling)
    while sent >= wanted:
        sent, wanted = 0, wanted + 1
        try:
            ACTS[act](memory, tmp_path)
        except PlaitError as error:
            assert error.code == "deadline_exceeded"
        ended, sent = sent, wanted  # no more until the next time
        assert [*outside.problems(number_of(f"limits-{NAME}"))] == []
        memory.store("Nothing else.", key="other")
        sent = ended
    outside.close()
    assert wanted > 5


def test_a_connection_that_is_in_use_when_its_memory_is_closed_is_closed_afterwards() -> None:
    store = PostgresStore(servers.address(new_id()))
    with store._connections.lent() as session:
        connection = session.connection
        store.close()
        assert session.value("SELECT 1") == 1
    assert connection.closed


def test_a_connection_that_is_given_back_while_its_memory_is_closed_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = PostgresStore(servers.address(new_id()))
    lease = store._connections.take(Patience(1.0))
    connection = lease.connection

    def closing(_: object) -> bool:
        store.close()
        return True

    monkeypatch.setattr(pool, "is_at_rest", closing)
    with lease:
        pass
    assert connection.closed


def test_who_drops_connections_without_giving_them_back_leaves_room_for_others() -> None:
    store = PostgresStore(servers.address(new_id()), timeout=5.0)
    for _ in range(3 * MOST_CONNECTIONS):
        lease = store._connections.take(Patience(1.0))
        lease.connection.close()
    del lease
    assert store.state().passages == 0
    store.close()


# -- seats ---------------------------------------------------------------------------------


def test_a_seat_that_nobody_has_any_more_is_free() -> None:
    seats = Seats(1, Seat)
    taken = seats.take(0.0)
    assert taken is not None
    assert seats.take(0.0) is None
    del taken
    assert seats.take(0.0) is not None


def test_who_waits_for_a_seat_gets_it_when_it_is_given_back() -> None:
    seats = Seats(1, Seat)
    first = seats.take(0.0)
    assert first is not None
    got: list[Seat | None] = []
    waiting = Thread(target=lambda: got.append(seats.take(time.monotonic() + 60.0)))
    waiting.start()
    while not seats._waiting:
        pass
    seats.give_back(first)
    waiting.join()
    assert got[0] is not None
    assert seats.has(waiting.ident or 0)
