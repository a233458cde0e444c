"""A pooler between a client and the server, which gives every transaction another session.

As pgbouncer does in its transaction mode (without `max_prepared_statements`): what a session
knows from an earlier transaction is another client's, or nobody's.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from selectors import EVENT_READ, DefaultSelector
from threading import Thread

_LENGTH = struct.Struct("!I")
_STARTUP = struct.pack("!I", 196_608) + b"user\0postgres\0database\0postgres\0\0"
# Each of these is answered by one ReadyForQuery: Query and Sync.
_ASKING = (b"Q", b"S")


class Session:
    """A session of the server."""

    def __init__(self, target: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(target)
        self.socket.sendall(_LENGTH.pack(4 + len(_STARTUP)) + _STARTUP)
        self.greeting = b""
        while not self.greeting.endswith(b"Z\0\0\0\5I"):
            self.greeting += self.socket.recv(65_536)


class Pooler:
    """Listens on a port; the sessions of the server take turns."""

    def __init__(self, target: str, sessions: int) -> None:
        self._sessions = [Session(target) for _ in range(sessions)]
        # Which session the next transactions get.
        self.turns: Iterator[int] = cycle(range(sessions))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.transactions = 0
        Thread(target=self._accept, daemon=True).start()

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?sslmode=disable"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._serve(client)  # one client at a time, so that sessions are never awaited

    def _serve(self, client: socket.socket) -> None:
        with client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            length = _LENGTH.unpack(_exactly(client, 4))[0]
            _exactly(client, length - 4)
            client.sendall(self._sessions[0].greeting)
            with suppress(ConnectionError):
                while self._transaction(client):
                    self.transactions += 1

    def _transaction(self, client: socket.socket) -> bool:
        """Pass one transaction on; tell whether another one may follow."""
        kind, data = _message(client)
        if kind == b"X":
            return False
        session = self._sessions[next(self.turns)].socket
        waiting = 0
        while True:
            session.sendall(data)
            waiting += kind in _ASKING
            while client not in _readable(client, session):
                answer, data = _message(session)
                client.sendall(data)
                waiting -= answer == b"Z"
                if (answer, data[-1:]) == (b"Z", b"I") and not waiting:
                    return True
            kind, data = _message(client)
            if kind == b"X":
                return False

    def close(self) -> None:
        self._listening.close()
        for session in self._sessions:
            session.socket.close()


def _message(source: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(source, 5)
    return head[:1], head + _exactly(source, _LENGTH.unpack(head[1:])[0] - 4)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data


def _readable(*sockets: socket.socket) -> list[object]:
    """Those that have something to read, once one has; however many files are open."""
    with DefaultSelector() as waiting:
        for one in sockets:
            waiting.register(one, EVENT_READ)
        return [key.fileobj for key, _ in waiting.select()]
