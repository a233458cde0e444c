"""Trace one act of plait: which of its files are visited, and how often the store is crossed."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from plait.protocols import Store, Transaction
from tests.interfaces.command import ROOT, environment

SOURCE = ROOT / "src" / "plait"

# Functions count, with lambdas; module and class bodies and comprehensions do not.
VISITED = """
import json, sys
FUNCTION = 0x1  # CO_OPTIMIZED
visited = set()
def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_flags & FUNCTION and not code.co_name.endswith("comp>"):
        if code.co_filename.startswith(SOURCE) and code.co_name != "<genexpr>":
            visited.add(code.co_filename[len(SOURCE) + 1:])
from plait.cli import main
sys.setprofile(note)
code = main(sys.argv[1:])
sys.setprofile(None)
sys.stderr.write("\\n" + json.dumps([code, sorted(visited)]))
"""


def files_visited(*words: str) -> list[str]:
    """Return the files of plait in which a command runs a function, in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", f"SOURCE = {str(SOURCE)!r}\n{VISITED}", *words],
        capture_output=True,
        encoding="utf-8",
        env=environment(),
        cwd=ROOT.anchor,  # this checkout may be a worktree of git, which costs a look more
        check=True,
    )
    code, visited = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return list(visited)


def methods(protocol: type) -> list[str]:
    """Return the public methods of a protocol."""
    return [
        name
        for name, value in vars(protocol).items()
        if callable(value) and not name.startswith("_")
    ]


class Crossed:
    """Passes everything on to a store or a transaction, and counts the calls of its protocol."""

    def __init__(self, inner: Any, protocol: type, counts: Counter[str]) -> None:
        self._inner = inner
        self._methods = set(methods(protocol))
        self._counts = counts

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name not in self._methods:
            return value
        if name == "transaction":
            return self._transaction

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._counts[name] += 1
            return value(*args, **kwargs)

        return counted

    @contextmanager
    def _transaction(self, **options: Any) -> Iterator[Any]:
        self._counts["transaction"] += 1
        with self._inner.transaction(**options) as inner:
            yield Crossed(inner, Transaction, self._counts)


def crossings_of(store: Store, counts: Counter[str]) -> Store:
    """Return a store that counts how often it is crossed, transactions included."""
    return Crossed(store, Store, counts)
