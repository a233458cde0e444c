"""What every test gets: an empty home folder, repeatable examples, and small memories."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest
from hypothesis import settings

from plait.stores.sqlite.store import SQLiteStore
from tests.reliability import raw_open

# A failure must repeat on every run and machine; a slow machine is no failure.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if TYPE_CHECKING:
    from plait.memory import Memory

raw_open.install()

_homes = count()


def pytest_report_header() -> str:
    return f"SQLite {apsw.sqlite_lib_version()} through APSW {apsw.apsw_version()}"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder: no test reads or writes the user's own memory."""
    folder = tmp_path_factory.getbasetemp() / "homes" / str(next(_homes))
    folder.mkdir(parents=True)
    for name in [*os.environ]:
        keys = ("ANTHROPIC_API_KEY", "API_KEY", "OPENAI_API_KEY")
        if name.startswith(("PLAIT_", "XDG_")) or name in keys:
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.setenv("APPDATA", str(folder / "AppData"))
    monkeypatch.setenv("LOCALAPPDATA", str(folder / "AppData"))
    return folder


@pytest.fixture(autouse=True)
def no_raw_open() -> Iterator[None]:
    """Fail a test that opened a memory's file by plain ``open``, even if the error was caught."""
    raw_open.alarms()
    yield
    assert raw_open.alarms() == []


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """An empty store in a file."""
    opened = SQLiteStore(str(tmp_path / "memory.db"), timeout=5.0)
    yield opened
    opened.close()


@pytest.fixture
def memory(tmp_path: Path) -> "Iterator[Memory]":
    """An empty memory in a file, by keyword only."""
    from plait.memory import Memory

    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as opened:
        yield opened


@pytest.fixture
def hashing_memory(tmp_path: Path) -> "Iterator[Memory]":
    """An empty memory in a file, with the embedder of `plait.testing`."""
    from plait.memory import Memory

    with Memory.open(tmp_path / "memory.db", embedder="hashing", project="") as opened:
        yield opened
