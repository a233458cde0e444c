"""The contract of every engine holds for a member, too, in its own fenced memory."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from _pytest.fixtures import FixtureFunctionDefinition

from plait.protocols import Store
from plait.stores.postgres.store import PostgresStore
from plait.types.ids import new_id
from tests.builders import Engine
from tests.contracts import (
    test_documents,
    test_filters,
    test_observations,
    test_relations,
    test_search,
    test_steps,
    test_transactions,
    test_trash,
    test_turns,
    test_use,
)
from tests.people.conftest import Team, made_team

# The same lines as for the administrator, whom the contract itself measures.
pytestmark = pytest.mark.unmeasured

CONTRACTS: tuple[ModuleType, ...] = (
    *(test_documents, test_filters, test_observations, test_relations, test_search, test_steps),
    *(test_transactions, test_trash, test_turns, test_use),
)
# They look at what only the administrator does.
NOT_FOR_MEMBERS = {
    "test_whatever_is_raised_inside_undoes_everything",  # other vectors
    "test_a_purge_empties_trash_and_cache_and_is_marked_until_it_is_tidied",
    "test_doctor_reports_a_purge_that_was_not_tidied_and_finishes_it",
}


class MemberStores:
    """Opens stores of new memories, each as the same member."""

    def __init__(self, team: Team, role: str) -> None:
        self._team = team
        self._role = role
        self._opened: list[Store] = []

    def __call__(self, clock: Callable[[], int] | None = None) -> Store:
        namespace = new_id()
        administrator = PostgresStore(self._team.address(namespace=namespace))
        administrator.admit(self._role, "writer", [])
        administrator.close()
        options: dict[str, Any] = {} if clock is None else {"clock": clock}
        address = self._team.address(self._role, namespace)
        self._opened.append(PostgresStore(address, timeout=5.0, **options))
        return self._opened[-1]

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with made_team() as team:
        stores = MemberStores(team, team.person("mia"))
        yield stores
        stores.close()


@pytest.fixture
def store(engine: Engine) -> Iterator[Store]:
    opened = engine()
    yield opened
    opened.close()


for contract in CONTRACTS:
    for name, value in vars(contract).items():
        is_test = name.startswith("test_") and name not in NOT_FOR_MEMBERS
        if is_test or isinstance(value, FixtureFunctionDefinition):
            assert name not in globals(), name
            globals()[name] = value
