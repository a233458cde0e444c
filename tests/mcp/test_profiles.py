"""The profiles layers and graph: the shapes of mcb, mcp-memory and the reference server."""

import json
import time
from typing import Any

import pytest

from plait import Memory
from plait.mcp.lazy import LazyMemory
from plait.types import Document
from plait.types.relations import Relation
from tests.builders import Failing
from tests.mcp.talk import ERAS, call, converse, text_of


@pytest.fixture
def dated(memory: Memory) -> Memory:
    memory.store("We deploy on Fridays", type="decision", tags=["ops"], event_at="2026-03-01T09:00")
    memory.store("Ana prefers tea", summary="Ana: tea", event_at="2026-03-02T23:30")
    memory.store("The crane is yellow", event_at="2026-03-03T00:30")
    return memory


def layer(memory: Memory, tool: str, **arguments):
    return call(memory, tool, arguments, profiles=["layers"])


# -- layers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_the_layers_are_three_tools(memory, era):
    listed = converse(memory, lambda client: client.list_tools(), profiles=["layers"], era=era)
    assert [tool.name for tool in listed.tools] == [
        "timeline",
        "search_memories",
        "get_observations",
    ]


def test_the_first_layer_lists_what_lies_between_two_days_both_included(dated):
    result = layer(dated, "timeline", start_date="2026-03-01", end_date="2026-03-02")
    rows = result.structured_content["results"]
    fields = {"id", "created_at", "event_at", "type", "tags", "summary"}
    assert [set(row) for row in rows] == [fields] * 2
    assert [row["summary"] for row in rows] == ["Ana: tea", "We deploy on Fridays"]
    assert (rows[1]["type"], rows[1]["tags"]) == ("decision", ["ops"])
    assert "tokens" in result.structured_content
    assert all(row["id"][:8] in text_of(result) for row in rows)


def test_the_first_layer_takes_moments_and_no_dates_at_all(dated):
    assert len(layer(dated, "timeline").structured_content["results"]) == 3
    late = layer(dated, "timeline", start_date="2026-03-01T10:00", end_date="2026-03-03T00:00")
    assert [row["summary"] for row in late.structured_content["results"]] == ["Ana: tea"]
    none = layer(dated, "timeline", end_date="2020-01-01")
    assert text_of(none) == "Nothing in that time."
    assert "is not a time" in text_of(layer(dated, "timeline", start_date="soon"))


def test_the_second_layer_scores_and_the_third_reads_whole(dated):
    hits = layer(dated, "search_memories", query="when do we deploy").structured_content["results"]
    assert set(hits[0]) == {"id", "score", "similarity_score", "snippet"}
    assert hits[0]["snippet"] == "We deploy on Fridays"
    whole = layer(dated, "get_observations", ids=[hits[0]["id"]]).structured_content["results"]
    assert whole[0]["text"] == "We deploy on Fridays"
    assert whole[0]["type"] == "decision"
    assert "No hits" in text_of(layer(dated, "search_memories", query="zebra"))


def test_every_layer_keeps_to_max_tokens_and_says_what_is_missing(dated):
    for tool, more in [("timeline", {}), ("search_memories", {"query": "deploy tea crane"})]:
        result = layer(dated, tool, max_tokens=70, **more)
        assert len(result.structured_content["results"]) < 3
        assert "left out" in text_of(result)
        assert result.structured_content["tokens"] <= 70


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone cannot be changed here")
def test_a_day_ends_where_the_calendar_says(memory, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Madrid")
    time.tzset()
    try:
        # Clocks go back on the 25th, which has 25 hours, and forward on the 29th, which has 23.
        memory.store("Late", event_at="2026-10-25T23:30")
        memory.store("Early", event_at="2026-03-30T00:30")
        late = layer(memory, "timeline", start_date="2026-10-25", end_date="2026-10-25")
        assert [row["summary"] for row in late.structured_content["results"]] == ["Late"]
        early = layer(memory, "timeline", start_date="2026-03-29", end_date="2026-03-29")
        assert early.structured_content["results"] == []
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("end", "count"), [("9999-12-31", 3), ("2026-03-02", 2), (" 2026-03-02 ", 2)]
)
def test_the_last_day_may_be_any_day(dated, end, count):
    rows = layer(dated, "timeline", end_date=end).structured_content["results"]
    assert len(rows) == count
    assert "is not a time" in text_of(layer(dated, "timeline", end_date="2026-02-31"))


def test_the_first_layer_says_when_there_is_more_than_it_lists(memory):
    memory.store_many(
        [
            Document(text=f"Day {n}", kind="observation", event_at=(n + 2_000) * 86_400_000)
            for n in range(205)
        ]
    )
    result = layer(memory, "timeline", max_tokens=100_000)
    assert len(result.structured_content["results"]) == 200
    assert result.structured_content["left_out"] == 1
    assert "At least 1 older one left out: ask for earlier dates." in text_of(result)
    few = layer(memory, "timeline", max_tokens=200)
    shown = len(few.structured_content["results"])
    assert few.structured_content["left_out"] == 201 - shown
    assert f"At least {201 - shown} older ones left out: raise max_tokens." in text_of(few)


@pytest.mark.parametrize(
    ("tool", "more"), [("timeline", {}), ("search_memories", {"query": "deploy tea crane"})]
)
def test_a_layer_without_room_is_not_a_layer_without_anything(dated, tool, more):
    result = layer(dated, tool, max_tokens=5, **more)
    assert result.structured_content["results"] == []
    assert result.structured_content["left_out"] == 3
    assert "left out: raise max_tokens." in text_of(result)
    assert "Nothing" not in text_of(result)


def test_every_layer_marks_what_is_not_trusted(dated):
    dated.store("Deploy by mail", trust="untrusted", event_at="2026-03-02")
    calls = [("timeline", {}), ("search_memories", {"query": "deploy"})]
    for tool, more in calls:
        result = layer(dated, tool, **more)
        marked = [row for row in result.structured_content["results"] if "trust" in row]
        assert [row["trust"] for row in marked] == ["untrusted"]
        [line] = [line for line in text_of(result).splitlines() if "Deploy by mail" in line]
        assert "(untrusted)" in line or "(2026-03-02, untrusted)" in line
        assert text_of(result).count("untrusted") == 1


def test_the_first_layer_shows_the_time_that_it_selects_by(dated):
    result = layer(dated, "timeline", start_date="2026-03-01", end_date="2026-03-01")
    [row] = result.structured_content["results"]
    assert row["event_at"].startswith("2026-03-01")
    day, line = text_of(result).splitlines()[1:3]
    assert day == "On 2026-03-01:" and line.startswith(row["id"][:8])
    assert row["created_at"][:10] not in text_of(result)


def test_the_second_layer_tells_weak_from_strong_in_both_forms(dated):
    strong = layer(dated, "search_memories", query="we deploy on Fridays")
    [row] = strong.structured_content["results"]
    assert "weak" not in row and row["similarity_score"] > 0.9
    assert f"{row['id'][:8]} {row['similarity_score']:.0%} (decision, " in text_of(strong)
    weak = layer(dated, "search_memories", query="deploy zebras quilt opera violins")
    [row] = weak.structured_content["results"]
    assert row["weak"] is True and row["score"] > 5 * row["similarity_score"]
    assert f"{row['id'][:8]} weak (decision, 2026-03-01) We deploy" in text_of(weak)


def test_a_degraded_second_layer_says_so_in_both_forms(tmp_path):
    embedder = Failing(calls=4)
    with Memory.open(tmp_path / "m.db", embedder=embedder, project="") as memory:
        memory.store("We deploy on Fridays")
        embedder._left = 0
        result = layer(memory, "search_memories", query="deploy")
        [reason] = result.structured_content["degraded"]
        assert reason in text_of(result)


def test_errors_of_the_layers_name_only_their_tools(dated):
    for tool, arguments in (("get_observations", {"ids": ["zzzzzzzz"]}),):
        text = text_of(layer(dated, tool, **arguments))
        assert text.endswith("Search for it with search_memories.")


@pytest.mark.parametrize(
    ("tool", "arguments", "note"),
    [
        ("search_memories", {"query": "deploy"}, "1 hit in other projects: all_projects=true."),
        ("timeline", {}, "1 document in other projects: all_projects=true."),
    ],
)
def test_a_layer_without_anything_tells_of_other_projects(tmp_path, tool, arguments, note):
    path = tmp_path / "m.db"
    with Memory.open(path, embedder="none", project="acme") as memory:
        memory.store("We deploy on Fridays")
    with Memory.open(path, embedder="none", project="other") as memory:
        result = layer(memory, tool, **arguments)
        assert text_of(result).endswith(note)
        assert result.structured_content["elsewhere"] == 1
        beyond = layer(memory, tool, all_projects=True, **arguments)
        assert [row["project"] for row in beyond.structured_content["results"]] == ["acme"]
        assert "project acme)" in text_of(beyond)
        assert "elsewhere" not in beyond.structured_content
        memory.store("Nobody can deploy")
        assert "elsewhere" not in layer(memory, tool, **arguments).structured_content


# -- graph -------------------------------------------------------------------------------------

ANA = {"name": "Ana", "entityType": "person", "observations": ["Likes tea", "Lives in Bilbao"]}
ACME = {"name": "Acme", "entityType": "company", "observations": []}
WORKS = {"from": "Ana", "to": "Acme", "relationType": "works_at"}


def graph(memory: Memory, tool: str, **arguments):
    return call(memory, tool, arguments, profiles=["graph"])


@pytest.fixture
def known(memory: Memory) -> Memory:
    graph(memory, "create_entities", entities=[ANA, ACME])
    graph(memory, "create_relations", relations=[WORKS])
    return memory


@pytest.mark.parametrize("era", ERAS)
def test_the_graph_profile_has_the_reference_servers_nine_tools_and_one_more(memory, era):
    listed = converse(memory, lambda client: client.list_tools(), profiles=["graph"], era=era)
    shapes = {tool.name: sorted(tool.input_schema["properties"]) for tool in listed.tools}
    assert shapes == {
        "create_entities": ["allow_secret", "entities"],
        "create_relations": ["allow_secret", "relations"],
        "add_observations": ["allow_secret", "observations"],
        "delete_entities": ["entityNames"],
        "delete_observations": ["deletions"],
        "delete_relations": ["relations"],
        "read_graph": [],
        "search_nodes": ["query"],
        "open_nodes": ["names"],
        "search_semantic": ["limit", "query"],
    }
    assert all(tool.output_schema is not None and tool.title for tool in listed.tools)


def test_created_entities_come_back_and_known_ones_are_skipped(memory):
    made = graph(memory, "create_entities", entities=[ANA, ANA])
    assert made.structured_content == {"entities": [ANA]}
    assert text_of(made) == json.dumps([ANA], indent=2)
    again = graph(memory, "create_entities", entities=[{**ANA, "observations": ["New"]}, ACME])
    assert again.structured_content == {"entities": [ACME]}
    assert graph(memory, "read_graph").structured_content["entities"] == [ANA, ACME]


def test_created_relations_come_back_and_known_ones_are_skipped(known):
    fresh = {**WORKS, "relationType": "owns"}
    made = graph(known, "create_relations", relations=[WORKS, fresh, fresh])
    assert made.structured_content == {"relations": [fresh]}
    assert text_of(made) == json.dumps([fresh], indent=2)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create_relations", {"relations": [{**WORKS, "to": "Zed"}]}),
        ("create_relations", {"relations": [{**WORKS, "from": "Zed"}]}),
        ("add_observations", {"observations": [{"entityName": "Zed", "contents": ["x"]}]}),
    ],
)
def test_an_entity_that_is_not_there_is_refused_in_the_reference_servers_words(
    known, tool, arguments
):
    before = graph(known, "read_graph").structured_content
    result = graph(known, tool, **arguments)
    assert result.is_error
    assert text_of(result) == "Entity with name Zed not found"
    assert graph(known, "read_graph").structured_content == before


def test_observations_are_added_once(known):
    rows = [{"entityName": "Ana", "contents": ["Likes tea", "Plays chess"]}]
    result = graph(known, "add_observations", observations=rows)
    expected = [{"entityName": "Ana", "addedObservations": ["Plays chess"]}]
    assert result.structured_content == {"results": expected}
    assert text_of(result) == json.dumps(expected, indent=2)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("delete_entities", {"entityNames": ["Ana"]}, "Entities deleted successfully"),
        (
            "delete_entities",
            {"entityNames": ["Ana", "Zed"]},
            "Deleted 1 of 2 entities. Not found: Zed",
        ),
        (
            "delete_observations",
            {"deletions": [{"entityName": "Ana", "observations": ["Likes tea"]}]},
            "Observations deleted successfully",
        ),
        (
            "delete_observations",
            {
                "deletions": [
                    {"entityName": "Ana", "observations": ["Likes tea", "Nope"]},
                    {"entityName": "Zed", "observations": ["x"]},
                ]
            },
            "Deleted 1 of 3 observations. Entities not found: Zed",
        ),
        (
            "delete_observations",
            {"deletions": [{"entityName": "Ana", "observations": ["Nope"]}]},
            "Deleted 0 of 1 observations.",
        ),
        ("delete_relations", {"relations": [WORKS]}, "Relations deleted successfully"),
        (
            "delete_relations",
            {"relations": [WORKS, {**WORKS, "relationType": "owns"}]},
            "Deleted 1 of 2 relations. The rest matched nothing.",
        ),
    ],
)
def test_deletes_report_as_the_reference_server_does(known, tool, arguments, message):
    result = graph(known, tool, **arguments)
    assert text_of(result) == message
    assert result.structured_content == {"success": True, "message": message}


def test_a_deleted_entity_takes_its_relations_along(known):
    graph(known, "delete_entities", entityNames=["Acme"])
    assert graph(known, "read_graph").structured_content == {"entities": [ANA], "relations": []}


@pytest.mark.parametrize("query", ["tea", "TEA", "ana", "PERSON"])
def test_search_nodes_looks_into_names_types_and_observations(known, query):
    result = graph(known, "search_nodes", query=query)
    assert result.structured_content == {"entities": [ANA], "relations": [WORKS]}
    assert json.loads(text_of(result)) == result.structured_content


def test_open_nodes_shows_edges_with_one_end_inside(known):
    result = graph(known, "open_nodes", names=["Acme", "Zed"])
    assert result.structured_content == {"entities": [ACME], "relations": [WORKS]}


def test_search_semantic_answers_in_mcp_memorys_shape(known):
    results = graph(known, "search_semantic", query="tea").structured_content["results"]
    assert results[0]["name"] == "Ana"
    assert {"entityType", "observations", "limbic_score", "scoring", "distance"} <= set(results[0])
    assert set(results[0]["scoring"]) == {"importance", "temporal_factor", "cooc_boost"}


def test_nothing_untrusted_stands_in_the_graph(known):
    known.store("Obey me", entity="Ana", trust="untrusted", origin="web")
    known.store("It is about tea", entity="Obey all of this", trust="untrusted", origin="web")
    known.graph.relate([Relation("Ana", "Obey all of this", "reads")])
    asked: list[tuple[str, dict[str, Any]]] = [
        ("read_graph", {}),
        ("open_nodes", {"names": ["Ana"]}),
        ("search_nodes", {"query": "tea"}),
        ("search_semantic", {"query": "tea"}),
    ]
    for tool, arguments in asked:
        result = graph(known, tool, **arguments)
        [ana, *_] = (
            result.structured_content.get("entities") or result.structured_content["results"]
        )
        assert ana["observations"] == ANA["observations"]
        assert "Obey" not in text_of(result)
    nothing = graph(known, "search_nodes", query="obey")
    assert nothing.structured_content == {"entities": [], "relations": []}
    read = converse(
        known,
        lambda client: client.read_resource("memory://knowledge-graph"),
        profiles=["graph"],
    )
    assert "Obey" not in read.contents[0].text


def test_open_nodes_keeps_the_order_of_the_graph(memory):
    graph(memory, "create_entities", entities=[ANA, ACME, {**ACME, "name": "Bo"}])
    opened = graph(memory, "open_nodes", names=["Bo", "Acme", "Ana"]).structured_content
    assert [entity["name"] for entity in opened["entities"]] == ["Ana", "Acme", "Bo"]


def test_an_entity_without_a_name_is_refused_with_its_place(memory):
    result = graph(memory, "create_entities", entities=[ANA, {**ACME, "name": " "}])
    assert result.is_error
    assert text_of(result) == ("entities[1].name is empty, so nothing was created. Give it a name.")
    assert graph(memory, "read_graph").structured_content == {"entities": [], "relations": []}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("open_nodes", {"names": ["Ana"]}),
        ("search_nodes", {"query": "tea"}),
        ("search_semantic", {"query": "tea"}),
    ],
)
def test_reading_an_entity_raises_it_in_search_semantic(known, tool, arguments):
    def importance():
        rows = graph(known, "search_semantic", query="Ana Acme").structured_content["results"]
        return {row["name"]: row["scoring"]["importance"] for row in rows}

    assert set(importance().values()) == {0.0}
    for _ in range(5):
        graph(known, tool, **arguments)
    known.write_down_use()
    counted = importance()
    # The search itself read both once.
    assert counted["Ana"] > counted["Acme"]


def test_looking_through_the_whole_graph_reads_nothing(known):
    for _ in range(20):
        graph(known, "read_graph")
    known.write_down_use()
    rows = graph(known, "search_semantic", query="Ana Acme").structured_content["results"]
    assert {row["scoring"]["importance"] for row in rows} == {0.0}


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_untrusted_entities_do_not_take_the_places_of_trusted_ones(known, limit):
    for n in range(40):
        known.store("tea tea tea", entity=f"Tea {n}", trust="untrusted", origin="web")
    found = graph(known, "search_semantic", query="tea", limit=limit)
    assert [row["name"] for row in found.structured_content["results"]] == ["Ana"]


def test_a_degraded_search_semantic_says_so(tmp_path):
    embedder = Failing(calls=4)
    with Memory.open(tmp_path / "m.db", embedder=embedder, project="") as memory:
        graph(memory, "create_entities", entities=[ANA])
        embedder._left = 0
        result = graph(memory, "search_semantic", query="tea")
        assert result.structured_content["results"][0]["name"] == "Ana"
        [reason] = result.structured_content["degraded"]
        assert reason.startswith("vector search skipped: ")
        assert json.loads(text_of(result)) == result.structured_content


@pytest.fixture
def abroad(tmp_path):
    """A memory whose entities belong to another project."""
    path = tmp_path / "shared.db"
    with Memory.open(path, embedder="none", project="acme") as memory:
        graph(memory, "create_entities", entities=[ANA, ACME])
        memory.store("Obey", entity="Zed", trust="untrusted", origin="web")
    with Memory.open(path, embedder="none", project="other") as memory:
        yield memory


@pytest.mark.parametrize(
    ("tool", "arguments", "count"),
    [
        ("read_graph", {}, "2 entities."),
        ("search_nodes", {"query": "tea"}, "2 entities."),
        ("search_semantic", {"query": "tea"}, "2 entities."),
        ("open_nodes", {"names": ["Ana", "Bo"]}, "1 entity of that name."),
        ("open_nodes", {"names": ["Zed"]}, None),
    ],
)
def test_an_empty_graph_tells_of_those_in_other_projects(abroad, tool, arguments, count):
    data = graph(abroad, tool, **arguments).structured_content
    if count is None:
        assert "note" not in data
        return
    assert data["note"].startswith(f"Other projects have {count}")
    assert "--project personal" in data["note"]


def test_a_missing_entity_of_another_project_is_told(abroad):
    rows = [{"entityName": "Ana", "contents": ["x"]}]
    text = text_of(graph(abroad, "add_observations", observations=rows))
    assert text.startswith("Entity with name Ana not found. Other projects have 1 entity")
    rows = [{"entityName": "Cy", "contents": ["x"]}]
    text = text_of(graph(abroad, "add_observations", observations=rows))
    assert text == "Entity with name Cy not found"
    graph(abroad, "create_entities", entities=[ACME])
    assert "note" not in graph(abroad, "search_nodes", query="zzz").structured_content


def test_an_argument_the_reference_server_would_ignore_is_ignored(memory):
    made = graph(memory, "create_entities", entities=[{**ACME, "status": "active"}], extra=1)
    assert made.structured_content == {"entities": [ACME]}


def test_a_query_beyond_the_reference_servers_limit_is_refused(memory):
    assert "at most 2,048 characters" in text_of(graph(memory, "search_nodes", query="x" * 2_049))


def test_facts_of_the_graph_are_an_agents_and_found_by_plain_search(known):
    hit = known.search("Bilbao")[0]
    assert hit.document.origin == "agent"


def test_an_absent_memory_has_an_empty_graph_and_stays_absent(tmp_path):
    path = tmp_path / "memory.db"
    lazy = LazyMemory(lambda create: Memory.open(path, embedder="none", project="", create=create))
    empty: dict[str, Any] = {"entities": [], "relations": []}
    assert call(lazy, "read_graph", {}, profiles=["graph"]).structured_content == empty
    reads: list[tuple[str, dict[str, Any], str]] = [
        ("search_nodes", {"query": "x"}, "entities"),
        ("open_nodes", {"names": ["x"]}, "entities"),
        ("search_semantic", {"query": "x"}, "results"),
    ]
    for tool, arguments, key in reads:
        assert call(lazy, tool, arguments, profiles=["graph"]).structured_content[key] == []
    assert not path.exists()


@pytest.mark.parametrize("era", ERAS)
def test_the_whole_graph_is_a_resource(known, era):
    async def act(client):
        listed = await client.list_resources()
        return listed, await client.read_resource("memory://knowledge-graph")

    listed, read = converse(known, act, profiles=["graph"], era=era)
    assert listed.resources[0].uri == "memory://knowledge-graph"
    assert json.loads(read.contents[0].text) == graph(known, "read_graph").structured_content
