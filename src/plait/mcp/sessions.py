"""A limit on sessions that locks nobody out: a new session ends the one that is idle for longest.

Only clients of the older protocol have sessions. Many of them never end theirs; the SDK alone would
refuse every new client until the old sessions have timed out.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

SESSION_HEADER = b"mcp-session-id"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class SessionLimit:
    """Passes requests on, and ends the longest idle sessions beyond a number of them.

    A session with a request in progress, such as an open stream, is not idle. Its client gets a 404
    with the next request and starts another session, as the protocol says.
    """

    def __init__(self, app: App, most: int) -> None:
        self._app = app
        self._most = most
        # The requests in progress of each session, the longest unused session first.
        self._busy: OrderedDict[bytes, int] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = dict(scope)  # as it came: the application writes into it
        named = [value for name, value in scope["headers"] if name.lower() == SESSION_HEADER]
        session = named[0] if named and named[0] in self._busy else None

        async def watch(message: MutableMapping[str, Any]) -> None:
            nonlocal session
            if message["type"] == "http.response.start":
                if session is None and not named:
                    session = _session_in(message)
                    if session is not None:
                        self._enter(session)
                        await self._end_idle(asked)
                elif session is not None and _is_over(scope, message):
                    self._busy.pop(session, None)
            await send(message)

        if session is not None:
            self._enter(session)
        try:
            await self._app(scope, receive, watch)
        finally:
            if session is not None:
                self._leave(session)

    def _enter(self, session: bytes) -> None:
        self._busy[session] = self._busy.get(session, 0) + 1

    def _leave(self, session: bytes) -> None:
        if session in self._busy:
            self._busy[session] -= 1
            self._busy.move_to_end(session)

    async def _end_idle(self, scope: Scope) -> None:
        """End idle sessions, as their own clients would, until there are few enough."""
        while len(self._busy) > self._most:
            session = next((name for name, busy in self._busy.items() if not busy), None)
            if session is None:
                return  # all are in use; there are no more of them than connections
            del self._busy[session]
            hosts = [header for header in scope["headers"] if header[0].lower() == b"host"]
            ending = {**scope, "method": "DELETE", "headers": [*hosts, (SESSION_HEADER, session)]}
            await self._app(ending, _no_body, _ignore)


def _session_in(message: MutableMapping[str, Any]) -> bytes | None:
    """Return the name of the session that a response opens."""
    if message["status"] >= 400:
        return None
    for name, value in message.get("headers", ()):
        if bytes(name).lower() == SESSION_HEADER:
            return bytes(value)
    return None


def _is_over(scope: Scope, message: MutableMapping[str, Any]) -> bool:
    """Tell whether a session has ended: by its client, or unknown to the SDK."""
    status: int = message["status"]
    return status == 404 or (scope["method"] == "DELETE" and status < 300)


async def _no_body() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignore(message: MutableMapping[str, Any]) -> None:
    """Nobody waits for this answer."""
