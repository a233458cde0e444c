"""What programs build on: results, pages, filters by name, keys, and where a memory is made."""

import json
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.cli import main
from plait.errors import PlaitError, StoreReadOnly, UsageError, advise
from plait.memory import Memory
from plait.searching import where as filters
from plait.types import Answer, Document, Filter
from tests.codes import has_code
from tests.mcp.talk import call

# -- results -----------------------------------------------------------------------------------


@pytest.fixture
def filled(hashing_memory: Memory) -> Memory:
    hashing_memory.store_many(
        Document(
            text=f"# Release {number}\n\nRelease {number} went out on day {number % 7}.",
            key=f"release-{number:02}",
            tags=("ops",),
            type="log" if number else "decision",
            event_at=1_700_000_000 + number,
        )
        for number in range(40)
    )
    return hashing_memory


def as_printed(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_hit_has_the_fields_of_its_document(filled):
    [hit] = filled.search("release 7 went out", limit=1)
    document = hit.document
    assert (hit.kind, hit.tags, hit.project) == ("note", ("ops",), None)
    assert (hit.trust, hit.event_at) == ("trusted", document.event_at)
    assert {"kind", "tags", "project", "trust", "event_at"} <= hit.to_dict().keys()


def test_to_dict_returns_what_the_command_line_prints(filled, capsys):
    answer = filled.search("release 7 went out", limit=3)
    options = ("--db", filled.path, "--project", "personal", "--embedder", "hashing")
    printed = as_printed(capsys, *options, "search", "release 7 went out", "--limit", "3")
    assert json.loads(json.dumps(answer.to_dict()["results"])) == printed["results"]
    assert [hit.to_dict() for hit in answer] == answer.to_dict()["results"]
    assert answer.to_dict()["receipt"].keys() == printed["receipt"].keys()
    document = filled.get("release-07")
    [whole] = as_printed(capsys, *options, "get", "release-07")["results"]
    assert (whole.pop("links"), whole.pop("backlinks")) == ([], [])  # these need the memory
    assert json.loads(json.dumps(document.to_dict())) == whole


def test_every_class_of_error_is_exported():
    classes = {name for name, value in vars(plait.errors).items() if isinstance(value, type)}
    ours = {name for name in classes if issubclass(getattr(plait.errors, name), PlaitError)}
    assert ours <= set(plait.__all__)


# -- pages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [3, 7, 10, 13])
@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_pages_have_every_hit_once(filled, limit, mode):
    for _ in range(3):  # what is read together rises
        filled.get("release-31")
    filled.write_down_use()
    pages: list[Answer] = []
    while not pages or pages[-1]:
        offset = sum(map(len, pages))
        pages.append(filled.search("release went out", limit=limit, offset=offset, mode=mode))
    keys = [hit.doc_id for page in pages for hit in page]
    assert len(keys) == len(set(keys)) == 40
    assert pages[0] == filled.search("release went out", limit=limit, mode=mode)


def test_pages_end_where_answers_end(filled, capsys):
    assert filled.search("release", offset=990, limit=10) == ()
    for offset in (-1, 991):
        with pytest.raises(UsageError, check=has_code("bad_value", "offset")):
            filled.search("release", offset=offset, limit=10)
    options = ("--db", filled.path, "--project", "personal", "--embedder", "hashing")
    second = as_printed(capsys, *options, "search", "release", "--limit", "5", "--offset", "5")
    both = as_printed(capsys, *options, "search", "release", "--limit", "10")
    assert second["results"] == both["results"][5:]


# -- filters -----------------------------------------------------------------------------------

SAME = (
    ({"type": "decision"}, {"types": ["decision"]}),
    ({"tag": "ops", "type": ["decision"]}, {"tags": ("ops",), "types": "decision"}),
    ({"kind": "note", "trust": "trusted"}, {"kinds": ["note"], "trusts": ["trusted"]}),
    ({"key": "release-03"}, {"keys": "release-03"}),
    ({"project": [None]}, {"projects": (None,)}),
    ({"memory_type": "semantic"}, {"memory_types": "semantic"}),
    ({"origin": "user", "topic": "x"}, {"origins": "user", "topics": "x"}),
    ({"path": "/x"}, {"path_prefix": "/x"}),
)


@pytest.mark.parametrize(("names", "fields"), SAME)
def test_a_filter_has_one_name_and_old_ones_work(filled, names, fields):
    assert filled._filter(names) == filled._filter(fields)
    assert filled.timeline(where=names) == filled.timeline(where=fields)


def test_every_name_that_an_error_offers_is_a_filter():
    for name in filters.FILTER_NAMES:
        assert filters.renamed({name: "x"})
    fields = {
        *map(next, map(iter, map(filters.renamed, ({name: 1} for name in filters.FILTER_NAMES))))
    }
    assert fields == {*Filter._fields, "entity"} - {"parents", "scopes", "hashes"}


@pytest.mark.parametrize(
    ("typed", "meant"), [("tgas", "tags"), ("knd", "kind"), ("sinse", "since"), ("tpye", "type")]
)
def test_a_misspelt_filter_gets_a_suggestion(memory, typed, meant):
    for act in (
        lambda where: memory.search("x", where=where),
        lambda where: memory.timeline(where=where),
        lambda where: memory.delete(where=where),
        lambda where: list(memory.export(where=where)),
    ):
        with pytest.raises(
            UsageError,
            check=has_code("unknown_filter", typed, advise("did_you_mean", name=meant)),
        ):
            act({typed: "x"})


def test_a_filter_under_two_names_is_refused(memory):
    with pytest.raises(UsageError, check=has_code("filter_given_twice", "tags")):
        memory.search("x", where={"tag": "a", "tags": ["b"]})


@pytest.mark.parametrize("name", ["type", "types"])
def test_agents_may_use_either_name(filled, name):
    hits = call(filled, "memory_search", {"query": "release", name: ["decision"]})
    assert [row["doc_id"] for row in (hits.structured_content or {})["results"]] == ["release-00"]


# -- keys, values, folders ---------------------------------------------------------------------


def test_an_id_cannot_be_the_key_of_another_document(memory):
    fact = memory.store("We deploy on Fridays.")
    note = memory.store("The plan.", key="plan")
    with pytest.raises(
        UsageError, check=has_code("key_is_id", "key", advise("supersede_id", name=fact.id))
    ):
        memory.store("We deploy on Mondays.", key=fact.id)
    with pytest.raises(
        UsageError, check=has_code("key_is_id", "key", advise("key_of_id", key="plan"))
    ):
        memory.store_many([Document(text="Another plan.", key=note.id)])
    assert memory.stats().doc_count == 2
    memory.store("Thirteen letters are no id.", key="configuration")
    assert memory.get("configuration").text == "Thirteen letters are no id."


@pytest.mark.parametrize(
    ("act", "field"),
    [
        (lambda memory: memory.store("x", metadata={"a": 1}), "metadata"),
        (lambda memory: memory.store_many(["x"]), "documents"),
        (lambda memory: memory.store_many([{"text": "x"}]), "documents"),
        (lambda memory: memory.search(None), "query"),
        (lambda memory: memory.store(None), "text"),
        (lambda memory: memory.store("x", tags=5), "tags"),
        (lambda memory: memory.timeline(before=(2**70, "x")), "before"),
        (lambda memory: memory.used([2**70]), "refs"),
        (lambda memory: memory.backup("a\0b"), "target"),
        (lambda memory: Memory.open("a\0b"), "path"),
        (lambda memory: Memory.restore("a\0b", "c"), "source"),
        (lambda memory: memory.delete(where={"key_prefix": "\ud800"}), "key_prefix"),
        (lambda memory: memory.search("x", where={"session": "\ud800"}), "session"),
        (
            lambda memory: memory.store_many([Document(text="x", created_at=2**80)]),
            "Document.created_at",
        ),
        (lambda memory: memory.scope("a", shared=[""]), "shared"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_field(memory, act, field):
    with pytest.raises(UsageError) as refused:
        act(memory)
    assert refused.value.subject == field


def test_a_missing_folder_is_made_but_no_tree(tmp_path, capsys):
    Memory.open(tmp_path / "new" / "m.db", embedder="none").close()
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    lost = tmp_path / "typo" / "deep" / "m.db"
    with pytest.raises(StoreReadOnly, check=has_code("no_folder", str(tmp_path / "typo"))):
        Memory.open(lost)
    assert main(["--db", str(lost), "store", "x"]) == 1
    assert "mkdir -p" in capsys.readouterr().err
    with Memory.open(tmp_path / "new" / "m.db", embedder="none") as memory:
        copy = memory.backup(tmp_path / "copy.db")
    with pytest.raises(StoreReadOnly, check=has_code("no_folder")):
        Memory.restore(copy, lost)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "new"]


def test_the_usual_place_is_made_whole(home):
    with Memory.open(embedder="none") as memory:
        memory.store("x")
        assert Path(memory.path).is_relative_to(home)


def test_the_working_folder_chooses_the_project_unless_told(tmp_path, monkeypatch):
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repo")
    with Memory.open(tmp_path / "m.db", embedder="none") as memory:
        assert memory.config.project == str(tmp_path / "repo")
    with Memory.open(tmp_path / "m.db", embedder="none", project="") as memory:
        assert memory.config.project is None


def test_an_empty_query_to_recall_names_the_overview(memory):
    with pytest.raises(UsageError, match=r"memory\.overview\(\)", check=has_code("empty_query")):
        memory.recall(" ")
