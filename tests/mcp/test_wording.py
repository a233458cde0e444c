"""The words of the MCP door: every advice of the core has a wording that a model can act on."""

import re

import pytest

from plait.errors import IN_PYTHON, NotFound, Notice, advise
from plait.mcp.wording import FOR_MODELS, worded

COMMAND = re.compile(r"plait [a-z]|pip |(?<![a-z])--[a-z]")


def test_every_advice_of_the_core_has_a_wording_for_models():
    assert FOR_MODELS.keys() == IN_PYTHON.keys()


@pytest.mark.parametrize("act", FOR_MODELS)
def test_a_command_is_quoted_only_as_something_for_the_user(act):
    text = FOR_MODELS[act]
    assert "memory." not in text
    if COMMAND.search(text):
        assert text.startswith("Only the user can do that: ")


@pytest.mark.parametrize("act", FOR_MODELS)
def test_both_wordings_of_an_advice_use_the_same_values(act):
    def fields(text):
        return set(re.findall(r"{(\w+)[!:}]", text))

    assert fields(FOR_MODELS[act]) <= fields(IN_PYTHON[act])


def test_errors_notices_and_plain_strings_are_worded():
    advice = advise("reindex_with", embedder="ollama:e5")
    expected = "No vectors. Only the user can do that: plait reindex --embedder ollama:e5"
    assert worded(NotFound("No vectors.", advice=advice)) == expected
    assert worded(Notice("No vectors.", advice=advice)) == expected
    assert worded("No vectors.") == "No vectors."
