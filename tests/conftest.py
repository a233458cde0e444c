"""What every test gets: an empty home folder, repeatable examples, and small memories."""

import gc
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import wraps
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import coverage
import pytest
from hypothesis import is_hypothesis_test, settings

from plait.stores.sqlite.store import SQLiteStore
from tests.reliability import raw_open

# A failure must repeat on every run and machine; a slow machine is no failure.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if TYPE_CHECKING:
    from plait.memory import Memory

raw_open.install()

# Of a property, and of a test with parameters; the later ones seldom run a line that these did not.
MEASURED_EXAMPLES = 10
MEASURED_CASES = 20

# How many more objects there must be before rubbish is looked for; Python's own limit is 700.
RUBBISH = 10_000

_homes = count()
_cases: Counter[tuple[str, object]] = Counter()


def pytest_report_header() -> str:
    return f"SQLite {apsw.sqlite_lib_version()} through APSW {apsw.apsw_version()}"


def pytest_collection_finish() -> None:
    """Look for rubbish among what tests make only: what all tests are takes long to go through."""
    gc.freeze()
    gc.set_threshold(RUBBISH, *gc.get_threshold()[1:])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Pause coverage for tests that run the same lines again and again: it doubles their time."""
    current = coverage.Coverage.current()
    test: Any = getattr(item, "obj", None)
    if current is None:
        return (yield)
    with ExitStack() as paused:
        if item.get_closest_marker("unmeasured") is not None or _is_later_case(item):
            _pause(current, paused)
        elif is_hypothesis_test(test):
            later = _pausing_later(test.hypothesis.inner_test, lambda: _pause(current, paused))
            paused.callback(setattr, test.hypothesis, "inner_test", test.hypothesis.inner_test)
            test.hypothesis.inner_test = later
        return (yield)


def _is_later_case(item: pytest.Item) -> bool:
    """Count the cases of a test with parameters; tell whether enough of them were measured."""
    if not hasattr(item, "callspec") or item.get_closest_marker("measured") is not None:
        return False
    # Each engine runs lines of its own, and all cases of one come before those of the next.
    test = item.nodeid.partition("[")[0], item.callspec.params.get("engine")
    _cases[test] += 1
    return _cases[test] > MEASURED_CASES


def _pause(current: coverage.Coverage, paused: ExitStack) -> None:
    # Or each start goes through all modules, for 10 ms: most tests take less.
    vars(current)["_warn_preimported_source"] = False
    current.stop()
    paused.callback(current.start)


def _pausing_later(test: Callable[..., object], pause: Callable[[], None]) -> Callable[..., object]:
    """Return the test of one example, which pauses coverage after the first examples."""
    examples = count()

    @wraps(test)  # hypothesis chooses the examples by its source
    def tested(*args: object, **kwargs: object) -> object:
        if next(examples) == MEASURED_EXAMPLES:
            pause()
        return test(*args, **kwargs)

    return tested


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the user's own memory, nor does what several tests share."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            keys = ("ANTHROPIC_API_KEY", "API_KEY", "OPENAI_API_KEY")
            if name.startswith(("PLAIT_", "XDG_")) or name in keys:
                patch.delenv(name)
        patch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
        _move_home(patch, tmp_path_factory.getbasetemp() / "homes" / "shared")
        yield


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder for each test."""
    folder = tmp_path_factory.getbasetemp() / "homes" / str(next(_homes))
    _move_home(monkeypatch, folder)
    return folder


def _move_home(patch: pytest.MonkeyPatch, folder: Path) -> None:
    folder.mkdir(parents=True)
    patch.setenv("HOME", str(folder))
    patch.setenv("USERPROFILE", str(folder))
    patch.setenv("APPDATA", str(folder / "AppData"))
    patch.setenv("LOCALAPPDATA", str(folder / "AppData"))


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
