"""Imports: what a dry run counts and costs, and two files that are one document."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plait.errors import UsageError
from plait.memory import Memory
from plait.settings.loading import load
from plait.stores.sqlite.store import SQLiteStore
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.codes import has_code

LATER = 2_000_000_000  # 2033, in seconds


@pytest.fixture
def other() -> Iterator[Memory]:
    with Memory.open(":memory:", embedder="none", project="") as opened:
        yield opened


# -- relations in a dry run ----------------------------------------------------------------


def hub(memory: Memory, count: int) -> None:
    memory.graph.create([NewEntity("hub"), *(NewEntity(f"e{n}") for n in range(count))])
    memory.graph.relate([Relation("hub", f"e{n}", "knows") for n in range(count)])


def test_a_dry_run_reads_the_relations_of_a_memory_once(
    memory: Memory, other: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub(memory, 8)
    lines = list(memory.export())
    asked: list[int] = []
    relations = SQLiteStore.relations

    def counting(store: SQLiteStore, *values: Any, **named: Any) -> list[Relation]:
        rows = relations(store, *values, **named)
        asked.append(len(rows))
        return rows

    monkeypatch.setattr(SQLiteStore, "relations", counting)
    assert memory.import_lines(lines, dry_run=True).relations == 0
    assert asked == [8]
    assert other.import_lines(lines, dry_run=True).relations == 8


@pytest.mark.parametrize(
    "relations",
    [
        [Relation("A", "B", "knows")],
        [Relation("B", "A", "knows"), Relation("A", "A", "knows")],
        [Relation("A", "B", "likes"), Relation("A", "B", "likes")],
        [Relation("A", "Zoe", "knows"), Relation("Zoe", "A", "knows")],
    ],
    ids=["known", "turned round", "twice", "of a new entity"],
)
def test_a_dry_run_counts_the_relations_that_an_import_adds(
    memory: Memory, relations: list[Relation]
) -> None:
    memory.graph.create([NewEntity("A"), NewEntity("B")])
    memory.graph.relate([Relation("A", "B", "knows")])
    lines = [f'{{"type": "entity", "name": "{name}"}}' for name in ("A", "B", "Zoe")] + [
        f'{{"type": "relation", "from": "{row.source}", "to": "{row.target}", '
        f'"relationType": "{row.type}"}}'
        for row in relations
    ]
    tried = memory.import_lines(lines, dry_run=True)
    assert memory.import_lines(lines).relations == tried.relations


# -- two files of one document -------------------------------------------------------------

OLD, NEW = "We deploy on Fridays", "We deploy on Mondays"


@pytest.fixture
def folder(memory: Memory, tmp_path: Path) -> Path:
    memory.store(NEW, key="ops/deploys", tags=["ops"])
    memory.export_folder(tmp_path / "s")
    return tmp_path / "s"


def written(folder: Path, text: str, *fields: str) -> Path:
    """A file that a person wrote, newer than all others."""
    path = folder / "note" / "by hand.md"
    head = "\n".join(["---", "plait: 1", 'key: "ops/deploys"', *fields, "---", text])
    path.write_text(head, "utf-8")
    os.utime(path, (LATER, LATER))
    return path


@pytest.mark.parametrize("name", ["by hand.md", "a.md", "zzz.md"])
def test_two_files_of_one_key_that_differ_are_refused_and_both_are_named(
    memory: Memory, other: Memory, folder: Path, name: str
) -> None:
    written(folder, OLD).rename(folder / "note" / name)
    for receiver in (memory, other):
        with pytest.raises(UsageError, check=has_code("bad_snapshot")) as caught:
            receiver.import_from(folder)
        assert name in str(caught.value)
        assert "note/ops-deploys-" in str(caught.value)
    assert memory.lookup("ops/deploys")[0].text == NEW
    assert other.stats().doc_count == 0


def test_two_files_of_one_key_that_say_the_same_are_one_document(
    memory: Memory, other: Memory, folder: Path
) -> None:
    written(folder, NEW, 'tags: ["ops"]')
    assert memory.import_from(folder).unchanged == 1
    assert other.import_from(folder).added == 1
    assert other.lookup("ops/deploys")[0].id == memory.lookup("ops/deploys")[0].id


@pytest.mark.parametrize("field", ['tags: ["other"]', 'trust: "untrusted"', 'type: "decision"'])
def test_a_field_that_differs_is_another_content(
    memory: Memory, other: Memory, folder: Path, field: str
) -> None:
    memory.store(NEW, key="ops/deploys", tags=["ops"], type="rule")
    memory.export_folder(folder)
    written(folder, NEW, field)
    with pytest.raises(UsageError, check=has_code("bad_snapshot")):
        other.import_from(folder)


def test_one_key_in_two_projects_is_two_documents(other: Memory, folder: Path) -> None:
    written(folder, OLD, 'project: "heron"')
    assert other.import_from(folder).added == 2


def test_the_limit_of_a_file_counts_bytes(folder: Path, tmp_path: Path) -> None:
    written(folder, "\u00e9" * 800).rename(folder / "note" / "large.md")
    flags = {"db_path": str(tmp_path / "o.db"), "max_file_mb": 0.001, "project": "personal"}
    with (
        Memory.open(config=load(flags), embedder="none") as small,
        pytest.raises(UsageError, match=r"large\.md", check=has_code("too_large")),
    ):
        small.import_from(folder)
