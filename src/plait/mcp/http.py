"""The transport over streamable HTTP, for this machine only.

Every request needs the token, and its Host and Origin are checked.
"""

import hmac
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_urlsafe
from types import FrameType

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from plait.errors import PlaitError, UsageError, advise
from plait.mcp.connections import MAX_CONNECTIONS, LimitedProtocol
from plait.mcp.lazy import LazyMemory
from plait.mcp.server import Handlers, create_server, silence_sdk_logs
from plait.mcp.sessions import App, Receive, Scope, Send, SessionLimit
from plait.mcp.stopping import exit_soon

PATH = "/mcp"
HTTP_PORT = 8765
HTTP_HOST = "127.0.0.1"
MOST_PORT = 65_535
LOOPBACK_HOSTS = (HTTP_HOST, "localhost", "::1")
TOKEN_FILE = "mcp-token"
TOKEN_BYTES = 32  # 256 bits cannot be guessed
MIN_TOKEN_CHARS = 16
# Seconds after which an idle session is dropped. Nothing is lost: the client starts another.
SESSION_IDLE_S = 900.0
# Beyond it, a new session ends the one that is idle for longest. 40 KB each.
MAX_SESSIONS = 1_000


def read_token(path: str) -> tuple[str, bool]:
    """Return the token of a file, creating the file if it is absent, and whether it was created.

    Raises:
        PlaitError: The file cannot be used, or others can read it. Its code is
            "unusable_token_file", "readable_token_file" or "bad_token".
    """
    try:
        created = _create_token(path)
        with Path(path).open(encoding="utf-8") as file:
            token = file.read().strip()
            mode = os.fstat(file.fileno()).st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise PlaitError(
            f"Cannot use the token file {path}: {error}.", code="unusable_token_file", subject=path
        ) from error
    if os.name == "posix" and mode & 0o077:
        raise PlaitError(
            f"Others can read the token file {path}.",
            code="readable_token_file",
            subject=path,
            advice=advise("make_private", path=path),
        )
    if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable():
        raise PlaitError(
            f"The token in {path} is not {MIN_TOKEN_CHARS} or more printable ASCII characters. "
            "Delete the file to get a new token.",
            code="bad_token",
            subject=path,
        )
    return token, created


def _create_token(path: str) -> bool:
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(token_urlsafe(TOKEN_BYTES) + "\n")
    return True


class Gate:
    """Lets through requests from this machine that have the token, on every path."""

    def __init__(self, app: App, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
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
            # DNS rebinding: a web page whose name points to this machine still sends that name.
            return 421, "This server answers only to localhost."
        for origin in headers.get(b"origin", []):
            scheme, _, host = origin.decode("latin-1").partition("://")
            if scheme not in ("http", "https") or not is_local(host):
                return 403, "Web pages from elsewhere may not use this server."
        sent = headers.get(b"authorization", [])
        kind, _, token = sent[0].partition(b" ") if len(sent) == 1 else (b"", b"", b"")
        # The scheme's name is case-insensitive; the token is not.
        if kind.lower() != b"bearer" or not hmac.compare_digest(token.strip(b" "), self._token):
            return 401, "The token is missing or wrong. Send: Authorization: Bearer TOKEN"
        return None


def _headers(scope: Scope) -> dict[bytes, list[bytes]]:
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.lower(), []).append(value)
    return headers


def is_local(host: str) -> bool:
    """Return whether a Host header names this machine.

    >>> [is_local(host) for host in ("localhost:8765", "[::1]:1", "127.0.0.1", "127.0.0.1.evil.io")]
    [True, True, True, False]
    """
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        return bool(bracket) and name in LOOPBACK_HOSTS and _is_port(port)
    name, colon, port = host.partition(":")
    return name.lower() in LOOPBACK_HOSTS and _is_port(colon + port)


def _is_port(text: str) -> bool:
    return not text or (text[0] == ":" and text[1:].isdecimal())


async def _refuse(send: Send, status: int, message: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": message.encode()})


def create_app(handlers: Handlers, token: str) -> App:
    """Return the server as a web application behind its `Gate`."""
    app = create_server(handlers).streamable_http_app(
        streamable_http_path=PATH,
        session_idle_timeout=SESSION_IDLE_S,
        # `SessionLimit` makes room in time; each connection may be opening one session more.
        max_sessions=MAX_SESSIONS + MAX_CONNECTIONS,
        # The gate checks Host and Origin already, and on every path.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Gate(SessionLimit(app, MAX_SESSIONS), token)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket on the loopback interface.

    Raises:
        UsageError: The host is not this machine ("not_loopback"), or the port cannot be used
            ("port_unusable").
    """
    if host not in LOOPBACK_HOSTS:
        raise UsageError(
            f"The host is {host}, but this server is only for this machine: 127.0.0.1 or ::1.",
            code="not_loopback",
            subject=host,
        )
    if not 0 <= port <= MOST_PORT:
        raise UsageError(
            f"The port is {port}; choose 0 to {MOST_PORT:,}. 0 takes a free one.",
            code="port_unusable",
            subject=str(port),
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        # Clients may connect from now on: they wait until the server is up.
        listener.listen()
    except OSError as error:
        listener.close()
        raise UsageError(
            f"Cannot listen on port {port}: {error.strerror}. "
            "Choose another port; 0 takes a free one.",
            code="port_unusable",
            subject=str(port),
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the address for clients."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


class _Server(uvicorn.Server):
    """A server of uvicorn that ends soon after a signal, even in the middle of a long request."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Finish what is short, then end."""
        exit_soon(128 + sig if sig == signal.SIGINT else 0)
        super().handle_exit(sig, frame)


def serve_http(
    memory: LazyMemory,
    profiles: Sequence[str],
    listener: socket.socket,
    token: str,
    *,
    with_data: bool = False,
) -> None:
    """Serve until a signal ends the process."""
    silence_sdk_logs()
    handlers = Handlers(memory, profiles, with_data=with_data)
    # uvicorn finishes the running requests and then passes the signal to the handler before it.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    config = uvicorn.Config(
        create_app(handlers, token),
        http=LimitedProtocol,
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    try:
        _Server(config).run(sockets=[listener])
    finally:
        handlers.close()
