"""Ollama's own chat protocol, by its official client. Models are never pulled."""

from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import ollama

from plait.chat.models import CONNECT_S, EARLY_STOPS, NO_KEY, UNREADABLE, ChatServer, message_in
from plait.chat.turns import ChatTurn, ModelCall, Part


class OllamaModel:
    """A model that Ollama serves, on this machine or another."""

    def __init__(self, server: ChatServer, tools: list[dict[str, Any]]) -> None:
        self._server = server
        self._tools = tools
        options = server.client_options(httpx, lambda key: ("authorization", f"Bearer {key}"))
        self._client = ollama.Client(
            host=server.model.address.url,
            # The client would take a key out of the environment for any server.
            headers={"authorization": NO_KEY},
            timeout=httpx.Timeout(server.quiet_s, connect=CONNECT_S),
            **{name: value for name, value in options.items() if name != "base_url"},
        )

    def answer(self, system: str, turns: Sequence[ChatTurn], *, tools: bool) -> Iterator[Part]:
        """Yield the parts of the next answer."""
        server = self._server
        try:
            yield from self._parts(system, turns, tools=tools)
        except ollama.ResponseError as error:
            # An error in the middle of a stream has no status.
            status = error.status_code if error.status_code > 0 else 500
            raise server.refused(status, message_in({"error": error.error})) from error
        except httpx.HTTPError as error:
            raise server.disconnected(error) from error
        except UNREADABLE as error:
            raise server.unreadable(error) from error

    def _parts(self, system: str, turns: Sequence[ChatTurn], *, tools: bool) -> Iterator[Part]:
        stream = self._client.chat(
            model=self._server.model.name,
            messages=messages_of(system, turns),
            tools=self._tools if tools else None,
            stream=True,
        )
        calls: list[ModelCall] = []
        ended: str | None = None
        for chunk in stream:
            if chunk.message.content:
                yield chunk.message.content
            for call in chunk.message.tool_calls or ():
                id_ = f"call_{len(calls)}"
                calls.append(ModelCall(id_, call.function.name, call.function.arguments))
            if chunk.done:
                ended = chunk.done_reason or "stop"
        if ended is None:
            raise self._server.broke_off
        if ended in EARLY_STOPS:
            yield EARLY_STOPS[ended]
        yield from calls

    def close(self) -> None:
        """Close the connection."""
        self._client.close()  # type: ignore[no-untyped-call]


def messages_of(system: str, turns: Sequence[ChatTurn]) -> list[dict[str, Any]]:
    """Return turns as Ollama's messages."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    for turn in turns:
        message: dict[str, Any] = {"role": turn.role, "content": turn.text}
        if turn.role == "tool":
            message["tool_name"] = turn.tool
        if turn.calls:
            message["tool_calls"] = [
                {
                    "function": {
                        "name": call.name,
                        "arguments": call.arguments if not isinstance(call.arguments, str) else {},
                    }
                }
                for call in turn.calls
            ]
        messages.append(message)
    return messages
