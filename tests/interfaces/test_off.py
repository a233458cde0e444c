"""A memory that is off: writes answer as if they had, reads find nothing, and it is told once."""

from pathlib import Path

import pytest

from plait import Memory, NewEntity
from plait.graph import Subgraph
from plait.settings.loading import load
from plait.types.relations import Relation
from tests.interfaces.conftest import Plait

OFF = "The memory is off (backend = none)"

WRITES = [
    ["store", "x"],
    ["store", "--messages", "chat.json", "--session", "s"],
    ["entity", "add", "Ana", "a fact"],
    ["entity", "observe", "Ana", "a fact"],
    ["entity", "observe", "Ana", "--delete-observation", "a fact"],
    ["entity", "relate", "Ana", "knows", "Ben"],
    ["entity", "unrelate", "Ana", "knows", "Ben"],
    ["entity", "delete", "Ana"],
    ["delete", "x"],
    ["delete", "--undo"],
    ["prune", "--keep-days", "note=1"],
    ["ingest", "."],
    ["import", "plait.jsonl"],
    ["reindex"],
]
READS = [
    ["search", "kept"],
    ["recall", "kept"],
    ["recall"],
    ["overview"],
    ["get", "kept"],
    ["open", "kept"],
    ["timeline"],
    ["timeline", "--anchor", "kept"],
    ["entity", "show", "Ana"],
    ["entity", "list"],
    ["export"],
    ["export", "copy.jsonl"],
    ["export", "copy", "--format", "markdown"],
    ["backup", "copy.db"],
    ["restore", "earlier.db"],
    ["migrate", "--to", "elsewhere.db"],
]


@pytest.fixture
def off(plait: Plait, work: Path, monkeypatch: pytest.MonkeyPatch) -> Plait:
    """A memory with a note, an entity, a backup and an export, turned off."""
    (work / "chat.json").write_text('[{"role": "user", "content": "hello"}]', encoding="utf-8")
    assert plait("store", "kept", "--key", "kept").code == 0
    assert plait("entity", "add", "Ana", "a fact").code == 0
    assert plait("backup", "earlier.db").code == plait("export", "plait.jsonl").code == 0
    monkeypatch.setenv("PLAIT_BACKEND", "none")
    return plait


@pytest.mark.parametrize("words", WRITES, ids=" ".join)
def test_a_write_answers_with_the_empty_form(off: Plait, words: list[str]) -> None:
    ran = off(*words)
    assert (ran.code, ran.err.count(OFF)) == (0, 1)
    assert ran.json
    text = off(*words, "--format", "text")
    assert (text.code, text.err.count(OFF)) == (0, 1)
    assert not text.out.startswith(("Stored", "Related", "Restored", "Removed", "Deleted"))


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_a_read_finds_nothing_and_writes_no_file(off: Plait, work: Path, words: list[str]) -> None:
    before = sorted(work.iterdir())
    ran = off(*words)
    assert (ran.code, ran.err.count(OFF), ran.err.count("\n")) == (3, 1, 1)
    own = ran.out.replace('"query": "kept"', "").replace('"kept": []', "")
    assert "kept" not in own
    assert sorted(work.iterdir()) == before


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("words", [["doctor"], [], ["stats"]], ids=["doctor", "plait", "stats"])
def test_what_reports_on_the_memory_says_that_it_is_off(
    off: Plait, words: list[str], form: str
) -> None:
    ran = off("--format", form, *words)
    assert (ran.code, (ran.out + ran.err).count(OFF)) == (0, 1)
    assert "does not exist" not in ran.out
    assert "is empty" not in ran.out


def test_python_gets_empty_results_and_the_receipt_says_why(tmp_path: Path) -> None:
    flags = {"db_path": str(tmp_path / "m.db"), "backend": "none"}
    with Memory.open(config=load(flags, environ={})) as memory:
        assert memory.add_messages([{"role": "user", "content": "x"}], session="s") == []
        assert memory.graph.create([NewEntity("Ana", "person", ("a fact",))]) == []
        [added] = memory.graph.observe([("Ana", ["a fact"])])
        assert (added.added, added.ids) == ((), ())
        assert memory.graph.relate([Relation("Ana", "Ben", "knows")]) == []
        assert memory.graph.read() == Subgraph()
        assert [notice.code for notice in memory.search("x").receipt.degraded] == ["memory_off"]
        assert [finding.check for finding in memory.doctor()] == ["backend"]
