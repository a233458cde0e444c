"""These tests need frameworks; only `make integrations` runs them, in an environment of its own."""

import os

import pytest

# The Python that can serve MCP: that of the main environment.
SERVER_PYTHON = os.environ.get("PLAIT_SERVER_PYTHON")


@pytest.fixture(autouse=True)
def in_an_environment_of_its_own() -> None:
    if SERVER_PYTHON is None:
        pytest.skip("only `make integrations` runs it")
