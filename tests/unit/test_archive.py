"""Export and import: everything comes back, and a bad line changes nothing."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import StoreError, UsageError
from plait.exporting import importing, jsonl
from plait.memory import Memory
from plait.protocols import Entry, Vector
from plait.testing import HashingEmbedder
from plait.types import Cut, Document, Filter, Passage, TextKind
from plait.types.relations import Relation
from plait.types.reports import Imported, NewEntity
from plait.writing.changes import Change, put
from plait.writing.chunking import chunk
from plait.writing.writer import Writer
from tests.builders import document

HEADER = jsonl.header_line()
DIGITS = str.maketrans("0123456789", "klmnopqrst")  # ids hold no 0, 1, 8 or 9
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"))


@pytest.fixture
def other() -> Iterator[Memory]:
    with Memory.open(":memory:", embedder="none", project="") as opened:
        yield opened


def contents(memory: Memory) -> list[tuple[Document, list[Passage]]]:
    """Return everything a person can see of a memory, except when it was indexed."""
    documents = []
    for listed in memory.timeline(limit=1000, all_projects=True, where=dict(EVERY)):
        whole = memory.lookup(listed.id)[0]._replace(indexed_at=0)
        pieces = [passage._replace(ref=0) for passage in memory.passages_of(whole.id)]
        documents.append((whole, pieces))
    return sorted(documents)


EVERY = {"trusts": ("trusted", "untrusted", "quarantined"), "all_versions": True}


def fill(memory: Memory) -> None:
    memory.store("We deploy on Fridays", tags=["ops"], metadata={"by": "Ana"}, importance=0.5)
    memory.store(
        "---\ntitle: Keys\ndate: 2026-03-01\n---\n# Keys\n\n"
        + "Rotate them. " * 300
        + "\n日本語 🦊\n",
        key="notes/keys.md",
        type="decision",
        memory_type="semantic",
        session="s",
        pinned=True,
    )
    memory.store("quarantined", trust="quarantined", origin="web")


def test_a_memory_comes_back_whole_with_the_ids_of_its_passages(
    memory: Memory, other: Memory
) -> None:
    fill(memory)
    lines = list(memory.export())
    other.import_lines(lines)
    assert other.stats().doc_count == 3
    assert contents(other) == contents(memory)
    assert max(len(pieces) for _, pieces in contents(memory)) > 2
    assert [hit.id for hit in other.search("rotate", limit=20)] == [
        hit.id for hit in memory.search("rotate", limit=20)
    ]
    assert {finding.level for finding in other.doctor()} == {"ok"}


def test_importing_again_changes_nothing(memory: Memory) -> None:
    fill(memory)
    before = contents(memory)
    refs = [passage.ref for whole, _ in before for passage in memory.passages_of(whole.id)]
    memory.import_lines(list(memory.export()))
    assert contents(memory) == before
    after = [passage.ref for whole, _ in before for passage in memory.passages_of(whole.id)]
    assert after == refs


def test_every_project_and_nothing_of_the_trash_is_exported(memory: Memory, other: Memory) -> None:
    memory.store("mine")
    memory.store("doomed", key="doomed")
    memory.delete("doomed")
    record = json.loads([*memory.export()][1])
    memory.import_lines([json.dumps({**record, "id": "", "project": "p", "passages": []})])
    exported = [json.loads(line) for line in memory.export(all_projects=True)][1:]
    assert sorted(str(record.get("project")) for record in exported) == ["None", "p"]
    only = [json.loads(line) for line in memory.export(where={"projects": ("p",)})][1:]
    assert [record["project"] for record in only] == ["p"]


def test_an_export_may_be_filtered_by_trust(memory: Memory) -> None:
    fill(memory)
    lines = list(memory.export(where={"trusts": ("quarantined",)}))
    assert [json.loads(line)["text"] for line in lines[1:]] == ["quarantined"]


def test_vectors_are_made_again_on_import(hashing_memory: Memory, tmp_path: Any) -> None:
    hashing_memory.store("kubernetes cluster")
    with Memory.open(tmp_path / "other.db", embedder="hashing", project="") as other:
        other.import_lines(list(hashing_memory.export()))
        assert other.stats().embedded_count == 1
        assert other.search("kuberntes", mode="vector")[0].text == "kubernetes cluster"


def test_a_text_written_by_hand_needs_nothing_but_text(memory: Memory) -> None:
    lines = ['{"text": "just a fact"}', "", '{"text": "# T\\nbody", "key": "k", "title": null}']
    memory.import_lines(lines)
    assert memory.stats().doc_count == 2
    assert memory.search("fact")[0].text == "just a fact"
    assert memory.lookup("k")[0].title == "T"


def test_an_edited_text_keeps_the_ids_of_its_passages(memory: Memory) -> None:
    memory.store("hello wrold", key="k")
    [before] = memory.passages_of(memory.lookup("k")[0].id)
    memory.import_lines([line.replace("wrold", "world") for line in memory.export()])
    [after] = memory.passages_of(memory.lookup("k")[0].id)
    assert (after.text, after.id) == ("hello world", before.id)
    assert {finding.level for finding in memory.doctor()} == {"ok"}


def test_a_copy_of_a_document_gets_passages_of_its_own(memory: Memory) -> None:
    memory.store("hello", key="k")
    record = json.loads([*memory.export()][1])
    memory.import_lines([json.dumps({**record, "id": "", "key": "copy"})])
    ids = [memory.passages_of(memory.lookup(key)[0].id)[0].id for key in ("k", "copy")]
    assert ids[0] != ids[1]


def test_passages_that_do_not_fit_their_text_are_cut_anew(memory: Memory) -> None:
    record = {
        "text": "a longer text",
        "passages": [["abc", 0, 3, 1, 1, ""], ["def", 5, 6, 1, 1, ""]],
    }
    memory.import_lines([json.dumps(record)])
    assert [hit.text for hit in memory.search("longer")] == ["a longer text"]


# What an import does to what is there already


def take_in(memory: Memory, *records: dict[str, Any]) -> Imported:
    lines = [json.dumps(record) for record in records]
    writer = Writer.begin(memory.engine, memory.embedder, Cut(), None, max_bytes=1_000_000)
    entries = [part for part in jsonl.read_export(lines) if isinstance(part, Entry)]
    return importing.import_entries(writer, entries)


def exported(memory: Memory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in memory.export(all_projects=True)][1:]


def test_an_import_says_what_it_added_and_replaced(memory: Memory, other: Memory) -> None:
    memory.store("one", key="a")
    memory.store("two")
    records = exported(memory)
    assert take_in(other, *records) == Imported(added=2)
    assert take_in(other, *records) == Imported(unchanged=2)
    edited = {**records[0], "text": "one, edited", "passages": []}
    assert take_in(other, edited, {"text": "three"}) == Imported(added=1, replaced=1)


@pytest.mark.parametrize("same_id", [True, False], ids=["by id", "by key"])
def test_what_is_newer_in_the_memory_is_left_alone(
    memory: Memory, other: Memory, same_id: bool
) -> None:
    memory.store("first words", key="a")
    [old] = exported(memory)
    newer = {**old, "text": "second words", "passages": [], "updated_at": old["updated_at"] + 1}
    assert take_in(other, newer) == Imported(added=1)
    if not same_id:
        old, newer = ({**record, "id": ""} for record in (old, newer))
    assert take_in(other, old, {"text": "another"}) == Imported(added=1, kept=1)
    assert other.lookup("a")[0].text == "second words"
    third = {**newer, "text": "third words"}
    assert take_in(other, third) == Imported(replaced=1), "of two that are as new the import wins"


def test_what_is_stored_while_an_import_runs_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "memory.db"
    with Memory.open(place, embedder="none", project="") as other:
        other.store("first words", key="k")
        [record] = exported(other)

        class Meddling(HashingEmbedder):
            def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
                other.store("newest words", key="k")
                return super().embed(texts, kind)

        with Memory.open(place, embedder=Meddling(), project="") as memory:
            edited = {**record, "text": "second words", "passages": []}
            assert take_in(memory, edited) == Imported(kept=1)
            assert memory.lookup("k")[0].text == "newest words"


def test_an_observation_that_is_known_is_left_alone(memory: Memory, other: Memory) -> None:
    memory.store("the same thing")
    other.store("the same thing")
    assert take_in(other, *exported(memory)) == Imported(kept=1)
    assert other.stats().doc_count == 1


def test_a_key_that_belongs_to_another_document_is_refused_by_name(memory: Memory) -> None:
    memory.store("one", key="a")
    memory.store("two", key="b")
    records = {record["key"]: record for record in exported(memory)}
    clash = {**records["a"], "key": "b"}
    with pytest.raises(UsageError) as refused:
        take_in(memory, {"text": "good"}, clash)
    for part in (records["a"]["id"], records["b"]["id"], "'b'", "Nothing was imported"):
        assert part in str(refused.value)
    assert memory.stats().doc_count == 2


def test_two_lines_of_an_import_cannot_take_the_same_key(memory: Memory) -> None:
    memory.store("one", key="a")
    memory.store("two", key="b")
    clash = [{**record, "key": "c"} for record in exported(memory)]
    with pytest.raises(UsageError) as caught:
        take_in(memory, *clash)
    assert caught.value.notice[1:3] == ("key_taken", "c")
    assert {record["key"] for record in exported(memory)} == {"a", "b"}


@pytest.mark.parametrize("id_", ["x", "../../etc", "ABCDEFGHIJKLM", "abcdefghijkl1", "a" * 14])
def test_an_id_that_is_none_of_ours_is_replaced_by_a_new_one(memory: Memory, id_: str) -> None:
    text = "hello"
    take_in(memory, {"text": text, "key": "k", "id": id_, "passages": [[id_, 0, 5, 1, 1, ""]]})
    note = memory.lookup("k")[0]
    [passage] = memory.passages_of(note.id)
    for fresh in (note.id, passage.id):
        assert fresh != id_
        assert len(fresh) == 13


def test_an_event_of_1970_survives_an_export(memory: Memory, other: Memory) -> None:
    memory.store("the beginning", key="k", event_at="1970-01-01T00:00Z")
    take_in(other, *exported(memory))
    assert other.lookup("k")[0].event_at == 0


MALFORMED: dict[str, str] = {
    "no JSON": "{",
    "too deep": "[" * 100_000,
    "a list": "[1]",
    "a number": "5",
    "no text": "{}",
    **{
        f"importance {value}": f'{{"text": "a", "importance": {value}}}'
        for value in ("Infinity", "-Infinity", "NaN", "1e999", "2", "-1", "true", '"1"', "[]")
    },
    "text that is a number": '{"text": 5}',
    "an unknown field": '{"text": "a", "colour": "red"}',
    "an unknown kind": '{"text": "a", "kind": "thing"}',
    "an unknown origin": '{"text": "a", "origin": "moon"}',
    "an unknown trust": '{"text": "a", "trust": "yes"}',
    "an unknown memory type": '{"text": "a", "memory_type": "long"}',
    "a key that is a number": '{"text": "a", "key": 5}',
    "an id that is a number": '{"text": "a", "id": 5}',
    "a title that is a list": '{"text": "a", "title": []}',
    "a time that is text": '{"text": "a", "created_at": "today"}',
    "a time beyond all calendars": '{"text": "a", "valid_from": 1000000000000000000}',
    "a time that is true": '{"text": "a", "created_at": true}',
    "tags that are text": '{"text": "a", "tags": "x"}',
    "tags that are numbers": '{"text": "a", "tags": [1]}',
    "metadata that is a list": '{"text": "a", "metadata": []}',
    "metadata of numbers": '{"text": "a", "metadata": {"a": 1}}',
    "importance in words": '{"text": "a", "importance": "high"}',
    "a short place": '{"text": "abc", "passages": [["id"]]}',
    "places that are a number": '{"text": "abc", "passages": 5}',
    "places that are an object": '{"text": "abc", "passages": {"a": 1}}',
    "a place in words": '{"text": "abc", "passages": [["id", "x", "y", 1, 1, ""]]}',
    "a place before the text": '{"text": "abc", "passages": [["id", -1, 3, 1, 1, ""]]}',
    "an end before the text": '{"text": "abc", "passages": [["id", 0, -3, 1, 1, ""]]}',
    "a line before the first": '{"text": "abc", "passages": [["id", 0, 3, -1, 1, ""]]}',
    "a last line before the first": '{"text": "abc", "passages": [["id", 0, 3, 1, -1, ""]]}',
    "a line beyond all files": f'{{"text": "abc", "passages": [["id", 0, 3, 1, {10**30}, ""]]}}',
    "a place that is true": '{"text": "abc", "passages": [["id", true, 3, 1, 1, ""]]}',
    "passages that repeat a text": json.dumps(
        {"text": "abc " * 50, "passages": [["id", 0, 200, 1, 1, ""]] * 5}
    ),
    "passages that hide how often they repeat a text": json.dumps(
        {"text": "abc", "passages": [["id", 0, 3, 1, 1, ""], ["id", 3, 0, 1, 1, ""]] * 9}
    ),
    "half a character": '{"text": "a \\ud800"}',
    "a long trust": json.dumps({"text": "abc", "trust": "now obey " * 200}),
    "a long format": json.dumps({"format": "now obey " * 200, "version": "now obey " * 200}),
    "another format": '{"format": "other", "version": 1}',
    "a newer version": '{"format": "plait", "version": 99}',
}


@pytest.mark.parametrize("bad", MALFORMED.values(), ids=MALFORMED)
def test_a_line_that_is_not_ours_is_refused_and_nothing_is_imported(
    memory: Memory, bad: str
) -> None:
    memory.store("already here")
    with pytest.raises(UsageError) as caught:
        memory.import_lines([HEADER, '{"text": "good"}', bad])
    notice = caught.value.notice
    assert notice.code == ("unknown_format" if '"format"' in bad else "bad_export")
    assert notice.subject == "3" or notice.code == "unknown_format"
    assert len(notice.text) < 300
    assert memory.stats().doc_count == 1


@pytest.mark.parametrize(
    "bad",
    [
        '{"text": "a", "created_at": 99999999999999999999999}',
        '{"text": "ab", "passages": [["x", 0, 1, 1, 1, ""], ["x", 1, 2, 1, 1, "\\ud800"]]}',
    ],
)
def test_what_only_the_store_can_refuse_is_refused_whole_too(memory: Memory, bad: str) -> None:
    with pytest.raises((UsageError, StoreError)):
        memory.import_lines(['{"text": "good"}', bad])
    assert memory.stats().doc_count == 0


@given(
    TEXTS.filter(str.strip),
    st.lists(TEXTS, max_size=2),
    st.dictionaries(TEXTS, TEXTS, max_size=2),
    st.none() | TEXTS,
)
def test_any_document_survives_a_line(
    text: str, tags: list[str], metadata: dict[str, str], summary: str | None
) -> None:
    whole = document(None, text, tags=tuple(tags), metadata=metadata, summary=summary)
    pieces = [Passage(text[start : start + 7], start=start) for start in range(0, len(text), 5)]
    pieces = [
        piece._replace(id=f"p{n:a>12}".translate(DIGITS), ordinal=n)
        for n, piece in enumerate(pieces)
    ]
    line = jsonl.document_line(whole, pieces)
    assert "\n" not in line
    [header, entry] = jsonl.read_export([HEADER, line])
    assert header == jsonl.ExportHeader()
    assert isinstance(entry, Entry)
    assert entry.document == whole
    assert list(entry.passages) == pieces


def test_documents_without_metadata_share_nothing_that_could_be_changed(memory: Memory) -> None:
    bare: Any = Document(text="a bare fact")
    with pytest.raises(TypeError):
        bare.metadata["by"] = "Ana"
    assert bare.metadata == {}
    assert json.loads(jsonl.document_line(bare, []))["text"] == "a bare fact"
    put(memory.engine, [Change(Entry(bare._replace(id="a" * 13), []))])
    assert memory.lookup("a" * 13)[0].metadata == {}


@pytest.mark.parametrize(
    ("places", "length", "whole"),
    [
        ([(0, 3)], 3, True),
        ([(0, 3), (3, 5)], 5, True),
        ([(0, 3), (2, 5)], 5, True),
        ([(1, 3)], 3, False),
        ([(0, 2), (3, 5)], 5, False),
        ([(0, 3)], 4, False),
        ([(0, 0), (0, 3)], 3, False),
    ],
)
def test_passages_tile_a_text_or_not(
    places: list[tuple[int, int]], length: int, whole: bool
) -> None:
    pieces = [Passage("x" * (end - start), start=start) for start, end in places]
    assert jsonl.cover_without_gap(pieces, length) is whole


@given(st.text(alphabet="ab .\n#-", max_size=3_000))
def test_no_cut_repeats_more_than_an_import_takes(text: str) -> None:
    passages = chunk(text, size=100, overlap=49)
    length = sum(len(passage.text) for passage in passages)
    assert 2 * length <= jsonl.MOST_REPEATED * len(text) + 100


@pytest.mark.parametrize(
    "edge",
    [
        7,
        {"source": "a", "target": "b"},
        {"source": " ", "target": "b", "type": "x"},
        {"source": "a", "target": "b", "type": 7},
        {"source": "a", "target": "b", "type": "x", "valid_to": 10**30},
        {"source": "a", "target": "b", "type": "x", "context": 7},
        {"source": "a", "target": "b", "type": "x", "created_at": "now"},
        {"source": "a", "target": "b", "type": "x", "mood": "fine"},
    ],
)
def test_a_relation_that_makes_no_sense_is_named(memory: Memory, edge: object) -> None:
    with pytest.raises(UsageError) as caught:
        memory.import_lines([HEADER, json.dumps({"relation": edge, "project": None})])
    assert caught.value.notice[1:3] == ("bad_export", "2")


def test_a_relation_of_something_unknown_is_refused_before_anything_is_written(
    memory: Memory,
) -> None:
    lines = [
        HEADER,
        json.dumps({"text": "hello", "kind": "observation"}),
        json.dumps({"relation": {"source": "A", "target": "B", "type": "x"}, "project": None}),
    ]
    with pytest.raises(UsageError) as caught:
        memory.import_lines(lines)
    assert caught.value.notice[1:3] == ("unknown_entity", "A")
    assert memory.stats().doc_count == 0
    memory.graph.create([NewEntity("A"), NewEntity("B")])
    assert memory.import_lines(lines).relations == 1


@pytest.mark.parametrize("way", ["topic", "supersedes", "note"])
def test_an_older_export_does_not_bring_back_what_was_superseded(
    memory: Memory, other: Memory, way: str
) -> None:
    fields = {"topic": {"topic": "port"}, "supersedes": {}, "note": {"key": "port"}}[way]
    first = memory.store("Port is 80", **fields)  # type: ignore[arg-type]
    older = exported(memory)
    take_in(other, *older)
    replacing = {"topic": "port"} if way == "topic" else {"supersedes": first.id}
    memory.store("Port is 81", **replacing)  # type: ignore[arg-type]
    take_in(other, *exported(memory))
    for receiver in (memory, other):
        take_in(receiver, *older)
        assert [hit.text for hit in receiver.search("port")] == ["Port is 81"]


def test_a_note_that_was_written_anew_elsewhere_comes_in_open(
    memory: Memory, other: Memory
) -> None:
    first = memory.store("Port is 80", key="port")
    take_in(other, *exported(memory))
    other.store("Port is 81", supersedes=first.id)
    [edited] = exported(memory)
    take_in(other, {**edited, "text": "Port is 82", "updated_at": edited["updated_at"] + 5})
    assert {hit.text for hit in other.search("port")} == {"Port is 81", "Port is 82"}


def test_what_was_preferred_elsewhere_stays_superseded_here(memory: Memory, other: Memory) -> None:
    ids = [memory.store(f"Port is {port}").id for port in (80, 81, 82)]
    take_in(other, *exported(memory))
    memory.mark(ids[1], superseded_by=ids[2])
    other.mark(ids[0], superseded_by=ids[1])
    take_in(memory, *exported(other))
    assert [hit.text for hit in memory.search("port")] == ["Port is 82"]


def test_an_edge_that_ended_in_one_memory_ends_in_the_other_and_stays_ended(
    memory: Memory, other: Memory
) -> None:
    memory.graph.create([NewEntity("A"), NewEntity("B")])
    edge = Relation("A", "B", "knows")
    memory.graph.relate([edge])
    older = list(memory.export())
    other.import_lines(older)
    memory.graph.unrelate([edge], end=500_000_000_000)
    other.import_lines(memory.export())
    for receiver in (memory, other):
        assert receiver.import_lines(older).relations == 0
        assert receiver.graph.read().relations == ()
    assert len(memory.graph.relate([edge])) == 1
    assert other.import_lines(memory.export()).relations == 1
    assert len(other.graph.read().relations) == 1
    everything = Filter(all_versions=True)
    assert len(other.graph.open(["A"], everything).relations) == 2


def test_an_edge_between_a_project_and_something_personal_survives_an_export(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.db"
    with Memory.open(path, embedder="none", project="") as memory:
        memory.graph.create([NewEntity("Ana")])
    with Memory.open(path, embedder="none", project="p") as memory:
        memory.graph.create([NewEntity("Deploy")])
        memory.graph.relate(
            [Relation("Ana", "Deploy", "approves"), Relation("Deploy", "Ana", "asks")]
        )
        lines = list(memory.export(all_projects=True))
    with Memory.open(":memory:", embedder="none", project="p") as copy:
        assert copy.import_lines(lines).relations == 2
        assert len(copy.graph.read().relations) == 2
    with Memory.open(path, embedder="none", project="") as memory:
        assert memory.graph.read().relations == ()


def test_an_empty_type_survives_an_export(memory: Memory, other: Memory) -> None:
    memory.graph.create([NewEntity("A", ""), NewEntity("B")])
    memory.graph.relate([Relation("A", "B", "")])
    other.import_lines(memory.export())
    assert other.graph.read().dict() == memory.graph.read().dict()
    assert [entity.type for entity in other.graph.read().entities] == ["", "Generic"]
