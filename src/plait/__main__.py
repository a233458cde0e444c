"""The ``plait`` command, also as ``python -m plait``: a process that answers once and ends."""

import _thread
import atexit
import gc
import os
import sys
from typing import NoReturn

# New objects between two looks for cycles among them. A search makes 25,000 and no cycles, and 35
# looks take it 4 ms; a server, which makes more, still frees them.
NEW_OBJECTS = 50_000


def command() -> NoReturn:
    """Run the command line of this process, and end with its exit code."""
    gc.set_threshold(NEW_OBJECTS)
    from plait.cli import main

    code = main()
    if _thread._count() == 0 and sys.getprofile() is None and sys.gettrace() is None:
        _end(code)
    sys.exit(code)


def _end(code: int) -> None:
    """End at once: taking every module and object apart first takes 7 ms, and nobody needs it."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # Python reports it when it ends as usual
        return
    atexit._run_exitfuncs()
    os._exit(code)


if __name__ == "__main__":
    command()
