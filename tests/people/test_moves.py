"""A memory with members moves to another database with who sees what; never into a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from plait import Memory
from plait.errors import StoreError, UsageError
from plait.exporting.migrating import migrate
from plait.stores.moving import mark_of
from plait.stores.postgres import fences
from plait.stores.postgres.address import parse
from plait.stores.postgres.connection import number_of
from plait.stores.postgres.fences import put_up
from plait.stores.postgres.moving import PostgresRows
from plait.stores.sqlite.state import MOVING
from plait.types.ids import new_id
from plait.types.relations import Relation
from plait.types.visibility import visible_to
from tests.builders import vector
from tests.codes import has_code
from tests.people.conftest import Team, Trio
from tests.people.test_members import texts


def filled(trio: Trio) -> None:
    """Private and open texts, facts, relations, and deleted ones."""
    with trio.team.memory(trio.writer) as wim:
        wim.store("secret plums", key="diary", visibility="private")
        wim.store("secret plums of Ann", entity="Ann", visibility="private")
        wim.store("secret plums of Bob", entity="Bob", visibility="private")
        wim.graph.relate([Relation("Ann", "Bob", "knows")])
        wim.store("gone plums", key="gone", visibility="private")
        wim.delete("gone")
        wim.store("open plums", key="open", tags=("a",))
        wim.search("plums")
        with visible_to("private"), wim.engine.transaction() as transaction:
            transaction.remember(**{"history:x": "wim"})
            transaction.cache({"x": vector(1, 0)}, (), 10)
    with trio.team.memory() as admin, admin.engine.transaction() as transaction:
        transaction.remember(**{"history:x": "admin"})


def test_who_sees_what_moves_to_another_memory(trio: Trio) -> None:
    filled(trio)
    team, other = trio.team, new_id()
    moved = migrate(team.address(), team.address(namespace=other))
    assert moved.same == moved.queries
    with Memory.open(team.address(trio.owner, other), embedder="none") as olga:
        assert texts(olga) == {"open plums"}
        assert olga.engine.trashed() == []
        assert {entry.verb for entry in olga.log()} == {"team", "store"}
        assert [row.name for row in olga.team.members()] == sorted(trio[1:])
    with Memory.open(team.address(trio.writer, other), embedder="none") as wim:
        assert len(texts(wim)) == 4
        wim.undo("gone")
        assert wim.engine.remembered("history:") == {"history:x": "wim"}
        assert len(wim.engine.relations(None, wim._filter(None))) == 1
        id_ = wim.get("gone").id
        assert wim.team.visibilities([id_]) == {id_: "private"}
        wim.store("more secret plums", key="diary")
    with Memory.open(team.address(namespace=other), embedder="none") as admin:
        assert all(row.level == "ok" for row in admin.engine.check())
        assert admin.engine.remembered("history:") == {"history:x": "admin"}
    with Memory.open(team.address(trio.owner, other), embedder="none") as olga:
        assert texts(olga) == {"open plums"}


def test_a_move_that_was_stopped_hides_everything_again(trio: Trio) -> None:
    filled(trio)
    team, other = trio.team, new_id()
    migrate(team.address(), team.address(namespace=other))
    target = PostgresRows(team.address(namespace=other), create=True, timeout=5.0)
    mark = mark_of(parse(team.address()).shown, target.path)
    team.as_administrator(
        "INSERT INTO plait.facts (ns, name, value) VALUES (%s, %s, %s)",
        [number_of(other), MOVING, mark],
    )
    target.claim(mark)
    target.close()
    sees = f"SELECT count(*) FROM plait.documents WHERE ns = {number_of(other)}"
    assert team.as_role(trio.writer, sees) == [(0,)]
    migrate(team.address(), team.address(namespace=other))
    assert team.as_role(trio.writer, sees) == [(6,)]
    assert team.as_role(trio.owner, sees) == [(1,)]


def test_a_memory_with_members_is_no_empty_place(trio: Trio) -> None:
    other = new_id()
    with Memory.open(trio.team.address(namespace=other), embedder="none") as memory:
        memory.team.add(trio.reader)
    filled(trio)
    with pytest.raises(UsageError, check=has_code("target_not_empty")):
        migrate(trio.team.address(), trio.team.address(namespace=other))


def test_what_not_all_see_does_not_go_into_a_file(trio: Trio, tmp_path: Path) -> None:
    filled(trio)
    with pytest.raises(UsageError, check=has_code("hidden_documents")):
        migrate(trio.team.address(), str(tmp_path / "moved.db"))


class Once:
    """Does something in the middle of a move, once: as soon as its progress tells of a table."""

    def __init__(self, act: Callable[[], object], table: str = "facts", *, at_end: bool = False):
        self._act: Callable[[], object] | None = act
        self._table = table
        self._at_end = at_end

    def __call__(self, done: int, total: int, table: str) -> None:
        if self._act and table == self._table and (done == total or not self._at_end):
            act, self._act = self._act, None
            act()

    @property
    def is_done(self) -> bool:
        return self._act is None


@pytest.mark.parametrize("table", ["facts", "audit"])
def test_what_is_hidden_during_a_move_does_not_go_into_a_file(
    trio: Trio, tmp_path: Path, table: str
) -> None:
    file = tmp_path / "moved.db"
    with trio.team.memory(trio.writer) as wim:
        wim.store("open plums", key="open")
        write = Once(lambda: wim.store("secret nougat", key="x", visibility="private"), table)
        with pytest.raises(UsageError, check=has_code("hidden_documents")):
            migrate(trio.team.address(), str(file), progress=write)
    assert write.is_done
    with pytest.raises(StoreError, check=has_code("half_moved")):
        Memory.open(file, embedder="none")
    assert all(b"nougat" not in part.read_bytes() for part in tmp_path.iterdir())


def test_a_text_that_becomes_private_during_a_move_is_noticed(trio: Trio, tmp_path: Path) -> None:
    file = tmp_path / "moved.db"
    with trio.team.memory(trio.writer) as wim:
        wim.store("open plums", key="open")
        hide = Once(lambda: wim.mark("open", visibility="private"))
        with pytest.raises(UsageError, check=has_code("hidden_documents")):
            migrate(trio.team.address(), str(file), progress=hide)
    assert hide.is_done
    with pytest.raises(StoreError, check=has_code("half_moved")):
        Memory.open(file, embedder="none")


def test_deleted_relations_of_few_do_not_go_into_a_file(trio: Trio, tmp_path: Path) -> None:
    file = tmp_path / "moved.db"
    with trio.team.memory(trio.writer) as wim:
        for name in ("Ann", "Bob"):
            wim.store(f"{name} is here", entity=name, visibility="private")
        wim.graph.relate([Relation("Ann", "Bob", "knows", "a secret")])
        wim.delete("Bob")
        wim.team.share([wim.get("Ann").id], "team")
    trio.team.as_administrator("DELETE FROM plait.trash")
    with pytest.raises(UsageError, check=has_code("hidden_documents")):
        migrate(trio.team.address(), str(file))


def test_the_log_names_the_same_members_after_a_move_with_writes_meanwhile(trio: Trio) -> None:
    team, other = trio.team, new_id()
    log = "SELECT verb, document, member, label <> 0 FROM plait.audit WHERE ns = %s ORDER BY number"
    with team.memory(trio.writer) as wim, team.memory(trio.owner) as olga:
        gone = wim.store("plums to purge", key="gone")
        wim.store("secret plums", key="diary", visibility="private")
        olga.store("open plums", key="open")
        before = team.as_administrator(log, [team.ns])
        # When the last row was compared: what is purged afterwards is in the copy.
        late = Once(lambda: wim.delete(gone.id, purge=True), "audit", at_end=True)
        migrate(team.address(), team.address(namespace=other), progress=late)
    assert late.is_done
    assert team.as_administrator(log, [number_of(other)]) == before


def test_a_move_does_not_wait_for_readers_of_other_memories(trio: Trio) -> None:
    filled(trio)
    team, other = trio.team, new_id()
    with psycopg.connect(team.dsn(trio.reader)) as reader:
        reader.execute("SELECT count(*) FROM plait.documents")  # and stays in its transaction
        migrate(team.address(), team.address(namespace=other), timeout=2.0)
    with Memory.open(team.address(trio.writer, other), embedder="none") as wim:
        assert len(texts(wim)) == 4


def test_tables_are_fenced_while_nobody_writes(trio: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(trio)
    team, other = trio.team, new_id()
    team.as_administrator("ALTER TABLE plait.documents DISABLE ROW LEVEL SECURITY")
    alone: list[bool] = []

    def watched(connection: "psycopg.Connection[Any]") -> list[str]:
        held = connection.execute(
            "SELECT mode FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        )
        alone.append(held.fetchall() == [("ExclusiveLock",)])
        return put_up(connection)

    monkeypatch.setattr(fences, "put_up", watched)
    migrate(team.address(), team.address(namespace=other))
    assert alone == [True]
    with psycopg.connect(team.dsn()) as connection:
        assert fences.are_up(connection)


def test_an_open_memory_goes_into_a_file(team: Team, tmp_path: Path) -> None:
    member = team.member("mia")
    with team.memory(member) as memory:
        memory.store("open plums", key="open")
    moved = migrate(team.address(), str(tmp_path / "moved.db"))
    assert moved.same == moved.queries
    with Memory.open(tmp_path / "moved.db", embedder="none") as memory:
        assert texts(memory) == {"open plums"}


@pytest.mark.parametrize("kind", ["from", "to"])
def test_a_member_moves_nothing(trio: Trio, tmp_path: Path, kind: str) -> None:
    own = trio.team.address(trio.owner)
    file = str(tmp_path / "file.db")
    Memory.open(file, embedder="none").close()
    with pytest.raises(StoreError, check=has_code("administrator_only")):
        migrate(*((own, file) if kind == "from" else (file, own)))
