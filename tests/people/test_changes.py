"""A membership changes while somebody has the memory open, as a server of tools has it for days."""

from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

from plait import Memory
from plait.errors import PlaitError, StoreBusy, StoreError, StoreReadOnly
from plait.stores.postgres import connection, teams
from plait.stores.postgres.commits import LOCK
from plait.stores.postgres.store import PostgresStore
from tests.codes import has_code
from tests.people.conftest import Opened, Team, Trio, run
from tests.people.test_members import texts


@pytest.fixture(autouse=True)
def _asked_at_every_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "RECOGNISED_FOR_S", 0.0)


def test_a_project_is_there_as_soon_as_it_was_given(team: Team) -> None:
    shula, otto = team.member("shula", projects=["shop"]), team.member("otto")
    with (
        team.memory(shula, project="shop") as own,
        team.memory(otto, project="shop") as memory,
        team.memory() as admin,
    ):
        own.store("shop plums", key="stock", visibility="project")
        assert texts(memory) == set()
        admin.team.add(otto, projects="shop")
        assert texts(memory) == {"shop plums"}


def test_a_write_knows_what_was_given_since_the_last_read(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "RECOGNISED_FOR_S", 3_600.0)
    otto = team.member("otto")
    with team.memory(otto, project="shop") as memory, team.memory() as admin:
        memory.store("open plums", key="open")
        admin.team.add(otto, projects="shop")
        memory.store("shop plums", key="stock", visibility="project")
        assert texts(memory) == {"open plums", "shop plums"}


@pytest.mark.parametrize("seconds", [0.0, 3_600.0])
def test_who_becomes_a_reader_is_told_so(
    trio: Trio, opened: Opened, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(connection, "RECOGNISED_FOR_S", seconds)
    wim, admin = opened(trio.writer), opened(None)
    wim.store("open plums", key="ours")
    admin.team.role(trio.writer, "reader")
    for _ in range(2):
        with pytest.raises(StoreReadOnly, check=has_code("reader")):
            wim.store("x", key="y")
    assert texts(wim) == {"open plums"}
    admin.team.role(trio.writer, "writer")
    wim.store("more plums", key="ours")
    assert texts(wim) == {"more plums"}


@pytest.mark.parametrize("by", ["owner", "administrator"])
def test_who_is_removed_is_told_so(trio: Trio, opened: Opened, by: str) -> None:
    wim = opened(trio.writer)
    wim.store("open plums", key="ours")
    opened(trio.owner if by == "owner" else None).team.remove(trio.writer)
    acts: list[Callable[[Memory], object]] = [
        lambda memory: memory.search("plums"),
        lambda memory: memory.get("ours"),
        lambda memory: memory.stats(),
        lambda memory: memory.store("x", key="y"),
        lambda memory: memory.delete("ours"),
        lambda memory: memory.team.members(),
        lambda memory: memory.team.add(trio.reader),
    ]
    for act in acts:
        with pytest.raises(StoreError, check=has_code("not_a_member")):
            act(wim)


def test_who_was_an_owner_changes_no_members(trio: Trio, opened: Opened) -> None:
    olga, admin = opened(trio.owner), opened(None)
    admin.team.add(trio.writer, role="owner")
    admin.team.role(trio.owner, "writer")
    acts: list[Callable[[], object]] = [
        lambda: olga.team.role(trio.reader, "writer"),
        lambda: olga.team.add(trio.reader, role="owner"),
        lambda: olga.team.remove(trio.reader),
    ]
    for act in acts:
        with pytest.raises(PlaitError, check=has_code("not_an_owner")):
            act()


def granted(team: Team, role: str) -> bool:
    [(is_granted,)] = team.as_administrator(
        "SELECT has_schema_privilege(%s, 'plait', 'USAGE')", [role]
    )
    return bool(is_granted)


def test_who_leaves_a_memory_while_he_joins_another_keeps_his_rights(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    otto = team.member("otto")
    let_in = teams._let_in

    def dismissed_meanwhile(connections: connection.Connections, name: str) -> None:
        let_in(connections, name)
        with team.memory() as admin:
            if any(row.name == name for row in admin.team.members()):
                admin.team.remove(name)

    monkeypatch.setattr(teams, "_let_in", dismissed_meanwhile)
    with Memory.open(team.address(namespace="other"), embedder="none") as other:
        other.team.add(otto)
        assert granted(team, otto)
        other.team.remove(otto)
    assert not granted(team, otto)


def test_rights_are_not_taken_while_others_may_be_given_some(team: Team) -> None:
    otto = team.member("otto")
    store = PostgresStore(team.address(), timeout=0.2)
    with closing(store), psycopg.connect(team.dsn()) as rival:
        rival.execute("SELECT pg_advisory_xact_lock_shared(%s)", [LOCK])
        with pytest.raises(StoreBusy):
            store.dismiss(otto)
        assert granted(team, otto)


def test_tables_are_vacuumed_after_the_first_member(team: Team) -> None:
    """They are written anew then, and the server would wait for many more rows to do it."""
    with team.memory() as memory:
        for number in range(40):
            memory.store(f"plum {number} and quince", key=f"note-{number}")
    team.member("mia")
    looked_up = (
        "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT t.ref, t.times, t.length "
        "FROM plait.postings AS t WHERE t.ns = %s AND t.term = 'plum'"
    )
    with psycopg.connect(team.dsn()) as session:
        session.execute("SET LOCAL enable_seqscan = off")
        session.execute("SET LOCAL enable_bitmapscan = off")
        plan = [line.strip() for (line,) in run(session, looked_up, [team.ns])]
    assert "Heap Fetches: 0" in plan
