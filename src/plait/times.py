"""Convert times between UTC milliseconds and the way people write them."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, TypeAlias

from plait.errors import UsageError, advise
from plait.text.english import WEEKDAYS

if TYPE_CHECKING:
    from datetime import date, datetime

# What callers may write for a time; a `datetime` is a `date` too.
Moment: TypeAlias = "int | float | str | date"

# The years 1 and 9999, in UTC milliseconds: earlier and later moments have no date.
FIRST_MOMENT = -62_135_596_800_000
LAST_MOMENT = 253_402_300_799_999
DAY_MS = 24 * 3600 * 1000
# Numbers from 1973 to 5138 in seconds, and from 1973 on in milliseconds: no number is both.
FIRST_SECONDS = 100_000_000
FIRST_MILLISECONDS = 100_000_000_000

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "mo": 2_629_800, "y": 31_557_600}
_AGO = re.compile(
    r"(\d{1,6}|an?)\s*"
    r"(s|m|h|d|w|mo|y|sec|min|(?:second|minute|hour|day|week|month|year)s?)(?:\s+ago)?",
    re.I,
)
_FULL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:")


def parse_time(text: str, now: int | None = None) -> int | None:
    """Parse ``2026-03-01``, ``2026-03-01T09:30+02:00``, ``7d``, ``3 weeks ago``, ``last month``.

    Return UTC milliseconds, or ``None`` for a text that is not a time. A time without an offset is
    local time; a day, week, month or year means its first moment, and a week begins on Monday.
    ``now`` is the clock's time when omitted.

    >>> parse_time("1970-01-02T00:00Z")
    86400000
    >>> parse_time("2h", now=10_000_000)
    2800000
    """
    if _FULL.match(text):
        return _in_ms(text)  # as machines write it
    words = " ".join(text.lower().split())
    moment = time.time_ns() // 1_000_000 if now is None else now
    ago = _AGO.fullmatch(words)
    if ago:
        unit = ago[2] if ago[2] in _UNITS else ago[2][: 2 if ago[2].startswith("mo") else 1]
        count = int(ago[1]) if ago[1].isdecimal() else 1
        then = moment - count * _UNITS[unit] * 1000
        return then if then >= FIRST_MOMENT else None
    if words == "now":
        return moment
    try:
        begin = None if words[:1].isdigit() else _calendar_day(words, moment)
    except (ValueError, OverflowError, OSError):
        return None
    return _in_ms(text, begin)


def span_of(text: str, now: int | None = None) -> tuple[int, int] | None:
    """Return the first moment of a day, week, month or year, and that of the next one.

    ``None`` for a text that names none: ``2026-03-01``, ``yesterday``, ``friday``, ``last week``.
    """
    from datetime import datetime, timedelta

    words = " ".join(text.lower().split())
    moment = time.time_ns() // 1_000_000 if now is None else now
    try:
        begin = _calendar_day(words, moment)
        if begin is None:
            begin = datetime.fromisoformat(words if len(words) == len("2026-03-01") else "")
        end = {
            "week": begin + timedelta(days=7),
            "month": (begin + timedelta(days=31)).replace(day=1),
            "year": (begin + timedelta(days=366)).replace(month=1, day=1),
        }.get(words.rpartition(" ")[2], begin + timedelta(days=1))
        return round(begin.timestamp() * 1000), round(end.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _in_ms(text: str, begin: datetime | None = None) -> int | None:
    from datetime import datetime

    try:
        parsed = begin or datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        # A time with a zone needs no look at the local one, which takes longer than to read it.
        placed = parsed if parsed.tzinfo else parsed.astimezone()
        return round(placed.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def as_moment(value: Moment | None, field: str = "The time", *, zero: bool = False) -> int | None:
    """Return UTC milliseconds for a datetime, a date, a text, or a number since 1970.

    A datetime without a zone, and a date, are local time. Numbers are seconds or milliseconds,
    whichever makes sense; a number that would be neither is refused. 0 usually means that a
    program does not know a time; with ``zero`` it is the beginning of 1970, for limits.

    >>> as_moment(1_700_000_000), as_moment(1_700_000_000.5), as_moment(1_700_000_000_000)
    (1700000000000, 1700000000500, 1700000000000)

    Raises:
        UsageError: It is not a time; the error names the field.
    """
    if value is None:
        return None
    moment = _of_number(value, zero=zero) if isinstance(value, int | float) else None
    if isinstance(value, str):
        moment = parse_time(value)
    elif not isinstance(value, int | float):
        moment = _of_date(value)
    if moment is None or not FIRST_MOMENT <= moment <= LAST_MOMENT:
        raise UsageError(
            f"{field} is {str(value)[:60]!r}, which is not a time.",
            code="bad_time",
            subject=field,
            advice=advise("write_time"),
        )
    return moment


def as_end(value: Moment | None, field: str, now: int | None = None) -> int | None:
    """Return a moment as `as_moment` does, but of a day, week, month or year its end.

    What holds "as of Monday" is what Monday left behind. Of a day that is not over, it is ``now``:
    whoever asks for today must not be told what held this morning and does no more.

    Raises:
        UsageError: It is not a time; the error names the field.
    """
    span = _span_meant(value, now)
    if span is None:
        return as_moment(value, field, zero=True)
    begin, end = span
    moment = time.time_ns() // 1_000_000 if now is None else now
    return moment if begin <= moment < end else end - 1


def as_range(since: Moment | None, until: Moment | None) -> tuple[int | None, int | None]:
    """Return the limits of a time as moments; the same day as both is that day, whole.

    Between the beginning of a day and the beginning of that day there is nothing, and nobody asks
    for nothing. The same for a week, a month or a year.

    Raises:
        UsageError: One is not a time, or they are in the wrong order.
    """
    first, last = as_moment(since, "since", zero=True), as_moment(until, "until", zero=True)
    if first is not None and first == last and (span := _span_meant(until)) is not None:
        last = span[1]
    check_order("since", first, "until", last)
    return first, last


def _span_meant(value: Moment | None, now: int | None = None) -> tuple[int, int] | None:
    """Return the span that a value names; ``None`` if it is a moment."""
    is_moment = value is None or isinstance(value, int | float) or hasattr(value, "hour")
    return None if is_moment else span_of(str(value), now)


def _of_number(number: float, *, zero: bool) -> int | None:
    if isinstance(number, bool):
        return None
    if not (FIRST_SECONDS <= number <= LAST_MOMENT or (zero and number == 0)):
        return None
    return round(number if number >= FIRST_MILLISECONDS else number * 1000)


def _of_date(value: date) -> int | None:
    from datetime import datetime

    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)  # noqa: DTZ001 - local midnight
    try:
        return round(value.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _calendar_day(words: str, now: int) -> datetime | None:
    """Return the first moment of what the calendar calls ``yesterday`` or ``last week``."""
    from datetime import datetime, timedelta

    # Without an offset: two midnights of one zone may have different ones.
    local = datetime.fromtimestamp(now / 1000)  # noqa: DTZ006
    today = local.replace(hour=0, minute=0, second=0, microsecond=0)
    monday, first = today - timedelta(days=today.weekday()), today.replace(day=1)
    if words.removeprefix("last ") in WEEKDAYS:
        back = (today.weekday() - WEEKDAYS.index(words.removeprefix("last "))) % 7 or 7
        return today - timedelta(days=back)
    return {
        "today": today,
        "yesterday": today - timedelta(days=1),
        "tomorrow": today + timedelta(days=1),
        "this week": monday,
        "last week": monday - timedelta(days=7),
        "this month": first,
        "last month": (first - timedelta(days=1)).replace(day=1),
        "this year": first.replace(month=1),
        "last year": first.replace(month=1, year=max(1, today.year - 1)),
    }.get(words)


def check_order(first: str, start: int | None, last: str, end: int | None) -> None:
    """Check that a time does not end before it begins; ``first`` and ``last`` name its ends.

    Raises:
        UsageError: It does.
    """
    if start is not None and end is not None and end < start:
        raise UsageError(
            f"{last} is {show_time(end)}, which is before {first}, {show_time(start)}. "
            "Swap them, or leave one out.",
            code="bad_order",
            subject=last,
        )


def show_time(moment: int) -> str:
    """Format as local time with its offset, to the second: ``2026-03-01T09:30:00+01:00``."""
    seconds = moment // 1000
    try:
        local = time.localtime(seconds)
    except (OverflowError, OSError, ValueError):
        return f"{moment} ms"
    offset = local.tm_gmtoff // 60
    sign = "-" if offset < 0 else "+"
    hours, minutes = divmod(abs(offset), 60)
    return time.strftime("%Y-%m-%dT%H:%M:%S", local) + f"{sign}{hours:02d}:{minutes:02d}"


def show_day(moment: int | None) -> str:
    """Format as the local day: ``2026-03-01``; empty for ``None``."""
    return "" if moment is None else show_time(moment)[:10]


def show_end(valid_to: int | None, successor: str | None) -> str:
    """Say when a fact ended and which id replaced it; empty if it has no end.

    >>> show_end(1_772_366_400_000, "3f9c2a7b")
    'until 2026-03-01; replaced by 3f9c2a7b'
    """
    if valid_to is None:
        return ""
    return f"until {show_day(valid_to)}" + (f"; replaced by {successor}" if successor else "")
