"""Two versions of plait on one database: steps under a lock, and older ones that stop writing."""

from collections.abc import Iterator
from threading import Barrier, Thread

import psycopg
import pytest

from plait.errors import SchemaTooNew, StoreBusy
from plait.stores.postgres import schema
from plait.stores.postgres.commits import LOCK
from plait.stores.postgres.connection import SCHEMA_VERSION
from plait.stores.postgres.store import PostgresStore
from plait.types.ids import new_id
from tests.postgres.conftest import Opening
from tests.postgres.own_server import OwnServer
from tests.postgres.test_lost_connections import names, put

NEWER = f"INSERT INTO plait.schema_version (version) VALUES ({SCHEMA_VERSION + 1})"


@pytest.fixture
def database(server: OwnServer) -> Iterator[str]:
    """An empty database."""
    name = f"db_{new_id()}"
    server.execute(f"CREATE DATABASE {name}")
    yield name
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def dsn_of(server: OwnServer, database: str) -> str:
    return f"postgresql://postgres@/{database}?host={server.folder}"


def test_there_is_a_step_for_every_version() -> None:
    assert len(schema.MIGRATIONS) == SCHEMA_VERSION


def test_many_that_open_an_empty_database_at_once_make_the_tables_once(
    server: OwnServer, database: str
) -> None:
    ready, stores = Barrier(8), list[PostgresStore]()

    def open_one(number: int) -> None:
        ready.wait()
        stores.append(PostgresStore(f"{dsn_of(server, database)}&namespace=n{number % 2}"))

    threads = [Thread(target=open_one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    versions = server.execute("SELECT version FROM plait.schema_version ORDER BY 1", database)
    assert versions == [(number,) for number in range(1, SCHEMA_VERSION + 1)]
    assert len(stores) == 8
    for number, store in enumerate(stores):
        put(store, f"note{number}")
    assert len(names(stores[0])) + len(names(stores[1])) >= 8
    for store in stores:
        store.close()


@pytest.mark.parametrize("known", range(1, SCHEMA_VERSION))
def test_a_database_of_an_older_version_gets_what_it_lacks(
    server: OwnServer, database: str, opening: Opening, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:known])
        older.setattr(schema, "_AWAIT_VECTORS", "SELECT 1")  # names a column of the newest tables
        opening(dsn_of(server, database)).close()
    versions = server.execute("SELECT max(version) FROM plait.schema_version", database)
    assert versions == [(known,)]
    store = opening(dsn_of(server, database))
    put(store, "first")
    assert names(store) == ["first"]
    versions = server.execute("SELECT max(version) FROM plait.schema_version", database)
    assert versions == [(SCHEMA_VERSION,)]


def test_an_older_plait_does_not_open_newer_tables(
    server: OwnServer, database: str, opening: Opening
) -> None:
    opening(dsn_of(server, database))
    server.execute(NEWER, database)
    with pytest.raises(SchemaTooNew):
        opening(dsn_of(server, database))


def test_a_running_older_plait_stops_writing_when_a_newer_one_has_changed_the_tables(
    server: OwnServer, database: str, opening: Opening
) -> None:
    store = opening(dsn_of(server, database))
    put(store, "first")
    server.execute(NEWER, database)
    with pytest.raises(SchemaTooNew):
        put(store, "second")
    assert names(store) == ["first"]  # as long as it can read them


def test_a_running_older_plait_that_cannot_read_newer_tables_says_why(
    server: OwnServer, database: str, opening: Opening
) -> None:
    store = opening(dsn_of(server, database))
    server.execute(NEWER, database)
    server.execute("ALTER TABLE plait.documents RENAME COLUMN event_at TO happened_at", database)
    with pytest.raises(SchemaTooNew):
        names(store)


def test_tables_do_not_change_under_a_write_and_no_write_begins_meanwhile(
    server: OwnServer, database: str, opening: Opening
) -> None:
    store = opening(dsn_of(server, database), timeout=0.1)
    try_lock = f"SELECT pg_try_advisory_xact_lock({LOCK})"
    with store.transaction():
        assert server.execute(try_lock, database) == [(False,)]
    with psycopg.connect(dsn_of(server, database)) as changing:
        assert changing.execute(try_lock.encode()).fetchone() == (True,)
        with pytest.raises(StoreBusy):
            put(store, "meanwhile")
    put(store, "afterwards")
    assert names(store) == ["afterwards"]
