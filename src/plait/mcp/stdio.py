"""The stdio transport: the client starts the server, and the server ends with its client."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from threading import Thread
from types import FrameType

from mcp.server.stdio import stdio_server

from plait.mcp.draining import DrainingReader, NotingWriter, OpenRequests
from plait.mcp.lazy import LazyMemory
from plait.mcp.server import Handlers, create_server, silence_sdk_logs

# Seconds between two checks that the parent process is still there.
PARENT_CHECK_S = 1.0


def serve_stdio(memory: LazyMemory, profiles: Sequence[str]) -> None:
    """Serve until stdin ends and every request is answered, or the parent process is gone.

    stdout carries only the protocol: other output goes to stderr.
    """
    silence_sdk_logs()
    handlers = Handlers(memory, profiles)
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
    async with stdio_server() as (read, write):
        # The SDK guards the file descriptor. Python's own buffer would still be flushed into the
        # protocol at the end.
        with redirect_stdout(sys.stderr):
            await server.run(
                DrainingReader(read, requests),
                NotingWriter(write, requests),
                server.create_initialization_options(),
            )


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


def close_and_exit(handlers: Handlers, code: int) -> None:
    """End the process at once, but not in the middle of a write."""
    handlers.close()
    os._exit(code)
