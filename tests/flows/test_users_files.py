"""Users of one memory who read the same files: each has documents of his own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from plait.memory import Memory
from plait.types import Document
from tests.builders import EVERYTHING


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "notes"
    place.mkdir()
    place.joinpath("a.md").write_text("# Apples\n\nAn apple a day.\n", encoding="utf-8")
    place.joinpath("b.md").write_text("# Pears\n\nA pear a week.\n", encoding="utf-8")
    return place


def files_of(memory: Memory, project: str | None) -> list[Document]:
    where = EVERYTHING._replace(projects=(project,), kinds=("file",))
    return memory.engine.scan(where, whole=True, by_writing=True)


def edited(folder: Path) -> Path:
    folder.joinpath("a.md").write_text("# Apples\n\nNo apples at all.\n", encoding="utf-8")
    return folder


def without_one(folder: Path) -> Path:
    folder.joinpath("a.md").unlink()
    return folder


def moved(folder: Path) -> Path:
    return folder.rename(folder.with_name("papers"))


def renamed(folder: Path) -> Path:
    folder.joinpath("a.md").rename(folder / "z.md")
    return folder


CHANGES: dict[str, Callable[[Path], Path]] = {
    "nothing": lambda folder: folder,
    **{act.__name__: act for act in (edited, without_one, moved, renamed)},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("first", ["ana", "ben", None])
@pytest.mark.parametrize("again", [False, True], ids=["new", "known"])
def test_who_reads_the_same_files_changes_nothing_of_others(memory, folder, first, change, again):
    users = {None: memory, "ana": memory.scope("ana"), "ben": memory.scope("ben", shared=[None])}
    owner = users.pop(first)
    owner.ingest(folder)
    if again:
        for user in users.values():
            user.ingest(folder)
    project = owner.config.project
    before = files_of(memory, project)
    assert len(before) == 2
    folder = change(folder)
    here = sorted(str(file) for file in folder.iterdir())
    for user in users.values():
        report = user.ingest(folder, allow_removal=True)
        if not again:
            assert report.count("added") == len(here)
        assert sorted(row.path or "" for row in files_of(memory, user.config.project)) == here
        assert files_of(memory, project) == before
    owner.ingest(folder, allow_removal=True)
    assert sorted(row.path or "" for row in files_of(memory, project)) == here
    assert {row.id for row in files_of(memory, project)} <= {row.id for row in before}


def test_a_folder_that_only_another_user_knew_is_unknown(memory, folder):
    memory.scope("ana").ingest(folder)
    moved(folder)
    for user in (memory, memory.scope("ben")):
        with pytest.raises(Exception, match="No such") as refused:
            user.ingest(folder)
        assert "kept" not in str(refused.value)


def test_projects_still_have_one_document_of_a_file(tmp_path, folder):
    for project in ("one", "two"):
        with Memory.open(tmp_path / "m.db", embedder="none", project=project) as memory:
            memory.ingest(folder)
            assert len(memory.engine.scan(EVERYTHING)) == 2
