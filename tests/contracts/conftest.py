"""The engines: every contract test runs on each of them, and imports none."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from plait.protocols import Store, Token
from plait.stores.sqlite import analysis
from plait.stores.sqlite.store import SQLiteStore
from plait.testing.store import InMemoryStore
from plait.types.ids import new_id
from tests import servers
from tests.builders import Engine

if TYPE_CHECKING:
    from tests.postgres.statements import Sent

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


def postgres(folder: Path, clock: Clock | None) -> Store:
    return _in_database(servers.address(new_id()), clock)


def citus(folder: Path, clock: Clock | None) -> Store:
    assert CITUS is not None
    mark = "&" if "?" in CITUS else "?"
    return _in_database(f"{CITUS}{mark}namespace={new_id()}", clock)


def _in_database(address: str, clock: Clock | None) -> Store:
    from plait.stores.postgres.store import PostgresStore

    options: dict[str, Any] = {} if clock is None else {"clock": clock}
    return PostgresStore(address, timeout=TIMEOUT_S, **options)


ENGINES: dict[str, Callable[[Path, Clock | None], Store]] = {
    "sqlite-file": sqlite_file,
    "sqlite-memory": sqlite_in_memory,
    "dictionaries": dictionaries,
    "postgres": postgres,
}
# A server with Citus is none that tests can have from a package: it must be named.
CITUS = os.environ.get("PLAIT_TEST_CITUS_DSN")
if CITUS is not None:
    ENGINES["citus"] = citus


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


# What the tests made a store in PostgreSQL send.
SENT: "dict[str, Sent]" = {}


@pytest.fixture(autouse=True)
def recording(request: pytest.FixtureRequest) -> Iterator[None]:
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if parameters.get("engine") != "postgres":
        yield
        return
    servers.need()
    from tests.postgres.statements import recorded

    with pytest.MonkeyPatch.context() as patch, recorded(patch, SENT):
        yield


# Of the session, so that property tests may use it.
@pytest.fixture(scope="session", params=ENGINES)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    opener = Opener(request.param, tmp_path_factory.mktemp("engine"))
    if request.param == "postgres":
        from tests.postgres.statements import everything_wrong

        dsn = servers.need()
        yield opener
        opener.close()
        # Whatever a test made the store send must run where the tables are spread by memory.
        assert everything_wrong(SENT, dsn) == {}
        return
    if request.param == "citus":
        spread_over_citus()
    yield opener
    opener.close()


def spread_over_citus() -> None:
    from plait.stores.postgres.distributing import distribute

    assert CITUS is not None
    _in_database(CITUS, None).close()
    distribute(CITUS)


def pair_of(
    names: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, Engine]]:
    openers = [Opener(name, tmp_path_factory.mktemp("both")) for name in names]
    yield openers[0], openers[1]
    for opener in openers:
        opener.close()


@pytest.fixture(scope="session")
def both_engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    """Two engines that know nothing of each other."""
    yield from pair_of(("sqlite-memory", "dictionaries"), tmp_path_factory)


@pytest.fixture(scope="session")
def with_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    """SQLite, and a server that computes its scores by itself."""
    servers.need()
    yield from pair_of(("sqlite-memory", "postgres"), tmp_path_factory)


@pytest.fixture
def store(engine: Engine) -> Iterator[Store]:
    opened = engine()
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite-file", "postgres"])
def two_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two stores of one memory, as two programs have them."""
    if request.param == "postgres":
        servers.need()
        address = servers.address(new_id())
        stores = _in_database(address, None), _in_database(address, None)
    else:
        stores = sqlite_file(tmp_path, None), sqlite_file(tmp_path, None)
    yield stores
    for store in stores:
        store.close()
