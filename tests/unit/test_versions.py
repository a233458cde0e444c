"""Versions of facts under clocks that jump: no fact is lost, hidden or revived."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import UsageError
from plait.stores.sqlite.store import SQLiteStore
from plait.text import parse
from plait.types import Document, Filter, Passage
from plait.types.reports import Finding
from plait.writing.changes import Change, Changed, put
from plait.writing.deleting import delete
from plait.writing.doctor import examine
from tests.builders import EVERYTHING, NOW, entry, write
from tests.reliability.memories import open_specially

YEAR = 365 * 24 * 3600 * 1000
TOPICS = ("a", "b")


class Clock:
    """A clock that tests set, the store's and nobody else's."""

    def __init__(self) -> None:
        self.now = NOW
        self.store = SQLiteStore(":memory:", clock=lambda: self.now)

    def say(self, text: str, **fields: Any) -> Changed:
        [done] = put(self.store, [Change(entry(None, text, kind="observation", **fields))])
        return done

    def current(self, **where: Any) -> set[str]:
        rows = self.store.scan(Filter(**where))
        return {document.text for document in self.store.load([row.id for row in rows])}

    def note_change(self, moment: int) -> None:
        """Write down that a fact changed at a moment, whether or not one did."""
        with self.store.transaction() as transaction:
            transaction.remember(changed_at=str(moment))

    def examine(self, *, fix: bool = False) -> list[Finding]:
        return examine(self.store, fix=fix, clock=lambda: self.now)


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
    written = put(clock.store, [Change(row) for row in batch])
    assert [len(done.superseded) for done in written] == [0, 1, 1, 1]
    assert clock.current() == {"3"}


def test_a_period_never_ends_before_it_begins(clock: Clock) -> None:
    clock.say("late", topic="t", valid_from=NOW + YEAR)
    clock.say("early", topic="t", valid_from=NOW - YEAR)
    for row in clock.store.scan(EVERYTHING):
        assert row.valid_to is None or row.valid_to >= (row.valid_from or row.valid_to)
    assert clock.current(as_of=NOW - YEAR) == clock.current() == {"early"}
    assert clock.current(as_of=NOW + 2 * YEAR) == {"late"}


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
        facts = clock.store.scan(Filter(as_of=moment))
        assert len({(fact.topic, fact.trust) for fact in facts}) == len(facts)
    for topic in TOPICS:
        trusted = [row for row in rows if (row.topic, row.trust) == (topic, "trusted")]
        if trusted:
            # Nobody less trusted, and nothing that began earlier, has put an end to the last one.
            [last] = [row for row in trusted if row.valid_to is None]
            assert begun(last) == max(map(begun, trusted))
    clock.store.close()


def begun(document: Document) -> float:
    return float("-inf") if document.valid_from is None else document.valid_from


@given(st.lists(st.tuples(st.integers(0, 4), moments), max_size=15))
def test_use_is_counted_whatever_the_clock_does(reads: list[tuple[int, int]]) -> None:
    clock = Clock()
    write(clock.store, *(entry(f"{n}", "text") for n in range(5)))
    refs = [clock.store.passages(row.id)[0].ref for row in clock.store.scan(Filter())]
    for place, now in reads:
        clock.now = now
        with clock.store.transaction() as transaction:
            transaction.touch([[refs[place]]])
    candidates = clock.store.hydrate(refs, ranking=True)
    for place, ref in enumerate(refs):
        mine = [now for read, now in reads if read == place]
        use = candidates[ref].use
        if mine:
            assert use is not None
            assert use.reads == len(mine)
            assert use.last_read == max(mine)
            assert 1 <= use.days <= len(set(mine))
        else:
            assert use is None
    clock.store.close()


HOUR = 3600 * 1000


def _moved(tmp_path: Path) -> list[str]:
    with open_specially(tmp_path / "a.db", clock=lambda: NOW + HOUR) as memory:
        memory.store("lives in Lima", topic="home")
        memory.store("lives in Rome", topic="home")
        return list(memory.export())


def test_an_export_into_a_memory_whose_clock_is_behind_keeps_the_later_fact(
    tmp_path: Path,
) -> None:
    with open_specially(tmp_path / "b.db", clock=lambda: NOW) as memory:
        memory.import_lines(_moved(tmp_path))
        assert [hit.text for hit in memory.search("lives")] == ["lives in Rome"]


def test_the_clock_of_an_export_counts_only_once_its_documents_are_in(tmp_path: Path) -> None:
    with open_specially(tmp_path / "b.db", clock=lambda: NOW) as memory:
        header, *rest = _moved(tmp_path)
        broken = json.dumps({"relation": {"source": "a", "target": "b", "type": "x"}})
        with pytest.raises(UsageError):
            memory.import_lines([header, *rest, broken])
        assert memory.engine.state().changed_at is None
        memory.import_lines([header, *rest])
        assert memory.engine.state().changed_at == json.loads(header)["latest_turn"]


def test_an_export_of_the_next_century_dates_nothing_here(tmp_path: Path) -> None:
    header = json.dumps({"format": "plait", "version": 1, "latest_turn": NOW + 100 * YEAR})
    with open_specially(tmp_path / "b.db", clock=lambda: NOW) as memory:
        memory.import_lines([header])
        memory.store("lives in Lima", topic="home")
        stored = memory.store("lives in Rome", topic="home")
        assert memory.lookup(stored.id)[0].valid_from == NOW


@pytest.mark.parametrize("moment", [10**30, -(10**30), True, "soon", 1.5])
def test_an_export_whose_clock_makes_no_sense_is_refused(tmp_path: Path, moment: object) -> None:
    header = json.dumps({"format": "plait", "version": 1, "latest_turn": moment})
    with open_specially(tmp_path / "b.db") as memory:
        memory.store("lives in Lima")
        with pytest.raises(UsageError, match=r"Line 1 .*latest_turn"):
            memory.import_lines([header, '{"text": "more"}'])
        assert [hit.text for hit in memory.search("lives")] == ["lives in Lima"]


@pytest.mark.parametrize("moment", [10**30, NOW + 100 * YEAR])
def test_a_moment_at_which_nothing_changed_is_found_and_mended(clock: Clock, moment: int) -> None:
    clock.say("old", topic="t")
    clock.say("new", topic="t")
    clock.note_change(moment)
    assert clock.current() == {"new"}
    [finding] = [row for row in clock.examine() if row.check == "clock"]
    assert (finding.level, str(moment) in finding.message) == ("warning", True)
    assert [row.fixed for row in clock.examine(fix=True) if row.check == "clock"] == [True]
    assert {row.level for row in clock.examine()} == {"ok"}
    assert clock.current() == {"new"}
    done = clock.say("newest", topic="t")
    assert (clock.store.load([done.id])[0].valid_from or 0) <= NOW + 10


def test_mending_hides_nothing_that_a_clock_ahead_has_dated(clock: Clock) -> None:
    clock.say("old", topic="t")
    clock.now += 10 * YEAR
    clock.say("new", topic="t")
    clock.now = NOW
    assert {row.level for row in clock.examine()} == {"ok"}
    clock.note_change(NOW + 100 * YEAR)
    clock.examine(fix=True)
    assert clock.current() == {"new"}
    assert {row.level for row in clock.examine()} == {"ok"}


def test_a_clock_without_any_change_is_simply_forgotten(clock: Clock) -> None:
    clock.note_change(NOW + 100 * YEAR)
    clock.examine(fix=True)
    assert clock.store.state().changed_at is None


def test_two_answers_to_one_topic_are_found_even_if_they_meet_only_later(clock: Clock) -> None:
    clock.say("old", topic="t", valid_to=NOW + YEAR)
    late = clock.say("late", topic="t", valid_from=NOW + YEAR)
    assert {row.level for row in clock.examine()} == {"ok"}
    sql = "UPDATE documents SET valid_from = ? WHERE id = ?"
    clock.store._connections.get().execute(sql, (NOW + YEAR - 1, late.id))
    [finding] = [row for row in clock.examine() if row.check == "facts"]
    assert (finding.level, "'t'" in finding.message) == ("warning", True)


def test_doctor_reads_no_text_but_that_of_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SQLiteStore(":memory:")
    write(store, entry("a file", "text", kind="file"), entry("a note", "text"))
    scan = store.scan
    read: list[str] = []

    def watched(where: Filter, **options: Any) -> list[Document]:
        rows = scan(where, **options)
        read.extend(row.kind for row in rows if row.text)
        return rows

    monkeypatch.setattr(store, "scan", watched)
    put(store, [Change(entry(None, "a fact", kind="observation"), entity="Ana")])
    assert {row.level for row in examine(store, fix=False)} == {"ok"}
    assert read == ["observation", "entity"]
    store.close()


def test_doctor_does_not_mind_a_fact_that_is_deleted_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = SQLiteStore(":memory:")
    long = entry(None, "a long ", "fact", kind="observation")
    [done] = put(store, [Change(long, entity="Ana")])
    passages = store.passages

    def deleting(id_: str, first: int = 0, last: int | None = None) -> list[Passage]:
        if id_ == done.id:
            delete(store, [id_])
        return passages(id_, first, last)

    monkeypatch.setattr(store, "passages", deleting)
    assert {row.level for row in examine(store, fix=False)} == {"ok"}
    store.close()


# profiles


def test_a_profile_that_says_what_ceased_to_hold_is_not_found(clock: Clock) -> None:
    def ask(query: str) -> list[tuple[str, str]]:
        hits = clock.store.keyword(parse(query), 10, Filter())
        rows = clock.store.hydrate([ref for ref, _ in hits])
        return sorted((row.document.kind, row.passage.text) for row in rows.values())

    first = entry(None, "port 80", kind="observation", topic="port", valid_to=NOW + 10)
    other = entry(None, "port 99", kind="observation", topic="port", valid_from=NOW + 10)
    calm = entry(None, "port 22", kind="observation")
    names = ("API", "API", "SSH")
    facts = zip((first, other, calm), names, strict=True)
    put(clock.store, [Change(row, entity=name) for row, name in facts])
    assert ("entity", "API (Generic)\n- port 80") in ask("port")
    clock.now = NOW + 10
    shown = ask("port")
    assert ("observation", "port 99") in shown
    assert ("entity", "SSH (Generic)\n- port 22") in shown
    assert not any("80" in text for _, text in shown)
    entities = clock.store.scan(Filter(kinds=("entity",)), by_writing=True)
    assert [row.key for row in entities] == ["API", "SSH"]
    put(clock.store, [Change(entry("unrelated", "text"))])
    assert ("entity", "API (Generic)\n- port 99") in ask("port")
