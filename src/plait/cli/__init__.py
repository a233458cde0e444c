"""The command line: parse → `Memory` → present → exit code. Loads only what the verb needs.

Exit codes: 0 ok, 1 failed, 2 usage, 3 nothing found, 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence

from plait import __version__
from plait.cli.output import Output
from plait.cli.verbs import VERBS, arguments_for, overview, unknown_verb
from plait.errors import PlaitError, UsageError

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = _typed() if argv is None else list(argv)
    _speak_utf8()
    try:
        return _run(words)
    except SystemExit as done:  # argparse, after --help
        return done.code if isinstance(done.code, int) else 0
    except BrokenPipeError:
        # The reader (`head`, a pager) has had enough; that is no failure of ours.
        _abandon_stdout()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except PlaitError as error:
        sys.stderr.write(f"plait: {error}\n")
        return error.exit_code
    except OSError as error:
        _abandon_stdout()
        # Without a name it was our own output: a full disk behind `plait … > file`.
        act = f"read or write {error.filename}" if error.filename else "write the answer"
        sys.stderr.write(f"plait: Cannot {act}: {error.strerror or error}.\n")
        return 1
    except Exception:  # noqa: BLE001 - the one broad handler of this door
        import traceback

        sys.stderr.write(traceback.format_exc())
        sys.stderr.write("plait: this is a bug. Please report it with the lines above.\n")
        return 1


def _typed() -> list[str]:
    """The command line as UTF-8, whatever the locale says; other bytes stay as they came."""
    return [os.fsencode(word).decode("utf-8", "surrogateescape") for word in sys.argv[1:]]


def _run(words: list[str]) -> int:
    if words and words[0] in ("-V", "--version", "version"):
        return _say(f"plait {__version__}\n")
    if words and words[0] in ("-h", "--help", "help"):
        if len(words) == 1:
            return _say(overview())
        if words[1] not in VERBS:
            raise UsageError(unknown_verb(words[1]))
        words = [words[1], "--help"]
    verb, arguments = arguments_for(words)
    if arguments.version:
        return _say(f"plait {__version__}\n")
    if verb is None:
        from plait.cli.greeting import greet

        return greet(arguments)
    out = Output(arguments)
    try:
        return VERBS[verb].load()(arguments, out)
    finally:
        out.flush()


def _say(text: str) -> int:
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def _speak_utf8() -> None:
    """Whatever the locale says: recalled text is Unicode, and a pipe must not break on it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as in `plait … >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def _abandon_stdout() -> None:
    """What is still in the buffer goes nowhere; else Python complains about it at its exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stream without a file behind it has nothing to abandon
        return
