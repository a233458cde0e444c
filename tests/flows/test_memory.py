"""The facade: every verb as a person would call it from Python."""

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from plait.errors import (
    AmbiguousId,
    ConfigError,
    EmbedderError,
    NotFound,
    PlaitError,
    StoreError,
    UsageError,
    advise,
)
from plait.facts.trash import VERSIONS_KEPT
from plait.memory import Memory
from plait.protocols import Vector
from plait.settings.loading import load
from plait.testing import InMemoryStore
from plait.types import MAX_TURN, Document, Filter, Passage, TextKind
from plait.types.relations import Relation
from plait.types.reports import NewEntity, Stored
from tests.builders import Counting, Failing, memory_on
from tests.codes import has_code

DAY = 86_400_000
YEARS = 20_000 * DAY


def at(path: Path, project: str = "", **options: object) -> Memory:
    return Memory.open(path, embedder="none", project=project, **options)  # type: ignore[arg-type]


# store


def test_text_without_a_key_is_an_observation_and_kept_once(memory: Memory) -> None:
    first = memory.store("We deploy on Fridays")
    again = memory.store("We  deploy on Fridays ")
    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.id == first.id
    assert memory.stats().doc_count == 1
    document, _ = memory.lookup(first.id)
    assert (document.kind, document.key, document.doc_id) == ("observation", None, first.id)


def test_text_with_a_key_is_a_note_and_replaced_by_the_next(memory: Memory) -> None:
    first = memory.store("Port 22", key="TOOLS")
    second = memory.store("Port 2222", key="TOOLS")
    assert second == Stored(first.id, "TOOLS", 1, replaced=True)
    assert memory.lookup("TOOLS")[0].text == "Port 2222"
    assert [hit.text for hit in memory.search("port")] == ["Port 2222"]


def test_every_field_of_a_stored_text_is_kept(memory: Memory) -> None:
    stored = memory.store(
        "# Keys\n\nRotate.",
        key="k",
        title="T",
        type="decision",
        memory_type="semantic",
        tags=["b", "a", "b"],
        metadata={"author": "Ana"},
        summary="S",
        session="s1",
        origin="agent",
        trust="untrusted",
        importance=0.5,
        pinned=True,
        event_at="2026-03-01T00:00Z",
        path="/notes/k.md",
    )
    document, _ = memory.lookup(stored.id)
    assert document.tags == ("b", "a")
    assert document.metadata == {"author": "Ana"}
    assert (document.title, document.type, document.memory_type) == ("T", "decision", "semantic")
    assert (document.summary, document.session, document.path) == ("S", "s1", "/notes/k.md")
    assert (document.origin, document.trust) == ("agent", "untrusted")
    assert (document.importance, document.pinned) == (0.5, True)
    assert document.event_at == 1_772_323_200_000
    assert document.created_at == document.updated_at == document.indexed_at > 0


@pytest.mark.parametrize(
    ("options", "code", "subject", "value"),
    [
        ({"text": ""}, "no_text", "", None),
        ({"text": " \n "}, "no_text", "", None),
        ({"text": "a\0b"}, "binary_text", "", None),
        ({"importance": 1.5}, "bad_value", "importance", "1.5"),
        ({"importance": float("nan")}, "bad_value", "importance", "nan"),
        ({"key": " "}, "empty_name", "key", None),
        ({"origin": "moon"}, "bad_value", "origin", "moon"),
        ({"trust": "blind"}, "bad_value", "trust", "blind"),
        ({"memory_type": "long"}, "bad_value", "memory_type", "long"),
        ({"event_at": "soonish"}, "bad_time", "event_at", "soonish"),
    ],
)
def test_a_store_that_makes_no_sense_is_refused(
    memory: Memory, options: dict[str, Any], code: str, subject: str, value: str | None
) -> None:
    with pytest.raises(UsageError, match=value, check=has_code(code, subject)):
        memory.store(**{"text": "a fact", **options})
    assert memory.stats().doc_count == 0


HUGE = "long " * 300_000  # with max_file_mb = 1, more than one document may have


@pytest.mark.parametrize(
    "fields",
    [
        {"title": HUGE},
        {"key": HUGE},
        {"entity": HUGE},
        {"summary": HUGE},
        {"topic": HUGE},
        {"session": HUGE},
        {"type": HUGE},
        {"tags": [f"tag{number}" for number in range(200_000)]},
        {"metadata": {"name": HUGE}},
        {"metadata": {HUGE: "value"}},
        {"metadata": {f"name{number}": "value" for number in range(100_000)}},
        {"title": HUGE[:500_000], "metadata": {"name": HUGE[:700_000]}},
    ],
    ids=lambda fields: "-".join(fields),
)
def test_the_cap_covers_the_whole_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    monkeypatch.setenv("PLAIT_MAX_FILE_MB", "1")
    with Memory.open(tmp_path / "m.db", embedder="none", project="") as memory:
        with pytest.raises(UsageError, check=has_code("too_large")):
            memory.store("A short text.", **fields)
        if "entity" not in fields:
            tags = tuple(fields.pop("tags", ()))
            document = Document(**{"text": "A short text.", "key": "k", **fields, "tags": tags})
            with pytest.raises(UsageError, check=has_code("too_large")):
                memory.store_many([document])
        assert memory.stats().doc_count == 0


def test_the_cap_covers_entities_and_relations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_MAX_FILE_MB", "1")
    with Memory.open(tmp_path / "m.db", embedder="none", project="") as memory:
        memory.graph.create([NewEntity("Ada", "person"), NewEntity("Bob", "person")])
        for refused in (
            lambda: memory.graph.create([NewEntity(HUGE, "person")]),
            lambda: memory.graph.create([NewEntity("Eve", HUGE)]),
            lambda: memory.graph.create([NewEntity("Eve", "person", (HUGE,))]),
            lambda: memory.graph.observe([(HUGE, ["She is tall."])], make=True),
            lambda: memory.graph.observe([("Ada", ["She is tall."])], tags=[HUGE]),
            lambda: memory.graph.relate([Relation("Ada", "Bob", HUGE)]),
            lambda: memory.graph.relate([Relation("Ada", "Bob", "knows", context=HUGE)]),
        ):
            with pytest.raises(UsageError, check=has_code("too_large")):
                refused()
        graph = memory.graph.read()
        assert (len(graph.entities), len(graph.relations)) == (2, 0)
        assert memory.stats().doc_count == 2


def test_line_ends_are_made_plain(memory: Memory) -> None:
    memory.store("one\r\ntwo\rthree", key="k")
    assert memory.lookup("k")[0].text == "one\ntwo\nthree"


def test_a_note_that_is_pending_says_so(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.db", embedder=Failing(), project="") as memory:
        assert memory.store("a fact").pending == 1


def test_many_documents_are_stored_in_batches(memory: Memory) -> None:
    stored = memory.store_many(
        [Document(key=f"{n}", text=f"note {n}", project="p" if n else None) for n in range(130)]
    )
    assert [row.doc_id for row in stored] == [f"{n}" for n in range(130)]
    assert dict(memory.stats().projects) == {"p": 129, None: 1}


# Absent and closed


@pytest.mark.parametrize("query", ["anything", "ssh AND keys"])
def test_an_absent_memory_answers_empty_and_creates_no_file(tmp_path: Path, query: str) -> None:
    path = tmp_path / "absent" / "memory.db"
    with at(path, create=False) as memory:
        answer = memory.search(query, mode="keyword")
        assert (tuple(answer), answer.receipt.query) == ((), query)
        assert memory.timeline() == []
        assert memory.stats().doc_count == 0
        assert memory.stats().path == str(path)
        assert memory.outdated_rules() == []
        assert [finding.level for finding in memory.doctor()] == ["warning"]
        assert len(list(memory.export())) == 1
        assert memory.search("") == ()
        for act in (
            lambda: memory.lookup("x"),
            lambda: memory.store("x"),
            lambda: memory.delete("x"),
            lambda: memory.undo(),
            lambda: memory.reindex(),
            lambda: memory.backup(tmp_path / "copy.db"),
        ):
            with pytest.raises(NotFound, check=has_code("no_memory")):
                act()
    assert not path.parent.exists()


def test_a_memory_in_memory_leaves_nothing_on_disk(tmp_path: Path, home: Path) -> None:
    with Memory.open(":memory:", embedder="hashing", project="") as memory:
        memory.store("a fact")
        assert len(memory.search("fact")) == 1
    assert list(home.iterdir()) == []


def test_a_closed_memory_says_so(memory: Memory) -> None:
    memory.close()
    with pytest.raises(StoreError, check=has_code("store_closed")):
        memory.search("x")


def test_without_a_path_the_memory_is_in_the_home_of_the_user(home: Path) -> None:
    with Memory.open(embedder="none", project="") as memory:
        memory.store("a fact")
    path = Path(memory.path)
    assert path.is_relative_to(home)
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_embedder_is_chosen_by_name_also_beside_loaded_settings(tmp_path: Path) -> None:
    config = load({"db_path": str(tmp_path / "m.db"), "project": ""})
    with Memory.open(config=config, embedder="hashing") as memory:
        assert memory.embedder.dims == 256
    with pytest.raises(ConfigError, check=has_code("unknown_embedder", "nonsense")):
        Memory.open(tmp_path / "m.db", embedder="nonsense")


# get


def test_things_are_got_by_id_prefix_key_and_passage(memory: Memory) -> None:
    stored = memory.store("# One\n\nfirst\n\n" + "word " * 400 + "\n\n# Two\n\nsecond", key="notes")
    whole = memory.get("notes")
    assert isinstance(whole, Document)
    assert memory.get(stored.id) == memory.get(stored.id[:6]) == whole
    assert whole.text.startswith("# One")
    passage = memory.get("notes-1")
    assert isinstance(passage, Passage)
    assert memory.get(passage.id) == passage
    assert memory.lookup(passage.id)[0].id == whole.id
    assert memory.passages_of(whole.id)[1] == passage


def test_what_nobody_is_named_is_not_found(memory: Memory) -> None:
    with pytest.raises(NotFound, match="'nobody'") as caught:
        memory.get("nobody")
    assert caught.value.notice[1:] == ("unknown_name", "nobody", advise("search"))


def test_an_ambiguous_prefix_lists_the_candidates(memory: Memory) -> None:
    ids = ["aaaaaaaaaaaab", "aaaaaaaaaaaac"]
    lines = [f'{{"id": "{id_}", "key": "{id_[-1]}", "text": "note {id_[-1]}"}}' for id_ in ids]
    memory.import_lines(lines)
    with pytest.raises(AmbiguousId, match=r"aaaaaaaaaaaab.*aaaaaaaaaaaac"):
        memory.get("aaaaaaaaaaaa")
    assert memory.lookup("aaaaaaaaaaaab")[0].key == "b"


class Vanishing(InMemoryStore):
    """Finds documents that are gone when they are read."""

    def load(self, ids: Sequence[str]) -> list[Document]:
        return []


def test_what_is_deleted_while_it_is_looked_up_is_not_found() -> None:
    memory = memory_on(Vanishing())
    memory.store("one", key="k")
    with pytest.raises(NotFound, check=has_code("unknown_name", "k")):
        memory.lookup("k")


# Projects


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """One file, used by two projects and for personal things."""
    path = tmp_path / "shared.db"
    for project in ("", "p", "q"):
        with at(path, project) as memory:
            memory.store(f"secret of {project or 'me'}", key="k")
    return path


@pytest.mark.parametrize(
    ("project", "seen"), [("", ["me"]), ("p", ["me", "p"]), ("q", ["me", "q"]), ("r", ["me"])]
)
def test_a_project_sees_its_own_and_personal_things(
    shared: Path, project: str, seen: list[str]
) -> None:
    with at(shared, project) as memory:
        hits = memory.search("secret")
        assert sorted(hit.text.removeprefix("secret of ") for hit in hits) == seen
        assert len(memory.timeline()) == len(seen)
        assert len(memory.search("secret", all_projects=True)) == 3
        assert len(memory.timeline(all_projects=True)) == 3


def test_a_name_means_the_nearest_document_of_that_name(shared: Path) -> None:
    for project, text in (("p", "p"), ("", "me"), ("r", "me")):
        with at(shared, project) as memory:
            assert memory.lookup("k")[0].text == f"secret of {text}"
    with at(shared, "") as memory:
        memory.delete("k")
        for act in (memory.lookup, memory.delete):
            with pytest.raises(NotFound) as caught:
                act("k")
            notice = caught.value.notice
            assert (notice.code, notice.subject) == ("other_project", "k")
            step = "in_project" if act == memory.lookup else "act_in_project"
            assert notice.advice in [advise(step, project=name) for name in "pq"]
    with at(shared, "q") as memory:
        assert memory.lookup("k")[0].project == "q"


def test_a_name_that_two_sources_share_is_ambiguous_even_if_a_personal_one_exists(
    tmp_path: Path,
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "README.md").write_text(f"# {folder}\n", encoding="utf-8")
    with Memory.open(tmp_path / "m.db", project="") as memory:
        memory.store("mine", key="README.md")
    with Memory.open(tmp_path / "m.db", project="p") as memory:
        memory.ingest(tmp_path / "one")
        memory.ingest(tmp_path / "two")
        with pytest.raises(AmbiguousId, match="one", check=has_code("ambiguous_name", "README.md")):
            memory.delete("README.md")


def test_names_and_filters_are_not_mixed(memory: Memory) -> None:
    memory.store("one", key="x")
    memory.store("two", key="y", tags=["gone"])
    with pytest.raises(UsageError, check=has_code("nothing_to_delete")):
        memory.delete("x", where={"tags": "gone"})
    assert memory.stats().doc_count == 2


def test_a_filter_value_means_the_same_as_its_fields(shared: Path) -> None:
    with at(shared, "q") as memory:
        fields = {hit.doc_id for hit in memory.search("secret", where={"kinds": "note"})}
        value = {hit.doc_id for hit in memory.search("secret", where=Filter(kinds=("note",)))}
    assert value == fields


def test_an_export_of_one_project_holds_that_project(shared: Path) -> None:
    with at(shared, "p") as memory:
        projects = {json.loads(line).get("project") for line in list(memory.export())[1:]}
    assert projects == {"p"}


def test_duplicates_are_per_project(shared: Path) -> None:
    for project in ("p", "q"):
        with at(shared, project) as memory:
            assert not memory.store("the same fact").duplicate


# timeline


def test_the_timeline_is_newest_first_and_goes_on_from_its_cursor(memory: Memory) -> None:
    for number in range(7):
        memory.store(f"note {number}", key=f"{number}", event_at=YEARS + (number + 1) * DAY)
    first = memory.timeline(limit=3)
    assert [document.key for document in first] == ["6", "5", "4"]
    assert [document.text for document in first] == [""] * 3
    rest = memory.timeline(limit=10, before=(first[-1].event_at or 0, first[-1].id))
    assert [document.key for document in rest] == ["3", "2", "1", "0"]
    between = memory.timeline(where={"since": YEARS + 2 * DAY, "until": YEARS + 4 * DAY})
    assert [document.key for document in between] == ["2", "1"]


@pytest.mark.parametrize("limit", [0, -1, 1_001])
def test_a_timeline_has_bounds(memory: Memory, limit: int) -> None:
    with pytest.raises(UsageError, check=has_code("bad_value", "limit")):
        memory.timeline(limit=limit)


def test_a_timeline_takes_ages(memory: Memory) -> None:
    memory.store("old", key="old", event_at="30d")
    memory.store("new", key="new")
    assert [document.key for document in memory.timeline(where={"since": "7d"})] == ["new"]
    assert [document.key for document in memory.timeline(where={"until": "7d"})] == ["old"]


# Filters by name


@pytest.mark.parametrize(
    "where",
    [
        {"tags": ("ops",)},
        {"tags": ["ops"]},
        {"tags": "ops"},
        {"keys": "a"},
        {"kinds": "note", "types": "decision"},
        {"metadata": {"by": "Ana"}},
        {"metadata": (("by", "Ana"),)},
        {"tags": ("ops",), "source": None, "kinds": (), "all_versions": False},
        Filter(tags=("ops",)),
    ],
)
def test_a_filter_is_written_as_comes_naturally(memory: Memory, where: object) -> None:
    memory.store("fact", key="a", tags=["ops"], type="decision", metadata={"by": "Ana"})
    memory.store("fact", key="b", tags=["o", "p", "s"], metadata={"by": "Bo"})
    assert [hit.doc_id for hit in memory.search("fact", where=where)] == ["a"]  # type: ignore[arg-type]


# delete, undo


def test_a_deleted_document_comes_back_by_undo(hashing_memory: Memory) -> None:
    stored = hashing_memory.store("kubernetes in Vienna", key="k", tags=["ops"])
    before = hashing_memory.lookup("k")[0]
    passage_ids = [passage.id for passage in hashing_memory.passages_of(before.id)]
    deleted = hashing_memory.delete("k")
    assert (deleted.doc_ids, deleted.ids, deleted.chunks_deleted) == (("k",), (stored.id,), 1)
    assert hashing_memory.search("kubernetes") == ()
    with pytest.raises(NotFound):
        hashing_memory.get("k")
    with pytest.raises(NotFound):
        hashing_memory.delete("k")
    [back] = hashing_memory.undo()
    assert back.key == "k"
    assert hashing_memory.lookup("k")[0] == before
    assert [p.id for p in hashing_memory.passages_of(before.id)] == passage_ids
    assert hashing_memory.search("kuberntes", mode="vector")[0].doc_id == "k"
    assert hashing_memory.stats().pending_count == 0
    with pytest.raises(NotFound, check=has_code("nothing_to_undo")):
        hashing_memory.undo()


def test_undo_works_while_the_embedder_is_down(tmp_path: Path) -> None:
    embedder = Failing(calls=1)
    with Memory.open(tmp_path / "m.db", embedder=embedder, project="") as memory:
        memory.store("kubernetes", key="k")
        memory.delete("k")
        memory.undo()
        assert memory.search("kubernetes")[0].doc_id == "k"
        assert memory.stats().pending_count == 1


def test_nothing_to_undo_here_names_the_project_of_the_latest_delete(tmp_path: Path) -> None:
    def nothing_to_undo(project: str) -> NotFound:
        with (
            Memory.open(tmp_path / "m.db", embedder="none", project=project) as memory,
            pytest.raises(NotFound, check=has_code("nothing_to_undo")) as caught,
        ):
            memory.undo()
        return caught.value

    error = nothing_to_undo("here")
    assert "in this project" in str(error)
    assert (error.subject, error.advice) == ("", advise("not_superseded"))
    for project, name in (("", "personal"), ("there", "there")):
        with Memory.open(tmp_path / "m.db", embedder="none", project=project) as memory:
            memory.store("kilimanjaro", key="k")
            memory.delete("k")
        error = nothing_to_undo("here")
        assert "The latest delete was made in another project." in str(error)
        assert (error.subject, error.advice) == (name, advise("act_in_project", project=name))


@pytest.mark.parametrize("named", [True, False])
def test_what_keeps_a_deleted_document_away_is_named(memory: Memory, named: bool) -> None:
    def refusal(id_: str) -> NotFound:
        with pytest.raises(NotFound, check=has_code("nothing_to_undo")) as caught:
            memory.undo(*([id_] if named else []))
        return caught.value

    old = memory.store("The port is 8080", topic="port").id
    new = memory.store("The port is 8443", topic="port").id
    memory.delete(new)
    memory.mark(old, not_superseded=True)
    error = refusal(new)
    told = f"{new} cannot come back beside {old}: both are on one topic."
    assert error.notice.text == told
    assert (error.subject, error.advice) == (old, advise("delete_first", id=old))
    memory.delete(old)
    assert [row.id for row in memory.undo(new)] == [new]

    first = memory.store("kilimanjaro").id
    memory.delete(first)
    second = memory.store("kilimanjaro").id
    error = refusal(first)
    assert (error.subject, "both say the same" in str(error)) == (second, True)

    note = memory.store("everest", key="k").id
    memory.delete("k")
    newer = memory.store("lhotse", key="k").id
    assert newer != note
    error = refusal(note)
    told = f"{note} cannot come back beside {newer}: it has that name now."
    assert error.notice.text == told

    entity = memory.store("sails: she does.", entity="Ana").entity or ""
    fact = memory.store("reads: she does.", entity="Ana").id
    memory.delete(fact)
    memory.delete(entity)
    with memory.engine.transaction() as transaction:
        transaction.forget([entity])
    if named:
        assert "its entity was deleted" in str(refusal(fact))


@pytest.mark.parametrize("key", ["k", None])
def test_a_document_deleted_twice_with_different_texts_keeps_both(
    memory: Memory, key: str | None
) -> None:
    id_ = memory.store("kilimanjaro", key=key).id
    exported = [line.replace("kilimanjaro", "everest") for line in memory.export()]
    memory.delete(id_)
    memory.import_lines(exported)
    memory.delete(id_)
    for text in ("everest", "kilimanjaro"):
        assert [row.id for row in memory.undo(id_)] == [id_]
        assert memory.get(id_).text == text


def test_only_the_latest_versions_of_a_document_are_kept(memory: Memory) -> None:
    memory.store("other text", key="other")
    memory.store("another text", key="other", origin="agent")
    for number in range(VERSIONS_KEPT + 5):
        memory.store(f"text {number}", key="k", origin="agent")
    kept = [row.document.text for row in memory.engine.trashed() if row.document.key == "k"]
    assert kept == [f"text {number + 4}" for number in reversed(range(VERSIONS_KEPT))]
    memory.undo("k")
    assert memory.get("k").text == kept[0]
    memory.undo("other")
    assert memory.get("other").text == "other text"
    assert memory.stats().trash_count == VERSIONS_KEPT + 1


def test_an_observation_that_was_brought_back_is_still_kept_once(memory: Memory) -> None:
    stored = memory.store("a fact")
    memory.delete(stored.id)
    memory.undo()
    assert memory.store("a fact").duplicate


def test_one_unknown_name_and_nothing_is_deleted(memory: Memory) -> None:
    memory.store("one", key="a")
    with pytest.raises(NotFound):
        memory.delete("a", "unknown")
    assert memory.stats().doc_count == 1


def test_a_passage_named_for_deletion_means_its_document(memory: Memory) -> None:
    stored = memory.store("one", key="a")
    assert memory.delete("a-0").ids == (stored.id,)


def test_a_dry_run_tells_and_deletes_nothing(memory: Memory) -> None:
    memory.store("one", key="a", tags=["x"])
    memory.store("two", key="b", tags=["x"])
    memory.store("three", key="c")
    told = memory.delete(where={"tags": ("x",)}, dry_run=True)
    assert sorted(told.doc_ids) == ["a", "b"]
    assert told.chunks_deleted == 2
    assert memory.stats().doc_count == 3
    done = memory.delete(where={"tags": ("x",)})
    assert sorted(done.doc_ids) == sorted(told.doc_ids)
    assert memory.stats().doc_count == 1
    assert len(memory.undo()) == 2


@pytest.mark.parametrize(
    "where",
    [
        None,
        {},
        {"source": None},
        {"kinds": (), "tags": [], "all_versions": True},
        Filter(),
    ],
)
def test_an_empty_filter_never_deletes_everything(memory: Memory, where: object) -> None:
    memory.store("precious")
    with pytest.raises(UsageError, check=has_code("nothing_to_delete")):
        memory.delete(where=where)  # type: ignore[arg-type]
    assert memory.stats().doc_count == 1


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ({"trusts": ("untrusted",)}, ["plain", "quarantined"]),
        ({"tags": ("t",)}, []),
        ({"tags": ("t",), "trusts": ("trusted",)}, ["quarantined", "untrusted"]),
        ({"key_prefix": "q"}, ["plain", "untrusted"]),
        (Filter(tags=("t",)), []),
    ],
)
def test_a_filter_deletes_what_it_says_and_no_more(
    memory: Memory, where: Any, left: list[str]
) -> None:
    memory.store("one", key="plain", tags=["t"])
    memory.store("two", key="untrusted", trust="untrusted", tags=["t"])
    memory.store("three", key="quarantined", trust="quarantined", tags=["t"])
    memory.delete(where=where)
    whatever_trust = {"trusts": ("trusted", "untrusted", "quarantined")}
    assert sorted(str(d.key) for d in memory.timeline(where=whatever_trust)) == left


def test_a_filter_deletes_in_this_project_only(shared: Path) -> None:
    def left() -> set[str | None]:
        return {hit.document.project for hit in memory.search("secret", all_projects=True)}

    with at(shared, "p") as memory:
        memory.delete(where={"keys": ("k",)})
        assert left() == {None, "q"}
        memory.delete(where={"keys": ("k",), "projects": (None,)})
        assert left() == {"q"}
        memory.delete(where={"keys": ("k",)}, all_projects=True)
        assert left() == set()


def test_purge_leaves_no_byte_in_the_file(memory: Memory) -> None:
    memory.store("xylophone quagmire", key="k", title="zeppelin")
    memory.store("something else")
    assert memory.delete("k", purge=True).purged
    with pytest.raises(NotFound):
        memory.undo()
    memory.close()
    for file in Path(memory.path).parent.glob("memory.db*"):
        content = file.read_bytes()
        for word in (b"xylophone", b"quagmire", b"zeppelin"):
            assert word not in content, file


def test_purge_clears_what_was_deleted_before(memory: Memory) -> None:
    memory.store("xylophone", key="k")
    memory.delete("k")
    memory.delete("k", purge=True)
    with pytest.raises(NotFound):
        memory.undo()
    assert memory.stats().trash_count == 0


# stats, backup


def test_stats_tell_what_is_in_the_memory(hashing_memory: Memory) -> None:
    hashing_memory.store("one", key="a")
    hashing_memory.store("two")
    stats = hashing_memory.stats()
    assert (stats.doc_count, stats.chunk_count, stats.embedded_count) == (2, 2, 2)
    assert stats.db_size_bytes > 0
    assert stats.path == hashing_memory.path
    assert dict(stats.kinds) == {"note": 1, "observation": 1}


def test_a_backup_opens_as_a_memory(hashing_memory: Memory, tmp_path: Path) -> None:
    hashing_memory.store("kubernetes", key="k")
    place = hashing_memory.backup(tmp_path / "copy.db")
    with Memory.open(place, project="") as copy:
        assert copy.search("kuberntes", mode="vector")[0].doc_id == "k"
        assert {finding.level for finding in copy.doctor()} == {"ok"}


def test_a_memory_in_memory_is_saved_by_a_backup(tmp_path: Path) -> None:
    with Memory.open(":memory:", embedder="none", project="") as memory:
        memory.store("kubernetes", key="k")
        memory.backup(tmp_path / "copy.db")
    with at(tmp_path / "copy.db") as copy:
        assert copy.search("kubernetes")[0].doc_id == "k"


# Threads


@pytest.mark.parametrize("place", ["memory.db", ":memory:"])
def test_several_threads_store_search_and_delete_at_once(tmp_path: Path, place: str) -> None:
    path = place if place == ":memory:" else str(tmp_path / place)
    trouble: list[BaseException] = []
    with Memory.open(path, embedder=Counting(), project="") as memory:

        def work(name: int) -> None:
            try:
                for number in range(8):
                    key = f"{name}-{number}"
                    memory.store(f"note {key} about kubernetes", key=key)
                    assert memory.lookup(key)[0].key == key
                    assert memory.search("kubernetes", limit=1)
                    if number % 2:
                        memory.delete(key)
            except (AssertionError, PlaitError) as error:
                trouble.append(error)

        threads = [Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert trouble == []
        assert memory.stats().doc_count == 16
        assert {finding.level for finding in memory.doctor()} == {"ok"}


class Squeamish(Counting):
    """Fails for texts that name spiders, and only for those."""

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        if any("spider" in text for text in texts):
            raise EmbedderError("no spiders, please", code="no_spiders")
        return super().embed(texts, kind)


def test_two_threads_never_see_each_others_trouble(tmp_path: Path) -> None:
    rounds = 12
    codes: dict[str, list[str | None]] = {"spider": [], "beetle": []}
    together = Barrier(len(codes))
    with Memory.open(tmp_path / "m.db", embedder=Squeamish(), project="") as memory:
        memory.store("The first vectors open the space.")

        def work(animal: str) -> None:
            for number in range(rounds):
                together.wait(60)
                stored = memory.store(f"{animal} number {number}", key=f"{animal}-{number}")
                codes[animal].append(stored.trouble and stored.trouble.code)
                answer = memory.search(f"which {animal}")
                codes[animal] += [notice.code for notice in answer.receipt.degraded] or [None]

        threads = [Thread(target=work, args=(animal,)) for animal in codes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert codes == {"spider": ["no_spiders"] * 2 * rounds, "beetle": [None] * 2 * rounds}


def test_operators_hold_in_every_mode(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m.db", embedder="hashing", project="") as memory:
        memory.store("secret alpha plan", key="alpha")
        memory.store("secret beta plan", key="beta")
        for mode in ("hybrid", "keyword", "vector"):
            hits = memory.search("secret NOT beta", mode=mode)
            assert [hit.doc_id for hit in hits] == ["alpha"], mode
            assert not memory.search('"plan beta"', mode=mode, strict=True)


def test_a_word_that_most_passages_hold_still_scores(tmp_path: Path) -> None:
    with Memory.open(":memory:", embedder="none", project="") as memory:
        for text in ("We deploy on Fridays", "We deploy from main", "lunch is at noon"):
            memory.store(text)
        answer = memory.search("when do we deploy")
    assert [hit.score for hit in answer] == pytest.approx([1.0, 1.0], abs=0.2)
    assert not any(hit.is_weak for hit in answer)


def test_the_nearest_of_what_is_not_near_is_not_found(tmp_path: Path) -> None:
    with Memory.open(":memory:", embedder="hashing", project="") as memory:
        memory.store("We deploy on Fridays")
        assert not memory.search("qqqxyzzy")


def test_a_memory_goes_on_being_cut_as_it_was(tmp_path: Path) -> None:
    place = str(tmp_path / "m.db")
    small = load({"chunk_size": 400, "db_path": place, "project": "personal"}, environ={})
    with Memory.open(config=small) as memory:
        memory.store("word " * 400, key="long")
        cut = memory.stats().chunk_count
    with Memory.open(place, project="") as memory:
        assert memory.outdated_rules() == []
        memory.store("word " * 400, key="again")
        assert memory.stats().chunk_count == 2 * cut


def test_a_keyword_memory_gets_vectors_from_the_next_ingest(tmp_path: Path) -> None:
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / "a.md").write_text("# A\n\nkubernetes upgrade\n", encoding="utf-8")
    with Memory.open(tmp_path / "m.db", embedder="none", project="") as memory:
        memory.ingest(tmp_path / "n")
    with Memory.open(tmp_path / "m.db", embedder="hashing", project="") as memory:
        assert memory.ingest(tmp_path / "n").count("unchanged") == 1
        assert memory.stats().embedded_count == 1


def test_a_memory_without_vectors_stays_without_until_somebody_asks_for_them(
    tmp_path: Path,
) -> None:
    with Memory.open(tmp_path / "m.db", embedder="none", project="") as memory:
        memory.store("one")
    with Memory.open(tmp_path / "m.db", project="") as memory:
        memory.store("two")
        assert memory.stats().space is None
    with Memory.open(tmp_path / "m.db", embedder="hashing", project="") as memory:
        memory.reindex()
    with Memory.open(tmp_path / "m.db", project="") as memory:
        assert memory.embedder.space.provider == "hashing"


# -- messages ----------------------------------------------------------------------------------


def said_in(memory: Memory, session: str) -> list[str]:
    """The messages of a session, by turn."""
    listed = memory.timeline(limit=50, where={"kinds": ("message",), "session": session})
    messages = memory.engine.load([document.id for document in listed])
    return [document.text for document in sorted(messages, key=lambda row: row.turn or 0)]


def messages(*texts: str, **fields: Any) -> list[Document]:
    return [Document(kind="message", key=text, text=text, session="s", **fields) for text in texts]


def test_a_message_that_comes_back_stands_where_it_stood(memory: Memory) -> None:
    memory.store_many(messages("c1", "c2", "c3"))
    memory.delete("c3")
    memory.store_many(messages("c4", "c5"))
    memory.undo()
    assert said_in(memory, "s") == ["c1", "c2", "c3", "c4", "c5"]
    memory.delete("c2")
    memory.undo()
    assert said_in(memory, "s") == ["c1", "c2", "c3", "c4", "c5"]


def test_an_imported_conversation_keeps_its_order_beside_one_of_the_same_name(
    memory: Memory,
) -> None:
    memory.store_many(messages("a1", "a2", "a3", "a4"))
    exported = list(memory.export())
    with Memory.open(":memory:", embedder="none", project="") as other:
        other.store_many(messages("b1", "b2", "b3"))
        other.delete("b2")
        other.import_lines(exported)
        assert said_in(other, "s") == ["b1", "b3", "a1", "a2", "a3", "a4"]


def test_a_turn_that_was_given_is_exported_and_imported_again(memory: Memory) -> None:
    memory.store_many(messages("late", turn=MAX_TURN))
    memory.store_many(messages("later"))
    with Memory.open(":memory:", embedder="none", project="") as other:
        with pytest.raises(UsageError, check=has_code("bad_value")):
            other.store_many(messages("too late", turn=MAX_TURN + 1))
        other.import_lines(list(memory.export()))
        assert said_in(other, "s") == ["late", "later"]
