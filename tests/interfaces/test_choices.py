"""What is refused: a value that is none of a few, and an option without a value."""

import re
from pathlib import Path

import pytest

from plait import Memory, UsageError
from plait.agents.histories import reader_of
from plait.agents.hooks.record import DEEDS
from plait.cli import parser_for
from plait.cli.verbs import VERBS
from plait.errors import refused_choice
from plait.evaluate.variants import EvaluationOptions, check_options
from plait.tools.profiles import check_profiles
from plait.types.audit import LOGGED_VERBS
from tests.codes import has_code

SOURCE = Path(__file__).resolve().parents[2] / "src" / "plait"


@pytest.mark.parametrize(
    ("words", "name", "typed", "meant"),
    [
        (["search", "x", "--mode"], "--mode", "hybird", "hybrid"),
        (["search", "x", "--mode"], "--mode", "Hybrid", "hybrid"),
        (["search", "x", "--kind"], "--kind", "nte", "note"),
        (["search", "x", "--kind", "file,"], "--kind", "nte", "note"),
        (["search", "x", "--trust"], "--trust", "trustd", "trusted"),
        (["search", "x", "--status"], "--status", "actve", "active"),
        (["search", "x", "--memory-type"], "--memory-type", "semantik", "semantic"),
        (["search", "x", "--fusion"], "--fusion", "rff", "rrf"),
        (["search", "x", "--format"], "--format", "jsn", "json"),
        (["store", "x", "--trust"], "--trust", "trustd", "trusted"),
        (["store", "x", "--origin"], "--origin", "usr", "user"),
        (["review", "--kind"], "--kind", "contradicton", "contradiction"),
        (["log", "--verb"], "--verb", "marks", "mark"),
        (["log", "--door"], "--door", "clii", "cli"),
        (["eval", "x", "--half"], "--half", "evn", "even"),
        (["eval", "x", "--fusions"], "--fusions", "rff", "rrf"),
        (["eval", "x", "--mode"], "--mode", "keywrd", "keyword"),
        (["eval", "x", "--planner"], "--planner", "alwys", "always"),
        (["mcp", "--tools"], "--tools", "grap", "graph"),
        (["config"], "ACTION", "sett", "set"),
        (["connect"], "AGENT", "claude-cod", "claude-code"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_every_wrong_choice_has_one_wording_and_suggests_the_closest(
    plait, words, name, typed, meant
):
    *before, last = words
    glued = [*before, last + typed] if last.endswith(",") else [*words, typed]
    ran = plait(*glued)
    assert (ran.code, ran.out) == (2, "")
    pattern = rf"plait: {name} is '{typed}'; choose one of: .+\. Did you mean '{meant}'\?\n"
    assert re.fullmatch(pattern, ran.err), ran.err


def test_a_wrong_choice_of_a_library_call_suggests_the_closest(memory):
    with pytest.raises(UsageError, match="Did you mean 'keyword'", check=has_code("bad_value")):
        memory.search("x", mode="keywrod")
    with pytest.raises(UsageError, match="Did you mean 'note'", check=has_code("bad_value")):
        memory.search("x", where={"kind": "nots"})


@pytest.mark.parametrize(
    ("refuse", "code", "meant"),
    [
        (lambda: reader_of("claude-cod"), "bad_value", "claude-code"),
        (lambda: check_profiles(["core", "grap"]), "unknown_profile", "graph"),
        (lambda: check_options(EvaluationOptions(half="evn")), "bad_option", "even"),
    ],
    ids=["agent", "profile", "half"],
)
def test_programs_get_that_wording_too(refuse, code, meant):
    pattern = rf"\w+ is '[\w-]+'; choose one of: .+\. Did you mean '{meant}'\?$"
    with pytest.raises(UsageError, match=pattern, check=has_code(code)):
        refuse()


def test_a_choice_that_resembles_nothing_gets_no_suggestion():
    refused = refused_choice("mode", "banana" * 50, ("hybrid", "keyword"))
    assert (refused.advice, len(str(refused)) < 150) == (None, True)


def test_a_value_that_is_no_text_is_refused_as_a_choice_too():
    assert str(refused_choice("mode", 3, ("hybrid",))).startswith("mode is '3'; choose one of")


def test_the_verbs_of_the_log_are_those_that_the_code_records():
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    recorded = {*re.findall(r'@recorded\("(\w+)"\)', text), *re.findall(r'acting\("(\w+)"', text)}
    assert recorded | {"purge", "write"} == {*LOGGED_VERBS}
    assert {*re.findall(r'did="(\w+)"', text)} <= {*DEEDS}


OPTIONS = sorted(
    (verb, action.option_strings[-1])
    for verb in VERBS
    if verb != "hook"  # it answers agents, whatever they send
    for action in parser_for(verb)._actions
    if action.option_strings and action.nargs != 0
)


@pytest.mark.parametrize("blank", ["", " "])
def test_no_option_of_any_command_takes_an_empty_value(plait, blank):
    """A script with ``--project "$UNSET"`` must not store as personal."""
    for verb, option in OPTIONS:
        ran = plait(verb, f"{option}={blank}", "x", "--json")
        assert (ran.code, ran.out) == (2, ""), (verb, option, ran)
        assert f"{option} is empty. Give it a value, or leave it out." in ran.err, (verb, option)


def test_a_project_of_blanks_is_refused_in_a_filter_and_none_is_personal(memory):
    memory.store("a fact")
    for blank in ("", " ", ["acme", "\t"]):
        with pytest.raises(UsageError, match="has an empty name", check=has_code("bad_value")):
            memory.search("fact", where={"project": blank})
    assert len(memory.search("fact", where={"project": None})) == 1


def test_the_library_opens_the_personal_project_by_an_empty_name(tmp_path):
    with Memory.open(tmp_path / "m.db", project="") as memory:
        memory.store("a fact")
        assert memory.timeline()[0].project is None
