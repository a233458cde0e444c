"""The command line: parse → `Memory` → present → exit code. Loads only what the verb needs.

Exit codes: 0 ok, 1 failed, 2 usage, 3 nothing found, 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence

from plait import __version__
from plait.cli.output import Output
from plait.cli.verbs import VERBS, arguments_for, overview
from plait.errors import PlaitError

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _speak_utf8()
    try:
        return _run(words)
    except BrokenPipeError:
        # The reader (`head`, a pager) has had enough; that is no failure of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except PlaitError as error:
        sys.stderr.write(f"plait: {error}\n")
        return error.exit_code
    except Exception:  # noqa: BLE001 - the one broad handler of this door
        import traceback

        sys.stderr.write(traceback.format_exc())
        sys.stderr.write("plait: this is a bug. Please report it with the lines above.\n")
        return 1


def _run(words: list[str]) -> int:
    if words and words[0] in ("-V", "--version", "version"):
        sys.stdout.write(f"plait {__version__}\n")
        return 0
    if words and words[0] in ("-h", "--help", "help"):
        if len(words) > 1 and words[1] in VERBS:
            words = [words[1], "--help"]
        else:
            sys.stdout.write(overview())
            return 0
    verb, arguments = arguments_for(words)
    if verb is None:
        from plait.cli.greeting import greet

        return greet(arguments)
    out = Output(arguments)
    try:
        return VERBS[verb].load()(arguments, out)
    finally:
        out.flush()


def _speak_utf8() -> None:
    """Whatever the locale says: recalled text is Unicode, and a pipe must not break on it."""
    for stream in (sys.stdout, sys.stderr, sys.stdin):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
