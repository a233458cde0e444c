"""Behind a pooler, every transaction may have another session: nothing may be kept in one."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from threading import Thread

import psycopg
import pytest

from plait.errors import DeadlineExceeded
from plait.text import parse
from plait.types.ids import new_id
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


_BOUNCER = """
[databases]
postgres = host={folder} port=5432 user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
"""


@pytest.fixture
def bouncer(server: OwnServer) -> Iterator[str]:
    """The address of a real pgbouncer with two sessions, where the program is installed."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        pytest.skip("no pgbouncer is installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = server.folder / f"bouncer-{new_id()}.ini"
    settings.write_text(_BOUNCER.format(folder=server.folder, port=port), encoding="utf-8")
    with subprocess.Popen([program, settings], user=server.user, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        told = b""
        while b"process up" not in told:
            told = process.stderr.readline()
            assert told, "it has ended"
        Thread(target=process.stderr.read, daemon=True).start()  # or it would wait for a reader
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
        process.terminate()


def test_a_memory_works_behind_pgbouncer(bouncer: str, opening: Opening) -> None:
    stores = [opening(bouncer) for _ in range(3)]

    def write(number: int) -> None:
        for step in range(5):
            put(stores[number], f"note{number}x{step}")
            [(ref, _)] = stores[number].keyword(parse(f"note{number}x{step}"), 3, EVERYTHING)
            assert stores[number].hydrate([ref], ranking=True)

    threads = [Thread(target=write, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names(stores[0])) == 15
    assert_sound(stores[0])


def test_a_time_limit_behind_pgbouncer_ends_with_its_search(
    server: OwnServer, bouncer: str, opening: Opening
) -> None:
    store = opening(bouncer)
    put(store, "first")
    with psycopg.connect(server.dsn) as other:
        other.execute("LOCK TABLE plait.postings IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DeadlineExceeded):
            store.keyword(parse("first"), 3, EVERYTHING, deadline=time.monotonic() + 0.2)
    assert store.keyword(parse("first"), 3, EVERYTHING)
    with psycopg.connect(bouncer, autocommit=True, prepare_threshold=None) as connection:
        left = {connection.execute("SHOW statement_timeout").fetchone() for _ in range(4)}
    assert left == {("0",)}


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
