"""Files that vanish, come back or move: nothing known is lost by it, nothing doubles, ids stay."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from plait.errors import NotFound, SourceError, advise
from plait.memory import Memory
from plait.present.json import ingest_dict
from plait.present.text import ingest_remarks
from plait.types import Document, Filter
from plait.types.reports import IngestReport
from plait.writing import moves, sources
from plait.writing.moves import WHOLE_SHARE
from plait.writing.removals import HANDFUL
from tests.codes import has_code

COUNT = 20
EVERYTHING = Filter(trusts=("trusted", "untrusted", "quarantined"), all_versions=True)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Twenty different files in three folders."""
    folder = tmp_path / "notes"
    for number in range(COUNT):
        write(folder / ("", "sub", "sub/deep")[number % 3] / f"n{number}.md", number)
    return folder


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", embedder="hashing", project="") as opened:
        yield opened


def write(path: Path, number: int, more: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"# Note {number}\n\nThis is about word{number}. {more}\n"
    path.write_text(text, encoding="utf-8")
    return path


def empty(folder: Path) -> None:
    """Leave a folder as an unmounted disk does."""
    shutil.rmtree(folder)
    folder.mkdir()


def documents(memory: Memory) -> dict[str, Document]:
    return {row.id: row for row in memory.engine.scan(EVERYTHING)}


def keys(memory: Memory) -> dict[str, str | None]:
    return {id_: row.key for id_, row in documents(memory).items()}


def passages(memory: Memory) -> set[tuple[str, str]]:
    return {
        (passage.id, passage.text)
        for id_ in documents(memory)
        for passage in memory.passages_of(id_)
    }


def counts(report: IngestReport) -> Counter[str]:
    return Counter(row.outcome for row in report.reports)


def check_whole(memory: Memory) -> None:
    assert {row.level for row in memory.doctor()} == {"ok"}
    assert memory.stats().pending_count == 0


# -- an empty folder ---------------------------------------------------------------------------


@pytest.mark.parametrize("incremental", [False, True])
def test_an_empty_folder_does_not_empty_the_memory(
    memory: Memory, notes: Path, incremental: bool
) -> None:
    memory.ingest(notes)
    before = keys(memory)
    empty(notes)
    report = memory.ingest(notes, incremental=incremental)
    assert counts(report) == {"kept": COUNT}
    assert report.caution is not None
    assert (report.caution.code, report.caution.subject) == ("folder_emptied", str(notes))
    assert report.caution.advice is not None
    assert report.caution.advice.act == "allow_removal"
    assert keys(memory) == before
    assert [hit.doc_id for hit in memory.search("word7", mode="keyword")] == ["sub/n7.md"]
    assert counts(memory.ingest(notes, allow_removal=True)) == {"removed": COUNT}
    assert keys(memory) == {}


def test_a_single_file_of_an_empty_folder_is_kept_too(memory: Memory, tmp_path: Path) -> None:
    write(tmp_path / "usb/a.md", 1)
    memory.ingest(tmp_path / "usb")
    empty(tmp_path / "usb")
    assert counts(memory.ingest(tmp_path / "usb")) == {"kept": 1}


def emptied_but_one(notes: Path) -> None:
    for path in [*notes.rglob("*.md")]:
        if path.name not in ("n0.md", "n1.md"):
            path.unlink()


def all_without_text(notes: Path) -> None:
    for path in notes.rglob("*.md"):
        path.write_text("", encoding="utf-8")


def another_disk(notes: Path) -> None:
    empty(notes)
    for number in range(100, 400):
        write(notes / f"other{number}.md", number)


def left_with_a_hidden_file(notes: Path) -> None:
    empty(notes)
    (notes / ".keep").touch()


def left_with_empty_folders(notes: Path) -> None:
    for path in [*notes.rglob("*.md")]:
        path.unlink()


@pytest.mark.parametrize(
    "happen",
    [
        emptied_but_one,
        all_without_text,
        another_disk,
        left_with_a_hidden_file,
        left_with_empty_folders,
    ],
)
def test_nearly_everything_lost_at_once_is_kept(
    memory: Memory, notes: Path, happen: Callable[[Path], None]
) -> None:
    memory.ingest(notes)
    before = keys(memory)
    happen(notes)
    report = memory.ingest(notes)
    assert report.count("removed") == 0
    assert report.count("kept") >= COUNT - 2
    assert report.caution is not None
    assert before.items() <= keys(memory).items()


def test_a_known_folder_that_is_gone_is_removed_when_that_is_allowed(
    memory: Memory, notes: Path, tmp_path: Path
) -> None:
    write(tmp_path / "other/a.md", 1)
    memory.ingest(tmp_path / "other")
    memory.ingest(notes)
    before = keys(memory)
    shutil.rmtree(notes / "sub")
    shutil.rmtree(tmp_path / "other")
    for folder in (notes / "sub", tmp_path / "other"):
        with pytest.raises(SourceError, check=has_code("no_such_source")) as caught:
            memory.ingest(folder)
        assert caught.value.advice == advise("allow_removal", path=str(folder))
    assert keys(memory) == before
    lost = memory.ingest(notes / "sub", allow_removal=True)
    assert counts(lost) == {"removed": sum(number % 3 > 0 for number in range(COUNT))}
    shutil.rmtree(notes)
    memory.ingest(notes, allow_removal=True)
    assert set(keys(memory).values()) == {"a.md"}, "another folder is another question"
    memory.undo()
    memory.undo()
    assert keys(memory) == before
    check_whole(memory)


@pytest.mark.parametrize("name", ["", "unknown", "notes/n0.md/x"])
def test_what_was_never_known_cannot_be_gone(
    memory: Memory, notes: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.ingest(notes)
    before = keys(memory)
    monkeypatch.chdir(notes)
    with pytest.raises(SourceError, check=has_code("no_such_source")) as caught:
        memory.ingest(name, allow_removal=True)
    assert caught.value.advice is None
    assert keys(memory) == before


def test_a_disk_mounted_on_a_folder_inside_is_missed_too(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    inside = [row.key for row in documents(memory).values() if (row.key or "").startswith("sub/")]
    empty(notes / "sub")
    report = memory.ingest(notes)
    assert counts(report) == {"unchanged": COUNT - len(inside), "kept": len(inside)}
    assert report.caution is not None
    assert report.caution.subject == str(notes / "sub")
    # The advice works as it is written.
    assert counts(memory.ingest(notes / "sub", allow_removal=True)) == {"removed": len(inside)}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_kept(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    notes.chmod(0)
    try:
        with pytest.raises(SourceError):
            memory.ingest(notes)
    finally:
        notes.chmod(0o700)
    assert len(keys(memory)) == COUNT


def test_files_that_cannot_be_examined_are_kept(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.ingest(notes)
    real = os.lstat

    def lstat(path: str) -> os.stat_result:
        if str(path).endswith(".md"):
            raise OSError(5, "Input/output error")
        return real(path)

    emptied_but_one(notes)
    monkeypatch.setattr("plait.writing.moves.os.lstat", lstat)
    assert memory.ingest(notes, allow_removal=True).count("removed") == 0


def test_some_files_of_many_are_removed_as_before_and_come_back_by_undo(
    memory: Memory, notes: Path
) -> None:
    memory.ingest(notes)
    before = passages(memory)
    gone = sorted(notes.rglob("*.md"))[: COUNT // 2]
    for path in gone:
        path.unlink()
    report = memory.ingest(notes)
    assert counts(report) == {"removed": len(gone), "unchanged": COUNT - len(gone)}
    assert report.caution is None
    assert len(memory.undo()) == len(gone)
    assert passages(memory) == before
    # Whoever brings a file back keeps it, until its file is there again.
    assert counts(memory.ingest(notes)) == {"unchanged": COUNT - len(gone)}
    assert passages(memory) == before
    write(gone[0], 100)
    assert memory.ingest(notes).count("changed") == 1
    gone[0].unlink()
    assert memory.ingest(notes).count("removed") == 1
    check_whole(memory)


def test_fewer_than_a_handful_may_be_deleted_together(memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "few"
    for number in range(HANDFUL - 1):
        write(folder / f"{number}.md", number)
    (folder / "other.bin").touch()
    memory.ingest(folder)
    for path in folder.glob("*.md"):
        path.unlink()
    assert counts(memory.ingest(folder)) == {"removed": HANDFUL - 1}
    assert len(memory.undo()) == HANDFUL - 1


def test_what_undo_brought_back_without_text_is_left_alone(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    (notes / "n0.md").write_text("", encoding="utf-8")
    assert memory.ingest(notes).count("removed") == 1
    assert [row.key for row in memory.undo()] == ["n0.md"]
    assert counts(memory.ingest(notes)) == {"skipped": 1, "unchanged": COUNT - 1}
    assert len(keys(memory)) == COUNT


def test_excluded_files_are_no_missing_disk(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    (notes / ".plaitignore").write_text("*\n", encoding="utf-8")
    assert counts(memory.ingest(notes)) == {"removed": COUNT}
    assert len(memory.undo()) == COUNT
    assert memory.ingest(notes).reports == ()


def test_the_removal_of_one_run_is_one_step_and_the_next_undo_an_older_one(
    memory: Memory, notes: Path
) -> None:
    memory.ingest(notes)
    for number in (0, 1):
        [path] = notes.rglob(f"n{number}.md")
        path.unlink()
        memory.ingest(notes)
    assert [[row.key for row in memory.undo()] for _ in range(2)] == [["sub/n1.md"], ["n0.md"]]
    with pytest.raises(NotFound):
        memory.undo()


@pytest.mark.parametrize("changed", ["", "and more"], ids=["same", "changed"])
def test_files_that_come_back_get_their_old_ids(memory: Memory, notes: Path, changed: str) -> None:
    memory.ingest(notes)
    before, old = keys(memory), passages(memory)
    shutil.rmtree(notes / "sub")
    gone = memory.ingest(notes).count("removed")
    for number in range(COUNT):
        if number % 3:
            write(notes / ("", "sub", "sub/deep")[number % 3] / f"n{number}.md", number, changed)
    if not changed:
        for number in range(COUNT):
            write(notes / ("", "sub", "sub/deep")[number % 3] / f"n{number}.md", number)
    assert memory.ingest(notes).count("added") == gone
    assert keys(memory) == before
    assert changed or passages(memory) == old
    assert memory.stats().trash_count == (gone if changed else 0)
    check_whole(memory)


@pytest.mark.parametrize("how", ["removed", "deleted"])
def test_another_text_at_the_path_of_a_deleted_file_leaves_the_deleted_text_restorable(
    memory: Memory, tmp_path: Path, how: str
) -> None:
    todo = write(tmp_path / "n/todo.md", 1, "kilimanjaro")
    write(tmp_path / "n/other.md", 2)
    memory.ingest(tmp_path / "n")
    before = memory.lookup("todo.md")[0]
    if how == "removed":
        todo.unlink()
        assert memory.ingest(tmp_path / "n").count("removed") == 1
    else:
        memory.delete("todo.md")
    for text in ("everest", "elbrus"):
        write(todo, 1, text)
        memory.ingest(tmp_path / "n")
        assert text in memory.get("todo.md").text
    assert memory.lookup("todo.md")[0].id == before.id
    [back] = memory.undo("todo.md")
    assert back.id == before.id
    assert memory.get("todo.md").text == before.text
    memory.undo("todo.md")
    assert "elbrus" in memory.get("todo.md").text
    memory.delete("todo.md", purge=True)
    assert memory.stats().trash_count == 0
    check_whole(memory)


def test_a_purged_file_comes_back_as_a_new_one(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    before = memory.lookup("n0.md")[0].id
    memory.delete("n0.md", purge=True)
    memory.ingest(notes)
    assert memory.lookup("n0.md")[0].id != before


# -- moved folders -----------------------------------------------------------------------------


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize(
    ("target", "ingested", "prefix"),
    [
        ("elsewhere", "elsewhere", ""),
        ("vault/notes", "vault/notes", ""),
        ("vault/notes", "vault", "notes/"),
        ("vault/renamed", "vault", "renamed/"),
        ("notes2/inner/notes", "notes2", "inner/notes/"),
    ],
)
def test_a_moved_folder_keeps_its_documents(
    memory: Memory,
    notes: Path,
    target: str,
    ingested: str,
    prefix: str,
    incremental: bool,
) -> None:
    memory.ingest(notes)
    before, old = documents(memory), passages(memory)
    place = notes.parent / target
    place.parent.mkdir(parents=True, exist_ok=True)
    notes.rename(place)
    report = memory.ingest(notes.parent / ingested, incremental=incremental)
    assert counts(report) == {"moved": COUNT}
    after = documents(memory)
    assert {id_: prefix + (row.key or "") for id_, row in before.items()} == keys(memory)
    assert all(row.source == str(notes.parent / ingested) for row in after.values())
    assert all(Path(row.path or "").exists() for row in after.values())
    assert {row.updated_at for row in after.values()} == {row.updated_at for row in before.values()}
    assert passages(memory) == old
    assert [hit.doc_id for hit in memory.search("word7")][:1] == [f"{prefix}sub/n7.md"]
    assert counts(memory.ingest(notes.parent / ingested)) == {"unchanged": COUNT}
    check_whole(memory)


def test_a_moved_folder_that_also_changed_is_still_the_same(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    before = keys(memory)
    place = notes.rename(notes.with_name("moved"))
    write(place / "n0.md", 0, "edited")
    (place / "n3.md").unlink()
    write(place / "new.md", 99)
    report = memory.ingest(place)
    assert counts(report) == {"moved": COUNT - 2, "changed": 1, "removed": 1, "added": 1}
    gone = {id_ for id_, key in before.items() if key == "n3.md"}
    assert before.keys() - keys(memory).keys() == gone
    assert [row.key for row in memory.undo()] == ["n3.md"]
    assert len(keys(memory)) == COUNT + 1


def test_half_of_a_folder_moved_takes_only_what_is_there(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    before = keys(memory)
    one, other = notes.with_name("one"), notes.with_name("other")
    for number, path in enumerate(sorted(notes.rglob("*.md"))):
        target = (one if number < 0.6 * COUNT else other) / path.relative_to(notes)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    shutil.rmtree(notes)
    assert set(counts(memory.ingest(one))) == {"moved"}
    assert keys(memory) == before
    assert set(counts(memory.ingest(other))) == {"moved"}
    assert keys(memory) == before
    assert {row.source for row in documents(memory).values()} == {str(one), str(other)}


def test_a_folder_renamed_inside_stays_in_its_source_and_its_keys_follow(
    memory: Memory, notes: Path
) -> None:
    memory.ingest(notes)
    before, old = keys(memory), passages(memory)
    (notes / "sub").rename(notes / "runbooks")
    report = memory.ingest(notes)
    assert set(counts(report)) == {"moved", "unchanged"}
    moved = {id_: (key or "").replace("sub/", "runbooks/", 1) for id_, key in before.items()}
    assert keys(memory) == moved
    assert passages(memory) == old
    # As it would be read for the first time.
    assert memory.lookup("runbooks/n1.md")[0].memory_type == "procedural"
    check_whole(memory)


def test_a_copy_is_no_move(memory: Memory, notes: Path) -> None:
    memory.ingest(notes)
    shutil.copytree(notes, notes.with_name("copy"))
    assert counts(memory.ingest(notes.with_name("copy"))) == {"added": COUNT}
    assert len(keys(memory)) == 2 * COUNT


def test_a_licence_shared_with_a_missing_disk_does_not_move_it(
    memory: Memory, notes: Path, tmp_path: Path
) -> None:
    memory.ingest(notes)
    before = documents(memory)
    write(tmp_path / "project/n0.md", 0)
    notes.rename(tmp_path / "away")
    memory.ingest(tmp_path / "project")
    notes.mkdir()
    write(tmp_path / "project/sub/n1.md", 1)
    memory.ingest(tmp_path / "project")
    assert before.items() <= documents(memory).items()
    assert len(documents(memory)) == COUNT + 2


@pytest.mark.parametrize(("old", "new"), [("old", "new"), ("", "new"), ("old", "")])
def test_a_moved_folder_gets_the_project_that_it_is_read_into_and_that_is_told(
    tmp_path: Path, notes: Path, old: str, new: str
) -> None:
    with Memory.open(tmp_path / "m.db", embedder="none", project=old) as memory:
        memory.ingest(notes)
        before = keys(memory)
    place = notes.rename(notes.with_name("moved"))
    write(place / "n0.md", 0, "edited")
    (place / "n3.md").unlink()
    write(place / "new.md", 99)
    with Memory.open(tmp_path / "m.db", embedder="none", project=new) as memory:
        report = memory.ingest(place)
        assert counts(report) == {"moved": COUNT - 2, "changed": 1, "removed": 1, "added": 1}
        assert report.taken_from == {old or "personal": COUNT}
        [remark] = ingest_remarks(report)
        assert f"{COUNT} documents moved here from project {old or 'personal'}" in remark
        assert ingest_dict(report, new)["taken_from"] == report.taken_from
        after = keys(memory)
        added = {id_ for id_, key in after.items() if key == "new.md"}
        assert {id_: key for id_, key in before.items() if key != "n3.md"} == {
            id_: key for id_, key in after.items() if id_ not in added
        }
        assert {row.project for row in documents(memory).values()} == {new or None}
        assert memory.ingest(place).taken_from == {}
        # What was deleted on the way can be restored where it would be now.
        assert [row.key for row in memory.undo()] == ["n3.md"]
        check_whole(memory)


def test_a_folder_of_which_less_is_left_stays_in_its_project(tmp_path: Path, notes: Path) -> None:
    with Memory.open(tmp_path / "m.db", embedder="none", project="old") as memory:
        memory.ingest(notes)
        before = documents(memory)
    place = notes.rename(notes.with_name("moved"))
    edited = round((1 - WHOLE_SHARE) * COUNT) + 1
    for path in sorted(place.rglob("*.md"))[:edited]:
        path.write_text("something else\n", encoding="utf-8")
    with Memory.open(tmp_path / "m.db", embedder="none", project="new") as memory:
        report = memory.ingest(place)
        assert (counts(report), report.taken_from) == ({"added": COUNT}, {})
        assert before.items() <= documents(memory).items()
    # In its own project it is recognised.
    shutil.copytree(place, notes.with_name("again"))
    with Memory.open(tmp_path / "m.db", embedder="none", project="old") as memory:
        report = memory.ingest(notes.with_name("again"))
        assert (report.count("added"), report.taken_from) == (0, {})
        assert {row.project for row in documents(memory).values()} == {"old", "new"}
        assert len(documents(memory)) == 2 * COUNT


@pytest.mark.parametrize("source", ["one", "one/docs"], ids=["a folder inside", "half of it"])
def test_a_clone_takes_no_documents_of_a_missing_disk_from_another_project(
    tmp_path: Path, source: str
) -> None:
    for number in range(4):
        write(tmp_path / f"one/docs/n{number}.md", number)
    write(tmp_path / "one/more.md", 9)
    with Memory.open(tmp_path / "m.db", embedder="none", project="one") as memory:
        memory.ingest(tmp_path / source)
        before = documents(memory)
    (tmp_path / "one").rename(tmp_path / "away")
    same = 4 if source == "one" else 2
    for number in range(4):
        write(tmp_path / f"two/docs/n{number}.md", number, "" if number < same else "Not yours.")
    with Memory.open(tmp_path / "m.db", embedder="none", project="two") as memory:
        assert counts(memory.ingest(tmp_path / "two")) == {"added": 4}
        assert before.items() <= documents(memory).items()


# -- single files ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["renamed.md", "sub/n0.md", "new/place/renamed.md"])
def test_a_renamed_file_keeps_its_ids(memory: Memory, notes: Path, target: str) -> None:
    memory.ingest(notes)
    before, old = keys(memory), passages(memory)
    (notes / target).parent.mkdir(parents=True, exist_ok=True)
    (notes / "n0.md").rename(notes / target)
    assert counts(memory.ingest(notes)) == {"moved": 1, "unchanged": COUNT - 1}
    [id_] = [id_ for id_, key in before.items() if key == "n0.md"]
    assert keys(memory) == {**before, id_: target}
    assert passages(memory) == old
    assert memory.stats().trash_count == 0
    check_whole(memory)


def test_a_title_from_the_name_follows_the_name(memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "one-thing.txt").write_text("Nothing but text.\n", encoding="utf-8")
    memory.ingest(folder)
    before = memory.lookup("one-thing.txt")[0].id
    (folder / "one-thing.txt").rename(folder / "another.txt")
    memory.ingest(folder)
    after = memory.lookup("another.txt")[0]
    assert (after.id, after.title) == (before, "another")
    check_whole(memory)


def test_a_file_moved_to_another_folder_keeps_its_id_in_either_order(
    memory: Memory, notes: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    write(other / "mine.md", 50)
    for folder in (notes, other):
        memory.ingest(folder)
    before = keys(memory)
    (notes / "n0.md").rename(other / "n0.md")
    (notes / "n3.md").rename(other / "n3.md")
    # Where it was is read first: by then it is in the trash.
    assert memory.ingest(notes).count("removed") == 2
    assert counts(memory.ingest(other)) == {"unchanged": 1, "moved": 2}
    (notes / "n6.md").rename(other / "n6.md")
    assert counts(memory.ingest(other)) == {"unchanged": 3, "moved": 1}
    assert memory.ingest(notes).count("removed") == 0
    assert keys(memory) == before


def test_files_of_the_same_content_keep_to_themselves(memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "twins"
    for name in ("a", "b", "c"):
        write(folder / name / "index.md", 1)
    memory.ingest(folder)
    before = {key: id_ for id_, key in keys(memory).items()}
    (folder / "a").rename(folder / "d")
    (folder / "c/index.md").rename(folder / "c/other.md")
    assert counts(memory.ingest(folder)) == {"unchanged": 1, "moved": 2}
    after = {key: id_ for id_, key in keys(memory).items()}
    assert after["b/index.md"] == before["b/index.md"]
    assert set(after) == {"b/index.md", "d/index.md", "c/other.md"}
    assert set(after.values()) == set(before.values())


def test_one_file_takes_no_document_from_another_project(tmp_path: Path) -> None:
    write(tmp_path / "one/legal/licence.md", 1)
    write(tmp_path / "one/other.md", 2)
    write(tmp_path / "one/deleted.md", 3)
    with Memory.open(tmp_path / "m.db", embedder="none", project="one") as memory:
        memory.ingest(tmp_path / "one")
        (tmp_path / "one/deleted.md").unlink()
        memory.ingest(tmp_path / "one")
        before = keys(memory)
    (tmp_path / "one/legal/licence.md").unlink()
    write(tmp_path / "two/licence.md", 1)
    write(tmp_path / "two/deleted.md", 3)
    write(tmp_path / "two/more.md", 4)
    with Memory.open(tmp_path / "m.db", embedder="none", project="two") as memory:
        assert counts(memory.ingest(tmp_path / "two")) == {"added": 3}
        assert before.items() <= keys(memory).items()
    with Memory.open(tmp_path / "m.db", embedder="none", project="one") as memory:
        assert [row.key for row in memory.undo()] == ["deleted.md"]


def test_a_deleted_file_is_taken_back_only_in_its_project(tmp_path: Path) -> None:
    write(tmp_path / "t/x.md", 1)
    with Memory.open(tmp_path / "m.db", embedder="none", project="one") as memory:
        memory.ingest(tmp_path / "t")
        [deleted] = memory.delete("x.md").ids
    with Memory.open(tmp_path / "m.db", embedder="none", project="two") as memory:
        assert counts(memory.ingest(tmp_path / "t")) == {"added": 1}
        added = memory.lookup("x.md")[0]
        assert (added.project, added.id == deleted) == ("two", False)
        memory.delete("x.md")
        write(tmp_path / "moved/y.md", 1)
        (tmp_path / "t/x.md").unlink()
    with Memory.open(tmp_path / "m.db", embedder="none", project="one") as memory:
        assert [row.id for row in memory.undo()] == [deleted]
    with Memory.open(tmp_path / "m.db", embedder="none", project="two") as memory:
        assert counts(memory.ingest(tmp_path / "moved")) == {"moved": 1}
        assert memory.lookup("y.md")[0].id == added.id


def test_a_restored_document_that_meets_its_unchanged_file_again_is_unchanged(
    memory: Memory, notes: Path
) -> None:
    memory.ingest(notes)
    before = documents(memory)
    memory.delete("n0.md")
    memory.undo()
    assert counts(memory.ingest(notes, incremental=True)) == {"unchanged": COUNT}
    after = {id_: row._replace(indexed_at=0) for id_, row in documents(memory).items()}
    assert after == {id_: row._replace(indexed_at=0) for id_, row in before.items()}


@pytest.mark.parametrize("slices", [(COUNT,), (COUNT - 1,), (COUNT // 2,), (COUNT - 2, 1), (1, 1)])
def test_a_folder_that_another_process_removes_meanwhile_moves_all_the_same(
    tmp_path: Path, notes: Path, slices: tuple[int, ...]
) -> None:
    for when in count():
        place = shutil.copytree(notes, tmp_path / f"place{when}")
        with Memory.open(tmp_path / f"{when}.db", embedder="hashing", project="") as memory:
            memory.ingest(place)
            before = documents(memory).keys()
            moved = place.rename(tmp_path / f"moved{when}")
            place.mkdir()
            was_removed = _ingest_beside(memory, moved, [*before], slices, when)
            assert documents(memory).keys() == before, when
            check_whole(memory)
        if not was_removed:
            break
    assert when > 3


def _ingest_beside(
    memory: Memory, folder: Path, ids: list[str], slices: tuple[int, ...], when: int
) -> bool:
    """Ingest a moved folder while its documents are removed; return whether they were.

    A slice goes before a certain read of the search for moves, the next one before the read after
    it, and what is left after the search.
    """
    reads, follow = count(), moves.follow
    later = iter(ids)
    turns = {when + place: [*islice(later, size)] for place, size in enumerate(slices)}

    def reading(read: Callable[..., Any]) -> Callable[..., Any]:
        def beside(*given: Any, **named: Any) -> Any:
            if turn := turns.get(next(reads)):
                memory.delete(*turn)
            return read(*given, **named)

        return beside

    def following(store: Any, *given: Any) -> moves.Moves:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("scan", "trashed"):
                patch.setattr(store, name, reading(getattr(store, name)))
            found = follow(store, *given)
        rest = [id_ for id_, row in documents(memory).items() if str(folder) not in str(row.path)]
        if rest and next(reads) > when:
            memory.delete(*rest)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moves, "follow", following)
        memory.ingest(folder)
    return next(reads) > when + 1


def test_only_files_of_the_same_content_are_looked_for_where_they_were(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = memory.ingest(notes)
    twin = notes / "n3.md"
    looked_at: list[str] = []

    def noted(path: str) -> bool:
        looked_at.append(path)
        return not Path(path).exists()

    elsewhere = notes.parent / "elsewhere"
    write(elsewhere / "same.md", 3)
    write(elsewhere / "other.md", 4, "New.")  # as long as some
    monkeypatch.setattr(moves, "is_missing", noted)
    report = memory.ingest(elsewhere)
    assert counts(report) == {"added": 2}
    assert [path for path in looked_at if Path(path).parent != elsewhere] == [str(twin)]
    assert len(before.reports) == COUNT


def test_the_first_files_of_a_memory_are_read_once(
    memory: Memory, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(file: sources.SourceFile) -> str:
        raise AssertionError(file)

    monkeypatch.setattr(sources, "hash_file", never)
    assert counts(memory.ingest(notes)) == {"added": COUNT}


@pytest.mark.parametrize("how", ["out and back", "back under another name", "back with more text"])
def test_a_file_that_comes_back_keeps_its_status_and_its_feedback(
    memory: Memory, tmp_path: Path, how: str
) -> None:
    todo = write(tmp_path / "n/todo.md", 1)
    write(tmp_path / "n/other.md", 2)
    memory.ingest(tmp_path / "n")
    before = memory.lookup("todo.md")[0]
    memory.mark("todo.md", status="done")
    memory.feedback("todo.md", "good")
    shutil.move(todo, tmp_path / "todo.md")
    assert memory.ingest(tmp_path / "n").count("removed") == 1
    back = todo.with_name("name.md") if how == "back under another name" else todo
    shutil.move(tmp_path / "todo.md", back)
    if how == "back with more text":
        back.write_text(f"{back.read_text('utf-8')}\n# More\n\nMore.\n", encoding="utf-8")
    memory.ingest(tmp_path / "n")
    document = memory.lookup(back.name)[0]
    assert (document.id, document.status) == (before.id, "done")
    if how == "back with more text":  # that is another passage
        return
    passage = memory.passages_of(document.id)[0]
    (candidate,) = memory.engine.hydrate([passage.ref], ranking=True).values()
    assert candidate.use is not None
    assert candidate.use.good == 1


def test_a_file_moved_to_the_name_of_a_deleted_one_stays_itself(
    memory: Memory, tmp_path: Path
) -> None:
    plan, draft = write(tmp_path / "n/plan.md", 1), write(tmp_path / "n/draft.md", 2)
    write(tmp_path / "n/other.md", 3)
    memory.ingest(tmp_path / "n")
    memory.mark("plan.md", status="done")
    first, second = (memory.lookup(name)[0] for name in ("plan.md", "draft.md"))
    plan.unlink()
    assert memory.ingest(tmp_path / "n").count("removed") == 1
    draft.rename(plan)
    report = memory.ingest(tmp_path / "n")
    assert (report.count("moved"), report.count("removed")) == (1, 0)
    now = memory.lookup("plan.md")[0]
    assert (now.id, now.status) == (second.id, None)
    # What was deleted is not lost: it comes back once the name is free.
    plan.rename(draft)
    memory.ingest(tmp_path / "n")
    [back] = memory.undo(first.id)
    assert (back.key, back.status) == ("plan.md", "done")


def test_a_moved_file_is_the_document_that_is_there_and_not_its_deleted_copy(
    memory: Memory, tmp_path: Path
) -> None:
    copy, file = write(tmp_path / "n/sub/a.md", 1), write(tmp_path / "n/b.md", 1)
    write(tmp_path / "n/other.md", 3)
    memory.ingest(tmp_path / "n")
    memory.mark("b.md", status="done")
    copy.unlink()
    memory.ingest(tmp_path / "n")
    file.rename(tmp_path / "n/a.md")
    report = memory.ingest(tmp_path / "n")
    assert (report.count("moved"), report.count("removed")) == (1, 0)
    assert memory.lookup("a.md")[0].status == "done"


@pytest.mark.parametrize("more", ["", "x"], ids=["of one size", "of several sizes"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("ab", {"a": "b", "b": "a"}, id="swapped"),
        pytest.param("abc", {"a": "b", "b": "c", "c": "a"}, id="in a ring"),
        pytest.param("ab", {"b": "a", "c": "b"}, id="each to the next name"),
        pytest.param("abc", {"a": "new", "b": "a", "c": "b", "d": "c"}, id="one put before"),
    ],
)
def test_files_that_exchange_their_names_keep_their_ids(
    memory: Memory, tmp_path: Path, before: str, after: dict[str, str], more: str
) -> None:
    folder = tmp_path / "n"
    for number, name in enumerate(before):
        write(folder / f"{name}.md", number, more * number)
    write(folder / "other.md", 99)
    memory.ingest(folder)
    memory.mark("b.md", status="done")
    ids = {name: memory.lookup(f"{name}.md")[0].id for name in before}
    texts = {name: (folder / f"{name}.md").read_text("utf-8") for name in before}
    for name in before:
        (folder / f"{name}.md").rename(tmp_path / name)
    for name, content in after.items():
        if content in texts:
            (tmp_path / content).rename(folder / f"{name}.md")
        else:
            (folder / f"{name}.md").write_text("Something new stands here.\n", encoding="utf-8")
    report = memory.ingest(folder)
    assert (report.count("moved"), report.count("removed")) == (len(before), 0)
    for name, content in after.items():
        document = memory.lookup(f"{name}.md")[0]
        if content in ids:
            assert (document.id, document.text) == (ids[content], texts[content])
            assert document.status == ("done" if content == "b" else None)
            assert document.title == f"Note {before.index(content)}"
    again = memory.ingest(folder)
    assert again.count("unchanged") == len(after) + 1


def test_a_copy_of_a_file_that_was_edited_since_is_no_exchange(
    memory: Memory, tmp_path: Path
) -> None:
    file = write(tmp_path / "n/a.md", 1)
    write(tmp_path / "n/other.md", 2)
    memory.ingest(tmp_path / "n")
    before = memory.lookup("a.md")[0]
    shutil.copy2(file, tmp_path / "n/copy.md")
    write(file, 1, "More of it.")
    report = memory.ingest(tmp_path / "n")
    assert (report.count("added"), report.count("changed")) == (1, 1)
    assert memory.lookup("a.md")[0].id == before.id
