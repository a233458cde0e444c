"""Facts over time and by whom: duplicates, topics, supersession, and what was recalled before."""

from collections.abc import Callable
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from plait.errors import NotFound, UsageError, advise
from plait.facts.echo import fence
from plait.memory import Memory
from plait.present.text import stored_remarks
from plait.types import Filter, Origin, Trust
from plait.writing import echoes
from tests.codes import has_code

CHANGE = "2026-03-01T12:00Z"
BEFORE = "2026-02-28T12:00Z"
LONG_BEFORE = "2020-01-01T12:00Z"
AFTER = "2026-03-02T12:00Z"


def texts(memory: Memory, query: str = "deploy", **where: Any) -> set[str]:
    """What a search shows of observations."""
    answer = memory.search(query, where={"kinds": "observation", **where})
    return {hit.text for hit in answer}


# saying the same twice


def test_the_same_text_again_answers_with_what_it_matched(memory: Memory) -> None:
    first = memory.store("We deploy on Fridays")
    again = memory.store("We  deploy on\nFridays")
    assert (again.duplicate, again.matched, again.id) == (True, first.id, first.id)
    assert (first.duplicate, first.matched) == (False, None)
    assert memory.stats().doc_count == 1


def test_the_same_text_about_another_entity_is_another_fact(memory: Memory) -> None:
    stored = [memory.store("It listens on port 80", entity=name) for name in ("api", "web", "api")]
    assert [row.duplicate for row in stored] == [False, False, True]
    assert stored[2].matched == stored[0].id
    assert memory.store("It listens on port 80").duplicate is False


def test_a_text_that_says_almost_the_same_is_stored_and_flagged(hashing_memory: Memory) -> None:
    first = hashing_memory.store("The API of the billing service listens on port 8080")
    other = hashing_memory.store("The API of the billing service listens on port 8443")
    assert not other.duplicate
    [near] = other.near
    assert near.id == first.id
    assert near.similarity > 0.8
    assert near.differences == ("numbers differ: 8443 and 8080",)
    assert hashing_memory.store("Ana likes tea").near == ()
    assert hashing_memory.stats().doc_count == 3


@pytest.mark.parametrize("secret_first", [True, False])
def test_what_differs_from_a_text_with_a_secret_is_not_told(
    hashing_memory: Memory, secret_first: bool
) -> None:
    # Longer than the part of a near duplicate that is shown.
    routine = "The router in the old harbour office is restarted by whoever is on duty, " * 2
    texts = [f"{routine} password: hunter2-otter-8443", f"{routine} and is kept in drawer 12"]
    for text in texts if secret_first else reversed(texts):
        stored = hashing_memory.store(text)
    [near] = stored.near
    assert near.differences == ()
    assert "8443" not in " ".join(stored_remarks(stored))


def test_near_duplicates_are_found_by_words_alone_too(memory: Memory) -> None:
    first = memory.store("The billing service listens on port 8080 in production")
    other = memory.store("In production the billing service listens on port 9090")
    assert [near.id for near in other.near] == [first.id]


def test_what_a_text_closes_is_not_also_near_to_it(memory: Memory) -> None:
    memory.store("The billing service listens on port 8080", topic="port")
    assert memory.store("The billing service listens on port 9090", topic="port").near == ()


# topics


def test_a_new_observation_of_a_topic_closes_the_old_one(memory: Memory) -> None:
    old = memory.store("We deploy on Fridays", topic="deploy day")
    new = memory.store("We deploy on Mondays", topic="deploy day")
    assert (old.superseded, new.superseded) == ((), (old.id,))
    assert texts(memory) == {"We deploy on Mondays"}
    assert texts(memory, all_versions=True) == {"We deploy on Fridays", "We deploy on Mondays"}
    closed, current = (memory.lookup(row.id)[0] for row in (old, new))
    assert closed.valid_to == current.valid_from
    assert (current.supersedes, current.valid_to) == (old.id, None)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"entity": "api"}, {"entity": "web"}),
        ({"entity": "api"}, {}),
        ({"topic": "one"}, {"topic": "two"}),
    ],
)
def test_topics_of_different_names_or_entities_leave_each_other_alone(
    memory: Memory, first: dict[str, Any], second: dict[str, Any]
) -> None:
    memory.store("We deploy on Fridays", **{"topic": "day", **first})
    assert memory.store("We deploy on Mondays", **{"topic": "day", **second}).superseded == ()
    assert len(texts(memory)) == 2


def test_topics_of_different_projects_leave_each_other_alone(tmp_path: Path) -> None:
    for project in ("one", "two"):
        with Memory.open(tmp_path / "m.db", embedder="none", project=project) as memory:
            assert memory.store(f"We deploy {project}", topic="day").superseded == ()


def test_a_fact_may_become_true_again(memory: Memory) -> None:
    days = ["Fridays", "Mondays", "Fridays"]
    stored = [memory.store(f"We deploy on {day}", topic="day") for day in days]
    assert [row.duplicate for row in stored] == [False, False, False]
    assert stored[2].superseded == (stored[1].id,)
    assert texts(memory) == {"We deploy on Fridays"}


def test_saying_a_known_fact_under_a_topic_leaves_one_of_it(memory: Memory) -> None:
    plain = memory.store("We deploy on Fridays")
    old = memory.store("We deploy on Mondays", topic="day")
    new = memory.store("We deploy on Fridays", topic="day")
    assert set(new.superseded) == {old.id, plain.id}
    assert texts(memory) == {"We deploy on Fridays"}
    assert memory.store("We deploy on Fridays", topic="day").matched == new.id
    assert memory.store("We deploy on Fridays").matched == new.id


def test_the_same_words_under_two_topics_are_two_facts(memory: Memory) -> None:
    memory.store("Every Friday", topic="deploy day")
    assert memory.store("Every Friday", topic="cleaning day").superseded == ()
    answer = memory.search("Friday", where={"topics": "deploy day"})
    assert [hit.document.topic for hit in answer] == ["deploy day"]


# supersedes


def test_superseding_closes_exactly_the_one_named(memory: Memory) -> None:
    old = memory.store("We deploy on Fridays", entity="Deploy")
    bystander = memory.store("We deploy by hand", entity="Deploy")
    new = memory.store("We deploy on Mondays", supersedes=old.id[:8])
    assert new.superseded == (old.id,)
    assert texts(memory) == {"We deploy on Mondays", "We deploy by hand"}
    assert memory.lookup(bystander.id)[0].valid_to is None


def test_a_note_can_be_superseded_by_an_observation(memory: Memory) -> None:
    memory.store("We deploy on Fridays", key="deploys")
    assert memory.store("We deploy on Mondays", supersedes="deploys").superseded
    assert texts(memory, kinds=("note", "observation")) == {"We deploy on Mondays"}


def test_what_was_superseded_says_by_which(memory: Memory) -> None:
    old = memory.store("We deploy on Fridays")
    new = memory.store("We deploy on Mondays", supersedes=old.id)
    with pytest.raises(UsageError, match=new.id, check=has_code("already_superseded", old.id)):
        memory.store("We deploy on Tuesdays", supersedes=old.id)
    assert memory.stats().doc_count == 2


def test_superseding_what_does_not_exist_is_refused(memory: Memory) -> None:
    memory.store("something")
    with pytest.raises(NotFound, check=has_code("unknown_name", "zzzzzzzz")):
        memory.store("We deploy on Tuesdays", supersedes="zzzzzzzz")


def test_superseding_something_of_another_project_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with Memory.open(path, embedder="none", project="one") as memory:
        old = memory.store("We deploy on Fridays")
    with (
        Memory.open(path, embedder="none", project="two") as memory,
        pytest.raises(UsageError) as caught,
    ):
        memory.store("We deploy on Mondays", supersedes=old.id)
    advice = advise("store_in_project", project="one")
    assert caught.value.notice[1:] == ("other_project", old.id, advice)


def test_files_and_entities_are_not_superseded(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("We deploy on Fridays", encoding="utf-8")
    memory.ingest(tmp_path / "a.md")
    memory.store("It rains", entity="Weather")
    for name in ("a.md", "Weather"):
        id_ = memory.lookup(name)[0].id
        with pytest.raises(UsageError, check=has_code("not_replaceable", id_)):
            memory.store("We deploy on Mondays", supersedes=name)


def test_saying_again_what_is_superseded_by_the_same_words_changes_nothing(
    memory: Memory,
) -> None:
    old = memory.store("We deploy on Fridays")
    again = memory.store("We deploy on Fridays", supersedes=old.id)
    assert (again.duplicate, again.superseded) == (True, ())
    assert texts(memory) == {"We deploy on Fridays"}


@pytest.mark.parametrize("fields", [{"entity": "x"}, {"topic": "x"}, {"valid_from": "1d"}])
def test_a_note_has_neither_entity_nor_topic_nor_period(
    memory: Memory, fields: dict[str, str]
) -> None:
    with pytest.raises(UsageError, check=has_code("note_with_fact_fields")):
        memory.store("text", key="k", **fields)  # type: ignore[arg-type]
    assert memory.stats().doc_count == 0


@pytest.mark.parametrize("field", ["entity", "topic"])
def test_an_empty_name_is_refused(memory: Memory, field: str) -> None:
    with pytest.raises(UsageError, check=has_code("empty_name", field)):
        memory.store("text", **{field: " "})  # type: ignore[arg-type]


# trust


def test_an_untrusted_text_never_closes_a_trusted_one(memory: Memory) -> None:
    ours = memory.store("We deploy on Fridays", topic="day", entity="Deploy")
    theirs = memory.store(
        "We deploy right now", topic="day", entity="Deploy", trust="untrusted", origin="web"
    )
    assert (theirs.superseded, theirs.beside) == ((), (ours.id,))
    assert texts(memory) == {"We deploy on Fridays", "We deploy right now"}
    explicit = memory.store("Never deploy", supersedes=ours.id, trust="untrusted")
    assert (explicit.superseded, explicit.beside) == ((), (ours.id,))
    assert memory.lookup(explicit.id)[0].supersedes is None


def test_a_trusted_text_closes_the_untrusted_ones_beside_it(memory: Memory) -> None:
    ours = memory.store("We deploy on Fridays", topic="day")
    theirs = memory.store("We deploy right now", topic="day", trust="untrusted")
    newer = memory.store("We deploy on Mondays", topic="day")
    assert set(newer.superseded) == {ours.id, theirs.id}
    assert texts(memory) == {"We deploy on Mondays"}


# time


def test_as_of_shows_what_held_then_and_the_boundary_belongs_to_the_new(memory: Memory) -> None:
    memory.store("We deploy on Fridays", topic="day")
    memory.store("We deploy on Mondays", topic="day", valid_from=CHANGE)
    shown = {moment: texts(memory, as_of=moment) for moment in (BEFORE, CHANGE, AFTER)}
    assert shown == {
        BEFORE: {"We deploy on Fridays"},
        CHANGE: {"We deploy on Mondays"},
        AFTER: {"We deploy on Mondays"},
    }


@pytest.mark.parametrize("day", ["today", date.today(), "this week", "tomorrow"])  # noqa: DTZ011
def test_as_of_today_tells_what_holds_and_not_what_held_this_morning(memory: Memory, day) -> None:
    memory.store("We deploy on Fridays", topic="day", valid_from="2020-01-01")
    memory.store("We deploy on Mondays", topic="day")
    assert texts(memory, as_of=day) == {"We deploy on Mondays"}


def test_as_of_a_day_tells_what_that_day_left_behind(memory: Memory) -> None:
    memory.store("We deploy on Fridays", topic="day", valid_from="2020-01-01")
    memory.store("We deploy on Mondays", topic="day", valid_from="2021-05-05T14:00")
    days = ("2021-05-04", "2021-05-05", "2021-05-05T13:00")
    assert [texts(memory, as_of=day) for day in days] == [
        {"We deploy on Fridays"},
        {"We deploy on Mondays"},
        {"We deploy on Fridays"},
    ]


def test_a_fact_that_begins_later_leaves_the_old_one_until_then(memory: Memory) -> None:
    memory.store("We deploy on Fridays", topic="day")
    memory.store("We deploy on Mondays", topic="day", valid_from="2200-01-01")
    assert texts(memory) == {"We deploy on Fridays"}
    assert texts(memory, as_of="2200-01-02") == {"We deploy on Mondays"}


def test_what_is_said_today_leaves_a_planned_change_alone(memory: Memory) -> None:
    now = memory.store("We deploy on Fridays", topic="day", entity="Deploy")
    memory.store("We deploy on Mondays", topic="day", entity="Deploy", valid_from="2200-01-01")
    again = memory.store("We deploy on Fridays", topic="day", entity="Deploy")
    assert (again.duplicate, again.matched) == (True, now.id)
    latest = memory.store("We deploy on Sundays", topic="day", entity="Deploy")
    assert latest.superseded == (now.id,)
    assert texts(memory) == {"We deploy on Sundays"}
    assert texts(memory, as_of="2200-01-02") == {"We deploy on Mondays"}
    early = memory.store("We deploy on Mondays", topic="day", entity="Deploy")
    assert (early.duplicate, early.superseded) == (False, (latest.id,))
    assert [row.level for row in memory.doctor() if row.check == "facts"] == ["ok"]


def test_a_fact_backdated_behind_another_holds_until_that_one_begins(memory: Memory) -> None:
    first = memory.store("We deploy by hand", topic="day")
    memory.store("We deploy on Fridays", topic="day", valid_from=CHANGE)
    stored = memory.store("We deploy on Mondays", topic="day", valid_from=BEFORE)
    assert stored.superseded == (first.id,)
    shown = {moment: texts(memory, as_of=moment) for moment in (LONG_BEFORE, BEFORE, AFTER)}
    assert shown == {
        LONG_BEFORE: {"We deploy by hand"},
        BEFORE: {"We deploy on Mondays"},
        AFTER: {"We deploy on Fridays"},
    }
    assert texts(memory) == {"We deploy on Fridays"}


def test_an_untrusted_plan_puts_no_end_to_a_trusted_fact(memory: Memory) -> None:
    memory.store("We deploy right away", topic="day", valid_from="2200-01-01", trust="untrusted")
    ours = memory.store("We deploy on Fridays", topic="day")
    assert memory.lookup(ours.id)[0].valid_to is None
    theirs = memory.store("We deploy at night", topic="day", trust="untrusted")
    assert memory.lookup(theirs.id)[0].valid_to is not None


def test_every_change_of_one_day_can_be_looked_at(memory: Memory) -> None:
    stored = [memory.store(f"We deploy on day {n}", topic="day") for n in range(5)]
    begun = [memory.lookup(row.id)[0].valid_from for row in stored[1:]]
    for place, moment in enumerate(begun, start=1):
        assert texts(memory, as_of=moment) == {f"We deploy on day {place}"}
    assert texts(memory, as_of=min(moment or 0 for moment in begun) - 1) == {"We deploy on day 0"}


# processes


def _write_topic(path: str, name: str, times: int) -> None:
    with Memory.open(path, embedder="none", project="") as memory:
        for number in range(times):
            memory.store(f"{name} says {number}", topic="day", entity="Deploy")


def test_writers_of_one_topic_in_several_processes_leave_one_current(tmp_path: Path) -> None:
    path = str(tmp_path / "m.db")
    with Memory.open(path, embedder="none", project="") as memory:
        memory.store("nobody says anything", topic="day", entity="Deploy")
        context = get_context("spawn")
        writers = [context.Process(target=_write_topic, args=(path, name, 15)) for name in "abc"]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert [writer.exitcode for writer in writers] == [0, 0, 0]
        versions = memory.engine.scan(Filter(kinds=("observation",), all_versions=True))
        current = [row for row in versions if row.valid_to is None]
        assert (len(versions), len(current)) == (46, 1)
        # One chain: each took the place of another, and no two of the same one.
        assert len({row.supersedes for row in versions}) == 46
        [entity] = memory.graph.read().entities
        assert entity.contents == (memory.lookup(current[0].id)[0].text,)
        profile = memory.lookup("Deploy")[0].text
        assert profile == f"Deploy (Generic)\n- {entity.contents[0]}"


# what was recalled before


def fenced(text: str) -> str:
    """A text as `recall` hands it out."""
    return fence(text, "abcdefgh")


AGENT_TEXTS: list[tuple[str, Callable[[str], str]]] = [
    ("word by word", lambda text: text),
    ("quoted in a list", lambda text: f"- {text}\n"),
    ("fenced", fenced),
    ("fenced with nothing new around", lambda text: f"\n{fenced(text)}\n---\n"),
]


@pytest.mark.parametrize("origin", ["agent", "tool"])
@pytest.mark.parametrize(
    "quoted", [made for _, made in AGENT_TEXTS], ids=[name for name, _ in AGENT_TEXTS]
)
def test_an_agent_cannot_store_what_it_was_shown(
    memory: Memory, origin: Origin, quoted: Callable[[str], str]
) -> None:
    text = "The staging cluster is rebuilt every Sunday night."
    first = memory.store(text, key="runbook")
    stored = memory.store(quoted(text), origin=origin)
    assert (stored.recalled, stored.duplicate, stored.matched) == (True, True, first.id)
    assert memory.stats().doc_count == 1


def test_a_person_may_store_whatever_was_recalled(memory: Memory) -> None:
    memory.store("The staging cluster is rebuilt every Sunday night.", key="runbook")
    again = memory.store("The staging cluster is rebuilt every Sunday night.")
    assert (again.recalled, again.duplicate) == (False, False)


def test_a_key_always_stores(memory: Memory) -> None:
    text = "The staging cluster is rebuilt every Sunday night."
    memory.store(text)
    assert memory.store(text, key="runbook", origin="agent").recalled is False


def test_what_an_agent_adds_to_a_recalled_text_is_kept_without_it(memory: Memory) -> None:
    text = "The staging cluster is rebuilt every Sunday night."
    memory.store(text)
    stored = memory.store(f"{fenced(text)}\nOn holidays nobody is on call.", origin="agent")
    assert not stored.recalled
    assert memory.lookup(stored.id)[0].text.strip() == "On holidays nobody is on call."


@pytest.mark.parametrize(
    "text",
    [
        "The staging cluster is rebuilt every Monday night.",
        "The staging cluster is rebuilt",
        "It is not true that the staging cluster is rebuilt every Sunday night.",
        "the staging cluster is rebuilt every sunday night.",
    ],
)
def test_an_agent_may_contradict_what_it_was_shown(memory: Memory, text: str) -> None:
    memory.store("The staging cluster is rebuilt every Sunday night.")
    assert memory.store(text, origin="agent").duplicate is False


def test_an_agent_may_say_a_known_text_of_an_entity_or_under_a_topic(memory: Memory) -> None:
    text = "The staging cluster is rebuilt every Sunday night."
    memory.store(text)
    assert memory.store(text, origin="agent", entity="Staging").duplicate is False
    assert memory.store(text, origin="agent", topic="rebuild").duplicate is False
    assert memory.store(text, origin="agent", entity="Staging").recalled is True


def test_a_loop_of_recalling_and_saving_adds_nothing(memory: Memory) -> None:
    for number in range(20):
        memory.store(f"Server number {number} is backed up on day {number} of the month.")
    before = memory.stats().doc_count
    for _ in range(5):
        for hit in memory.search("which server is backed up", limit=20):
            memory.store(hit.text, origin="agent")
        memory.store(
            "\n\n".join(hit.text for hit in memory.search("server backed up")), origin="tool"
        )
        memory.store(memory.recall("which server is backed up").text, origin="agent")
    assert memory.stats().doc_count == before


def test_an_agent_may_add_a_sentence_to_a_known_text(memory: Memory) -> None:
    text = "We deploy on Fridays after the release manager has signed off on the change list."
    memory.store(text)
    stored = memory.store(f"{text} Never in December.", origin="agent")
    assert (stored.duplicate, stored.recalled) == (False, False)
    assert len(texts(memory, "December")) == 1


def test_new_lines_among_known_ones_are_kept_however_many_are_known(memory: Memory) -> None:
    known = [
        f"Known long sentence number {n} about the deployment of service {n}" for n in range(40)
    ]
    memory.store("\n".join(known))
    assert memory.store("\n".join(known[::-1]), origin="agent").recalled
    assert not memory.store("\n".join([*known, "host7 is dead"]), origin="agent").recalled


def test_what_was_not_looked_for_counts_as_new(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(echoes, "MAX_LOOKUPS", 2)
    facts = [f"Service {n} listens on port {8000 + n}." for n in range(3)]
    for fact in facts:
        memory.store(fact)
    monkeypatch.setattr(echoes, "PASSAGES_PER_LOOKUP", 1)
    assert memory.store("\n".join(facts[:2]), origin="agent").recalled
    assert not memory.store("\n".join(facts), origin="agent").recalled


@pytest.mark.parametrize("theirs", ["quarantined", "untrusted"])
def test_nobody_keeps_a_persons_text_out_by_having_said_it_with_less_trust(
    memory: Memory, theirs: Trust
) -> None:
    text = "The staging host is called heron."
    planted = memory.store(text, trust=theirs, origin="web")
    ours = memory.store(text, pinned=True)
    assert (ours.duplicate, ours.recalled) == (False, False)
    assert memory.lookup(ours.id)[0].pinned
    again = memory.store(text, origin="agent", trust=theirs)
    assert (again.recalled, again.matched in (planted.id, ours.id)) == (True, True)
    assert memory.store(text, origin="agent").matched == ours.id, "a person has vouched for it"


@pytest.mark.parametrize("fields", [{"type": "preference"}, {"pinned": True}, {"importance": 1.0}])
def test_what_is_said_of_a_text_is_not_lost_in_a_note_that_holds_it(
    memory: Memory, fields: dict[str, Any]
) -> None:
    text = "Use tabs for indentation everywhere."
    memory.store(f"# Readme\n\n{text}", key="README")
    stored = memory.store(text, origin="agent", **fields)
    assert not stored.duplicate
    assert memory.store(text, origin="agent", **fields).matched == stored.id


@pytest.mark.parametrize("entity", [None, "Proxy"])
def test_a_recalled_text_is_known_without_its_fence(memory: Memory, entity: str | None) -> None:
    for number in range(5):
        memory.store(f"Service {number} listens on port {8000 + number} behind the proxy.")
    memory.store("# Ports\n\nPort 22 is closed to services.", key="ports.md", type="decision")
    lines = memory.recall("which service listens on which port", limit=6).text.splitlines()
    before = memory.stats().doc_count
    bare = "\n".join(lines[1:-1])
    assert memory.store(bare, origin="agent", entity=entity).recalled
    cut_short = "\n".join(lines[:-1])  # the closing line was lost
    assert memory.store(cut_short, origin="agent", entity=entity).recalled
    assert memory.stats().doc_count == before
    assert not memory.store(f"{bare}\nPort 23 is open.", origin="agent").recalled


def test_a_text_that_names_the_marker_is_stored_whole(memory: Memory) -> None:
    text = "The marker <<plait-recall abcdefgh>> is what plait writes. Keep port 8443 open."
    stored = memory.store(text, origin="agent")
    assert memory.lookup(stored.id)[0].text == text
    assert stored.shortened is False


def test_who_stores_a_fence_is_told_that_it_was_left_out(memory: Memory) -> None:
    stored = memory.store(f"{fenced('old')}\nOn holidays nobody is on call.", origin="agent")
    assert (stored.shortened, stored.recalled) == (True, False)
    assert any("left out" in remark for remark in stored_remarks(stored))
    assert memory.lookup(stored.id)[0].text == "On holidays nobody is on call."


def test_near_duplicates_never_show_what_is_quarantined(memory: Memory) -> None:
    memory.store("The API listens on port 8080 at night", trust="quarantined")
    assert memory.store("The API listens on port 8443 at night").near == ()


def test_the_letters_of_an_entitys_topic_are_not_those_of_a_topic_without_one(
    memory: Memory,
) -> None:
    memory.store("The pump runs at night", topic="Pump", entity="House")
    plain = memory.store("Pumps are loud", topic="pump")
    assert memory.lookup(plain.id)[0].topic == "pump"


@pytest.mark.parametrize("other", ["deploy day", "DEPLOY DAY", "Deploy day"])
@pytest.mark.parametrize("entity", [None, "Shop"])
def test_a_topic_is_the_same_in_other_letters(memory: Memory, other, entity) -> None:
    old = memory.store("We deploy on Fridays", topic="Deploy Day", entity=entity)
    new = memory.store("We deploy on Mondays", topic=other, entity=entity)
    beside = memory.store("It deploys itself", topic="deploy days", entity=entity)
    assert (new.superseded, beside.superseded) == ((old.id,), ())
    assert memory.lookup(new.id)[0].topic == "Deploy Day"
    assert memory.lookup(beside.id)[0].topic == "deploy days"
    elsewhere = memory.store("We sail", topic=other, entity="Boat")
    assert elsewhere.superseded == ()
    assert memory.lookup(elsewhere.id)[0].topic == other
