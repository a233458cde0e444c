"""Convert times between UTC milliseconds and the way people write them."""

import re
import time

# The end of the year 9999, in UTC milliseconds: later moments have no date.
LAST_MOMENT = 253_402_300_799_999
DAY_MS = 24 * 3600 * 1000

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_557_600}
_AGO = re.compile(r"(\d{1,6})\s*(s|min|m|h|d|w|y)(?:\s+ago)?", re.I)


def parse_time(text: str, now: int | None = None) -> int | None:
    """Parse ``2026-03-01``, ``2026-03-01T09:30+02:00``, ``7d``, ``today``, ``now``.

    Return UTC milliseconds, or ``None`` for a text that is not a time. A time without an offset is
    local time. ``now`` is the clock's time when omitted.

    >>> parse_time("1970-01-02T00:00Z")
    86400000
    >>> parse_time("2h", now=10_000_000)
    2800000
    """
    words = text.strip().lower()
    moment = time.time_ns() // 1_000_000 if now is None else now
    ago = _AGO.fullmatch(words)
    if ago:
        return moment - int(ago[1]) * _UNITS[ago[2].lower()] * 1000
    if words == "now":
        return moment
    from datetime import datetime, timedelta

    if words in ("today", "yesterday"):
        day = datetime.fromtimestamp(moment / 1000).astimezone()
        day = day.replace(hour=0, minute=0, second=0, microsecond=0)
        if words == "yesterday":
            day -= timedelta(days=1)
        return round(day.timestamp() * 1000)
    try:
        parsed = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        return round(parsed.astimezone().timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


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
