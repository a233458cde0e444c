"""Moments: as people write them, to UTC milliseconds and back."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.times import parse_time, show_day, show_time

DAY = 86_400_000
NOON = 1_772_366_400_000  # 2026-03-01T12:00:00Z


@pytest.fixture(params=["UTC", "Europe/Vienna", "Asia/Kolkata", "America/St_Johns"], autouse=True)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00Z", 0),
        ("1970-01-02T00:00:00.500Z", DAY + 500),
        ("2026-03-01T12:00:00+00:00", NOON),
        ("2026-03-01T13:00+01:00", NOON),
        ("2026-03-01 12:00Z", NOON),
        ("  2026-03-01T12:00Z ", NOON),
        ("now", NOON),
        ("0s", NOON),
        ("90s", NOON - 90_000),
        ("5 min ago", NOON - 300_000),
        ("5m", NOON - 300_000),
        ("2H", NOON - 7_200_000),
        ("7d", NOON - 7 * DAY),
        ("2w", NOON - 14 * DAY),
        ("1y", NOON - 365.25 * DAY),
        ("1 Y AGO", NOON - 365.25 * DAY),
    ],
)
def test_moments_that_name_their_offset_or_age_are_the_same_everywhere(
    text: str, moment: int
) -> None:
    assert parse_time(text, now=NOON) == moment


@pytest.mark.parametrize(
    "text", ["", "soon", "7", "d7", "7 days", "2026-13-01", "2026-02-30", "-7d", "1234567d", "٣d x"]
)
def test_what_is_no_moment_is_none(text: str) -> None:
    assert parse_time(text, now=NOON) is None


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_moment_beyond_the_calendar_is_none_or_a_number(text: str) -> None:
    assert parse_time(text) is None or isinstance(parse_time(text), int)


def test_a_day_without_offset_is_the_local_one() -> None:
    moment = parse_time("2026-03-01")
    assert moment is not None
    assert time.strftime("%Y-%m-%d %H:%M", time.localtime(moment / 1000)) == "2026-03-01 00:00"


def test_today_and_yesterday_start_at_local_midnight() -> None:
    today, yesterday = parse_time("today", now=NOON), parse_time("Yesterday", now=NOON)
    assert today is not None
    assert yesterday is not None
    assert today <= NOON < today + DAY
    assert today - yesterday == DAY
    assert time.localtime(today / 1000)[3:6] == (0, 0, 0)


def test_the_clock_is_used_only_when_no_moment_is_given() -> None:
    before = time.time_ns() // 1_000_000
    now = parse_time("now")
    assert now is not None
    assert before <= now <= time.time_ns() // 1_000_000


@given(st.integers(0, 4_000_000_000_000))
def test_a_shown_moment_reads_back_to_its_second(moment: int) -> None:
    assert parse_time(show_time(moment)) == moment // 1000 * 1000


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2026-03-01T12:00:00+00:00"),
        ("Europe/Vienna", "2026-03-01T13:00:00+01:00"),
        ("Asia/Kolkata", "2026-03-01T17:30:00+05:30"),
        ("America/St_Johns", "2026-03-01T08:30:00-03:30"),
    ],
    indirect=["zone"],
)
def test_a_moment_is_shown_local_with_its_offset(zone: str, shown: str) -> None:
    assert show_time(NOON) == shown
    assert show_day(NOON) == shown[:10]


def test_a_moment_past_all_calendars_is_shown_as_a_number() -> None:
    assert show_time(10**21) == f"{10**21} ms"
