"""What the command line says to somebody who does not know it yet: what was meant, what follows."""

import re

import pytest

from tests.interfaces.command import SAMPLE

# delete


def test_deleting_a_file_that_is_still_there_says_that_it_comes_back(plait, notes):
    plait("ingest", "notes")
    ran = plait("delete", "diary.txt")
    assert ran.err == (
        f"plait: the file is still at {notes / 'diary.txt'}: the next ingest adds it again. "
        "To keep it out, list it in .plaitignore\n"
    )
    assert plait("ingest", "notes").json["added"] == 1
    (notes / ".plaitignore").write_text("diary.txt\n", encoding="utf-8")
    plait("delete", "diary.txt", "--purge")
    assert plait("ingest", "notes").json["added"] == 0


@pytest.mark.parametrize("more", [[], ["--purge", "--yes"]])
def test_several_files_that_are_still_there_are_counted_once(plait, notes, more):
    plait("ingest", "notes")
    ran = plait("delete", "--path", "notes", *more)
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("plait: 3 files are still on disk, ")
    assert ran.err.endswith("To keep them out, list them in .plaitignore\n")


@pytest.mark.parametrize(
    "words", [["diary.txt"], ["X"], ["ops/keys.md", "--dry-run"], ["ops/keys.md", "--quiet"]]
)
def test_a_delete_that_needs_no_word_about_files_says_none(plait, notes, words):
    plait("ingest", "notes")
    plait("store", "--doc-id", "X", "--text", "a note to go")
    (notes / "diary.txt").unlink()
    ran = plait("delete", *words)
    assert (ran.code, ran.err) == (0, "")


def test_stats_promise_no_more_than_undo_can_do(plait):
    plait("store", "--doc-id", "X", "--text", "one")
    plait("delete", "X")
    plait("store", "--doc-id", "X", "--text", "two")
    assert "trash      1 (see plait delete --undo)" in plait("stats", "--format", "text").out


# entities


@pytest.fixture
def people(plait):
    plait("entity", "add", "Priya", "Likes chess", "--type", "person")
    plait("entity", "add", "Deploy", "--type", "process")
    return plait


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["entity", "show", "priya"], 3),
        (["entity", "show", "Deploy", "priya"], 3),
        (["entity", "delete", "priya"], 3),
        (["entity", "observe", "priya", "Likes go"], 3),
        (["entity", "observe", "priya", "--delete-observation", "Likes chess"], 3),
        (["entity", "relate", "priya", "approves", "Deploy"], 3),
        (["entity", "relate", "Deploy", "needs", "priya"], 3),
        (["search", "chess", "--entity", "priya"], 3),
        (["recall", "chess", "--entity", "priya"], 3),
        (["timeline", "--entity", "priya"], 3),
        (["export", "--entity", "priya"], 3),
        (["export", "some.jsonl", "--entity", "priya"], 3),
        (["delete", "--entity", "priya"], 3),
    ],
)
def test_an_entity_of_another_case_is_suggested(people, words, code):
    ran = people(*words)
    assert ran.code == code
    assert "Did you mean 'Priya'?" in ran.err


def test_an_entity_is_suggested_for_a_slip_and_for_capitals_but_not_for_anything(people):
    assert "Did you mean 'Priya'?" in people("entity", "show", "Prya").err
    assert "Did you mean 'Deploy'?" in people("entity", "show", "DEPLOY").err
    assert "Did you mean" not in people("entity", "show", "Zoroaster").err
    assert "Did you mean" not in people("timeline", "--anchor", "Prya").err


@pytest.mark.parametrize(
    "words", [["store", "Likes go", "--entity", "priya"], ["entity", "add", "priya"]]
)
def test_an_entity_made_beside_its_namesake_is_remarked_upon_once(people, words):
    warning = "plait: created a new entity 'priya'; there is also 'Priya'\n"
    assert warning in people(*words).err
    assert warning not in people(*words, "Likes tea").err
    assert "created a new entity" not in people("store", "Is here", "--entity", "Priya").err
    assert "created a new entity" not in people("store", "Is there", "--entity", "Zed").err


def test_relations_of_several_entities_stand_under_their_own_heading(people):
    people("entity", "relate", "Priya", "approves", "Deploy")
    text = people("entity", "show", "Priya", "Deploy", "--format", "text").out
    assert text.endswith("\nDeploy  (process)\n\nRelations\n  Priya -approves-> Deploy\n")
    assert "Relations" not in people("entity", "show", "Priya", "--format", "text").out


# names of documents


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("keys.md", "ops/keys.md"),
        ("KEYS.md", "ops/keys.md"),
        ("Ops/Keys.md", "ops/keys.md"),
        ("ops/kyes.md", "'ops/keys.md'"),
        ("tools.md", "TOOLS.md"),
    ],
)
def test_a_document_of_almost_that_name_is_suggested(plait, notes, name, meant):
    plait("ingest", "notes")
    ran = plait("delete", name)
    assert (ran.code, ran.json["chunks_deleted"]) == (3, 0)
    assert ran.err == f"plait: Nothing is named '{name}'. Did you mean {meant}?\n"


def test_reading_takes_the_bare_name_of_one_file_and_nothing_else(plait, notes):
    plait("ingest", "notes")
    assert plait("get", "KEYS.md").json["results"][0]["doc_id"] == "ops/keys.md"
    ran = plait("get", "ops/kyes.md")
    assert (ran.code, ran.json["results"]) == (3, [])
    assert "Did you mean 'ops/keys.md'?" in ran.err


def test_documents_of_the_same_name_are_offered_nearest_first(plait, notes):
    (notes / "ops" / "old").mkdir()
    (notes / "ops" / "old" / "keys.md").write_text("Old keys.\n", encoding="utf-8")
    plait("ingest", "notes")
    assert "Did you mean ops/keys.md or ops/old/keys.md?" in plait("delete", "keys.md").err
    assert "'keys.md' matches 2 entries" in plait("get", "keys.md").err


def test_a_name_in_another_project_and_a_quarantined_one_are_not_suggested(plait):
    plait("store", "--doc-id", "ops/wifi.md", "--text", "x", "--project", "other")
    plait("store", "--doc-id", "lab/wifi.md", "--text", "x", "--trust", "quarantined")
    assert "Did you mean" not in plait("get", "wifi.md").err


@pytest.mark.parametrize(
    ("name", "short"),
    [("aj7", True), ("ID", True), ("alarm", False), ("ajt2k7", False), ("a-b", False)],
)
def test_a_beginning_that_is_too_short_for_an_id_is_told_so(plait, name, short):
    id_ = plait("store", "a fact").json["id"]
    ran = plait("get", id_[:4] if name == "ID" else name)
    assert (ran.code, "6 characters" in ran.err) == (3, short)


# search


def test_hits_that_little_speaks_for_are_marked_weak(plait):
    plait("ingest", str(SAMPLE))
    words = ("search", "certifcate renewl", "--limit", "10")
    relevance = [hit["relevance"] for hit in plait(*words).json["results"]]
    heads = re.findall(r"^\d\.\d\d  .*$", plait(*words, "--format", "text").out, re.M)
    marked = [head.endswith("  (weak)") for head in heads]
    assert marked == [value < 0.25 for value in relevance]
    assert set(marked) == {True, False}


@pytest.mark.parametrize(
    "words", [["search", "foo"], ["timeline"], ["stats"], ["recall", "foo"], ["overview"]]
)
def test_a_mistyped_memory_is_said_not_to_exist(plait, work, words):
    ran = plait("--db", "typo.db", *words)
    assert f"there is no memory at {work / 'typo.db'} yet" in ran.err
    assert not (work / "typo.db").exists()


@pytest.mark.parametrize("verb", ["delete", "open"])
def test_the_name_of_a_session_leads_to_its_messages(plait, verb):
    plait("store", "Is the tide low?", "--role", "user", "--session", "s 1")
    ran = plait(verb, "s 1")
    assert ran.code == 3
    assert "plait delete --session 's 1'" in ran.err
    assert "plait get 's 1'" in ran.err
    assert plait("get", "s 1").code == 0


def test_an_alias_is_suggested_too(plait, work):
    (work / "vault").mkdir()
    note = "---\naliases: [rotation, key change]\n---\nChange the keys."
    (work / "vault" / "keys.md").write_text(note, encoding="utf-8")
    plait("ingest", "vault")
    assert "Did you mean 'rotation'?" in plait("get", "rotaton").err
    assert "Did you mean" not in plait("get", "zebra").err


# what has another name, or had it


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["recall", "x", "--max-tokens", "100"], "Did you mean '--budget'?"),
        (["overview", "--max-tokens=100"], "Did you mean '--budget'?"),
        (["search", "x", "--budget", "100"], "Did you mean '--max-tokens'?"),
        (["get", "x", "--budget", "100"], "Did you mean '--max-tokens'?"),
        (["search", "x", "-n", "3"], "Did you mean '--limit'?"),
        (["search", "x", "--top-k=3"], "Did you mean '--limit'?"),
        (["timeline", "--all"], "Did you mean '--all-projects'?"),
        (["delete", "x", "--force"], "Did you mean '--yes'?"),
        (["entity", "create", "Ann"], "Did you mean 'add'?"),
        (["entity", "update", "Ann"], "Did you mean 'observe'?"),
        (["entity", "rm", "Ann"], "Did you mean 'delete'?"),
        (["config", "list"], "Did you mean 'show'?"),
        (["config", "lst"], "Did you mean 'show'?"),
        (["entity", "delte", "Ann"], "Did you mean 'delete'?"),
        (["config", "remove", "limit"], "Did you mean 'unset'?"),
        (["team", "rm", "ann"], "Did you mean 'remove'?"),
        (["postgres", "remove", "notes"], "Did you mean 'drop'?"),
        (["SEARCH", "foo"], "Did you mean: plait search"),
        (["Find", "foo"], "Did you mean: plait search"),
    ],
    ids=" ".join,
)
def test_what_another_verb_calls_so_is_named(plait, words, hint):
    ran = plait(*words)
    assert (ran.code, hint in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(
    "words",
    # By their letters they resemble --source, prune, restore and connect.
    [["search", "x", "--force"], ["run"], ["reset"], ["countess"]],
    ids=" ".join,
)
def test_another_word_is_no_typing_error(plait, words):
    ran = plait(*words)
    assert (ran.code, "Did you mean" in ran.err, "--help" in ran.err) == (2, False, True), ran.err


@pytest.mark.parametrize("verb", ["search hm", "recall hm", "timeline", "delete", "export"])
@pytest.mark.parametrize(
    ("filters", "meant"),
    [
        (["--tag", "beez"], "--tag bees"),
        (["--type", "decsion"], "--type decision"),
        (["--topic", "deplyos"], "--topic deploys"),
        (["--tag", "Bees", "--type", "decsion"], "--tag bees --type decision"),
    ],
    ids=" ".join,
)
def test_a_value_that_is_not_stored_suggests_the_nearest(plait, verb, filters, meant):
    plait("store", "The hives hum", "--tag", "bees", "--type", "decision", "--topic", "deploys")
    ran = plait(*verb.split(), *filters)
    assert f" Did you mean {meant}?" in ran.err, ran.err


def test_a_value_that_is_stored_suggests_nothing(plait):
    plait("store", "The hives hum", "--tag", "bees")
    plait("store", "They sleep", "--tag", "beet")
    assert "Did you mean" not in plait("timeline", "--tag", "bees", "--type", "x").err


@pytest.mark.parametrize("verb", [["get"], ["delete"], ["mark", "--status", "done"]])
def test_a_name_that_was_deleted_is_told_with_the_way_back(plait, verb):
    id_ = plait("store", "Wake me", "--key", "alarm").json["id"]
    plait("delete", "alarm")
    for name in ("alarm", id_[:8]):
        ran = plait(*verb, name)
        undo = f"plait delete --undo {name}"
        assert ran.err == f"plait: '{name}' was deleted. To restore it: {undo}\n"
    plait(*undo.split()[1:])
    assert plait("get", "alarm").code == 0


def test_an_entity_is_suggested_by_one_of_its_words(people):
    people("entity", "add", "Marek Novák", "Likes tea")
    for words in (["show", "marek"], ["relate", "NOVÁK", "knows", "Priya"]):
        assert "Did you mean 'Marek Novák'?" in people("entity", *words).err


def test_a_copy_of_a_memory_can_be_restored_rather_than_imported(plait):
    plait("store", "One")
    plait("backup", "copy.db")
    ran = plait("import", "copy.db")
    assert ran.code == 2
    assert "If it is a backup: plait restore copy.db." in ran.err
    assert "plait --db copy.db export FILE.jsonl" in ran.err


def test_a_type_that_only_a_replaced_fact_has_is_meant_and_no_other_word(plait):
    plait("store", "We deploy on Fridays", "--type", "decision", "--topic", "deploys")
    plait("store", "We deploy on Mondays", "--type", "person", "--topic", "deploys")
    assert "Did you mean --type decision?" in plait("search", "deploy", "--type", "decison").err
    for typed in ("decision", "pensioner"):
        assert "Did you mean" not in plait("search", "deploy", "--type", typed).err


@pytest.mark.parametrize(
    "words",
    [
        ("delete", "{}"),
        ("delete", "{}", "--all-projects"),
        ("mark", "{}", "--status", "done"),
        ("feedback", "{}", "good"),
        ("timeline", "--anchor", "{}"),
        ("store", "x", "--supersedes", "{}"),
    ],
)
@pytest.mark.parametrize("name", ["Lissabon", "lisbon-2026"])
def test_what_only_reads_a_note_leads_to_its_key(plait, tmp_path, words, name):
    (tmp_path / "notes" / "travel").mkdir(parents=True)
    note = "---\naliases: [Lissabon]\n---\nFlight at seven.\n"
    (tmp_path / "notes" / "travel" / "lisbon-2026.md").write_text(note, "utf-8")
    plait("ingest", str(tmp_path / "notes"))
    assert plait("get", name).code == 0
    ran = plait(*(word.format(name) for word in words))
    assert ran.code == 3
    assert "Did you mean travel/lisbon-2026.md?" in ran.err.replace("'", "")


@pytest.mark.parametrize("name", ["boilr.md", "boilr", "Biler.md"])
def test_the_name_of_a_file_is_similar_without_its_folder(plait, tmp_path, name):
    (tmp_path / "notes" / "house").mkdir(parents=True)
    (tmp_path / "notes" / "house" / "boiler.md").write_text("Bleed it.", "utf-8")
    plait("ingest", str(tmp_path / "notes"))
    for verb in ("get", "delete"):
        assert "Did you mean house/boiler.md?" in plait(verb, name).err


@pytest.mark.parametrize(
    ("option", "value"), [("--tag", "OPS"), ("--type", "Decision"), ("--topic", "PORT")]
)
def test_a_value_in_other_letters_is_suggested(plait, option, value):
    words = ("--tags", "ops", "--type", "decision", "--topic", "port")
    plait("store", "The API listens on 8080", *words)
    ran = plait("search", "API", option, value)
    assert (ran.code, f"Did you mean {option} {value.lower()}?" in ran.err) == (3, True)
