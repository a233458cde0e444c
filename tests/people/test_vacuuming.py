"""Nobody waits forever to vacuum a table that somebody else has locked."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from plait.stores.postgres import fences, tidying, vacuuming
from plait.stores.postgres.pool import Patience
from plait.stores.postgres.store import PostgresStore
from tests.builders import entry
from tests.people.conftest import Team

SHORT_S = 0.1


@pytest.fixture
def locked(team: Team) -> "Iterator[psycopg.Connection[tuple[object, ...]]]":
    """A session that lets others read and write the words, but not vacuum them."""
    team.memory().close()
    with psycopg.connect(team.dsn()) as rival:
        rival.execute("LOCK TABLE plait.postings IN SHARE UPDATE EXCLUSIVE MODE")
        yield rival


def test_a_locked_table_is_left_to_the_server_after_the_first_member(
    team: Team, locked: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    with psycopg.connect(team.dsn(), autocommit=True) as administrator:
        fences.clear(administrator, ["postings", "passages"], SHORT_S)
        for act in (vacuuming.vacuum, vacuuming.count):
            assert not act(administrator, "postings", patience=Patience(SHORT_S))
            assert act(administrator, "passages", patience=Patience(SHORT_S))
        locked.rollback()
        assert vacuuming.vacuum(administrator, "postings", patience=Patience(SHORT_S))


def test_a_locked_index_is_left_to_the_server_where_the_role_limits_waiting(team: Team) -> None:
    team.memory().close()
    with (
        psycopg.connect(team.dsn()) as rival,
        psycopg.connect(team.dsn(), autocommit=True) as administrator,
    ):
        # It locks the index alone, and moves nothing.
        rival.execute("ALTER INDEX plait.postings_pkey SET TABLESPACE pg_default")
        administrator.execute("SET lock_timeout = '10ms'")
        fences.clear(administrator, ["postings", "passages"], SHORT_S)
        for act in (vacuuming.vacuum, vacuuming.count):
            assert not act(administrator, "postings", patience=Patience(SHORT_S))
            assert act(administrator, "passages", patience=Patience(SHORT_S))
        rival.rollback()
        assert vacuuming.vacuum(administrator, "postings", patience=Patience(SHORT_S))


def test_all_locked_tables_are_waited_for_together(
    team: Team,
    locked: "psycopg.Connection[tuple[object, ...]]",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    locked.execute("LOCK TABLE plait.passages, plait.documents IN SHARE UPDATE EXCLUSIVE MODE")
    made: list[Patience] = []
    used: list[Patience] = []

    class Noted(Patience):
        def __init__(self, seconds: float) -> None:
            super().__init__(seconds)
            made.append(self)

        def wait(self) -> bool:
            used.append(self)
            return super().wait()

    monkeypatch.setattr(tidying, "LOCKED_S", SHORT_S)
    monkeypatch.setattr(tidying, "UNCOUNTED_ROWS", 0)
    monkeypatch.setattr(tidying, "Patience", Noted)
    with closing(PostgresStore(team.address())) as store:
        with store.transaction() as transaction:
            transaction.write(entry("first", "plums and quinces"))
        assert store.tidy() == ()
    assert len(made) == 1 and {*used} == {*made}
    assert len(used) >= 3


@pytest.mark.usefixtures("locked")
def test_many_writes_do_not_wait_for_a_locked_table(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidying, "LOCKED_S", SHORT_S)
    monkeypatch.setattr(tidying, "UNCOUNTED_ROWS", 0)
    with closing(PostgresStore(team.address())) as store:
        with store.transaction() as transaction:
            transaction.write(entry("first", "plums and quinces"))
        assert store.tidy() == ()
        assert store.state().passages == 1
