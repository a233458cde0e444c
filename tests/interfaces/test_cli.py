"""Every verb of the command line, its forms, its answers and its exit codes."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from plait import __version__
from plait.cli.verbs import OTHER_VERBS, VERBS
from plait.memory import Memory
from plait.present.text import ingest_text, receipt_text, stats_text
from plait.types import Receipt, Space
from plait.types.reports import FileReport, IngestReport, Stats
from tests.interfaces.command import SAMPLE, spawn

HIT_FIELDS = {
    *("doc_id", "chunk_id", "heading", "text", "score", "source"),
    *("content", "file_path", "file_title", "memory_type", "start_line", "end_line"),
    *("chunk_rowid", "signals", "type", "relevance", "id", "snippet", "trust", "event_at"),
    "highlights",
}
RECEIPT_FIELDS = {
    *("mode_asked", "mode_used", "degraded", "candidates", "indexed_at", "milliseconds"),
    *("tokens", "fusion", "weights", "pending_vectors", "approximate"),
}


def default_memory(home: Path) -> Path:
    with Memory.open(create=False) as memory:
        place = Path(memory.path)
    assert home in place.parents
    return place


# -- a newcomer ----------------------------------------------------------------------------


def test_plait_alone_greets_a_newcomer_and_makes_no_file(plait, home):
    ran = plait("--format", "text")
    assert ran.code == 0
    assert str(default_memory(home)) in ran.out
    assert len(re.findall(r"^  plait \w+", ran.out, re.M)) == 3
    assert "plait --help" in ran.out
    assert ran.err == ""
    assert not default_memory(home).exists()


def test_plait_alone_says_what_is_there(plait, notes):
    plait("ingest", "notes")
    plait("store", "a fact")
    ran = plait("--format", "text")
    assert "documents  4 (3 files, 1 observation)" in ran.out
    assert len(re.findall(r"^  plait \w+", ran.out, re.M)) == 3
    assert plait("--json").json["doc_count"] == plait().json["doc_count"] == 4


@pytest.mark.parametrize(
    ("words", "code", "answer"),
    [
        (["search", "ssh keys"], 3, '"results": []'),
        (["search", "ssh keys", "--format", "array"], 3, "[]"),
        (["search", "ssh keys", "--mode", "vector"], 3, '"results": []'),
        (["timeline"], 3, '"results": []'),
        (["hook", "--try", "where are the ssh keys of Mara"], 3, '"shown": false'),
        (["stats"], 0, '"doc_count": 0'),
        (["export"], 0, '"format": "plait"'),
    ],
)
@pytest.mark.parametrize("there", [False, True], ids=["absent", "empty"])
def test_a_memory_without_anything_in_it_answers_empty_and_says_so(
    plait, home, words, code, answer, there
):
    if there:
        Memory.open().close()
    ran = plait(*words)
    assert ran.code == (code if there else 3)
    assert answer in ran.out
    assert ("is empty. " if there else "there is no memory at ") in ran.err
    assert "Start with: plait ingest FOLDER" in ran.err
    assert default_memory(home).exists() == there


@pytest.mark.parametrize("words", [["doctor"], ["doctor", "--fix"]])
def test_doctor_says_that_there_is_no_memory(plait, home, words):
    ran = plait(*words)
    assert (ran.code, ran.json["ok"]) == (3, True)
    assert ran.json["findings"][0]["message"].startswith("There is no memory at ")
    assert not default_memory(home).exists()


@pytest.mark.parametrize(
    "words", [["get", "abcdef"], ["delete", "abcdef"], ["delete", "--undo"], ["reindex"]]
)
def test_verbs_that_need_something_say_that_there_is_no_memory_yet(plait, home, words):
    ran = plait(*words)
    assert ran.code == 3
    assert "no memory at" in ran.err
    assert "Start with: plait ingest FOLDER" in ran.err
    assert not default_memory(home).exists()


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"], ["--db", "x.db", "--help"]])
def test_help_lists_every_verb(plait, words):
    ran = plait(*words)
    assert ran.code == 0
    for verb, row in VERBS.items():
        assert f"  {verb}" in ran.out
        assert row.summary in ran.out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(plait, verb):
    ran = plait(verb, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == plait("help", verb).out
    assert ran.out.startswith(f"usage: plait {verb} ")
    assert VERBS[verb].example in ran.out
    assert "--db FILE" in ran.out
    undocumented = re.findall(r"^  (--[\w-]+)(?: [A-Z=,]+)?$\n(?! {6})", ran.out, re.M)
    assert undocumented == []


RARE = ("--embedder", "--ollama-url", "--model", "--chunk-size", "--overlap", "--fusion")


@pytest.mark.parametrize("verb", VERBS)
def test_help_lists_rare_options_only_where_they_matter(plait, verb):
    listed = re.findall(r"^  (?:-q, )?(--[\w-]+)", plait(verb, "--help").out, re.M)
    assert {"--db", "--config", "--project", "--json", "--format", "--quiet"} <= set(listed)
    wanted = verb in ("store", "ingest", "search", "reindex", "eval")
    # In a chat, --model is the chat's.
    rare = [flag for flag in RARE if not (flag == "--model" and verb in ("chat", "digest"))]
    assert all((flag in listed) == wanted for flag in rare)


def test_the_overview_lists_the_options_of_every_command(plait):
    out = plait("--help").out
    assert all(f"  {flag} " in out for flag in (*RARE, "--db", "--json", "--format", "--quiet"))


def test_an_option_that_help_leaves_out_is_taken_all_the_same(plait):
    plait("store", "a fact")
    assert plait("stats", "--embedder", "none", "--chunk-size", "1200").code == 0


@pytest.mark.parametrize("words", [["--version"], ["-V"], ["version"], ["search", "--version"]])
def test_version_is_one_line(plait, words):
    assert plait(*words) == (0, f"plait {__version__}\n", "")


# -- store ---------------------------------------------------------------------------------


def test_store_takes_the_seeds_form(plait):
    ran = plait("store", "--doc-id", "TOOLS", "--text", "The GPU server is gpu-1")
    assert ran.code == 0
    assert {"doc_id": "TOOLS", "chunks": 1, "project": None}.items() <= ran.json.items()
    hit = plait("search", "--query", "gpu server", "--limit", "5", "--mode", "keyword").json
    assert [hit["doc_id"] for hit in hit["results"]] == ["TOOLS"]


def test_storing_a_key_again_replaces_the_document(plait):
    plait("store", "--doc-id", "X", "--text", "the first text")
    ran = plait("store", "--key", "X", "--text", "quite another", "--format", "text")
    assert ran.out == "Replaced X (1 passage)\n"
    assert plait("search", "first").code == 3
    assert plait("stats").json["doc_count"] == 1


def test_storing_the_same_observation_twice_keeps_one(plait):
    first = plait("store", "We", "deploy", "on", "Fridays").json
    again = plait("store", "We deploy on  Fridays").json
    assert (again["id"], again["duplicate"], first["duplicate"]) == (first["id"], True, False)
    assert plait("stats").json["doc_count"] == 1


def test_store_takes_a_file_under_its_name_or_another(plait, notes):
    assert plait("store", "--file", "notes/TOOLS.md").json["doc_id"] == "TOOLS.md"
    assert plait("store", "--doc-id", "TOOLS", "--file", "notes/TOOLS.md").json["doc_id"] == "TOOLS"
    assert plait("get", "TOOLS").json["results"][0]["path"] == str(notes / "TOOLS.md")


def test_store_keeps_every_field_it_is_given(plait):
    fields = {
        "title": "Deploys",
        "type": "decision",
        "memory_type": "semantic",
        "summary": "when we deploy",
        "session": "s-1",
        "origin": "agent",
        "trust": "untrusted",
        "importance": 0.5,
        "pinned": True,
        "tags": ["ops", "weekly", "team"],
        "metadata": {"author": "Ana", "sprint": "7"},
    }
    plait(
        *("store", "We deploy on Fridays", "--key", "deploys", "--title", "Deploys"),
        *("--type", "decision", "--memory-type", "semantic", "--summary", "when we deploy"),
        *("--session", "s-1", "--origin", "agent", "--trust", "untrusted", "--importance", "0.5"),
        *("--pinned", "--tags", "ops, weekly", "--tag", "team", "--event-at", "2026-03-01T12:00Z"),
        *("--metadata", "author=Ana", "sprint=7"),
    )
    document = plait("get", "deploys").json["results"][0]
    assert {name: document[name] for name in fields} == fields
    assert document["event_at"].startswith("2026-03-01")
    assert (document["kind"], document["text"], document["chunk_count"]) == (
        "note",
        "We deploy on Fridays",
        1,
    )
    assert {"source_path", "file_mtime", "indexed_at"} <= document.keys()


@pytest.mark.parametrize("words", [["-"], ["--text", "-"], ["--file", "-"], []])
def test_store_reads_standard_input(home, words):
    ran = spawn("store", "--key", "piped", *words, stdin="\ufeffGrüße aus 京都\r\n".encode())
    assert (ran.code, ran.json["chunks"]) == (0, 1)
    assert spawn("get", "piped").json["results"][0]["text"].strip() == "Grüße aus 京都"


# -- search --------------------------------------------------------------------------------


def test_a_search_answers_with_results_and_a_receipt(plait, notes):
    plait("ingest", "notes", "--embedder", "hashing")
    ran = plait("search", "how", "do", "we", "rotate", "keys")
    assert ran.code == 0
    assert set(ran.json) == {"results", "receipt"}
    best = ran.json["results"][0]
    assert best.keys() >= HIT_FIELDS
    assert best["doc_id"] == "ops/keys.md"
    assert best["chunk_id"] == "ops/keys.md-0"
    assert best["content"] == best["text"]
    assert best["file_path"] == str(notes / "ops" / "keys.md")
    assert best["file_title"] == "Rotate keys"
    assert (best["type"], best["source"], best["score"]) == ("runbook", "hybrid", 1.0)
    assert (best["start_line"], best["end_line"]) == (6, 8)
    assert ran.json["receipt"].keys() >= RECEIPT_FIELDS
    assert ran.json["receipt"]["mode_used"] == "hybrid"


def test_a_hit_says_where_its_words_stand_and_which_rank_each_branch_gave_it(plait, notes):
    plait("ingest", "notes", "--embedder", "hashing")
    best = plait("search", "rotate", "deploy", "keys").json["results"][0]
    shown = [best["snippet"][start:end].lower() for start, end in best["highlights"]]
    assert {"rotate", "keys"} <= set(shown)
    assert (best["signals"]["keyword_rank"], best["signals"]["vector_rank"]) == (1, 1)
    by_word = plait("search", "rotate", "--mode", "keyword").json["results"][0]["signals"]
    assert (by_word["keyword_rank"], by_word["vector_rank"]) == (1, None)


def test_the_first_moment_of_1970_is_a_time_like_any_other(plait):
    plait("store", "The epoch begins", "--event-at", "1970-01-01T00:00+00:00")
    [row] = plait("timeline").json["results"]
    assert row["event_at"] is not None
    assert row["event_at"][:4] in ("1969", "1970")  # local time, with its offset


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector", "fts", "vec"])
def test_every_mode_and_its_alias_answers(plait, notes, mode):
    plait("ingest", "notes", "--embedder", "hashing")
    ran = plait("search", "--query", "rotate the deploy keys", "--limit", "5", "--mode", mode)
    assert ran.json["results"][0]["doc_id"] == "ops/keys.md"
    used = {"fts": "keyword", "vec": "vector"}.get(mode, mode)
    assert ran.json["receipt"]["mode_used"] == used
    assert {hit["source"] for hit in ran.json["results"]} <= {used, "keyword", "vector", "hybrid"}


def test_the_three_forms_of_an_answer(plait, notes):
    plait("ingest", "notes")
    whole = plait("search", "ssh password", "--json").json
    array = plait("search", "ssh password", "--format", "array").json
    assert [hit["id"] for hit in array] == [hit["id"] for hit in whole["results"]]
    assert plait("search", "ssh password", "--format", "json").json["results"] == array
    text = plait("search", "ssh password", "--format", "text")
    first, second = text.out.splitlines()[:2]
    assert re.fullmatch(r"[01]\.\d\d  [a-z2-7]{8}  TOOLS\.md:\d+  Tools > GPU server", first), (
        "score, id, place, heading"
    )
    assert "otter-lagoon" in second
    assert re.search(r"plait get [a-z2-7]{8}  # \d+ hits?, hybrid, .* tokens?", text.err)
    assert "\x1b" not in text.out + text.err


def test_options_may_stand_before_after_and_between_the_words(plait, notes, work):
    database = str(work / "mine.db")
    plait("--db", database, "ingest", "notes")
    asked = [
        ["--db", database, "--json", "search", "ssh", "password", "--limit", "1"],
        ["search", "ssh", "--limit", "1", "password", f"--db={database}"],
        ["search", "--limit=1", "--db", database, "--", "ssh", "password"],
        ["-q", "search", "--query", "ssh password", "--limit", "1", "--db", database],
    ]
    answers = [plait(*words).json["results"] for words in asked]
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]) == 1


def test_nothing_found_is_the_empty_form_and_exit_code_3(plait):
    plait("store", "something")
    ran = plait("search", "xylophone")
    assert (ran.code, ran.json["results"]) == (3, [])
    assert "nothing found" in ran.err
    assert plait("search", "xylophone", "--quiet").err == ""
    assert plait("search", "xylophone", "--format", "text").out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing found. Try other words, or --all-projects."),
        (["--all-projects"], "nothing found. Try other words, or --mode vector."),
        (["--project", "alpha"], "nothing found. Try other words, or --mode vector."),
        (["--all-projects", "--mode", "keyword"], "nothing found. Try other words."),
        (
            ["--all-projects", "--min-score", "1"],
            "nothing found. Try other words, or a lower --min-score.",
        ),
        (["--tag", "ops"], "nothing found with these filters. Try --all-projects."),
        (["--tag", "ops", "--all-projects"], "nothing found with these filters."),
    ],
)
def test_nothing_found_advises_only_what_could_help(plait, words, message):
    plait("store", "something", "--project", "alpha")
    assert plait("search", "xylophone", *words).err == f"plait: {message}\n"
    plait("delete", "--kind", "observation", "--all-projects")
    plait("store", "something personal")
    assert "--all-projects" not in plait("search", "xylophone").err


def test_a_number_of_four_digits_is_written_as_people_do():
    stats = Stats(
        path="m.db",
        doc_count=1_234,
        chunk_count=2_345,
        embedded_count=1_111,
        pending_count=1_000,
        trash_count=9_999,
        space=Space("hashing", "grams", 256),
        kinds=(("note", 1_234),),
        projects=(("alpha", 1_234),),
    )
    text = stats_text(stats)
    for number in ("1,234 notes", "2,345", "1,111", "1,000 pending", "9,999", "alpha (1,234)"):
        assert number in text
    report = IngestReport(tuple(FileReport(f"{n}.md", "added") for n in range(1_500)))
    assert ingest_text(report, None).startswith("1,500 files: 1,500 added;")
    assert "1,200 tokens" in receipt_text(Receipt(query="x", tokens=1_200), 3)


@pytest.mark.parametrize("words", [("search", "-"), ("recall", "-"), ("search", "--query", "-")])
def test_a_query_may_come_from_standard_input(plait, notes, words):
    plait("ingest", "notes")
    ran = spawn(*words, stdin="\ufeffrotate the deploy\nkeys\n".encode())
    assert ran.code == 0
    assert ran.json["receipt"]["query"] == "rotate the deploy\nkeys\n"
    assert ran.json["results"][0]["doc_id"] == "ops/keys.md"
    refused = spawn(*words, stdin=b"caf\xe9")
    assert (refused.code, "not UTF-8" in refused.err) == (2, True)


@pytest.mark.parametrize("verb", ["search", "store", "import", "fixed"])
def test_standard_input_may_be_closed(plait, monkeypatch, verb):
    monkeypatch.setattr(sys, "stdin", None)
    ran = plait(verb, "-")
    assert (ran.code, ran.err.startswith("plait: Standard input is closed.")) == (2, True)


def test_files_that_ctrl_c_kept_out_are_counted_in_one_line():
    rows = [FileReport("bad.md", "skipped", reason="not UTF-8 text")]
    rows += [
        FileReport(f"{n}.md", "skipped", reason="stopped", code="interrupted") for n in range(63)
    ]
    report = IngestReport(tuple(rows), interrupted=True, left=937)
    lines = ingest_text(report, None).splitlines()
    assert lines[0].startswith("1 file: 1 skipped; ")
    assert lines[1:] == [
        "  skipped: bad.md (not UTF-8 text)",
        "  not read yet: 1,000 files",
    ]


def test_skipped_files_are_counted_by_reason_and_failed_ones_are_named():
    rows = [FileReport(f"{n}.md", "skipped", reason="empty: no text in it") for n in range(180)]
    rows += [FileReport(f"{n}.txt", "skipped", reason=f"too large: {n} MB") for n in (40, 50)]
    rows += [FileReport("one.md", "skipped", reason="binary, not text")]
    rows += [FileReport(f"{n}.md", "failed", reason="unreadable") for n in ("a", "b")]
    report = IngestReport(tuple(rows))
    assert ingest_text(report, None).splitlines()[1:] == [
        "  failed: a.md (unreadable)",
        "  failed: b.md (unreadable)",
        "  skipped: 180 files (empty: no text in it); --verbose names them",
        "  skipped: 2 files (too large); --verbose names them",
        "  skipped: one.md (binary, not text)",
    ]
    named = ingest_text(report, None, verbose=True).splitlines()[1:]
    assert len(named) == len(rows)
    assert "  skipped: 50.txt (too large: 50 MB)" in named


def test_skipped_files_are_all_in_the_json(plait, notes):
    for name in ("a", "b", "c"):
        (notes / f"{name}.md").write_text("", encoding="utf-8")
    assert len(plait("ingest", "notes").json["left_out"]) == 3
    shown = plait("ingest", "notes", "--format", "text").out
    assert "skipped: 3 files (empty: no text in it)" in shown and "a.md" not in shown
    assert "a.md (empty" in plait("ingest", "notes", "--format", "text", "--verbose").out


def test_what_is_written_says_into_which_project(plait, notes):
    assert plait("ingest", "notes").json["project"] is None
    assert plait("ingest", "notes", "--project", "alpha").json["project"] == "alpha"
    assert plait("store", "a fact", "--project", "alpha").json["project"] == "alpha"
    text = plait("store", "another fact", "--project", "alpha", "--format", "text").out
    assert text.endswith(" (1 passage) in alpha\n")
    words = ["--db", "other.db", "ingest", "notes", "--project", "beta", "--format", "text"]
    text = plait(*words).out
    assert re.fullmatch(
        r"3 files: 3 added; \d+ passages written in beta; .* ignored \(1 .jpg\)\n", text
    )
    assert plait("store", "a third", "--format", "text").out.endswith("(1 passage)\n")


def test_explain_gives_every_hit_its_reasons(plait, notes):
    plait("ingest", "notes", "--embedder", "hashing")
    ran = plait("search", "ssh password", "--explain")
    assert all(hit["reasons"] for hit in ran.json["results"])
    assert "reasons" not in plait("search", "ssh password").json["results"][0]
    text = plait("search", "ssh password", "--explain", "--format", "text").out
    assert ran.json["results"][0]["reasons"][0] in text


def test_window_best_per_document_and_min_score(plait, notes):
    plait("ingest", "notes")
    lone = plait("search", "ssh password", "--limit", "1").json["results"][0]
    wide = plait("search", "ssh password", "--limit", "1", "--window", "5").json["results"][0]
    assert lone["text"] in wide["text"]
    assert "filtered water" in wide["text"]
    hits = plait("search", "tools", "--best-per-document").json["results"]
    assert len(hits) == len({hit["doc_id"] for hit in hits})
    assert plait("search", "password xylophone zebra", "--min-score", "0.99").code == 3


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--kind", "file"], {"ops/keys.md"}),
        (["--kind", "note", "--kind", "file"], {"ops/keys.md", "deploys"}),
        (["--type", "runbook"], {"ops/keys.md"}),
        (["--memory-type", "procedural"], {"deploys"}),
        (["--tag", "ops"], {"ops/keys.md", "deploys"}),
        (["--tag", "ops", "--tag", "ssh"], {"ops/keys.md"}),
        (["--tag", "ops, ssh"], {"ops/keys.md"}),
        (["--kind", "note,file"], {"ops/keys.md", "deploys"}),
        (["--type", "decision,runbook"], {"ops/keys.md"}),
        (["--memory-type", "semantic,procedural"], {"deploys"}),
        (["--trust", "trusted,untrusted"], {"ops/keys.md", "deploys"}),
        (["--metadata", "author=Ana"], {"deploys"}),
        (["--key-prefix", "dep"], {"deploys"}),
        (["--path", "notes/ops"], {"ops/keys.md"}),
        (["--path", "notes/ops/keys.md"], {"ops/keys.md"}),
        (["--path", "notes/op"], set()),
        (["--path", "ops"], {"ops/keys.md"}),
        (["--path", "ops/"], {"ops/keys.md"}),
        (["--path", "ops/keys.md"], {"ops/keys.md"}),
        (["--path", "op"], set()),
        (["--path", "./ops"], set()),
        (["--path", "ops", "--key-prefix", "dep"], set()),
        (["--source", "notes"], {"ops/keys.md"}),
        (["--session", "s-1"], {"deploys"}),
        (["--since", "2026-03-01", "--until", "2026-03-02"], {"ops/keys.md"}),
        (["--until", "2020-01-01"], set()),
        (["--trust", "untrusted"], set()),
    ],
)
@pytest.mark.parametrize("verb", ["search", "timeline"])
def test_filters_narrow_what_counts(plait, notes, verb, words, expected):
    plait("ingest", "notes/ops/keys.md")
    plait("delete", "keys.md", "--purge")
    plait("ingest", "notes", "--pattern", "keys.md")
    plait(
        *("store", "Deploy keys rest on Fridays", "--key", "deploys", "--tags", "ops"),
        *("--memory-type", "procedural", "--session", "s-1", "--metadata", "author=Ana"),
    )
    ran = plait(verb, *(["deploy keys"] if verb == "search" else []), *words)
    assert {row["doc_id"] for row in ran.json["results"]} == expected
    assert ran.code == (0 if expected else 3)


def test_a_folder_reached_by_a_link_is_the_same_source(plait, notes, work):
    (work / "link").symlink_to(notes)
    plait("ingest", "link")
    assert plait("search", "rotate", "--source", "link").code == 0
    assert plait("search", "rotate", "--path", "link/ops").code == 0


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("GPU server SSH password", "hunter2-otter-lagoon"),
        ("Raspberry Pi IP address", "192.168.40.7"),
        ("Ollama embedding model", "nomic-embed-text"),
    ],
)
def test_the_sample_memory_answers_the_seeds_questions(plait, query, words):
    assert plait("ingest", str(SAMPLE)).json["files"] == len([*SAMPLE.rglob("*.md")])
    hits = plait("search", "--query", query, "--limit", "3").json["results"]
    assert words in hits[0]["text"]
    assert hits[0]["doc_id"] == "TOOLS.md"


def test_projects_are_kept_apart_until_all_are_asked_for(plait, work):
    plait("store", "the alpha secret", "--project", "alpha")
    plait("store", "the personal secret")
    assert [hit["text"] for hit in plait("search", "secret").json["results"]] == [
        "the personal secret"
    ]
    assert len(plait("search", "secret", "--all-projects").json["results"]) == 2
    assert len(plait("search", "secret", "--project", "alpha").json["results"]) == 2
    assert plait("search", "alpha", "--project", "beta").code == 3


# -- ingest --------------------------------------------------------------------------------


def test_ingest_takes_the_seeds_form_and_reports_every_file(plait, notes):
    (notes / "sjis.md").write_bytes("日本語のメモ".encode("shift-jis"))
    words = ["ingest", "--path", "notes", "--pattern", "*.md", "--incremental"]
    ran = plait(*words)
    assert ran.code == 0
    first = ran.json
    assert (first["files"], first["skipped"], first["errors"]) == (2, 1, [])
    assert first["chunks"] >= 2
    assert first["ignored"] == 2
    (left_out,) = first["left_out"]
    assert left_out["path"] == str(notes / "sjis.md")
    assert "UTF-8" in left_out["reason"]
    again = plait(*words).json
    assert (again["files"], again["chunks"], again["skipped"]) == (0, 0, 3)


def test_patterns_may_be_separated_by_commas(plait, notes):
    report = plait("ingest", "notes", "--pattern", "*.txt, keys.*").json
    assert (report["files"], report["ignored"]) == (2, 2)


def test_ingest_follows_what_changed_and_what_vanished(plait, notes):
    plait("ingest", "notes")
    (notes / "diary.txt").write_text("We painted the fence blue.\n", encoding="utf-8")
    (notes / "TOOLS.md").unlink()
    (notes / "new.rst").write_text("Fresh\n=====\n\nNew words.\n", encoding="utf-8")
    report = plait("ingest", "notes", "--incremental").json
    counts = [report[name] for name in ("added", "changed", "unchanged", "removed")]
    assert counts == [1, 1, 1, 1]
    assert plait("search", "password", "--mode", "keyword").code == 3
    assert plait("search", "fence green").json["results"][0]["text"].endswith("blue.")


def test_ingest_without_a_path_takes_memory_dir(plait, notes, work):
    (work / "mine.toml").write_text(f'[memory]\nmemory_dir = "{notes}"\n', encoding="utf-8")
    assert plait("ingest", "--config", "mine.toml").json["files"] == 3


def test_ingest_of_several_places_is_one_report(plait, notes):
    ran = plait("ingest", "notes/ops", "--path", "notes/diary.txt", "--format", "text")
    assert ran.out == "2 files: 2 added; 2 passages written\n"
    assert "plait search WORDS" in ran.err


def test_the_users_files_are_never_changed_nor_redacted(plait, notes):
    before = {path: path.read_bytes() for path in notes.rglob("*") if path.is_file()}
    plait("ingest", "notes")
    plait("reindex")
    plait("delete", "--source", "notes", "--purge", "--yes")
    assert {path: path.read_bytes() for path in notes.rglob("*") if path.is_file()} == before


# -- get and timeline ----------------------------------------------------------------------


def test_get_takes_ids_prefixes_keys_and_chunk_ids(plait, notes):
    plait("ingest", "notes")
    hit = plait("search", "ssh password").json["results"][0]
    for name in (hit["id"], hit["id"][:6], hit["chunk_id"]):
        (passage,) = plait("get", name).json["results"]
        assert (passage["id"], passage["text"]) == (hit["id"], hit["text"])
    (document,) = plait("get", "TOOLS.md").json["results"]
    assert document["text"] == (notes / "TOOLS.md").read_text(encoding="utf-8")
    (whole,) = plait("get", hit["id"], "--document").json["results"]
    assert whole == document
    both = plait("get", "TOOLS.md", "diary.txt", "--format", "text").out
    assert "# Tools" in both
    assert "painted the fence" in both


def test_get_answers_with_what_there_is_and_names_what_is_missing(plait, notes):
    plait("ingest", "notes")
    ran = plait("get", "TOOLS.md", "nope", "diary.txt", "nada", "--quiet")
    assert ran.code == 3
    assert [row["doc_id"] for row in ran.json["results"]] == ["TOOLS.md", "diary.txt"]
    assert re.fullmatch(r"plait: .*'nope'.*\nplait: .*'nada'.*\n", ran.err)


def test_the_timeline_is_paged_by_its_cursor_without_gap_or_repeat(plait):
    for day in range(1, 8):
        plait("store", f"event {day}", "--event-at", f"2026-03-0{day}T12:00Z")
    seen: list[str] = []
    words = ["timeline", "--limit", "3"]
    for _ in range(3):
        page = plait(*words).json
        seen += [row["summary"] for row in page["results"]]
        words = ["timeline", "--limit", "3", "--cursor", page["next"] or ""]
    assert page["next"] is None
    assert seen == [f"event {day}" for day in range(7, 0, -1)]
    assert {"id", "created_at", "type", "tags", "summary"} <= page["results"][0].keys()


def test_the_timeline_takes_times_as_people_write_them(plait):
    plait("store", "long ago", "--event-at", "2020-01-01")
    plait("store", "last week", "--event-at", "6d")
    plait("store", "just now")
    for words, summaries in (
        (["--since", "7d"], ["just now", "last week"]),
        (["--since", "2019-12-31", "--until", "2020-02-01T00:00:00+02:00"], ["long ago"]),
        (["--since", "today"], ["just now"]),
        (["--until", "2019-01-01"], []),
    ):
        ran = plait("timeline", *words)
        assert [row["summary"] for row in ran.json["results"]] == summaries
    text = plait("timeline", "--limit", "1", "--format", "text")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d  [a-z2-7]{8}  observation +just now\n", text.out)
    assert re.search(r"plait timeline --limit 1 --format text --cursor \S+  # older", text.err)


# -- delete --------------------------------------------------------------------------------


@pytest.fixture
def five(plait, notes):
    """Three files, a note and an observation."""
    plait("ingest", "notes")
    plait("store", "--doc-id", "X", "--text", "a note to go", "--tags", "old")
    plait("store", "an observation to stay")
    return plait


def names(plait) -> set[str]:
    return {row["title"] or row["summary"] for row in plait("timeline").json["results"]}


def test_delete_by_key_answers_as_the_seed_does(five):
    ran = five("delete", "--doc-id", "X")
    assert ran.code == 0
    assert {"doc_id": "X", "chunks_deleted": 1}.items() <= ran.json.items()
    assert five("search", "note to go").code == 3


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        (["X"], {"X"}),
        (["--key", "X"], {"X"}),
        (["TOOLS.md", "diary.txt"], {"TOOLS.md", "diary.txt"}),
        (["--path", "notes/ops"], {"ops/keys.md"}),
        (["--path", "notes/diary.txt"], {"diary.txt"}),
        (["--source", "notes"], {"TOOLS.md", "ops/keys.md", "diary.txt"}),
        (["--tag", "old"], {"X"}),
        (["--kind", "file", "--until", "2026-03-02"], {"ops/keys.md"}),
    ],
)
def test_delete_by_name_path_source_and_filter(five, words, gone):
    looked = five("delete", *words, "--dry-run").json
    assert (set(looked["doc_ids"]), looked["dry_run"]) == (gone, True)
    assert five("stats").json["doc_count"] == 5
    ran = five("delete", *words)
    assert set(ran.json["doc_ids"]) == gone
    assert five("stats").json["doc_count"] == 5 - len(gone)


def test_delete_by_id_and_by_the_beginning_of_one(five):
    id_ = five("get", "X").json["results"][0]["id"]
    assert five("delete", id_[:6]).json["ids"] == [id_]
    assert five("delete", "--undo").json == {"restored": ["X"], "dry_run": False}
    assert five("delete", id_).json["doc_id"] == "X"


def test_undo_brings_back_the_latest_delete_as_a_whole(five):
    five("delete", "X")
    five("delete", "TOOLS.md", "diary.txt")
    assert set(five("delete", "--undo").json["restored"]) == {"TOOLS.md", "diary.txt"}
    assert five("search", "ssh password").json["results"][0]["doc_id"] == "TOOLS.md"
    assert five("delete", "--undo", "--format", "text").out == "Restored X\n"
    ran = five("delete", "--undo")
    assert ran.code == 3


@pytest.mark.parametrize("names", [[], ["X"]])
def test_a_dry_undo_restores_nothing(five, names):
    five("delete", "X")
    looked = five("delete", "--undo", "--dry-run", *names)
    assert looked.json == {"restored": ["X"], "dry_run": True}
    shown = five("delete", "--undo", "--dry-run", *names, "--format", "text")
    assert shown.out == "Would restore X\n"
    assert five("stats").json["doc_count"] == 4
    assert five("get", "X").code == 3
    assert five("delete", "--undo", *names).json == {"restored": ["X"], "dry_run": False}
    assert five("delete", "--undo", "--dry-run", *names).code == 3


def test_a_dry_undo_reaches_a_project_of_which_everything_was_deleted(plait):
    plait("store", "one", "--key", "only", "--project", "gone")
    plait("delete", "only", "--project", "gone")
    looked = plait("delete", "--undo", "--dry-run", "--project", "gone")
    assert (looked.code, looked.json["restored"], looked.err) == (0, ["only"], "")


@pytest.mark.parametrize("option", ["--purge", "--saved"])
def test_an_undo_refuses_what_deletes(five, option):
    five("delete", "X")
    assert five("delete", "--undo", option).code == 2
    assert five("get", "X").code == 3


def test_purge_leaves_no_way_back_and_no_byte(five, home):
    five("store", "--doc-id", "secret", "--text", "xyzzyplugh")
    five("delete", "secret", "--purge")
    assert five("delete", "--undo").code == 3
    for file in default_memory(home).parent.iterdir():
        assert b"xyzzyplugh" not in file.read_bytes(), file.name


def test_purge_reaches_what_is_in_the_trash_already(five):
    five("delete", "X")
    assert five("delete", "X", "--purge").json["purged"]
    assert five("delete", "--undo").code == 3


def test_purging_by_filter_wants_to_be_meant(five):
    ran = five("delete", "--kind", "file", "--purge")
    assert (ran.code, five("stats").json["doc_count"]) == (2, 5)
    assert "--dry-run" in ran.err
    assert five("delete", "--kind", "file", "--purge", "--yes").json["purged"]


def test_a_filter_that_fits_nothing_deletes_nothing(five):
    ran = five("delete", "--tag", "nobody")
    assert (ran.code, ran.json["doc_ids"]) == (3, [])
    assert ran.err.startswith("plait: no document matches")


# -- looking after -------------------------------------------------------------------------


def test_reindex_makes_vectors_and_gives_space_back(plait, notes):
    plait("ingest", "notes")
    first = plait("reindex", "--embedder", "hashing").json
    assert first["status"] == "ok"
    assert first["embedded"] == first["chunks"] == plait("stats").json["embedded_count"]
    assert plait("reindex").json["embedded"] == 0
    anew = plait("reindex", "--embeddings", "--compact").json
    assert (anew["embedded"], anew["swapped"]) == (first["chunks"], True)
    assert plait("search", "rotat the deploi kees", "--mode", "vector").code == 0


def test_another_chunk_size_is_said_aloud_and_mended_by_reindex(plait, notes):
    plait("ingest", "notes")
    ran = plait("search", "password", "--chunk-size", "64")
    assert ran.code == 0
    assert "Run: plait reindex" in ran.err
    assert plait("reindex", "--chunk-size", "64").json["rechunked"] == 3
    assert plait("search", "password", "--chunk-size", "64").err == ""


def test_stats_answer_as_the_seed_does(plait, notes, home):
    plait("ingest", "notes", "--embedder", "hashing")
    stats = plait("stats").json
    assert stats["doc_count"] == 3
    assert stats["embedded_count"] == stats["chunk_count"] > 3
    assert stats["db_size_bytes"] >= default_memory(home).stat().st_size
    text = plait("stats", "--format", "text").out
    assert "hashing:char-3-grams" in text


def test_doctor_finds_a_healthy_memory_healthy(plait, notes):
    plait("ingest", "notes", "--embedder", "hashing")
    ran = plait("doctor")
    assert (ran.code, ran.json["ok"]) == (0, True)
    assert {finding["level"] for finding in ran.json["findings"]} == {"ok"}
    assert all(
        line.startswith("ok ") for line in plait("doctor", "--format", "text").out.splitlines()
    )


def test_doctor_salvages_a_memory_that_does_not_open(plait, notes, home):
    plait("ingest", str(notes))
    [database] = home.rglob("memory.db")
    count = plait("stats").json["doc_count"]
    plait("reindex", "--compact")
    data = bytearray(database.read_bytes())
    data[:100] = bytes(100)
    database.write_bytes(data)
    for words in (["search", "keys"], ["stats"], ["doctor"], ["doctor", "--fix"], ["store", "x"]):
        ran = plait(*words)
        assert ran.code == 1
        assert ran.err.endswith("Copy what can still be read: plait doctor --salvage NEW.db\n")
    ran = plait("doctor", "--salvage", "new.db")
    assert (ran.code, ran.json["lost"]) == (0, [])
    assert plait("--db", "new.db", "stats").json["doc_count"] == count
    text = plait("doctor", "--salvage", "other.db", "--format", "text")
    assert f"documents: {count}" in text.out
    assert "Nothing that is known to have been there is lost." in text.out
    assert "plait --db" in text.err
    assert plait("doctor", "--salvage", "new.db").code == 2
    assert plait("doctor", "--salvage", "x.db", "--fix").code == 2
    assert database.read_bytes() == data


def test_doctor_repairs_a_memory_whose_state_cannot_be_read(plait, notes, home):
    plait("ingest", str(notes))
    [database] = home.rglob("memory.db")
    connection = apsw.Connection(str(database))
    connection.execute("UPDATE generations SET space = '[1'")
    connection.close()
    assert plait("stats").err.endswith("Run: plait doctor --fix\n")
    assert plait("doctor").code == 1
    assert plait("doctor", "--fix").code == 0
    assert plait("search", "keys").code == 0


def test_doctor_notices_that_others_may_read_the_file_and_mends_it(plait, home):
    plait("store", "a fact")
    default_memory(home).chmod(0o644)
    assert "warning" in {finding["level"] for finding in plait("doctor").json["findings"]}
    assert any(finding["fixed"] for finding in plait("doctor", "--fix").json["findings"])
    assert stat.S_IMODE(default_memory(home).stat().st_mode) == 0o600


def test_backup_is_private_whole_and_never_overwrites(plait, notes, work):
    plait("ingest", "notes")
    copy = plait("backup", "copy.db").json
    assert copy["path"] == str(work / "copy.db")
    assert stat.S_IMODE((work / "copy.db").stat().st_mode) == 0o600
    assert plait("--db", "copy.db", "stats").json["doc_count"] == 3
    before = (work / "copy.db").stat()
    ran = plait("backup", "copy.db")
    assert (ran.code, ran.out) == (2, "")
    assert "copy.db" in ran.err
    assert (work / "copy.db").stat().st_size == before.st_size


def test_export_and_import_are_a_lossless_round_trip(plait, notes, work):
    plait("ingest", "notes")
    plait("store", "--doc-id", "X", "--text", "líneas\nde 日本", "--tags", "a,b", "--pinned")
    done = plait("export", "all.jsonl").json
    assert done["documents"] == 4
    assert stat.S_IMODE((work / "all.jsonl").stat().st_mode) == 0o600
    imported = plait("--db", "second.db", "import", "all.jsonl").json
    counted = {"documents": 4, "added": 4, "replaced": 0, "kept": 0}
    told = {"unchanged": 0, "left_out": [], "secret": [], "source": "plait", "dry_run": False}
    assert imported == {
        **counted,
        "relations": 0,
        "unknown": [],
        "untrusted_relations": 0,
        "scoped": 0,
        "unhidden": 0,
        **told,
    }
    again = plait("--db", "second.db", "import", "all.jsonl").json
    assert (again["replaced"], again["unchanged"]) == (0, 4)
    # When a document was indexed is a fact about the memory it is in, not about the document.
    first, second = (
        re.sub(r'"indexed_at": \d+', "", exported)
        for exported in (
            (work / "all.jsonl").read_text("utf-8"),
            plait("--db", "second.db", "export").out,
        )
    )
    assert first == second
    again = plait("export", "all.jsonl")
    assert again.code == 2
    ids = [
        plait(*db, "search", "password").json["results"][0]["id"]
        for db in ([], ["--db", "second.db"])
    ]
    assert ids[0] == ids[1]


def test_export_takes_filters_and_writes_to_standard_output(plait, notes):
    plait("ingest", "notes")
    header, *rows = plait("export", "--tag", "ssh").out.splitlines()
    assert json.loads(header)["format"] == "plait"
    assert [json.loads(row)["key"] for row in rows] == ["ops/keys.md"]


def test_export_with_a_filter_keeps_to_the_project_unless_all_are_asked_for(plait):
    plait("store", "alpha's fact", "--project", "alpha", "--tags", "ops")
    plait("store", "personal fact", "--tags", "ops")
    for words, count in (([], 2), (["--tag", "ops"], 1), (["--tag", "ops", "--all-projects"], 2)):
        assert plait("export", *words).out.count("\n") == 1 + count


def test_import_reads_standard_input(plait, work):
    plait("store", "a fact to carry")
    exported = plait("export").out
    ran = spawn("--db", "other.db", "import", "-", stdin=exported.encode())
    assert (ran.code, ran.json["added"]) == (0, 1)


def test_eval_takes_notes_and_questions_without_an_answer(plait, work):
    for folder in ("questions", "home"):
        (work / folder).mkdir()
    (work / "home" / "keys.md").write_text("Rotate the deploy keys.", encoding="utf-8")
    rows = [
        {"_id": "1", "text": "rotate keys"},
        {"_id": "2", "text": "sourdough", "answerable": False},
    ]
    lines = "\n".join(map(json.dumps, rows))
    (work / "questions" / "queries.jsonl").write_text(lines, encoding="utf-8")
    (work / "questions" / "qrels.tsv").write_text("1\tkeys.md\t1\n", encoding="utf-8")
    words = ["eval", "questions", "--notes", "home", "--mode", "fts"]
    [report] = plait(*words).json["collections"]
    assert report["runs"][0]["quality"]["mrr_10"] == 1.0
    assert report["silence"]["silent"] == 1.0
    assert "recall says nothing to 1 of 1 questions" in plait(*words, "--format", "text").out


def test_eval_measures_a_folder_of_questions(plait, work):
    folder = work / "questions"
    folder.mkdir()
    texts = {"a": "Rotate the deploy keys every quarter.", "b": "The fence is green."}
    rows = [json.dumps({"_id": name, "text": text}) for name, text in texts.items()]
    (folder / "corpus.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "rotate keys"}', encoding="utf-8")
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n", encoding="utf-8")
    ran = plait("eval", "questions", "--embedder", "hashing")
    runs = {run["name"]: run["quality"] for run in ran.json["collections"][0]["runs"]}
    assert runs.keys() == {"keyword", "vector", "hybrid", "grep"}
    assert runs["hybrid"]["ndcg_10"] == 1.0
    alone = plait(
        "eval", "questions", "--mode", "fts", "--no-grep", "--no-deep", "--format", "text"
    )
    assert "| questions | keyword | 1.000 |" in alone.out
    words = ["--mode", "hybrid", "--fusions", "weighted,rrf", "--no-grep", "--no-deep", "--half"]
    swept = plait("eval", "questions", "--embedder", "hashing", *words, "both", "--sweep").json
    names = [run["name"] for run in swept["collections"][0]["runs"]]
    assert names == [f"hybrid, weighted, keyword 0.{n}" for n in range(3, 10)] + ["hybrid, rrf"]
    assert swept["mean"]["hybrid, rrf"]["halves"]["odd"]["queries"] == 1
    few = plait("eval", "questions", "--embedder", "hashing", *words, "odd", "--weights", "0.5, 1")
    assert [run["name"] for run in few.json["collections"][0]["runs"]] == [
        "hybrid, weighted, keyword 0.5",
        "hybrid, weighted, keyword 1",
        "hybrid, rrf",
    ]
    assert not (work / "memory.db").exists()


# -- settings ------------------------------------------------------------------------------


def test_config_shows_sets_and_tells_where_values_come_from(plait, home):
    place = plait("config", "path", "--format", "text").out.strip()
    assert str(home) in place
    assert plait("config", "set", "limit", "5").json["path"] == place
    assert stat.S_IMODE(Path(place).stat().st_mode) == 0o600
    assert plait("config", "get", "limit", "--format", "text").out == "5\n"
    assert plait("config", "get", "limit").json == {"limit": 5}
    shown = plait("config", "show", "--origin").json
    assert shown["limit"] == {"value": 5, "origin": place}
    assert shown["rrf_k"] == {"value": 60, "origin": "default"}
    assert plait("config", "--chunk-size", "512").json["chunk_size"] == 512
    assert re.search(
        rf"^limit +=+ 5  # {place}$",
        plait("config", "show", "--origin", "--format", "text").out,
        re.M,
    )


@pytest.mark.parametrize(
    ("name", "typed", "value", "text"),
    [
        ("limit", "5", 5, "5"),
        ("auto_save", "yes", True, "on"),
        ("patterns", "*.md,*.txt", ["*.md", "*.txt"], "*.md,*.txt"),
        ("embedding_provider", "none", "none", "none"),
        ("embedding_provider", "builtin", "builtin", "builtin"),
        ("embedding_provider", "ollama:nomic", "ollama:nomic", "ollama:nomic"),
        ("embedding_provider", "openai", "openai", "openai"),
        (
            "embedding_provider",
            "custom:http://localhost:8080/v1/#bge-m3",
            "custom:http://localhost:8080/v1#bge-m3",
            "custom:http://localhost:8080/v1#bge-m3",
        ),
        ("project", "personal", "", "personal"),
    ],
)
def test_config_set_answers_with_the_value_that_will_be_read(plait, name, typed, value, text):
    assert plait("config", "set", name, typed).json[name] == value
    assert plait("config", "get", name).json[name] == value
    ran = plait("config", "set", name, typed, "--format", "text")
    assert ran.out.startswith(f"{name} = {text} in ")


def test_config_unset_takes_a_setting_back(plait):
    plait("config", "set", "limit", "5")
    plait("config", "set", "patterns", "*.md")
    ran = plait("config", "unset", "limit")
    assert ran.json["limit"] is None
    assert plait("config", "show", "--origin").json["limit"] == {"value": 10, "origin": "default"}
    assert plait("config", "get", "patterns").json == {"patterns": ["*.md"]}
    place = Path(ran.json["path"])
    assert place.read_text(encoding="utf-8") == '[memory]\npatterns = ["*.md"]\n'
    assert plait("config", "unset", "limit").code == 3


def test_config_unset_mends_a_file_with_an_unknown_name(plait, work):
    text = '# mine\n[memory]\ncolour = [\n  "blue",\n]  # once\nlimit = 4\n[other]\ncolour = 1\n'
    (work / "mine.toml").write_text(text, encoding="utf-8")
    assert plait("stats", "--config", "mine.toml").code == 2
    assert plait("config", "unset", "colour", "--config", "mine.toml").code == 0
    left = "# mine\n[memory]\nlimit = 4\n[other]\ncolour = 1\n"
    assert (work / "mine.toml").read_text(encoding="utf-8") == left


def test_a_setting_takes_effect_and_a_flag_wins_over_it(plait, monkeypatch):
    for number in range(4):
        plait("store", f"number {number} of many")
    plait("config", "set", "limit", "2")
    assert len(plait("search", "many").json["results"]) == 2
    monkeypatch.setenv("PLAIT_LIMIT", "3")
    assert len(plait("search", "many").json["results"]) == 3
    assert len(plait("search", "many", "--limit", "4").json["results"]) == 4


def test_a_bad_settings_file_can_be_mended_by_config_set(plait, home):
    place = Path(plait("config", "path", "--format", "text").out.strip())
    place.parent.mkdir(parents=True)
    place.write_text("[memory]\nlimit = 5000\n", encoding="utf-8")
    assert plait("search", "x").code == 2
    assert plait("config", "path").code == 0
    assert plait("config", "set", "limit", "5").code == 0
    assert plait("config", "get", "limit").json == {"limit": 5}


def test_config_set_writes_the_file_that_config_names(plait, work):
    (work / "mine.toml").write_text("# mine\n", encoding="utf-8")
    assert plait("--config", "mine.toml", "config", "set", "limit", "7").code == 0
    assert (work / "mine.toml").read_text(encoding="utf-8").startswith("# mine\n")
    assert plait("config", "get", "limit", "--config", "mine.toml").json == {"limit": 7}
    assert plait("config", "get", "limit").json == {"limit": 10}


def test_a_config_json_of_seed_001_is_read(plait, work):
    settings = {
        "db_path": "data/hybrid_search.db",
        "ollama_url": "http://localhost:11434",
        "model": "nomic-embed-text",
        "chunk_size": 512,
        "chunk_overlap": 50,
        "keyword_weight": 0.3,
        "vector_weight": 0.7,
        "cache_size": 256,
        "dims": 768,
    }
    (work / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    plait("--config", "config.json", "store", "--doc-id", "X", "--text", "T")
    assert (work / "data" / "hybrid_search.db").exists()
    shown = plait("--config", "config.json", "config", "show").json
    assert {**settings, "db_path": str(work / "data" / "hybrid_search.db")}.items() <= shown.items()


# -- completion ----------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_verb_and_option(plait, shell):
    script = plait("completion", shell).out
    for verb in VERBS:
        assert re.search(rf"\b{verb}\b", script)
    assert "best-per-document" in script


@pytest.mark.skipif(os.name != "posix", reason="needs bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("plait sea", ["search"]),
        ("plait --db x re", ["recall", "reindex", "restore", "review"]),
        ("plait search --best", ["--best-per-document"]),
        ("plait doctor --f", ["--fix", "--format"]),
        ("plait ingest no", ["notes"]),
        ("plait search --mode k", ["keyword"]),
        ("plait --db x search words --kind m", ["message"]),
        ("plait config s", ["set", "set-key", "show"]),
        ("plait config set chunk_", ["chunk_overlap", "chunk_size"]),
        ("plait entity rel", ["relate"]),
        ("plait search --mode keyword --fo", ["--format"]),
    ],
)
def test_the_bash_completion_completes(plait, notes, work, line, offered):
    (work / "plait.bash").write_text(plait("completion", "bash").out, encoding="utf-8")
    subprocess.run(["bash", "-n", "plait.bash"], check=True)
    drive = "source plait.bash; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _plait"
    done = subprocess.run(
        ["bash", "-c", f'{drive}; printf "%s\\n" "${{COMPREPLY[@]}}"', "bash", line],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert sorted(done.stdout.split()) == offered


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("serch", "search"), ("ingset", "ingest"), ("doctr", "doctor"), *OTHER_VERBS.items()],
)
def test_an_unknown_verb_is_answered_with_the_one_that_was_meant(plait, typed, meant):
    ran = plait(typed, "words")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"plait: There is no command '{typed}'. Did you mean: plait {meant}\n"
    assert meant.split()[0] in VERBS


def test_eval_make_asks_the_memory_its_own_titles(plait):
    plait("ingest", str(SAMPLE / "runbooks"))
    report = plait("eval", "--make", "5").json
    assert report["questions"] == 5
    assert {run["mode"] for run in report["runs"]} == {"keyword", "vector", "hybrid"}
    assert all(run["first"] <= run["in_3"] <= run["in_10"] <= 1 for run in report["runs"])
    shown = plait("eval", "--make", "5", "--mode", "fts", "--format", "text").out
    assert "| keyword | " in shown
    assert "hybrid" not in shown
    for words in (["eval"], ["eval", "x", "--make", "5"], ["eval", "--make", "0"]):
        assert plait(*words).code == 2


@pytest.mark.parametrize(
    ("option", "keys"),
    [(["--pinned"], {"a"}), (["--named", "b"], {"b"}), (["--mentions", "otters"], {"b"})],
)
def test_filters_of_names_and_words_are_options_too(plait, option, keys):
    plait("store", "Herons fish", "--key", "a", "--pinned")
    plait("store", "Otters fish", "--key", "b")
    assert {row["doc_id"] for row in plait("timeline", *option).json["results"]} == keys
    assert {row["doc_id"] for row in plait("search", "fish", *option).json["results"]} == keys
    deleted = plait("delete", *option, "--dry-run").json
    assert set(deleted["doc_ids"]) == keys
