"""Over stdin and stdout, for a client that starts the server itself and ends it by leaving."""

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

from plait.mcp.pending import Pending, Reading, Writing
from plait.mcp.server import Door, create_server, quietly
from plait.mcp.shared import Shared

# Seconds between two looks at whether the parent still lives.
WATCH_S = 1.0
INTERRUPTED = 130


def serve(shared: Shared, profiles: Sequence[str]) -> None:
    """Serve until stdin ends and all that was asked is answered, or the parent is gone.

    stdout carries the protocol and nothing else: whatever is printed meanwhile goes to stderr.
    """
    quietly()
    door = Door(shared, profiles)
    watch_parent(door)

    def asked_to_end(number: int, frame: FrameType | None) -> None:
        # A thread waits in read(), so only leaving outright ends it; and from a thread, because
        # this one may be in the middle of handing something to the memory's.
        code = INTERRUPTED if number == signal.SIGINT else 0
        Thread(target=leave, args=(door, code), daemon=True).start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, asked_to_end)
    asyncio.run(_serve(door))
    door.close()


async def _serve(door: Door) -> None:
    server = create_server(door)
    pending = Pending(door.is_busy)
    async with stdio_server() as (read, write):
        # The SDK keeps the descriptor clean; this keeps Python's own buffer clean, which would
        # otherwise be emptied onto the wire at the end.
        with redirect_stdout(sys.stderr):
            await server.run(
                Reading(read, pending),
                Writing(write, pending),
                server.create_initialization_options(),
            )


def watch_parent(door: Door) -> None:
    """End this process when the one that started it is gone, though somebody else holds stdin."""
    if os.name != "posix":  # elsewhere a process keeps the number of a dead parent
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_S)
        leave(door, 0)

    Thread(target=watch, name="plait-parent", daemon=True).start()


def leave(door: Door, code: int) -> None:
    """End at once, but not in the middle of a write."""
    door.close()
    os._exit(code)
