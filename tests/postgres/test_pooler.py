"""Behind a pooler, every transaction may have another session: nothing may be kept in one."""

from collections.abc import Iterator

import psycopg
import pytest

from plait.text import parse
from tests.builders import EVERYTHING, SPACE, entry, vector
from tests.postgres.conftest import Opening
from tests.postgres.own_server import OwnServer
from tests.postgres.pooler import Pooler
from tests.postgres.test_lost_connections import assert_sound, names, put


@pytest.fixture
def pooler(server: OwnServer) -> Iterator[Pooler]:
    opened = Pooler(server.socket, sessions=2)
    yield opened
    opened.close()


def test_statements_that_the_driver_prepares_fail_behind_a_pooler(pooler: Pooler) -> None:
    """Why `prepare_threshold` is off: this is what happens otherwise."""
    gone = pytest.raises(psycopg.errors.InvalidSqlStatementName)
    prepared = psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=0)
    with prepared as connection, gone:
        connection.execute("SELECT %s::int", (1,))


def test_a_name_may_be_another_clients_statement(pooler: Pooler) -> None:
    """Nor is it enough to repeat what fails: it may succeed, with another answer."""
    pooler.turns = iter([0, 0, 1, 1, 0])  # a statement is prepared, then run
    asked = {"SELECT %s::int + 1": 1, "SELECT %s::int * 100": 2}
    answers = []
    for statement, times in asked.items():
        with psycopg.connect(pooler.dsn, autocommit=True, prepare_threshold=0) as connection:
            answers += [connection.execute(statement, (7,)).fetchone() for _ in range(times)]
    assert answers == [(8,), (700,), (8,)]


def test_a_memory_works_behind_a_pooler(pooler: Pooler, opening: Opening) -> None:
    store = opening(pooler.dsn)
    for number in range(12):
        put(store, f"note{number}")
        [(ref, _), *_] = store.keyword(parse(f"note{number}"), 3, EVERYTHING, deadline=None)
        assert store.hydrate([ref], ranking=True)
    assert len(names(store)) == 12
    with store.transaction() as transaction:
        transaction.write(entry("axes", "one", vectors=[vector(1, 0, 0, 0)]))
    assert store.vector(vector(1, 0, 0, 0), SPACE, 3, EVERYTHING).hits
    assert_sound(store)
    assert pooler.transactions > 50


def test_no_setting_outlives_a_transaction(server: OwnServer, opening: Opening) -> None:
    store = opening(server.dsn, durability="normal", timeout=float("inf"))
    put(store, "first")
    store.keyword(parse("first"), 3, EVERYTHING, deadline=float("inf"))
    with store._connections.lent() as session:  # type: ignore[attr-defined]
        changed = session.rows(
            "SELECT name FROM pg_settings WHERE source = 'session' AND name <> 'client_encoding'"
        )
        prepared = session.rows("SELECT name FROM pg_prepared_statements")
        locks = session.rows(
            "SELECT 1 FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
        )
    assert (changed, prepared, locks) == ([], [], [])
