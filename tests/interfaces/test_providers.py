"""Embedders on the command line: chosen in one line, down in one sentence, back in one command."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedding_server import EmbeddingServer
from tests.interfaces.command import PATIENCE_S, ROOT, environment, spawn
from tests.interfaces.conftest import Plait

KEY = "sk-canary-52c0a1de77b34f19"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        monkeypatch.setenv("PLAIT_OLLAMA_URL", running.url)
        yield running


@pytest.fixture
def notes(work: Path) -> Path:
    folder = work / "notes"
    folder.mkdir()
    (folder / "deploy.md").write_text("# Deploys\n\nWe deploy on Fridays.\n", encoding="utf-8")
    return folder


def test_ollama_is_one_option_away_and_the_memory_remembers_it(
    plait: Plait, server: EmbeddingServer, notes: Path
) -> None:
    assert plait("ingest", str(notes), "--embedder", "ollama").code == 0
    asked = len(server.requests)
    ran = plait("search", "deploys", "--mode", "vector")
    assert (ran.code, ran.json["receipt"]["mode_used"]) == (0, "vector")
    assert len(server.requests) == asked + 1
    assert plait("stats").json["space"].startswith("ollama:nomic-embed-text")
    assert plait("models").json["used"]["model"] == "nomic-embed-text"


def test_a_server_that_is_down_costs_the_exit_code_of_ingest_and_nothing_else(
    plait: Plait, server: EmbeddingServer, notes: Path
) -> None:
    server.fault = "refuse"
    ran = plait("ingest", str(notes), "--embedder", "ollama")
    assert ran.code == 1
    assert ran.json["pending"] == 1
    assert f"Ollama at {server.url}" in ran.err
    again = plait("search", "fridays")
    assert (again.code, again.json["results"][0]["doc_id"]) == (0, "deploy.md")
    assert plait("reindex").code == 1
    server.fault = None
    assert plait("reindex", "--embedder", "ollama").json["embedded"] == 1
    assert plait("search", "fridays").json["receipt"]["degraded"] == []


def test_doctor_says_whether_the_server_is_there_and_has_the_model(
    plait: Plait, server: EmbeddingServer, notes: Path
) -> None:
    plait("ingest", str(notes), "--embedder", "ollama")
    assert plait("doctor").code == 0
    server.models = ("other:latest",)
    ran = plait("doctor")
    assert ran.code == 1
    assert "ollama pull nomic-embed-text" in ran.out
    server.fault = "refuse"
    assert f"Ollama at {server.url}" in plait("doctor").out


def test_a_custom_server_is_named_by_its_address_and_gets_its_key_only(
    plait: Plait, server: EmbeddingServer, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-house")
    monkeypatch.setenv("API_KEY", KEY)
    spec = f"custom:{server.openai_url}#text-embedding-3-small"
    assert plait("config", "set", "embedding_provider", spec).code == 0
    assert plait("ingest", str(notes)).code == 0
    sent = {request.headers.get("authorization") for request in server.requests}
    assert sent == {f"Bearer {KEY}"}
    ran = plait("config", "show", "--origin")
    assert KEY not in ran.out + ran.err


def test_switching_the_embedder_is_said_aloud_until_it_is_done(
    plait: Plait, server: EmbeddingServer, notes: Path
) -> None:
    assert plait("ingest", str(notes), "--embedder", "builtin").code == 0
    assert plait("config", "set", "embedding_provider", "ollama").code == 0
    ran = plait("search", "fridays")
    assert ran.code == 0
    assert "plait reindex" in ran.err + str(ran.json["receipt"]["degraded"])
    done = plait("reindex")
    assert (done.code, done.json["swapped"]) == (0, True)
    assert plait("search", "fridays").json["receipt"]["degraded"] == []


def test_auto_reindex_makes_the_switch_by_itself(
    plait: Plait, server: EmbeddingServer, notes: Path
) -> None:
    assert plait("ingest", str(notes), "--embedder", "builtin").code == 0
    plait("config", "set", "embedding_provider", "ollama")
    plait("config", "set", "auto_reindex", "on")
    assert plait("store", "Keys are rotated monthly").code == 0
    ran = plait("stats").json
    assert ran["space"].startswith("ollama:")
    assert ran["pending_count"] == 0


def test_models_lists_what_can_be_had(plait: Plait, home: Path) -> None:
    assert plait("models").json["used"]["provider"] == "builtin"
    fetched = home / ".local/share/plait/models/models--intfloat--multilingual-e5-small"
    fetched.mkdir(parents=True)
    if sys.platform == "linux":
        assert plait("models").json["fetched"] == ["intfloat/multilingual-e5-small"]
    assert plait("models", "list", "what").code == 2
    assert plait("search", "x", "--embedder", "pigeon").code == 2


BLOCK = """
import os, socket
def refuse(*_, **__):
    os._exit(99)
socket.socket.connect = socket.getaddrinfo = refuse
"""


def blocked(work: Path) -> dict[str, str]:
    guard = work / "guard"
    guard.mkdir()
    (guard / "sitecustomize.py").write_text(BLOCK, encoding="utf-8")
    return {"PYTHONPATH": f"{guard}{os.pathsep}{environment()['PYTHONPATH']}"}


def test_the_demonstration_finds_by_meaning_with_the_network_blocked(work: Path) -> None:
    shutil.copytree(ROOT / "examples", work / "examples")
    shown = subprocess.run(
        [sys.executable, "examples/demo.py"],
        cwd=work,
        env=environment(**blocked(work)),
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    ).stdout.decode()
    meaning = shown.partition("3. By meaning")[2].partition("4. ")[0]
    assert "clinicas-espanolas.es.md" in meaning


def test_a_paraphrase_is_found_with_the_network_blocked(work: Path) -> None:
    """Words that the note does not hold find it, in processes that die at the first connection."""
    env = {**blocked(work), "PLAIT_DB": str(work / "memory.db")}
    assert spawn("store", "The physician's surgery opens at nine", env=env).code == 0
    assert spawn("store", "Bread is baked with rye flour", env=env).code == 0
    ran = spawn("search", "when can I see a doctor", "--limit", "1", env=env)
    assert ran.code == 0, ran.err
    [hit] = ran.json["results"]
    assert (hit["source"], "physician" in hit["text"]) == ("vector", True)
    # The guard itself works: a remote embedder runs into it.
    other = {**env, "PLAIT_DB": str(work / "other.db")}
    ran = spawn("store", "tea", "--embedder", "ollama", env=other)
    assert ran.code == 99
