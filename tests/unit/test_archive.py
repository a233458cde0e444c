"""Export and import: everything comes back, and a bad line changes nothing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import archive
from plait.errors import StoreError, UsageError
from plait.memory import Memory
from plait.types import Document, Passage
from tests.builders import document

HEADER = archive.header()
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"))


@pytest.fixture
def other() -> Iterator[Memory]:
    with Memory.open(":memory:", embedder="none", project="") as opened:
        yield opened


def contents(memory: Memory) -> list[tuple[Document, list[Passage]]]:
    """All that a person could ever see of a memory, but for when each was indexed."""
    found = []
    for listed in memory.timeline(limit=1000, all_projects=True, where=dict(EVERY)):
        whole = memory.lookup(listed.id)[0]._replace(indexed_at=0)
        pieces = [passage._replace(ref=0) for passage in memory.passages_of(whole.id)]
        found.append((whole, pieces))
    return sorted(found)


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
    memory.store("---\nonly: front matter\n---\n", key="empty")


def test_a_memory_comes_back_whole_with_the_ids_of_its_passages(
    memory: Memory, other: Memory
) -> None:
    fill(memory)
    lines = list(memory.export())
    assert other.import_lines(lines) == 4
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
    exported = [json.loads(line) for line in memory.export()][1:]
    assert sorted(str(one.get("project")) for one in exported) == ["None", "p"]
    only = [json.loads(line) for line in memory.export(where={"projects": ("p",)})][1:]
    assert [one["project"] for one in only] == ["p"]


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
    assert memory.import_lines(lines) == 2
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


MALFORMED: dict[str, str] = {
    "no JSON": "{",
    "too deep": "[" * 100_000,
    "a list": "[1]",
    "a number": "5",
    "no text": "{}",
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
    "half a character": '{"text": "a \\ud800"}',
    "another format": '{"format": "other", "version": 1}',
    "a newer version": '{"format": "plait", "version": 99}',
}


@pytest.mark.parametrize("bad", MALFORMED.values(), ids=MALFORMED)
def test_a_line_that_is_not_ours_is_refused_and_nothing_is_imported(
    memory: Memory, bad: str
) -> None:
    memory.store("already here")
    with pytest.raises(UsageError, match=r"Line 3|version"):
        memory.import_lines([HEADER, '{"text": "good"}', bad])
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
    pieces = [piece._replace(id=f"p{n}", ordinal=n) for n, piece in enumerate(pieces)]
    line = archive.line(whole, pieces)
    assert "\n" not in line
    [entry] = archive.read([HEADER, line])
    assert entry.document == whole
    assert list(entry.passages) == pieces


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
    assert archive.tiles(pieces, length) is whole
