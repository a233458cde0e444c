"""The place of a disk that is away, with something in it: what was known of the disk is kept."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.memory import Memory
from plait.types import Filter
from plait.writing import removals

EVERY_FILE = Filter(kinds=("file",))
PLACEHOLDERS = ["NOT-MOUNTED.md", "not-mounted.txt", ".keep", "photo.jpg", "deep/x"]
COUNT = 20
LONG_AGO = 1_600_000_000


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as opened:
        yield opened


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Some notes, two of three in a folder inside."""
    for number in range(COUNT):
        write(tmp_path / "notes" / ("sub" * (number % 3 > 0)) / f"n{number}.md", number)
    return tmp_path / "notes"


def write(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# Note {number}\n\nThis is about word{number}.\n", encoding="utf-8")


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_one_file_at_the_place_of_a_disk_does_not_hide_that_the_disk_is_away(
    memory: Memory, notes: Path, name: str
) -> None:
    memory.ingest(notes)
    inside = [
        row.key for row in memory.engine.scan(EVERY_FILE) if (row.key or "").startswith("sub/")
    ]
    empty(notes / "sub")
    write(notes / "sub" / name, 1000)
    os.utime(notes / "sub" / name, (LONG_AGO, LONG_AGO))  # it was there before the disk was mounted
    report = memory.ingest(notes)
    assert report.count("kept") == len(inside)
    assert report.count("removed") == 0
    assert report.caution is not None
    assert report.caution.subject == str(notes / "sub")
    assert memory.ingest(notes / "sub", allow_removal=True).count("removed") == len(inside)


def test_notes_that_one_summary_replaces_are_removed(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    inside = sorted((notes / "sub").iterdir())
    for path in inside:
        path.unlink()
    write(notes / "sub" / "summary.md", 1000)
    report = memory.ingest(notes)
    assert (report.count("removed"), report.count("kept")) == (len(inside), 0)


@pytest.mark.parametrize("way", ["replaced by others", "all but one known", "four"])
def test_deleting_some_files_of_a_folder_inside_is_no_missing_disk(
    memory: Memory, notes: Path, way: str
) -> None:
    for number in range(50, 56):
        write(notes / f"few/n{number}.md", number)
    memory.ingest(notes)
    inside = sorted((notes / "few").iterdir())
    doomed = {"replaced by others": inside, "all but one known": inside[1:], "four": inside[:4]}
    for path in doomed[way]:
        path.unlink()
    if way == "replaced by others":
        for number in range(60, 62):
            write(notes / f"few/n{number}.md", number)
    gone = sum(not path.exists() for path in inside)
    report = memory.ingest(notes)
    assert (report.count("removed"), report.count("kept")) == (gone, 0)


@pytest.mark.parametrize("place", ["notes", "notes/", "notes/sub", "."])
@pytest.mark.parametrize("is_mounted", [False, True])
def test_a_disk_that_the_systems_table_names_is_missed_whatever_is_in_its_place(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, is_mounted: bool
) -> None:
    for number in range(3):
        write(tmp_path / f"notes/sub/n{number}.md", number)
    disk = str((tmp_path / place).resolve()).replace(" ", "\\040")
    written = disk + "/" * place.endswith("/")
    (tmp_path / "fstab").write_text(
        f"# a b\nUUID=1 {written} ext4 defaults 0 2\n", encoding="utf-8"
    )
    (tmp_path / "mounts").write_text(
        f"/dev/sda1 {disk if is_mounted else '/'} ext4 rw 0 0\n", encoding="utf-8"
    )
    monkeypatch.setattr(removals, "FSTAB", tmp_path / "fstab")
    monkeypatch.setattr(removals, "MOUNTED", tmp_path / "mounts")
    memory.ingest(tmp_path / "notes")
    for number in range(2):
        (tmp_path / f"notes/sub/n{number}.md").unlink()
    report = memory.ingest(tmp_path / "notes")
    assert report.count("removed" if is_mounted else "kept") == 2
