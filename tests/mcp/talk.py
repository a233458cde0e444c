"""Conversations with a server: in this process by the SDK's client, or by raw lines."""

import asyncio
import json
import queue
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import coverage
from mcp import Client, MCPError, types

from plait.mcp.lazy import LazyMemory
from plait.mcp.server import Handlers, create_server
from plait.memory import Memory
from tests.interfaces.command import PATIENCE_S, PLAIT, ROOT, environment

# "auto" asks by server/discover, and ours answers: the modern era.
ERAS = ("legacy", "auto")
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def converse(
    memory: Memory | LazyMemory,
    act: Callable[[Client], Awaitable[Any]],
    *,
    profiles: Sequence[str] = ("core",),
    era: str = "legacy",
    with_data: bool = False,
) -> Any:
    """Run one conversation with a server in this process."""

    async def run() -> Any:
        async with Client(create_server(handlers), mode=era) as client:
            try:
                return await act(client)
            except MCPError as error:  # raised in here it would come out as a group of groups
                return error

    handlers = Handlers(memory, profiles, with_data=with_data)
    try:
        outcome = asyncio.run(run())
        if isinstance(outcome, MCPError):
            raise outcome
        return outcome
    finally:
        # The memory is the test's own to close.
        handlers.stop()


def call(
    memory: Memory | LazyMemory,
    tool: str,
    arguments: dict[str, Any] | None = None,
    *,
    profiles: Sequence[str] = ("core",),
    meta: Any = None,
) -> types.CallToolResult:
    """Call one tool of a server for programs, as ``plait mcp --json``: it answers in both forms."""

    async def act(client: Client) -> Any:
        return await client.call_tool(tool, arguments or {}, meta=meta)

    result: types.CallToolResult = converse(memory, act, profiles=profiles, with_data=True)
    return result


def told(
    memory: Memory | LazyMemory,
    tool: str,
    arguments: dict[str, Any] | None = None,
    *,
    profiles: Sequence[str] = ("core",),
) -> str:
    """Return all that a model gets from a tool: a text, and no data."""

    async def act(client: Client) -> Any:
        return await client.call_tool(tool, arguments or {})

    result: types.CallToolResult = converse(memory, act, profiles=profiles)
    assert result.structured_content is None
    return text_of(result)


def text_of(result: types.CallToolResult) -> str:
    """Return the text of a result."""
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def measured() -> dict[str, str]:
    """Return the environment of a child process; its coverage counts if coverage is on."""
    current = coverage.Coverage.current()
    if current is None:
        return environment()
    return environment(
        COVERAGE_PROCESS_START=str(ROOT / "pyproject.toml"),
        COVERAGE_FILE=str(Path(current.config.data_file).absolute()),
    )


class Talk:
    """A server in its own process; requests and answers are lines."""

    def __init__(
        self, *words: str, command: Sequence[str] = PLAIT, env: dict[str, str] | None = None
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        self.process = subprocess.Popen(
            [*command, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment() if env is None else env,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        self.heard: list[bytes] = []
        self._next = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, frame: bytes | dict[str, Any]) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        raw = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        self.process.stdin.write(raw + b"\n")
        self.process.stdin.flush()

    def answer(self, id_: object) -> dict[str, Any]:
        """Wait for the answer to a request; every line until then must be JSON-RPC."""
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            assert line, f"the server ended: {self.log()}"
            self.heard.append(line)
            message = json.loads(line)
            assert isinstance(message, dict) and message["jsonrpc"] == "2.0", line
            if message.get("id") == id_:
                return message

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer."""
        self._next += 1
        id_ = f"ask-{self._next}"
        self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        return self.answer(id_)

    def hello(self) -> dict[str, Any]:
        """Do the handshake and return its answer."""
        self.send(HELLO)
        answer = self.answer(0)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its result."""
        answer = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def text(self, name: str, **arguments: Any) -> str:
        """Call a tool and return the text of its result."""
        text: str = self.tool(name, **arguments)["content"][0]["text"]
        return text

    def leave(self) -> int:
        """Close stdin, as a client that leaves, and return the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_S)

    def rest(self) -> list[bytes]:
        """Return the lines on stdout from the last answer to the end."""
        lines = []
        while line := self._lines.get(timeout=PATIENCE_S):
            lines.append(line)
        return lines

    def log(self) -> str:
        """Return its stderr."""
        self._log.seek(0)
        return self._log.read().decode()

    def end(self) -> None:
        """Kill the server and close its pipes."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not (pipe is self.process.stdin and pipe.closed):
                try:
                    pipe.close()
                except OSError:
                    continue
        self._reader.join(PATIENCE_S)
        self._log.close()


@contextmanager
def talking(*words: str, **more: Any) -> Iterator[Talk]:
    """Run a server until the end of the block."""
    talk = Talk(*words, **more)
    try:
        yield talk
    finally:
        talk.end()
