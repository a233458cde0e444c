"""Anthropic's Messages API, by its official client."""

from collections.abc import Iterator, Sequence
from typing import Any

import httpx2

from plait.chat.late_packages import late_packages
from plait.chat.models import CONNECT_S, EARLY_STOPS, NO_KEY, UNREADABLE, ChatServer, message_in
from plait.chat.turns import ChatTurn, ModelCall, Part, arguments_of

# Two thirds of the package's modules are types that nothing here uses, half of the time until the
# first word. A version whose modules have other names is imported as a whole.
try:
    with late_packages("anthropic"):
        from anthropic._client import Anthropic
        from anthropic._exceptions import AnthropicError, APIConnectionError, APIStatusError
        from anthropic._streaming import Stream
except ImportError:
    from anthropic import Anthropic, AnthropicError, APIConnectionError, APIStatusError, Stream

# The API requires a limit; every model of it accepts this one.
ANSWER_TOKENS = 4096


class AnthropicModel:
    """A model behind Anthropic's protocol."""

    def __init__(self, server: ChatServer, tools: list[dict[str, Any]]) -> None:
        self._server = server
        self._tools: Any = tools
        options = server.client_options(httpx2, lambda key: ("x-api-key", key))
        del options["base_url"]
        self._client = Anthropic(
            api_key=NO_KEY,
            max_retries=0,  # see `patient_answer`
            base_url=server.model.address.url,
            timeout=httpx2.Timeout(server.quiet_s, connect=CONNECT_S),
            open_telemetry=False,
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
            # An error in the middle of a stream has the status of its beginning, 200.
            status = error.status_code if error.status_code != 200 else 500
            raise server.refused(status, message_in(error.body)) from error
        except (AnthropicError, *UNREADABLE) as error:
            raise server.unreadable(error) from error

    def _parts(self, system: str, turns: Sequence[ChatTurn], *, tools: bool) -> Iterator[Part]:
        # Plain data: building the client's own types takes 30 ms before the first word.
        stream = self._client.post(
            "/v1/messages",
            cast_to=object,
            body={
                "model": self._server.model.name,
                "max_tokens": ANSWER_TOKENS,
                "system": system,
                "messages": messages_of(turns),
                "stream": True,
                **self._offered(turns, tools=tools),
            },
            stream=True,
            stream_cls=Stream[object],
        )
        calls: dict[int, tuple[str, str, list[str]]] = {}
        ended = False
        event: Any
        with stream:
            for event in stream:
                kind, number = event.get("type"), event.get("index")
                delta, block = event.get("delta") or {}, event.get("content_block") or {}
                if kind == "content_block_start" and block.get("type") == "tool_use":
                    calls[number] = (block["id"], block["name"], [])
                elif kind == "content_block_delta":
                    if delta.get("type") == "text_delta":
                        yield delta["text"]
                    elif delta.get("type") == "input_json_delta" and number in calls:
                        calls[number][2].append(delta["partial_json"])
                elif kind == "message_delta" and delta.get("stop_reason") in EARLY_STOPS:
                    yield EARLY_STOPS[delta["stop_reason"]]
                elif kind == "message_stop":
                    ended = True
        if not ended:
            raise self._server.broke_off
        for id_, name, pieces in calls.values():
            yield ModelCall(str(id_), str(name), arguments_of("".join(pieces)))

    def _offered(self, turns: Sequence[ChatTurn], *, tools: bool) -> Any:
        if not self._tools:
            return {}
        if tools:
            return {"tools": self._tools}
        # Where calls stand in the turns, the API wants their tools to be defined.
        if any(turn.calls for turn in turns):
            return {"tools": self._tools, "tool_choice": {"type": "none"}}
        return {}

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def messages_of(turns: Sequence[ChatTurn]) -> Any:
    """Return turns as Anthropic's messages; results of tools are blocks of one user message."""
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "tool":
            block: dict[str, Any] = {
                "type": "tool_result",
                "tool_use_id": turn.call_id,
                "content": turn.text,
                "is_error": turn.is_error,
            }
            if isinstance(messages[-1]["content"], list) and messages[-1]["role"] == "user":
                messages[-1]["content"].append(block)
            else:
                messages.append({"role": "user", "content": [block]})
        elif turn.calls:
            blocks: list[dict[str, Any]] = []
            if turn.text.strip():
                blocks.append({"type": "text", "text": turn.text})
            blocks += [
                {
                    "type": "tool_use",
                    "id": call.id,
                    "name": call.name,
                    "input": call.arguments if not isinstance(call.arguments, str) else {},
                }
                for call in turn.calls
            ]
            messages.append({"role": "assistant", "content": blocks})
        else:
            messages.append({"role": turn.role, "content": turn.text})
    return messages
