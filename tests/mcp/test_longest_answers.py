"""No answer leaves its fence open in a client that cuts long ones, whatever the memory holds.

Claude Code 2.1.197 was seen to write an answer of more than 50,000 characters into a file, and to
show the model its first 2,000; with `anthropic/maxResultSizeChars` it takes up to 500,000.
"""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from plait.memory import Memory
from plait.tools.calling import reply_to, run
from plait.tools.graph_parts import GRAPH_BYTES, fitted
from plait.tools.profiles import PROFILES, tools_of
from plait.tools.replies import MAX_TOKENS
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.mcp.talk import converse, text_of

SHOWN_WHOLE = 50_000
TAKEN_IF_TOLD = 500_000
PARAGRAPH = "An otter swims in the river beside the old mill. " * 20
NAMES = [f"otter {number} {'n' * 200}" for number in range(100)]


@pytest.fixture(scope="module")
def full() -> Iterator[Memory]:
    """A memory with texts, names and lists as long as they may be."""
    with Memory.open(":memory:", project="den", embedder="none") as memory:
        chapters = [f"## Chapter {number}\n\n{PARAGRAPH}" for number in range(500)]
        memory.store("\n\n".join(chapters), key="book")
        for number in range(120):
            memory.store(
                f"{number} {PARAGRAPH}",
                key=f"{number}{'k' * 300}",
                title=f"otter {'t' * 900}",
                summary="river " * 900,
                tags=[f"otter{number}-{tag}" for tag in range(60)],
                session="trip",
                role="user",
            )
        for number in range(300):
            memory.store(f"Ana saw otter {number}. {'x' * 300}", entity="Ana", type="fact")
        facts = tuple(f"fact {number} {'y' * 200}" for number in range(10))
        memory.graph.create([NewEntity(name, "otter", facts) for name in NAMES])
        memory.graph.create([NewEntity("Ben", "otter", (f"Ben swims {'z' * 90_000}",))])
        memory.graph.relate([Relation(*pair, "next_to") for pair in pairwise(NAMES)])
        yield memory


def ids(memory: Memory) -> list[str]:
    return [row.id for row in memory.timeline(limit=200)]


CALLS = [
    ("memory_search", {"query": "otter"}),
    ("memory_search", {"query": "otter", "limit": 50}),
    ("memory_recall", {"query": "otter"}),
    ("memory_recall", {"query": "otter", "limit": 50}),
    ("memory_recall", {"overview": True}),
    ("memory_get", {"ids": ["book"]}),
    ("memory_get", {"ids": ["trip"]}),
    ("memory_get", {"ids": ["Ana"]}),
    ("memory_get", {"ids": ["book", *map(str, range(900))]}),
    ("memory_get", {"ids": ["book", "z" * 900_000]}),
    ("memory_timeline", {}),
    ("memory_timeline", {"limit": 200}),
    ("memory_timeline", {"session": "trip", "limit": 200}),
    ("timeline", {}),
    ("search_memories", {"query": "otter", "limit": 50}),
    ("get_observations", {"ids": ["book"]}),
    ("get_observations", {"ids": ["trip", *map(str, range(49))]}),
    ("read_graph", {}),
    ("search_nodes", {"query": "otter"}),
    ("search_nodes", {"query": "Ana saw otter"}),
    ("open_nodes", {"names": NAMES}),
    ("open_nodes", {"names": ["Ana"]}),
    ("open_nodes", {"names": ["Ben"]}),
    ("search_semantic", {"query": "otter", "limit": 50}),
    ("delete_entities", {"entityNames": ["q" * 300 + str(n) for n in range(900)]}),
    (
        "delete_observations",
        {"deletions": [{"entityName": f"q{n}", "observations": ["x"]} for n in range(900)]},
    ),
    ("memory_work", {"kind": "about", "query": "mill.py"}),
    ("memory_review", {}),
    ("memory_review", {"limit": 200}),
]


@pytest.mark.parametrize(
    ("tool", "arguments"), CALLS, ids=[f"{row[0]}-{at}" for at, row in enumerate(CALLS)]
)
def test_without_a_larger_budget_no_answer_is_longer_than_clients_show(full, tool, arguments):
    reply = reply_to(full, tool, arguments, profiles=PROFILES)
    assert not isinstance(reply, str), reply
    assert len(reply.text) <= SHOWN_WHOLE
    assert reply.text.count("<<plait-recall") == reply.text.count("<</plait-recall")
    # The graph's tools send both forms; of the others, clients get the text.
    if tool in {row.name for row in tools_of(["graph"])}:
        assert len(json.dumps(reply.data)) <= SHOWN_WHOLE
    assert len(run(full, tool, arguments, profiles=PROFILES)) <= SHOWN_WHOLE


def test_every_tool_that_only_reads_is_among_these():
    reading = {tool.name for tool in tools_of(PROFILES) if not tool.writes}
    assert reading == {name for name, _ in CALLS} - {"delete_entities", "delete_observations"}


def test_what_happened_to_many_documents_is_told_by_the_first_ids(full):
    many = ids(full)[:150]
    for tool, arguments in (
        ("memory_delete", {"ids": many}),
        ("memory_delete", {"ids": many, "undo": True}),
        ("memory_mark", {"ids": many, "status": "active"}),
    ):
        reply = reply_to(full, tool, arguments, profiles=PROFILES)
        assert not isinstance(reply, str), reply
        assert len(reply.text) < 500
        assert "150" in reply.text
    answer = run(full, "memory_delete", {"ids": many})
    assert len(answer) <= SHOWN_WHOLE
    told = json.loads(answer)["results"][0]
    assert told["ids"] == many[:100]
    run(full, "memory_delete", {"ids": many, "undo": True})


@pytest.mark.parametrize("budget", [20_000, MAX_TOKENS, 10**9])
def test_a_larger_budget_is_kept_and_ends_at_what_the_tool_announces(full, budget):
    def told(client):
        return client.call_tool("memory_get", {"ids": ["book"], "max_tokens": budget})

    text = text_of(converse(full, told))
    assert len(text) <= min(4 * budget, 4 * MAX_TOKENS) < TAKEN_IF_TOLD
    assert text.count("plait-recall") == 2
    assert ("Raise max_tokens" in text) == (budget < MAX_TOKENS)
    assert "earch for a part." in text


def test_each_tool_with_a_budget_tells_clients_how_long_its_answers_may_be(full):
    listed = converse(full, lambda client: client.list_tools(), profiles=PROFILES).tools
    for tool in listed:
        has_budget = bool({"max_tokens", "budget_tokens"} & set(tool.input_schema["properties"]))
        told = (tool.meta or {}).get("anthropic/maxResultSizeChars")
        assert told == (TAKEN_IF_TOLD if has_budget else None), tool.name


def test_a_document_is_shown_beside_many_ids_that_nothing_has(full):
    small = full.search("Ana saw otter 7")[0].document.id
    reply = reply_to(full, "memory_get", {"ids": [small, *(f"no{n}" for n in range(900))]})
    assert not isinstance(reply, str)
    assert "Ana saw otter" in reply.text
    assert reply.text.endswith("892 more ids failed too.")


# -- the graph ------------------------------------------------------------------------------


def graph(memory: Memory, tool: str, **arguments: object) -> dict[str, Any]:
    reply = reply_to(memory, tool, arguments, profiles=["graph"])
    assert not isinstance(reply, str), reply
    assert json.loads(reply.text) == reply.data
    return dict(reply.data)


def test_a_graph_that_is_too_long_says_how_much_is_missing_and_how_to_read_it(full):
    part = graph(full, "open_nodes", names=NAMES)
    shown, near = part["entities"], part["relations"]
    assert [row["name"] for row in shown] == NAMES[: len(shown)]
    assert 5 < len(shown) < len(NAMES) and near
    assert part["note"] == (
        f"Too long, so this is a part: {len(shown)} of 100 entities, {len(near)} of 99 relations. "
        "search_nodes finds others by their words, open_nodes reads some by name."
    )
    names = {row["name"] for row in shown}
    assert all({edge["from"], edge["to"]} & names for edge in near)
    assert all(len(row["observations"]) == 10 for row in shown)


def test_of_an_entity_that_is_too_long_the_observations_with_the_words_come_first(full):
    [ana] = graph(full, "search_nodes", query="Ana saw otter 299")["entities"]
    texts = ana["observations"]
    assert 50 < len(texts) < 300
    assert texts[-1].startswith("Ana saw otter 299.")
    [first] = graph(full, "open_nodes", names=["Ana"])["entities"]
    assert first["observations"][0].startswith("Ana saw otter 0.")
    note = graph(full, "open_nodes", names=["Ana"])["note"]
    assert f"{len(first['observations'])} of 300 observations of the first entity" in note


def test_an_observation_that_is_too_long_is_cut(full):
    [ben] = graph(full, "open_nodes", names=["Ben"])["entities"]
    [text] = ben["observations"]
    assert text.startswith("Ben swims zzz") and text.endswith("…")


SMALL = [{"name": f"s{n}", "entityType": "otter", "observations": ["swims"]} for n in range(43)]
UNTIL = "Too long, so this is a part: "


def entity(name: str, *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": "otter", "observations": [*observations]}


def part_of(rows: list[dict[str, Any]], words: str = "", **others: Any) -> dict[str, Any]:
    part = fitted({"entities": rows, **others}, words)
    assert len(json.dumps(part, ensure_ascii=False, indent=2).encode()) <= GRAPH_BYTES
    return part


@pytest.mark.parametrize("place", [0, 3, 43])
@pytest.mark.parametrize("letter", ["z", "é", "😀", '"', "\x01"])
def test_a_long_entity_is_shortened_and_keeps_no_others_out(place, letter):
    rows = [*SMALL[:place], entity("long", letter * 65_000), *SMALL[place:]]
    part = part_of(rows)
    assert [row["name"] for row in part["entities"]] == [row["name"] for row in rows]
    assert len(json.dumps(part, ensure_ascii=False, indent=2).encode()) > 0.95 * GRAPH_BYTES
    which = "the first entity" if place == 0 else f"entity {place + 1}"
    assert part["note"].startswith(f"{UNTIL}the observation of {which}, cut. ")


def test_a_long_entity_before_many_others_is_shown_beside_some():
    many = [entity(f"s{n}", "x" * 400) for n in range(500)]
    part = part_of([entity("long", "z" * 65_000), *many])
    assert part["entities"][0]["name"] == "long"
    assert len(part["entities"]) > 50
    assert part["note"].startswith(f"{UNTIL}{len(part['entities'])} of 501 entities, the obs")


def test_an_entity_whose_name_alone_is_too_long_is_passed_over():
    long = entity("n" * 50_000, *"abcde")
    part = part_of([long, *SMALL])
    assert part["entities"] == SMALL
    assert part["note"].startswith(f"{UNTIL}43 of 44 entities. ")
    alone = part_of([long])
    assert not alone["entities"]
    assert alone["note"].startswith(f"{UNTIL}0 of 1 entity. ")


def test_a_relation_that_is_too_long_is_passed_over():
    edges = [{"from": "s0", "to": to, "relationType": "near"} for to in ("t" * 60_000, "s1")]
    part = part_of(SMALL, relations=edges)
    assert (part["entities"], part["relations"]) == (SMALL, edges[1:])
    assert part["note"].startswith(f"{UNTIL}1 of 2 relations. ")


def test_of_several_observations_the_one_with_the_words_is_cut_and_others_are_left_out():
    texts = ["short", "y" * 90_000, f"heron {'z' * 90_000}", "also short"]
    part = part_of([entity("long", *texts)], "Heron")
    first, cut, last = part["entities"][0]["observations"]
    assert (first, last) == ("short", "also short")
    assert cut.startswith("heron zzz") and cut.endswith("…") and len(cut) > 0.9 * GRAPH_BYTES
    assert part["note"].startswith(
        f"{UNTIL}3 of 4 observations of the first entity, one of them cut. "
    )


def test_only_entities_that_are_shown_count_as_read(tmp_path):
    names = ["Ana", "n" * 45_000, "Ben"]
    with Memory.open(tmp_path / "m.db", project="den", embedder="none") as memory:
        memory.graph.create([NewEntity(name, "otter", ("swims",)) for name in names])
        shown = graph(memory, "open_nodes", names=names)["entities"]
        assert [row["name"] for row in shown] == ["Ana", "Ben"]
    with Memory.open(tmp_path / "m.db", project="den", embedder="none") as memory:
        refs = [memory.passages_of(memory.lookup(name)[0].id)[0].ref for name in names]
        rows = memory.engine.hydrate(refs, ranking=True)
        assert [ref for ref in refs if rows[ref].use] == [refs[0], refs[2]]


def test_programs_get_the_whole_graph(full):
    result = converse(
        full,
        lambda client: client.call_tool("open_nodes", {"names": NAMES}),
        profiles=["graph"],
        with_data=True,
    )
    assert len(result.structured_content["entities"]) == len(NAMES)
    assert "note" not in result.structured_content


# -- resources ------------------------------------------------------------------------------


def test_a_long_resource_is_cut_inside_its_fence_and_says_how_to_read_on(full):
    result = converse(full, lambda client: client.read_resource("memory://book"))
    text = result.contents[0].text
    assert len(json.dumps(text)) <= SHOWN_WHOLE
    assert text.count("plait-recall") == 2
    assert text.endswith("tokens. Search for a part, or read it with memory_get and max_tokens.")
    whole = converse(full, lambda client: client.read_resource("memory://book"), with_data=True)
    assert len(whole.contents[0].text) > 400_000


def test_the_list_of_resources_is_short_whatever_summaries_documents_have(full):
    listed = converse(full, lambda client: client.list_resources())
    assert len(listed.model_dump_json()) <= SHOWN_WHOLE
