"""A command on a pseudo-terminal: type into it, and wait for what it shows."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from types import TracebackType

from tests.interfaces.command import PLAIT, environment

PATIENCE_S = 30.0
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07|\r")


class Terminal:
    """``plait`` with stdin, stdout and stderr on one terminal of its own."""

    def __init__(self, *words: str, env: Mapping[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        self.raw = ""
        self._seen = 0
        self.child = subprocess.Popen(
            [*PLAIT, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(TERM="xterm", NO_COLOR="1", **(env or {})),
            start_new_session=True,
            # It becomes the controlling terminal, so that Ctrl-C is a signal.
            preexec_fn=_take_terminal,
        )
        os.close(theirs)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
        self.child.wait()
        os.close(self._ours)

    @property
    def text(self) -> str:
        """Everything shown so far, without the codes that move the cursor."""
        return ESCAPES.sub("", self.raw)

    def type(self, text: str) -> None:
        """Type on the keyboard; ``\\r`` is the Enter key."""
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> str:
        """Read until something new shows this text; return what was shown before it."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.text[self._seen :]:
            ready, _, _ = select.select([self._ours], [], [], max(0, deadline - time.monotonic()))
            try:
                more = os.read(self._ours, 65_536) if ready else b""
            except OSError:  # Linux says so when the other side is closed
                more = b""
            if not more:
                raise AssertionError(f"{text!r} is not in: {self.text[self._seen :]!r}")
            self.raw += more.decode("utf-8", "replace")
            self._answer(more)
        at = self.text.index(text, self._seen)
        before = self.text[self._seen : at]
        self._seen = at + len(text)
        return before

    def _answer(self, shown: bytes) -> None:
        # A terminal tells where its cursor is when it is asked.
        if b"\x1b[6n" in shown:
            os.write(self._ours, b"\x1b[1;1R")

    def end(self) -> int:
        """Read the rest and return the exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._ours], [], [], 1.0)
            try:
                more = os.read(self._ours, 65_536) if ready else b""
            except OSError:
                break
            self.raw += more.decode("utf-8", "replace")
            self._answer(more)
        return self.child.wait(PATIENCE_S)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # A suite that runs in the background has it ignored, and its children inherit that.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
