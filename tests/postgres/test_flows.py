"""The flows that run on PostgreSQL too (tests/flows/conftest.py) are still there."""

from importlib import import_module

import pytest

from tests.flows.conftest import ON_POSTGRES


@pytest.mark.parametrize("module", ON_POSTGRES)
def test_every_chosen_flow_exists(module: str) -> None:
    tests = vars(import_module(f"tests.flows.{module}"))
    assert [name for name in ON_POSTGRES[module] if name not in tests] == []
