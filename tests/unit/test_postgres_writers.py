"""Several threads and processes that write one document, and a memory that is opened again."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from plait.protocols import Store
from plait.text import parse
from plait.types.ids import new_id
from tests import servers
from tests.builders import EVERYTHING, SPACE, by_keyword, entry, is_sound, vector, write

THREADS, PROCESSES, TIMES = 8, 2, 3
PASSAGES = 3

_WRITE_SAME = """
import sys
from tests.unit.test_postgres_writers import write_same
write_same(sys.argv[1], sys.argv[2])
"""


def open_store(address: str) -> Store:
    from plait.stores.postgres.store import PostgresStore

    return PostgresStore(address)


def write_same(address: str, name: str) -> None:
    """Write one document from many threads, each time with passages of this writer's own."""
    store = open_store(address)

    def put(thread: int) -> None:
        for time in range(TIMES):
            texts = [f"deploy {name} {thread} {time} part {part}" for part in range(PASSAGES)]
            vectors = [vector(1, thread, time, part) for part in range(PASSAGES)]
            write(store, entry("plan", *texts, vectors=vectors))

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(put, range(THREADS)))
    store.close()


def test_many_writers_of_one_document_leave_it_once_and_whole() -> None:
    address = servers.address(new_id())
    store = open_store(address)
    command = [sys.executable, "-c", _WRITE_SAME, address]
    started = [subprocess.Popen([*command, f"process{number}"]) for number in range(PROCESSES)]
    assert [process.wait(60) for process in started] == [0] * PROCESSES
    [document] = store.scan(EVERYTHING)
    passages = store.passages(document.id)
    assert [passage.ordinal for passage in passages] == list(range(PASSAGES))
    # All of one writer, at one time.
    assert len({passage.text.rpartition(" part ")[0] for passage in passages}) == 1
    hits = store.keyword(parse("deploy"), 100, EVERYTHING)
    near = store.vector(vector(1, 1, 1, 1), SPACE, 100, EVERYTHING)
    assert {ref for ref, _ in hits} == {ref for ref, _ in near.hits} == {p.ref for p in passages}
    assert store.state().passages == store.stats().chunk_count == PASSAGES
    assert is_sound(store)
    store.close()


def test_a_memory_that_is_opened_again_answers_as_before() -> None:
    address = servers.address(new_id())
    store = open_store(address)
    write(store, entry("plan", "we deploy on Fridays", vectors=[vector(1, 0, 0, 0)]))
    query, [before] = parse("deploy"), store.scan(EVERYTHING, whole=True)
    answers = [store.keyword(query, 10, EVERYTHING), store.state(), store.stats().chunk_count]
    store.close()
    store = open_store(address)
    assert [store.keyword(query, 10, EVERYTHING), store.state(), store.stats().chunk_count] == (
        answers
    )
    assert store.scan(EVERYTHING, whole=True) == [before]
    store.close()


@pytest.mark.parametrize("name", ["empty", "nul\u0308", "名前", "a b&c=d%20?#"])
def test_memories_of_one_database_know_nothing_of_one_another(name: str) -> None:
    from urllib.parse import quote

    other = open_store(servers.address(new_id()))
    write(other, entry("plan", "we deploy on Fridays", vectors=[vector(1, 0, 0, 0)]))
    empty = open_store(servers.address(quote(name + new_id())))
    assert empty.state().passages == empty.stats().doc_count == 0
    assert empty.scan(EVERYTHING) == []
    assert empty.find("plan", EVERYTHING) == []
    assert by_keyword(empty, "deploy") == []
    assert empty.vector(vector(1, 0, 0, 0), SPACE, 10, EVERYTHING).hits == []
    assert empty.vocabulary(["deploy"]).holding == {"deploi": 0}
    assert empty.alike(["deplyo"], EVERYTHING) in ({}, {"deplyo": []})
    assert by_keyword(other, "deploy") == ["plan"]
    for store in (empty, other):
        store.close()
