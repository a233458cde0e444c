"""One command after another on one memory, in a folder of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from plait.cli import main
from tests.interfaces.command import Ran

# Sections this long are passages of their own; tiny neighbours would share one.
FILLING = "Ask the person on duty before anything is changed there. " * 6
Plait = Callable[..., Ran]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder; outside any project, so that everything stored is personal."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that a process of nobody can reach: pytest keeps its own to their owner."""
    with TemporaryDirectory(prefix="plait-tests-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()


@pytest.fixture
def plait(work: Path, capsys: pytest.CaptureFixture[str]) -> Plait:
    """Run a command line in this process: exit code, what it answered, what it said beside."""

    def run(*words: str) -> Ran:
        capsys.readouterr()
        code = main(words)
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


@pytest.fixture
def notes(work: Path) -> Path:
    """A small folder of notes."""
    folder = work / "notes"
    (folder / "ops").mkdir(parents=True)
    (folder / "TOOLS.md").write_text(
        f"# Tools\n\n## GPU server\n\nThe GPU server's SSH password is otter-lagoon. {FILLING}\n\n"
        f"## Coffee\n\nThe machine wants filtered water. {FILLING}\n",
        encoding="utf-8",
    )
    (folder / "ops" / "keys.md").write_text(
        "---\ntype: runbook\ntags: [ops, ssh]\ndate: 2026-03-01\n---\n"
        "# Rotate keys\n\nRotate the deploy keys every quarter.\n",
        encoding="utf-8",
    )
    (folder / "diary.txt").write_text("We painted the fence green.\n", encoding="utf-8")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    return folder
