"""A bad row does not hide the others: it is named, the rest is printed, and the exit code is 1."""

import json

import apsw
import pytest

from plait.errors import NotFound, StoreDamaged
from plait.mcp.server import DAMAGED_KEY
from plait.memory import Memory
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.mcp.talk import call, converse, text_of

NOON = 1_772_366_400_000  # 2026-03-01
DAMAGE = {
    "a field of another type": "UPDATE documents SET title = x'05' WHERE key = 'bad'",
    "tags that are no list": "UPDATE documents SET tags = '{' WHERE key = 'bad'",
    "bytes that are not UTF-8": (
        "UPDATE documents SET summary = CAST(x'ff' AS TEXT) WHERE key = 'bad'"
    ),
    "an unknown origin": "UPDATE documents SET origin = 'nobody' WHERE key = 'bad'",
    "a text that is none": (
        "UPDATE passages SET text = x'05' WHERE document = "
        "(SELECT rowid FROM documents WHERE key = 'bad')"
    ),
}


@pytest.fixture(params=DAMAGE.values(), ids=list(DAMAGE))
def damaged(plait, home, request):
    """The command line over a memory with one bad row among good ones; its id."""
    with Memory.open(embedder="none", project="") as memory:
        for number in range(3):
            memory.store(f"Good note {number}.", key=f"good{number}", event_at=NOON + number)
        bad = memory.store("This one will be damaged.", key="bad", event_at=NOON + 1_000).id
        memory.graph.create([NewEntity("Ana"), NewEntity("Dan")])
        memory.graph.relate([Relation("Ana", "Dan", "knows")])
        path = memory.path
    file = apsw.Connection(path)
    file.execute("PRAGMA ignore_check_constraints = ON").fetchall()
    for name in ("documents", "passages"):
        for (trigger,) in file.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?", (name,)
        ).fetchall():
            file.execute(f'DROP TRIGGER "{trigger}"')
    file.execute(request.param)
    file.close()
    return plait, bad


@pytest.mark.parametrize(
    "words",
    [
        ("search", "zebra", "--tag", "nothing"),
        ("recall", "zebra", "--type", "nothing"),
        ("get", "goood1"),
        ("get", "abc"),
        ("entity", "show", "Anna"),
    ],
)
def test_a_suggestion_is_made_of_what_can_be_read(damaged, words):
    ran = damaged[0](*words)
    assert ran.code == 3
    assert ran.json is not None
    assert "is damaged" not in ran.err


def test_a_deleted_document_that_cannot_be_read_stops_no_answer(damaged):
    plait, _ = damaged
    plait("delete", "good1")
    file = apsw.Connection(Memory.open(create=False).path)
    file.execute("UPDATE trash SET document = '{'")
    file.close()
    ran = plait("get", "zebra")
    assert (ran.code, "Nothing is named 'zebra'" in ran.err) == (3, True)


def test_an_export_goes_on_behind_it_and_says_what_is_missing(damaged, work):
    plait, bad = damaged
    ran = plait("export")
    assert ran.code == 1
    records = [json.loads(line) for line in ran.out.splitlines()]
    assert {row["key"] for row in records if row.get("kind") != "entity" and "key" in row} == {
        f"good{number}" for number in range(3)
    }
    assert sum("relation" in row for row in records) == 1
    assert bad in ran.err and "plait doctor" in ran.err
    assert ran.err.count("\n") == 2 and "Traceback" not in ran.err
    assert plait("export", "all.jsonl").code == 1
    assert (work / "all.jsonl").read_text(encoding="utf-8") == ran.out


@pytest.mark.parametrize(
    "change", ["dims = 0", "dims = 'x'", "space = '['", "space = CAST(x'ff' AS TEXT)"]
)
def test_an_export_needs_no_row_about_vectors(plait, home, work, change):
    with Memory.open(embedder="hashing", project="") as memory:
        for number in range(3):
            memory.store(f"Good note {number}.", key=f"good{number}")
        path = memory.path
        whole = list(memory.export())
    file = apsw.Connection(path)
    file.execute(f"UPDATE generations SET {change}")
    file.close()
    ran = plait("export")
    assert (ran.code, ran.err, ran.out.splitlines()) == (0, "", whole)
    assert plait("export", "all.jsonl").code == 0
    assert (work / "all.jsonl").read_text(encoding="utf-8") == ran.out
    answered = plait("search", "note", "--json")
    assert len(answered.json["results"]) == 3
    assert any("vector search failed" in row for row in answered.json["receipt"]["degraded"])
    assert "plait doctor --fix" in answered.err + answered.out
    for verb in (["store", "Another note."], ["reindex"], ["stats"], ["delete", "good1"]):
        refused = plait(*verb)
        assert refused.code == 1 and "plait doctor --fix" in refused.err, verb
    assert plait("export").out == ran.out


def test_a_timeline_goes_on_behind_it_and_says_what_is_missing(damaged):
    plait, bad = damaged
    ran = plait("timeline")
    assert ran.code == 1
    assert {row["doc_id"] for row in ran.json["results"]} == {f"good{n}" for n in range(3)}
    assert bad in ran.err and "plait doctor" in ran.err


def test_a_page_with_it_is_not_the_last_one(damaged):
    plait, _ = damaged
    first = plait("timeline", "--limit", "2").json
    assert [row["doc_id"] for row in first["results"]] == ["good2"]
    older = plait("timeline", "--limit", "2", "--cursor", first["next"])
    assert [row["doc_id"] for row in older.json["results"]] == ["good1", "good0"]


@pytest.mark.parametrize(
    ("tool", "profile", "options"),
    [("memory_timeline", "core", {"limit": 2}), ("timeline", "layers", {})],
)
def test_a_server_lists_what_is_behind_it_and_says_what_is_missing(damaged, tool, profile, options):
    _, bad = damaged
    with Memory.open(embedder="none", project="") as memory:
        answered = call(memory, tool, options, profiles=(profile,))
        data = answered.structured_content
        rows = list(data["results"])
        if "next" in data:
            older = call(memory, tool, {**options, "cursor": data["next"]}, profiles=(profile,))
            rows += older.structured_content["results"]
        resources = converse(memory, lambda client: client.list_resources())
    assert [row["summary"] for row in rows] == [f"Good note {n}." for n in (2, 1, 0)]
    assert data["damaged"] == [bad]
    assert f"'{bad}'" in text_of(answered) and "doctor --fix" in text_of(answered)
    listed = {resource.description.splitlines()[1] for resource in resources.resources}
    assert {"good0", "good1", "good2"} <= listed
    assert resources.meta == {DAMAGED_KEY: [bad]}


def test_a_program_that_does_not_ask_for_the_names_gets_an_error(damaged):
    _, bad = damaged
    with Memory.open(embedder="none", project="") as memory:
        with pytest.raises(StoreDamaged):
            list(memory.export())
        with pytest.raises(StoreDamaged):
            memory.timeline()
        left_out: list[str] = []
        assert len(list(memory.export(damaged=left_out))) == 7
        assert left_out == [bad]


def test_get_prints_the_others_and_says_which_cannot_be_read(damaged):
    plait, bad = damaged
    for name in ("bad", bad, bad[:8]):
        ran = plait("get", "good0", name, "good2")
        assert ran.code == 1, name
        assert [row["doc_id"] for row in ran.json["results"]] == ["good0", "good2"]
        assert ran.err.count("\n") == 1 and "plait doctor" in ran.err
    with Memory.open(embedder="none", project="") as memory:
        named, troubles = memory.lookup_many(["good0", "nobody", "bad"])
        assert [document.key for document, _ in named] == ["good0"]
        assert {name: type(error) for name, error in troubles.items()} == {
            "nobody": NotFound,
            "bad": StoreDamaged,
        }
        with pytest.raises(StoreDamaged):
            memory.get("bad")


def test_a_timeline_around_a_document_goes_on_behind_it(damaged):
    plait, bad = damaged
    ran = plait("timeline", "--anchor", "good1")
    assert ran.code == 1
    assert {row["doc_id"] for row in ran.json["results"]} == {f"good{n}" for n in range(3)}
    assert bad in ran.err and "plait doctor" in ran.err
    with Memory.open(embedder="none", project="") as memory:
        with pytest.raises(StoreDamaged):
            memory.timeline(anchor="good1")
        left_out: list[str] = []
        assert len(memory.timeline(anchor="good1", damaged=left_out)) == 3
        assert left_out == [bad]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("UPDATE documents SET tags = '{' WHERE key = 'Bo'", {"Ana": ["climbs", "swims"]}),
        ("UPDATE documents SET origin = 'x' WHERE key = 'Bo'", {"Ana": ["climbs", "swims"]}),
        (
            "UPDATE documents SET summary = CAST(x'ff' AS TEXT) WHERE kind = 'observation' "
            "AND rowid = (SELECT document FROM passages WHERE text = 'climbs')",
            {"Ana": ["swims"], "Bo": ["reads"]},
        ),
        (
            "UPDATE passages SET text = x'05' WHERE text = 'climbs'",
            {"Ana": ["swims"], "Bo": ["reads"]},
        ),
    ],
)
def test_an_exported_graph_leaves_out_only_what_cannot_be_read(home, change, left):
    with Memory.open(embedder="none", project="") as memory:
        memory.graph.create([NewEntity("Ana", "person", ("climbs", "swims"))])
        memory.graph.create([NewEntity("Bo", "person", ("reads",))])
        path = memory.path
    file = apsw.Connection(path)
    file.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    file.execute("PRAGMA ignore_check_constraints = ON").fetchall()
    file.execute(change)
    assert file.changes() == 1
    file.close()
    with Memory.open(embedder="none", project="") as memory:
        with pytest.raises(StoreDamaged):
            list(memory.export_graph())
        left_out: list[str] = []
        rows = [json.loads(line) for line in memory.export_graph(damaged=left_out)]
    assert {row["name"]: row["observations"] for row in rows} == left
    assert len(left_out) == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE relations SET created_at = 'noon' WHERE type = 'helps'",
        "UPDATE relations SET context = CAST(x'ff' AS TEXT) WHERE type = 'helps'",
        "UPDATE relations SET type = x'05' WHERE type = 'helps'",
    ],
)
def test_an_export_leaves_out_only_the_relation_that_cannot_be_read(plait, home, change):
    with Memory.open(embedder="none", project="") as memory:
        memory.graph.create([NewEntity("Ana"), NewEntity("Bo")])
        memory.graph.relate([Relation("Ana", "Bo", "knows"), Relation("Ana", "Bo", "helps")])
        memory.graph.relate([Relation("Bo", "Ana", "likes")])
        path = memory.path
    file = apsw.Connection(path)
    file.execute(change)
    assert file.changes() == 1
    file.close()
    ran = plait("export")
    assert (ran.code, "relations 2" in ran.err) == (1, True)
    records = [json.loads(line) for line in ran.out.splitlines()]
    kinds = [row["relation"]["type"] for row in records if "relation" in row]
    assert kinds == ["knows", "likes"]
    with Memory.open(embedder="none", project="") as memory:
        with pytest.raises(StoreDamaged):
            list(memory.export())
        left_out: list[str] = []
        rows = [json.loads(line) for line in memory.export_graph(damaged=left_out)]
    assert [row["relationType"] for row in rows if row["type"] == "relation"] == kinds
    assert left_out == ["relations 2"]
