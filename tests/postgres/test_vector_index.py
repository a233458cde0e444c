"""The index of the vectors of a very large memory, with a limit that a test can reach."""

from collections.abc import Iterator
from random import Random

import pytest

from plait.protocols import Entry
from plait.stores.postgres import vectors
from plait.stores.postgres.filters import conditions
from plait.stores.postgres.store import PostgresStore
from plait.types import Filter, Space
from plait.types.ids import new_id
from tests import servers
from tests.builders import EVERYTHING, NOW, begin, entry, swap, vector, write

PASSAGES = 1_500
DIMS = 8
AXES = Space("test", "axes", DIMS)


def random_vector(source: Random) -> list[float]:
    return [source.gauss(0.0, 1.0) for _ in range(DIMS)]


def notes(source: Random) -> Iterator[Entry]:
    for number in range(PASSAGES):
        made = vector(*random_vector(source))
        half = "even" if number % 2 == 0 else "odd"
        yield entry(f"{number}", "x", vectors=[made], space=AXES, project=half)


@pytest.fixture(scope="module")
def store() -> Iterator[PostgresStore]:
    opened = PostgresStore(servers.address(new_id()))
    source = Random(7)
    write(opened, *notes(source))
    yield opened
    opened.close()


def found(store: PostgresStore, asked: list[float], where: Filter = EVERYTHING) -> set[int]:
    return {ref for ref, _ in store.vector(vector(*asked), AXES, 10, where).hits}


def test_the_index_finds_nearly_all_and_says_that_it_is_approximate(store: PostgresStore) -> None:
    source = Random(8)
    questions = [random_vector(source) for _ in range(40)]
    halves = EVERYTHING._replace(projects=("odd",))
    exact = [(found(store, asked), found(store, asked, halves)) for asked in questions]
    assert not store.vector(vector(*questions[0]), AXES, 10, EVERYTHING).approximate
    store.indexes.least = 1_000
    store.tidy(compact=True)
    assert store.state().passages == PASSAGES
    near = store.vector(vector(*questions[0]), AXES, 10, EVERYTHING, also=[1])
    assert near.approximate
    assert [cosine for _, cosine in near.hits] == sorted(near.cosines[ref] for ref, _ in near.hits)[
        ::-1
    ]
    kept = [
        len(all_of & found(store, asked)) + len(half & found(store, asked, halves))
        for asked, (all_of, half) in zip(questions, exact, strict=True)
    ]
    assert sum(kept) >= 0.98 * 20 * len(questions)


def test_the_server_uses_the_index(store: PostgresStore) -> None:
    store.indexes.least = 1_000
    store.tidy(compact=True)
    where = conditions(EVERYTHING, NOW, searching=True)
    asked = vectors.asked(vector(*random_vector(Random(3))), AXES, 10, where, [])
    with store._connections.lent() as session:
        index = store.indexes.of(session, AXES)
        assert index is not None
        scan = vectors.indexed_scan(session.ns, *index)
        sql = where.stated(vectors.NEAREST_OF_MEMORY.replace("{scan}", scan))
        plan = "\n".join(line for (line,) in session.rows(f"EXPLAIN {sql}", asked))
    assert f"using {names(store)[0]}" in plan


def test_a_narrow_filter_is_exact_beside_the_index(store: PostgresStore) -> None:
    store.indexes.least = 1_000
    store.tidy(compact=True)
    store.state()
    few = EVERYTHING._replace(keys=tuple(map(str, range(50))))
    near = store.vector(vector(*random_vector(Random(9))), AXES, 10, few)
    assert (near.approximate, near.among, len(near.hits)) == (False, 50, 10)


def names(store: PostgresStore) -> list[str]:
    with store._connections.lent() as session:
        rows = session.rows(
            "SELECT c.relname FROM pg_class AS c WHERE c.relname LIKE %(name)s",
            name=f"embeddings\\_hnsw\\_{session.ns & (1 << 64) - 1:016x}%",
        )
    return [name for (name,) in rows]


def test_an_index_goes_with_its_vectors(store: PostgresStore) -> None:
    store.indexes.least = 1_000
    store.tidy(compact=True)
    before = names(store)
    assert len(before) == 1
    store.tidy(compact=True)
    assert names(store) == before
    store.indexes.least = PASSAGES + 1
    store.tidy(compact=True)
    assert names(store) == []
    store.indexes.least = 1_000
    other = Space("test", "other", DIMS)
    begin(store, other)
    assert not swap(store, other)
    with store.transaction() as tx:
        tx.swap(Space("none", "", 0))
    store.tidy(compact=True)
    assert names(store) == []
