"""A time that ends before it begins is refused, with both ends and what to do."""

import json

import pytest

from plait import Memory
from plait.errors import PlaitError, UsageError
from plait.tools import run
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.codes import has_code

BACKWARDS = {"since": "2026-05-01", "until": "2026-04-01"}
TOLD = r"until is 2026-04-01T.*, which is before since, 2026-05-01T.*\. Swap them"


@pytest.mark.parametrize("verb", ["search", "recall", "timeline"])
def test_a_filter_that_ends_before_it_begins_is_refused(memory: Memory, verb: str) -> None:
    memory.store("The river rose.")
    words = [] if verb == "timeline" else ["river"]
    with pytest.raises(UsageError, match=TOLD, check=has_code("bad_order", subject="until")):
        getattr(memory, verb)(*words, where=BACKWARDS)


def test_a_tool_refuses_it_too(memory: Memory) -> None:
    memory.store("The river rose.")
    told = str(run(memory, "memory_search", {"query": "river", **BACKWARDS}))
    assert "which is before since" in told


def test_one_moment_and_open_ends_are_none(memory: Memory) -> None:
    memory.store("The river rose.")
    assert memory.search("river", where={"since": "2026-04-01"})
    memory.search("river", where={"since": "2026-04-01", "until": "2026-04-01"})


def test_a_relation_that_ends_before_it_begins_is_refused(memory: Memory) -> None:
    memory.graph.create([NewEntity("Ana"), NewEntity("Shop")])
    edge = Relation("Ana", "Shop", "runs", valid_from=2_000_000, valid_to=1_000_000)
    with pytest.raises(UsageError, match=r"valid_to is .*, which is before valid_from, "):
        memory.graph.relate([edge])
    assert memory.graph.relate([edge._replace(valid_to=2_000_000)])


@pytest.mark.parametrize("what", ["document", "relation"])
def test_a_line_of_an_import_that_ends_before_it_begins_is_refused(
    memory: Memory, what: str
) -> None:
    memory.graph.create([NewEntity("Ana", None, ("Ana rows.",)), NewEntity("Shop")])
    memory.graph.relate([Relation("Ana", "Shop", "runs", valid_from=2_000_000)])
    lines = [json.loads(line) for line in memory.export()]
    for line in lines:
        fields = line.get("relation") or line
        if (what == "relation") == ("relation" in line) and fields.get("kind") != "entity":
            fields.update(valid_from=2_000_000, valid_to=1_000_000)
    with Memory.open(":memory:", project="") as other, pytest.raises(PlaitError) as caught:
        other.import_lines(json.dumps(line) for line in lines)
    assert "which is before valid_from" in str(caught.value)


def test_what_was_on_one_day_is_found_with_that_day_as_both_limits(memory: Memory) -> None:
    for day in ("09", "10", "11"):
        memory.store(f"The tide on the {day}th.", key=day, event_at=f"2021-11-{day}T15:00")
    where = {"since": "2021-11-10", "until": "2021-11-10"}
    assert [hit.doc_id for hit in memory.search("tide", where=where)] == ["10"]
    assert [row.doc_id for row in memory.timeline(where=where)] == ["10"]
    assert [item.hit.doc_id for item in memory.recall("tide", where=where).items] == ["10"]
