"""How the command line words errors. The other tests here check exit codes and values."""

import re
import shlex
import string

import pytest

from plait.cli import in_shell
from plait.cli.verbs import VERBS
from plait.cli.wording import SHELL
from plait.errors import IN_PYTHON, NotFound, Notice, UsageError, advise
from plait.tools.wording import FOR_MODELS


def test_the_shell_has_a_wording_for_every_advice():
    assert SHELL.keys() == IN_PYTHON.keys()


@pytest.mark.parametrize("act", SHELL)
def test_every_wording_uses_the_values_that_python_uses(act):
    def fields(template: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(template) if name}

    assert fields(SHELL[act]) <= fields(IN_PYTHON[act])
    values = dict.fromkeys(fields(IN_PYTHON[act]), "x")
    assert "{" not in Notice("", advice=advise(act, **values)).worded(SHELL)


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
            "No entity is named 'X'. Create it with: plait entity add X",
        ),
        (
            Notice("It is elsewhere.", advice=advise("in_project", project="a; rm -r ~")),
            "It is elsewhere. Add: --project 'a; rm -r ~'",
        ),
        (
            Notice("It is empty.", advice=advise("allow_removal", path="/my notes")),
            "It is empty. To remove what is missing, run: plait ingest '/my notes' --allow-removal",
        ),
        ("a plain sentence stays as it is", "a plain sentence stays as it is"),
    ],
)
def test_a_notice_ends_in_a_command(notice, sentence):
    assert in_shell(notice) == sentence


CLOUD = "/home/ana/Mobile Documents/com~apple~CloudDocs/Customer work/it's a long one, isn't it"


def typed_fields(template: str, form: str) -> set[str]:
    """The values that a wording writes for a shell (``shell``) or for Python (``r``)."""
    parts = string.Formatter().parse(template)
    return {name for _, name, spec, conversion in parts if name and form in (spec, conversion)}


TYPED = [
    pytest.param(table, act, form, id=f"{door}-{act}-{form}")
    for door, table in (("shell", SHELL), ("model", FOR_MODELS), ("python", IN_PYTHON))
    for act in table
    for form in ("shell", "r")
    if typed_fields(table[act], form)
]


@pytest.mark.parametrize(("table", "act", "form"), TYPED)
def test_a_value_to_be_typed_is_exact(table, act, form):
    for value in (CLOUD, "a; rm -r ~ $(id) `id` \\", "münchen", "x" * 300, "[ab]*"):
        fields = {name for _, name, _, _ in string.Formatter().parse(table[act]) if name}
        values = dict.fromkeys(fields, "x") | dict.fromkeys(typed_fields(table[act], form), value)
        sentence = Notice("", advice=advise(act, **values)).worded(table)
        if form == "r":
            assert repr(value) in sentence
        else:
            assert value in shlex.split(sentence.partition(": ")[2] or sentence)


@pytest.mark.parametrize(("table", "act", "form"), TYPED)
def test_a_value_that_nobody_can_type_is_left_out(table, act, form):
    hostile = ("a\x1b[2J", "two\nlines", "-rf", "\udcff", "a\u202eb") if form == "shell" else ()
    for value in (*hostile, "x" * 301):
        fields = {name for _, name, _, _ in string.Formatter().parse(table[act]) if name}
        values = dict.fromkeys(fields, "y") | dict.fromkeys(typed_fields(table[act], form), value)
        sentence = Notice("", advice=advise(act, **values)).worded(table)
        assert value not in sentence
        for name in typed_fields(table[act], form):
            is_listed = (name, form) == ("project", "shell")
            assert ("NAME (plait stats lists them)" if is_listed else name.upper()) in sentence


@pytest.mark.parametrize(
    "template",
    [template for table in (SHELL, FOR_MODELS, IN_PYTHON) for template in table.values()],
)
def test_only_words_of_plait_stand_bare_in_an_advice(template):
    bare = {
        name
        for _, name, form, conversion in string.Formatter().parse(template)
        if name and not form and not conversion
    }
    # Files are quoted one by one, and not told to models.
    allowed = {
        "choices",
        "extra",
        "id",
        "name",
        "package",
        "provider",
        "setting",
        "variable",
        "files",
    }
    assert bare <= allowed
    assert "files" not in bare or template not in FOR_MODELS.values()
    assert "name" not in bare or template.startswith("Did you mean")


def test_the_project_of_an_error_can_be_pasted(plait):
    plait("store", "a fact", "--key", "there", "--project", CLOUD)
    command = plait("get", "there").err.partition("Add: ")[2]
    assert plait("get", "there", *shlex.split(command)).code == 0
    ran = plait("delete", "there")
    assert plait("delete", "there", *shlex.split(ran.err.partition("add: ")[2])).code == 0


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
            "There is no entity named 'Zed'. Create it with: plait entity add Zed",
        ),
        (
            ["get", "only-there"],
            "Nothing in this project is named 'only-there', but another project has one. "
            "Add: --project alpha",
        ),
    ],
)
def test_an_unknown_name_is_one_line_that_ends_in_the_next_command(plait, words, sentence):
    plait("store", "a fact", "--key", "only-there", "--project", "alpha")
    ran = plait(*words)
    assert (ran.code, ran.err) == (NotFound.exit_code, f"plait: {sentence}\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["stats", "extra"], "Unknown arguments: extra. See: plait stats --help"),
        (["entity"], "Missing argument: ACTION. See: plait entity --help"),
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
        (["--nosuch"], "There is no option --nosuch. See: plait --help"),
        (
            ["--qiet", "search", "x"],
            "There is no option --qiet. Did you mean '--quiet'? See: plait --help",
        ),
        (["serch", "x"], "There is no command 'serch'. Did you mean: plait search"),
        (["forgett", "x"], "There is no command 'forgett'. Did you mean: plait delete"),
        (["update", "x"], "There is no command 'update'. Did you mean: plait store"),
        (["recall", "x", "--budget", "0"], "--budget is 0; choose 1 to 100,000."),
        (
            ["search", "x", "--as-of=foo"],
            "--as-of is 'foo', which is not a time. "
            "Write 2026-03-01, 2026-03-01T09:30, 7d or 'last week'.",
        ),
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


def test_an_unknown_value_suggests_the_closest_one(plait):
    err = plait("connect", "cluade").err
    assert "AGENT is 'cluade'; choose one of: " in err and "Did you mean 'claude-code'?" in err


def test_a_move_names_its_own_option_for_the_file_that_is_none(plait, tmp_path):
    (tmp_path / "page.md").write_text("no memory", encoding="utf-8")
    plait("store", "x")
    page = str(tmp_path / "page.md")
    assert "Choose another file with --to PATH." in plait("migrate", "--to", page).err
    from_it = plait("migrate", "--from", page, "--to", str(tmp_path / "new.db")).err
    assert "Choose another file with --from PATH." in from_it


def test_a_fact_that_was_replaced_can_be_taken_back(plait):
    plait("store", "Deploy on Fridays", "--topic", "deploy")
    ran = plait("store", "Deploy on Mondays", "--topic", "deploy", "--format", "text")
    assert "plait mark ID --not-superseded" in plait("delete", "--undo").err
    for command in re.findall(r"plait (delete \w+|mark \w+ --not-superseded)", ran.err):
        assert plait(*command.split()).code == 0
    [hit] = plait("search", "deploy").json["results"]
    assert hit["text"] == "Deploy on Fridays"


def test_a_long_query_of_one_word_tells_how_much_of_it_was_searched(plait):
    plait("store", "word")
    err = plait("search", "--query", "word " * 20_000).err
    assert "keyword search used its first 4,09" in err and "different words" not in err
