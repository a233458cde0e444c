"""No setting is inert: each one changes something that can be seen, or a sentence says why not."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from plait import Memory
from plait.agents.hooks.saving import save_transcript
from plait.errors import PlaitError
from plait.settings.loading import load
from plait.settings.schema import SETTINGS
from plait.types import Document
from tests.embedding_server import EmbeddingServer

Act = Callable[[Path, dict[str, object]], Any]

# Settings for what does not exist yet, told as "has no effect yet".
WAITING: set[str] = set()
TEXTS = {
    "heron": "# Birds\n\nHerons fish at dawn. " + "The river is cold. " * 60,
    "crane": "Cranes dance at dawn on the river.",
    "gull": "Gulls steal fish from herons, herons and herons.",
    "key": "Rotate the ssh keys every quarter.",
}


def memory_with(folder: Path, flags: dict[str, object]) -> Memory:
    own = {"db_path": str(folder / "m.db"), "project": "", **flags}
    return Memory.open(config=load(own, environ={}, cwd=str(folder)))


def filled(folder: Path, flags: dict[str, object]) -> Memory:
    memory = memory_with(folder, flags)
    for key, text in TEXTS.items():
        memory.store(text, key=key, event_at="2020-01-01")
    return memory


def scores(folder: Path, flags: dict[str, object]) -> Any:
    with filled(folder, flags) as memory:
        return [(hit.doc_id, round(hit.score, 6)) for hit in memory.search("herons at dawn")]


def rankings(folder: Path, flags: dict[str, object]) -> Any:
    return scores(folder, {"fusion": "rrf", **flags})


def candidates(folder: Path, flags: dict[str, object]) -> Any:
    with filled(folder, {"fusion": "rrf", "limit": 1, **flags}) as memory:
        return memory.search("herons at dawn fish ssh river").receipt.candidates


def used_twice(folder: Path, flags: dict[str, object]) -> Any:
    with filled(folder, flags) as memory:
        memory.get("heron")
        memory.search("cranes", limit=1)
        memory.write_down_use()
        return [(hit.doc_id, round(hit.score, 6)) for hit in memory.search("fish dawn river")]


def uses(folder: Path, flags: dict[str, object]) -> Any:
    with filled(folder, flags) as memory:
        memory.search("herons")
    with apsw.Connection(str(folder / "m.db")) as connection:
        return connection.execute("SELECT count(*) FROM signals").get


def passages(folder: Path, flags: dict[str, object]) -> Any:
    with filled(folder, flags) as memory:
        return [passage.text for passage in memory.passages_of(memory.lookup("heron")[0].id)]


def ingested(folder: Path, flags: dict[str, object]) -> Any:
    notes = folder / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("Herons.", encoding="utf-8")
    (notes / "b.log").write_text("x" * 3000, encoding="utf-8")
    (folder / "other").mkdir()
    (folder / "other" / "c.md").write_text("Cranes.", encoding="utf-8")
    with memory_with(folder, flags) as memory:
        report = memory.ingest(None if "memory_dir" in flags else notes)
        return [(os.path.basename(row.path), row.outcome) for row in report.reports]  # noqa: PTH119


def homes(folder: Path, flags: dict[str, object]) -> Any:
    with memory_with(folder, flags) as memory:
        memory.store("Herons.")
        return memory.path, memory.stats().projects


def file_is_there(folder: Path, flags: dict[str, object]) -> Any:
    with memory_with(folder, flags) as memory:
        try:
            memory.store("Herons.")
        except PlaitError as error:
            return error.code
    return (folder / "m.db").exists()


def space(folder: Path, flags: dict[str, object]) -> Any:
    with memory_with(folder, flags) as memory:
        return memory.embedder.space


def asked(folder: Path, flags: dict[str, object]) -> Any:
    """What Ollama is asked when three texts are stored, and how many vectors are kept."""
    with EmbeddingServer() as server:
        flags = {"embedding_provider": "ollama", "ollama_url": server.url, **flags}
        with memory_with(folder, flags) as memory:
            memory.store("Herons.")
            memory.store("Cranes.")
            memory.search("gulls")
            memory.search("terns")
        bodies = [
            {name: value for name, value in request.body.items() if name != "input"}
            for request in server.requests
            if request.body
        ]
        keys = [request.headers.get("authorization") for request in server.requests]
    with apsw.Connection(str(folder / "m.db")) as connection:
        kept = connection.execute("SELECT count(*) FROM embedding_cache").get
    return bodies[:1], keys[:1], kept


def followed(folder: Path, flags: dict[str, object]) -> Any:
    with filled(folder, {"embedding_provider": "none"}) as memory:
        memory.store("x")
    with memory_with(folder, {"embedding_provider": "builtin"}) as memory:
        memory.reindex()
    with memory_with(folder, {"embedding_provider": "hashing", **flags}) as memory:
        memory.store("Terns dive.")
        return str(memory.stats().space)


def waits(folder: Path, flags: dict[str, object]) -> Any:
    with memory_with(folder, flags) as memory:
        return memory.engine._connections.timeout  # type: ignore[attr-defined]


def syncs(folder: Path, flags: dict[str, object]) -> Any:
    with memory_with(folder, flags) as memory:
        connection = memory.engine._connections.get()  # type: ignore[attr-defined]
        return connection.execute("PRAGMA synchronous").get


def pruned(folder: Path, flags: dict[str, object]) -> Any:
    with memory_with(folder, flags) as memory:
        then = 1_600_000_000_000
        old = Document(key="old", text="Herons.", created_at=then, updated_at=then, event_at=then)
        [stored] = memory.store_many([old])
        with memory.engine.transaction() as transaction:
            long_ago = {"plait_archived": "2020-01-01T00:00:00+00:00"}
            transaction.amend(stored.id, status="archived", metadata=long_ago)
        return memory.prune().doc_ids


def archived(folder: Path, flags: dict[str, object]) -> Any:
    with memory_with(folder, flags) as memory:
        then = 1_600_000_000_000
        old = Document(key="old", text="Herons.", created_at=then, updated_at=then, event_at=then)
        memory.store_many([old])
        return len(memory.prune().archived)


def due(folder: Path, flags: dict[str, object]) -> Any:
    from plait.memory.upkeep import is_due

    given = {name: value for name, value in flags.items() if value is not None}
    with filled(folder, given) as memory:
        return is_due(memory)


def answered_again(folder: Path, flags: dict[str, object]) -> Any:
    """How many of three prompts are answered from the cache half an hour later."""
    from plait.tools import take_turn

    start = time.time_ns()
    with (
        filled(folder, {"response_cache_enabled": "on", **flags}) as memory,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in "abc":
            take_turn(memory, "s", name, str, model="m")
        patch.setattr("time.time_ns", lambda: start + 1_800 * 10**9)
        return sum(take_turn(memory, "s", name, str, model="m").cached for name in "abc")


def hydrated(folder: Path, flags: dict[str, object]) -> Any:
    with filled(folder, {"db_path": str(folder / "source.db")}) as source:
        source.export_folder(folder / "m")  # of the name of m.db
    with memory_with(folder, flags) as memory:
        return memory.stats().doc_count


def told(folder: Path, flags: dict[str, object]) -> Any:
    """What the command line says about a setting that has no effect."""
    from plait.cli import Output, arguments_for

    out = Output(arguments_for(["--db", str(folder / "m.db"), "stats"])[1])
    out._config = load(flags, environ={})
    return out.quiet


# Each setting: what shows it, and two values.
def saved_by_hook(folder: Path, flags: dict[str, object]) -> Any:
    own = {"db_path": str(folder / "m.db"), **flags}
    return save_transcript(load(own, environ={}, cwd=str(folder)), "claude-code", "")


def talked_to(folder: Path, flags: dict[str, object]) -> Any:
    from plait.cli import Output, arguments_for
    from plait.cli.chat import chosen_model

    out = Output(arguments_for(["chat"])[1])
    out._config = load(flags, environ={})
    return chosen_model(out)


ACTS: dict[str, tuple[Act, object, object]] = {
    "auto_save": (saved_by_hook, "off", "on"),
    "db_path": (homes, "{folder}/one.db", "{folder}/two.db"),
    "backend": (file_is_there, "sqlite", "none"),
    "memory_dir": (ingested, "{folder}/notes", "{folder}/other"),
    "embedding_provider": (space, "builtin", "none"),
    "model": (asked, "nomic-embed-text", "text-embedding-3-small"),
    "api_key": (asked, "sk-one", "sk-two"),
    "chat_model": (talked_to, "ollama:one", "ollama:two"),
    "ollama_url": (space, "http://localhost:1", "http://localhost:2"),
    "dims": (asked, 16, 32),
    "vector_weight": (scores, 0.2, 0.8),
    "keyword_weight": (scores, 0.2, 0.8),
    "fusion": (scores, "weighted", "max"),
    "floor": (
        lambda folder, flags: rankings(folder, {"min_score": 0.99, **flags}),
        "rrf",
        "relevance",
    ),
    "chunk_size": (passages, 200, 1000),
    "chunk_overlap": (lambda folder, flags: passages(folder, {"chunk_size": 300, **flags}), 0, 100),
    "cache_size": (asked, 0, 100),
    "expansion_factor": (candidates, 1, 4),
    "rrf_k": (rankings, 1, 60),
    "auto_reindex": (followed, "off", "on"),
    "auto_hydrate": (hydrated, "off", "on"),
    "sqlite_open_timeout_secs": (waits, 1, 2),
    "durability": (syncs, "full", "normal"),
    "project": (homes, "one", "two"),
    "limit": (scores, 1, 3),
    "min_score": (scores, 0, 1),
    "limbic": (used_twice, "on", "off"),
    "limbic_constants": (used_twice, "half_life_note=1", "half_life_note=10000"),
    "signals_count": (uses, "read", "listed"),
    "quiet": (told, "on", "off"),
    "patterns": (ingested, "*.md", "*.log"),
    "max_file_mb": (lambda folder, flags: ingested(folder, {"patterns": "*", **flags}), 0.001, 1),
    "keep_days": (pruned, "note=1", "message=1"),
    "keep_most": (pruned, "note=0", "note=1"),
    "keep_mb": (pruned, "note=0", "note=1"),
    "archive_days": (archived, "note=1", "message=1"),
    "delete_archived_days": (pruned, 1, 36_500),
    "maintain_hours": (due, 1, None),
    "response_cache_enabled": (answered_again, "off", "on"),
    "response_cache_ttl_minutes": (answered_again, 1, 60),
    "response_cache_max_entries": (answered_again, 1, 3),
    "read_only": (file_is_there, "off", "on"),
}


def test_the_table_has_every_setting() -> None:
    assert ACTS.keys() | WAITING == SETTINGS.keys()


@pytest.mark.parametrize("name", ACTS)
def test_every_setting_changes_something(tmp_path: Path, name: str) -> None:
    act, one, other = ACTS[name]
    results = []
    for number, value in enumerate((one, one, other)):
        folder = tmp_path / str(number)
        folder.mkdir()
        if isinstance(value, str):
            value = value.format(folder=folder)
        result = act(folder, {name: value})
        results.append(repr(result).replace(str(folder), ""))
    assert results[0] == results[1] != results[2]


# -- combinations in which a setting cannot act -----------------------------------------------

SEARCHED: list[tuple[dict[str, object], list[str]]] = [
    ({}, []),
    ({"fusion": "rrf", "keyword_weight": 0.4}, ["keyword_weight"]),
    (
        {"fusion": "rrf", "keyword_weight": 0.4, "vector_weight": 0.6},
        ["keyword_weight", "vector_weight"],
    ),
    ({"fusion": "rrf", "keyword_weight": 0.0}, []),
    ({"fusion": "max", "keyword_weight": 0.4}, []),
    ({"floor": "rrf"}, ["floor"]),
    ({"floor": "rrf", "fusion": "max"}, ["floor"]),
    ({"floor": "rrf", "fusion": "rrf"}, []),
    ({"floor": "relevance"}, []),
    ({"rrf_k": 10}, ["rrf_k"]),
    ({"rrf_k": 10, "fusion": "rrf"}, []),
    ({"expansion_factor": 5}, ["expansion_factor"]),
    ({"expansion_factor": 50}, []),
    ({"expansion_factor": 5, "fusion": "rrf"}, []),
    ({"limbic_constants": "age_weight=0.1", "limbic": "off"}, ["limbic_constants"]),
    ({"limbic_constants": "age_weight=0.1", "fusion": "rrf"}, ["limbic_constants"]),
    ({"limbic_constants": "age_weight=0.1"}, []),
]


@pytest.mark.parametrize(("flags", "idle"), SEARCHED, ids=repr)
def test_a_search_says_which_settings_could_not_act(
    tmp_path: Path, flags: dict[str, object], idle: list[str]
) -> None:
    with filled(tmp_path, {"embedding_provider": "hashing", **flags}) as memory:
        receipt = memory.search("herons").receipt
    assert sorted(notice.subject for notice in receipt.ignored) == idle
    assert {notice.code for notice in receipt.ignored} <= {"no_effect"}


@pytest.mark.parametrize(
    ("options", "idle"),
    [
        ({"fusion": "rrf", "keyword_weight": 0.4}, ["keyword_weight"]),
        ({"mode": "keyword", "keyword_weight": 0.4}, ["keyword_weight"]),
        ({"mode": "vector", "vector_weight": 0.4}, ["vector_weight"]),
        ({"keyword_weight": 0.4}, []),
    ],
    ids=repr,
)
def test_a_search_says_which_arguments_could_not_act(
    tmp_path: Path, options: dict[str, Any], idle: list[str]
) -> None:
    with filled(tmp_path, {"embedding_provider": "hashing"}) as memory:
        ignored = memory.search("herons", **options).receipt.ignored
    assert [notice.subject for notice in ignored] == idle
    assert all("(this call)" in notice.text for notice in ignored)


OPENED: list[tuple[dict[str, object], str, list[str]]] = [
    ({"model": "m"}, "ollama:m", []),
    ({"dims": 64}, "ollama:nomic-embed-text", []),
    ({"ollama_url": "http://gpu:1"}, "ollama:nomic-embed-text", []),
    ({"model": "m", "embedding_provider": "builtin"}, "builtin", ["model"]),
    ({"dims": 64, "embedding_provider": "builtin"}, "builtin", ["dims"]),
    ({"ollama_url": "http://gpu:1", "embedding_provider": "none"}, "none", ["ollama_url"]),
    (
        {"ollama_url": "http://gpu:1", "embedding_provider": "openai"},
        "openai:text-embedding-3-small",
        ["ollama_url"],
    ),
    ({"model": "m", "embedding_provider": "ollama:other"}, "ollama:other", ["model"]),
    ({"cache_size": 5}, "builtin", ["cache_size"]),
    ({"cache_size": 5, "embedding_provider": "ollama"}, "ollama:nomic-embed-text", []),
    ({"api_key": "sk-x", "embedding_provider": "builtin"}, "builtin", ["api_key"]),
]


@pytest.mark.parametrize(("flags", "spec", "idle"), OPENED, ids=repr)
def test_settings_of_embedders_choose_ollama_or_say_that_they_cannot_act(
    tmp_path: Path, flags: dict[str, object], spec: str, idle: list[str]
) -> None:
    with memory_with(tmp_path, flags) as memory:
        assert memory.embedder.space.spec == spec
        notices = memory.opening_notices
    assert [notice.subject for notice in notices] == idle
    assert {notice.code for notice in notices} <= {"no_effect"}


def test_a_memory_keeps_its_embedder_and_says_what_to_run(tmp_path: Path) -> None:
    with filled(tmp_path, {}):
        pass
    with memory_with(tmp_path, {"model": "m"}) as memory:
        assert memory.embedder.space.provider == "builtin"
        [notice] = memory.opening_notices
    assert notice.subject == "model"
    assert notice.advice is not None
    assert notice.advice.values == (("embedder", "ollama:m"),)


def test_what_waits_for_other_work_says_so() -> None:
    for name in WAITING:
        [warning] = load({name: "on"}, environ={}).warnings
        assert (warning.code, warning.subject) == ("no_effect", name)


def test_vectors_that_wait_for_a_server_are_counted(tmp_path: Path) -> None:
    flags: dict[str, object] = {
        "embedding_provider": "ollama",
        "ollama_url": "http://127.0.0.1:9",
    }
    with memory_with(tmp_path, flags) as memory:
        stored = memory.store("Herons fish at dawn.")
        assert stored.pending == memory.stats().pending_count == 1
        assert memory.search("herons").receipt.pending_vectors == 1
    with memory_with(tmp_path, {"embedding_provider": "none"}) as memory:
        assert memory.stats().pending_count == 0
