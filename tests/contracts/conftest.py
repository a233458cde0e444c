"""The engines: every contract test runs on each of them, and imports none."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from threading import local
from typing import Any

import apsw
import pytest

from plait.protocols import Store, Token
from plait.stores.sqlite import analysis
from plait.stores.sqlite.store import SQLiteStore
from plait.testing.store import InMemoryStore
from tests.builders import Engine

TIMEOUT_S = 5.0

Clock = Callable[[], int]


class Tokenizer:
    """The words of SQLite's index, for an engine that has none of its own."""

    def __init__(self) -> None:
        self._connections = local()

    def __call__(self, text: str) -> list[Token]:
        if not hasattr(self._connections, "own"):
            self._connections.own = apsw.Connection(":memory:")
        return analysis.tokens(self._connections.own, text)


def sqlite_file(folder: Path, clock: Clock | None) -> Store:
    options: dict[str, Any] = {} if clock is None else {"clock": clock}
    return SQLiteStore(str(folder / "memory.db"), timeout=TIMEOUT_S, **options)


def sqlite_in_memory(folder: Path, clock: Clock | None) -> Store:
    options: dict[str, Any] = {} if clock is None else {"clock": clock}
    return SQLiteStore(":memory:", timeout=TIMEOUT_S, **options)


def dictionaries(folder: Path, clock: Clock | None) -> Store:
    options: dict[str, Any] = {} if clock is None else {"clock": clock}
    return InMemoryStore(analyze=Tokenizer(), timeout=TIMEOUT_S, **options)


ENGINES: dict[str, Callable[[Path, Clock | None], Store]] = {
    "sqlite-file": sqlite_file,
    "sqlite-memory": sqlite_in_memory,
    "dictionaries": dictionaries,
}


class Opener:
    """Opens stores of one engine and closes them all at the end."""

    def __init__(self, name: str, folder: Path) -> None:
        self._open = ENGINES[name]
        self._folders = (folder / str(number) for number in count())
        self._opened: list[Store] = []

    def __call__(self, clock: Clock | None = None) -> Store:
        folder = next(self._folders)
        folder.mkdir(parents=True)
        self._opened.append(self._open(folder, clock))
        return self._opened[-1]

    def close(self) -> None:
        for store in self._opened:
            store.close()


# Of the session, so that property tests may use it.
@pytest.fixture(scope="session", params=ENGINES)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    opener = Opener(request.param, tmp_path_factory.mktemp("engine"))
    yield opener
    opener.close()


@pytest.fixture(scope="session")
def both_engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    """Two engines that know nothing of each other."""
    openers = [
        Opener(name, tmp_path_factory.mktemp("both")) for name in ("sqlite-memory", "dictionaries")
    ]
    yield openers[0], openers[1]
    for opener in openers:
        opener.close()


@pytest.fixture
def store(engine: Engine) -> Iterator[Store]:
    opened = engine()
    yield opened
    opened.close()
