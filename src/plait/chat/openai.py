"""OpenAI's chat completions, by its official client, at OpenAI and at servers that speak as it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2

from plait.chat.late_packages import late_packages
from plait.chat.models import CONNECT_S, EARLY_STOPS, NO_KEY, UNREADABLE, ChatServer, message_in
from plait.chat.turns import ChatTurn, ModelCall, Part, arguments_of

# As in `plait.chat.anthropic`.
try:
    with late_packages("openai"):
        from openai._client import OpenAI
        from openai._exceptions import APIConnectionError, APIError, APIStatusError, OpenAIError
        from openai._streaming import Stream
except ImportError:
    from openai import (
        APIConnectionError,
        APIError,
        APIStatusError,
        OpenAI,
        OpenAIError,
        Stream,
    )


class OpenAIModel:
    """A model behind OpenAI's protocol."""

    def __init__(self, server: ChatServer, tools: list[dict[str, Any]]) -> None:
        self._server = server
        self._tools: Any = tools
        options = server.client_options(httpx2, lambda key: ("authorization", f"Bearer {key}"))
        del options["base_url"]
        self._client = OpenAI(
            api_key=NO_KEY,
            max_retries=0,  # see `patient_answer`
            base_url=server.model.address.url,
            timeout=httpx2.Timeout(server.quiet_s, connect=CONNECT_S),
            http_client=httpx2.Client(**options),
        )

    def answer(self, system: str, turns: Sequence[ChatTurn], *, tools: bool) -> Iterator[Part]:
        """Yield the parts of the next answer."""
        server = self._server
        try:
            yield from self._parts(system, turns, tools=tools)
        except (APIConnectionError, httpx2.HTTPError) as error:
            raise server.disconnected(error) from error
        except APIStatusError as error:
            raise server.refused(error.status_code, message_in(error.body)) from error
        except APIError as error:  # in the middle of the stream
            raise server.refused(500, message_in(error.body) or error.message) from error
        except (OpenAIError, *UNREADABLE) as error:
            raise server.unreadable(error) from error

    def _parts(self, system: str, turns: Sequence[ChatTurn], *, tools: bool) -> Iterator[Part]:
        body: dict[str, Any] = {"model": self._server.model.name, "stream": True}
        body["messages"] = messages_of(system, turns)
        if tools and self._tools:
            body["tools"] = self._tools
        # Plain data: building the client's own types costs 40 ms before the first word, and other
        # servers leave some of their fields out.
        stream = self._client.post(
            "/chat/completions",
            cast_to=object,
            body=body,
            stream=True,
            stream_cls=Stream[object],
        )
        calls: list[dict[str, Any]] = []
        ended = ""
        with stream:
            for chunk in stream:
                for choice in _choices(chunk):
                    delta = choice.get("delta") or {}
                    text = delta.get("content") or delta.get("refusal")
                    if text:
                        yield text
                    for piece in delta.get("tool_calls") or ():
                        _gather(calls, piece)
                    ended = choice.get("finish_reason") or ended
        if not ended:
            raise self._server.broke_off
        if ended in EARLY_STOPS:
            yield EARLY_STOPS[ended]
        for number, call in enumerate(calls):
            id_ = str(call["id"] or f"call_{number}")
            yield ModelCall(id_, call["name"], arguments_of(call["arguments"]))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _choices(chunk: Any) -> list[dict[str, Any]]:
    """Return the first choice of a chunk; the last chunk may have none and only count tokens."""
    choices: list[dict[str, Any]] = chunk.get("choices") or []
    return choices[:1]


def _gather(calls: list[dict[str, Any]], piece: dict[str, Any]) -> None:
    """Add a piece to the call that it belongs to, or begin a new call.

    Some servers give every call the number 0, or none, and tell calls apart by their ids.
    """
    number, id_ = piece.get("index", 0), piece.get("id") or ""
    same = [call for call in calls if call["index"] == number]
    if not same or (id_ and same[-1]["id"] not in ("", id_)):
        same = [{"index": number, "id": "", "name": "", "arguments": ""}]
        calls += same
    call = same[-1]
    call["id"] = call["id"] or id_
    function = piece.get("function") or {}
    for name in ("name", "arguments"):
        call[name] += function.get(name) or ""


def messages_of(system: str, turns: Sequence[ChatTurn]) -> Any:
    """Return turns as OpenAI's messages."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    for turn in turns:
        message: dict[str, Any] = {"role": turn.role, "content": turn.text}
        if turn.role == "tool":
            message["tool_call_id"] = turn.call_id
        if turn.calls:
            message["content"] = turn.text or None
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": call.arguments
                        if isinstance(call.arguments, str)
                        else json.dumps(call.arguments, ensure_ascii=False),
                    },
                }
                for call in turn.calls
            ]
        messages.append(message)
    return messages
