"""What not all see stays so in an export, and in a memory with members that imports it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from plait import Memory
from plait.cli import main
from plait.errors import UsageError
from plait.types.ids import new_id
from plait.types.relations import Relation
from plait.types.reports import Imported
from tests.codes import has_code
from tests.people.conftest import Team
from tests.people.test_members import texts

OPEN = {"open plums", "open plums of the diary", "open plums of Bob"}
OF_SHOP = {"plums of the shop"}
PRIVATE = {"secret plums", "secret plums of Ann"}


class Pair:
    """Two memories of one database with the same members: ana, and ben who sees a project."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.other = new_id()
        self.ana, self.ben = team.person("ana"), team.person("ben")
        for namespace in (team.namespace, self.other):
            with Memory.open(team.address(None, namespace), embedder="none") as admin:
                admin.team.add(self.ana, projects=["shop"])
                admin.team.add(self.ben)

    def memory(self, role: str, *, second: bool = False, project: str | None = None) -> Memory:
        namespace = self.other if second else self.team.namespace
        return Memory.open(self.team.address(role, namespace), embedder="none", project=project)


@pytest.fixture
def pair(team: Team) -> Pair:
    return Pair(team)


def fill(pair: Pair) -> None:
    """Texts of all kinds of visibility, of which two have the same key."""
    with pair.memory(pair.ana, project="shop") as shop:
        shop.store("plums of the shop", key="shop", visibility="project")
    with pair.memory(pair.ana) as memory:
        _fill(memory)


def _fill(memory: Memory) -> None:
    memory.store("secret plums", key="diary", visibility="private")
    memory.store("open plums of the diary", key="diary", visibility="team")
    memory.store("open plums", key="open")
    memory.store("open plums of Bob", entity="Bob")
    memory.store("secret plums of Ann", entity="Ann", visibility="private")
    memory.graph.relate([Relation("Ann", "Bob", "knows", "a secret")])


def as_lines(source: Memory, target: Memory, folder: Path) -> Imported:
    return target.import_lines(list(source.export(all_projects=True)))


def reversed_lines(source: Memory, target: Memory, folder: Path) -> Imported:
    """The open texts of one key before the private ones, or the other way round."""
    header, *lines = source.export(all_projects=True)
    documents = [line for line in lines if "relation" not in json.loads(line)]
    relations = [line for line in lines if "relation" in json.loads(line)]
    return target.import_lines([header, *reversed(documents), *relations])


def as_folder(source: Memory, target: Memory, folder: Path) -> Imported:
    source.export_folder(folder / "snapshot", all_projects=True)
    return target.import_from(folder / "snapshot")


Copy = Callable[[Memory, Memory, Path], Imported]
every_format = pytest.mark.parametrize("copy", [as_lines, reversed_lines, as_folder])


def seen(memory: Memory) -> set[str]:
    return {hit.passage.text for hit in memory.search("plums", limit=50, all_projects=True)}


@every_format
def test_the_same_people_see_what_was_imported(pair: Pair, tmp_path: Path, copy: Copy) -> None:
    with pair.memory(pair.ana) as source, pair.memory(pair.ana, second=True) as target:
        fill(pair)
        done = copy(source, target, tmp_path)
        assert (done.added, done.relations, done.unhidden) == (8, 1, 0)
        assert seen(target) == seen(source) == OPEN | OF_SHOP | PRIVATE
        ids = [row.id for row in source.engine.scan(source._filter(None, all_projects=True))]
        assert target.team.visibilities(ids) == source.team.visibilities(ids)
        assert copy(source, target, tmp_path).unchanged == 8
    with pair.memory(pair.ben, second=True) as ben:
        assert seen(ben) == OPEN
        assert ben.engine.relations(None, ben._filter(None)) == []


@every_format
def test_the_own_export_adds_no_relation(pair: Pair, tmp_path: Path, copy: Copy) -> None:
    with pair.memory(pair.ben) as ben, pair.memory(pair.ana) as ana:
        ben.store("Bob is private", entity="Bob", visibility="private")
        for name in ("Bob", "Cid"):
            ana.store(f"{name} is open", entity=name)
        ana.graph.relate([Relation("Bob", "Cid", "knows")])
        assert copy(ben, ben, tmp_path).relations == 0
        assert len(ben.engine.relations(None, ben._filter(None))) == 1


def test_a_file_shows_it_to_its_readers_and_says_so(
    pair: Pair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = tmp_path / "export.jsonl"
    with pair.memory(pair.ana) as source:
        fill(pair)
        both = list(source.export(all_projects=True))
        hits = source.search("secret plums", limit=50)
        source.delete(*(hit.document.id for hit in hits if hit.passage.text == "secret plums"))
        export.write_text("\n".join(source.export(all_projects=True)), "utf-8")
    code = main(["--db", str(tmp_path / "own.db"), "--json", "import", str(export)])
    out, err = capsys.readouterr()
    assert (code, json.loads(out)["unhidden"]) == (0, 3)
    assert err.count("3 documents") == 1
    with Memory.open(tmp_path / "own.db", embedder="none", project=None) as memory:
        assert seen(memory) == OPEN | OF_SHOP | PRIVATE - {"secret plums"}
        assert '"visibility"' not in "".join(memory.export())
    with Memory.open(tmp_path / "second.db", embedder="none", create=False) as memory:
        with pytest.raises(UsageError, check=has_code("key_taken")):
            memory.import_lines(both)  # of one key, a file would keep the last one only
        assert not memory.is_there


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_database_without_members_is_like_a_file(team: Team, pair: Pair, dry_run: bool) -> None:
    with pair.memory(pair.ana) as source:
        source.store("secret plums", visibility="private")
        lines = list(source.export())
    with Memory.open(team.address(None, new_id()), embedder="none", project=None) as alone:
        assert alone.import_lines(lines, dry_run=dry_run).unhidden == 1
        assert texts(alone) == (set() if dry_run else {"secret plums"})
        ids = [row.id for row in alone.engine.scan(alone._filter(None))]
        assert set(alone.team.visibilities(ids).values()) <= {"team"}


def test_an_import_shows_nothing_to_a_project_that_was_not_given(pair: Pair) -> None:
    with pair.memory(pair.ana, project="shop") as source:
        source.store("plums of the shop", key="shop", visibility="project")
        lines = list(source.export(all_projects=True))
    with pair.memory(pair.ben, second=True) as ben:
        with pytest.raises(UsageError, check=has_code("not_in_project")):
            ben.import_lines(lines)
        assert seen(ben) == set()


def test_what_is_hidden_here_stays_so_whatever_an_import_says(pair: Pair) -> None:
    with pair.memory(pair.ana) as ana:
        ana.store("secret plums", key="diary", visibility="private")
        lines = [line.replace(', "visibility": "private"', "") for line in ana.export()]
        ana.import_lines([line.replace("secret plums", "newer plums") for line in lines])
    with pair.memory(pair.ben) as ben:
        assert seen(ben) == set()


def test_a_user_scope_exports_and_imports_it(pair: Pair) -> None:
    with pair.memory(pair.ana) as source, pair.memory(pair.ana, second=True) as target:
        scope = source.scope("kim")
        stored = scope.store("secret plums", key="diary")
        source.team.share([stored.id], "private")
        target.scope("kim").import_lines(list(scope.export()))
        assert seen(target.scope("kim")) == {"secret plums"}
    with pair.memory(pair.ben, second=True) as ben:
        assert seen(ben.scope("kim")) == set()


def test_an_unknown_visibility_is_refused(tmp_path: Path) -> None:
    line = json.dumps({"text": "plums", "visibility": "secret"})
    with (
        Memory.open(tmp_path / "own.db", embedder="none") as memory,
        pytest.raises(UsageError, match="visibility is 'secret'", check=has_code("bad_export")),
    ):
        memory.import_lines(['{"format": "plait", "version": 1}', line])
