"""The line of a long ingest says how far it is, how fast, and how long it still takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.cli.pace import Pace, duration, pace_line
from plait.types.reports import FileReport


class Screen:
    """Stands for the terminal, and keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, text: str) -> None:
        self.lines.append(text)


@pytest.mark.parametrize(
    ("done", "total", "passages", "seconds", "line"),
    [
        (0, 10, 0, 9.0, "[--------------------] 0/10"),
        (5, 10, 50, 1.9, "[##########----------] 5/10"),
        (5, 10, 50, 10.0, "[##########----------] 5/10  5 passages/s  10 s left"),
        (5, 10, 0, 10.0, "[##########----------] 5/10  10 s left"),
        (10, 10, 100, 10.0, "[####################] 10/10  10 passages/s"),
        (7, 0, 70, 7.0, "7  10 passages/s"),
        (1, 7201, 40_000, 2.0, "[--------------------] 1/7,201  20,000 passages/s  4 h 0 min left"),
    ],
)
def test_the_line_shows_pace_and_time_left(
    done: int, total: int, passages: int, seconds: float, line: str
) -> None:
    assert pace_line(done, total, passages, seconds) == line


@given(st.floats(0, 1e7), st.floats(0, 1e7))
def test_a_longer_wait_is_never_shown_as_a_shorter_one(first: float, second: float) -> None:
    units = {"s": 1, "min": 60, "h": 3600}

    def seconds(shown: str) -> int:
        words = shown.replace(",", "").split()
        return sum(
            int(number) * units[unit] for number, unit in zip(words[::2], words[1::2], strict=True)
        )

    short, long = sorted((first, second))
    assert seconds(duration(short)) <= seconds(duration(long))


def test_passages_are_counted_as_they_are_written() -> None:
    times = iter([100.0, 104.0, 110.0])
    screen = Screen()
    pace = Pace(screen, clock=lambda: next(times), columns=70)  # type: ignore[arg-type]
    pace.count(FileReport("a.md", "added", chunks=40))
    pace.show(1, 3, "a.md")
    pace.count(FileReport("b.md", "removed", chunks=40))  # was written by an earlier run
    pace.count(FileReport("c.md", "changed", chunks=10))
    pace.show(3, 3, "x" * 100)
    assert screen.lines[0] == "[######--------------] 1/3  10 passages/s  8 s left  a.md"
    assert screen.lines[1].startswith("[####################] 3/3  5 passages/s  xxx")
    assert len(screen.lines[1]) == 69  # one that wraps could not be replaced by the next


@pytest.mark.parametrize(
    ("done", "total", "line"),
    [
        (70_000, 139_100, "[##########----------] 70/140 KB  a"),
        (139_100, 139_100, "[####################] 140/140 KB  a"),
        (1, 9_999_999, "[--------------------] 1/10,000 KB  a"),
        (30_000_000, 120_000_000, "[#####---------------] 30/120 MB  a"),
    ],
)
def test_what_was_read_is_counted_in_a_unit_that_is_told(done: int, total: int, line: str) -> None:
    screen = Screen()
    Pace(screen, clock=lambda: 0.0, columns=70).show_bytes(done, total, "a")  # type: ignore[arg-type]
    assert screen.lines == [line]
