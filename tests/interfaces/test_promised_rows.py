"""Features that people expect of a memory: a command for each, and what it shows."""

from pathlib import Path

import pytest

from plait.writing.documents import now_ms
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
        (["delete", "x"], 3, {"chunks_deleted": 0}),
        (["reindex"], 0, {"chunks": 0}),
        (["stats"], 0, {"doc_count": 0}),
        (["ingest", str(work)], 0, {"files": 0}),
    ):
        ran = plait(*words)
        assert (ran.code, {name: ran.json[name] for name in empty}) == (code, empty), words
        assert "The memory is off (backend = none)" in ran.err, words
    assert not (work / "off.db").exists()
    assert plait("store", "x", "--format", "text").out == ""


@pytest.mark.parametrize("query", ["", "*"])
def test_a_query_without_words_lists_the_newest(filled: Plait, query: str) -> None:
    ran = filled("search", query, "--limit", "2")
    assert (ran.code, [hit["doc_id"] for hit in ran.json["results"]]) == (0, ["bird-2", "bird-1"])
    assert not any(hit["weak"] for hit in ran.json["results"])


def test_nonsense_finds_nothing_and_little_evidence_is_marked(filled: Plait) -> None:
    ran = filled("search", "qqqqzzzz")
    assert (ran.code, ran.json["results"]) == (3, [])
    for hit in filled("search", "dance of the blue whales at noon").json["results"]:
        assert hit["weak"] == (hit["relevance"] < 0.2)


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
    assert plait("delete", "--undo").json == {"restored": ["old"]}
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
