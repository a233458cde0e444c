"""Requests that wait for their answer when a client closes its end: they are answered first.

The SDK drops what is still running at the end of its input. A client that pipes its requests in and
closes the pipe has not taken any of them back.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
from mcp import types
from mcp.shared.message import SessionMessage

# Seconds without an answer, and with nothing being done, after which the rest is given up: a
# request that was cancelled or makes no sense may never be answered.
PATIENCE_S = 5.0


class Incoming(Protocol):
    """What the SDK reads from."""

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""

    async def aclose(self) -> None:
        """Let go of it."""


class Outgoing(Protocol):
    """What the SDK writes to."""

    async def send(self, item: SessionMessage, /) -> None:
        """Hand a message over."""

    async def aclose(self) -> None:
        """Let go of it."""


class Pending:
    """Which requests have not been answered yet; ``is_busy`` says whether any is worked on."""

    def __init__(self, is_busy: Callable[[], bool], patience: float = PATIENCE_S) -> None:
        self._is_busy = is_busy
        self._patience = patience
        self._ids: list[Any] = []
        self._changed = asyncio.Event()

    def came(self, item: SessionMessage | Exception) -> None:
        """Note a request, or that one was taken back."""
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, types.JSONRPCRequest):
            self._ids.append(message.id)
        elif (
            isinstance(message, types.JSONRPCNotification)
            and message.method == "notifications/cancelled"
        ):
            self._drop((message.params or {}).get("requestId"))

    def went(self, item: SessionMessage) -> None:
        """Note an answer."""
        if isinstance(item.message, (types.JSONRPCResponse, types.JSONRPCError)):
            self._drop(item.message.id)

    def _drop(self, id_: Any) -> None:
        if id_ in self._ids:
            self._ids.remove(id_)
        self._changed.set()

    @property
    def waits(self) -> bool:
        """Whether any request has not been answered yet."""
        return bool(self._ids)

    async def answered(self) -> None:
        """Wait until every request was answered, or none of the rest ever will be."""
        while self.waits:
            self._changed.clear()
            try:
                async with asyncio.timeout(self._patience):
                    await self._changed.wait()
            except TimeoutError:
                if not self._is_busy():
                    return


class _Stream:
    """A stream that is closed with the one inside it."""

    _inner: "Incoming | Outgoing"

    async def aclose(self) -> None:
        """Let go of the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        """For ``async with``."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of the stream."""
        await self.aclose()


class Reading(_Stream):
    """Incoming messages, whose end waits for the answers."""

    _inner: Incoming

    def __init__(self, inner: Incoming, pending: Pending) -> None:
        self._inner = inner
        self._pending = pending

    @property
    def last_context(self) -> Context | None:
        """The context in which the latest message was sent, for the SDK."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            EndOfStream: There are no more, and all that came were answered.
        """
        try:
            item = await self._inner.receive()
        except anyio.EndOfStream:
            await self._pending.answered()
            raise
        self._pending.came(item)
        return item

    def __aiter__(self) -> Self:
        """For ``async for``."""
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        """The next message."""
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class Writing(_Stream):
    """Outgoing messages, noted once they were handed over."""

    _inner: Outgoing

    def __init__(self, inner: Outgoing, pending: Pending) -> None:
        self._inner = inner
        self._pending = pending

    async def send(self, item: SessionMessage, /) -> None:
        """Hand a message over."""
        await self._inner.send(item)
        self._pending.went(item)
