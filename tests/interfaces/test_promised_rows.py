"""Features that people expect of a memory: a command for each, and what it shows."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from plait import Memory
from plait.cli import Output, arguments_for, shared
from plait.cli.maintain import Upkeep
from plait.embedders import PROVIDERS
from plait.errors import SourceError
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Document
from plait.writing.documents import now_ms
from plait.writing.file_types import PATTERN_GROUPS
from tests.interfaces.conftest import Plait


@pytest.fixture
def filled(plait: Plait) -> Plait:
    for number, text in enumerate(("Herons fish at dawn.", "Cranes dance.", "Gulls steal.")):
        plait("store", text, "--key", f"bird-{number}", "--event-at", f"2026-03-0{number + 1}")
    return plait


def test_a_pinned_memory_is_always_recalled(filled: Plait) -> None:
    filled("store", "Always answer in French.", "--key", "style", "--pinned")
    for question in ("herons fish dawn", "qqqqzzzz"):
        ran = filled("recall", question)
        assert ran.code == 0
        first = ran.json["results"][0]
        assert (first["doc_id"], first["pinned"]) == ("style", True)
        assert "Always answer in French." in ran.json["text"]


def test_a_row_says_what_made_it(filled: Plait) -> None:
    made = ("model=m-1", "tool=editor", "branch=main", "commit=4f2a")
    filled("store", "Terns dive.", "--key", "tern", "--provenance", *made)
    [hit] = filled("search", "terns", "--metadata", "branch=main").json["results"]
    assert hit["metadata"] == dict(pair.split("=") for pair in made)
    assert filled("get", "tern").json["results"][0]["metadata"] == hit["metadata"]
    assert (
        "model m-1; tool editor; branch main; commit 4f2a"
        in filled("get", "tern", "--format", "text").out
    )
    assert filled("search", "terns", "--metadata", "branch=other").code == 3
    refused = filled("store", "x", "--provenance", "author=me")
    assert (refused.code, "choose one of: model, tool, branch, commit" in refused.err) == (2, True)


def test_the_memory_can_be_off(plait: Plait, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_BACKEND", "none")
    monkeypatch.setenv("PLAIT_DB", str(work / "off.db"))
    for words, code, empty in (
        (["store", "x"], 0, {"chunks": 0}),
        (["search", "x"], 3, {"results": []}),
        (["timeline"], 3, {"results": []}),
        (["get", "x"], 3, {"results": []}),
        (["delete", "x"], 0, {"chunks_deleted": 0}),
        (["reindex"], 0, {"chunks": 0}),
        (["stats"], 0, {"doc_count": 0}),
        (["ingest", str(work)], 0, {"files": 0}),
    ):
        ran = plait(*words)
        assert (ran.code, {name: ran.json[name] for name in empty}) == (code, empty), words
        assert "The memory is off (backend = none)" in ran.err, words
    assert not (work / "off.db").exists()
    assert plait("store", "x", "--format", "text").out == ""


def test_a_star_lists_the_newest(filled: Plait) -> None:
    ran = filled("search", "*", "--limit", "2")
    assert (ran.code, [hit["doc_id"] for hit in ran.json["results"]]) == (0, ["bird-2", "bird-1"])
    assert not any(hit["weak"] for hit in ran.json["results"])


def test_nonsense_finds_nothing_and_little_evidence_is_marked(filled: Plait) -> None:
    ran = filled("search", "qqqqzzzz")
    assert (ran.code, ran.json["results"]) == (3, [])
    for hit in filled("search", "dance of the blue whales at noon").json["results"]:
        assert hit["weak"] == (hit["relevance"] < 0.25)


def test_what_is_too_old_goes_by_a_rule_and_comes_back(plait: Plait) -> None:
    lines = '{"format": "plait", "version": 1}\n' + "".join(
        f'{{"key": "{key}", "kind": "{kind}", "text": "{key}", "created_at": {time}, '
        f'"updated_at": {time}, "event_at": {time}}}\n'
        for key, kind, time in (
            ("old", "note", 1_600_000_000_000),
            ("kept", "note", now_ms()),
            ("other", "observation", 1_600_000_000_000),
        )
    )
    Path("old.jsonl").write_text(lines, encoding="utf-8")
    assert plait("import", "old.jsonl").code == 0
    assert plait("prune").code == 2
    plait("config", "set", "keep_days", "note=30")
    listed = plait("prune")
    assert (listed.code, listed.json["doc_ids"], listed.json["kinds"]) == (0, ["old"], {"note": 1})
    assert listed.json["dry_run"] is True
    assert plait("get", "old").code == 0
    assert plait("prune", "--yes").json["doc_id"] == "old"
    assert plait("get", "old").code == 3
    assert plait("prune").code == 3
    assert plait("delete", "--undo").json == {"restored": ["old"], "dry_run": False}
    assert set(plait("prune", "--keep-days", "note=1,observation=1").json["doc_ids"]) == {
        "old",
        "other",
    }


def test_a_memory_can_be_read_only(filled: Plait) -> None:
    assert filled("--read-only", "search", "herons").code == 0
    for words in (
        ["store", "x"],
        ["delete", "bird-0"],
        ["reindex"],
        ["entity", "add", "Ana"],
        ["ingest", "."],
        ["delete", "--undo"],
        ["doctor", "--fix"],
        ["restore", "x.db"],
    ):
        ran = filled("--read-only", *words)
        assert (ran.code, ran.out) == (1, ""), words
        assert "is open for reading only; nothing was changed" in ran.err, words
    assert filled("stats").json["doc_count"] == 3


def test_settings_that_cannot_act_say_so(filled: Plait) -> None:
    ran = filled("search", "herons", "--fusion", "rrf", "--keyword-weight", "0.4")
    sentence = (
        "keyword_weight (flag --keyword-weight) has no effect: fusion is rrf, which has no weights."
    )
    assert ran.json["receipt"]["ignored"] == [sentence]
    assert ran.err == f"plait: {sentence}\n"
    ran = filled("search", "herons", "--model", "m")
    assert "model (flag --model) has no effect: the embedder is builtin." in ran.err
    assert "plait reindex --embedder ollama:m" in ran.err
    assert "has no effect" in filled("reindex", "--model", "m").err


@pytest.mark.parametrize("name", ["cache_size", "embedding_cache_size"])
def test_the_cache_has_two_names(plait: Plait, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("c.json").write_text(f'{{"{name}": 7}}', encoding="utf-8")
    assert plait("--config", "c.json", "config", "get", name).json == {"cache_size": 7}
    monkeypatch.setenv(f"PLAIT_{name.upper()}", "8")
    assert plait("config", "get", name).json == {"cache_size": 8}


def test_hybrid_memorys_config_means_ollama(plait: Plait) -> None:
    Path("config.json").write_text(
        '{"db_path": "h.db", "ollama_url": "http://127.0.0.1:9", "model": "nomic-embed-text",'
        '"chunk_size": 512, "chunk_overlap": 50, "keyword_weight": 0.3, "vector_weight": 0.7,'
        '"cache_size": 256, "dims": 768}',
        encoding="utf-8",
    )
    ran = plait("--config", "config.json", "store", "--doc-id", "a", "--text", "Herons fish.")
    assert (ran.code, ran.json["chunks"], ran.json["pending"]) == (0, 1, 1)
    assert "Ollama at http://127.0.0.1:9" in ran.err
    assert "has no effect" not in ran.err
    assert plait("--config", "config.json", "stats").json["pending_count"] == 1
    ran = plait("--config", "config.json", "search", "herons")
    assert (ran.code, ran.json["receipt"]["pending_vectors"]) == (0, 1)


@pytest.mark.parametrize("flag", ["--keyword-weight", "--vector-weight"])
def test_a_weight_says_that_only_one_branch_ran(plait: Plait, flag: str) -> None:
    base = ["--embedder", "none"]
    plait(*base, "store", "Herons fish.")
    ran = plait(*base, flag, "0.2", "search", "herons")
    name = flag[2:].replace("-", "_")
    sentence = f"{name} (flag {flag}) has no effect: only keyword search ran."
    assert ran.json["receipt"]["ignored"] == [sentence]
    assert ran.err == f"plait: {sentence}\n"
    off = plait(*base, "--vector-weight", "0", "search", "herons")
    assert off.json["receipt"]["ignored"] == []


def test_a_read_only_memory_can_be_backed_up(filled: Plait, work: Path) -> None:
    ran = filled("--read-only", "backup", "copy.db")
    assert ran.code == 0, ran.err
    assert filled("--db", "copy.db", "search", "herons").json["results"]
    assert filled("--read-only", "store", "x").code == 1


@pytest.mark.parametrize(
    "words",
    [
        *(["set", "limit", "3"], ["unset", "limit"], ["trust", "--yes"], ["untrust"]),
        *(["set-key", "openai"], ["remove-key", "openai"]),
    ],
    ids=lambda words: words[0],
)
def test_settings_are_not_written_under_read_only(plait: Plait, words: list[str]) -> None:
    ran = plait("--read-only", "config", *words)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "--read-only writes nothing" in ran.err
    assert plait("config", "show", "--origin").json["limit"]["origin"] == "default"


def test_reading_settings_is_allowed_under_read_only(plait: Plait) -> None:
    assert plait("--read-only", "config", "get", "limit").code == 0


def test_stats_tell_what_vectors_wait_for(plait: Plait) -> None:
    base = ["--embedder", "ollama:m", "--ollama-url", "http://127.0.0.1:9"]
    plait(*base, "store", "Herons fish.")
    ran = plait(*base, "stats", "--format", "text")
    assert "none yet, 1 waits for ollama:m" in ran.out
    plait("--db", "other.db", "--embedder", "none", "store", "Herons fish.")
    assert "keyword search only" in plait("--db", "other.db", "stats", "--format", "text").out


@pytest.mark.parametrize(
    "words",
    [
        *(["search", "x", "--since", "soonish"], ["timeline", "--until", "soonish"]),
        *(["store", "x", "--event-at", "soonish"], ["entity", "relate", "A", "b", "C"]),
    ],
    ids=lambda words: words[0],
)
def test_a_bad_time_offers_what_can_be_typed(filled: Plait, words: list[str]) -> None:
    ran = filled(*words, *(["--since", "soonish"] if words[0] == "entity" else []))
    assert ran.code == 2
    assert "Write 2026-03-01, 2026-03-01T09:30, 7d or 'last week'." in ran.err
    assert "datetime" not in ran.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_offers_groups_of_files_and_every_provider(plait: Plait, shell: str) -> None:
    script = plait("completion", shell).out
    assert " ".join(PATTERN_GROUPS) in script
    assert " ".join(PROVIDERS) in script


def test_the_help_of_include_names_every_group(plait: Plait) -> None:
    text = " ".join(plait("ingest", "--help").out.split())
    assert f"files too: {', '.join(PATTERN_GROUPS)} or a pattern" in text


def test_a_number_sign_before_a_tag_is_not_part_of_it(plait: Plait) -> None:
    plait("store", "Rotate keys", "--key", "a", "--tags", "#ops,ssh")
    plait("store", "Other keys", "--key", "b", "--tag", "ops")
    for tag in ("ops", "#ops"):
        results = plait("search", "keys", "--tag", tag).json["results"]
        assert {(row["doc_id"], row["tags"][0]) for row in results} == {("a", "ops"), ("b", "ops")}
    assert plait("delete", "--tag", "#ops", "--dry-run").json["chunks_deleted"] == 2


def test_budgets_and_archiving_are_listed_then_done(plait: Plait, tmp_path: Path) -> None:
    for name in "abc":
        assert plait("store", f"text of {name}", "--key", name).code == 0
    listed = plait("prune", "--keep-most", "note=1", "--format", "text")
    assert listed.out.startswith("Would delete 2 documents, 2 passages (2 notes; by keep_most): ")
    assert "plait prune --keep-most 'note=1' --yes" in listed.err
    done = plait("prune", "--keep-most", "note=1", "--yes").json
    assert (done["doc_ids"], done["rules"], done["archived"]) == (["a", "b"], {"keep_most": 2}, [])
    assert plait("delete", "--undo").code == 0
    plait("export", str(tmp_path / "now.jsonl"))
    lines = (tmp_path / "now.jsonl").read_text(encoding="utf-8")
    aged = re.sub(r'("[a-z]+_at": )\d+', r"\g<1>1577836800000", lines)
    (tmp_path / "old.jsonl").write_text(aged, encoding="utf-8")
    old = ("--db", str(tmp_path / "old.db"))
    assert plait(*old, "import", str(tmp_path / "old.jsonl")).code == 0
    listed = plait(*old, "prune", "--archive-days", "note=365", "--format", "text")
    assert listed.out.startswith("Would archive 3 documents")
    done = plait(*old, "prune", "--archive-days", "note=365", "--yes").json
    assert (done["ids"], len(done["archived"])) == ([], 3)
    assert len(plait(*old, "search", "text", "--status", "archived").json["results"]) == 3
    assert plait(*old, "prune", "--archive-days", "note=365").code == 3


def test_one_command_does_what_is_due(plait: Plait, tmp_path: Path) -> None:
    assert plait("maintain").code == 3, "there is no memory yet"
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("Herons fish.", encoding="utf-8")
    ran = plait("maintain", str(notes))
    assert (ran.code, ran.json["files"], ran.json["pruned"]["ids"]) == (0, 1, [])
    for name in "ab":
        plait("store", f"text of {name}", "--key", name)
    plait("config", "set", "keep_most", "note=1")
    assert plait("maintain", "--dry-run").json["pruned"]["doc_ids"] == ["a"]
    looked = plait("maintain", "--dry-run", "--format", "text")
    assert looked.out == "1 document would be deleted by your rules (keep_most)\n"
    assert "plait prune --all-projects" in looked.err
    told = plait("maintain", "--format", "text")
    assert told.out == "1 document deleted by your rules (keep_most)\n"
    assert "plait delete --undo" in told.err
    assert plait("maintain", "--format", "text").out == "Nothing is due.\n"
    failed = plait("maintain", str(tmp_path / "nowhere"), "--quiet")
    assert (failed.code, "nowhere" in failed.err) == (1, True)
    assert plait("maintain", str(tmp_path / "nowhere"), "--format", "text").out == ""


@pytest.mark.parametrize(
    "words", [("prune", "--keep-most", "note=0"), ("delete", "--kind", "note", "--dry-run")]
)
def test_everything_that_would_go_can_be_listed(plait: Plait, words: tuple[str, ...]) -> None:
    names = [f"note {number:02}" for number in range(12)]
    for name in names:
        plait("store", f"text of {name}", "--key", name)
    few = plait(*words, "--format", "text")
    assert sum(name in few.out for name in names) == 8
    assert "8 of 12 documents are listed; --verbose lists all" in few.err
    ran = plait(*words, "--format", "text", "--verbose")
    assert all(f"  {name}\n" in ran.out for name in names) and "--verbose" not in ran.err
    assert plait(*words).err == "", "JSON has all of them"


def test_sessions_of_agents_are_imported_on_request(
    plait: Plait, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = {"role": "user", "content": "The boiler key hangs behind the door"}
    line = {"type": "user", "uuid": "u", "sessionId": "s", "message": message}
    folder = tmp_path / ".claude" / "projects" / "shop"
    folder.mkdir(parents=True)
    line["timestamp"] = "2026-11-11T08:00:00Z"
    (folder / "s.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / ".claude"))
    assert plait("maintain", "--agents").json["messages"] == 1
    assert plait("maintain", "--agents").json["messages"] == 0


def test_an_import_that_fails_does_not_keep_back_the_rest(
    plait: Plait, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        plait("store", f"text of {name}", "--key", name)
    plait("config", "set", "keep_most", "note=1")

    def fails(*_: object, **__: object) -> None:
        raise SourceError("The history of an agent cannot be read.")

    monkeypatch.setattr("plait.cli.histories.import_histories", fails)
    told = plait("maintain", "--agents")
    assert (told.code, told.json["pruned"]["doc_ids"]) == (1, ["a"])
    assert "The history of an agent cannot be read." in told.err


def test_a_watcher_maintains_the_memory_when_that_is_due_and_wanted(
    plait: Plait, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        plait("store", f"text of {name}", "--key", name)
    plait("config", "set", "keep_most", "note=1")

    def looked() -> str:
        out = Output(arguments_for(["watch", "--json"])[1])
        watcher = Upkeep(out)
        watcher.look()
        watcher.look()
        return capsys.readouterr().out

    assert looked() == "", "nobody has asked for it"
    plait("config", "set", "maintain_hours", "12")
    assert json.loads(looked())["pruned"]["doc_ids"] == ["a"]
    plait("store", "text of c", "--key", "c")
    assert looked() == "", "twelve hours later"


def test_prune_counts_kinds_without_all_texts_at_once(
    plait: Plait, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[int] = []
    load = SQLiteStore.load

    def counting(store: SQLiteStore, ids: Sequence[str], **more: Any) -> Any:
        loads.append(len(ids))
        return load(store, ids, **more)

    with Memory.open(project="") as memory:
        times = dict.fromkeys(("created_at", "updated_at", "event_at"), 1_577_836_800_000)
        memory.store_many(
            [Document(key=f"n{n}", kind="note", text=f"text {n}", **times) for n in range(7)]  # type: ignore[arg-type]
        )
    monkeypatch.setattr(shared, "LOADED_AT_ONCE", 3)
    monkeypatch.setattr(SQLiteStore, "load", counting)
    assert plait("prune", "--keep-days", "note=1").json["kinds"] == {"note": 7}
    assert max(loads) == 3
