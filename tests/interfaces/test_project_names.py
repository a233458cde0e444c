"""--project takes the last part of a project's name on the command line, and nowhere else."""

import pytest

from plait import Memory, NotFound, UsageError
from plait.cli.projects import _ending_in
from tests.mcp.talk import call


@pytest.fixture
def projects(work, plait):
    """Two projects of different names, as folders make them."""
    for name in ("pa", "garden"):
        plait("store", f"A fact about {name}.", "--key", name, "--project", f"/n/{name}")
    return work


READING = [
    ("search", "fact"),
    ("recall", "fact"),
    ("overview",),
    ("timeline",),
    ("get", "pa"),
    ("export",),
    ("delete", "pa", "--dry-run"),
]


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_the_last_part_of_a_name_is_enough_to_read(plait, projects, words):
    whole = plait(*words, "--project", "/n/pa")
    short = plait(*words, "--project", "pa")
    assert (short.code, whole.code) == (0, 0)
    assert "pa" in short.out and "garden" not in short.out
    assert short.err == f"plait: --project pa is taken as /n/pa\n{whole.err}"


def test_it_is_enough_to_write_too(plait, projects):
    stored = plait("store", "Another fact.", "--project", "garden")
    assert stored.json["project"] == "/n/garden"
    assert "taken as /n/garden" in stored.err
    assert plait("entity", "add", "Bed", "sunny", "--project", "garden").code == 0
    exported = projects / "all.jsonl"
    plait("export", str(exported), "--project", "garden")
    assert plait("import", str(exported), "--project", "garden").code == 0
    assert set(plait("stats").json["projects"]) == {"/n/garden", "/n/pa"}


def test_a_project_called_exactly_so_comes_first(plait, projects):
    with Memory.open(project="pa") as memory:
        memory.store("Of the exact one.", key="exact")
    hits = plait("search", "fact exact", "--project", "pa")
    assert [hit["doc_id"] for hit in hits.json["results"]] == ["exact"]
    assert hits.err == ""
    # Even when all of it was deleted.
    plait("delete", "exact", "--project", "pa")
    assert plait("store", "New.", "--project", "pa").json["project"] == "pa"


@pytest.mark.parametrize("words", [*READING, ("store", "x"), ("delete", "--undo")], ids=str)
def test_a_name_that_fits_several_is_refused_and_they_are_listed(plait, projects, words):
    plait("store", "Another.", "--project", "/other/pa")
    refused = plait(*words, "--project", "pa")
    assert refused.code == 2
    assert "/n/pa, /other/pa" in refused.err
    assert plait("search", "another", "--project", "other/pa").code == 0


def test_what_was_deleted_is_restored_by_the_short_name(plait, projects):
    plait("delete", "pa", "--project", "pa")
    assert plait("search", "fact", "--project", "pa").code == 3
    undone = plait("delete", "--undo", "--project", "pa")
    assert (undone.code, undone.json) == (0, {"restored": ["pa"], "dry_run": False})


@pytest.mark.parametrize(
    "words", [("search", "fact"), ("timeline",), ("get", "pa"), ("open", "pa"), ("export",)],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_misspelt_project_is_told_with_a_suggestion(plait, projects, words):
    ran = plait(*words, "--project", "gardn")
    assert "no document is in project gardn. Did you mean /n/garden?" in ran.err


@pytest.mark.parametrize("words", [("search", "tea"), ("recall", "tea"), ("timeline",)], ids=str)
def test_personal_hits_do_not_hide_that_there_is_no_such_project(plait, projects, words):
    plait("store", "Tea of mine.", "--project", "personal")
    ran = plait(*words, "--project", "nosuch")
    assert ran.code == 0 and ran.err == "plait: no document is in project nosuch.\n"
    assert "no document is in" not in plait("delete", "--undo", "--project", "nosuch").err


@pytest.mark.parametrize("words", [("search", "tea"), ("timeline",), ("review",)], ids=str)
def test_a_project_is_unknown_also_if_there_are_only_personal_documents(plait, words):
    plait("store", "Tea of mine.", "--project", "personal")
    assert "no document is in project nosuch.\n" in plait(*words, "--project", "nosuch").err
    assert "no document is in" not in plait(*words, "--project", "personal").err


def test_of_an_empty_memory_only_that_is_told(plait):
    ran = plait("search", "tea", "--project", "nosuch")
    assert "there is no memory" in ran.err and "no document is in" not in ran.err


def test_a_new_project_is_not_questioned(plait, projects):
    stored = plait("store", "A fact.", "--project", "gardn")
    assert (stored.json["project"], stored.err) == ("gardn", "")


def test_library_and_models_name_projects_in_full(plait, projects):
    with Memory.open(project="pa") as memory:
        assert not memory.search("fact")
        found = call(memory, "memory_search", {"query": "fact"})
        assert found.structured_content["results"] == []
        memory.store("Its own.")
        assert ("pa", 1) in memory.stats().projects


def test_a_part_is_a_whole_part():
    names = ["/n/pa", "/n/opa", "pa/x", "/n/pa/", "C:\\n\\pa", "pa"]
    assert _ending_in("pa", names) == ["/n/pa", "/n/pa/", "C:\\n\\pa", "pa"]
    assert _ending_in("n/pa", names) == ["/n/pa", "/n/pa/", "C:\\n\\pa"]
    assert _ending_in("/n/pa", names) == ["/n/pa", "/n/pa/"]
    assert _ending_in("/pa", names) == []


# -- users' scopes -----------------------------------------------------------------------------


@pytest.fixture
def scoped(work, plait):
    """A memory in which a program keeps what belongs to a user."""
    plait("store", "The office opens at eight.", "--key", "office")
    with Memory.open(project="") as memory:
        memory.scope("tenant/ana").store("Ana's otter is called Bo.", key="otter")
    return work


def test_the_last_part_of_a_scopes_name_opens_no_scope(plait, scoped):
    ran = plait("search", "otter", "--project", "ana")
    assert "Ana" not in ran.out and "scope:" not in ran.err
    assert plait("store", "A new fact.", "--project", "ana").json["project"] == "ana"
    with Memory.open(project="") as memory:
        assert memory.scope("tenant/ana").delete("otter").chunks_deleted == 1
    assert plait("delete", "--undo", "--project", "tenant/ana").code == 3
    assert "another project" not in plait("delete", "--undo").err


@pytest.mark.parametrize("verb", ["get", "delete", "open"])
def test_a_name_in_a_scope_is_said_to_be_a_programs(plait, scoped, verb):
    ran = plait(verb, "otter")
    assert ran.code == 3 and "--project" not in ran.err
    assert ran.err == (
        "plait: Nothing in this project is named 'otter', but a user's scope has one. "
        "Only a program opens it: memory.scope('tenant/ana') in Python.\n"
    )


def test_a_name_in_a_scope_is_offered_to_programs_as_they_reach_it(scoped):
    with Memory.open(project="") as memory:
        with pytest.raises(NotFound, match=r"belongs to memory\.scope\('tenant/ana'\)"):
            memory.get("otter")
        with pytest.raises(NotFound, match=r"belongs to memory\.scope\('tenant/ana'\)"):
            memory.mark("otter", status="done")
        otter = memory.scope("tenant/ana").get("otter")
        with pytest.raises(UsageError, match=r"belongs to memory\.scope\('tenant/ana'\)"):
            memory.store("Another otter.", supersedes=otter.id)


def test_scopes_are_no_other_projects_to_look_in(plait, scoped):
    for words in (("search", "otter", "--strict"), ("recall", "otter"), ("about", "otter.py")):
        ran = plait(*words)
        assert ran.code == 3 and "--all-projects" not in ran.err, ran.err
