"""What a search costs the server: how often it is asked, and what it does for every row."""

import re
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest

from plait.memory import Memory
from plait.testing.hashing import HashingEmbedder
from plait.text import parse
from plait.types import Filter
from plait.types.ids import new_id
from tests import servers
from tests.builders import memory_on

MOST_TRIPS = 6
# For the places of messages and for answers near them; for the names of the entities of hits.
FOR_MESSAGES = 2
FOR_ENTITIES = 1


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    from plait.stores.postgres.store import PostgresStore

    store = PostgresStore(servers.address(new_id()))
    opened = memory_on(store, HashingEmbedder())
    texts = [f"We rotate key {number} on Fridays, and deploy with care." for number in range(60)]
    for number, text in enumerate(texts):
        opened.store(text, key=f"note-{number}", tags=["ops"])
    opened.store("Ключи от сервера лежат в сейфе.", key="keys")
    yield opened
    opened.close()


def trips(memory: Memory, act: Callable[[], object]) -> int:
    """Count how often the server says that it is ready for more."""
    return answers(memory, b"ReadyForQuery", act)


def answers(memory: Memory, kind: bytes, act: Callable[[], object]) -> int:
    """Count the server's answers of one kind."""
    from plait.stores.postgres.store import PostgresStore

    store = memory.engine
    assert isinstance(store, PostgresStore)
    with tempfile.TemporaryFile() as trace:
        with store._connections.lent() as session:
            # To prepare a statement takes a trip, once.
            session.connection.prepare_threshold = None
            session.connection.pgconn.trace(trace.fileno())
        act()
        with store._connections.lent() as session:
            session.connection.pgconn.untrace()
        trace.seek(0)
        return trace.read().count(kind)


QUERIES = ["how do we rotate keys", "deploy", "rotate rotate key 7", "ключи от сервера", "Fridays?"]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_a_search_makes_few_trips(memory: Memory, query: str, mode: str) -> None:
    assert 0 < trips(memory, lambda: memory.search(query, mode=mode)) <= MOST_TRIPS  # type: ignore[arg-type]


def test_more_hits_take_no_more_trips(memory: Memory) -> None:
    assert trips(memory, lambda: memory.search("rotate keys", limit=20)) <= MOST_TRIPS


def test_a_deadline_takes_no_trip_of_its_own(memory: Memory) -> None:
    query, store = parse("rotate keys"), memory.engine
    deadline = time.monotonic() + 60
    assert trips(memory, lambda: store.keyword(query, 10, Filter(), deadline=deadline)) == 1
    # It holds for that statement only.
    assert store.keyword(query, 10, Filter())


@pytest.mark.parametrize("query", ["7 AND ro*", "ro* AND 7", "7 NOT ro*", "NEAR(key 7, 2) AND w*"])
def test_operators_read_only_passages_that_may_match(memory: Memory, query: str) -> None:
    """Not every passage with a word that begins so: all sixty have one."""
    store = memory.engine
    asked = parse(query)
    assert asked.expression is not None
    rows = answers(memory, b"DataRow", lambda: store.keyword(asked, 10, Filter()))
    assert 0 < rows < 10


def test_messages_and_facts_take_a_few_trips_more(memory: Memory) -> None:
    memory.store("Who rotates the keys?", session="standup", role="user")
    memory.store("Ana rotates the keys.", session="standup", role="assistant")
    most = MOST_TRIPS + FOR_MESSAGES
    assert trips(memory, lambda: memory.search("who rotates the keys")) <= most
    memory.store("Ana rotates keys and hates Fridays.", entity="Ana")
    most += FOR_ENTITIES
    assert trips(memory, lambda: memory.search("who rotates the keys")) <= most


def test_a_prepared_statement_reads_the_question_once(memory: Memory) -> None:
    """Not for every row: that took ten times as long as to compare the vectors."""
    from plait.stores.postgres import vectors
    from plait.stores.postgres.filters import conditions
    from plait.stores.postgres.store import PostgresStore

    store = memory.engine
    assert isinstance(store, PostgresStore)
    where = conditions(Filter(), 0, searching=True)
    exact = vectors.NEAREST_OF_MEMORY.replace("{scan}", vectors._SCAN)
    for statement in (exact, vectors._LATEST, vectors._BEST_OF_TRUSTED):
        sql = where.stated(statement)
        names = sorted(set(re.findall(r"%\((\w+)\)s", sql)))
        for number, name in enumerate(names, start=1):
            sql = sql.replace(f"%({name})s", f"${number}")
        with store._connections.lent() as session:
            if session.connection.info.server_version < 160_000:
                pytest.skip("the server does not tell how it would plan a prepared statement")
            plan = session.connection.execute(f"EXPLAIN (GENERIC_PLAN, VERBOSE) {sql}").fetchall()
        compared = [line for (line,) in plan if "<=>" in line]
        assert compared
        assert not [line for line in compared if "::halfvec" in line]
