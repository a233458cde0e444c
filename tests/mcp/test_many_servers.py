"""Several servers on one file, as several agents on one machine use it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread

import apsw
import pytest

from plait import Memory
from tests.mcp.talk import Talk, talking
from tests.reliability.scale import SOAK

SERVERS = 4
STORES = 200 if SOAK else 50


def serving(stack: ExitStack, path: str) -> Talk:
    words = ("--db", path, "--embedder", "none", "--project", "personal", "mcp")
    return stack.enter_context(talking(*words))


@pytest.mark.slow
def test_what_four_servers_store_at_once_is_all_kept(tmp_path):
    path = str(tmp_path / "memory.db")
    refused: list[object] = []

    def store(talk: Talk, server: int) -> None:
        for number in range(STORES):
            result = talk.tool("memory_store", text=f"Server {server} says number {number}")
            if result.get("isError"):
                refused.append(result)

    with ExitStack() as stack:
        talks = [serving(stack, path) for _ in range(SERVERS)]
        for talk in talks:
            talk.hello()
        threads = [Thread(target=store, args=(talk, n)) for n, talk in enumerate(talks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [talk.leave() for talk in talks] == [0] * SERVERS
    assert refused == []
    with Memory.open(path, embedder="none", project="") as memory:
        assert memory.stats().doc_count == SERVERS * STORES
        assert all(finding.level == "ok" for finding in memory.doctor())


@contextmanager
def reading_on(path: str) -> Iterator[None]:
    """A reader that never lets go of what it sees, as a stuck process would."""
    connection = apsw.Connection(path)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    try:
        yield
    finally:
        connection.close()


@pytest.mark.slow
def test_ten_idle_servers_do_not_stop_the_eleventh(tmp_path):
    path = str(tmp_path / "memory.db")
    with Memory.open(path, embedder="none", project="") as memory, ExitStack() as stack:
        memory.store("We deploy on Fridays")
        idle = [serving(stack, path) for _ in range(10)]
        for number, talk in enumerate(idle):
            talk.hello()
            if number % 2:  # half of them have never opened the file
                talk.tool("memory_search", query="deploy")
        stack.enter_context(reading_on(path))
        before = memory.stats().doc_count
        eleventh = serving(stack, path)
        eleventh.hello()
        for number in range(50):
            assert not eleventh.tool("memory_store", text=f"Fact {number}").get("isError")
        assert memory.stats().doc_count == before + 50
        wal = tmp_path / "memory.db-wal"
        assert not wal.exists() or wal.stat().st_size < 64 * 1024 * 1024
        for talk in idle:
            first = talk.text("memory_search", query="fact 49").splitlines()[1]
            assert first.endswith("Fact 49")
