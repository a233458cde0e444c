"""Connections that cannot lock others out: few enough, and none that never finishes its request.

uvicorn limits requests, not connections: a client that sends half a request, or nothing, holds one
for as long as it likes.
"""

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Far more than the agents on one machine need, far fewer than the files a process may open.
MAX_CONNECTIONS = 200
# Seconds from the first byte to the last one of a request of at most 4 MB, on this machine.
REQUEST_S = 20.0
# Seconds until a client that was refused has read why.
LINGER_S = 1.0
RETRY_AFTER_S = 1


def _answer(status: str, text: str, *headers: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(text)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*lines, "", text]).encode("ascii")


BUSY = _answer(
    "503 Service Unavailable",
    "All connections of this server are in use. Try again in a moment.",
    f"Retry-After: {RETRY_AFTER_S}",
)
TOO_SLOW = _answer("408 Request Timeout", "The request did not arrive in time.")


class LimitedProtocol(H11Protocol):
    """A connection of uvicorn, one of `MAX_CONNECTIONS`, with a time limit for each request.

    When all are taken, a new one closes the one that has waited longest without a whole request. If
    all are at work, the new one is refused.
    """

    lingering: ClassVar[set["LimitedProtocol"]] = set()
    _deadline: asyncio.TimerHandle | None = None
    _refused = False
    _since = 0.0  # when it last began to wait for a request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, or refuse it."""
        others = [other for other in self.connections if isinstance(other, LimitedProtocol)]
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(others) >= MAX_CONNECTIONS:
            waiting = [other for other in others if other.is_waiting]
            if not waiting:
                self._refuse()
                return
            min(waiting, key=lambda other: other._since).give_up()
        self._watch()

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered: none came, or only a part of one."""
        at_work = self.cycle is not None and not self.cycle.response_complete
        return not at_work or self.conn.their_state is h11.SEND_BODY

    def give_up(self) -> None:
        """Close a connection whose request is not complete."""
        self._stop_watching()
        self.connections.discard(self)
        begun = self.cycle is not None and self.cycle.response_started
        partial = self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])
        if partial and not begun:
            self.transport.write(TOO_SLOW)
        self.transport.close()

    def _refuse(self) -> None:
        self._refused = True
        self.connections.discard(self)
        self.transport.write(BUSY)
        if len(self.lingering) >= MAX_CONNECTIONS:
            self.transport.close()
            return
        # Closing at once would reset a connection with unread bytes, and the answer be lost.
        self.lingering.add(self)
        self._deadline = self.loop.call_later(LINGER_S, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._refused:
            return
        if self._deadline is None:
            self._since = self.loop.time()
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._watch()
        else:
            self._stop_watching()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what belongs to the connection."""
        self._stop_watching()
        self.lingering.discard(self)
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_S, self.give_up)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._since = self.loop.time()
        super().on_response_complete()
