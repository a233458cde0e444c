"""A bad row does not hide the others: it is named, the rest is printed, and the exit code is 1."""

import json

import apsw
import pytest

from plait.errors import StoreDamaged
from plait.memory import Memory
from plait.types import Relation
from plait.types.reports import NewEntity

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
            memory.store(f"Good note {number}.", key=f"good{number}")
        bad = memory.store("This one will be damaged.", key="bad").id
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
