"""End a server soon after a signal, whatever request is running."""

import os
import time
from threading import Thread

from plait.mcp.server import Handlers

# Seconds from a signal to the end.
LONGEST_STOP_S = 0.7


def exit_soon(code: int) -> None:
    """End this process in a moment, unless it has ended by then.

    A short request is finished meanwhile, a long one is given up. What is given up was not
    acknowledged, and its transaction leaves nothing behind.
    """

    def give_up() -> None:
        time.sleep(LONGEST_STOP_S)
        os._exit(code)

    Thread(target=give_up, daemon=True).start()


def close_and_exit(handlers: Handlers, code: int) -> None:
    """End this process after the running request, but soon."""
    exit_soon(code)
    handlers.close()
    os._exit(code)
