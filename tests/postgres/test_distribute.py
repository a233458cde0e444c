"""`plait postgres distribute`: on a server with Citus every table is spread by memory, once.

The Citus of these tests is an imitation that notes what it is told, and refuses what Citus refuses:
it shows the order of the calls and that a second run changes nothing. The real one is tried where
``PLAIT_TEST_CITUS_DSN`` names a server: then the contract suite runs there, too.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from plait import Memory
from plait.cli import main
from plait.errors import StoreError, UsageError
from plait.exporting.migrating import migrate
from plait.stores.postgres import schema
from plait.stores.postgres.distributing import distribute
from plait.stores.postgres.store import PostgresStore
from plait.types.ids import new_id
from tests.codes import has_code
from tests.interfaces.test_json_shapes import differences, documented
from tests.postgres.own_server import OwnServer
from tests.postgres.test_lost_connections import names, put

CITUS = os.environ.get("PLAIT_TEST_CITUS_DSN")
IMITATION = """
CREATE TABLE pg_dist_partition (logicalrelid regclass PRIMARY KEY, kind text, number serial);
CREATE FUNCTION create_reference_table(name regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pg_dist_partition VALUES (name, 'whole');
END $$;
CREATE FUNCTION create_distributed_table(name regclass, key text, colocate_with text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF colocate_with <> 'none' AND NOT EXISTS (SELECT 1 FROM pg_dist_partition
        WHERE logicalrelid = colocate_with::regclass AND kind = 'ns') THEN
        RAISE 'relation % is not distributed', colocate_with;
    END IF;
    IF EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = name AND i.indisunique
        AND NOT EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = name
            AND a.attname = key AND a.attnum = ANY (i.indkey))) THEN
        RAISE 'cannot create constraint on %', name;
    END IF;
    INSERT INTO pg_dist_partition VALUES (name, key);
END $$;
"""


@pytest.fixture(scope="module")
def spreading() -> Iterator[OwnServer]:
    """A server that can have the imitation."""
    own = OwnServer({"extension_control_path": "$system"})
    folder = own.folder / "share" / "extension"
    folder.mkdir(parents=True)
    (folder / "citus.control").write_text("default_version = '1'\n", encoding="utf-8")
    (folder / "citus--1.sql").write_text(IMITATION, encoding="utf-8")
    own.execute(f"ALTER SYSTEM SET extension_control_path = '$system:{own.folder}/share'")
    own.stop()
    own.start()
    yield own
    own.remove()


@pytest.fixture
def address(spreading: OwnServer) -> Iterator[str]:
    """A database with a memory, and with the imitation."""
    name = f"db_{new_id()}"
    spreading.execute(f"CREATE DATABASE {name}")
    spreading.execute("CREATE EXTENSION citus", name)
    own = f"postgresql://postgres@/{name}?host={spreading.folder}"
    PostgresStore(own).close()
    yield own
    spreading.execute(f"DROP DATABASE {name} WITH (FORCE)")


def told(address: str) -> list[tuple[str, str]]:
    """The tables that are spread, and how, in order."""
    with psycopg.connect(address) as connection:
        rows = connection.execute(
            "SELECT logicalrelid::text, kind FROM pg_dist_partition ORDER BY number"
        ).fetchall()
    return [(str(name), str(kind)) for name, kind in rows]


def test_every_table_is_spread_by_memory_once(address: str) -> None:
    done = distribute(address)
    listed = told(address)
    assert listed[:2] == [("plait.schema_version", "whole"), ("plait.namespaces", "ns")]
    assert {kind for _, kind in listed[2:]} == {"ns"}
    with psycopg.connect(address) as connection:
        tables = connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'plait'"
        ).fetchone()
    assert tables == (len(listed),)
    assert (len(done.made), done.before) == (len(listed), ())
    again = distribute(address)
    assert (again.made, len(again.before)) == ((), len(listed))
    assert told(address) == listed
    store = PostgresStore(address)
    put(store, "first")
    assert names(store) == ["first"]
    store.close()


def test_private_texts_do_not_move_into_tables_that_cannot_hide_them(
    spreading: OwnServer, address: str
) -> None:
    name = f"db_{new_id()}"
    spreading.execute(f"CREATE DATABASE {name}")
    spreading.execute(f"CREATE ROLE {name} LOGIN")
    source = f"postgresql://postgres@/{name}?host={spreading.folder}"
    distribute(address)
    with Memory.open(source, embedder="none", project=None) as memory:
        memory.team.add(name)
        memory.store("secret plums", key="diary", visibility="private")
    with pytest.raises(UsageError, check=has_code("hidden_documents")):
        migrate(source, f"{address}&namespace=moved")
    spreading.execute(f"DROP DATABASE {name} WITH (FORCE)")
    spreading.execute(f"DROP ROLE {name}")


def test_tables_of_a_newer_version_are_spread_like_the_others(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribute(address)
    newer = "CREATE TABLE plait.newer (ns bigint PRIMARY KEY)"
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, newer))
    for module in ("plait.stores.postgres.connection", "plait.stores.postgres.schema"):
        monkeypatch.setattr(f"{module}.SCHEMA_VERSION", len(schema.MIGRATIONS))
    PostgresStore(address).close()
    assert told(address)[-1] == ("plait.newer", "ns")


def test_a_run_that_fails_leaves_nothing_spread(address: str) -> None:
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TABLE plait.odd (ns bigint, id bigint PRIMARY KEY)")
    with pytest.raises(StoreError, match=r"cannot create constraint on plait\.odd"):
        distribute(address)
    assert told(address) == []


def test_without_the_extension_one_sentence_says_so(
    server: OwnServer, capsys: pytest.CaptureFixture[str]
) -> None:
    PostgresStore(server.dsn).close()
    with pytest.raises(StoreError, check=has_code("no_citus")):
        distribute(server.dsn)
    assert main(["postgres", "distribute", server.dsn]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_memory_that_is_not_there_is_not_made(spreading: OwnServer) -> None:
    name = f"db_{new_id()}"
    spreading.execute(f"CREATE DATABASE {name}")
    with pytest.raises(StoreError, check=has_code("no_memory")):
        distribute(f"postgresql://postgres@/{name}?host={spreading.folder}")
    spreading.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_command_tells_what_it_did(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["postgres", "distribute", address, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert differences(answer, documented("postgres distribute"), "") == []
    assert answer["spread"][:2] == ["schema_version", "namespaces"]
    assert main(["postgres", "distribute", address, "--format", "text"]) == 0
    assert "are spread already" in capsys.readouterr().out


def test_a_file_cannot_be_spread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["postgres", "distribute", str(tmp_path / "memory.db")])
    assert code == UsageError.exit_code
    assert "is not the address of a database" in capsys.readouterr().err


@pytest.mark.skipif(CITUS is None, reason="PLAIT_TEST_CITUS_DSN names no server with Citus")
def test_a_real_citus_spreads_the_tables() -> None:
    assert CITUS is not None
    PostgresStore(CITUS).close()
    distribute(CITUS)
    assert distribute(CITUS).made == ()
    with psycopg.connect(CITUS) as connection:
        groups = connection.execute(
            "SELECT count(DISTINCT colocationid) FROM pg_dist_partition AS p "
            "JOIN pg_class AS c ON c.oid = p.logicalrelid WHERE p.partmethod = 'h' "
            "AND c.relnamespace = 'plait'::regnamespace"
        ).fetchone()
    assert groups == (1,)
