"""Measure the MCP server: its start, its memory, a warm call, its list of tools.

Not named mcp.py: run as a script, that name would hide the SDK's. Linux only: CPU time and memory
of the server are read from /proc, so that the client's share is not in them.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import corpus
from measure import machine, spread

from plait.memory import Memory
from plait.searching.recall import tokens_of
from plait.types import Document

STARTS = 9
CALLS = 200
WARM_UP = 10
PASSAGES = 10_000
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Server:
    """A server process; requests and answers are lines."""

    def __init__(self, database: Path) -> None:
        words = [sys.executable, "-m", "plait", "--db", str(database), "--project", "personal"]
        self._process = subprocess.Popen(
            [*words, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._next = 0

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer["id"] == self._next, answer
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        assert not result.get("isError"), result
        return result

    @property
    def cpu_ms(self) -> float:
        spent = (
            Path(f"/proc/{self._process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        )
        return (int(spent[11]) + int(spent[12])) * TICK_MS

    @property
    def rss_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text("utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def end(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=PASSAGES)
    passages = parser.parse_args().passages
    print("\n".join(machine()), "\n")
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "memory.db"
        texts = corpus.read_passages(passages)
        with Memory.open(database, project="") as memory:
            memory.store_many(
                Document(key=f"p{number}", text=passage.text)
                for number, passage in enumerate(texts)
            )
        starts(database)
        calls(database, corpus.queries(texts, CALLS))
    return 0


def starts(database: Path) -> None:
    """Measure the handshake, which does not open the memory."""
    costs, sizes = [], []
    for _ in range(STARTS):
        server = Server(database)
        server.ask("initialize", HELLO)
        costs.append(server.cpu_ms)
        sizes.append(server.rss_mb)
        tools = server.ask("tools/list", {})["tools"]
        server.end()
    listed = json.dumps(tools, ensure_ascii=False, separators=(",", ":"))
    print(f"initialize: {spread(costs)} ms CPU, {spread(sizes)} MB (median / p95 of {STARTS})")
    print(
        f"tools/list: {len(tools)} tools, {len(listed):,} characters, {tokens_of(listed):,} tokens"
    )


def calls(database: Path, asked: list[str]) -> None:
    """Measure warm calls. One call is shorter than a clock tick, so the mean of many is taken."""
    server = Server(database)
    server.ask("initialize", HELLO)
    for query in asked[:WARM_UP]:
        server.call("memory_search", query=query)
    ids = []
    began = server.cpu_ms
    for query in asked:
        text = server.call("memory_search", query=query)["content"][0]["text"]
        ids += re.findall(r"^[a-z2-7]{8}(?= )", text, re.M)[:1]
    print(f"memory_search: {(server.cpu_ms - began) / len(asked):.2f} ms CPU a call")
    began = server.cpu_ms
    for query in asked:
        server.call("memory_recall", query=query)
    print(f"memory_recall: {(server.cpu_ms - began) / len(asked):.2f} ms CPU a call")
    began = server.cpu_ms
    for id_ in ids:
        server.call("memory_get", ids=[id_])
    print(f"memory_get: {(server.cpu_ms - began) / len(ids):.2f} ms CPU a call")
    began = server.cpu_ms
    for number in range(CALLS):
        server.call("memory_store", text=f"Fact number {number} is new")
    print(f"memory_store: {(server.cpu_ms - began) / CALLS:.2f} ms CPU a call")
    print(f"after that: {server.rss_mb:.0f} MB at most")
    server.end()


if __name__ == "__main__":
    sys.exit(main())
