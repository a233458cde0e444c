"""PostgreSQL gives the same answers as SQLite after any course of operations."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from plait.stores.sqlite import keyword, resembling
from plait.stores.sqlite.store import SQLiteStore
from plait.times import DAY_MS
from tests import servers
from tests.contracts.operations import Act
from tests.contracts.questions import Course
from tests.contracts.twins import BM25_SLACK, SLACK, Side, World, differences, outcome

# How often questions about all that there is are asked, and a few others.
WHOLE_EVERY, ASKED_EVERY, ASKED_OFTEN = 25, 6, 3
# Of all differences, so many are shown.
SHOWN = 12


def compare(world: World, sides: list[Side], number: int, name: str, act: Act) -> list[str]:
    """Do the same on both sides; return how the outcomes differ."""
    outcomes = []
    for side in sides:
        world.begin(number)
        outcomes.append(outcome(partial(act, side)))
    first, second = outcomes
    slack = BM25_SLACK if name.startswith("keyword") else SLACK
    return [f"{number} {name}: {row}" for row in differences(first, second, slack=slack)]


def run(
    world: World,
    sides: list[Side],
    seed: int,
    count: int,
    bulk: int = 0,
    every: int = ASKED_OFTEN,
) -> list[str]:
    """Do so many random operations, after storing much at once; return the differences."""
    course = Course(seed, sides[0])
    listed: list[str] = []
    if bulk:
        listed += compare(world, sides, 0, "bulk", course.bulk(bulk))
    for number in range(1, count + 1):
        world.now += course.random.choice([1, 1, 1, 0, 1_000, DAY_MS // 3, -500])
        asked = [course.operation()]
        if number % every == 0:
            asked += course.questions()
        for name, act in asked:
            listed += compare(world, sides, number * 1_000, name, act)
        if number % WHOLE_EVERY == 0:
            for name, act in course.whole():
                listed += compare(world, sides, number * 1_000, name, act)
        if len(listed) >= SHOWN:
            break
    return listed


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Side]]:
    from plait.stores.postgres.store import PostgresStore

    # SQLite may know how many passages have a common word from an earlier count; here it counts.
    monkeypatch.setattr(keyword, "is_stale", lambda connection: True)
    monkeypatch.setattr(resembling, "_frequent", lambda connection, words: {})
    # Not one of our ids: they are the same in every run here.
    address = servers.address(uuid4().hex)
    opened = [Side(SQLiteStore(str(tmp_path / "memory.db"))), Side(PostgresStore(address))]
    yield opened
    for side in opened:
        side.store.close()


def test_random_operations_leave_no_difference(world: World, sides: list[Side]) -> None:
    assert run(world, sides, seed=1, count=150, every=ASKED_EVERY) == []


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "bulk"), [(11, 0), (12, 0), (13, 1_300)])
def test_a_thousand_random_operations_leave_no_difference(
    world: World, sides: list[Side], seed: int, bulk: int
) -> None:
    assert run(world, sides, seed, 1_000, bulk) == []
