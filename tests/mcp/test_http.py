"""The server over HTTP on a loopback port: the token, the Host, the Origin, and both eras."""

import asyncio
import http.client
import json
import os
import queue
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from threading import Thread
from typing import IO, Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from plait import Memory
from plait.errors import PlaitError, UsageError, advise
from plait.mcp import http as transport
from plait.mcp.server import Handlers
from plait.mcp.sessions import SessionLimit
from tests.interfaces.command import PATIENCE_S, PLAIT
from tests.mcp.talk import ERAS, HELLO, measured, text_of

TOKEN = "a-token-of-twenty-letters"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@contextmanager
def serving(database, token_file, *words, command=PLAIT):
    """A server that ends well; its URL and what it printed at the start."""
    with started(database, token_file, *words, command=command) as (process, first, lines):
        yield url_in(first), first, lines
        process.terminate()
        assert process.wait(PATIENCE_S) == 0 or os.name != "posix"
        assert process.stdout.read() == ""


def url_in(line):
    return line.split("serving at ")[1].split(";")[0]


@contextmanager
def started(database, token_file, *words, command=PLAIT):
    """A server process, its first line, and the others."""
    command = [*command, "--db", database, "--embedder", "none", "--project", "personal", "mcp"]
    process = subprocess.Popen(
        [*command, "--http", "--port", "0", "--token-file", str(token_file), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=measured(),
        encoding="utf-8",
    )
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None and process.stderr is not None

    def read(log: IO[str]) -> None:
        for line in log:
            lines.put(line)

    reader = Thread(target=read, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        # Warnings about the settings of this machine may come first.
        while "serving at " not in (first := lines.get(timeout=PATIENCE_S)):
            pass
        yield process, first, lines
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        reader.join(PATIENCE_S)
        process.stdout.close()
        process.stderr.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("http")


@pytest.fixture(scope="module")
def server(folder):
    """One server for all the tests that only ask."""
    database = str(folder / "memory.db")
    with Memory.open(database, embedder="none", project="") as memory:
        memory.store("We deploy on Fridays")
    token_file = folder / "token"
    token_file.write_text(f"{TOKEN}\n", encoding="utf-8")
    token_file.chmod(0o600)
    with serving(database, token_file) as (url, _, _):
        yield url


def ask(url, *, method="POST", path=None, body=None, **headers):
    """Send one request; return status, headers and body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_S)
    sent = {**ACCEPT, "Authorization": f"Bearer {TOKEN}"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    data = json.dumps(HELLO) if body is None else body
    wanted = {name: value for name, value in sent.items() if value is not None}
    try:
        connection.request(method, path or parts.path, data, wanted)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("era", ERAS)
def test_the_sdks_own_client_searches_over_http_in_both_eras(server, era):
    async def act():
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as carrier:
            transport = streamable_http_client(server, http_client=carrier)
            async with Client(transport, mode=era) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                result = await client.call_tool("memory_search", {"query": "deploy"})
                return client.protocol_version, names, text_of(result)

    version, names, text = asyncio.run(act())
    assert version == ("2025-11-25" if era == "legacy" else "2026-07-28")
    assert len(names) == 6
    assert "We deploy on Fridays" in text


def test_a_request_with_the_token_is_answered(server):
    status, headers, body = ask(server)
    assert status == 200
    assert "serverInfo" in body
    assert "server" not in {name.lower() for name in headers}
    assert not any(name.lower().startswith("access-control") for name in headers)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": f"basic {TOKEN}"}, 401),
        ({"Authorization": f"Bearer{TOKEN}"}, 401),
        ({"Authorization": f"Bearer {TOKEN.upper()}"}, 401),
        ({"Authorization": f"Bearer {TOKEN} {TOKEN}"}, 401),
        ({"Authorization": "Bearer \xff"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost.evil.example:80"}, 421),
        ({"Host": "127.0.0.1:80@evil.example"}, 421),
        ({"Host": "[::1].evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "file://localhost"}, 403),
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/", "/elsewhere", "/mcp/../mcp"])
def test_strangers_are_refused_on_every_route(server, path, headers, status):
    for method in ("GET", "POST", "DELETE", "OPTIONS"):
        got, answered, body = ask(server, method=method, path=path, **headers)
        assert got == status, (method, body)
        assert TOKEN not in body
        assert ("www-authenticate" in answered) == (status == 401)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
def test_the_name_of_the_scheme_has_no_case(server, scheme):
    assert ask(server, Authorization=f"{scheme} {TOKEN}")[0] == 200


@pytest.mark.parametrize("headers", [{"Host": "localhost"}, {"Origin": "http://localhost:3000"}])
def test_this_machines_own_names_are_welcome(server, headers):
    assert ask(server, **headers)[0] == 200


def test_other_routes_have_nothing_to_say(server):
    assert ask(server, path="/elsewhere")[0] == 404


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ("{", {}),
        ("[" * 5_000, {}),
        (b"\xff\xfe", {}),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}', {}),
        (rb'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800"}}', {}),
        ("{}", {"Content_Type": "text/plain"}),
        ("x" * (5 * 1024 * 1024), {}),
    ],
)
def test_a_body_that_makes_no_sense_is_refused_and_the_server_lives_on(server, body, headers):
    try:
        status = ask(server, body=body, **headers)[0]
    except (BrokenPipeError, ConnectionResetError):
        status = 413  # it closed the connection before all of it was sent
    assert 400 <= status < 500
    assert ask(server)[0] == 200


async def _in_process(database, act):
    """Run an act against the web application, without a socket."""
    with Memory.open(database, embedder="none", project="") as memory:
        served = Handlers(memory)
        app: Any = transport.create_app(served, TOKEN)
        headers = {**ACCEPT, "Authorization": f"Bearer {TOKEN}"}
        carrier = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), base_url="http://localhost", headers=headers
        )
        starlette = app._app._app
        async with starlette.router.lifespan_context(starlette), carrier as client:
            outcome = await act(client)
        served.stop()
        return outcome


def test_a_session_that_its_client_never_ends_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(transport, "SESSION_IDLE_S", 0.01)

    async def act(client):
        made = await client.post("/mcp", json=HELLO)
        named = {"Mcp-Session-Id": made.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with asyncio.timeout(PATIENCE_S):
            while (await client.post("/mcp", json=ping, headers=named)).status_code != 404:
                await asyncio.sleep(0.05)
        return (await client.post("/mcp", json=HELLO)).status_code

    assert asyncio.run(_in_process(tmp_path / "memory.db", act)) == 200


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def _open(client):
    """Open a session and return the header that names it."""
    made = await client.post("/mcp", json=HELLO)
    assert made.status_code == 200
    return {"Mcp-Session-Id": made.headers["mcp-session-id"]}


def test_a_new_session_ends_the_one_that_is_idle_for_longest(tmp_path, monkeypatch):
    monkeypatch.setattr(transport, "MAX_SESSIONS", 2)

    async def act(client):
        first, second = await _open(client), await _open(client)
        assert (await client.post("/mcp", json=PING, headers=first)).status_code == 200
        third = await _open(client)
        return [
            (await client.post("/mcp", json=PING, headers=named)).status_code
            for named in (first, second, third)
        ]

    assert asyncio.run(_in_process(tmp_path / "memory.db", act)) == [200, 404, 200]


def test_many_sessions_that_nobody_ends_lock_nobody_out(tmp_path, monkeypatch):
    monkeypatch.setattr(transport, "MAX_SESSIONS", 20)

    async def act(client):
        opened = [await _open(client) for _ in range(100)]
        answers = [
            (await client.post("/mcp", json=PING, headers=row)).status_code for row in opened
        ]
        ended = [await client.delete("/mcp", headers=row) for row in opened[-2:]]
        return answers, [answer.status_code for answer in ended]

    answers, ended = asyncio.run(_in_process(tmp_path / "memory.db", act))
    assert answers == [404] * 80 + [200] * 20
    assert ended == [200, 200]


def test_a_session_that_is_in_use_is_not_ended():
    """Streams stay open, requests are being answered: the limit passes them over."""

    async def act():
        release, ended, statuses = asyncio.Event(), [], []

        async def app(scope, receive, send):
            names = dict(scope["headers"])
            session = names.get(b"mcp-session-id", scope["query_string"])
            headers = [(b"mcp-session-id", session)]
            if scope["method"] == "DELETE":
                ended.append(session)
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            if scope["method"] == "GET":
                await release.wait()

        async def send(message):
            statuses.append(message["status"])

        async def nothing():
            return {"type": "http.disconnect"}

        async def ask_limit(method, session, *, named):
            headers = [(b"mcp-session-id", session)] if named else []
            scope = {"type": "http", "method": method, "headers": headers, "query_string": session}
            await limit(scope, nothing, send)

        limit = SessionLimit(app, 2)
        for name in (b"a", b"b"):
            await ask_limit("POST", name, named=False)
        stream = asyncio.create_task(ask_limit("GET", b"a", named=True))
        await asyncio.sleep(0)
        for name in (b"c", b"d"):
            await ask_limit("POST", name, named=False)
        release.set()
        await stream
        await ask_limit("POST", b"e", named=False)
        return ended, set(statuses)

    assert asyncio.run(act()) == ([b"b", b"c", b"d"], {200})


# -- connections -------------------------------------------------------------------------------


@contextmanager
def limited(tmp_path, **limits):
    """A server process whose limits on connections are small enough to reach."""
    token_file = tmp_path / "token"
    token_file.write_text(f"{TOKEN}\n", encoding="utf-8")
    token_file.chmod(0o600)
    lines = [f"connections.{name} = {value}" for name, value in limits.items()]
    program = "; ".join(
        [
            "import sys",
            "from plait.mcp import connections",
            *lines,
            "from plait.cli import main",
            "sys.exit(main(sys.argv[1:]))",
        ]
    )
    database = str(tmp_path / "memory.db")
    with serving(database, token_file, command=(sys.executable, "-c", program)) as (url, _, _):
        yield url


def raw(url, data=b""):
    """Open a connection and send some bytes."""
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S)
    if data:
        connection.sendall(data)
    return connection


def read_all(connection):
    """Return what a connection says until it is closed, and close it."""
    with connection:
        data = b""
        while True:
            try:
                more = connection.recv(65_536)
            except ConnectionResetError:
                return data
            if not more:
                return data
            data += more


def request_head(length, *, method=b"POST", token=TOKEN):
    return (
        method + b" /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream"
        b"\r\nContent-Type: application/json\r\nAuthorization: Bearer "
        + token.encode()
        + b"\r\nContent-Length: %d\r\n" % length
    )


HALF_OPEN = (
    b"",
    b"POST /mcp",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n",
    request_head(4_000) + b"\r\n",
    request_head(4_000) + b'\r\n{"jsonrpc":',
    request_head(4_000, token="wrong-token-of-some-length") + b"\r\n",
)


def test_connections_that_send_no_whole_request_lock_nobody_out(tmp_path):
    with limited(tmp_path, MAX_CONNECTIONS=10) as url:
        held = [raw(url, HALF_OPEN[number % len(HALF_OPEN)]) for number in range(60)]
        for _ in range(3):
            assert ask(url)[0] == 200
        # The longest waiting ones were closed for the newer ones.
        assert all(read_all(connection)[:12] in (b"", b"HTTP/1.1 408") for connection in held[:5])
        for connection in held:
            connection.close()
        assert ask(url)[0] == 200


def test_a_request_that_does_not_arrive_in_time_is_ended(tmp_path):
    with limited(tmp_path, REQUEST_S=0.5) as url:
        for data in HALF_OPEN[:5]:
            answer = read_all(raw(url, data))
            assert answer.startswith(b"HTTP/1.1 408 ") if data else answer == b""
        # One byte now and then does not prolong it.
        with raw(url, request_head(4_000) + b"\r\n") as slow:
            slow.settimeout(0.05)
            answer = b""
            while b"408" not in answer:
                slow.sendall(b" ")
                with suppress(TimeoutError):
                    answer += slow.recv(1_000)
        assert ask(url)[0] == 200


def test_when_all_connections_are_at_work_the_next_one_is_told_when_to_try_again(tmp_path):
    with limited(tmp_path, MAX_CONNECTIONS=3) as url:
        streams = []
        for _ in range(3):
            session = ask(url)[1]["mcp-session-id"]
            head = request_head(0, method=b"GET") + f"Mcp-Session-Id: {session}\r\n\r\n".encode()
            streams.append(raw(url, head))
            assert streams[-1].recv(12) == b"HTTP/1.1 200"
        refused = read_all(raw(url, request_head(0) + b"\r\n"))
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 1\r\n" in refused
        assert refused.endswith(b"Try again in a moment.")
        streams.pop().close()
        # As soon as one is free, there is room again.
        for _ in range(100):
            if ask(url)[0] == 200:
                break
        else:
            pytest.fail("no connection became free")
        for stream in streams:
            stream.close()


# -- the token ---------------------------------------------------------------------------------


def test_a_token_is_made_once_shown_once_and_kept_private(tmp_path):
    database, token_file = str(tmp_path / "memory.db"), tmp_path / "new" / "token"
    with serving(database, token_file) as (url, first, lines):
        made = token_file.read_text(encoding="utf-8").strip()
        assert str(token_file) in first
        assert lines.get(timeout=PATIENCE_S) == f"plait: new token: {made}\n"
        assert ask(url, Authorization=f"Bearer {made}")[0] == 200
    assert len(made) >= 43
    if os.name == "posix":
        assert token_file.stat().st_mode & 0o777 == 0o600
        assert token_file.parent.stat().st_mode & 0o777 == 0o700
    assert transport.read_token(str(token_file)) == (made, False)
    assert not (tmp_path / "memory.db").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short\n",
        b"caf\xc3\xa9-caf\xc3\xa9-caf\xc3\xa9-caf\xc3\xa9",
        b"a" * 20 + b"\x00",
        b"\xff" * 20,
    ],
)
def test_a_token_that_could_be_guessed_or_not_be_sent_is_refused(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(PlaitError) as caught:
        transport.read_token(str(path))
    assert caught.value.notice.code in ("bad_token", "unusable_token_file")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_token_that_others_can_read_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN, encoding="utf-8")
    path.chmod(0o644)
    with pytest.raises(PlaitError) as caught:
        transport.read_token(str(path))
    assert caught.value.notice.code == "readable_token_file"
    assert caught.value.advice == advise("make_private", path=str(path))


def test_a_token_file_that_is_a_folder_is_refused(tmp_path):
    with pytest.raises(PlaitError) as caught:
        transport.read_token(str(tmp_path))
    assert caught.value.notice.code == "unusable_token_file"


# -- the socket --------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.com", ""])
def test_only_this_machine_is_served(host):
    with pytest.raises(UsageError) as caught:
        transport.listen(host, 0)
    assert caught.value.notice[1:3] == ("not_loopback", host)


def test_a_port_that_is_taken_is_named():
    with transport.listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(UsageError) as caught:
            transport.listen("127.0.0.1", port)
    assert caught.value.notice[1:3] == ("port_unusable", str(port))


def test_the_address_is_one_that_clients_can_use():
    with transport.listen("localhost", 0) as listener:
        assert transport.url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"


def test_a_websocket_is_closed_and_a_lifespan_passed_on():
    passed, sent = [], []

    async def app(scope, receive, send):
        passed.append(scope["type"])

    async def send(message):
        sent.append(message)

    async def receive():
        return {}

    gate = transport.Gate(app, TOKEN)
    asyncio.run(gate({"type": "websocket", "headers": []}, receive, send))
    asyncio.run(gate({"type": "lifespan"}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert passed == ["lifespan"]
