"""A server of its own for these tests, and stores on it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from plait.protocols import Store
from plait.types.ids import new_id
from tests.postgres.own_server import OwnServer
from tests.postgres.proxy import Proxy

Opening = Callable[..., Store]


@pytest.fixture(scope="session")
def server() -> Iterator[OwnServer]:
    """A server that stays up; a test may make roles and databases in it."""
    own = OwnServer()
    yield own
    own.remove()


@pytest.fixture
def proxy(server: OwnServer) -> Iterator[Proxy]:
    opened = Proxy(server.socket)
    yield opened
    opened.close()


@pytest.fixture
def opening() -> Iterator[Opening]:
    """Opens stores, all of one new namespace, and closes them at the end."""
    from plait.stores.postgres.store import PostgresStore

    namespace = new_id()
    stores: list[Store] = []

    def open_at(dsn: str, **options: Any) -> Store:
        address = f"{dsn}{'&' if '?' in dsn else '?'}namespace={namespace}"
        stores.append(PostgresStore(address, **{"timeout": 5.0, **options}))
        return stores[-1]

    yield open_at
    for store in stores:
        store.close()
