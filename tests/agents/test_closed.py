"""Folders and files that may not be read: an import says so, and takes them once they are open."""

import codecs
import contextlib
import io
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.agents.histories import Places
from plait.agents.importing import import_histories, sources_of
from plait.cli import main
from plait.memory import Memory
from tests.agents import test_readers
from tests.reliability.test_strange_trees import as_nobody, open_folder

__all__ = ("open_folder",)

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX modes")
AGENTS = ("claude-code", "codex", "gemini", "opencode", "cursor", "copilot", "openclaw")
DENIED = "Permission denied"


def written(agent: str, home: Path) -> None:
    """Write a short history of two messages, for everybody to read."""
    home.mkdir()
    getattr(test_readers, agent.replace("-", "_"))(home)
    for path in [home, *home.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)


def imported(
    agent: str, home: Path, files: tuple[str, ...] = (), projects: tuple[str, ...] = ()
) -> tuple[int, dict[str, str]]:
    """What an import of a user without rights brings, and what it cannot read."""

    def work() -> tuple[int, dict[str, str]]:
        with Memory.open(home.parent / "data" / "m.db", embedder="none") as memory:
            places = Places(str(home), {}, projects, files)
            report = import_histories(memory, sources_of(places, [agent]))
        return report.messages, dict(report.unreadable)

    told = as_nobody(work)
    assert isinstance(told, list), told
    return told[0], told[1]


def folders_of(home: Path) -> Iterator[Path]:
    """The folders that hold a history, from the innermost on."""
    for path in sorted(home.rglob("*"), key=lambda path: -len(path.parts)):
        if path.is_dir() and any(row.is_file() for row in path.rglob("*")):
            yield path


@pytest.fixture
def home(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(open_folder / "data"))
    (open_folder / "data").mkdir()
    (open_folder / "data").chmod(0o777)
    return open_folder / "home"


@posix_only
@pytest.mark.parametrize("mode", [0o000, 0o444], ids=oct)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_closed_folder_is_named_and_read_once_it_is_open(
    home: Path, agent: str, mode: int
) -> None:
    written(agent, home)
    for folder in folders_of(home):
        before = stat.S_IMODE(folder.stat().st_mode)
        folder.chmod(mode)
        _, unreadable = imported(agent, home)
        folder.chmod(before)
        # What is not there and what is behind a closed folder look the same to an editor's reader.
        if unreadable or agent != "cursor":
            assert unreadable == {str(folder): DENIED}
    _, unreadable = imported(agent, home)
    assert not unreadable
    with Memory.open(home.parent / "data" / "m.db", embedder="none", read_only=True) as memory:
        assert memory.stats().doc_count >= 2


@posix_only
@pytest.mark.parametrize("agent", AGENTS)
def test_a_closed_file_is_named_and_read_once_it_is_open(home: Path, agent: str) -> None:
    written(agent, home)
    files = [path for path in home.rglob("*") if path.is_file()]
    for path in files:
        path.chmod(0)
    messages, unreadable = imported(agent, home)
    assert messages == 0 and set(unreadable.values()) == {DENIED}
    for path in files:
        path.chmod(0o666)
    messages, unreadable = imported(agent, home)
    assert messages >= 2 and not unreadable


@posix_only
def test_a_closed_file_of_one_json_value_is_no_broken_one(home: Path) -> None:
    chats = home / ".gemini" / "tmp" / "shop" / "chats"
    chats.mkdir(parents=True)
    rows = [{"id": "m1", "type": "user", "content": "why?"}]
    file = chats / "session-1.json"
    file.write_text(json.dumps({"sessionId": "G1", "messages": rows}), "utf-8")
    for path in home.rglob("*"):
        path.chmod(0o777)
    home.chmod(0o777)
    file.chmod(0)
    assert imported("gemini", home) == (0, {str(file): DENIED})
    file.chmod(0o666)
    assert imported("gemini", home) == (1, {})


@posix_only
@pytest.mark.parametrize("inside", ["", "deeper"])
def test_a_closed_folder_of_an_export_is_named(home: Path, inside: str) -> None:
    folder = home / "export" / inside
    folder.mkdir(parents=True)
    test_readers.chatgpt(folder)
    for path in (home, home / "export", folder):
        path.chmod(0o755)
    files = (str(home / "export"),)
    codecs.lookup("utf-8-sig")  # nobody may be refused the modules of this Python
    folder.chmod(0)
    assert imported("chatgpt", home, files) == (0, {str(folder): DENIED})
    folder.chmod(0o755)
    assert imported("chatgpt", home, files) == (2, {})


@posix_only
def test_a_closed_working_folder_stops_no_import(home: Path) -> None:
    written("codex", home)
    (home / "shop" / ".git").mkdir(parents=True)
    (home / "shop" / "sub").mkdir()
    (home / "shop").chmod(0)
    projects = (str(home / "shop" / "sub"),)
    _, unreadable = imported("aider", home, projects=projects)
    assert set(unreadable.values()) <= {DENIED}
    assert imported("codex", home, projects=projects)[0] > 0


@posix_only
def test_a_file_behind_a_closed_folder_is_not_called_missing(home: Path) -> None:
    written("codex", home)
    home.chmod(0)
    words = ["--db", str(home.parent / "data" / "m.db"), "import", "codex"]

    def said() -> str:
        with contextlib.redirect_stderr(io.StringIO()) as err:
            main([*words, str(home / "x.jsonl")])
            main([*words, str(home.parent / "none.jsonl")])
        return err.getvalue()

    told = str(as_nobody(said))
    assert DENIED in told.splitlines()[0] and "no such file" in told.splitlines()[1], told
