"""Real child processes, started in milliseconds: forked from a server that has plait imported.

The server itself never opens a memory, so no lock or connection is ever inherited.
"""

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import pytest

from tests.reliability import raw_open

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs fork and POSIX signals")

_context = multiprocessing.get_context("forkserver") if os.name == "posix" else None
PATIENCE_S = 120.0  # far above what any child needs: a hang becomes a failure, not a stuck run

Message = tuple[Any, ...]


class Child:
    """A running child and its messages so far."""

    def __init__(self, act: Callable[..., None], *arguments: object) -> None:
        assert _context is not None
        _context.set_forkserver_preload(
            [
                "pytest",
                "plait.memory",
                "plait.writing.folder",
                "plait.stores.sqlite.transaction",
                "plait.stores.sqlite.doctor",
                act.__module__,
            ]
        )
        self._ours, theirs = _context.Pipe()
        self._process = _context.Process(target=_live, args=(theirs, act, arguments), daemon=True)
        self._process.start()
        theirs.close()
        self.messages: list[Message] = []
        self.ended = False

    def expect(self, word: str) -> Message:
        """Wait for the next message and check what it is."""
        message = self.hear()
        assert message[0] == word, message
        return message

    def hear(self) -> Message:
        """Wait for the next message."""
        if not self._ours.poll(PATIENCE_S):
            raise AssertionError(f"the child said nothing within {PATIENCE_S:g} s")
        message: Message = self._ours.recv()
        return message

    def tell(self, word: object) -> None:
        """Send the child something it waits for."""
        self._ours.send(word)

    def listen(self, seconds: float) -> None:
        """Collect what the child says for this long, or until it ends."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._ours.poll(left):
            try:
                self.messages.append(self._ours.recv())
            except (EOFError, OSError):
                return

    def listen_until(self, word: str, times: int) -> None:
        """Collect messages until the child has sent this word so often, or until it ends."""
        try:
            while sum(message[0] == word for message in self.messages) < times:
                if not self._ours.poll(PATIENCE_S):
                    raise AssertionError(f"the child did not say {word} in {PATIENCE_S:g} s")
                self.messages.append(self._ours.recv())
        except (EOFError, OSError):
            return

    def kill(self) -> None:
        """SIGKILL: no handler, no ``finally``, no flush. What it sent before still arrives."""
        self._process.kill()
        self.finish()

    def finish(self) -> list[Message]:
        """Return every message that the child sent until its end."""
        # subtle: a long message blocks its sender until it is read, so reading comes first.
        try:
            while self._ours.poll(PATIENCE_S):
                self.messages.append(self._ours.recv())
        except (EOFError, OSError):
            self._ours.close()
        self._process.join(PATIENCE_S)
        assert self._process.exitcode is not None, "the child hangs"
        self._process.close()
        self.ended = True
        return self.messages

    def errors(self) -> list[str]:
        """Tracebacks of what the child did not expect."""
        return [str(message[1]) for message in self.messages if message[0] == "error"]


def _live(pipe: Connection, act: Callable[..., None], arguments: tuple[object, ...]) -> None:
    raw_open.install()
    try:
        act(pipe, *arguments)
    except Exception:  # noqa: BLE001 - the one door of a child: the parent must see everything
        pipe.send(("error", traceback.format_exc()))
    finally:
        pipe.close()


@contextmanager
def children(*started: Child) -> Iterator[tuple[Child, ...]]:
    """Children that are gone at the end, whatever happens in between."""
    try:
        yield started
    finally:
        for child in started:
            if not child.ended:
                child.kill()
