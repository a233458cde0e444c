"""The line that a long ingest shows: how far it is, how fast, and how long it still takes."""

import os
from collections.abc import Callable
from time import monotonic

from plait.cli import Output
from plait.cli.shared import bar
from plait.types.reports import FileReport

COLUMNS = 80  # of a terminal that does not tell
# Before that, the pace is that of the first batch and says nothing about the rest.
SETTLED_S = 2.0
KILOBYTE, MEGABYTE = 1_000, 1_000_000
MANY_MEGABYTES = 10 * MEGABYTE  # with fewer, the count would hardly move
MINUTE = 60  # seconds, and minutes of an hour


class Pace:
    """Counts the passages of a run and shows its pace; one for each folder."""

    def __init__(
        self, out: Output, clock: Callable[[], float] = monotonic, columns: int | None = None
    ) -> None:
        self._out = out
        self._clock = clock
        self._columns = _columns() if columns is None else columns
        self._start = clock()
        self._passages = 0

    def count(self, report: FileReport) -> None:
        """Add the passages that were written for a file."""
        if report.outcome in ("added", "changed"):
            self._passages += report.chunks

    def show(self, done: int, total: int, name: str, unit: str = "") -> None:
        """Show the line; the arguments are those of ``progress`` of `Memory.ingest`."""
        line = pace_line(done, total, self._passages, self._clock() - self._start, unit)
        # A line that wraps could not be replaced by the next one.
        room = max(0, self._columns - 1 - len(line) - 2)
        self._out.step(f"{line}  {name[len(name) - room :] if len(name) > room else name}")

    def show_bytes(self, done: int, total: int, name: str) -> None:
        """Show how much of some files was read, in megabytes if it is many."""
        size, unit = (MEGABYTE, "MB") if total >= MANY_MEGABYTES else (KILOBYTE, "KB")
        self.show(-(-done // size), -(-total // size), name, unit)


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or COLUMNS
    except OSError:  # not a terminal
        return COLUMNS


def pace_line(done: int, total: int, passages: int, seconds: float, unit: str = "") -> str:
    """Return the files, or units, done, the passages per second and the time left.

    >>> pace_line(500, 2000, 4000, 20.0)
    '[#####---------------] 500/2,000  200 passages/s  1 min left'
    >>> pace_line(3, 2000, 9, 0.4)
    '[--------------------] 3/2,000'
    >>> pace_line(70, 140, 0, 0.4, "KB")
    '[##########----------] 70/140 KB'
    """
    parts = [f"{bar(done, total)} {unit}".rstrip()]
    if seconds >= SETTLED_S and done:
        if passages:
            parts.append(f"{round(passages / seconds):,} passages/s")
        if left := max(0, total - done):
            parts.append(f"{duration(seconds / done * left)} left")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """Return a time to wait, about as exactly as it can be known.

    >>> duration(0.2), duration(59.6), duration(100), duration(3600 * 2.26)
    ('1 s', '1 min', '2 min', '2 h 16 min')
    """
    whole = max(1, round(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    minutes = round(seconds / MINUTE)
    if minutes < MINUTE:
        return f"{minutes} min"
    return f"{minutes // MINUTE:,} h {minutes % MINUTE} min"
