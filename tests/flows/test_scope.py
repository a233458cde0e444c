"""What a name reaches: every verb, every kind of name, in every place, by every door.

The rule is written down in docs/concepts.md, "What a name reaches".
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from mcp import Client, MCPError

from plait.cli import main
from plait.errors import AmbiguousId, NotFound, PlaitError
from plait.memory import Memory
from plait.types import Document
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.builders import EVERYTHING
from tests.mcp.talk import call, converse, text_of

HERE, THERE = "p", "q"
PLACES = {"own": HERE, "personal": "", "other": THERE}
KINDS = (
    *("id", "id prefix", "key", "chunk_id", "chunk_id of an id", "passage id", "passage prefix"),
    *("path", "path chunk_id", "entity", "observation id", "topic's id"),
)
# The kinds of names that are ids or begin one: they can be read from anywhere.
BY_ID = (
    *("id", "id prefix", "chunk_id of an id", "passage id", "passage prefix"),
    *("observation id", "topic's id"),
)
SUPERSEDABLE = tuple(kind for kind in KINDS if kind not in ("path", "path chunk_id", "entity"))
Names = dict[str, dict[str, str]]


class Shared(NamedTuple):
    """A file with the same things in two projects and at home, and the names of each."""

    memory: Memory
    names: Names


def at(path: str | Path, project: str) -> Memory:
    return Memory.open(path, embedder="none", project=project)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("scope")
    names: Names = {}
    for place, project in PLACES.items():
        (folder / place).mkdir()
        file = folder / place / f"{place}.md"
        file.write_text(f"# File\n\nA file of {place}.\n", encoding="utf-8")
        with at(folder / "m.db", project) as memory:
            note = memory.store(f"A note of {place}.", key=f"note-{place}", type="t")
            fact = memory.store(f"A fact of {place}.", type="t")
            topical = memory.store(f"A port of {place}.", topic=f"port-{place}", type="t")
            memory.graph.create([NewEntity(f"Entity of {place}", "thing", (f"Is {place}.",))])
            memory.ingest(file)
            [passage] = memory.passages_of(note.id)
        names[place] = {
            "id": note.id,
            "id prefix": note.id[:8],
            "key": f"note-{place}",
            "chunk_id": f"note-{place}-0",
            "chunk_id of an id": f"{note.id}-0",
            "passage id": passage.id,
            "passage prefix": passage.id[:9],
            "path": f"{place}.md",
            "path chunk_id": f"{place}.md-0",
            "entity": f"Entity of {place}",
            "observation id": fact.id,
            "topic's id": topical.id,
        }
    with at(folder / "m.db", "") as memory:
        yield Shared(memory, names)


@pytest.fixture
def copies(template: Shared, tmp_path: Path) -> Callable[[], str]:
    """Make a fresh copy of the shared file."""
    made: list[str] = []

    def copy() -> str:
        made.append(template.memory.backup(tmp_path / f"copy{len(made)}.db"))
        return made[-1]

    return copy


def contents(path: str) -> dict[str, dict[str, Document]]:
    """All documents of each project, and what of it is in the trash."""
    with at(path, "") as memory:
        rows = {row.id: row for row in memory.engine.scan(EVERYTHING, whole=True)}
        rows |= {f"trash {row.document.id}": row.document for row in memory.engine.trashed()}
    return {
        home: {id_: row for id_, row in rows.items() if (row.project or "") == home}
        for home in PLACES.values()
    }


def content(path: str, project: str) -> dict[str, Document]:
    return contents(path)[project]


# -- the doors: each verb returns whether it was done ---------------------------------------


class Library:
    """Python."""

    def __init__(self, path: str, project: str) -> None:
        self.path, self.project = path, project

    def _try(self, act: Callable[[Memory], Any]) -> bool:
        with at(self.path, self.project) as memory:
            try:
                act(memory)
            except (NotFound, PlaitError) as error:
                assert not isinstance(error, AmbiguousId), error
                return False
        return True

    def get(self, name: str) -> bool:
        return self._try(lambda memory: memory.get(name))

    def anchor(self, name: str) -> bool:
        return self._try(lambda memory: memory.timeline(anchor=name))

    def delete(self, name: str) -> bool:
        return self._try(lambda memory: memory.delete(name))

    def purge(self, name: str) -> bool:
        return self._try(lambda memory: memory.delete(name, purge=True))

    def undo(self, name: str) -> bool:
        return self._try(lambda memory: memory.undo(name))

    def supersede(self, name: str) -> bool:
        return self._try(lambda memory: memory.store("Something new", supersedes=name))

    def store(self, name: str) -> bool:
        return self._try(lambda memory: memory.store("Something new", key=name))


class CommandLine(Library):
    """The shell."""

    def _run(self, *words: str) -> bool:
        start = ("--db", self.path, "--project", self.project or "personal", "--embedder", "none")
        return main([words[0], *start, *words[1:]]) == 0

    def get(self, name: str) -> bool:
        return self._run("get", name)

    def anchor(self, name: str) -> bool:
        return self._run("timeline", "--anchor", name)

    def delete(self, name: str) -> bool:
        return self._run("delete", name)

    def purge(self, name: str) -> bool:
        return self._run("delete", name, "--purge")

    def undo(self, name: str) -> bool:
        return self._run("delete", "--undo", name)

    def supersede(self, name: str) -> bool:
        return self._run("store", "Something new", "--supersedes", name)

    def store(self, name: str) -> bool:
        return self._run("store", "Something new", "--doc-id", name)


class Server(Library):
    """MCP."""

    def _call(self, tool: str, **arguments: Any) -> bool:
        with at(self.path, self.project) as memory:
            return not call(memory, tool, arguments).is_error

    def get(self, name: str) -> bool:
        return self._call("memory_get", ids=[name])

    def anchor(self, name: str) -> bool:
        return self._call("memory_timeline", anchor=name)

    def delete(self, name: str) -> bool:
        return self._call("memory_delete", ids=[name])

    def undo(self, name: str) -> bool:
        return self._call("memory_delete", ids=[name], undo=True)

    def supersede(self, name: str) -> bool:
        return self._call("memory_store", text="Something new", supersedes=name)

    def store(self, name: str) -> bool:
        return self._call("memory_store", text="Something new", key=name)


DOORS = (Library, CommandLine, Server)


def reaches(verb: str, kind: str, place: str) -> bool:
    """The rule, as a table."""
    if verb == "store":
        # A key is always that of this project, unless it is the id of a document.
        return kind not in ("id", "observation id", "topic's id")
    if verb == "supersede":
        return place == "own" and kind in SUPERSEDABLE
    return place != "other" or (verb == "get" and kind in BY_ID)


def may_change(verb: str, place: str) -> set[str]:
    """The projects that a verb may change, if it reaches what is named."""
    if verb in ("get", "anchor") or place == "other":
        return {HERE} if verb == "store" else set()
    return {HERE} if verb in ("store", "supersede") else {PLACES[place]}


@pytest.mark.unmeasured
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("verb", ["get", "anchor", "delete", "purge", "undo", "supersede", "store"])
def test_every_verb_reaches_what_the_table_says_and_changes_nothing_elsewhere(
    verb: str, place: str, door: type[Library], template: Shared, copies: Callable[[], str]
) -> None:
    if verb == "purge" and door is Server:
        return  # an agent cannot purge
    path = copies()
    for kind in KINDS:
        name = template.names[place][kind]
        if (verb, place, kind) == ("store", "own", "path") and door is Server:
            continue  # the name of a file is not an agent's: see test_one_document
        if may_change(verb, place) or verb == "undo":
            path = copies()
        if verb == "undo":
            assert Library(path, PLACES[place]).delete(name)
        before = contents(path)
        assert getattr(door(path, HERE), verb)(name) is reaches(verb, kind, place), (kind, name)
        after = contents(path)
        for home in PLACES.values():
            assert home in may_change(verb, place) or after[home] == before[home], (kind, home)


@pytest.mark.parametrize("door", DOORS)
def test_two_projects_with_one_key_do_not_make_it_ambiguous(
    door: type[Library], tmp_path: Path
) -> None:
    path = str(tmp_path / "m.db")
    for project in (HERE, THERE, "r"):
        with at(path, project) as memory:
            memory.store(f"Tools of {project}", key="TOOLS.md")
    for verb in ("get", "anchor", "delete", "undo"):
        for name in ("TOOLS.md-0", "TOOLS.md"):
            assert getattr(door(path, HERE), verb)(name) is (verb != "undo" or name != "TOOLS.md")
            if verb == "delete":
                Library(path, HERE).undo("TOOLS.md")
        if verb == "delete":
            Library(path, HERE).delete("TOOLS.md")
    with at(path, "nobody's") as memory, pytest.raises(NotFound):
        memory.get("TOOLS.md-0")
    with at(path, THERE) as memory:
        assert memory.lookup("TOOLS.md-0")[0].project == THERE


def test_more_namesakes_than_are_listed_do_not_hide_the_own_one(tmp_path: Path) -> None:
    for number in range(30):
        with at(tmp_path / "m.db", f"p{number:02}") as memory:
            memory.store(f"Tools of {number}", key="TOOLS.md")
    for number in (0, 15, 29):
        with at(tmp_path / "m.db", f"p{number:02}") as memory:
            assert memory.lookup("TOOLS.md-0")[0].project == f"p{number:02}"


# -- all projects, when they are asked for --------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_all_projects_are_reached_when_they_are_asked_for(
    kind: str, template: Shared, copies: Callable[[], str]
) -> None:
    name = template.names["other"][kind]
    with at(copies(), HERE) as memory:
        if kind != "entity":
            assert any(
                row.project == THERE for row in memory.timeline(anchor=name, all_projects=True)
            )
        assert memory.delete(name, all_projects=True).ids
        assert {row.project for row in memory.undo()} == {THERE}, "this project's own delete"
        assert memory.delete(name, all_projects=True, purge=True).ids


# -- filters --------------------------------------------------------------------------------


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("door", [Library, CommandLine])
def test_a_filter_deletes_nothing_personal_from_within_a_project(
    door: type[Library], purge: bool, copies: Callable[[], str]
) -> None:
    path = copies()
    before = {home: content(path, home) for home in ("", THERE)}
    if door is CommandLine:
        words = ["delete", "--db", path, "--project", HERE, "--type", "t", "--yes"]
        assert main([*words, *(["--purge"] if purge else [])]) == 0
    else:
        with at(path, HERE) as memory:
            memory.delete(where={"types": "t"}, purge=purge)
    assert {home: content(path, home) for home in ("", THERE)} == before
    with at(path, HERE) as memory:
        assert memory.timeline(where={"types": "t", "projects": (HERE,)}) == []


def test_personal_things_are_deleted_by_filter_when_they_are_asked_for(
    copies: Callable[[], str],
) -> None:
    for project, words in ((HERE, ["--all-projects"]), ("personal", [])):
        path = copies()
        here = ["--db", path, "--project", project]
        assert main(["delete", *here, "--type", "t", *words]) == 0
        left = [row for row in content(path, "").values() if row.type == "t" and not row.text]
        with at(path, "") as memory:
            assert left == [] == memory.timeline(where={"types": "t"})


def test_a_filter_that_matches_only_personal_things_says_where_they_are(
    copies: Callable[[], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = copies()
    assert main(["delete", "--db", path, "--project", "empty", "--type", "t"]) != 0
    assert "--project personal" in capsys.readouterr().err


# -- undo and purge -------------------------------------------------------------------------


@pytest.mark.parametrize("door", [Library, CommandLine])
def test_undo_without_a_name_is_this_projects_latest_delete(
    door: type[Library], template: Shared, copies: Callable[[], str]
) -> None:
    path = copies()
    for place, project in PLACES.items():
        assert Library(path, project).delete(template.names[place]["id"])
    for place, project in PLACES.items():
        if door is CommandLine:
            home = ["--db", path, "--project", project or "personal"]
            assert main(["delete", *home, "--undo"]) == 0
            assert main(["delete", *home, "--undo"]) != 0
        else:
            with at(path, project) as memory:
                assert [row.key for row in memory.undo()] == [f"note-{place}"]
                with pytest.raises(NotFound):
                    memory.undo()
    with at(path, "") as memory:
        assert memory.engine.trashed() == []


def test_a_personal_note_deleted_in_a_project_comes_back_there(copies: Callable[[], str]) -> None:
    path = copies()
    with at(path, HERE) as memory:
        memory.delete("note-personal")
    for project in (THERE, ""):
        with at(path, project) as memory, pytest.raises(NotFound):
            memory.undo()
    with at(path, HERE) as memory:
        assert [row.key for row in memory.undo()] == ["note-personal"]


@pytest.mark.parametrize("live", [True, False])
def test_purging_a_projects_note_leaves_the_personal_namesake_in_the_trash(
    tmp_path: Path, live: bool
) -> None:
    path = tmp_path / "m.db"
    for project in ("", HERE, THERE):
        with at(path, project) as memory:
            memory.store(f"Of {project or 'me'}", key="k")
    for project in ("", THERE) if live else ("", HERE, THERE):
        with at(path, project) as memory:
            memory.delete("k")
    with at(path, HERE) as memory:
        memory.delete("k", purge=True)
        assert {row.document.project for row in memory.engine.trashed()} == {None, THERE}
    with at(path, "") as memory:
        assert [row.text for row in memory.undo("k")] == ["Of me"]


def test_purging_takes_the_own_note_out_of_the_trash_before_a_living_personal_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.db"
    for project in ("", HERE):
        with at(path, project) as memory:
            memory.store(f"Of {project or 'me'}", key="k")
    with at(path, HERE) as memory:
        memory.delete("k")
        memory.delete("k", purge=True)
        assert (memory.lookup("k")[0].text, memory.engine.trashed()) == ("Of me", [])


# -- entities and ids of documents ----------------------------------------------------------


def test_no_verb_of_the_graph_reaches_another_project(copies: Callable[[], str]) -> None:
    path = copies()
    before = content(path, THERE)
    other = "Entity of other"
    with at(path, HERE) as memory:
        graph = memory.graph
        for refused in (
            lambda: graph.observe([(other, ["x"])]),
            lambda: graph.relate([Relation(other, "Entity of own", "knows")]),
            lambda: graph.neighbours(other),
            lambda: memory.search("x", where={"entity": other}),
        ):
            with pytest.raises(NotFound):
                refused()
        assert graph.open([other]).entities == ()
        assert graph.forget([(other, ["Is other."])]) == (0, (other,))
        assert graph.delete([other], purge=True).missing == (other,)
        assert graph.unrelate([Relation(other, "Entity of own", "knows")]) == 0
        memory.store("A namesake", entity=other, topic="port-other")
    assert content(path, THERE) == before


GRAPH_CALLS: dict[str, dict[str, Any]] = {
    "add_observations": {"observations": [{"entityName": "Entity of other", "contents": ["x"]}]},
    "delete_entities": {"entityNames": ["Entity of other"]},
    "delete_observations": {
        "deletions": [{"entityName": "Entity of other", "observations": ["Is other."]}]
    },
    "create_relations": {
        "relations": [{"from": "Entity of other", "to": "Entity of own", "relationType": "r"}]
    },
    "delete_relations": {
        "relations": [{"from": "Entity of other", "to": "Entity of own", "relationType": "r"}]
    },
    "open_nodes": {"names": ["Entity of other"]},
    "search_nodes": {"query": "Entity of other"},
    "search_semantic": {"query": "Entity of other"},
    "read_graph": {},
}


@pytest.mark.parametrize("tool", GRAPH_CALLS)
def test_no_tool_of_the_graph_reaches_another_project(tool: str, copies: Callable[[], str]) -> None:
    path = copies()
    before = content(path, THERE)
    with at(path, HERE) as memory:
        result = call(memory, tool, GRAPH_CALLS[tool], profiles=("graph",))
        assert result.is_error or '"Entity of other"' not in text_of(result)
    assert content(path, THERE) == before


@pytest.mark.parametrize(
    "words",
    [
        ["show", "Entity of other"],
        ["observe", "Entity of other", "x"],
        ["observe", "Entity of other", "--delete-observation", "Is other."],
        ["relate", "Entity of other", "knows", "Entity of own"],
        ["unrelate", "Entity of other", "knows", "Entity of own"],
        ["delete", "Entity of other"],
        ["delete", "Entity of other", "--purge"],
    ],
    ids=" ".join,
)
def test_no_command_of_the_graph_reaches_another_project(
    words: list[str], copies: Callable[[], str]
) -> None:
    path = copies()
    before = content(path, THERE)
    start = ["entity", words[0], "--db", path, "--project", HERE, "--embedder", "none"]
    assert main([*start, *words[1:]]) != 0
    assert content(path, THERE) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_resource_is_read_like_any_other_name(
    kind: str, template: Shared, copies: Callable[[], str]
) -> None:
    name = quote(template.names["other"][kind], safe="")

    async def act(client: Client) -> bool:
        try:
            await client.read_resource(f"memory://{name}")
        except MCPError:
            return False
        return True

    with at(copies(), HERE) as memory:
        assert converse(memory, act) is reaches("get", kind, "other")


def test_a_document_with_the_id_of_another_projects_is_refused(
    template: Shared, copies: Callable[[], str]
) -> None:
    path = copies()
    for place in ("other", "personal"):
        before = content(path, PLACES[place])
        with at(path, HERE) as memory, pytest.raises(PlaitError) as caught:
            id_ = template.names[place]["id"]
            memory.store_many([Document(id=id_, key="mine", text="Taken", kind="note")])
        assert caught.value.code == "other_project"
        assert content(path, PLACES[place]) == before


def test_a_document_that_names_another_projects_entity_is_refused(
    copies: Callable[[], str],
) -> None:
    path = copies()
    with at(path, THERE) as memory:
        parent = memory.lookup("Entity of other")[0].id
    before = content(path, THERE)
    with at(path, HERE) as memory, pytest.raises(PlaitError) as caught:
        memory.store_many([Document(text="Taken", kind="observation", parent=parent)])
    assert caught.value.code == "other_project"
    assert content(path, THERE) == before


@pytest.mark.parametrize("verb", ["get", "anchor", "delete", "purge", "undo", "supersede"])
@pytest.mark.parametrize("place", ["own", "other"])
def test_outside_of_any_project_no_project_is_reached(
    verb: str, place: str, template: Shared, copies: Callable[[], str]
) -> None:
    path = copies()
    for kind in KINDS:
        if verb == "undo":
            path = copies()
            assert Library(path, PLACES[place]).delete(template.names[place][kind])
        before = contents(path)
        done = getattr(Library(path, ""), verb)(template.names[place][kind])
        assert done is reaches(verb, kind, "other"), kind
        assert contents(path) == before
