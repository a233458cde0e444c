"""Who sees a document stays so, whatever becomes of it: moved, narrowed, rewritten, renamed."""

from pathlib import Path
from typing import Any

import pytest

from plait.errors import UsageError
from plait.stores.postgres.labels import label_of
from plait.types import EVERYTHING, Document
from plait.types.relations import Relation
from plait.writing import retention
from tests.codes import has_code
from tests.people.conftest import Opened, Team, Trio

LABELS = "SELECT DISTINCT project, label FROM plait.documents WHERE kind = 'file'"
KEPT = ("documents", "trash", "trashed_relations")


def notes(folder: Path) -> Path:
    """A folder with files of one word."""
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.md").write_text(f"plums {number}\n", "utf-8")
    return folder


# -- a document goes to another project ----------------------------------------------------


@pytest.mark.parametrize("who", ["member", "administrator"])
@pytest.mark.parametrize("moved", [True, False])
def test_files_of_a_project_are_not_the_teams_in_another_one(
    team: Team, tmp_path: Path, who: str, moved: bool
) -> None:
    ben = team.member("ben", projects=["shop", "lab"])
    ana = team.member("ana")
    role = ben if who == "member" else None
    folder = notes(tmp_path / "old")
    with team.memory(role, project="shop") as memory:
        memory.ingest(folder, visibility="project")
    if moved:
        folder = folder.rename(tmp_path / "new")
    with team.memory(role, project="lab") as memory:
        memory.ingest(folder)
    assert team.as_administrator(LABELS) == [("lab", label_of(team.ns, "project", "lab"))]
    for table in ("documents", "passages", "postings"):
        sees = f"SELECT count(*) FROM plait.{table}"
        assert team.as_role(ana, sees) == [(0,)]
        assert team.as_role(ben, sees) == team.as_administrator(sees)
    with team.memory(ben, project="lab") as memory:
        files = [hit.document.id for hit in memory.search("plums")]
        assert len(files) == 3
        assert {*memory.team.visibilities(files).values()} == {"project"}
        memory.ingest(folder)
        assert {hit.document.id for hit in memory.search("plums")} == {*files}


@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize(
    ("project", "code"), [("lab", "not_in_project"), ("", "no_project_to_share")]
)
def test_files_of_a_project_do_not_go_where_nobody_may_share_them(
    team: Team, tmp_path: Path, moved: bool, project: str, code: str
) -> None:
    ben = team.member("ben", projects=["shop"])
    folder = notes(tmp_path / "old")
    with team.memory(ben, project="shop") as memory:
        memory.ingest(folder, visibility="project")
    if moved:
        folder = folder.rename(tmp_path / "new")
    refused = pytest.raises(UsageError, check=has_code(code))
    with team.memory(ben, project=project) as memory, refused:
        memory.ingest(folder)
    assert team.as_administrator(LABELS) == [("shop", label_of(team.ns, "project", "shop"))]


@pytest.mark.parametrize("visibility", ["private", "team"])
def test_files_of_one_or_of_all_stay_so_in_another_project(
    team: Team, tmp_path: Path, visibility: str
) -> None:
    ben = team.member("ben")
    folder = notes(tmp_path / "old")
    with team.memory(ben, project="shop") as memory:
        memory.ingest(folder, visibility=visibility)
    with team.memory(ben, project="lab") as memory:
        memory.ingest(folder.rename(tmp_path / "new"))
    label = 0 if visibility == "team" else label_of(team.ns, "private", ben)
    assert team.as_administrator(LABELS) == [("lab", label)]
    assert team.as_administrator("SELECT count(*) FROM plait.documents") == [(3,)]


# -- a document gets other readers ---------------------------------------------------------


def test_what_few_keep_for_themselves_leaves_nothing_behind(team: Team) -> None:
    ben = team.member("ben", projects=["shop"])
    eve = team.member("eve", projects=["shop"])
    with team.memory(ben, project="shop") as memory:
        memory.store("first plums", key="note", visibility="project")
        memory.store("second plums", key="note", origin="agent")
        memory.store("Ann likes plums", entity="Ann", visibility="project")
        memory.store("Bob likes plums", entity="Bob", visibility="project")
        memory.graph.relate([Relation("Ann", "Bob", "knows")])
        fact = memory.store("Ann likes pears", entity="Ann")
        memory.delete(fact.id)
        memory.delete("Bob")
        kept = {table: f"SELECT count(*) FROM plait.{table}" for table in KEPT}
        assert all(team.as_role(eve, sees) != [(0,)] for sees in kept.values())
        memory.mark("note", "Ann", visibility="private")
        [(bob,)] = team.as_role(eve, "SELECT DISTINCT parent FROM plait.trash WHERE parent <> ''")
        assert team.as_role(eve, "SELECT count(*) FROM plait.documents") == [(0,)]
        # What was Bob's when he was deleted is still the project's, but for what he had with Ann.
        assert team.as_role(eve, "SELECT count(*) FROM plait.trashed_relations") == [(0,)]
        others = "SELECT count(*) FROM plait.trash WHERE id <> %s AND parent IS DISTINCT FROM %s"
        assert team.as_role(eve, others, [bob, bob]) == [(0,)]
        assert team.as_role(ben, others, [bob, bob]) == [(2,)]


def test_earlier_texts_of_what_becomes_a_projects_stay_private(team: Team) -> None:
    ben = team.member("ben", projects=["shop"])
    eve = team.member("eve", projects=["shop"])
    with team.memory(ben, project="shop") as memory:
        memory.store("first plums", key="note", visibility="private")
        memory.store("second plums", key="note", origin="agent")
        memory.mark("note", visibility="project")
    assert team.as_role(eve, "SELECT count(*) FROM plait.documents") == [(1,)]
    assert team.as_role(eve, "SELECT count(*) FROM plait.trash") == [(0,)]


def test_a_fact_that_is_named_with_its_entity_changes_once(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    fact = wim.store("Ann likes plums", entity="Ann").id
    ann = wim.get("Ann").id
    assert sorted(wim.team.share([fact, ann], "private")) == sorted([fact, ann])
    entries = [entry.document for entry in wim.log() if entry.verb == "mark"]
    assert sorted(entries) == sorted([fact, ann])
    assert wim.team.visibilities([fact, ann]) == {fact: "private", ann: "private"}


@pytest.mark.parametrize("kind", ["key", "entity", "turn"])
def test_two_of_one_name_cannot_be_seen_by_the_same(trio: Trio, opened: Opened, kind: str) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    named: dict[str, Any] = {
        "key": {"key": "diary"},
        "entity": {"entity": "Ann"},
        "turn": {"session": "talk", "role": "user"},
    }[kind]
    own = wim.store("secret plums", visibility="private", **named).id
    other = olga.store("open plums", **named).id
    if kind == "entity":
        own, other = (
            memory.engine.load([id_])[0].parent or "" for memory, id_ in ((wim, own), (olga, other))
        )
    with pytest.raises(UsageError, check=has_code("name_taken")) as refused:
        wim.mark(own, visibility="team")
    assert refused.value.subject == other
    assert wim.team.visibilities([own]) == {own: "private"}


@pytest.mark.parametrize("visibility", ["private", "project", "team"])
def test_a_profile_that_is_due_is_in_nobodys_way(team: Team, visibility: str) -> None:
    ben = team.member("ben", projects=["shop"])
    with team.memory(ben, project="") as memory:
        memory.store("secret pears", entity="Acme", visibility="private")
    with team.memory(team.member("ana"), project="") as memory:
        memory.store("Acme grows plums", entity="Acme", valid_from="2999-01-01")
        acme = memory.get("Acme").id
    # As if that day had come.
    began = "UPDATE plait.documents SET valid_from = 1000 WHERE parent = %s"
    team.as_administrator(began, [acme])
    team.as_administrator("UPDATE plait.facts SET value = '1000' WHERE name = 'profiles_due'")
    with team.memory(ben, project="shop") as memory:
        memory.store("some apples", key="note", visibility=visibility)
    with team.memory(team.member("eve")) as memory:
        assert "grows plums" in memory.get("Acme").text
        assert memory.team.visibilities([acme]) == {acme: "team"}


def test_a_mark_that_is_refused_changes_no_readers(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    own = wim.store("old plums", key="old").id
    wim.store("new plums", key="new")
    with pytest.raises(UsageError, check=has_code("other_visibility")):
        wim.mark("old", visibility="private", superseded_by="new", status="done")
    assert wim.team.visibilities([own]) == {own: "team"}
    assert wim.engine.load([own])[0].status is None
    wim.mark("new", visibility="private")
    wim.mark("old", visibility="private", superseded_by="new", status="done")
    assert wim.team.visibilities([own]) == {own: "private"}
    assert wim.engine.load([own])[0].status == "done"


def test_a_private_fact_does_not_come_back_into_a_profile_for_all(
    trio: Trio, opened: Opened
) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    fact = wim.store("secret pears", entity="Ann", visibility="private").id
    wim.store("open plums", entity="Ann")
    wim.delete(fact)
    wim.mark("Ann", visibility="team")
    with pytest.raises(UsageError, check=has_code("other_visibility")):
        wim.undo(fact)
    assert "pears" not in olga.get("Ann").text
    wim.mark("Ann", visibility="private")
    wim.undo(fact)
    assert "pears" in wim.get("Ann").text


def test_rules_of_the_administrator_leave_alone_what_is_private(trio: Trio, opened: Opened) -> None:
    wim, administrator = opened(trio.writer), opened(None)
    wim.store("The plum jam is in the cellar", key="secret", visibility="private")
    administrator.store("The administrator's own", key="own", visibility="private")
    for name in "abc":
        administrator.store(f"For all: {name}", key=name)
    assert set(administrator.prune(keep_most={"note": 1}).doc_ids) == {"own", "a", "b"}
    administrator.prune(keep_most={"note": 0}, dry_run=False)
    assert [row.key for row in wim.engine.scan(EVERYTHING)] == ["secret"]
    assert wim.prune(keep_most={"note": 0}, dry_run=False).doc_ids == ("secret",)


@pytest.mark.parametrize("rule", ["keep_most", "archive_days"])
def test_what_a_member_makes_private_after_the_listing_stays(
    trio: Trio, opened: Opened, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    wim, administrator = opened(trio.writer), opened(None)
    long_ago: Any = dict.fromkeys(("created_at", "updated_at", "event_at"), 10**12)
    wim.store_many([Document(key=key, text=f"About {key}", **long_ago) for key in ("his", "ours")])
    chosen = retention.departing

    def then_hidden(*arguments: Any) -> retention.Departing:
        going = chosen(*arguments)
        wim.mark("his", visibility="private")
        return going

    monkeypatch.setattr(retention, "departing", then_hidden)
    rules: Any = {rule: {"note": int(rule == "archive_days")}}
    done = administrator.prune(dry_run=False, **rules)
    assert len(done.ids) + len(done.archived) == 1
    assert wim.lookup("his")[0].status is None
