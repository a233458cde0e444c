"""Corners where a server differs from a file: addresses, long names, snapshots, logs."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from plait.errors import StoreError, UsageError
from plait.exporting.migrating import drop
from plait.memory import Memory
from plait.stores.postgres import audit, pool
from plait.stores.postgres.address import parse
from plait.stores.postgres.connection import Channel
from plait.stores.postgres.distributing import distribute
from plait.stores.postgres.store import PostgresStore
from plait.text import plain
from plait.types import Document
from plait.types.audit import AuditQuery
from plait.types.ids import new_id
from tests import servers
from tests.builders import EVERYTHING, by_keyword, entry, write
from tests.codes import has_code


@pytest.fixture
def store() -> Iterator[PostgresStore]:
    opened = PostgresStore(servers.address(new_id()))
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana:ge%heim@db/team",
        "postgresql://ana:geheim%00x@db/team",
        "postgresql://ana@db/team?password=ge%zzheim",
        "postgresql://ana:geheim%@db/team",
    ],
)
def test_a_password_with_a_lone_percent_sign_is_not_repeated(address: str) -> None:
    with pytest.raises(UsageError, check=has_code("bad_address")) as refused:
        parse(address)
    assert "heim" not in str(refused.value)


@pytest.mark.parametrize("in_a_file", [True, False])
def test_a_key_that_no_engine_can_keep_is_cleaned_in_each(tmp_path: Path, in_a_file: bool) -> None:
    address = str(tmp_path / "memory.db") if in_a_file else servers.address(new_id())
    (tmp_path / "a b").write_text("the text of a file", encoding="utf-8")
    with Memory.open(address, embedder="none", project=None) as memory:
        assert memory.store("half", key="half \ud83d").doc_id == "half \ufffd"
        assert memory.store_many([Document(key="\udc80", text="other")])[0].doc_id == "\ufffd"
        assert memory.get("half \ufffd").text == "half"
        # It is looked for as it is kept, so that no file has the same name.
        memory.ingest(str(tmp_path), patterns=["a b"])
        with pytest.raises(UsageError, check=has_code("name_of_file")):
            memory.store("of an agent", key="a\0b", origin="agent")


def test_an_unknown_option_is_refused_without_its_value() -> None:
    with pytest.raises(UsageError, check=has_code("bad_address")) as refused:
        PostgresStore("postgresql:///team?host=/nowhere&passwort=geheim")
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("field", ["key", "topic", "tags"])
def test_a_name_that_no_index_takes_is_refused_in_a_sentence(
    store: PostgresStore, field: str
) -> None:
    name = "".join(new_id() for _ in range(300))
    values: dict[str, Any] = {"key": None, field: (name,) if field == "tags" else name}
    with pytest.raises(UsageError, check=has_code("not_storable")):
        write(store, entry(values.pop("key"), "x", **values))
    assert by_keyword(store, "x") == []


def test_a_document_is_read_with_its_text_at_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, _ = write(store, entry("k", "one ", "two"), entry("other", "three"))
    sent: list[str] = []
    honest = Channel.rows

    def counted(channel: Channel, sql: str, *others: Any, **named: Any) -> Any:
        sent.append(sql)
        return honest(channel, sql, *others, **named)

    monkeypatch.setattr(Channel, "rows", counted)
    assert [row.text for row in store.load([put.id])] == ["one two"]
    assert {row.text for row in store.scan(EVERYTHING, whole=True)} == {"one two", "three"}
    assert len(sent) == 2, "what another writer does between two statements would be mixed in"


def test_the_log_stays_short_whatever_else_takes_numbers(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "MOST_ENTRIES", 10)
    monkeypatch.setattr(audit, "TRIMMED_EVERY", 5)
    [put] = write(store, entry("first", "x"))
    with store.transaction() as tx:
        tx.amend(put.id, title="T")
    for number in range(30):
        write(store, entry(f"{number}", "x"))
    assert len(store.audit(AuditQuery(), 100)) <= 15


def test_connections_that_nobody_needs_are_closed(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = store._connections
    with connections.lent(), connections.lent(), connections.lent():
        pass
    assert len(connections._pool._idle) == 3
    monkeypatch.setattr(pool, "IDLE_S", -1.0)
    store.state()
    assert len(connections._pool._idle) == 0


def test_a_single_word_of_several_terms_is_searched(store: PostgresStore) -> None:
    write(store, entry("a", "my e-mail address"), entry("b", "mail"))
    query = plain("e-mail")._replace(words=("e-mail",))
    hits = store.keyword(query, 5, EVERYTHING)
    rows = store.hydrate([ref for ref, _ in hits])
    assert [rows[ref].document.key for ref, _ in hits] == ["a"]


def test_spreading_a_database_needs_no_memory_of_a_certain_name(store: PostgresStore) -> None:
    with pytest.raises(StoreError, check=has_code("no_citus")):
        distribute(servers.address(new_id()))


def test_to_drop_a_move_makes_no_memory() -> None:
    address = servers.address(new_id())
    with pytest.raises(StoreError):
        drop(address)
    with pytest.raises(StoreError, check=has_code("no_memory")):
        PostgresStore(address, create=False)


def test_a_statement_that_does_not_fit_into_the_socket_is_sent_whole() -> None:
    """Both sides would wait for ever: the server for the rest, the driver for an answer."""
    lengths: list[int] = []

    def ask() -> None:
        with psycopg.connect(servers.need(), autocommit=True) as connection:
            with pool.at_once(connection):
                cursor = connection.execute("SELECT length(%s)", ["x" * 8_000_000])
            lengths.extend(length for (length,) in cursor.fetchall())

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(60.0)
    assert lengths == [8_000_000]
