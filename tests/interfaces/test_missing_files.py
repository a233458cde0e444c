"""Missing, returning and moved files on the command line: told once, undone by a command."""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.command import PATIENCE_S, PLAIT, environment, spawn
from tests.interfaces.conftest import Plait
from tests.interfaces.test_cli_process import heed_ctrl_c, next_line, posix_only

COUNT = 20


@pytest.fixture
def notes(work: Path) -> Path:
    folder = work / "notes"
    folder.mkdir()
    fill(folder)
    return folder


def fill(folder: Path) -> None:
    for number in range(COUNT):
        text = f"# Note {number}\n\nAbout word{number}.\n"
        (folder / f"n{number}.md").write_text(text, encoding="utf-8")


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def ids(plait: Plait) -> dict[str, str]:
    rows = plait("timeline", "--limit", "100").json["results"]
    return {row["doc_id"]: row["id"] for row in rows}


def test_an_empty_folder_is_one_sentence_and_exit_code_1(plait: Plait, notes: Path) -> None:
    assert plait("ingest", "notes").code == 0
    before = ids(plait)
    empty(notes)
    ran = plait("ingest", "notes")
    assert (ran.code, ran.json["kept"], ran.json["removed"]) == (1, COUNT, 0)
    assert ran.err == (
        f"plait: {notes} has lost 20 files at once, perhaps because a disk is not mounted: what is "
        "known of them was kept. To remove what is missing, run: "
        f"plait ingest {notes} --allow-removal\n"
    )
    assert ran.json["caution"] in ran.err
    assert "20 kept" in plait("ingest", "notes", "--format", "text").out
    quiet = plait("ingest", "notes", "--quiet")
    assert (quiet.code, quiet.err) == (1, ran.err)
    assert ids(plait) == before
    done = plait("ingest", "notes", "--allow-removal")
    assert (done.code, done.json["removed"], done.json["caution"]) == (0, COUNT, None)
    assert ids(plait) == {}
    assert len(plait("delete", "--undo").json["restored"]) == COUNT
    assert ids(plait) == before


def test_one_lost_file_is_told_in_the_singular(plait: Plait, work: Path) -> None:
    (work / "lone").mkdir()
    (work / "lone" / "a.md").write_text("Alone.\n", encoding="utf-8")
    plait("ingest", "lone")
    empty(work / "lone")
    err = plait("ingest", "lone").err
    assert (
        "has lost 1 file at once" in err and "what is known of it was kept. To remove what" in err
    )


def test_files_come_back_with_their_ids_and_moved_ones_keep_theirs(
    plait: Plait, notes: Path, work: Path
) -> None:
    plait("ingest", "notes")
    before = ids(plait)
    empty(notes)
    plait("ingest", "notes", "--allow-removal")
    fill(notes)
    assert plait("ingest", "notes").json["added"] == COUNT
    assert ids(plait) == before
    notes.rename(work / "moved")
    ran = plait("ingest", "moved")
    assert (ran.code, ran.json["moved"], ran.json["added"], ran.err) == (0, COUNT, 0, "")
    assert ids(plait) == before
    assert plait("stats").json["doc_count"] == COUNT


def test_watch_repeats_the_caution_of_no_folder(
    plait: Plait, notes: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watchfiles = pytest.importorskip("watchfiles")
    other = work / "other"
    other.mkdir()
    fill(other)
    plait("ingest", "notes", "other")
    empty(notes)
    empty(other)

    def changes(*paths: str, **options: object) -> Iterator[set[str]]:
        yield set()  # the watcher is up
        yield {"x"}
        fill(other)  # it is back, and what is lost next is told
        yield {"x"}
        empty(other)
        yield {"x"}

    monkeypatch.setattr(watchfiles, "watch", changes)
    err = plait("watch", "notes", "other").err
    told = [err.count(f"{folder} has lost 20 files at once") for folder in (notes, other)]
    assert told == [1, 2]


@posix_only
def test_watch_keeps_what_it_knows_of_an_emptied_folder_and_says_so_once(
    work: Path, notes: Path
) -> None:
    pytest.importorskip("watchfiles")
    disk = work / "disk"
    disk.mkdir()
    notes = notes.rename(disk / "notes")
    with subprocess.Popen(
        [*PLAIT, "watch", "disk"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=heed_ctrl_c,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert json.loads(child.stdout.readline())["added"] == COUNT
        assert b"watching" in child.stderr.readline()
        notes.rename(work / "unmounted")  # all at once
        for _ in range(2):
            report = json.loads(next_line(child, disk / "photo.jpg"))
            assert (report["kept"], report["removed"]) == (COUNT, 0)
        child.send_signal(signal.SIGINT)
        try:
            _, err = child.communicate(timeout=PATIENCE_S)
        finally:
            child.kill()
    assert err.count(b"has lost 20 files at once") == 1
    assert spawn("stats").json["doc_count"] == COUNT


@pytest.mark.parametrize("verb", [("ingest",), ("store", "--file")])
def test_a_named_file_that_is_too_large_fails_and_names_the_setting(plait, tmp_path, verb):
    path = tmp_path / "big.md"
    path.write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    ran = plait("--quiet", *verb, str(path))
    assert ran.code == 1
    assert "Raise the limit with: plait config set max_file_mb 50" in ran.err


@pytest.mark.parametrize(
    ("words", "code"), [(("get",), 3), (("delete",), 3), (("about",), 3), (("ingest",), 2)], ids=str
)
def test_a_name_that_is_not_utf8_is_shown_and_no_defect_of_python_is(plait, words, code):
    plait("store", "a fact")
    ran = plait(*words, "bad\udcff.md")
    assert ran.code == code
    assert "codec" not in ran.err and "surrogate" not in ran.err
    assert words == ("about",) or "bad" in ran.err
