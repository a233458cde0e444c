"""A chat server on this machine that speaks as Anthropic, OpenAI and Ollama do, and can fail.

    with ChatServer([Reply("It is ", "Friday.")]) as server:
        … # --model, server.url(…)
        assert server.requests[0].body["messages"]

Replies are given in order, the last one again and again. What they send is what the providers'
servers send, event by event: https://docs.anthropic.com/en/api/messages-streaming,
https://platform.openai.com/docs/api-reference/chat-streaming and
https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion.
"""

import json
import socket
import struct
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

PROTOCOLS = ("ollama", "openai", "anthropic")
# The parts into which the arguments of a call are cut.
ARGUMENT_CHARS = 7


class Call(NamedTuple):
    """A tool that the model wants to use; ``arguments`` may be text that is no JSON."""

    name: str
    arguments: Any


class Reply:
    """What the server answers to one request.

    Args:
        parts: Pieces of text and calls of tools.
        fault: ``cut`` (the connection is reset after the parts), ``ends`` (the stream ends without
            its last event), ``hang``, ``error`` (an error event in the stream), ``garbage``,
            ``compressed``, ``length`` and ``window`` (the model's limits), ``filter`` (the
            provider's), ``redirect``, or a status such as ``401``.
        message: What an error says.
        raw: What to send instead, with the marks of the protocol around it.
        pause_s: Seconds before each event of the stream.
    """

    def __init__(
        self,
        *parts: str | Call,
        fault: str = "",
        message: str = "No.",
        raw: Any = None,
        pause_s: float = 0.0,
    ) -> None:
        self.parts = parts
        self.pause_s = pause_s
        self.raw = raw
        self.fault = fault
        self.message = message


class Asked(NamedTuple):
    """One request as it arrived; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: Any

    @property
    def system(self) -> str:
        """What the model was told first."""
        first = self.body["messages"][0]
        text: str = self.body["system"] if "system" in self.body else first["content"]
        return text

    @property
    def turns(self) -> list[dict[str, Any]]:
        """The messages without the system's."""
        return [row for row in self.body["messages"] if row["role"] != "system"]

    @property
    def tools(self) -> list[str]:
        """The names of the tools that were offered."""
        is_shut = self.body.get("tool_choice") == {"type": "none"}
        rows = [] if is_shut else self.body.get("tools") or []
        return [row.get("function", row)["name"] for row in rows]


class ChatServer:
    """Answers on a free port of this machine."""

    def __init__(self, replies: Sequence[Reply] = (Reply("Yes."),)) -> None:
        self.replies = list(replies)
        self.requests: list[Asked] = []
        self.released = Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                outer._answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        self._http = _Http(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self) -> "ChatServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop, and let go of whatever hangs."""
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def model(self, protocol: str, name: str = "m") -> str:
        """Return the ``--model`` of a protocol at this server; Ollama also needs its address."""
        return {
            "ollama": f"ollama:{name}",
            "openai": f"custom:{self.address}/v1#{name}",
            "anthropic": f"anthropic:{self.address}#{name}",
        }[protocol]

    def options(self, protocol: str) -> list[str]:
        """Return the options of a command that uses this server."""
        where = ["--ollama-url", self.address] if protocol == "ollama" else []
        return ["--model", self.model(protocol), *where]

    # -- answering ---------------------------------------------------------------------------

    def _answer(self, to: BaseHTTPRequestHandler) -> None:
        body = to.rfile.read(int(to.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in to.headers.items()}
        self.requests.append(Asked(to.path, headers, json.loads(body)))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply.fault == "redirect":
            self._plain(
                to, 307, {"location": f"http://localhost:{self._http.server_port}{to.path}"}
            )
            return
        if reply.fault.isdigit():
            self._plain(to, int(reply.fault), {}, self._error(to.path, reply.message))
            return
        to.send_response(200)
        kind = "application/x-ndjson" if to.path == "/api/chat" else "text/event-stream"
        to.send_header("content-type", kind)
        to.send_header("transfer-encoding", "chunked")
        if reply.fault == "compressed":
            to.send_header("content-encoding", "gzip")
        to.end_headers()
        try:
            for event in self._events(to.path, reply):
                if reply.pause_s:
                    self.released.wait(reply.pause_s)
                to.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                to.wfile.flush()
            if reply.fault == "hang":
                self.released.wait()
            if reply.fault == "cut":
                _reset(to.connection)
                return
            to.wfile.write(b"0\r\n\r\n")
        except OSError:  # the client has left
            to.close_connection = True

    def _plain(
        self, to: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes = b""
    ) -> None:
        to.send_response(status)
        rest = {"content-type": "application/json"}
        for name, value in {**headers, **rest, "content-length": str(len(body))}.items():
            to.send_header(name, value)
        to.end_headers()
        to.wfile.write(body)

    def _error(self, path: str, message: str) -> bytes:
        if path == "/api/chat":
            return json.dumps({"error": message}).encode()
        error = {"type": "some_error", "message": message}
        return json.dumps({"type": "error", "error": error}).encode()

    def _events(self, path: str, reply: Reply) -> Iterator[bytes]:
        if reply.raw is not None:
            text = reply.raw if isinstance(reply.raw, str) else json.dumps(reply.raw)
            kind = reply.raw.get("type") if isinstance(reply.raw, dict) else "message_delta"
            frame = "{1}\n" if path == "/api/chat" else "event: {0}\ndata: {1}\n\n"
            yield frame.format(kind, text).encode()
            return
        if path == "/api/chat":
            rows = _ollama_rows(reply)
            yield from (json.dumps(row).encode() + b"\n" for row in rows)
        elif path.endswith("/chat/completions"):
            for row in _openai_rows(reply):
                yield b"data: " + json.dumps(row).encode() + b"\n\n"
            if _is_whole(reply):
                yield b"data: [DONE]\n\n"
        else:
            for row in _anthropic_rows(reply):
                yield f"event: {row['type']}\ndata: {json.dumps(row)}\n\n".encode()
        if reply.fault == "garbage":
            yield (
                b"event: content_block_delta\ndata: {no json\n\n"
                if path != "/api/chat"
                else b"{no\n"
            )


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: clients leave in the middle."""


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.shutdown(socket.SHUT_RDWR)
    connection.close()


# By the fault, what Ollama, OpenAI and Anthropic call the end of an answer.
_REASONS = {
    "": ("stop", "", ""),
    "length": ("length", "length", "max_tokens"),
    "window": ("length", "length", "model_context_window_exceeded"),
    "filter": ("stop", "content_filter", "refusal"),
}


def _written(arguments: Any) -> list[str]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return [text[at : at + ARGUMENT_CHARS] for at in range(0, len(text), ARGUMENT_CHARS)]


def _is_whole(reply: Reply) -> bool:
    return reply.fault in _REASONS


def _ollama_rows(reply: Reply) -> Iterator[dict[str, Any]]:
    head = {"model": "m", "created_at": "2026-11-16T08:00:00.0Z"}
    for part in reply.parts:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        if isinstance(part, str):
            message["content"] = part
        else:
            message["tool_calls"] = [{"function": {"name": part.name, "arguments": part.arguments}}]
        yield {**head, "message": message, "done": False}
    if reply.fault == "error":
        yield {"error": reply.message}
    if _is_whole(reply):
        reason = _REASONS[reply.fault][0]
        last = {"role": "assistant", "content": ""}
        counts = {"total_duration": 9, "eval_count": 3, "prompt_eval_count": 5}
        yield {**head, "message": last, "done": True, "done_reason": reason, **counts}


def _openai_rows(reply: Reply) -> Iterator[dict[str, Any]]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def row(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**head, "choices": [choice]}

    yield row({"role": "assistant", "content": ""})
    number = -1
    for part in reply.parts:
        if isinstance(part, str):
            yield row({"content": part})
            continue
        number += 1
        function = {"name": part.name, "arguments": ""}
        named = {"index": number, "id": f"call_{number}", "type": "function", "function": function}
        yield row({"tool_calls": [named]})
        for text in _written(part.arguments):
            yield row({"tool_calls": [{"index": number, "function": {"arguments": text}}]})
    if reply.fault == "error":
        yield {"error": {"message": reply.message, "type": "server_error"}}
    if _is_whole(reply):
        reason = _REASONS[reply.fault][1] or ("tool_calls" if number >= 0 else "stop")
        yield row({}, reason)
        yield {**head, "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}}


def _anthropic_rows(reply: Reply) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": 5, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m"}
    ends = {"stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": {**message, **ends}}
    yield {"type": "ping"}
    uses_tools = False
    for index, part in enumerate(reply.parts):
        if isinstance(part, str):
            block: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": part}]
        else:
            uses_tools = True
            block = {"type": "tool_use", "id": f"toolu_{index}", "name": part.name, "input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": text}
                for text in ["", *_written(part.arguments)]
            ]
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        if _is_whole(reply) or part is not reply.parts[-1]:
            yield {"type": "content_block_stop", "index": index}
    if reply.fault == "error":
        error = {"type": "overloaded_error", "message": reply.message}
        yield {"type": "error", "error": error}
    if _is_whole(reply):
        reason = _REASONS[reply.fault][2] or ("tool_use" if uses_tools else "end_turn")
        last: dict[str, Any] = {"stop_reason": reason, "stop_sequence": None}
        yield {"type": "message_delta", "delta": last, "usage": {"output_tokens": 3}}
        yield {"type": "message_stop"}
