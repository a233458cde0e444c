"""What members see and do with plait: private, project and team, and who may change what."""

from collections.abc import Callable
from pathlib import Path

import pytest

from plait import Memory
from plait.errors import NotFound, PlaitError, StoreError, StoreReadOnly, UsageError
from plait.stores.postgres import connection
from plait.stores.postgres.connection import SQLRow
from plait.stores.postgres.memories import drop_memory
from plait.stores.postgres.store import PostgresStore
from plait.types.relations import Relation
from plait.types.visibility import TeamMember, Visibility
from tests.codes import has_code
from tests.people.conftest import Opened, Team, Trio
from tests.unit.test_postgres_trips import MOST_TRIPS, trips


def texts(memory: Memory, query: str = "plums") -> set[str]:
    """The texts of the hits."""
    return {hit.passage.text for hit in memory.search(query, limit=50)}


def keys(memory: Memory) -> set[str | None]:
    return {row.key for row in memory.engine.scan(memory._filter(None))}


def test_a_private_text_is_seen_by_nobody_else(trio: Trio, opened: Opened) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    wim.store("secret plums", key="mine", visibility="private")
    wim.store("open plums", key="ours")
    assert texts(wim) == {"secret plums", "open plums"}
    assert texts(olga) == texts(opened(trio.reader)) == {"open plums"}
    assert texts(opened(None)) == {"secret plums", "open plums"}


def test_the_fence_of_the_server_holds_without_plaits_own(
    trio: Trio, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = opened(trio.writer).store("secret plums", key="mine", visibility="private")
    monkeypatch.setattr(connection, "fenced", lambda sql: sql)
    olga = opened(trio.owner)
    assert texts(olga) == set()
    assert keys(olga) == set()
    assert olga.engine.load([secret.id]) == []
    with pytest.raises(NotFound):
        olga.get(secret.id)
    assert texts(opened(trio.writer)) == {"secret plums"}


def test_plaits_own_filter_holds_without_the_fence_of_the_server(
    trio: Trio, opened: Opened
) -> None:
    secret = opened(trio.writer).store("secret plums", key="mine", visibility="private")
    olga = opened(trio.owner)
    for table in ("documents", "passages", "postings", "tags", "trash", "signals"):
        trio.team.as_administrator(f"ALTER TABLE plait.{table} DISABLE ROW LEVEL SECURITY")
    sees = "SELECT count(*) FROM plait.documents"
    assert trio.team.as_role(trio.owner, sees) == [(1,)]
    assert texts(olga) == set()
    assert keys(olga) == set()
    assert olga.engine.load([secret.id]) == []
    assert not olga.engine.vocabulary(["secret"]).holding["secret"]
    assert olga.engine.passages(secret.id) == []


def test_two_members_have_private_keys_and_entities_of_the_same_name(
    trio: Trio, opened: Opened
) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    for memory, word in ((wim, "red"), (olga, "green")):
        memory.store(f"{word} plums", key="diary", visibility="private")
        memory.store(f"{word} plums are ripe", entity="Garden", topic="x", visibility="private")
    assert texts(wim) == {"red plums", "red plums are ripe"}
    assert texts(olga) == {"green plums", "green plums are ripe"}
    assert wim.get("diary").text == "red plums"
    [garden] = olga.graph.open(["Garden"]).entities
    assert [fact.text for fact in garden.observations] == ["green plums are ripe"]


def test_a_text_with_a_known_private_key_stays_private(trio: Trio, opened: Opened) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    wim.store("secret plums", key="diary", visibility="private")
    olga.store("open plums", key="diary")
    wim.store("more secret plums", key="diary")
    assert texts(olga) == {"open plums"}
    assert texts(wim) == {"open plums", "more secret plums"}


def test_the_administrator_does_not_replace_what_is_private(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    wim.store("secret plums", key="diary", visibility="private")
    opened(None).store("open plums", key="diary")
    assert texts(wim) == {"secret plums", "open plums"}


def test_a_fact_has_the_visibility_of_its_entity(trio: Trio, opened: Opened) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    wim.store("the garden has plums", entity="Garden")
    with pytest.raises(UsageError, check=has_code("other_visibility")):
        wim.store("secret plums", entity="Garden", visibility="private")
    wim.store("secret plums", entity="Cellar", visibility="private")
    wim.store("more secret plums", entity="Cellar")
    assert texts(olga) == {"the garden has plums"}
    assert "secret" not in olga.get("Garden").text
    with pytest.raises(NotFound):
        olga.get("Cellar")
    with pytest.raises(UsageError, check=has_code("other_visibility")):
        wim.store("open plums", entity="Cellar", visibility="team")
    fact = next(hit.document.id for hit in wim.search("secret") if hit.document.parent)
    with pytest.raises(UsageError, check=has_code("other_visibility")):
        wim.mark(fact, entity="Garden")
    with pytest.raises(UsageError, check=has_code("fact_of_entity")):
        wim.mark(fact, visibility="team")


def test_what_replaces_a_private_fact_is_private(trio: Trio, opened: Opened) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    first = wim.store("secret plums", topic="fruit", visibility="private")
    public = wim.store("open plums", topic="fruit")
    assert not public.superseded  # two circles of readers are two topics
    wim.store("newer secret plums", supersedes=first.id)
    assert texts(olga) == {"open plums"}
    with pytest.raises(UsageError, check=has_code("other_visibility")):
        wim.store("open plums again", supersedes=first.id, visibility="team")


def test_relations_are_seen_with_their_narrower_end(trio: Trio, opened: Opened) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    wim.store("Ann likes plums", entity="Ann")
    wim.store("Bob likes plums", entity="Bob", visibility="private")
    wim.graph.relate([Relation("Ann", "Bob", "knows")])
    everything = olga._filter(None)
    assert len(wim.engine.relations(None, everything)) == 1
    assert olga.engine.relations(None, everything) == []
    sees = "SELECT count(*) FROM plait.relations"
    assert trio.team.as_role(trio.owner, sees) == [(0,)]


def test_a_project_is_seen_by_those_to_whom_it_was_given(team: Team) -> None:
    shop = team.member("shula", projects=["shop"])
    other = team.member("otto")
    with team.memory(shop, project="shop") as memory:
        memory.store("shop plums", key="stock", visibility="project")
        memory.store("open plums", key="open")
    with team.memory(other, project="shop") as memory:
        assert texts(memory) == {"open plums"}
        with pytest.raises(UsageError, check=has_code("not_in_project")):
            memory.store("x", key="y", visibility="project")
    with team.memory() as memory:
        memory.team.add(other, projects="shop")
    with team.memory(other, project="shop") as memory:
        assert texts(memory) == {"shop plums", "open plums"}
        memory.store("more shop plums", key="stock")
    with team.memory(shop, project="shop") as memory:
        assert texts(memory) == {"more shop plums", "open plums"}
    refused = pytest.raises(UsageError, check=has_code("no_project_to_share"))
    with team.memory(shop, project="") as memory, refused:
        memory.store("x", key="y", visibility="project")


def test_a_reader_reads_and_changes_nothing(trio: Trio, opened: Opened) -> None:
    opened(trio.writer).store("open plums", key="ours")
    rita = opened(trio.reader)
    assert texts(rita) == {"open plums"}
    acts: list[Callable[[], object]] = [
        lambda: rita.store("x", key="y"),
        lambda: rita.delete("ours"),
        lambda: rita.mark("ours", status="done"),
        lambda: rita.feedback("ours", "good"),
        lambda: rita.team.add(trio.writer, role="reader"),
    ]
    for act in acts:
        with pytest.raises(StoreReadOnly, check=has_code("reader")):
            act()
    assert rita.scope("user:7").graph.read().entities == ()
    rita.close()  # writes what was read, if it may
    assert trio.team.as_administrator("SELECT count(*) FROM plait.signals") == [(0,)]


def test_who_is_not_a_member_does_not_get_in(trio: Trio) -> None:
    stranger = trio.team.person("sam")
    with pytest.raises(StoreError, check=has_code("not_a_member")) as refused:
        trio.team.memory(stranger)
    assert refused.value.advice is not None
    assert refused.value.advice.act == "add_member"
    member = trio.team.member("otto")
    with pytest.raises(StoreError, check=has_code("not_a_member")):
        Memory.open(trio.team.address(member, "elsewhere"), embedder="none")


def test_visibility_can_be_changed(trio: Trio, opened: Opened) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    wim.store("first plums", key="note", tags=("a",))
    wim.store("second plums", key="note", tags=("a",), origin="agent")
    assert len(olga.engine.trashed()) == 1
    wim.store("Ann likes plums", entity="Ann")
    wim.mark("note", "Ann", visibility="private")
    assert texts(olga) == set()
    assert texts(wim) == {"second plums", "Ann likes plums"}
    with pytest.raises(NotFound):
        olga.get("Ann")
    assert olga.engine.trashed() == []  # nor the earlier text
    id_ = wim.get("note").id
    assert wim.team.visibilities([id_]) == {id_: "private"}
    wim.mark("note", "Ann", visibility="team")
    assert texts(olga) == texts(wim)
    assert olga.engine.trashed() == []  # the earlier text stays hidden
    assert opened(None).doctor()[0].level == "ok"
    assert all(row.level == "ok" for row in opened(None).engine.check())


def test_deleted_private_texts_come_back_private(trio: Trio, opened: Opened) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    wim.store("secret plums", key="diary", visibility="private")
    wim.store("plums for Ann", entity="Ann", visibility="private")
    wim.delete("diary")
    wim.graph.delete(["Ann"])
    with pytest.raises(NotFound):
        olga.undo("diary")
    assert olga.engine.trashed() == []
    wim.undo("Ann")
    wim.undo("diary")
    assert texts(olga) == set()
    assert texts(wim) == {"secret plums", "plums for Ann"}
    with pytest.raises(NotFound):
        olga.get("Ann")
    wim.delete("diary", purge=True)
    rows = "SELECT count(*) FROM plait.trash"
    assert trio.team.as_administrator(rows) == [(0,)]
    assert {entry.verb for entry in olga.log()} == {"team"}
    assert {entry.member for entry in wim.log() if entry.verb != "team"} == {trio.writer}


def test_earlier_versions_of_a_private_text_are_private(trio: Trio, opened: Opened) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    wim.store("secret plums", key="diary", visibility="private")
    wim.store("newer plums", key="diary", origin="agent")
    assert len(wim.engine.trashed()) == 1
    assert olga.engine.trashed() == []
    wim.undo("diary")
    assert texts(wim) == {"secret plums"}
    assert texts(olga) == set()
    assert olga.engine.trashed() == []


def test_facts_that_begin_later_are_the_teams(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    with pytest.raises(UsageError, check=has_code("later_for_few")):
        wim.store("x", entity="Ann", valid_from="2999-01-01", visibility="private")
    wim.store("x", entity="Ann", valid_from="2999-01-01")


def test_what_needs_all_rows_is_left_to_the_administrator(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    opened(trio.owner).store("secret plums", key="mine", visibility="private")
    wim.store("open plums", key="ours")
    before = trio.team.as_administrator("SELECT passages, tokens FROM plait.namespaces")
    wim.doctor(fix=True)
    wim.reindex()
    wim.engine.tidy(purged=True)
    assert trio.team.as_administrator("SELECT passages, tokens FROM plait.namespaces") == before
    assert before == [(2, 6)]


# -- members -------------------------------------------------------------------------------


def test_owners_change_members_and_others_do_not(trio: Trio, opened: Opened) -> None:
    olga, wim = opened(trio.owner), opened(trio.writer)
    with pytest.raises(StoreError, check=has_code("not_an_owner")):
        wim.team.role(trio.reader, "writer")
    assert olga.team.role(trio.reader, "writer").role == "writer"
    opened(trio.reader).store("open plums", key="ours")
    olga.team.remove(trio.reader)
    with pytest.raises(StoreError, check=has_code("not_a_member")):
        opened(trio.reader)
    assert [row.name for row in wim.team.members()] == sorted([trio.owner, trio.writer])
    verbs = {(entry.verb, entry.document, entry.member) for entry in wim.log()}
    assert ("team", trio.reader, trio.owner) in verbs
    assert ("team", trio.owner, None) in verbs


def test_refusals_about_members(trio: Trio, opened: Opened) -> None:
    team, olga = trio.team, opened(trio.owner)
    refusals: list[tuple[Callable[[], TeamMember], str]] = [
        (lambda: olga.team.add("nobody_of_this_server"), "unknown_role"),
        (lambda: olga.team.add(team.person("new")), "needs_administrator"),
        (lambda: olga.team.add(trio.owner, role="reader"), "own_membership"),
        (lambda: olga.team.remove(trio.owner), "own_membership"),
        (lambda: olga.team.remove("nobody"), "unknown_member"),
        (lambda: olga.team.role("nobody", "reader"), "unknown_member"),
        (lambda: opened(None).team.role(trio.owner, "reader"), "last_owner"),
        (lambda: opened(None).team.remove(trio.owner), "last_owner"),
    ]
    for act, code in refusals:
        with pytest.raises(PlaitError, check=has_code(code)):
            act()
    with pytest.raises(UsageError, check=has_code("bad_value")):
        olga.team.role(trio.writer, "king")


def test_a_member_who_comes_back_has_his_private_texts(trio: Trio, opened: Opened) -> None:
    opened(trio.writer).store("secret plums", key="mine", visibility="private")
    admin = opened(None)
    admin.team.remove(trio.writer)
    granted = "SELECT has_schema_privilege(%s, 'plait', 'USAGE')"
    assert trio.team.as_administrator(granted, [trio.writer]) == [(False,)]
    admin.team.add(trio.writer)
    assert texts(opened(trio.writer)) == {"secret plums"}


def test_a_file_has_no_members() -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        memory.store("x", key="y", visibility="team")
        for visibility in ("private", "project"):
            with pytest.raises(UsageError, check=has_code("no_members")):
                memory.store("x", key="z", visibility=visibility)
        with pytest.raises(UsageError, check=has_code("no_team")):
            memory.team.members()
        with pytest.raises(UsageError, check=has_code("bad_value")):
            memory.store("x", key="z", visibility="secret")


def test_a_database_without_members_has_nothing_private(team: Team) -> None:
    with team.memory() as memory, pytest.raises(UsageError, check=has_code("no_members")):
        memory.store("x", key="y", visibility="private")


def test_only_the_administrator_drops_a_memory(trio: Trio, opened: Opened) -> None:
    opened(trio.owner).store("open plums", key="ours")
    with pytest.raises(StoreError, check=has_code("administrator_only")):
        drop_memory(trio.team.address(trio.owner), timeout=5)
    assert texts(opened(trio.owner)) == {"open plums"}
    drop_memory(trio.team.address(None), timeout=5)
    with pytest.raises(StoreError, check=has_code("not_a_member")):
        opened(trio.owner)


def test_a_member_is_told_where_purged_text_may_be_left(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    wim.store("open plums", key="ours")
    [left] = wim.delete("ours", purge=True).copies
    assert "the owner of its tables" in left


def test_a_memory_that_is_not_there_yet_is_no_file(team: Team) -> None:
    with (
        Memory.open(
            team.address(namespace="later"), embedder="none", project=None, create=False
        ) as memory,
        pytest.raises(StoreError, check=has_code("no_memory")),
    ):
        memory.team.members()


def test_a_role_that_changes_at_the_last_try_of_a_read_is_known(trio: Trio, opened: Opened) -> None:
    store = opened(trio.writer).engine
    assert isinstance(store, PostgresStore)
    with trio.team.memory() as administrator:
        administrator.team.role(trio.writer, "reader")
    store._connections._recognised_at = float("-inf")
    roles: list[str | None] = []

    def read(session: connection.Channel) -> list[SQLRow]:
        roles.append(session.membership.role)
        if len(roles) < connection.READ_TRIES:
            raise StoreError("cut", code="connection_lost")
        return session.rows("SELECT 1")

    assert store._connections.read(read) == [(1,)]
    assert roles == ["writer"] * connection.READ_TRIES + ["reader"]


def test_what_another_thread_has_learnt_of_a_role_counts_at_once(
    trio: Trio, opened: Opened
) -> None:
    store = opened(trio.writer).engine
    assert isinstance(store, PostgresStore)
    with trio.team.memory() as administrator:
        administrator.team.role(trio.writer, "reader")
    store._connections._recognised_at = float("-inf")
    roles: list[str | None] = []

    def read(session: connection.Channel) -> list[SQLRow]:
        roles.append(session.membership.role)
        store._connections.recognise()  # as another thread does meanwhile
        return session.rows("SELECT 1")

    store._connections.read(read)
    assert roles == ["writer", "reader"]


def test_what_a_member_is_takes_no_trip_of_its_own(trio: Trio, opened: Opened) -> None:
    """It is asked with what is read: the same answer tells it, and the next one goes by it."""
    memory = opened(trio.writer)
    for number in range(5):
        memory.store(f"We rotate key {number} on Fridays.", key=f"note-{number}")
    store = memory.engine
    assert isinstance(store, PostgresStore)
    for query in ("rotate keys", "rotaet kesy"):
        store._connections._recognised_at = float("-inf")
        asked = trips(memory, lambda query=query: memory.search(query))  # type: ignore[misc]
        known = trips(memory, lambda query=query: memory.search(query))  # type: ignore[misc]
        assert known == asked <= MOST_TRIPS
    with trio.team.memory() as administrator:
        administrator.team.role(trio.writer, "reader")
    store._connections._recognised_at = float("-inf")
    assert memory.search("rotate keys")
    assert store.membership.role == "reader"


@pytest.mark.parametrize("visibility", ["private", "team"])
def test_a_link_to_what_only_its_writer_sees_takes_no_text_from_the_others(
    trio: Trio, tmp_path: Path, visibility: Visibility
) -> None:
    for name in ("home", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.md").write_text(f"About {name}.", encoding="utf-8")
    note = tmp_path / "home/note.md"
    note.write_text("Open plums.", encoding="utf-8")
    with trio.team.memory(trio.writer) as wim, trio.team.memory(trio.reader) as rita:
        wim.ingest(tmp_path / "home")
        note.rename(tmp_path / "other/note.md")
        note.symlink_to(tmp_path / "other/note.md")
        wim.ingest(tmp_path / "other", visibility=visibility)
        wim.ingest(tmp_path / "home")
        assert texts(rita) == {"Open plums."}
        assert len(wim.search("plums")) == (2 if visibility == "private" else 1)
