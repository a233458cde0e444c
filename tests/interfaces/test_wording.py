"""How the command line words errors. The other tests here check exit codes and values."""

import string

import pytest

from plait.cli import in_shell
from plait.cli.verbs import VERBS
from plait.cli.wording import SHELL
from plait.errors import IN_PYTHON, NotFound, Notice, UsageError, advise


def test_the_shell_has_a_wording_for_every_advice():
    assert SHELL.keys() == IN_PYTHON.keys()


@pytest.mark.parametrize("act", SHELL)
def test_every_wording_uses_the_values_that_python_uses(act):
    def fields(template: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(template) if name}

    assert fields(SHELL[act]) <= fields(IN_PYTHON[act])
    assert "{" not in SHELL[act].format(**dict.fromkeys(fields(SHELL[act]), "x"))


@pytest.mark.parametrize(
    ("notice", "sentence"),
    [
        (Notice("Nothing is named 'x'."), "Nothing is named 'x'."),
        (
            Notice("Nothing is named 'x'.", advice=advise("search")),
            "Nothing is named 'x'. Search for it: plait search WORDS",
        ),
        (
            Notice("The model changed.", advice=advise("reindex_with", embedder="ollama:e5")),
            "The model changed. Run: plait reindex --embedder ollama:e5",
        ),
        (
            Notice("No entity is named 'X'.", advice=advise("create_entity", name="X")),
            "No entity is named 'X'. Create it with: plait entity add 'X'",
        ),
        ("a plain sentence stays as it is", "a plain sentence stays as it is"),
    ],
)
def test_a_notice_ends_in_a_command(notice, sentence):
    assert in_shell(notice) == sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["get", "nobody"], "Nothing is named 'nobody'. Search for it: plait search WORDS"),
        (
            ["search", "x", "--entity", "Zed"],
            "There is no entity named 'Zed'. See: plait entity list",
        ),
        (
            ["entity", "observe", "Zed", "Likes tea"],
            "There is no entity named 'Zed'. Create it with: plait entity add 'Zed'",
        ),
        (
            ["get", "only-there"],
            "Nothing in this project is named 'only-there', but alpha has one. "
            "Add: --project alpha",
        ),
    ],
)
def test_an_unknown_name_is_one_line_that_ends_in_the_next_command(plait, words, sentence):
    plait("store", "a fact", "--key", "only-there", "--project", "alpha")
    ran = plait(*words)
    assert (ran.code, ran.out, ran.err) == (NotFound.exit_code, "", f"plait: {sentence}\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["stats", "extra"], "Unknown arguments: extra. See: plait stats --help"),
        (["get"], "Missing argument: NAME. See: plait get --help"),
        (["search", "x", "--limit"], "--limit needs a value. See: plait search --help"),
        (
            ["search", "x", "--limit", "many"],
            "--limit: 'many' is not a whole number. See: plait search --help",
        ),
        (
            ["search", "x", "--limti", "5"],
            "There is no option --limti. Did you mean '--limit'? "
            "(To use it as text: plait search -- --limti)",
        ),
        (
            ["--limit", "5", "search", "x"],
            "--limit is not an option of every command. "
            "Put it after the command: plait COMMAND … --limit (or see: plait --help)",
        ),
        (["serch", "x"], "There is no command 'serch'. Did you mean: plait search"),
        (["search", "x", "--query", "y"], "Give the query once: as words or with --query."),
        (["search", "x", "--tag", ","], "--tag is empty. Give it a value, or leave it out."),
        (
            ["delete", "--purge", "--kind", "note"],
            "Purging by filter cannot be undone. Check with --dry-run first, then add --yes.",
        ),
        (["entity", "relate", "Ana"], "Usage: plait entity relate FROM TYPE TO"),
        (
            ["entity", "list", "--purge"],
            "--purge works with entity delete, not with list.",
        ),
    ],
)
def test_a_wrong_command_line_is_explained_in_one_line(plait, words, sentence):
    ran = plait(*words)
    assert (ran.code, ran.out, ran.err) == (UsageError.exit_code, "", f"plait: {sentence}\n")


@pytest.mark.parametrize("verb", VERBS)
def test_help_is_in_plain_english(plait, verb):
    text = plait(verb, "--help").out
    for word in ("anew", "whoever", "trusted so", "starts so", "seed00", "as in:"):
        assert word not in text


@pytest.mark.parametrize("name", ["max", "seed001"])
def test_the_old_name_of_a_fusion_is_accepted(plait, name):
    plait("store", "We deploy on Fridays")
    assert plait("search", "deploy", "--fusion", name).code == 0
