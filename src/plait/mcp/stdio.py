"""The stdio transport: the client starts the server, and the server ends with its client."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import TextIOWrapper
from threading import Thread
from types import FrameType
from typing import TextIO

import anyio
from mcp.server.stdio import stdio_server

from plait.mcp.draining import DrainingReader, NotingWriter, OpenRequests
from plait.mcp.lazy import LazyMemory
from plait.mcp.server import Handlers, create_server, silence_sdk_logs
from plait.mcp.stopping import close_and_exit

# Seconds between two checks that the parent process is still there.
PARENT_CHECK_S = 1.0


def serve_stdio(memory: LazyMemory, profiles: Sequence[str], *, with_data: bool = False) -> None:
    """Serve until stdin ends and every request is answered, or the parent process is gone.

    stdout carries only the protocol: other output goes to stderr.
    """
    silence_sdk_logs()
    handlers = Handlers(memory, profiles, with_data=with_data)
    exit_with_parent(handlers)

    def on_signal(number: int, frame: FrameType | None) -> None:
        # A thread is blocked in read(), so only os._exit ends the process. It runs in another
        # thread, because this one may be handing a request to the worker.
        code = 128 + number if number == signal.SIGINT else 0
        Thread(target=close_and_exit, args=(handlers, code), daemon=True).start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    asyncio.run(_run(handlers))
    handlers.close()


async def _run(handlers: Handlers) -> None:
    server = create_server(handlers)
    requests = OpenRequests(handlers.is_busy)
    async with stdio_server(stdin=anyio.wrap_file(_claim_stdin())) as (read, write):
        # The SDK guards the file descriptor. Python's own buffer would still be flushed into the
        # protocol at the end.
        with redirect_stdout(sys.stderr):
            answers = NotingWriter(write, requests)
            await server.run(
                DrainingReader(read, requests, answers),
                answers,
                server.create_initialization_options(),
            )


def _claim_stdin() -> TextIO:
    """Return stdin as text that keeps bytes which are not UTF-8, and leave an empty one behind.

    The SDK's own reader replaces such bytes, and the memory would store what nobody wrote. Here
    they become lone surrogates, which no message may contain.
    """
    private = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # subtle: never closed, because a thread may still be blocked in reading it.
    raw = os.fdopen(private, "rb", closefd=False)
    return TextIOWrapper(raw, encoding="utf-8", errors="surrogateescape", newline="\n")


def exit_with_parent(handlers: Handlers) -> None:
    """End this process when its parent is gone, even if another process keeps stdin open."""
    if os.name != "posix":  # elsewhere getppid() still returns a dead parent's number
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_S)
        close_and_exit(handlers, 0)

    Thread(target=watch, name="plait-parent", daemon=True).start()
