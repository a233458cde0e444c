"""A command that a model passes on acts on the server's memory, wherever the user pastes it."""

import shlex
from pathlib import Path

import apsw
import pytest
from mcp import MCPError

from plait.errors import Notice, advise
from plait.mcp.lazy import LazyMemory
from plait.memory import Memory
from plait.settings.loading import Config, load
from plait.tools.wording import FOR_MODELS, worded
from tests.mcp.talk import call, converse, text_of

CHOSEN = {"db_path": "it's {mine}.db", "project": "side project", "embedding_provider": "none"}


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The settings of a server whose memory and project are not the usual ones."""
    monkeypatch.chdir(tmp_path)
    return load(CHOSEN, cwd=str(tmp_path))


def command(text: str) -> list[str]:
    """The words that a shell makes of the command in an answer."""
    return shlex.split("plait " + text.partition("plait ")[2])


def memory_of(words: list[str]) -> str:
    """The memory that a command chooses."""
    return words[words.index("--db") + 1]


@pytest.mark.parametrize("act", [act for act, text in FOR_MODELS.items() if "plait " in text])
def test_every_command_about_a_memory_keeps_the_options(chosen: Config, act: str) -> None:
    names = ("path", "embedder", "model", "provider", "url", "setting", "agent", "source", "target")
    values = dict.fromkeys(names, "x")
    words = command(worded(Notice("It failed.", advice=advise(act, **values)), chosen))
    if words[1] in ("config", "migrate", "models"):
        assert "--db" not in words
        return
    expected = "x" if act in ("salvage_backup", "export_other") else chosen.settings.db_path
    assert (memory_of(words), words.count("--db")) == (expected, 1)
    assert words[words.index("--project") + 1] == "side project"
    makes_vectors = not {"connect", "delete", "restore"} & {*words}
    assert words.count("--embedder") == makes_vectors


@pytest.mark.parametrize("variable", ["PLAIT_DB", "PLAIT_DB_PATH"])
def test_a_variable_of_the_server_is_not_one_of_the_users_shell(
    tmp_path: Path, variable: str
) -> None:
    environ = {variable: str(tmp_path / "named.db"), "PLAIT_PROJECT": "", "HOME": str(tmp_path)}
    config = load({}, environ=environ, cwd=str(tmp_path))
    words = command(worded(Notice("It failed.", advice=advise("doctor_fix")), config))
    expected = ["--db", str(tmp_path / "named.db"), "--project", "personal", "doctor", "--fix"]
    assert words[1:] == expected


def test_defaults_need_no_options(tmp_path: Path) -> None:
    config = load({}, environ={"HOME": str(tmp_path)}, cwd=str(tmp_path))
    words = command(worded(Notice("It failed.", advice=advise("doctor_fix")), config))
    assert words == ["plait", "doctor", "--fix"]


def test_every_door_of_the_server_names_its_memory(chosen: Config) -> None:
    Memory.open(config=chosen).close()
    file = apsw.Connection(chosen.settings.db_path)
    file.execute("DROP TABLE documents").fetchall()
    file.close()
    lazy = LazyMemory(lambda create: Memory.open(config=chosen, create=create), chosen)
    told = [text_of(call(lazy, "memory_timeline"))]
    for act in (
        lambda client: client.list_resources(),
        lambda client: client.read_resource("memory://x"),
        lambda client: client.get_prompt("recall", {"topic": "x"}),
    ):
        with pytest.raises(MCPError) as refused:
            converse(lazy, act)
        told.append(str(refused.value))
    assert {memory_of(command(text)) for text in told} == {chosen.settings.db_path}


def test_what_a_search_could_not_do_names_its_memory(chosen: Config) -> None:
    with Memory.open(embedder="hashing", config=chosen) as memory:
        memory.store("We deploy on Fridays.")
    file = apsw.Connection(chosen.settings.db_path)
    file.execute("UPDATE generations SET space = '['").fetchall()
    file.close()
    lazy = LazyMemory(
        lambda create: Memory.open(embedder="hashing", config=chosen, create=create), chosen
    )
    searches = [("memory_search", "core"), ("memory_recall", "core"), ("search_memories", "layers")]
    for tool, profile in searches:
        answered = call(lazy, tool, {"query": "deploy"}, profiles=(profile,))
        assert memory_of(command(text_of(answered))) == chosen.settings.db_path, tool
