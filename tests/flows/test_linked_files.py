"""Files that moved and left a link behind, and files whose text is known but was not read again."""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plait.memory import Memory
from plait.present.text import ingest_remarks
from plait.types import Filter
from plait.types.reports import IngestReport
from plait.writing import sources

EVERY_FILE = Filter(kinds=("file",))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db", embedder="hashing", project="") as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two folders, one with a code for a gate and notes beside it."""
    folder = tmp_path / "home"
    write(folder / "a/gate.md", "The gate code is 1111")
    for number in range(4):
        write(folder / f"a/n{number}.md", f"Note number {number}")
    write(folder / "b/f.md", "Something else")
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def counts(report: IngestReport) -> Counter[str]:
    return Counter(row.outcome for row in report.reports)


def keys(memory: Memory) -> dict[str, str | None]:
    return {row.id: row.key for row in memory.engine.scan(EVERY_FILE)}


def codes(memory: Memory) -> list[str]:
    return [hit.text.strip() for hit in memory.search("gate code", mode="keyword")]


def replace_by_link(old: Path, new: Path) -> None:
    shutil.move(old, new)
    old.symlink_to(os.path.relpath(new, old.parent))


# -- a link is left at the old place -------------------------------------------------------------


@pytest.mark.parametrize("is_edited", [False, True])
def test_a_document_follows_the_link_that_its_file_left_behind(
    memory: Memory, home: Path, is_edited: bool
) -> None:
    memory.ingest(home)
    before = memory.lookup("a/gate.md")[0].id
    replace_by_link(home / "a/gate.md", home / "b/gate.md")
    if is_edited:
        write(home / "b/gate.md", "The gate code is 2222")
    report = memory.ingest(home)
    assert counts(report)["changed" if is_edited else "moved"] == 1
    assert ingest_remarks(report) == []
    assert keys(memory)[before] == "b/gate.md"
    assert codes(memory) == ["The gate code is 2222" if is_edited else "The gate code is 1111"]


def rename_and_link(home: Path) -> None:
    replace_by_link(home / "a", home / "c")


def rename_and_link_and_edit_all(home: Path) -> None:
    rename_and_link(home)
    for path in (home / "c").iterdir():
        write(path, path.read_text(encoding="utf-8") + "and more")


@pytest.mark.parametrize("happen", [rename_and_link, rename_and_link_and_edit_all])
@pytest.mark.parametrize("named", ["a", "c", "."], ids=["the link", "the folder", "around it"])
def test_the_documents_of_a_folder_follow_the_link_that_it_left_behind(
    memory: Memory, home: Path, happen: Callable[[Path], None], named: str
) -> None:
    memory.ingest(home if named == "." else home / "a")
    before = keys(memory)
    happen(home)
    memory.ingest(home / named)
    if named == "c" and happen is rename_and_link_and_edit_all:
        return  # nothing tells that it is the same folder; the link says it when it is met
    assert keys(memory).keys() == before.keys()
    assert {Path(row.path or "").parent.name for row in memory.engine.scan(EVERY_FILE)} <= {
        "c",
        "b",
    }


def test_a_folder_above_that_became_a_link_keeps_its_documents(
    memory: Memory, home: Path, tmp_path: Path
) -> None:
    memory.ingest(home / "a")
    before = keys(memory)
    replace_by_link(home, tmp_path / "disk")
    memory.ingest(home / "a")
    assert keys(memory) == before


def test_a_caller_that_chooses_patterns_moves_nothing_through_a_link_to_the_folder(
    memory: Memory, home: Path
) -> None:
    memory.ingest(home / "a")
    before = keys(memory)
    rename_and_link_and_edit_all(home)
    memory.ingest(home / "a", patterns=["*"])
    assert before.items() <= keys(memory).items()
    assert len(keys(memory)) == 2 * len(before)


def test_what_was_read_twice_before_leaves_one_document(memory: Memory, home: Path) -> None:
    memory.ingest(home)
    shutil.copytree(home / "a", home / "c")
    memory.ingest(home)
    shutil.rmtree(home / "a")
    (home / "a").symlink_to("c")
    assert counts(memory.ingest(home))["removed"] == 5
    assert {key for key in keys(memory).values() if key} >= {"c/gate.md"}
    assert len(keys(memory)) == 6
    memory.undo()
    assert len(keys(memory)) == 11


def test_a_link_to_an_ignored_file_leaves_the_index(memory: Memory, home: Path) -> None:
    memory.ingest(home)
    write(home / ".plaitignore", "private/")
    (home / "private").mkdir()
    replace_by_link(home / "a/gate.md", home / "private/gate.md")
    assert counts(memory.ingest(home))["removed"] == 1
    assert codes(memory) == []


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("is_there", [True, False], ids=["there", "its disk is away"])
def test_what_is_known_behind_a_link_that_leads_out_is_kept_and_told(
    memory: Memory, home: Path, tmp_path: Path, is_folder: bool, is_there: bool
) -> None:
    memory.ingest(home)
    before = keys(memory)
    (tmp_path / "disk").mkdir()
    place = home / ("a" if is_folder else "a/gate.md")
    replace_by_link(place, tmp_path / "disk" / place.name)
    if not is_there:
        (tmp_path / "disk").rename(tmp_path / "unplugged")
    for _ in range(2):
        report = memory.ingest(home)
        [row] = [row for row in report.reports if row.old_text]
        assert row.path == str(place)
        assert f"its text of {row.old_text} is kept" in row.reason
        assert len(ingest_remarks(report)) == 1
        assert keys(memory) == before


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("is_edited", [False, True])
@pytest.mark.parametrize("first", ["old", "new"])
def test_a_file_that_moved_to_another_source_and_left_a_link_is_known_once(
    memory: Memory, home: Path, tmp_path: Path, is_folder: bool, is_edited: bool, first: str
) -> None:
    memory.ingest(home)
    write(tmp_path / "other/o.md", "Another source")
    memory.ingest(tmp_path / "other")
    place = home / ("a" if is_folder else "a/gate.md")
    replace_by_link(place, tmp_path / "other" / place.name)
    if is_edited:
        write(tmp_path / "other" / ("a" * is_folder) / "gate.md", "The gate code is 2222")
    order = [home, tmp_path / "other"] if first == "old" else [tmp_path / "other", home]
    for folder in (*order, *order):
        report = memory.ingest(folder)
    assert ingest_remarks(report) == []
    assert codes(memory) == ["The gate code is 2222" if is_edited else "The gate code is 1111"]
    assert len(keys(memory)) == 7
    if is_edited and not is_folder:
        memory.undo()
        assert "The gate code is 1111" in codes(memory)


def test_a_link_into_another_project_takes_no_text_from_this_one(
    tmp_path: Path, home: Path
) -> None:
    """There, nobody would find it who looks for it here."""
    path = tmp_path / "memory.db"
    write(tmp_path / "other/o.md", "Another source")
    with Memory.open(path, embedder="none", project="one") as one:
        one.ingest(home)
    replace_by_link(home / "a/gate.md", tmp_path / "other/gate.md")
    write(tmp_path / "other/gate.md", "The gate code is 2222")
    with Memory.open(path, embedder="none", project="two") as two:
        two.ingest(tmp_path / "other")
    with Memory.open(path, embedder="none", project="one") as one:
        report = one.ingest(home)
        assert len(ingest_remarks(report)) == 1
        assert codes(one) == ["The gate code is 1111"]


def test_a_link_that_was_read_as_a_file_stays_a_document(memory: Memory, home: Path) -> None:
    write(home / "b/data.bin", "The gate code is 3333")
    (home / "b/latest.md").symlink_to("data.bin")
    memory.ingest(home)
    before = keys(memory)
    write(home / "b/new.md", "The gate code is 3333")
    memory.ingest(home)
    assert before.items() <= keys(memory).items()
    assert {"b/latest.md", "b/new.md"} <= {*keys(memory).values()}


# -- files of other types ------------------------------------------------------------------------


def included(memory: Memory, home: Path) -> None:
    memory.ingest(home, include=["code"])


def named(memory: Memory, home: Path) -> None:
    memory.ingest(home)
    memory.ingest(home / "b/gate.py")


def named_alone(memory: Memory, home: Path) -> None:
    memory.ingest(home / "b/gate.py")


@pytest.mark.parametrize("first", [included, named, named_alone])
@pytest.mark.parametrize("incremental", [False, True])
def test_a_file_of_another_type_that_is_a_document_is_read_again(
    memory: Memory,
    home: Path,
    first: Callable[[Memory, Path], None],
    incremental: bool,
) -> None:
    write(home / "b/gate.py", "gate_code = 1111")
    write(home / "b/other.py", "nothing = 0")
    first(memory, home)
    write(home / "b/gate.py", "gate_code = 222222")
    report = memory.ingest(home, incremental=incremental)
    assert [row.path for row in report.reports if row.outcome == "changed"] == [
        str(home / "b/gate.py")
    ]
    assert report.ignored == (0 if first is included else 1)
    assert any("222222" in text for text in codes(memory))
    assert not any("gate_code = 1111" in text for text in codes(memory))


def test_maintaining_reads_a_file_of_another_type_again(memory: Memory, home: Path) -> None:
    path = write(home / "b/gate.py", "gate_code = 1111")
    memory.ingest(home, include=["code"])
    write(path, "gate_code = 222222")
    assert memory.maintain(home).ingested == 1


def test_patterns_that_the_caller_gives_are_all_that_is_read(memory: Memory, home: Path) -> None:
    path = write(home / "b/gate.py", "gate_code = 1111")
    memory.ingest(home, include=["code"])
    write(path, "gate_code = 222222")
    assert counts(memory.ingest(home, patterns=["*.md"])) == {"unchanged": 6}


def test_a_file_of_another_type_in_an_ignored_folder_is_not_read(
    memory: Memory, home: Path
) -> None:
    path = write(home / "b/gate.py", "gate_code = 1111")
    memory.ingest(home, include=["code"])
    write(home / ".plaitignore", "b/")
    write(path, "gate_code = 222222")
    assert counts(memory.ingest(home)) == {"unchanged": 5, "removed": 1}


# -- text that could not be read again -----------------------------------------------------------


def grow(path: Path) -> None:
    write(path, "x" * (sources.MAX_SOURCE_BYTES + 1))


def become_binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\0binary")


@pytest.mark.parametrize("happen", [grow, become_binary])
def test_a_file_that_can_no_longer_be_read_says_of_when_its_text_is(
    memory: Memory, home: Path, happen: Callable[[Path], None]
) -> None:
    memory.ingest(home)
    happen(home / "a/gate.md")
    report = memory.ingest(home)
    [row] = [row for row in report.reports if row.outcome == "skipped"]
    assert row.old_text
    assert row.reason.endswith(f"; its text of {row.old_text} is kept")
    [remark] = ingest_remarks(report)
    assert str(home / "a/gate.md") in remark
    happen(home / "b/never-read.md")
    assert len([row for row in memory.ingest(home).reports if row.old_text]) == 1
    [trouble] = memory.maintain(home).troubles
    assert (trouble.code, trouble.subject) == ("old_text", str(home / "a/gate.md"))


# -- what plait itself has written ---------------------------------------------------------------


def exported(memory: Memory, home: Path) -> Path:
    memory.store("An assistant says: no floats for money.", session="s1", role="assistant")
    memory.export_folder(home / "snap")
    return home / "snap"


@pytest.mark.parametrize("place", [".", "snap", "snap/message"])
def test_a_snapshot_is_not_read_as_notes(memory: Memory, home: Path, place: str) -> None:
    snapshot = exported(memory, home)
    write(snapshot / "mine.md", "---\nplait: my own field\n---\nBeside it lies a note of mine.")
    report = memory.ingest(home / place)
    skipped = [row for row in report.reports if row.outcome == "skipped"]
    assert [Path(row.path).parent.name for row in skipped] == ["message"]
    assert {row.code for row in skipped} == {"exported"}
    assert len(memory.search("floats money", mode="keyword")) == 1
    assert len(memory.search("beside lies", mode="keyword")) == (place != "snap/message")


def test_a_file_of_a_snapshot_that_is_named_is_not_read_either(memory: Memory, home: Path) -> None:
    [path] = (exported(memory, home) / "message").iterdir()
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert counts(memory.ingest(path)) == {"skipped": 1}


@pytest.mark.parametrize("name", ["e.jsonl", "e.txt", "e.json", "e.md"])
@pytest.mark.parametrize("form", ["utf-8", "utf-8-sig", "utf-16", "windows", "blank line first"])
@pytest.mark.parametrize("kind", ["lines", "markdown"])
def test_no_form_of_an_export_makes_untrusted_text_the_owners(
    memory: Memory, home: Path, name: str, form: str, kind: str
) -> None:
    memory.store("A page says: floats are fine for money.", key="page", trust="untrusted")
    if kind == "lines":
        text = "\n".join(memory.export())
    else:
        memory.export_folder(home / "snap")
        [path] = (home / "snap/note").iterdir()
        text = path.read_text(encoding="utf-8")
    text = text.replace("\n", "\r\n") if form == "windows" else text
    text = "\n" + text if "blank" in form else text
    path = home / "b" / name
    path.write_bytes(text.encode(form if form.startswith("utf") else "utf-8"))
    assert counts(memory.ingest(path)) == {"skipped": 1}
    assert [hit.document.trust for hit in memory.search("floats money")] == ["untrusted"]


def test_the_header_of_a_snapshot_removes_nothing_that_the_memory_knows(
    memory: Memory, home: Path
) -> None:
    """Whoever can change a file could else empty a folder of notes in the memory."""
    memory.ingest(home)
    before = memory.stats().doc_count
    for path in home.rglob("*.md"):
        text = path.read_text(encoding="utf-8")
        write(path, f'---\nplait: 1\nid: "aaaaaaaaaaaaa"\n---\n{text}')
    report = memory.ingest(home)
    assert report.count("removed") == 0
    assert {row.code for row in report.reports if row.outcome == "skipped"} == {"exported"}
    assert memory.stats().doc_count == before


@pytest.mark.parametrize("happen", [grow, become_binary])
def test_a_named_file_that_cannot_be_read_is_an_error_and_one_of_a_folder_is_not(
    memory: Memory, home: Path, happen: Callable[[Path], None]
) -> None:
    path = home / "b/report.md"
    happen(path)
    unread = memory.ingest(path).unread
    assert unread is not None
    assert unread.subject == str(path)
    advised = unread.advice
    assert (advised is not None and advised.act == "raise_limit") == (happen is grow)
    assert memory.ingest(home).unread is None
    assert [trouble.subject for trouble in memory.maintain(path).troubles] == [str(path)]
    write(path, "")
    assert memory.ingest(path).unread is None
