"""A memory in PostgreSQL through the other doors: the library, MCP, hooks, tools of models."""

import json
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

import plait
from plait.agents.hooks.answering import Asked, respond
from plait.cli import main
from plait.errors import PIP, UsageError
from plait.mcp.lazy import LazyMemory
from plait.memory import Memory
from plait.memory.hybrid_memory import HybridStore
from plait.settings.loading import load
from plait.stores import databases
from plait.tools.memory_tool import MemoryTool
from plait.types.ids import new_id
from tests import servers
from tests.codes import has_code
from tests.postgres.test_verbs import PASSWORD, with_password


@pytest.fixture
def address() -> str:
    return with_password(servers.address(new_id()))


def test_a_program_opens_it_by_its_address_and_again_by_its_path(address: str) -> None:
    with plait.Memory.open(address, project="") as memory:
        memory.store("The otter sleeps at noon", key="otter")
        assert PASSWORD not in repr((memory.path, memory.config, memory.stats()))
        with Memory.open(memory.path, project="") as again:
            assert again.search("otter")[0].doc_id == "otter"
        with pytest.raises(UsageError, check=has_code("no_file")) as refused:
            memory.backup("copy.db")
    local = Memory.open(":memory:", embedder="none", project="")
    for act in (
        lambda: local.import_from(address),
        lambda: local.backup(address),
        lambda: Memory.restore("copy.db", address),
        lambda: Memory.salvage(address, "new.db"),
        lambda: Memory.salvage("old.db", address),
    ):
        with pytest.raises(UsageError, check=has_code("no_file")) as refused:
            act()
        assert PASSWORD not in str(refused.value)


def test_the_store_of_hybrid_memory_takes_an_address(address: str) -> None:
    store = HybridStore(address, embedder="hashing")
    store.store("otter", "The otter sleeps at noon")
    assert store.search("otter")[0]["doc_id"] == "otter"
    store.memory.close()


def test_a_server_of_tools_waits_for_the_first_write(address: str) -> None:
    config = load({"db_path": address, "project": ""})
    lazy = LazyMemory(lambda create: Memory.open(config=config, create=create), config)
    missing = lazy.get()
    assert not missing.is_there
    assert lazy.get() is not missing
    made = lazy.get(create=True)
    made.store("The otter sleeps at noon")
    assert lazy.get() is made is lazy.get(create=True)
    lazy.close()
    assert len(lazy.get().search("otter")) == 1
    lazy.close()


def test_a_hook_shows_what_is_there_and_records_no_password(address: str, home: Path) -> None:
    with Memory.open(address, project="") as memory:
        memory.store("# SSH\n\nRotate the ssh keys in authorized_keys each spring.", key="ssh")
    told: list[str] = []
    asked = Asked("codex", "UserPromptSubmit", {"db_path": address, "project": ""}, None)
    prompt = json.dumps({"prompt": "how do we rotate the ssh keys", "session_id": "s1"})
    respond(asked, prompt.encode(), told.append)
    assert any("authorized_keys" in text for text in told)
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files, "the run is recorded"
    assert not any(PASSWORD.encode() in path.read_bytes() for path in files)
    assert PASSWORD not in "".join(told)


def test_a_models_folder_is_not_confused_with_the_memory(address: str, tmp_path: Path) -> None:
    with Memory.open(address, project="") as memory:
        tool = MemoryTool(memory, tmp_path / "memories")
        made = tool.run({"command": "create", "path": "/memories/a.md", "file_text": "otter noon"})
        assert not made.is_error
        assert len(memory.search("otter")) == 1


def test_an_empty_memory_is_filled_from_the_folder_that_the_settings_name(
    address: str, tmp_path: Path
) -> None:
    with Memory.open(tmp_path / "old.db", embedder="none", project="") as old:
        old.store("The otter sleeps at noon", key="otter")
        old.export_folder(tmp_path / "snapshot")
    given = {"db_path": address, "memory_dir": str(tmp_path / "snapshot"), "auto_hydrate": True}
    with Memory.open(config=load({**given, "project": ""})) as memory:
        assert [row.code for row in memory.opening_notices] == ["hydrated"]
        assert memory.search("otter")[0].doc_id == "otter"


# What the driver reads by itself.


def test_a_service_file_and_the_drivers_variables_name_the_server(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = conninfo_to_dict(servers.need())
    service = tmp_path / "services.conf"
    lines = [f"{name}={value}" for name, value in server.items() if value and name != "password"]
    service.write_text("\n".join(["[team]", *lines, f"password={PASSWORD}", ""]), encoding="utf-8")
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    namespace = new_id()
    with Memory.open(f"postgresql:///?service=team&namespace={namespace}", project="") as memory:
        memory.store("The otter sleeps at noon")
        assert memory.path == f"postgresql:///?service=team&namespace={namespace}"
    with Memory.open(servers.address(namespace), project="") as memory:
        assert len(memory.search("otter")) == 1


# Without the extra.


def test_without_the_driver_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(databases, "find_spec", lambda _: None)
    assert main(["--db", f"postgresql://ana:{PASSWORD}@db/team", "search", "x"]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        "plait: postgresql://ana@db/team is in PostgreSQL, which needs the package psycopg. "
        f"Run in a clone of plait: {PIP} install '.[postgres]'\n"
    )


def test_a_driver_that_cannot_be_loaded_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "plait.stores.postgres.store", None)
    assert main(["--db", "postgresql://db/team", "search", "x"]) == 1
    assert "The package psycopg cannot be loaded" in capsys.readouterr().err
