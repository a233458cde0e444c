"""The words of the MCP door: every advice of the core has a wording that a model can act on."""

import re

import pytest

from plait.errors import IN_PYTHON, NotFound, Notice, advise
from plait.tools.profiles import PROFILES, tools_of
from plait.tools.wording import FOR_MODELS, worded, wording_for

COMMAND = re.compile(r"plait [a-z]|pip |(?<![a-z])--[a-z]")


def test_every_advice_of_the_core_has_a_wording_for_models():
    assert FOR_MODELS.keys() == IN_PYTHON.keys()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("act", FOR_MODELS)
def test_a_command_is_quoted_only_as_something_for_the_user(act, profile):
    text = wording_for({tool.name for tool in tools_of([profile])})[act]
    assert "memory." not in text
    if COMMAND.search(text) or "Only the user" in text or "Ask the user" in text:
        assert re.match("Only the user can do that: .", text)


@pytest.mark.parametrize("act", FOR_MODELS)
def test_both_wordings_of_an_advice_use_the_same_values(act):
    def fields(text):
        return set(re.findall(r"{(\w+)[!:}]", text))

    assert fields(FOR_MODELS[act]) <= fields(IN_PYTHON[act])


@pytest.mark.parametrize(
    "profiles", [("core",), ("layers",), ("graph",), ("layers", "graph"), ("core", "graph")]
)
def test_advice_names_only_tools_that_the_server_has(profiles):
    own = {tool.name for tool in tools_of(profiles)}
    foreign = {tool.name for tool in tools_of(PROFILES)} - own
    wording = wording_for(own)
    assert wording.keys() == FOR_MODELS.keys()
    for act, text in wording.items():
        named = set(re.findall(r"\w+", text))
        assert not named & foreign - {"timeline"}, act


def test_errors_notices_and_plain_strings_are_worded():
    advice = advise("reindex_with", embedder="ollama:e5")
    expected = "No vectors. Only the user can do that: plait reindex --embedder ollama:e5"
    assert worded(NotFound("No vectors.", advice=advice)) == expected
    assert worded(Notice("No vectors.", advice=advice)) == expected
    assert worded("No vectors.") == "No vectors."
