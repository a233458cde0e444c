"""The server as a process of its own, over its stdin and stdout."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters, types
from mcp.shared.message import SessionMessage

from plait import Memory
from plait.cli import main
from plait.errors import PIP
from plait.mcp.draining import OpenRequests
from tests.interfaces.command import PATIENCE_S, PLAIT, ROOT, environment, spawn
from tests.mcp.talk import ERAS, HELLO, measured, talking, text_of
from tests.reliability.processes import posix_only

NO_VECTORS = ("--embedder", "none", "--project", "personal")


@pytest.fixture
def database(tmp_path):
    path = str(tmp_path / "memory.db")
    with Memory.open(path, embedder="none", project="") as memory:
        memory.store("We deploy on Fridays", type="decision")
    return path


def serving(database: str, *words: str):
    return talking("--db", database, *NO_VECTORS, "mcp", *words, env=measured())


@pytest.mark.parametrize("era", ERAS)
def test_the_sdks_own_client_searches_and_stores_in_both_eras(database, era):
    async def act():
        words = [*PLAIT[1:], "--db", database, *NO_VECTORS, "mcp"]
        server = StdioServerParameters(command=PLAIT[0], args=words, env=environment())
        async with Client(server, mode=era) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            await client.call_tool("memory_store", {"text": "Ana prefers tea"})
            result = await client.call_tool("memory_search", {"query": "tea deploy"})
            return names, client.protocol_version, text_of(result)

    names, version, text = asyncio.run(act())
    assert len(names) == 6
    assert version == ("2025-11-25" if era == "legacy" else "2026-07-28")
    assert "Ana prefers tea" in text and "We deploy on Fridays" in text


def test_the_profiles_are_chosen_on_the_command_line(database):
    with serving(database, "--tools", "graph,core") as talk:
        talk.hello()
        listed = talk.ask("tools/list", {})["result"]["tools"]
        assert [tool["name"] for tool in listed][5:7] == ["memory_delete", "create_entities"]
        assert talk.leave() == 0


def test_an_endless_wait_ends_with_stdin(database):
    with serving(database) as talk:
        talk.hello()
        assert "We deploy on Fridays" in talk.text("memory_search", query="deploy")
        assert talk.leave() == 0
        assert talk.rest() == []
        assert talk.log() == ""


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signal to send")
@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 0)])
def test_a_signal_ends_it_at_once(database, number, code):
    with serving(database) as talk:
        talk.hello()
        talk.tool("memory_search", query="deploy")
        talk.process.send_signal(getattr(signal, number))
        assert talk.process.wait(PATIENCE_S) == code


@posix_only
def test_the_server_goes_when_its_parent_dies_though_stdin_stays_open(database):
    # Both ends of stdin are ours, so that only the parent's death can end the server.
    stdin_read, stdin_write = os.pipe()
    stdout_read, stdout_write = os.pipe()
    go_read, go_write = os.pipe()
    words = [*PLAIT, "--db", database, *NO_VECTORS, "mcp"]
    parent = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "mcp" / "parent.py"), str(go_read), *words],
        stdin=stdin_read,
        stdout=stdout_write,
        pass_fds=(go_read,),
        env=environment(),
    )
    os.close(stdout_write)
    try:
        os.write(stdin_write, json.dumps(HELLO).encode() + b"\n")
        assert json.loads(_next(stdout_read))["id"] == 0
        os.write(go_write, b".")
        assert parent.wait(PATIENCE_S) == 0
        # Only the server holds its stdout now: it ends when the server does.
        assert _next(stdout_read) == b""
    finally:
        parent.kill()
        parent.wait(PATIENCE_S)
        for handle in (stdin_read, stdin_write, stdout_read, go_read, go_write):
            os.close(handle)


def _next(handle: int) -> bytes:
    """Return the next line; nothing at the end."""
    assert select.select([handle], [], [], PATIENCE_S)[0], "nothing came"
    return os.read(handle, 1 << 20)


def test_what_other_code_prints_never_reaches_stdout(tmp_path):
    script = str(ROOT / "tests" / "mcp" / "chatty_server.py")
    command = [sys.executable, script, str(tmp_path / "memory.db")]
    with talking(command=command) as talk:
        talk.hello()
        talk.tool("memory_store", text="We deploy on Fridays")
        talk.tool("memory_search", query="deploy")
        assert talk.leave() == 0
        assert talk.rest() == []
        assert talk.log().count("progress 100%") == talk.log().count("loading model") >= 2


def test_the_handshake_opens_no_file_and_loads_no_model(tmp_path):
    # A memory that cannot be opened shows when it is opened.
    folder = tmp_path / "memory.db"
    folder.mkdir()
    with talking("--db", str(folder), "mcp") as talk:
        assert talk.hello()["result"]["serverInfo"]["name"] == "plait"
        assert len(talk.ask("tools/list", {})["result"]["tools"]) == 6
        refused = talk.tool("memory_search", query="x")
        assert refused["isError"] is True
        assert "memory.db" in refused["content"][0]["text"]


@posix_only
def test_a_person_at_a_terminal_is_told_what_it_waits_for(database):
    ours, theirs = os.openpty()
    words = [*PLAIT, "--db", database, *NO_VECTORS, "mcp"]
    process = subprocess.Popen(
        words, stdin=theirs, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=measured()
    )
    assert process.stderr is not None
    try:
        assert b"waiting for an MCP client" in process.stderr.readline()
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        process.stderr.close()
        os.close(ours)
        os.close(theirs)


@posix_only
def test_a_closed_stdin_is_one_sentence(database):
    closing = ["/bin/sh", "-c", 'exec "$@" <&-', "sh"]
    ran = spawn("--db", database, "mcp", before=closing, env=measured())
    assert (ran.code, ran.out) == (2, "")
    assert "which is closed" in ran.err


def test_no_other_verb_imports_the_sdk(database):
    code = (
        "import sys; from plait.cli import main; main(sys.argv[1:]);"
        "assert not {name for name in sys.modules if name.partition('.')[0] in ('mcp', 'mcp_types',"
        " 'pydantic', 'anyio')}"
    )
    for words in (["search", "deploy"], ["recall", "deploy"], ["timeline"], ["mcp", "--help"]):
        subprocess.run(
            [sys.executable, "-c", code, "--db", database, *words],
            env=environment(),
            check=True,
            stdout=subprocess.DEVNULL,
        )


def test_without_the_sdk_one_sentence_says_how_to_get_it(tmp_path, database):
    # A module of that name that is not the SDK's is as good as none.
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError(name='mcp')\n", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    ran = spawn("--db", database, "mcp", env={**measured(), "PYTHONPATH": path})
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "plait: plait mcp needs the MCP SDK, which is not installed. "
        f"Run in a clone of plait: {PIP} install '.[mcp]'\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--tools", "cor"], "--tools is 'cor'; choose one of: core, layers, graph"),
        (["--port", "1"], "--port needs --http."),
        (["--token-file", "x"], "--token-file needs --http."),
        (["--http", "--host", "0.0.0.0"], "The host is 0.0.0.0, but this server is only for this"),
        (["--http", "--port", "99999"], "99999"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(capsys, words, sentence):
    assert main(["mcp", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_hundred_calls_at_once_are_all_answered(database):
    with serving(database) as talk:
        talk.hello()
        params = {"name": "memory_search", "arguments": {"query": "deploy"}}
        for number in range(1, 101):
            talk.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        # One thread does the work, so the last asked is the last answered.
        talk.answer(100)
        answered = [json.loads(line) for line in talk.heard[1:]]
        assert sorted(message["id"] for message in answered) == list(range(1, 101))
        texts = [message["result"]["content"][0]["text"] for message in answered]
        assert all("We deploy on Fridays" in text for text in texts)


def calls(count, tool="memory_store"):
    """Requests that store one fact each, as lines."""
    asked = [
        {"name": tool, "arguments": {"text": f"Fact number {number} is about thing {number}"}}
        for number in range(count)
    ]
    return [
        {"jsonrpc": "2.0", "id": f"call-{number}", "method": "tools/call", "params": params}
        for number, params in enumerate(asked)
    ]


def piped(database, *frames):
    """Run a client that writes all its requests and closes the pipe at once."""
    lines = [json.dumps(frame).encode() for frame in (HELLO, *frames)]
    ran = spawn(
        "--db", database, *NO_VECTORS, "mcp", env=measured(), stdin=b"\n".join(lines) + b"\n"
    )
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


def test_what_was_asked_before_stdin_ended_is_answered(database):
    heard = piped(database, {"jsonrpc": "2.0", "method": "notifications/initialized"}, *calls(40))
    assert sorted(str(message["id"]) for message in heard) == sorted(
        ["0", *(f"call-{number}" for number in range(40))]
    )
    assert all("result" in message for message in heard)
    with Memory.open(database, embedder="none", project="") as memory:
        assert memory.stats().doc_count == 41


def test_a_request_that_was_cancelled_does_not_hold_the_end_back(database):
    [call] = calls(1)
    cancel = {"method": "notifications/cancelled", "params": {"requestId": "call-0"}}
    heard = piped(database, call, {"jsonrpc": "2.0", **cancel})
    assert "0" in [str(message["id"]) for message in heard]


def request(id_):
    return SessionMessage(types.JSONRPCRequest(jsonrpc="2.0", id=id_, method="ping"))


def test_the_end_waits_for_whoever_is_busy_and_not_for_what_nobody_works_on():
    looked = []

    def is_busy():
        looked.append(1)
        return len(looked) < 3

    async def act():
        requests = OpenRequests(is_busy, patience=0.001)
        requests.note_received(request("never answered"))
        await requests.drain()

    asyncio.run(act())
    assert len(looked) == 3


def test_a_message_that_answers_nothing_settles_nothing():
    async def act():
        requests = OpenRequests(lambda: False, patience=0.001)
        requests.note_received(request("asked"))
        requests.note_sent(SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method="x")))
        is_open = []
        for id_ in ("other", "asked"):
            response = types.JSONRPCResponse(jsonrpc="2.0", id=id_, result={})
            requests.note_sent(SessionMessage(response))
            is_open.append(bool(requests))
        return is_open

    assert asyncio.run(act()) == [True, False]


# -- lines that are no messages ------------------------------------------------------------------


def asked(text: bytes, id_: bytes = b"7") -> bytes:
    """Return a request to search for a text, as raw bytes."""
    head = b'{"jsonrpc":"2.0","id":' + id_ + b',"method":"tools/call","params":{"name":'
    return head + b'"memory_search","arguments":{"query":"' + text + b'"}}}'


@pytest.mark.parametrize(
    ("line", "id_", "code"),
    [
        (asked(rb"\ud800"), 7, types.PARSE_ERROR),
        (asked(rb"a\udfff b"), 7, types.PARSE_ERROR),
        (asked(rb"\ud800", b'"seven"'), "seven", types.PARSE_ERROR),
        (asked(b"\xff"), 7, types.PARSE_ERROR),
        (asked(b"caf\xe9"), 7, types.PARSE_ERROR),
        (asked(b"\xed\xa0\x80"), 7, types.PARSE_ERROR),
        (asked(b"\xf0\x9f\x99"), 7, types.PARSE_ERROR),
        (asked(b"x\x01y"), None, types.PARSE_ERROR),
        (asked(b"x", rb'"\ud800"'), None, types.PARSE_ERROR),
        (asked(b"x")[:-1], None, types.PARSE_ERROR),
        (b"\xff\xfe", None, types.PARSE_ERROR),
        (b"\x00", None, types.PARSE_ERROR),
        (b"{", None, types.PARSE_ERROR),
        (b"[" * 5_000, None, types.PARSE_ERROR),
        (b'{"a":' * 5_000, None, types.PARSE_ERROR),
        (b"[]", None, types.INVALID_REQUEST),
        (b'"text"', None, types.INVALID_REQUEST),
        (b"null", None, types.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":7}', None, types.INVALID_REQUEST),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', 7, types.INVALID_REQUEST),
        (b'{"id":7,"method":"ping"}', 7, types.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":3}', 7, types.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', 7, types.INVALID_REQUEST),
        # An answer of the client: its id is one of ours, and means no request.
        (rb'{"jsonrpc":"2.0","id":7,"result":{"a":"\ud800"}}', None, types.PARSE_ERROR),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_a_line_that_is_no_message_is_answered_with_an_error(shared_talk, line, id_, code):
    talk = shared_talk
    talk.send(line)
    talk.send(b"")  # blank lines are no messages, and no errors
    answer = talk.answer(id_)
    assert answer["error"]["code"] == code
    assert set(answer) == {"jsonrpc", "id", "error"} and set(answer["error"]) == {"code", "message"}
    # Nothing of the line comes back, and the server goes on.
    assert "memory_search" not in answer["error"]["message"]
    assert talk.ask("ping", {})["result"] == {}
    assert talk.log() == ""


@pytest.fixture(scope="module")
def shared_talk(tmp_path_factory):
    """One server for all bad lines: it has to survive each of them."""
    path = tmp_path_factory.mktemp("lines") / "memory.db"
    with talking("--db", str(path), *NO_VECTORS, "mcp", env=measured()) as talk:
        talk.hello()
        yield talk
        assert talk.leave() == 0


def test_bad_bytes_are_not_stored_as_something_else(database):
    with serving(database) as talk:
        talk.hello()
        params = b'{"name":"memory_store","arguments":{"text":"Caf\xe9 Ren\xe9e"}}'
        talk.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + params + b"}")
        assert talk.answer(1)["error"]["code"] == types.PARSE_ERROR
        stored = talk.text("memory_store", text="Café Renée, \ufffd and \U0001f642")
        assert stored.startswith("Stored ")
        assert talk.leave() == 0
    with Memory.open(database, embedder="none", project="") as memory:
        assert memory.search("Café")[0].text.endswith("\ufffd and \U0001f642")
        assert memory.stats().doc_count == 2
