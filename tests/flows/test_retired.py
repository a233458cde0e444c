"""The mark of a file that a rule removed: what it says, and when it goes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait import Memory
from plait.protocols import Store
from plait.settings.loading import load
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import InMemoryStore
from plait.times import DAY_MS
from plait.types.ids import new_id
from plait.writing import deleting, documents, sources
from plait.writing.retired import RETIRED, unmarked
from tests import servers
from tests.builders import EVERYTHING, memory_on

ENGINES = ("sqlite", "dictionaries", "postgres")


def opened(engine: str) -> Store:
    if engine == "sqlite":
        return SQLiteStore(":memory:")
    if engine == "dictionaries":
        return InMemoryStore()
    servers.need()
    from plait.stores.postgres.store import PostgresStore

    return PostgresStore(servers.address(new_id()))


@pytest.fixture(params=ENGINES)
def memory(request: pytest.FixtureRequest) -> Iterator[Memory]:
    with memory_on(opened(request.param)) as opened_memory:
        yield opened_memory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = tmp_path / "n"
    notes.mkdir()
    for name in "ab":
        (notes / f"{name}.md").write_text(f"# {name}\n\nAbout {name} and herons.", encoding="utf-8")
    return notes


def prune(memory: Memory) -> None:
    assert memory.prune(keep_most={"file": 0}, dry_run=False, all_projects=True).ids


def empty_trash(memory: Memory) -> None:
    with memory.engine.transaction() as transaction:
        transaction.expire(transaction.now + DAY_MS)


def marks(memory: Memory) -> dict[str, str]:
    return memory.engine.remembered(RETIRED)


def outcomes(memory: Memory, place: Path) -> dict[str, str]:
    return {Path(row.path).name: row.outcome for row in memory.ingest(place).reports}


def files(memory: Memory) -> set[str]:
    return {Path(row.path or "").name for row in memory.engine.scan(EVERYTHING)}


def paths(memory: Memory) -> set[str | None]:
    return {row.path for row in memory.engine.scan(EVERYTHING)}


@pytest.mark.parametrize("way", ["undo", "undo by name", "named", "written"])
def test_a_file_that_comes_back_has_no_mark(memory: Memory, folder: Path, way: str) -> None:
    memory.ingest(folder)
    prune(memory)
    assert len(marks(memory)) == 2
    if way == "undo":
        memory.undo()
    elif way == "undo by name":
        memory.undo("a.md", "b.md")
    elif way == "named":
        for name in ("a.md", "b.md"):
            memory.ingest(folder / name)
    else:
        for name in ("a.md", "b.md"):
            (folder / name).write_text("# New\n\nAnother text.", encoding="utf-8")
        memory.ingest(folder)
    assert marks(memory) == {}
    assert files(memory) == {"a.md", "b.md"}


def test_a_file_that_came_back_may_be_renamed_there_and_back(memory: Memory, folder: Path) -> None:
    memory.ingest(folder)
    prune(memory)
    memory.undo()
    memory.ingest(folder)
    (folder / "a.md").rename(folder / "a2.md")
    memory.ingest(folder, incremental=True)
    (folder / "a2.md").rename(folder / "a.md")
    memory.ingest(folder, incremental=True)
    assert files(memory) == {"a.md", "b.md"}


@pytest.mark.parametrize("back", [True, False])
def test_a_folder_moves_there_and_back_with_what_a_rule_removed(
    memory: Memory, folder: Path, back: bool
) -> None:
    other = folder.with_name("n2")
    memory.ingest(folder)
    prune(memory)
    if back:
        memory.undo()
    folder.rename(other)
    memory.ingest(other)
    assert marks(memory) == {}
    other.rename(folder)
    memory.ingest(folder)
    assert paths(memory) == {str(folder / name) for name in ("a.md", "b.md")}


def test_a_folder_that_moves_to_the_place_of_removed_files_drops_their_marks(
    memory: Memory, folder: Path
) -> None:
    memory.ingest(folder)
    prune(memory)
    empty_trash(memory)
    other = folder.with_name("n2")
    other.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).unlink()
        (other / name).write_text(f"# {name}\n\nAbout cranes.", encoding="utf-8")
    memory.ingest(other)
    folder.rmdir()
    other.rename(folder)
    assert outcomes(memory, folder) == {"a.md": "moved", "b.md": "moved"}
    assert marks(memory) == {}


def test_a_purge_leaves_no_trace_of_a_file_that_was_moved_after_its_return(
    memory: Memory, folder: Path
) -> None:
    memory.ingest(folder)
    prune(memory)
    memory.ingest(folder / "a.md")
    (folder / "a.md").rename(folder / "zz.md")
    memory.ingest(folder)
    memory.delete("zz.md", purge=True)
    assert len(marks(memory)) == 1, "that of b.md"


def test_a_purge_by_a_filter_leaves_no_trace_either(memory: Memory, folder: Path) -> None:
    memory.ingest(folder)
    prune(memory)
    (folder / "a.md").rename(folder / "zz.md")
    memory.ingest(folder / "zz.md")  # continues what is in the trash
    memory.delete(where={"kinds": ("file",)}, purge=True)
    assert len(marks(memory)) == 1, "that of b.md"


@pytest.mark.parametrize("incremental", [False, True])
def test_the_mark_of_a_file_that_is_gone_goes_with_its_folders_next_run(
    memory: Memory, folder: Path, incremental: bool
) -> None:
    memory.ingest(folder)
    prune(memory)
    empty_trash(memory)
    (folder / "a.md").unlink()
    (folder / "c.txt").write_text("About c.", encoding="utf-8")
    memory.ingest(folder, patterns=["*.txt"])
    (folder / "sub").mkdir()
    memory.ingest(folder / "sub")
    assert len(marks(memory)) == 2, "these have not looked"
    memory.ingest(folder, incremental=incremental)
    assert len(marks(memory)) == 1
    for name in ("b.md", "c.txt"):
        (folder / name).unlink()
    memory.ingest(folder, incremental=incremental)
    assert len(marks(memory)) == 1, "an empty folder may be a disk that is not there"
    (folder / "c.md").write_text("# c\n\nAbout c.", encoding="utf-8")
    memory.ingest(folder, incremental=incremental)
    assert marks(memory) == {}


def test_a_mark_tells_nobody_the_path_or_the_content(folder: Path) -> None:
    seen = []
    for _ in range(2):
        with memory_on(opened("sqlite")) as memory:
            memory.ingest(folder)
            prune(memory)
            seen.append(marks(memory))
    assert set(seen[0]).isdisjoint(seen[1])
    # The last token is a time.
    tokens = [{token for mark in rows.values() for token in mark.split()[:-1]} for rows in seen]
    assert tokens[0].isdisjoint(tokens[1]), "another key, other hashes"


# -- bytes that kept their time -------------------------------------------------------------


def rewrite(file: Path, text: str) -> None:
    """Write a file as a copy does that keeps its time: ``cp -p``, ``rsync -t``."""
    before = file.stat()
    file.write_text(text, encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size


@pytest.mark.parametrize("when", ["before the rule", "after the rule"])
def test_new_bytes_with_the_old_time_bring_a_file_back(
    memory: Memory, folder: Path, when: str
) -> None:
    os.utime(folder / "a.md", (1, 1))
    memory.ingest(folder)
    if when == "before the rule":
        rewrite(folder / "a.md", "# a\n\nAbout a and cranes.")
    prune(memory)
    if when == "after the rule":
        rewrite(folder / "a.md", "# a\n\nAbout a and cranes.")
    report = memory.ingest(folder, incremental=True)
    assert {Path(row.path).name: row.outcome for row in report.reports} == {
        "a.md": "added",
        "b.md": "skipped",
    }


@pytest.mark.parametrize("form", ["present", "of an older version"])
def test_a_removed_file_is_read_again_only_if_its_times_prove_nothing(
    memory: Memory, folder: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    later = documents.now_ms() + 2 * sources.RACY_MS
    monkeypatch.setattr(documents, "now_ms", lambda: later)
    memory.ingest(folder)
    prune(memory)
    if form == "of an older version":
        shorter = {name: mark.rpartition(" ")[0] for name, mark in marks(memory).items()}
        with memory.engine.transaction() as transaction:
            transaction.remember(**shorter)
    read: list[str] = []
    hashed = sources.hash_file

    def listening(file: sources.SourceFile) -> str:
        read.append(Path(file.path).name)
        return hashed(file)

    monkeypatch.setattr(sources, "hash_file", listening)
    report = memory.ingest(folder, incremental=True)
    assert [row.code for row in report.reports] == ["pruned", "pruned"]
    assert read == ([] if form == "present" else ["a.md", "b.md"])


# -- other names ----------------------------------------------------------------------------


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("trash", ["full", "empty"])
def test_a_removed_file_stays_out_under_another_name(
    memory: Memory, folder: Path, incremental: bool, trash: str
) -> None:
    memory.ingest(folder)
    prune(memory)
    if trash == "empty":
        empty_trash(memory)
    (folder / "sub").mkdir()
    for name in ("z.md", "sub/y.txt", "z.md"):
        source = next(path for path in folder.rglob("*") if path.name in ("a.md", "z.md", "y.txt"))
        source.rename(folder / name)
        report = memory.ingest(folder, incremental=incremental)
        assert [row.code for row in report.reports] == ["pruned", "pruned"]
        assert len(marks(memory)) == 2
    (folder / "z.md").write_text("# z\n\nAnother text.", encoding="utf-8")
    assert outcomes(memory, folder) == {"z.md": "added", "b.md": "skipped"}
    assert len(marks(memory)) == 1


@pytest.mark.parametrize("trash", ["full", "empty"])
def test_a_renamed_file_stays_out_where_only_a_part_of_its_folder_is_ingested(
    memory: Memory, folder: Path, trash: str
) -> None:
    part = folder / "deep/part"
    part.mkdir(parents=True)
    (part / "c.md").write_text("# c\n\nAbout cranes.", encoding="utf-8")
    memory.ingest(folder)
    prune(memory)
    if trash == "empty":
        empty_trash(memory)
    (part / "c.md").rename(part / "d.md")
    (folder / "a.md").rename(part / "moved.md")
    (part / "copy.md").write_bytes((folder / "b.md").read_bytes())
    for _ in range(2):
        found = outcomes(memory, part)
        assert (found["d.md"], found["moved.md"]) == ("skipped", "skipped")
        assert len(marks(memory)) == 3
    assert files(memory) == {"copy.md"}
    assert outcomes(memory, folder)["b.md"] == "skipped"
    (part / "d.md").rename(part / "e.md")
    assert outcomes(memory, folder)["e.md"] == "skipped"
    assert files(memory) == {"copy.md"}


def test_a_copy_of_a_removed_file_is_a_new_one(memory: Memory, folder: Path) -> None:
    memory.ingest(folder)
    prune(memory)
    text = (folder / "a.md").read_text(encoding="utf-8")
    (folder / "copy.md").write_text(text, encoding="utf-8")
    assert outcomes(memory, folder) == {"a.md": "skipped", "b.md": "skipped", "copy.md": "added"}
    (folder / "a.md").rename(folder / "z.md")
    (folder / "0.md").write_text(text, encoding="utf-8")
    expected = {"0.md": "added", "z.md": "skipped", "b.md": "skipped", "copy.md": "unchanged"}
    assert outcomes(memory, folder) == expected


def test_a_known_file_may_be_renamed_beside_a_removed_one_of_the_same_bytes(
    memory: Memory, folder: Path
) -> None:
    text = (folder / "a.md").read_text(encoding="utf-8")
    memory.ingest(folder)
    prune(memory)
    (folder / "twin.md").write_text(text, encoding="utf-8")
    memory.ingest(folder)
    (folder / "a.md").unlink()
    (folder / "twin.md").rename(folder / "same.md")
    assert outcomes(memory, folder) == {"same.md": "moved", "b.md": "skipped"}
    assert files(memory) == {"same.md"}


def test_a_removed_file_comes_back_where_its_folder_is_moved_or_it_is_named(
    memory: Memory, folder: Path
) -> None:
    memory.ingest(folder)
    prune(memory)
    (folder / "a.md").rename(folder / "z.md")
    memory.ingest(folder)
    assert files(memory) == set()
    memory.ingest(folder / "z.md")
    assert files(memory) == {"z.md"}
    assert len(marks(memory)) == 1
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir()
    (folder / "b.md").rename(elsewhere / "b.md")
    memory.ingest(elsewhere)
    assert files(memory) == {"z.md", "b.md"}


def test_a_purge_leaves_no_mark_of_a_removed_file_that_was_renamed(
    memory: Memory, folder: Path
) -> None:
    memory.ingest(folder)
    prune(memory)
    (folder / "a.md").rename(folder / "z.md")
    memory.ingest(folder)
    memory.delete("a.md", purge=True)
    assert len(marks(memory)) == 1, "that of b.md"
    assert outcomes(memory, folder) == {"z.md": "added", "b.md": "skipped"}


@pytest.mark.parametrize("named", [(), ("a.md",)])
def test_an_undo_brings_back_a_removed_file_that_was_renamed(
    memory: Memory, folder: Path, named: tuple[str, ...]
) -> None:
    memory.ingest(folder)
    prune(memory)
    (folder / "a.md").rename(folder / "z.md")
    memory.ingest(folder)
    memory.undo(*named)
    assert len(marks(memory)) == len(named), "that of b.md"
    assert outcomes(memory, folder)["z.md"] == "moved"
    assert files(memory) == ({"z.md"} if named else {"z.md", "b.md"})


# -- projects ---------------------------------------------------------------------------------


def in_project(path: Path, project: str | None) -> Memory:
    flags: dict[str, str] = {"db_path": str(path), "embedding_provider": "none"}
    if project is not None:
        flags["project"] = project
    return Memory.open(config=load(flags, environ={}))


def test_a_rule_of_one_project_keeps_no_file_out_of_another(tmp_path: Path, folder: Path) -> None:
    db = tmp_path / "m.db"
    with in_project(db, "one") as one:
        one.ingest(folder)
        one.prune(keep_most={"file": 0}, dry_run=False)
        assert outcomes(one, folder) == {"a.md": "skipped", "b.md": "skipped"}
    with in_project(db, "two") as two:
        assert outcomes(two, folder) == {"a.md": "added", "b.md": "added"}
        assert marks(two) == {}, "a file is one document, whatever its project"


def test_a_run_in_no_chosen_project_leaves_out_what_a_rule_removed_from_its_folder(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a schedule: otherwise every night would bring it back, in another project."""
    monkeypatch.chdir(tmp_path)
    db = tmp_path / "m.db"
    with in_project(db, "one") as one:
        one.ingest(folder)
        one.prune(keep_most={"file": 0}, dry_run=False)
    with in_project(db, None) as nowhere:
        assert outcomes(nowhere, folder) == {"a.md": "skipped", "b.md": "skipped"}


def test_it_leaves_it_out_of_a_part_of_its_folder_too(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    db = tmp_path / "m.db"
    (folder / "part").mkdir()
    for name in "ab":
        (folder / f"{name}.md").rename(folder / f"part/{name}.md")
    with in_project(db, "one") as one:
        one.ingest(folder)
        one.prune(keep_most={"file": 0}, dry_run=False)
    with in_project(db, None) as nowhere:
        assert outcomes(nowhere, folder / "part") == {"a.md": "skipped", "b.md": "skipped"}


def test_where_no_rule_removed_a_file_none_costs_a_statement(
    memory: Memory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    remembered = memory.engine.remembered

    def listening(prefix: str) -> dict[str, str]:
        asked.append(prefix)
        return remembered(prefix)

    monkeypatch.setattr(memory.engine, "remembered", listening)
    memory.ingest(folder)
    state = memory.engine.state()
    assert unmarked(state, *memory.engine.scan(EVERYTHING)) == {}
    assert asked == []


def test_a_delete_by_hand_makes_no_key(memory: Memory, folder: Path) -> None:
    memory.ingest(folder)
    memory.delete("a.md")
    assert memory.engine.state().retired is None
    rows = memory.engine.scan(EVERYTHING)
    deleting.delete(memory.engine, [row.id for row in rows], by_rule=True)
    assert memory.engine.state().retired is not None
