"""Truth over time under clocks of every kind: nothing is lost, hidden or kept alive by them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.protocols import Written
from plait.stores.sqlite.store import SQLiteStore
from plait.types import Filter
from tests.builders import NOW, entry
from tests.reliability.memories import open_specially

YEAR = 365 * 24 * 3600 * 1000
EVERYTHING = Filter(all_versions=True, trusts=("trusted", "untrusted", "quarantined"))
TOPICS = ("a", "b")


class Clock:
    """A clock that tests set, the store's and nobody else's."""

    def __init__(self) -> None:
        self.now = NOW
        self.store = SQLiteStore(":memory:", clock=lambda: self.now)

    def say(self, text: str, **fields: Any) -> Written:
        [done] = self.store.put([entry(None, text, kind="observation", **fields)])
        return done

    def current(self, **where: Any) -> set[str]:
        found = self.store.scan(Filter(**where))
        return {document.text for document in self.store.load([row.id for row in found])}


@pytest.fixture
def clock() -> Iterator[Clock]:
    made = Clock()
    yield made
    made.store.close()


@pytest.mark.parametrize("step", [-10 * YEAR, -1, 0, 1, 10 * YEAR])
def test_a_clock_that_jumps_between_two_facts_leaves_the_later_one(clock: Clock, step: int) -> None:
    clock.say("old", topic="t")
    clock.now += step
    clock.say("new", topic="t")
    assert clock.current() == {"new"}


@pytest.mark.parametrize("step", [-10 * YEAR, -1, 1])
def test_a_clock_that_is_set_right_again_hides_nothing_and_revives_nothing(
    clock: Clock, step: int
) -> None:
    clock.say("old", topic="t")
    clock.now += 10 * YEAR  # wrong
    clock.say("new", topic="t")
    clock.now = NOW + step  # right again
    assert clock.current() == {"new"}
    clock.say("newest", topic="t")
    assert clock.current() == {"newest"}
    assert len(clock.store.scan(EVERYTHING)) == 3


def test_facts_of_one_moment_follow_each_other(clock: Clock) -> None:
    for number in range(5):
        clock.say(f"{number}", topic="t")
    assert clock.current() == {"4"}
    begun = sorted(row.valid_from or 0 for row in clock.store.scan(EVERYTHING))
    assert len(set(begun)) == 5
    for place, moment in enumerate(begun):
        assert clock.current(as_of=moment) == {f"{place}"}


def test_facts_of_one_batch_leave_the_last(clock: Clock) -> None:
    batch = [entry(None, f"{n}", kind="observation", topic="t") for n in range(4)]
    written = clock.store.put(batch)
    assert [len(done.superseded) for done in written] == [0, 1, 1, 1]
    assert clock.current() == {"3"}


def test_a_period_never_ends_before_it_begins(clock: Clock) -> None:
    clock.say("late", topic="t", valid_from=NOW + YEAR)
    clock.say("early", topic="t", valid_from=NOW - YEAR)
    for row in clock.store.scan(EVERYTHING):
        assert row.valid_to is None or row.valid_to >= (row.valid_from or row.valid_to)
    assert clock.current(as_of=NOW + 2 * YEAR) == {"early"}


moments = st.integers(-3, 3).map(lambda n: NOW + n * YEAR)
steps = st.tuples(
    st.sampled_from(TOPICS),
    st.sampled_from(("trusted", "untrusted")),
    st.none() | moments,
    moments,
)


@given(st.lists(steps, max_size=12))
def test_a_topic_has_one_fact_at_every_moment_whatever_the_clock_does(
    course: list[tuple[str, Any, int | None, int]],
) -> None:
    clock = Clock()
    for number, (topic, trust, valid_from, now) in enumerate(course):
        clock.now = now
        done = clock.say(f"{number}", topic=topic, trust=trust, valid_from=valid_from)
        assert not done.duplicate
    rows = clock.store.scan(EVERYTHING)
    assert len(rows) == len(course)
    for moment in [NOW + n * YEAR + d for n in range(-4, 5) for d in (-1, 0, 1)]:
        found = clock.store.scan(Filter(as_of=moment))
        assert len({(row.topic, row.trust) for row in found}) == len(found)
    for topic in TOPICS:
        said = [number for number, step in enumerate(course) if step[0] == topic]
        trusted = [number for number in said if course[number][1] == "trusted"]
        if trusted:
            # Nobody less trusted has put an end to the last thing that a trusted one said.
            [last] = [
                row
                for row in rows
                if row.id and row.topic == topic and row.trust == "trusted" and row.valid_to is None
            ]
            assert clock.store.load([last.id])[0].text == f"{trusted[-1]}"
    clock.store.close()


@given(st.lists(st.tuples(st.integers(0, 4), moments), max_size=15))
def test_use_is_counted_whatever_the_clock_does(reads: list[tuple[int, int]]) -> None:
    clock = Clock()
    clock.store.put([entry(f"{n}", "text") for n in range(5)])
    refs = [clock.store.neighbours(row.id, 0, 0)[0].ref for row in clock.store.scan(Filter())]
    for place, now in reads:
        clock.now = now
        clock.store.touch([[refs[place]]])
    uses = clock.store.uses(refs).of
    for place, ref in enumerate(refs):
        mine = [now for read, now in reads if read == place]
        if mine:
            assert uses[ref].reads == len(mine)
            assert uses[ref].last_read == max(mine)
            assert 1 <= uses[ref].days <= len(set(mine))
        else:
            assert ref not in uses
    clock.store.close()


def test_an_export_into_a_memory_whose_clock_is_behind_keeps_the_later_fact(
    tmp_path: Path,
) -> None:
    with open_specially(tmp_path / "a.db", clock=lambda: NOW + YEAR) as memory:
        memory.store("lives in Lima", topic="home")
        memory.store("lives in Rome", topic="home")
        lines = list(memory.export())
    with open_specially(tmp_path / "b.db", clock=lambda: NOW) as memory:
        memory.import_lines(lines)
        assert [hit.text for hit in memory.search("lives")] == ["lives in Rome"]
