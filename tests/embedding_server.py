"""An embedding server on this machine that speaks as Ollama and OpenAI do, and fails on demand.

    with EmbeddingServer() as server:
        embedder = Ollama(url=server.url)
        server.fault = "hang"
        …
        server.fault = None
        assert server.requests[0].body["input"] == [...]

Vectors depend on the text alone and are not of unit length. Whatever hangs or drips ends when the
fault is changed or the server is closed.
"""

import gzip
import json
import socket
import struct
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from plait.testing import HashingEmbedder

DIMS = 32
MODELS = ("nomic-embed-text:latest", "text-embedding-3-small")
LENGTH = 3.0  # of every vector, so that whoever forgets to normalise is seen
HUGE = 200 * 1024 * 1024  # bytes

# What a client must live with as if nothing had happened.
HARMLESS = ("batch-limit", "batch-limit-422", "text-limit", "wrong-order", "swapped")
# What goes away by itself when a client tries again.
PASSING = ("429-once", "500-twice", "reset-once")
# What lasts until the fault is cleared: no answer of these may become a vector.
LASTING = (
    *("refuse", "hang", "drip", "drip-head", "429", "500", "401", "403", "redirect", "missing"),
    *("truncated", "short-body", "html", "empty", "not-http", "no-vectors"),
    *("too-few", "too-many", "wrong-dims", "wrong-index"),
    *("nan", "inf", "zero", "1e39", "strings", "nulls", "huge-integer", "deep"),
    *("gzip", "huge", "huge-announced", "reset"),
)
# "poison", "crash": a request is refused for one of its texts, the one that holds "poison".
FAULTS = (*LASTING, *PASSING, *HARMLESS, "poison", "crash", "400")


class Request(NamedTuple):
    """One request as it arrived; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def texts(self) -> list[str]:
        """What was to be embedded."""
        found: list[str] = self.body["input"] if self.body else []
        return found


class EmbeddingServer:
    """Answers `/api/embed`, `/api/tags`, `/v1/embeddings` and `/v1/models` on a free port."""

    def __init__(self, dims: int = DIMS) -> None:
        self.dims = dims
        self.models: Sequence[str] = MODELS
        # What answers call the model.
        self.answers_as = "m"
        # The most texts per request under "batch-limit", and characters per text under
        # "text-limit".
        self.most_texts = 8
        self.most_chars = 500
        self.retry_after = "0"
        # What an error says; None: something fitting.
        self.message: str | None = None
        self.requests: list[Request] = []
        self._lock = Lock()
        self._fault: str | None = None
        self._since = 0
        self._changed = Event()
        self._elsewhere: EmbeddingServer | None = None
        self._held: socket.socket | None = None
        self._http: ThreadingHTTPServer | None = None
        self._listen(0)

    def __enter__(self) -> "EmbeddingServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """What Ollama's address would be."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        """The base URL for the OpenAI protocol."""
        return f"{self.url}/v1"

    @property
    def tls_url(self) -> str:
        """An https address behind which nobody speaks TLS."""
        return f"https://127.0.0.1:{self.port}/v1"

    @property
    def elsewhere(self) -> "EmbeddingServer":
        """Another host, to which "redirect" leads; it should never be asked."""
        if self._elsewhere is None:
            self._elsewhere = EmbeddingServer(self.dims)
        return self._elsewhere

    @property
    def fault(self) -> str | None:
        """What is wrong with the server; ``None``: nothing."""
        return self._fault

    @fault.setter
    def fault(self, name: str | None) -> None:
        assert name is None or name in FAULTS, name
        if name == "redirect":
            _ = self.elsewhere
        with self._lock:
            released, self._changed = self._changed, Event()
            self._fault, self._since = name, 0
        released.set()
        if name == "refuse":
            self._deafen()
        elif self._http is None:
            self._listen(self.port)

    def close(self) -> None:
        """Let everything go that still waits, and stop."""
        self._changed.set()
        self._deafen()
        if self._held is not None:
            self._held.close()
            self._held = None
        if self._elsewhere is not None:
            self._elsewhere.close()

    def vector(self, text: str) -> list[float]:
        """The vector for a text, as it is sent."""
        [found] = HashingEmbedder(self.dims).embed([text], "passage")
        values = [1.0] + [0.0] * (self.dims - 1) if found is None else list(found)
        if self.fault == "swapped":
            values.reverse()
        return [LENGTH * value for value in values]

    def took(self, request: Request) -> tuple[str | None, int]:
        """Note a request; the fault that it meets, and how many met that fault before."""
        with self._lock:
            self.requests.append(request)
            self._since += 1
            return self._fault, self._since - 1

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the fault changes or the server closes, or so many seconds."""
        return self._changed.wait(seconds)

    def _listen(self, port: int) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
        server = self

        class Handler(_Handler):
            def __init__(self, *arguments: Any) -> None:
                self.owner = server
                super().__init__(*arguments)

        self._http = _Quiet(("127.0.0.1", port), Handler)
        self.port: int = self._http.server_address[1]
        self._thread = Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def _deafen(self) -> None:
        """Stop listening, but keep the port, so that a connection to it is refused."""
        if self._http is None:
            return
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._http = None
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", self.port))


class _Quiet(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for all of them
    block_on_close = True

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are what this server is for."""


class _Handler(BaseHTTPRequestHandler):
    owner: EmbeddingServer
    timeout = 30  # seconds that a client may take to send or read

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault, before = self.owner.took(Request(self.command, self.path, headers, body))
        if fault in _DEEDS:
            _DEEDS[fault](self)
        elif fault in ("429", "429-once") and (fault == "429" or before == 0):
            self.complain(429, "Rate limit reached", {"Retry-After": self.owner.retry_after})
        elif fault == "500" or (fault == "500-twice" and before < 2):
            self.complain(500, "internal error")
        elif fault == "reset-once" and before == 0:
            self.reset()
        elif body is None:
            self._list()
        elif fault == "missing" or not self._has(str(body["model"])):
            self.complain(404, f'model "{body["model"]}" not found, try pulling it first')
        else:
            self._embed(body["input"], fault)

    def _has(self, model: str) -> bool:
        return {model, f"{model}:latest"} & set(self.owner.models) != set()

    def _list(self) -> None:
        names = self.owner.models
        if self.path == "/api/tags":
            self.reply({"models": [{"name": name, "model": name, "size": 1} for name in names]})
        elif self.path == "/v1/models":
            self.reply({"object": "list", "data": [{"id": n, "object": "model"} for n in names]})
        else:
            self.complain(404, "no such page")

    def _embed(self, texts: list[str], fault: str | None) -> None:
        owner = self.owner
        count = len(texts)
        if fault in ("batch-limit", "batch-limit-422") and count > owner.most_texts:
            status = 422 if fault.endswith("422") else 413
            self.complain(status, f"batch size {count} > maximum allowed batch size")
        elif fault == "crash" and any("poison" in text for text in texts):
            self.complain(500, "llama runner process no longer running")
        elif fault == "400" or (fault == "poison" and any("poison" in text for text in texts)):
            is_ollama = self.path.startswith("/api/")
            said = "failed to encode response: json: unsupported value: NaN"
            self.complain(500 if is_ollama else 400, said if is_ollama else "bad input")
        elif fault == "text-limit" and any(len(text) > owner.most_chars for text in texts):
            self.complain(500, "input (900 tokens) is too large to process")
        else:
            self._send_vectors(_SPOIL.get(fault or "", list)(list(map(owner.vector, texts))), fault)

    def _send_vectors(self, vectors: list[Any], fault: str | None) -> None:
        if self.path == "/api/embed":
            answer: Any = {
                "model": self.owner.answers_as,
                "embeddings": vectors,
                "total_duration": 1,
            }
            if fault == "wrong-index":  # there is none in this protocol
                answer = {"model": "m"}
        else:
            rows = [
                {"object": "embedding", "index": index, "embedding": vector}
                for index, vector in enumerate(vectors)
            ]
            if fault == "wrong-order":
                rows.reverse()
            elif fault == "wrong-index":
                rows[-1]["index"] = len(rows)
            answer = {"object": "list", "data": rows, "usage": {"total_tokens": 1}}
            answer["model"] = self.owner.answers_as
        if fault == "no-vectors":
            answer = {"object": "list"}
        self.reply(answer)

    # -- ways to answer ---------------------------------------------------------------------

    def reply(self, answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send(json.dumps(answer).encode(), status, {**JSON, **(headers or {})})

    def complain(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        message = self.owner.message or message
        is_ollama = self.path.startswith("/api/")
        self.reply(
            {"error": message if is_ollama else {"message": message, "type": "x"}}, status, headers
        )

    def send(
        self, body: bytes, status: int = 200, headers: dict[str, str] | None = None, more: int = 0
    ) -> None:
        """Send a whole answer; ``more`` bytes are announced that do not come."""
        self.send_response(status)
        for name, value in (headers or JSON).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) + more))
        self.end_headers()
        self.wfile.write(body)

    def hang(self) -> None:
        self.owner.wait()

    def drip(self) -> None:
        """The head at once, then a byte now and then, for ever."""
        self.send_response(200)
        self.end_headers()
        while not self.owner.wait(0.01):
            self.wfile.write(b" ")

    def drip_head(self) -> None:
        self.wfile.write(b"HTTP/1.0 200 OK\r\nX-Slow: ")
        while not self.owner.wait(0.01):
            self.wfile.write(b"x")

    def reset(self) -> None:
        """Break off in the middle of an answer, as a crash does."""
        self.wfile.write(b'HTTP/1.0 200 OK\r\nContent-Length: 500\r\n\r\n{"embeddings": [[')
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def speak_ssh(self) -> None:
        self.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")

    def redirect(self) -> None:
        self.send(b"{}", 307, {"Location": f"{self.owner.elsewhere.url}{self.path}"})

    def huge(self) -> None:
        """A body without an announced length that is made while it is sent."""
        self.send_response(200)
        self.end_headers()
        self._pour()

    def huge_announced(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(HUGE))
        self.end_headers()
        self._pour()

    def _pour(self) -> None:
        piece = b"[" + b"0," * 32_767 + b"0"
        for _ in range(HUGE // len(piece)):
            self.wfile.write(piece)


JSON = {"Content-Type": "application/json"}
VECTORS = b'{"embeddings": [[1.0, 2.0'
DEEP = b'{"embeddings": ' + b"[" * 200_000

_DEEDS: dict[str | None, Callable[[_Handler], None]] = {
    "hang": _Handler.hang,
    "drip": _Handler.drip,
    "drip-head": _Handler.drip_head,
    "reset": _Handler.reset,
    "redirect": _Handler.redirect,
    "huge": _Handler.huge,
    "huge-announced": _Handler.huge_announced,
    "401": lambda to: to.complain(401, "Incorrect API key provided"),
    "403": lambda to: to.complain(403, "Forbidden"),
    "truncated": lambda to: to.send(VECTORS),
    "short-body": lambda to: to.send(VECTORS, more=1_000),
    "html": lambda to: to.send(b"<html>Welcome to the hotel</html>", 200, {"Content-Type": "x"}),
    "empty": lambda to: to.send(b""),
    "not-http": _Handler.speak_ssh,
    "deep": lambda to: to.send(DEEP),
    "gzip": lambda to: to.send(
        gzip.compress(bytes(16 * 1024 * 1024)), 200, {**JSON, "Content-Encoding": "gzip"}
    ),
}


def _with(value: Any) -> Callable[[list[Any]], list[Any]]:
    """Put a value into the middle of the last vector."""

    def spoil(vectors: list[Any]) -> list[Any]:
        last = list(vectors[-1])
        last[len(last) // 2] = value
        return [*vectors[:-1], last]

    return spoil


_SPOIL: dict[str, Callable[[list[Any]], list[Any]]] = {
    "too-few": lambda vectors: vectors[:-1],
    "too-many": lambda vectors: [*vectors, vectors[0]],
    # Of a single text to an embedder that has no dimensions yet, this is no fault at all.
    "wrong-dims": lambda vectors: [*vectors[:-1], vectors[-1][1:]],
    "nan": _with(float("nan")),
    "inf": _with(float("inf")),
    "1e39": _with(1e39),
    "strings": _with("0.5"),
    "huge-integer": _with(10**400),
    "nulls": lambda vectors: [*vectors[:-1], None],
    "zero": lambda vectors: [*vectors[:-1], [0.0] * len(vectors[-1])],
}
