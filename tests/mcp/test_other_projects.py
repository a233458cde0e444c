"""What agents meet at the edges: other projects, earlier facts, names as copied, whole files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait import Memory
from plait.types.reports import NewEntity
from tests.mcp.talk import call, converse, talking, text_of

LONG = "\n\n".join(f"# Part {n}\n\n" + f"word{n} tells of the crane. " * 40 for n in range(8))


@pytest.fixture
def abroad(tmp_path: Path) -> Iterator[Memory]:
    """A memory with a fact of another project, opened in a project that has none."""
    path = tmp_path / "memory.db"
    with Memory.open(path, embedder="none", project="acme") as memory:
        memory.store("The API listens on port 9000", type="fact")
    with Memory.open(path, embedder="none", project="other") as memory:
        yield memory


def data_of(memory: Memory, tool: str, **arguments: Any) -> dict[str, Any]:
    data: dict[str, Any] | None = call(memory, tool, arguments).structured_content
    assert data is not None
    return data


# -- other projects ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        (
            "memory_search",
            {"query": "API port"},
            "0 hits. 1 hit in other projects: all_projects=true.",
        ),
        (
            "memory_recall",
            {"query": "API port"},
            "Nothing in memory is relevant to that. 1 hit in other projects: all_projects=true.",
        ),
        (
            "memory_timeline",
            {},
            "0 documents. 1 document in other projects: all_projects=true.",
        ),
    ],
)
def test_an_empty_answer_tells_of_other_projects(abroad, tool, arguments, text):
    assert text_of(call(abroad, tool, arguments)) == text
    assert data_of(abroad, tool, **arguments)["elsewhere"] == 1
    everywhere = data_of(abroad, tool, all_projects=True, **arguments)
    assert len(everywhere["results"]) == 1
    assert "elsewhere" not in everywhere


def test_an_answer_of_this_project_tells_of_no_other(abroad):
    abroad.store("Our API listens on port 7000")
    data = data_of(abroad, "memory_search", query="API port")
    assert [row["snippet"] for row in data["results"]] == ["Our API listens on port 7000"]
    assert "elsewhere" not in data


def test_a_weak_hit_does_not_hide_that_another_project_knows(abroad):
    abroad.store("We like the port wine of the valley and the cheese from the hills")
    data = data_of(abroad, "memory_search", query="which port the API listens on at acme")
    assert len(data["results"]) == 1
    assert data["results"][0]["relevance"] < 0.25 and data["elsewhere"] == 1


def test_hits_of_other_projects_say_so(abroad):
    abroad.store("Our API listens on port 7000")
    result = call(abroad, "memory_search", {"query": "API port", "all_projects": True})
    rows = result.structured_content["results"]
    assert {row["snippet"]: row.get("project") for row in rows} == {
        "Our API listens on port 7000": None,
        "The API listens on port 9000": "acme",
    }
    assert text_of(result).count("project acme") == 1
    recalled = call(abroad, "memory_recall", {"query": "API port", "all_projects": True})
    assert text_of(recalled).count("project acme") == 1
    projects = [row.get("project") for row in recalled.structured_content["results"]]
    assert sorted(projects, key=str) == [None, "acme"]
    listed = call(abroad, "memory_timeline", {"all_projects": True})
    assert text_of(listed).count("(project acme)") == 1


def test_a_fact_can_be_stored_for_every_project(abroad):
    stored = data_of(abroad, "memory_store", text="The user is called Ana", project="personal")
    assert stored["project"] is None
    assert abroad.lookup(stored["id"])[0].project is None
    fact = {"text": "Lives in Bilbao", "entity": "Ana", "project": "personal"}
    kept = abroad.lookup(data_of(abroad, "memory_store", **fact)["id"])[0]
    assert kept.project is None
    assert abroad.lookup(kept.parent)[0].project is None
    refused = call(abroad, "memory_store", {"text": "x", "project": "acme"})
    assert text_of(refused) == 'project must be one of personal; got "acme".'
    mine = data_of(abroad, "memory_store", text="Only of this project")
    assert abroad.lookup(mine["id"])[0].project == "other"


# -- earlier facts -------------------------------------------------------------------------------


def test_a_fact_that_was_replaced_is_said_to_exist(memory):
    memory.store("The user lives in Munich", topic="home")
    memory.store("The user lives in Berlin", topic="home")
    text = text_of(call(memory, "memory_search", {"query": "Munich"}))
    assert text == "0 hits. 1 earlier hit, no longer valid: as_of=DATE."
    assert data_of(memory, "memory_search", query="Munich")["earlier"] == 1
    assert "earlier" not in data_of(memory, "memory_search", query="Munich", as_of="2020-01-01")
    current = call(memory, "memory_search", {"query": "Berlin"})
    [row] = current.structured_content["results"]
    assert row["topic"] == "home"
    assert "topic home, 1 earlier)" in text_of(current)
    earlier = call(memory, "memory_get", {"ids": [row["supersedes"]]})
    assert "Munich" in text_of(earlier)


def test_deleting_a_correction_says_that_the_earlier_fact_stays_outdated(memory):
    old = memory.store("The user lives in Munich", topic="home").id
    new = memory.store("The user lives in Berlin", topic="home").id
    text = text_of(call(memory, "memory_delete", {"ids": [new]}))
    assert text.endswith("same ids. What it had replaced stays outdated.")
    assert memory.store(text, origin="agent").recalled
    found = text_of(call(memory, "memory_search", {"query": "Munich"}))
    assert found == "0 hits. 1 earlier hit, no longer valid: as_of=DATE."
    assert text_of(call(memory, "memory_delete", {"ids": [old]})).endswith("same ids.")


# -- what a hit carries --------------------------------------------------------------------------


@pytest.fixture
def ingested(memory: Memory, tmp_path: Path) -> Memory:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text(LONG, encoding="utf-8")
    memory.ingest(folder)
    memory.store("The crane is yellow")
    return memory


def test_for_programs_a_hit_has_every_field_and_the_text(ingested):
    async def act(client):
        return await client.call_tool("memory_search", {"query": "crane word3"})

    rows = converse(ingested, act, with_data=True).structured_content["results"]
    hits = ingested.search("crane word3", limit=5)
    assert [set(row) for row in rows] == [set(hit.to_dict()) for hit in hits[: len(rows)]]
    assert all(row["content"] for row in rows)


def test_the_option_json_gives_programs_the_data(ingested):
    path = ingested.path
    with talking("mcp", "--db", path, "--project", "personal", "--json") as talk:
        talk.hello()
        result = talk.tool("memory_search", query="crane word3")
        assert result["structuredContent"]["results"][0]["content"]
    with talking("mcp", "--db", path, "--project", "personal") as talk:
        talk.hello()
        assert "structuredContent" not in talk.tool("memory_search", query="crane word3")


# -- names as they were copied -------------------------------------------------------------------


@pytest.mark.parametrize("form", ["{} ", " {}\n", "[1] {}", "[12] {} notes.md:4 (fact)", "[{}]"])
def test_an_id_is_known_as_it_was_copied(memory, form):
    id_ = memory.store("We deploy on Fridays").id
    for name in (id_, id_[:8]):
        read = data_of(memory, "memory_get", ids=[form.format(name)])
        assert read["results"][0]["id"] == id_
    data_of(memory, "memory_timeline", anchor=form.format(id_))
    gone = data_of(memory, "memory_delete", ids=[form.format(id_)])
    assert gone["ids"] == [id_]
    assert data_of(memory, "memory_delete", ids=[form.format(id_)], undo=True)["restored"] == [id_]


def test_the_number_of_a_row_is_not_guessed_at(memory):
    memory.store("We deploy on Fridays")
    refused = call(memory, "memory_get", {"ids": ["[1]"]})
    assert refused.is_error
    assert text_of(refused) == "[1] is the number of a row, not an id. The id is the word after it."


def test_a_key_with_brackets_stays_itself(memory):
    memory.store("Draft", key="[1] plan.md")
    assert data_of(memory, "memory_get", ids=["[1] plan.md"])["results"][0]["text"] == "Draft"


@pytest.mark.parametrize("tags", ["red, blue", ["red, blue"], ["red", " blue "], "red,,blue,"])
def test_tags_with_commas_are_several(memory, tags):
    id_ = data_of(memory, "memory_store", text="It is painted", tags=tags)["id"]
    assert memory.lookup(id_)[0].tags == ("red", "blue")
    assert len(data_of(memory, "memory_search", query="painted", tags=tags)["results"]) == 1
    assert len(data_of(memory, "memory_timeline", tags=tags)["results"]) == 1


def test_a_summary_can_be_given(memory):
    data_of(memory, "memory_store", text="A long story of the crane", summary="crane")
    result = call(memory, "timeline", {}, profiles=["layers"])
    assert [row["summary"] for row in result.structured_content["results"]] == ["crane"]


# -- room ----------------------------------------------------------------------------------------


def test_hits_without_room_are_not_no_hits(memory):
    memory.store("We deploy on Fridays")
    text = text_of(call(memory, "memory_search", {"query": "deploy", "max_tokens": 5}))
    assert text == "1 more hit did not fit: raise max_tokens."


def test_a_long_text_says_how_long_it_is(memory):
    assert "It is long: " in text_of(call(memory, "memory_store", {"text": LONG * 4}))
    assert "long" not in text_of(call(memory, "memory_store", {"text": "Short"}))


# -- entities ------------------------------------------------------------------------------------


def test_get_tells_how_many_facts_a_profile_does_not_show(memory):
    facts = tuple(f"Fact {n}: " + "it works " * 10 for n in range(61))
    memory.graph.create([NewEntity("Heron", "project", facts)])
    result = call(memory, "memory_get", {"ids": ["Heron"]})
    [row] = result.structured_content["results"]
    shown = row["text"].count("\n- Fact")
    assert 0 < shown < 61
    assert row["more_facts"] == 61 - shown
    assert text_of(result).endswith(
        f"{61 - shown} more facts are known about {row['id'][:8]}. "
        "Find them with memory_search and entity."
    )
    found = data_of(memory, "memory_search", query="Fact 0", entity="Heron")
    assert found["results"][0]["snippet"].startswith("Fact 0:")
    layer = call(memory, "get_observations", {"ids": ["Heron"]}, profiles=["layers"])
    assert text_of(layer).endswith("Find them with search_memories.")


def test_a_fact_that_a_profile_cuts_counts_as_not_shown(memory):
    memory.graph.create([NewEntity("Heron", "project", ("It works. " * 60, "Short"))])
    assert data_of(memory, "memory_get", ids=["Heron"])["results"][0]["more_facts"] == 1
    memory.graph.create([NewEntity("Ana", "person", ("Likes tea",))])
    assert "more_facts" not in data_of(memory, "memory_get", ids=["Ana"])["results"][0]


# -- deleting ------------------------------------------------------------------------------------


def test_one_passage_of_several_is_not_deleted_with_all_others(ingested):
    hit = ingested.search("word3")[0]
    assert hit.document.chunk_count > 5
    before = ingested.stats()
    for name in (hit.id, hit.id[:8], hit.chunk_id):
        refused = call(ingested, "memory_delete", {"ids": [name]})
        assert refused.is_error
        assert text_of(refused) == (
            f"'{name}' is one of the {hit.document.chunk_count} passages of a file, and cannot be "
            f"deleted alone. Nothing was deleted. To delete all of it, call again with "
            f"{hit.document.id}."
        )
    assert ingested.stats() == before
    assert data_of(ingested, "memory_delete", ids=[hit.document.id])["ids"] == [hit.document.id]


@pytest.mark.parametrize(
    ("facts", "told"), [(("It works", "It flies"), "2 facts,"), (("It works",), "1 fact,")]
)
def test_a_profile_is_not_deleted_with_all_facts(memory, facts, told):
    memory.graph.create([NewEntity("Heron", "project", facts)])
    profile = memory.passages_of(memory.lookup("Heron")[0].id)[0]
    refused = call(memory, "memory_delete", {"ids": [profile.id]})
    assert f"is the profile of an entity with {told}" in text_of(refused)
    assert len(memory.graph.read().entities) == 1
