"""Moments: as people write them, to UTC milliseconds and back."""

import time
from datetime import UTC, date, datetime, timedelta, timezone
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import UsageError
from plait.times import as_end, as_moment, as_range, parse_time, show_day, show_time, span_of
from plait.types import Document, Filter
from tests.codes import has_code

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
        ("3 days", NOON - 3 * DAY),
        ("3 Days  ago", NOON - 3 * DAY),
        ("a week ago", NOON - 7 * DAY),
        ("an hour ago", NOON - 3_600_000),
        ("2 months ago", NOON - 2 * 365.25 * DAY / 12),
        ("10 minutes", NOON - 600_000),
        ("10 sec", NOON - 10_000),
    ],
)
def test_moments_that_name_their_offset_or_age_are_the_same_everywhere(
    text: str, moment: int
) -> None:
    assert parse_time(text, now=NOON) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "7",
        "d7",
        "next week",
        "last",
        "last day",
        "7 fortnights",
        "2026-13-01",
        "2026-02-30",
        "-7d",
        "1234567d",
        "٣d x",
    ],
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


@pytest.mark.parametrize(
    ("words", "day"),
    [
        ("this week", "2026-02-23"),
        ("last week", "2026-02-16"),
        ("Last  Month", "2026-02-01"),
        ("this month", "2026-03-01"),
        ("tomorrow", "2026-03-02"),
        ("this year", "2026-01-01"),
        ("last year", "2025-01-01"),
        ("monday", "2026-02-23"),
        ("last saturday", "2026-02-28"),
        ("sunday", "2026-02-22"),  # the noon is on a Sunday itself
    ],
)
def test_words_of_the_calendar_mean_the_first_local_moment(words: str, day: str) -> None:
    assert parse_time(words, now=NOON) == parse_time(day)


@pytest.mark.parametrize(
    ("words", "first", "next_one"),
    [
        ("2026-03-29", "2026-03-29", "2026-03-30"),  # 23 hours in Vienna
        ("today", "2026-03-01", "2026-03-02"),
        ("Yesterday", "2026-02-28", "2026-03-01"),
        ("last week", "2026-02-16", "2026-02-23"),
        ("this week", "2026-02-23", "2026-03-02"),
        ("this month", "2026-03-01", "2026-04-01"),
        ("last month", "2026-02-01", "2026-03-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("friday", "2026-02-27", "2026-02-28"),
        ("1969-12-31", "1969-12-31", "1970-01-01"),
    ],
)
def test_a_span_ends_where_the_next_one_begins(words: str, first: str, next_one: str) -> None:
    assert span_of(words, NOON) == (parse_time(first), parse_time(next_one))


@pytest.mark.parametrize("text", ["", "now", "2h", "2026-03", "2026-02-30", "9999-12-31", "zebra"])
def test_what_is_no_span_is_none(text: str) -> None:
    assert span_of(text, NOON) is None


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


# -- what callers write ------------------------------------------------------------------------

AT_NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (None, None),
        (NOON, NOON),
        (NOON // 1000, NOON),
        (NOON / 1000 + 0.25, NOON + 250),
        (AT_NOON, NOON),
        (AT_NOON.astimezone(timezone(timedelta(hours=5))), NOON),
        ("2026-03-01T12:00Z", NOON),
        (100_000_000, 100_000_000_000),
        (99_999_999_999, 99_999_999_999_000),
        (100_000_000_000, 100_000_000_000),
    ],
)
def test_a_time_is_understood_however_it_is_written(value, moment):
    assert as_moment(value) == moment


@pytest.mark.parametrize("value", [0, 0.0])
def test_a_limit_may_be_the_beginning_of_1970(value):
    assert as_moment(value, "since", zero=True) == 0


def test_a_time_without_a_zone_is_local():
    assert as_moment(AT_NOON.astimezone().replace(tzinfo=None)) == NOON
    assert as_moment(date(2026, 3, 1)) == as_moment("2026-03-01")
    assert as_moment(datetime(2026, 3, 1)) == as_moment("2026-03-01")  # noqa: DTZ001


@pytest.mark.parametrize(
    ("value", "next_one"),
    [
        ("2026-02-27", "2026-02-28"),
        (date(2026, 2, 27), "2026-02-28"),
        ("yesterday", "2026-03-01"),
        ("last week", "2026-02-23"),
        ("last month", "2026-03-01"),
        ("tomorrow", "2026-03-03"),
        ("2030-01-01", "2030-01-02"),
    ],
)
def test_what_is_asked_as_of_a_day_is_asked_as_of_its_end(value, next_one):
    end = as_end(value, "as_of", NOON)
    assert end is not None
    assert end + 1 == parse_time(next_one)


@pytest.mark.parametrize("value", ["today", "2026-03-01", date(2026, 3, 1), "this week"])
def test_as_of_a_day_that_is_not_over_is_now(value):
    assert as_end(value, "as_of", NOON) == NOON


@pytest.mark.parametrize(
    "value",
    [None, AT_NOON, NOON, NOON // 1000, "2026-03-01T12:00Z", "2000-03-01T09:30", "9999-12-31"],
)
def test_as_of_a_moment_is_that_moment(value):
    assert as_end(value, "as_of", NOON) == as_moment(value)


@pytest.mark.parametrize(
    ("day", "first", "next_one"),
    [
        ("2026-02-27", "2026-02-27", "2026-02-28"),
        (date(2026, 2, 27), "2026-02-27", "2026-02-28"),
        ("2020-W10-1", "2020-03-02", "2020-03-02"),  # no span that has a name
        ("2026-02-27T00:00", "2026-02-27", "2026-02-27"),
    ],
)
def test_the_same_day_as_both_limits_is_that_day(day, first, next_one):
    assert as_range(day, day) == (parse_time(first), parse_time(next_one))
    assert as_range(None, day) == (None, parse_time(first))
    assert as_range("2026-02-27", "2026-02-28T00:00") == as_range("2026-02-27", "2026-02-27")


@pytest.mark.parametrize("words", ["today", "yesterday", "last week", "last year"])
def test_the_same_word_as_both_limits_is_that_time(words):
    assert as_range(words, words) == span_of(words)


@pytest.mark.parametrize("value", ["soon", True, 17])
def test_as_of_what_is_no_time_is_refused(value):
    with pytest.raises(UsageError, check=has_code("bad_time", "as_of")):
        as_end(value, "as_of")


@pytest.mark.parametrize(
    "value",
    [
        *(0, 0.0, 1, 5, 1_000, 20_260_301, 99_999_999, -1, -NOON, 2**60, 1e300),
        *(float("nan"), float("inf"), True, "soon", "", 2**40 * 1000),
    ],
)
def test_a_number_that_may_mean_1970_is_refused(value):
    with pytest.raises(UsageError, check=has_code("bad_time", "event_at")):
        as_moment(value, "event_at")


@pytest.mark.parametrize("day", ["1901-01-01", "1965-05-01", "1970-01-19", "1972-05-01"])
def test_a_recall_means_the_same_day_as_a_search_however_long_ago(memory, day):
    memory.store("Grandmother wrote this.", key="old", event_at="1900-06-01")
    memory.store("Grandmother reads this.", key="new", event_at="2026-03-01")
    for where, key in (({"until": day}, "old"), ({"since": day}, "new")):
        assert [hit.document.key for hit in memory.search("grandmother", where=where)] == [key]
        [item] = memory.recall("grandmother", where=where).items
        assert item.hit.document.key == key


def test_every_verb_that_takes_a_time_takes_all_of_them(memory):
    for number, value in enumerate((AT_NOON, NOON, NOON / 1000, "2026-03-01T12:00Z")):
        memory.store(f"Note {number}.", key=f"k{number}", event_at=value)
        memory.store(f"Fact {number}.", valid_from=value)
        memory.store_many([Document(key=f"d{number}", text="x", event_at=cast("int", value))])
        where = {"since": value, "until": AT_NOON + timedelta(hours=1), "kinds": "note"}
        keys = {row.key for row in memory.timeline(where=where)}
        assert keys == {f"{kind}{place}" for kind in "kd" for place in range(number + 1)}
    for act in (
        lambda: memory.store("x", event_at=17),
        lambda: memory.store("x", valid_from=17),
        lambda: memory.store_many([Document(text="x", event_at=17)]),
        lambda: memory.timeline(where={"since": 17}),
        lambda: memory.search("x", where=Filter(until=17)),
        lambda: memory.graph.unrelate([], end=17),
    ):
        with pytest.raises(UsageError, check=has_code("bad_time")):
            act()
