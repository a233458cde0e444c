"""Over streamable HTTP: this machine only, a token for every request, Host and Origin checked."""

import hmac
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from plait.errors import PlaitError, UsageError
from plait.mcp.server import Door, create_server, quietly
from plait.mcp.shared import Shared

PATH = "/mcp"
DEFAULT_PORT = 8765
LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN_FILE = "mcp-token"
TOKEN_BYTES = 32  # 256 bits: no number of guesses matters
SHORTEST_TOKEN = 16
# Seconds after which a session is forgotten that its client never ended. Nothing is lost with it:
# a client that comes back begins another.
SESSION_IDLE_S = 900.0
MOST_SESSIONS = 1_000  # 40 KB each

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def read_token(path: str) -> tuple[str, bool]:
    """The token of a file, made where there is none; and whether it was made now.

    Raises:
        PlaitError: The file cannot be used, or others can read it.
    """
    try:
        made = _make_token(path)
        with Path(path).open(encoding="utf-8") as file:
            token = file.read().strip()
            mode = os.fstat(file.fileno()).st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise PlaitError(f"Cannot use the token file {path}: {error}.") from error
    if os.name == "posix" and mode & 0o077:
        raise PlaitError(f"Others can read the token file {path}. Run: chmod 600 {path}")
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise PlaitError(
            f"The token in {path} is not one of {SHORTEST_TOKEN} or more plain characters. "
            "Delete the file, and a good one is made."
        )
    return token, made


def _make_token(path: str) -> bool:
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(token_urlsafe(TOKEN_BYTES) + "\n")
    return True


class Gate:
    """Lets through what comes from this machine and knows the token, on every path alike."""

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection of any kind."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(_headers(scope))
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await _refuse(send, *refusal)

    def _refusal(self, headers: Mapping[bytes, list[bytes]]) -> tuple[int, str] | None:
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or not is_local(hosts[0].decode("latin-1")):
            # A web page whose name was rebound to this machine still sends its own name.
            return 421, "This server answers to localhost only."
        for origin in headers.get(b"origin", []):
            scheme, _, host = origin.decode("latin-1").partition("://")
            if scheme not in ("http", "https") or not is_local(host):
                return 403, "Web pages of other places may not ask this server."
        given = headers.get(b"authorization", [])
        kind, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        # Names of schemes have no case; a token does.
        if kind.lower() != b"bearer" or not hmac.compare_digest(token.strip(b" "), self._token):
            return 401, "The token is missing or wrong. Send: Authorization: Bearer TOKEN"
        return None


def _headers(scope: Scope) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


def is_local(host: str) -> bool:
    """Whether a Host header means this machine.

    >>> [is_local(host) for host in ("localhost:8765", "[::1]:1", "127.0.0.1", "127.0.0.1.evil.io")]
    [True, True, True, False]
    """
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        return bool(bracket) and name in LOOPBACK and _is_port(port)
    name, colon, port = host.partition(":")
    return name.lower() in LOOPBACK and _is_port(colon + port)


def _is_port(text: str) -> bool:
    return not text or (text[0] == ":" and text[1:].isdecimal())


async def _refuse(send: Send, status: int, message: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": message.encode()})


def create_app(door: Door, token: str) -> App:
    """The server as a web application behind its gate."""
    app = create_server(door).streamable_http_app(
        streamable_http_path=PATH,
        session_idle_timeout=SESSION_IDLE_S,
        max_sessions=MOST_SESSIONS,
        # The gate has looked at Host and Origin already, on every path and not on this one only.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Gate(app, token)


def listen(host: str, port: int) -> socket.socket:
    """A socket on this machine's own interface.

    Raises:
        UsageError: The host is another machine's name, or somebody listens there already.
    """
    if host not in LOOPBACK:
        raise UsageError(f"--host is {host}; this server is for this machine: 127.0.0.1 or ::1.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        # From now on clients may come: they wait until the server is up.
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        raise UsageError(
            f"Cannot listen on port {port}: {error}. Choose another: --port 0 takes a free one."
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Where clients find the server."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


def serve(shared: Shared, profiles: Sequence[str], listener: socket.socket, token: str) -> None:
    """Serve until interrupted or asked to end."""
    quietly()
    door = Door(shared, profiles)
    # uvicorn finishes what is running and then hands the signal on to whoever had it before.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    config = uvicorn.Config(
        create_app(door, token),
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=2,
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        door.close()
