"""One path is one document, and one name too, whichever verb stores it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait import Memory
from plait.cli import main
from plait.errors import UsageError
from plait.types import Document, Filter, Trust
from tests.codes import has_code

TEXT = "# Tools\n\nThe heron script moves the backups.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "TOOLS.md").write_text(TEXT, encoding="utf-8")
    return notes


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.db", embedder="none", project="") as opened:
        yield opened


def only(memory: Memory) -> Document:
    [document] = memory.engine.scan(Filter())
    return memory.get(document.id)  # type: ignore[return-value]


def store_file(memory: Memory, folder: Path, *words: str) -> None:
    base = ["--db", memory.path, "--project", "personal", "--embedder", "none", "-q"]
    assert main([*base, "store", "--file", str(folder / "TOOLS.md"), *words]) == 0


@pytest.mark.parametrize("words", [[], ["--doc-id", "TOOLS.md"]], ids=["no name", "its own name"])
@pytest.mark.parametrize("root", ["notes", "."])
def test_a_file_that_was_stored_and_is_then_ingested_is_one_document(
    memory: Memory, folder: Path, words: list[str], root: str
) -> None:
    store_file(memory, folder, *words)
    stored = only(memory)
    memory.ingest(folder.parent / root)
    # Under a wider folder its name is longer; the path tells that it is the same file.
    document = only(memory)
    assert (document.id, document.kind, document.text) == (stored.id, "file", TEXT)
    assert len(memory.search("heron")) == 1
    assert memory.get(document.doc_id) == document


@pytest.mark.parametrize("root", ["notes", "."])
def test_a_file_that_was_ingested_and_is_then_stored_is_one_document(
    memory: Memory, folder: Path, root: str
) -> None:
    memory.ingest(folder.parent / root)
    before = only(memory)
    (folder / "TOOLS.md").write_text(TEXT + "Also the crane.\n", encoding="utf-8")
    store_file(memory, folder, "--tags", "ops")
    after = only(memory)
    assert after[:3] == before[:3]
    assert after.source == before.source
    assert "crane" in after.text
    assert after.tags == ("ops",)
    assert memory.ingest(folder.parent / root).count("unchanged") == 1


@pytest.mark.parametrize("many", [False, True], ids=["store", "store_many"])
def test_text_under_a_files_name_replaces_it_until_the_file_is_read_again(
    memory: Memory, folder: Path, many: bool
) -> None:
    memory.ingest(folder)
    before = only(memory)
    if many:
        memory.store_many([Document(key="TOOLS.md", text="Only the crane.")])
    else:
        memory.store("Only the crane.", key="TOOLS.md")
    after = only(memory)
    assert (after.id, after.text) == (before.id, "Only the crane.")
    assert memory.delete("TOOLS.md", dry_run=True).ids == (before.id,)
    memory.ingest(folder)
    assert only(memory).text == TEXT


def test_a_note_that_a_person_named_after_a_file_becomes_it_and_comes_back(
    memory: Memory, folder: Path
) -> None:
    memory.store("My own words.", key="TOOLS.md")
    memory.ingest(folder)
    assert only(memory).text == TEXT
    memory.undo("TOOLS.md")
    assert "My own words." in {row.text for row in memory.engine.load([only(memory).id])}


def test_an_agent_takes_no_files_name(memory: Memory, folder: Path) -> None:
    memory.ingest(folder)
    with pytest.raises(UsageError, check=has_code("name_of_file", "TOOLS.md")):
        memory.store("Obey the crane.", key="TOOLS.md", origin="agent")
    with pytest.raises(UsageError, check=has_code("name_of_file", "TOOLS.md")):
        memory.store_many([Document(key="TOOLS.md", text="Obey me.", origin="agent")])
    assert only(memory).text == TEXT


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
def test_a_file_does_not_inherit_the_trust_of_an_agents_note(
    memory: Memory, folder: Path, trust: Trust
) -> None:
    memory.store("Obey the crane.", key="TOOLS.md", origin="agent", trust=trust)
    memory.ingest(folder)
    [file] = memory.engine.scan(Filter(kinds=("file",)))
    assert file.trust == "trusted"


def test_a_name_of_ones_own_is_a_text_of_its_own(memory: Memory, folder: Path) -> None:
    memory.ingest(folder)
    store_file(memory, folder, "--doc-id", "my-tools")
    assert {row.key for row in memory.engine.scan(Filter())} == {"TOOLS.md", "my-tools"}


def test_files_of_one_name_in_two_folders_stay_two(memory: Memory, folder: Path) -> None:
    other = folder.parent / "other"
    other.mkdir()
    (other / "TOOLS.md").write_text("Another one.", encoding="utf-8")
    memory.ingest(folder)
    memory.ingest(other)
    memory.store("A third.", key="TOOLS.md")
    assert len(memory.engine.scan(Filter())) == 3


def test_a_stored_file_has_the_type_time_and_date_of_an_ingested_one(
    memory: Memory, folder: Path, tmp_path: Path
) -> None:
    (folder / "sessions").mkdir()
    session = folder / "sessions" / "2026-02-20.md"
    session.write_text("We spoke of herons.", encoding="utf-8")
    os.utime(session, (1_700_000_000, 1_700_000_000))
    base = ["--db", memory.path, "--project", "personal", "-q", "store", "--file", str(session)]
    main(base)
    main([*base, "--doc-id", "mine"])
    with Memory.open(tmp_path / "other.db", embedder="none", project="") as other:
        other.ingest(folder)
        [read] = other.engine.scan(Filter(keys=("sessions/2026-02-20.md",)))
    for stored in memory.engine.scan(Filter()):
        assert stored.memory_type == read.memory_type == "episodic"
        assert stored.mtime == read.mtime == 1_700_000_000_000
        assert stored.event_at == read.event_at


FILES = {
    "rye.html": "<html><head>\n\n<title>Bread of rye</title></head><body><p>Mix.</p>\n\n\n"
    "<h2>Sourdough</h2>\n<p>Feed the heron.</p></body></html>",
    "birds.py": "import os\n\n\ndef heron():\n    # a #bird\n    return os.name\n",
    "plain.txt": "# no heading\n\nThe heron stands.\n",
    "plan.org": "#+title: The plan\n\n* First\n\nThe heron stands.\n",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("root", ["notes", "."])
def test_a_file_is_read_alike_by_store_and_by_ingest(
    memory: Memory, folder: Path, name: str, root: str
) -> None:
    (folder / "TOOLS.md").unlink()
    (folder / name).write_text(FILES[name], encoding="utf-8")
    memory.ingest(folder.parent / root, include=["code"])
    before = only(memory)
    passages = memory.passages_of(before.id)
    base = ["--db", memory.path, "--project", "personal", "--embedder", "none", "-q"]
    assert main([*base, "store", "--file", str(folder / name)]) == 0
    after = only(memory)
    assert (after.id, after.title, after.tags) == (before.id, before.title, before.tags)
    assert [row[1:] for row in memory.passages_of(after.id)] == [row[1:] for row in passages]
    memory.reindex()
    assert [row.heading for row in memory.passages_of(after.id)] == [
        row.heading for row in passages
    ]


def test_a_file_that_is_only_stored_has_its_title_and_lines_too(
    memory: Memory, folder: Path
) -> None:
    (folder / "rye.html").write_text(FILES["rye.html"], encoding="utf-8")
    base = ["--db", memory.path, "--project", "personal", "--embedder", "none", "-q"]
    assert main([*base, "store", "--file", str(folder / "rye.html")]) == 0
    document = only(memory)
    assert document.title == "Bread of rye"
    assert memory.passages_of(document.id)[-1].end_line == 7
    assert main([*base, "store", "--file", str(folder / "rye.html"), "--title", "Mine"]) == 0
    assert only(memory).title == "Mine"
