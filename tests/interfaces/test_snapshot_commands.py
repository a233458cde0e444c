"""export --format markdown and import on the command line, also when it is killed."""

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from plait.exporting import markdown
from plait.memory import Memory
from tests.interfaces.command import PATIENCE_S, environment


def test_a_folder_goes_out_and_back(plait, notes, work):
    plait("ingest", "notes")
    plait("store", "--doc-id", "X", "--text", "líneas\nde 日本", "--tags", "a,b", "--pinned")
    done = plait("export", "--format", "markdown", "snapshot").json
    assert (done["documents"], done["written"], done["unchanged"]) == (4, 4, 0)
    assert stat.S_IMODE((work / "snapshot" / "snapshot.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((work / "snapshot" / "note").stat().st_mode) == 0o700
    assert plait("--format", "markdown", "export", "snapshot").json["unchanged"] == 4
    tried = plait("--db", "second.db", "import", "snapshot", "--dry-run").json
    assert (tried["added"], tried["source"], tried["dry_run"]) == (4, "markdown", True)
    assert not (work / "second.db").exists()
    assert plait("--db", "second.db", "import", "snapshot").json["added"] == 4
    again = plait("--db", "second.db", "import", "snapshot")
    assert again.json["unchanged"] == 4
    again = plait("--db", "second.db", "import", "snapshot", "--format", "text")
    assert again.out == "Imported 0 documents; 4 unchanged\n"


@pytest.mark.parametrize(
    ("others", "told"), [(1, "1 other Markdown file\n"), (2, "2 other Markdown files\n")]
)
def test_files_of_others_in_the_folder_are_counted(plait, work, others, told):
    plait("store", "a fact")
    plait("export", "--format", "markdown", "snapshot")
    for number in range(others):
        (work / "snapshot" / f"{number}.md").write_text("mine", encoding="utf-8")
    assert plait("import", "snapshot").err.endswith(f"not imported: {told}")


def test_secrets_and_edits_are_told(plait, work):
    plait("store", "--doc-id", "X", "--text", "SSH password: `hunter2-otter-lagoon`")
    ran = plait("export", "--format", "markdown", "snapshot")
    assert "password" in ran.err
    assert "do not publish" in ran.err
    assert "hunter2" not in ran.out + ran.err
    [note] = (work / "snapshot" / "note").iterdir()
    note.write_bytes(note.read_bytes() + b" More.")
    ran = plait("export", "--format", "markdown", "snapshot")
    assert "1 file edited since the last export stays as it is: " in ran.err
    assert "plait import snapshot" in ran.err
    assert b" More." in note.read_bytes()
    plait("export", "--format", "markdown", "snapshot", "--overwrite")
    assert b" More." not in note.read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        ("export", "--format", "markdown"),
        ("export", "--format", "markdown", "snapshot", "--graph"),
        ("export", "all.jsonl", "--overwrite"),
        ("search", "x", "--format", "markdown"),
    ],
)
def test_options_that_do_not_go_together_are_refused(plait, work, words):
    plait("store", "text")
    assert plait(*words).code == 2
    assert not (work / "snapshot").exists()


def test_an_absent_or_empty_memory_offers_to_fill_itself(plait, work):
    plait("--db", "memory.db", "store", "--doc-id", "k", "--text", "We deploy on Fridays")
    plait("--db", "memory.db", "export", "--format", "markdown", "memory")
    (work / "memory.db").unlink()
    for words in (("search", "deploy"), ("timeline",), ("stats",)):
        ran = plait("--db", "memory.db", *words)
        assert "plait --db memory.db import" in ran.err, words
        assert ran.err.count("\n") == 1
    assert not (work / "memory.db").exists()
    for place in ("other.db", "memory"):  # there is no such folder, and no such name
        ran = plait("--db", place, "search", "deploy")
        assert "import" not in ran.err
    assert "there is no memory at" in plait("--db", "other.db", "search", "deploy").err
    plait("--db", "memory.db", "import", "memory")
    assert plait("--db", "memory.db", "search", "deploy").code == 0


def test_a_memory_with_the_setting_fills_itself(plait, work, monkeypatch):
    plait("--db", "memory.db", "store", "--doc-id", "k", "--text", "We deploy on Fridays")
    plait("--db", "memory.db", "export", "--format", "markdown", "elsewhere")
    monkeypatch.setenv("PLAIT_AUTO_HYDRATE", "on")
    monkeypatch.setenv("PLAIT_MEMORY_DIR", str(work / "elsewhere"))
    ran = plait("--db", "new.db", "search", "deploy")
    assert ran.code == 0
    assert "Filled the empty memory with 1 document from" in ran.err


def test_a_failed_import_leaves_no_memory(plait, work):
    (work / "bad.jsonl").write_text('{"text": "good"}\nnonsense\n', "utf-8")
    (work / "empty").mkdir()
    (work / "bad.db").write_text("nonsense", "utf-8")
    for name in ("bad.jsonl", "empty", "bad.db", "missing"):
        ran = plait("--db", "new.db", "import", name)
        assert ran.code != 0
        assert ran.err.count("\n") == 1, ran.err
        assert not (work / "new.db").exists()


# Kills itself at a step of the n-th file: in the middle of its bytes, before or after its renaming.
KILLED = """
import os, pathlib, signal, sys
from plait.exporting import snapshot
from plait.memory import Memory
step, left = sys.argv[1], int(sys.argv[2])
replace, fdopen = pathlib.Path.replace, os.fdopen
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def counted():
    global left
    left -= 1
    return left == 0
class Half:
    def __init__(self, file): self.file = file
    def __enter__(self): return self
    def __exit__(self, *error): self.file.close()
    def write(self, data):
        if counted():
            self.file.write(data[:len(data) // 2]); self.file.flush(); die()
        self.file.write(data)
def renamed(self, target):
    last = counted()
    if last and step == "before": die()
    replace(self, target)
    if last: die()
if step == "half":
    snapshot.os.fdopen = lambda handle, mode: (
        Half(fdopen(handle, mode)) if mode == "wb" else fdopen(handle, mode))
else:
    pathlib.Path.replace = renamed
with Memory.open("memory.db", embedder="none", project="") as memory:
    memory.export_folder("snapshot")
"""


@pytest.mark.parametrize("step", ["half", "before", "after"])
def test_a_killed_export_leaves_whole_files(work: Path, step: str) -> None:
    texts = {f"k{number}": f"old {number} " * 50 for number in range(3)}
    with Memory.open("memory.db", embedder="none", project="") as memory:
        for key, text in texts.items():
            memory.store(text, key=key)
        memory.export_folder("snapshot")
        for key, text in texts.items():
            memory.store(text.replace("old", "new"), key=key)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, step, "2"],
        env=environment(),
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    files = list((work / "snapshot" / "note").iterdir())
    contents = [markdown.read_file(path.read_bytes()) for path in files]
    assert all(content.intact for content in contents)
    assert {content.record["text"][:3] for content in contents} == {"old", "new"}
    with Memory.open("memory.db", embedder="none", project="") as memory:
        done_again = memory.export_folder("snapshot")
    assert done_again.written + done_again.unchanged == 3
    assert {path.name for path in (work / "snapshot").iterdir()} == {
        ".gitattributes",
        "note",
        "snapshot.json",
    }
    assert json.loads((work / "snapshot" / "snapshot.json").read_bytes())["version"] == 1
