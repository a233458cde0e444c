"""What a database and a machine have of their own: encodings, and where types are looked for."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import quote

import pytest

from plait.errors import StoreError
from plait.stores.postgres.connection import located
from plait.stores.postgres.store import PostgresStore
from plait.types.ids import new_id
from tests.builders import by_keyword, by_vector, entry, vector, write
from tests.codes import has_code
from tests.postgres.conftest import Opening
from tests.postgres.own_server import OwnServer

DATABASE = "surroundings"


@pytest.fixture
def database(server: OwnServer) -> Iterator[str]:
    """The address of an empty database of a test's own."""
    server.execute(f"CREATE DATABASE {DATABASE}")
    yield f"postgresql://postgres@/{DATABASE}?host={server.folder}"
    server.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


@pytest.mark.parametrize("schema", ["extensions", 'An odd "%" one'])
def test_pgvector_is_found_in_a_schema_that_is_not_searched(
    server: OwnServer, database: str, schema: str
) -> None:
    name = '"' + schema.replace('"', '""') + '"'
    server.execute(f"CREATE SCHEMA {name}", DATABASE)
    server.execute(f"CREATE EXTENSION vector SCHEMA {name}", DATABASE)
    store = PostgresStore(database)
    try:
        assert store.has_vectors
        write(store, entry("near", "x", vectors=[vector(1, 0, 0, 0)]))
        write(store, entry("far", "y", vectors=[vector(0, 1, 0, 0)]))
        assert by_vector(store, 1, 0.1, 0, 0) == ["near", "far"]
        store.indexes.least = 2
        store.tidy(compact=True)
        store.state()
        assert by_vector(store, 1, 0.1, 0, 0) == ["near", "far"]
        listed = "SELECT count(*) FROM pg_indexes WHERE indexdef LIKE '%hnsw%'"
        assert server.execute(listed, DATABASE) == [(1,)]
    finally:
        store.close()


@pytest.mark.parametrize("path", ["", "nowhere"])
def test_a_role_with_another_search_path_finds_by_vectors(database: str, path: str) -> None:
    first = PostgresStore(database)
    second = PostgresStore(f"{database}&options={quote(f'-c search_path={path}')}")
    try:
        write(first, entry("note", "x", vectors=[vector(1, 0, 0, 0)]))
        assert by_vector(second, 1, 0, 0, 0) == ["note"]
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_writers_wait_for_each_other_whatever_the_server_isolates_by_default(
    database: str, level: str
) -> None:
    chosen = quote(f"-c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}")

    def write_some(writer: int) -> None:
        # Each makes the tables if they are not there.
        with closing(PostgresStore(f"{database}&options={chosen}")) as store:
            for number in range(10):
                write(store, entry(f"{writer}-{number}", "plum"))

    with ThreadPoolExecutor() as threads:
        list(threads.map(write_some, range(3)))
    with closing(PostgresStore(database)) as store:
        assert store.state().passages == 30


def test_without_a_schema_for_the_extension_a_memory_is_searched_by_keywords(
    database: str,
) -> None:
    store = PostgresStore(f"{database}&options={quote('-c search_path=nowhere')}")
    try:
        assert not store.has_vectors
        write(store, entry("note", "heron"))
        assert by_keyword(store, "heron") == ["note"]
    finally:
        store.close()


def test_only_names_of_pgvector_are_located() -> None:
    assert located("a::halfvec", None) == "a::halfvec"
    assert located("a.halfvec <=> b::halfvec[]", "s") == "a.halfvec OPERATOR(s.<=>) b::s.halfvec[]"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP"])
@pytest.mark.parametrize("given_by", ["machine", "address"])
def test_texts_are_exchanged_in_utf8_whatever_other_programs_use(
    server: OwnServer,
    opening: Opening,
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
    given_by: str,
) -> None:
    dsn = server.dsn
    if given_by == "machine":
        monkeypatch.setenv("PGCLIENTENCODING", encoding)
    else:
        dsn = f"{dsn}&client_encoding={encoding}"
    write(opening(dsn), entry("weather", "höhe 東京 🦦"))
    monkeypatch.delenv("PGCLIENTENCODING", raising=False)
    again = opening(server.dsn)
    assert by_keyword(again, "höhe") == ["weather"]
    assert by_keyword(again, "東京") == ["weather"]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_lacks_characters_is_refused(server: OwnServer, encoding: str) -> None:
    name = f"few_{new_id()}"
    options = f"ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    server.execute(f"CREATE DATABASE {name} {options}")
    try:
        with pytest.raises(StoreError, check=has_code("database_encoding")) as refused:
            PostgresStore(f"postgresql://postgres@/{name}?host={server.folder}")
        assert encoding in refused.value.notice.text
    finally:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
