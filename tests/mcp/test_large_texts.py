"""A server stays responsive whatever it is given to store, and refuses what is too large."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.errors import UsageError
from plait.memory import Memory
from plait.tools.arguments import MAX_ARGUMENT_CHARS
from plait.types.reports import NewEntity
from tests.interfaces.command import spawn
from tests.mcp.talk import Talk, talking

# On old versions, each of these took hours.
UNITS = {
    "dots": ".",
    "newlines": "\n",
    "accents": "\u0301\u0327",
    "ids": "abcdefgh\n",
    "dates": "abcdefgh (2026-01-01",
    "fences": "<<plait-recall abcdefgh>>",
    "lines": "a\n",
    "quotes": '> "',
}
# Seconds of CPU. The server needs about a hundredth of that; the worker has done the rest.
MOST_CPU_S = 1.0
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def large(unit: str) -> str:
    return "We deploy on Fridays " + unit * ((MAX_ARGUMENT_CHARS - 40) // len(unit)) + " end"


def cpu_seconds(talk: Talk) -> float:
    fields = Path(f"/proc/{talk.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
    return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")


def begin_store(talk: Talk, text: str, id_: str = "store") -> None:
    params = {"name": "memory_store", "arguments": {"text": text}}
    talk.send({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    """A server with one short fact, which gets one large text after the other."""
    path = tmp_path_factory.mktemp("large") / "memory.db"
    with talking("--db", str(path), "--project", "personal", "mcp") as talk:
        talk.hello()
        talk.tool("memory_store", text="We deploy on Fridays.")
        yield talk


@on_linux
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_a_ping_is_answered_while_the_largest_text_is_stored(server, unit):
    before = cpu_seconds(server)
    begin_store(server, large(unit), id_=unit)
    assert server.ask("ping", {})["result"] == {}
    assert cpu_seconds(server) - before < MOST_CPU_S
    assert not server.answer(unit)["result"]["isError"]


@on_linux
def test_a_signal_ends_the_server_in_the_middle_of_the_largest_text(database):
    with talking("--db", database, "--project", "personal", "mcp") as talk:
        talk.hello()
        talk.tool("memory_store", text="Ana prefers tea.")
        begin_store(talk, large("a\n"))
        talk.ask("ping", {})
        before = cpu_seconds(talk)
        talk.process.send_signal(signal.SIGTERM)
        _, status, used = os.wait4(talk.process.pid, 0)
        talk.process.returncode = os.waitstatus_to_exitcode(status)
        assert talk.process.returncode == 0
        assert used.ru_utime + used.ru_stime - before < MOST_CPU_S
    with Memory.open(database, project="") as memory:
        # What was acknowledged is there; the rest is there whole or not at all.
        assert memory.search("ana tea")
        assert {finding.level for finding in memory.doctor()} == {"ok"}


def test_a_text_beyond_the_cap_is_refused_with_its_size_and_the_limit(database):
    text = "." * (5 * MAX_ARGUMENT_CHARS)
    with talking("--db", database, "--project", "personal", "mcp", "--tools", "core,graph") as talk:
        talk.hello()
        results = [
            talk.tool("memory_store", text=text),
            talk.tool("memory_store", text="short", title=text),
            talk.tool("add_observations", observations=[{"entityName": "a", "contents": [text]}]),
        ]
        for result in results:
            assert result["isError"]
            sentence = result["content"][0]["text"]
            assert "at most 1,000,000 characters" in sentence and "5,000,000" in sentence
            assert len(sentence) < 200
        assert talk.leave() == 0
    assert not Path(database).exists() or spawn("--db", database, "stats").json["doc_count"] == 0


def test_the_library_refuses_a_text_that_is_larger_than_a_file_may_be(tmp_path, monkeypatch):
    monkeypatch.setenv("PLAIT_MAX_FILE_MB", "0.01")
    text = "é" * 6_000
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        for act in (
            lambda: memory.store(text),
            lambda: memory.store(text, key="note"),
            lambda: memory.store(text, origin="agent"),
            lambda: memory.store(text, entity="Ana"),
        ):
            with pytest.raises(UsageError) as refused:
                act()
            assert refused.value.code == "too_large"
            assert "11.8 KB, limit 10.3 KB" in refused.value.notice.text
        memory.store(text[:5_000])
        assert memory.stats().doc_count == 1
        with pytest.raises(UsageError) as refused:
            memory.graph.create([NewEntity("Ana", "x", ("a" * 11 * 1024 * 1024,))])
        assert refused.value.code == "too_large"


def test_the_command_line_refuses_it_too(tmp_path):
    ran = spawn(
        *("--db", str(tmp_path / "m.db"), "store", "a" * 20_000), env={"PLAIT_MAX_FILE_MB": "0.01"}
    )
    assert (ran.code, ran.out) == (2, "")
    assert "limit 10.3 KB" in ran.err and "plait config set max_file_mb" in ran.err
