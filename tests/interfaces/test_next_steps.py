"""A command that plait tells the user to run acts on the memory of the command before it."""

import ast
import re
import shlex
import shutil
from pathlib import Path

import pytest

from plait.cli.verbs import VERBS
from tests.interfaces.command import ROOT

DATABASE = "it's {mine}.db"
CHOSEN = ("--db", DATABASE, "--project", "side project")
TEXT = ("--format", "text")


def commands(text: str) -> list[list[str]]:
    """The commands in what was printed, as the words that a shell makes of them."""
    rows = re.findall(r"(?:^|[ (])(plait (?:-|[a-z]+\b[^:]).*)", text, re.M)
    return [shlex.split(row, comments=True)[1:] for row in rows]


@pytest.fixture
def chosen(plait, work):
    """Run commands on a memory that is not the usual one, in a project."""

    def run(*words):
        return plait(*words, *CHOSEN, *TEXT)

    run("store", "The otter sleeps", "--key", "t1")
    run("store", "The lagoon is deep", "--key", "t2")
    run("entity", "add", "Priya", "Likes chess")
    run("entity", "add", "Deploy")
    return run


@pytest.fixture
def usual(plait):
    """The memory without any option; no command here may create it."""
    return Path(plait("config", "get", "db_path", *TEXT).out.strip())


@pytest.mark.parametrize(
    ("words", "verb", "shows"),
    [
        (["search", "otter"], "get", "The otter sleeps"),
        (["recall", "otter"], "get", "The otter sleeps"),
        (["search", "otter", "--all-projects"], "get", "The otter sleeps"),
        (["delete", "t2"], "delete", "Restored t2"),
        (["delete", "t2", "--all-projects"], "delete", "Restored t2"),
        (["entity", "delete", "Priya"], "delete", "documents:\n  Priya\n"),
        (["timeline", "--limit", "1", "--kind", "note"], "timeline", "The otter sleeps"),
        (["entity", "list", "--limit", "1"], "entity", "observation"),
        (["entity", "show", "Nobody"], "entity", "Priya"),
        (["entity", "observe", "Priya", "--delete-observation", "x"], "entity", "Likes chess"),
    ],
    ids=" ".join,
)
def test_the_next_step_acts_on_the_same_memory(chosen, plait, usual, words, verb, shows):
    ran = chosen(*words)
    [step] = commands(ran.err)
    assert verb in step
    after = plait(*step, *TEXT)
    assert (after.code, shows in after.out) == (0, True), after
    assert not usual.exists()


def test_the_next_step_of_a_restore_brings_this_memory_back(chosen, plait, usual):
    chosen("backup", "copy.db")
    chosen("store", "Written later", "--key", "t3")
    [step] = commands(chosen("restore", "copy.db").err)
    assert chosen("get", "t3").code == 3
    assert plait(*step).code == 0
    assert chosen("get", "t3").code == 0
    assert not usual.exists()


def test_the_next_step_of_an_ingest_searches_and_restores_there(chosen, plait, notes, usual):
    [step] = commands(chosen("ingest", "notes").err)
    assert step[-1] == "WORDS"
    assert "fence" in plait(*step[:-1], "fence").out
    (notes / "diary.txt").unlink()
    [step] = commands(chosen("ingest", "notes").err)
    assert plait(*step, *TEXT).out == "Restored diary.txt\n"
    assert not usual.exists()


def test_the_next_step_of_a_salvage_is_about_the_new_memory(chosen, plait, usual):
    [step] = commands(chosen("doctor", "--salvage", "the new.db").err)
    assert step[step.index("--db") + 1].endswith("the new.db")
    assert plait(*step).code == 0
    assert not usual.exists()


def test_a_folder_that_was_emptied_is_forgotten_there(chosen, plait, notes, usual):
    chosen("ingest", "notes")
    shutil.rmtree(notes)
    notes.mkdir()
    [step] = commands(chosen("ingest", "notes").err)
    assert "--allow-removal" in step
    assert commands(plait("ingest", "notes", *CHOSEN).json["caution"]) == [step]
    assert plait(*step).json["removed"] == 3
    assert not usual.exists()


@pytest.mark.parametrize("words", [[], ["stats"]], ids=["alone", "stats"])
def test_an_overview_names_commands_for_this_memory(chosen, plait, usual, words):
    chosen("delete", "t2")
    steps = commands(chosen(*words).out.replace("All commands: plait --help", "").replace(")", ""))
    assert steps
    assert all(step[:4] == list(CHOSEN) for step in steps)
    assert plait(*steps[0], *TEXT).out == "Restored t2\n"
    assert not usual.exists()


def test_an_advice_keeps_the_embedder_that_was_typed(chosen, plait):
    advised = chosen("search", "otter", "--embedder", "ollama:e5").err
    [step, get] = commands(advised)
    assert step == [*CHOSEN, "--embedder", "ollama:e5", "reindex"]
    assert "--embedder" not in get
    # An advice that names the embedder names it once.
    steps = commands(chosen("models", "--embedder", "none").out)
    assert [step.count("--embedder") for step in steps if "reindex" in step] == [1]


def test_variables_stay_in_force_by_themselves(plait, monkeypatch, work):
    monkeypatch.setenv("PLAIT_DB_PATH", str(work / "named.db"))
    plait("store", "The otter sleeps", "--key", "t1")
    assert commands(plait("delete", "t1", *TEXT).err) == [["delete", "--undo"]]


def test_settings_are_advised_for_the_file_that_was_named(plait, work):
    (work / "own.toml").write_text("", encoding="utf-8")
    [step] = commands(plait("--config", "own.toml", "--db", "x.db", "config", "set", "limit").err)
    assert step == ["--config", "own.toml", "config", "set", "limit", "5"]


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (["config", "get", "--url", "x"], ["config", "set-key", "custom", "--url", "URL"]),
        (["config", "set-key"], ["config", "set-key", "openai"]),
        (["config", "set-key", "openai", "k"], ["config", "set-key", "PROVIDER", "[--url", "URL]"]),
    ],
    ids=" ".join,
)
def test_an_example_about_settings_names_their_file(plait, work, words, step):
    (work / "own.toml").write_text("", encoding="utf-8")
    ran = plait("--config", "own.toml", "--db", "x.db", *words)
    assert (ran.code, commands(ran.err)) == (2, [["--config", "own.toml", *step]])


@pytest.mark.parametrize(
    ("words", "step"), [(["watch"], ["watch", "~/notes"]), (["store"], ["store", "a fact"])]
)
def test_an_example_is_about_this_memory(chosen, monkeypatch, words, step):
    monkeypatch.setattr("sys.stdin", None)
    assert commands(chosen(*words).err) == [[*CHOSEN, *step]]


def test_a_damaged_memory_that_was_replaced_is_named_in_the_next_step(chosen, plait, work):
    chosen("backup", "copy.db")
    (work / DATABASE).write_bytes(b"SQLite format 3\0" + bytes(9_000))
    ran = chosen("restore", "copy.db")
    [step] = commands(ran.err)
    assert step[2:] == ["--project", "side project", "doctor", "--salvage", "NEW.db"]
    assert step[0] == "--db" and Path(step[1]).name.startswith("it's {mine}")


def test_options_of_an_earlier_command_are_not_kept(chosen, plait):
    assert commands(plait("search", "otter").err) == [["ingest", "FOLDER"]]


@pytest.mark.parametrize("name", ["two\nlines.db", "a\x1b[2J.db", "x" * 301])
def test_a_name_that_nobody_can_type_is_not_printed(plait, name):
    ran = plait("--db", name, "stats")
    assert "plait --db FILE ingest FOLDER" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["timeline", "--limit", "1", "--path", "notes/ops", "--tag=ops", "--all-projects"],
        ["timeline", "--limit=1", "--since", "2020-01-01", "--cursor", "OLD"],
        ["entity", "list", "--limit", "1"],
    ],
    ids=" ".join,
)
def test_the_next_page_keeps_what_was_typed(chosen, plait, notes, words):
    (notes / "ops" / "more.md").write_text("---\ntags: [ops]\n---\nMore.\n", encoding="utf-8")
    chosen("ingest", "notes")
    if "OLD" in words:
        [step] = commands(chosen(*words[:-2]).err)
        words = [*words[:-1], step[-1]]
    [step] = commands(chosen(*words).err)
    without = words[:-2] if "--cursor" in words else words
    assert step[:-2] == [*without, *CHOSEN, *TEXT]
    assert step[-2] == "--cursor" and step[-1] not in words
    assert plait(*step).code == 0


# Sentences that show how a command is written, or name a verb. Nobody pastes them.
NOT_PASTED = (
    "Usage: ",
    "(see plait ",
    " takes no name",
    " needs the ",
    " reads ",
)
TABLES = ("verbs.py", "wording.py", "completion.py")


def test_every_command_in_the_source_goes_through_one_of_the_two_ways():
    verb = re.compile(rf"\bplait (?:{'|'.join(VERBS)})\b")
    loose = []
    for path in sorted((ROOT / "src" / "plait" / "cli").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        passed = {
            id(part)
            for call in ast.walk(tree)
            if isinstance(call, ast.Call)
            and (getattr(call.func, "id", "") or getattr(call.func, "attr", ""))
            in ("to_run", "suggest")
            for part in ast.walk(call)
        }
        loose += [
            (path.name, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and verb.search(node.value)
            and id(node) not in passed | docstrings
            and path.name not in TABLES
            and not any(part in node.value for part in NOT_PASTED)
        ]
    assert not loose, loose


def test_after_a_repository_was_renamed_ingest_names_the_command_for_its_facts(
    plait, work, monkeypatch
):
    old, new = work / "app", work / "app two"
    (old / ".git").mkdir(parents=True)
    (old / "a.md").write_text("The crane lifts", encoding="utf-8")
    monkeypatch.chdir(old)
    plait("ingest", ".", *TEXT)
    plait("store", "The staging gate is 4711", *TEXT)
    monkeypatch.chdir(work)
    old.rename(new)
    monkeypatch.chdir(new)
    told = plait("ingest", ".", *TEXT)
    [step] = [words for words in commands(told.err) if words[0] == "mark"]
    moved = plait(*step, *TEXT)
    assert moved.out == "Marked 1 document.\n"
    assert "The staging gate is 4711" in plait("search", "staging gate", *TEXT).out
    [back] = [words for words in commands(moved.err) if words[0] == "mark"]
    plait(*back, *TEXT)
    assert "nothing found here" in plait("search", "staging gate", *TEXT).err
    assert "no notes and facts" in plait("mark", "--to-project", str(old), *TEXT).err
    assert plait("mark", "--status", "done", *TEXT).code == 2
    assert plait("mark", "--to-project", "personal", *TEXT).code == 2
