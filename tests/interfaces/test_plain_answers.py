"""A command that has nothing to show says what is so, and nothing that is not."""

import pytest

from plait import Memory
from plait.cli.maintain import maintained_dict
from plait.types.reports import Maintained


@pytest.mark.parametrize("query", ["", " ", "\n"])
@pytest.mark.parametrize("verb", ["search", "recall"])
def test_an_empty_query_is_refused_with_the_command_for_the_newest(plait, verb, query):
    """The newest documents would look like hits of ``plait search "$UNSET"``."""
    plait("store", "a fact")
    ran = plait("--db", "other.db", verb, query)
    assert (ran.code, ran.out) == (2, "")
    sentence = "Give words to search for; for the newest documents: plait --db other.db search '*'"
    assert ran.err == f"plait: The query is empty. {sentence}\n"
    assert plait("search", "*").json["results"][0]["text"] == "a fact"


def test_the_library_lists_the_newest_for_an_empty_query(memory):
    memory.store("a fact")
    assert len(memory.search("")) == 1


def test_prune_takes_a_dry_run_for_what_it_does_without_yes(plait):
    for number in range(3):
        plait("store", f"fact number {number}", "--key", f"note-{number}")
    rule = ("prune", "--keep-most", "note=1")
    listed = plait(*rule, "--dry-run")
    assert (listed.code, len(listed.json["ids"]), listed.json["dry_run"]) == (0, 2, True)
    assert listed.json == plait(*rule).json
    assert plait(*rule, "--dry-run", "--yes").code == 2
    assert plait("stats").json["doc_count"] == 3


@pytest.mark.parametrize(
    ("option", "value", "rules"),
    [
        ("--keep-mb", "file=1000", "keep_mb"),
        ("--keep-days", "note=3", "keep_days"),
        ("--delete-archived-days", "3", "delete_archived_days"),
    ],
)
def test_prune_names_the_rules_by_which_nothing_goes(plait, option, value, rules):
    plait("store", "a fact")
    ran = plait("prune", option, value)
    assert (ran.code, ran.err) == (3, f"plait: nothing goes by {rules}\n")


def test_why_files_do_not_go_by_age_is_told_with_the_rule_that_archives_them(plait):
    plait("store", "a fact")
    for words, rule in (
        (("prune", "--keep-days", "file=3"), "--archive-days"),
        (("config", "set", "keep_days", "note=3,file=3"), "archive_days"),
    ):
        ran = plait(*words)
        assert ran.code == 2 and f"nobody changed or read, use {rule}.\n" in ran.err
        assert (
            "Files do not go by their age: they stay as long as they are on your disk." in ran.err
        )
    assert "on your disk" not in plait("prune", "--keep-days", "nte=3").err


ABSENT = [
    *(["stats"], ["doctor"], ["review"], ["log"], ["export"], ["entity", "list"], ["timeline"]),
    *(["search", "x"], ["prune", "--keep-days", "note=1"], ["maintain"], ["reindex"]),
    *(["eval", "--make", "5"], ["recall", "x"], ["overview"], ["backup", "copy.db"]),
]


@pytest.mark.parametrize("words", ABSENT, ids=" ".join)
def test_every_command_says_that_there_is_no_memory_and_exits_with_3(plait, tmp_path, words):
    ran = plait("--db", str(tmp_path / "TYPO.db"), *words)
    assert ran.code == 3
    assert f"here is no memory at {tmp_path / 'TYPO.db'} yet" in ran.err + ran.out
    assert "store TEXT" not in ran.err + ran.out
    assert not (tmp_path / "TYPO.db").exists()


def test_doctor_of_an_existing_memory_is_done(plait):
    plait("store", "a fact")
    assert plait("doctor").code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["keep_dayss", "3"], "Unknown setting 'keep_dayss'. Did you mean 'keep_days'?"),
        (["nope", "1"], "Unknown setting 'nope'. See: plait config show"),
        (["limit", "abc"], "limit must be a whole number from 1 to 1000, got 'abc'."),
        (
            ["fusion", "rff"],
            "fusion is 'rff'; choose one of: weighted, rrf, max. Did you mean 'rrf'?",
        ),
    ],
)
def test_what_was_only_typed_is_not_blamed_on_the_file(plait, words, sentence):
    ran = plait("config", "set", *words)
    assert (ran.code, ran.err) == (2, f"plait: {sentence}\n")


@pytest.mark.parametrize("name", ["plan.md", "Plan.TXT", "plan.html"])
def test_an_import_of_a_note_says_how_to_index_it(plait, tmp_path, name):
    note = tmp_path / name
    note.write_text("# Plan\n\nPaint the shed.\n", encoding="utf-8")
    ran = plait("import", str(note))
    assert ran.code == 2
    assert "is no export: its lines are not JSON. Nothing was imported." in ran.err
    assert ran.err.endswith(f"Index it with: plait ingest {note}\n")


def test_an_export_in_a_text_file_is_told_its_broken_line(plait, tmp_path):
    export = tmp_path / "export.txt"
    export.write_text('\n{"key": "a", "kind": "note", "text": "x"}\nbroken\n', encoding="utf-8")
    ran = plait("import", str(export))
    assert ran.code == 2
    assert "Line 3 is not JSON" in ran.err


def test_an_import_without_sessions_says_what_it_looked_for_and_what_to_do(
    plait, work, monkeypatch
):
    monkeypatch.setenv("HOME", str(work))
    for form in ("json", "text"):
        ran = plait("import", "auto", "--format", form)
        assert ran.code == 3
        assert ran.err.count("\n") == 1
        assert ran.err.startswith("plait: no sessions of claude-code, codex, ")
        for command in ("import chatgpt FILE ", "ingest FOLDER\n"):
            assert command in ran.err
    assert ran.out == ""
    assert plait("import", "auto").json["messages"] == 0


def test_an_import_of_one_agent_without_sessions_names_it_and_its_command(plait, work, monkeypatch):
    monkeypatch.setenv("HOME", str(work))
    ran = plait("import", "cursor")
    assert ran.code == 3
    assert ran.err.startswith("plait: no sessions of cursor were found on this machine. ")
    assert ran.err.endswith(" import cursor FILE\n")


def test_an_empty_export_is_told_which_file_to_name(plait, work):
    (work / "empty").mkdir()
    ran = plait("import", "chatgpt", str(work / "empty"))
    assert ran.code == 3
    assert "no sessions of chatgpt are in" in ran.err
    assert ran.err.endswith(
        "Name the zip that the service exports, or conversations.json out of it.\n"
    )


def test_without_a_memory_the_doctor_advises_what_a_search_advises(plait):
    advice = "Start with: plait "
    searched = plait("search", "x").err.partition(advice)[2]
    examined = plait("doctor", "--format", "text").out.partition(advice)[2]
    assert "ingest FOLDER" in searched
    assert examined.splitlines()[0] == searched.strip()


def test_the_log_of_a_deleted_document_is_found_by_its_old_names(plait):
    id_ = plait("store", "a fact", "--key", "gone").json["id"]
    plait("store", "another fact")
    plait("delete", "gone")
    for name in (id_, id_[:8], id_[:8].upper(), "gone"):
        ran = plait("log", name)
        assert ran.code == 0, ran.err
        assert [row["verb"] for row in ran.json["results"]] == ["delete", "store"]
    # Also when it is no longer in the trash.
    with Memory.open() as memory, memory.engine.transaction() as transaction:
        transaction.expire(2**60)
    assert plait("log", id_[:8]).json["count"] == 2
    assert plait("log", "nosuchname").code == 3


def test_what_maintain_did_has_the_imported_messages():
    assert maintained_dict(Maintained(), 7)["messages"] == 7
