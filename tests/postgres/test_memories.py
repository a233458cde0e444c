"""The memories of a database: listed, and dropped with all that belongs to them."""

import json
from collections.abc import Iterator

import psycopg
import pytest

from plait.cli import main
from plait.errors import StoreError, UsageError
from plait.memory import Memory
from plait.stores.postgres.connection import number_of
from plait.stores.postgres.memories import drop_memory, memories
from plait.types import Document
from plait.types.ids import new_id
from tests.codes import has_code
from tests.interfaces.test_json_shapes import differences, documented
from tests.moves import furnish
from tests.postgres.own_server import OwnServer


@pytest.fixture(scope="module")
def server() -> Iterator[OwnServer]:
    own = OwnServer()
    yield own
    own.remove()


@pytest.fixture
def database(server: OwnServer) -> str:
    """The address of a new database, without a memory."""
    name = f"db_{new_id()}"
    server.execute(f"CREATE DATABASE {name}")
    return f"postgresql://postgres@/{name}?host={server.folder}"


def rows_of(address: str, namespace: str) -> dict[str, int]:
    """How many rows each table has of a memory; tables without any are left out."""
    tables = (
        "SELECT table_name FROM information_schema.columns "
        "WHERE table_schema = 'plait' AND column_name = 'ns'"
    )
    with psycopg.connect(address) as connection:
        counts = {
            name: connection.execute(
                f"SELECT count(*) FROM plait.{name} WHERE ns = %s", (number_of(namespace),)
            ).fetchone()
            for (name,) in connection.execute(tables).fetchall()
        }
    return {name: row[0] for name, row in counts.items() if row and row[0]}


def test_a_dropped_memory_leaves_no_row_and_others_stay(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert memories(database, timeout=5) == []
    furnish(f"{database}&namespace=shop")
    with Memory.open(f"{database}&namespace=home", project="") as memory:
        memory.store("The otter sleeps at noon", key="otter")
        assert main(["postgres", "list", database, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert differences(answer, documented("postgres list"), "") == []
        listed = answer["memories"]
        assert [row["name"] for row in listed] == ["home", "shop"]
        assert listed[0]["passages"] == 1
        kept, gone = rows_of(database, "home"), rows_of(database, "shop")
        assert {"documents", "postings", "embeddings", "audit", "trash"} <= gone.keys()
        assert main(["postgres", "drop", f"{database}&namespace=shop"]) == UsageError.exit_code
        assert "--yes" in capsys.readouterr().err
        assert rows_of(database, "shop") == gone
        assert main(["postgres", "drop", f"{database}&namespace=shop", "--yes"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert differences(answer, documented("postgres drop"), "") == []
        assert rows_of(database, "shop") == {}
        assert rows_of(database, "home") == kept
        assert memory.search("otter")
    assert [row.name for row in memories(database, timeout=5)] == ["home"]


def test_what_is_not_there_cannot_be_dropped(database: str) -> None:
    with pytest.raises(StoreError, check=has_code("no_memory")):
        drop_memory(f"{database}&namespace=shop", timeout=5)
    assert memories(database, timeout=5) == []


def test_who_has_a_dropped_memory_open_is_told(database: str) -> None:
    with Memory.open(f"{database}&namespace=shop", project="") as memory:
        memory.store("The otter sleeps at noon", key="otter")
        drop_memory(f"{database}&namespace=shop", timeout=5)
        with pytest.raises(StoreError):
            memory.store("The badger digs at night", key="badger")
    assert rows_of(database, "shop") == {}


def test_a_memory_beside_a_larger_one_is_counted_when_it_was_filled(database: str) -> None:
    """Otherwise the server expects a single row of it, and looks up all of them again and again."""
    counted = (
        "SELECT most_common_vals::text::bigint[] FROM pg_stats WHERE schemaname = 'plait' "
        "AND tablename = 'postings' AND attname = 'ns'"
    )
    for name, number in (("large", 4_000), ("small", 200)):
        with Memory.open(f"{database}&namespace={name}", embedder="none") as memory:
            texts = (f"Plum {n} fell beside tree {n % 7} at noon." for n in range(number))
            memory.store_many(Document(text=text, key=text) for text in texts)
            memory.engine.tidy(keywords=True)
        with psycopg.connect(database) as connection:
            row = connection.execute(counted).fetchone()
            assert row is not None
            assert number_of(name) in row[0]
