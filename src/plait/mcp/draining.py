"""Streams that answer all open requests before they report the end of input, and every bad line.

When its input ends, the SDK drops the requests that are still running. A client that pipes requests
in and closes the pipe still expects their answers.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

from plait.mcp.malformed import refusal_of

# Seconds to wait without an answer and without work in progress: a request that was cancelled or
# is malformed may never be answered.
PATIENCE_S = 5.0


class Incoming(Protocol):
    """The stream that the SDK reads from."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""

    async def aclose(self) -> None:
        """Close the stream."""


class Outgoing(Protocol):
    """The stream that the SDK writes to."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""

    async def aclose(self) -> None:
        """Close the stream."""


class OpenRequests:
    """The requests without an answer; ``is_busy`` tells whether work is in progress."""

    def __init__(self, is_busy: Callable[[], bool], patience: float = PATIENCE_S) -> None:
        self._is_busy = is_busy
        self._patience = patience
        self._ids: list[Any] = []
        self._changed = asyncio.Event()

    def note_received(self, item: SessionMessage) -> None:
        """Note a request, or the cancellation of one."""
        message = item.message
        if isinstance(message, types.JSONRPCRequest):
            self._ids.append(message.id)
        elif (
            isinstance(message, types.JSONRPCNotification)
            and message.method == "notifications/cancelled"
        ):
            self._drop((message.params or {}).get("requestId"))

    def note_sent(self, item: SessionMessage) -> None:
        """Note an answer."""
        if isinstance(item.message, (types.JSONRPCResponse, types.JSONRPCError)):
            self._drop(item.message.id)

    def _drop(self, id_: Any) -> None:
        if id_ in self._ids:
            self._ids.remove(id_)
        self._changed.set()

    def __bool__(self) -> bool:
        """Whether any request has no answer yet."""
        return bool(self._ids)

    async def drain(self) -> None:
        """Wait until every request is answered, or no more answers can be expected."""
        while self:
            self._changed.clear()
            try:
                async with asyncio.timeout(self._patience):
                    await self._changed.wait()
            except TimeoutError:
                if not self._is_busy():
                    return


class _Stream:
    """A stream that closes the stream inside it."""

    _inner: "Incoming | Outgoing"

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        """Support ``async with``."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the stream."""
        await self.aclose()


class DrainingReader(_Stream):
    """Incoming messages; the end of input waits for the open requests.

    A line that is no message is answered with an error through ``answers`` and not passed on.
    """

    _inner: Incoming

    def __init__(self, inner: Incoming, requests: OpenRequests, answers: Outgoing) -> None:
        self._inner = inner
        self._requests = requests
        self._answers = answers

    @property
    def last_context(self) -> Context | None:
        """The context in which the latest message was sent; the SDK asks for it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            EndOfStream: The input has ended and every request is answered.
        """
        while True:
            try:
                item = await self._inner.receive()
            except anyio.EndOfStream:
                await self._requests.drain()
                raise
            if not isinstance(item, Exception):
                self._requests.note_received(item)
                return item
            refusal = refusal_of(item)
            if refusal is not None:
                await self._answers.send(refusal)

    def __aiter__(self) -> Self:
        """Support ``async for``."""
        return self

    async def __anext__(self) -> SessionMessage:
        """Return the next message."""
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class NotingWriter(_Stream):
    """Outgoing messages; each answer closes its request."""

    _inner: Outgoing

    def __init__(self, inner: Outgoing, requests: OpenRequests) -> None:
        self._inner = inner
        self._requests = requests

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message."""
        await self._inner.send(item)
        self._requests.note_sent(item)
