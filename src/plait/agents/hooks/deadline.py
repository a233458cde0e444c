"""Do a piece of work within a deadline that holds whatever the work waits for.

The work runs in a child process, which is killed: a thread that waits for a slow disk inside of
SQLite or a page of a mapped file can be neither stopped nor left. Where there is no `fork`, the
process ends itself.
"""

import os
import time
from collections.abc import Callable

# Ends each message to the parent: JSON and ASCII have none.
_END = b"\0"
READ_BYTES = 65_536
# Seconds that the last words of a stopped hook may take where there is no child.
LAST_WORDS_S = 0.05

SendText = Callable[[str], None]
TakeTexts = Callable[[list[str]], None]


def within(
    seconds: float,
    work: Callable[[SendText], None],
    deliver: TakeTexts,
    late: TakeTexts,
    *,
    fork: bool = hasattr(os, "fork"),
) -> None:
    """Do some work; deliver the messages that it sent before its end, or before the deadline.

    Args:
        seconds: From now.
        work: Gets the function that sends a message. Its output goes nowhere.
        deliver: Gets the messages in the process of the caller.
        late: Gets the messages if the deadline came first, in a process that nobody waits for.
        fork: Whether to use a child process.
    """
    if not fork:
        _without_child(seconds, work, deliver, late)
        return
    deadline = time.monotonic() + seconds
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _run(lambda: work(lambda text: _send(writing, text)), seconds)
    os.close(writing)
    messages, ended = _received(reading, deadline)
    deliver(messages)
    if ended:
        os.waitpid(child, 0)  # closing the pipe was its last act
        return
    import signal

    os.kill(child, signal.SIGKILL)
    if os.fork() == 0:
        _run(lambda: late(messages), seconds)


def _run(work: Callable[[], None], seconds: float) -> None:
    """Do the work of a child, and end it without what the parent would do at its end."""
    try:
        import signal

        # If the agent kills the parent, nobody else would end it.
        signal.alarm(int(seconds) + 2)
        # The agent waits until nobody has its pipes open; standard input is still to be read.
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        work()
    finally:
        os._exit(0)


def _send(handle: int, text: str) -> None:
    data = text.encode("ascii", "backslashreplace") + _END
    while data:
        data = data[os.write(handle, data) :]


def _received(handle: int, deadline: float) -> tuple[list[str], bool]:
    """Return whole messages, and whether the sender ended before the deadline."""
    import select

    data, ended = b"", False
    while not ended:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([handle], [], [], left)[0]:
            break
        more = os.read(handle, READ_BYTES)
        data, ended = data + more, not more
    os.close(handle)
    return [part.decode("ascii") for part in data.split(_END)[:-1]], ended


def _without_child(
    seconds: float, work: Callable[[SendText], None], deliver: TakeTexts, late: TakeTexts
) -> None:
    import _thread

    messages: list[str] = []
    turn = _thread.allocate_lock()  # whoever gets it delivers

    def end() -> None:
        time.sleep(LAST_WORDS_S)
        os._exit(0)

    def watch() -> None:
        time.sleep(seconds)
        if turn.acquire(blocking=False):
            _thread.start_new_thread(end, ())
            deliver(messages)
            late(messages)
            os._exit(0)

    _thread.start_new_thread(watch, ())
    work(messages.append)
    if turn.acquire(blocking=False):
        deliver(messages)
