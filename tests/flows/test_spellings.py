"""A name with an accent is one name, however the accent is written."""

import itertools
import json
import unicodedata
from typing import Any

import pytest

from plait.cli import main
from plait.errors import NotFound
from plait.memory import Memory
from plait.types import Document
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.builders import entry, write
from tests.mcp.talk import call

NFC = "caf\u00e9/Jos\u00e9"
NFD = unicodedata.normalize("NFD", NFC)
PAIRS = list(itertools.product((NFC, NFD), repeat=2))


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.db", project="") as opened:
        yield opened


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_next_note_of_that_name_replaces_it(memory, first, second):
    one = memory.store("Fridays.", key=first)
    two = memory.store("Mondays.", key=second)
    assert (two.id, two.replaced, two.doc_id) == (one.id, True, NFC)
    assert memory.stats().doc_count == 1


@pytest.mark.parametrize(("stored", "asked"), PAIRS)
def test_every_verb_finds_it_by_either_spelling(memory, stored, asked):
    memory.store("Fridays.", key=stored)
    assert memory.get(asked).text == "Fridays."
    assert memory.get(f"{asked}-0").text == "Fridays."
    assert memory.timeline(anchor=asked)
    assert call(memory, "memory_get", {"ids": [asked]}).structured_content["results"]
    assert memory.delete(asked, dry_run=True).ids
    memory.delete(asked)
    with pytest.raises(NotFound):
        memory.get(asked)
    assert len(memory.undo(asked)) == 1
    memory.delete(asked)
    assert memory.delete(asked, purge=True).purged
    with pytest.raises(NotFound):
        memory.undo(stored)


@pytest.mark.parametrize(("stored", "asked"), PAIRS)
def test_a_passage_in_the_trash_is_named_by_either_spelling(memory, stored, asked):
    memory.store("Fridays.", key=stored)
    memory.delete(f"{asked}-0")
    assert len(memory.undo(f"{asked}-0")) == 1
    memory.delete(f"{asked}-0")
    assert memory.delete(f"{asked}-0", purge=True).ids
    with pytest.raises(NotFound):
        memory.undo(f"{stored}-0")


@pytest.mark.parametrize("asked", [NFC, NFD])
def test_a_deleted_note_of_an_older_version_is_named_by_either_spelling(memory, asked):
    write(memory.engine, entry(NFD, "Fridays."))
    memory.delete(f"{asked}-0")
    assert len(memory.undo(f"{asked}-0")) == 1
    memory.delete(asked)
    assert len(memory.undo(asked)) == 1


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_many_notes_keep_to_it_too(memory, first, second):
    [one, _] = memory.store_many([memory_note(first), memory_note("plain")])
    [two] = memory.store_many([memory_note(second)])
    assert (two.id, two.replaced, two.doc_id) == (one.id, True, NFC)
    assert memory.stats().doc_count == 2


def test_a_note_of_an_older_version_is_replaced_by_either_spelling(memory):
    [old] = write(memory.engine, entry(NFD, "Fridays."))
    assert memory.get(NFC).text == "Fridays."
    stored = memory.store("Mondays.", key=NFC)
    assert stored.id == old.id
    assert memory.stats().doc_count == 1


@pytest.mark.parametrize(("stored", "asked"), PAIRS)
def test_every_filter_finds_either_spelling(tmp_path, stored, asked):
    document = Document(
        text="Fridays.",
        key=stored,
        type=stored,
        tags=(stored,),
        session=stored,
        metadata={stored: stored},
        project=stored,
    )
    with Memory.open(tmp_path / "memory.db", project="elsewhere") as memory:
        memory.store_many([document])
        memory.store("Mondays.", topic=stored, type="other")
        wheres: list[dict[str, Any]] = [
            {"keys": asked},
            {"key_prefix": asked[:6]},
            {"types": [asked]},
            {"tags": [asked, asked]},
            {"session": asked},
            {"metadata": {asked: asked}},
            {"projects": (asked,)},
        ]
        for where in wheres:
            everywhere = "projects" not in where
            assert memory.search("fridays", where=where, all_projects=everywhere), where
            assert memory.timeline(where=where, all_projects=everywhere), where
            assert len(list(memory.export(where=where, all_projects=everywhere))) == 2, where
            assert memory.delete(where=where, dry_run=True, all_projects=everywhere).ids, where
        assert memory.search("mondays", where={"topics": asked})
        memory.store("Tuesdays.", topic=asked)
        assert len(memory.search("mondays tuesdays", where={"topics": asked})) == 1


@pytest.mark.parametrize(("stored", "asked"), PAIRS)
def test_front_matter_and_paths_of_files_are_found_by_either_spelling(tmp_path, stored, asked):
    folder = tmp_path / stored.split("/")[0]
    folder.mkdir()
    file = folder / f"{stored.split('/')[1]}.md"
    file.write_text(f"---\ntype: {stored}\ntags: [{stored}]\n---\nFridays.\n", encoding="utf-8")
    name = asked.split("/")[1]
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.ingest(folder)
        for where in (
            {"types": asked},
            {"tags": asked},
            {"path_prefix": str(tmp_path / asked.split("/")[0])},
            {"source": str(tmp_path / asked.split("/")[0])},
            {"key_prefix": name},
        ):
            assert memory.search("fridays", where=where), where
        document = memory.get(f"{name}.md")
        assert isinstance(document, Document)
        assert document.path == str(file), "it can still be opened"
        assert memory.ingest(folder).count("unchanged") == 1


def test_two_files_whose_names_differ_only_in_spelling_are_two(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for number, name in enumerate((NFC, NFD)):
        (folder / f"{name.split('/')[1]}.md").write_text(f"Fact {number}.", encoding="utf-8")
    if len(list(folder.iterdir())) == 1:
        pytest.skip("this file system takes them for one")
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        assert memory.ingest(folder).count("added") == 2
        assert memory.stats().doc_count == 2


@pytest.mark.parametrize(("stored", "asked"), PAIRS)
def test_an_entity_is_one_by_either_spelling_for_every_verb(memory, stored, asked):
    graph = memory.graph
    graph.create([NewEntity(stored, stored, ("Tall.",)), NewEntity("Dan")])
    assert [row.name for row in graph.create([NewEntity(asked)])] == [NFC]
    assert graph.observe([(asked, ["Kind."])])[0].name == NFC
    memory.store("Likes tea.", entity=asked)
    assert [row.contents for row in graph.open([asked]).entities] == [
        ("Tall.", "Kind.", "Likes tea.")
    ]
    assert graph.ids_of([asked]) == graph.ids_of([stored])
    assert graph.search(asked).entities
    nodes = call(memory, "search_nodes", {"query": asked}, profiles=("graph",))
    assert nodes.structured_content["entities"]
    assert memory.search("tea", where={"entity": asked})
    assert graph.relate([Relation(stored, "Dan", stored)])
    assert not graph.relate([Relation(asked, "Dan", asked)]), "it exists"
    assert graph.neighbours(asked, types=[asked]).relations
    assert graph.unrelate([Relation(asked, "Dan", asked)]) == 1
    assert graph.forget([(asked, ["Tall."])]) == (1, ())
    assert graph.delete([asked]).missing == ()
    assert memory.undo(asked)
    assert graph.delete([asked], purge=True).deleted == (NFC,)
    assert [row.name for row in graph.read().entities] == ["Dan"]


def test_an_entity_of_an_older_version_is_the_same_one(memory):
    memory.graph.create([NewEntity("plain", "person", ("Tall.",))])
    with memory.engine.transaction() as transaction:
        [id_] = memory.graph.ids_of(["plain"])
        transaction.amend(id_, key=NFD, title=NFD)
    assert memory.graph.observe([(NFC, ["Kind."])])[0].added
    memory.graph.create([NewEntity(NFC)])
    assert [row.contents for row in memory.graph.read().entities] == [("Tall.", "Kind.")]


@pytest.mark.parametrize(("stored", "asked"), PAIRS)
def test_a_project_is_one_by_either_spelling(tmp_path, stored, asked):
    path = tmp_path / "memory.db"
    with Memory.open(path, project=stored) as memory:
        memory.store("Fridays.", key="plan")
    with Memory.open(path, project=asked) as memory:
        assert memory.search("fridays")
        assert memory.store("Mondays.", key="plan").replaced
        memory.store_many([Document(key="many", text="Many.", project=stored)])
        memory.delete("many")
        assert memory.undo()
        assert {row.project for row in memory.timeline()} == {NFC}


def test_a_project_of_an_older_version_keeps_its_documents(tmp_path):
    path = tmp_path / "memory.db"
    with Memory.open(path, project="") as memory:
        write(memory.engine, entry("plan", "Fridays.", project=NFD))
    for asked in (NFC, NFD):
        with Memory.open(path, project=asked) as memory:
            assert memory.get("plan").text
            assert memory.store(f"On {asked}.", key="plan").replaced
            assert memory.delete("plan").ids
            assert memory.undo()


@pytest.mark.parametrize(("stored", "asked"), PAIRS)
def test_an_import_adds_no_twin_of_another_spelling(tmp_path, stored, asked):
    with Memory.open(tmp_path / "memory.db", project=stored) as memory:
        memory.store("Fridays.", key=stored)
        memory.graph.create([NewEntity(stored, "person", ("Tall.",)), NewEntity("Dan")])
        memory.graph.relate([Relation(stored, "Dan", stored)])
        lines = [line.replace(NFC, asked) for line in memory.export()]
        before = memory.stats().doc_count
        assert memory.import_lines(lines).relations == 0
        fresh = [json.dumps(json.loads(line) | {"id": ""}) for line in lines if '"note"' in line]
        memory.import_lines([lines[0], *fresh])
        assert memory.stats().doc_count == before
        assert len(memory.graph.read().relations) == 1


@pytest.mark.parametrize(("stored", "asked"), PAIRS)
def test_the_command_line_takes_either_spelling(tmp_path, capsys, stored, asked):
    words = ("--db", str(tmp_path / "memory.db"), "--json", "--quiet")
    assert main([*words, "--project", stored, "store", "Fridays.", "--tag", stored]) == 0
    assert main([*words, "--project", asked, "search", "fridays", "--tag", asked]) == 0
    assert main([*words, "--project", asked, "entity", "add", stored, "Tall."]) == 0
    assert main([*words, "--project", asked, "entity", "show", asked]) == 0
    assert main([*words, "--project", asked, "search", "tall", "--entity", asked]) == 0
    assert main([*words, "--project", asked, "entity", "delete", asked]) == 0
    assert capsys.readouterr().err == ""


def memory_note(key):
    return Document(key=key, kind="note", text="Fridays.")
