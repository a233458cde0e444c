"""A model API on this machine that thinks nothing: it records what it is sent and answers as told.

It speaks as much of Anthropic's Messages and of OpenAI's Responses, both streamed, as Claude Code
and Codex need.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any, NamedTuple

Body = dict[str, Any]


class ToolUse(NamedTuple):
    """A tool that the model wants to use; ``server`` is the MCP server that has it, if one has."""

    name: str
    arguments: dict[str, Any]
    server: str = ""


# Gets a request, returns what the model wants to use next; nothing ends the turn.
Step = Callable[[Body], Sequence[ToolUse]]


class FakeModel:
    """What was sent, and the steps that the model still takes."""

    def __init__(self) -> None:
        self.requests: list[Body] = []
        self.steps: list[Step] = []
        # What it does while the client has not yet started this server; nothing without one.
        self.meanwhile: ToolUse | None = None
        self.server = ""
        self.waits = 0
        self.url = ""
        self._numbers = count(1)

    def next_calls(self, body: Body) -> Sequence[ToolUse]:
        """Record a request, and take the next step; a request without tools is none of a turn."""
        self.requests.append(body)
        if not self.steps or not body.get("tools"):
            return ()
        if self.meanwhile and f'"mcp__{self.server}' not in json.dumps(body["tools"]):
            self.waits -= 1
            return [self.meanwhile] if self.waits >= 0 else ()
        return self.steps.pop(0)(body)

    def new_id(self) -> str:
        return f"id_{next(self._numbers)}"


@contextmanager
def fake_model() -> Iterator[FakeModel]:
    """A model that listens on a free port of this machine."""
    model = FakeModel()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the requests are kept."""

        def do_GET(self) -> None:
            self._send(json.dumps({"data": [], "models": []}), "application/json")

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            if path.endswith("/count_tokens"):
                self._send('{"input_tokens": 100}', "application/json")
            elif path.endswith("/messages"):
                self._send(events(as_messages(model, json.loads(sent))), "text/event-stream")
            elif path.endswith("/responses"):
                self._send(events(as_responses(model, json.loads(sent))), "text/event-stream")
            else:
                self._send("{}", "application/json")

        def _send(self, text: str, kind: str) -> None:
            data = text.encode("utf-8")
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()


def events(rows: Sequence[Body]) -> str:
    return "".join(f"event: {row['type']}\ndata: {json.dumps(row)}\n\n" for row in rows)


def as_messages(model: FakeModel, body: Body) -> list[Body]:
    """The answer in the form of Anthropic's Messages."""
    calls = model.next_calls(body)
    usage = {"input_tokens": 10, "output_tokens": 10}
    message: Body = {"id": model.new_id(), "type": "message", "role": "assistant", "content": []}
    message |= {"model": body.get("model"), "stop_reason": None, "usage": usage}
    rows: list[Body] = [{"type": "message_start", "message": message}]
    blocks: list[tuple[Body, Body]] = [
        (
            {"type": "tool_use", "id": model.new_id(), "name": messages_name(call), "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(call.arguments)},
        )
        for call in calls
    ] or [({"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."})]
    for index, (block, delta) in enumerate(blocks):
        rows += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ended = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    return [
        *rows,
        {"type": "message_delta", "delta": ended, "usage": usage},
        {"type": "message_stop"},
    ]


def messages_name(call: ToolUse) -> str:
    return f"mcp__{call.server}__{call.name}" if call.server else call.name


def as_responses(model: FakeModel, body: Body) -> list[Body]:
    """The answer in the form of OpenAI's Responses."""
    calls = model.next_calls(body)
    text = {"type": "output_text", "text": "Done.", "annotations": []}
    items: list[Body] = [
        {
            "type": "function_call",
            "call_id": model.new_id(),
            "name": call.name,
            "arguments": json.dumps(call.arguments),
            **({"namespace": f"mcp__{call.server}"} if call.server else {}),
        }
        for call in calls
    ] or [{"type": "message", "role": "assistant", "content": [text]}]
    items = [{"id": model.new_id(), "status": "completed", **item} for item in items]
    response: Body = {
        "id": model.new_id(),
        "object": "response",
        "status": "completed",
        "output": items,
    }
    response["usage"] = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
    rows: list[Body] = [{"type": "response.created", "response": {**response, "output": []}}]
    for index, item in enumerate(items):
        rows.append({"type": "response.output_item.added", "output_index": index, "item": item})
        rows.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return [*rows, {"type": "response.completed", "response": response}]
