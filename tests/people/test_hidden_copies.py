"""What a model makes out of a text that not all see is not seen by more people than that text."""

from typing import Any

import pytest

from plait import Memory
from plait.errors import UsageError
from plait.tools import run
from plait.types import EVERYTHING
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from plait.writing import confining
from tests.codes import has_code
from tests.people.conftest import Opened, Team, Trio

SECRET = "The board will close the Leipzig office in March and dismiss Ines Krahl first."
COPY = f"Note from a talk: {SECRET} Prepare the letters."


def words_of(memory: Memory) -> str:
    """All that a member sees, in whatever field."""
    rows = memory.engine.scan(EVERYTHING, whole=True)
    return " ".join(str(tuple(row)) for row in rows)


def secret_of_wim(opened: Opened, trio: Trio) -> Memory:
    wim = opened(trio.writer)
    wim.store(SECRET, key="board", visibility="private")
    return wim


def leaks(opened: Opened, trio: Trio) -> bool:
    return "Leipzig" in words_of(opened(trio.owner))


@pytest.mark.parametrize(
    "fields",
    [
        {"text": COPY},
        {"text": COPY, "key": "plans"},
        {"text": COPY, "entity": "Leipzig office"},
        {"text": COPY, "topic": "offices"},
        {"text": "What we know of offices.", "title": SECRET},
        {"text": "What we know of offices.", "summary": SECRET},
        {"text": SECRET.upper().replace(" ", "\n")},
        {"text": COPY, "session": "s1", "role": "assistant"},
    ],
    ids=str,
)
def test_what_a_tool_stores_of_a_private_text_is_private(
    trio: Trio, opened: Opened, fields: dict[str, Any]
) -> None:
    wim = secret_of_wim(opened, trio)
    answer = run(wim, "memory_store", fields)
    assert "error" not in answer
    assert "is as visible: private" in str(answer)
    assert not leaks(opened, trio)
    assert "letters" in words_of(wim) or "What we know" in words_of(wim) or "BOARD" in words_of(wim)


def test_what_a_tool_stores_of_nothing_hidden_is_the_teams(trio: Trio, opened: Opened) -> None:
    wim = secret_of_wim(opened, trio)
    run(wim, "memory_store", {"text": "The supplier of Leipzig tiles is bankrupt since spring."})
    assert "bankrupt" in words_of(opened(trio.owner))


def test_what_the_team_knows_too_stays_the_teams(trio: Trio, opened: Opened) -> None:
    wim = secret_of_wim(opened, trio)
    opened(trio.owner).store(SECRET, key="news")
    run(wim, "memory_store", {"text": COPY})
    assert "letters" in words_of(opened(trio.owner))


def test_who_says_who_sees_it_is_obeyed(trio: Trio, opened: Opened) -> None:
    wim = secret_of_wim(opened, trio)
    wim.store(COPY, origin="agent", visibility="team")
    assert leaks(opened, trio)


def test_a_copy_of_what_a_project_sees_is_seen_by_that_project(team: Team) -> None:
    wim, ben = (team.member(name, projects=["shop"]) for name in ("wim", "ben"))
    zoe = team.member("zoe")
    with team.memory(wim, project="shop") as memory:
        memory.store(SECRET, key="board", visibility="project")
        run(memory, "memory_store", {"text": COPY})
    with team.memory(wim, project="other") as memory:
        run(memory, "memory_store", {"text": f"{COPY} Elsewhere."})
    with team.memory(ben) as memory:
        told = words_of(memory)
        assert "letters" in told
        assert "Elsewhere" not in told
    with team.memory(zoe) as memory:
        assert "Leipzig" not in words_of(memory)


def test_an_old_private_text_is_looked_up(
    trio: Trio, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the latest, which are read, by the keyword index."""
    monkeypatch.setattr(confining, "MOST_SOURCES", 1)
    wim = secret_of_wim(opened, trio)
    wim.store("Milk and bread.", visibility="private")
    wim.store("Tea.", visibility="private")
    run(wim, "memory_store", {"text": COPY})
    run(wim, "memory_store", {"text": "The supplier of tiles went bankrupt late in spring."})
    assert not leaks(opened, trio)
    assert "bankrupt" in words_of(opened(trio.owner))


def test_a_correction_of_a_private_text_is_private(trio: Trio, opened: Opened) -> None:
    wim = secret_of_wim(opened, trio)
    [board] = wim.engine.scan(EVERYTHING)
    run(wim, "memory_store", {"text": "Not Leipzig: Halle closes.", "supersedes": board.id})
    assert "Halle" in words_of(wim)
    assert "Halle" not in words_of(opened(trio.owner))


def test_a_note_of_the_team_is_not_replaced_by_a_hidden_text(trio: Trio, opened: Opened) -> None:
    wim = secret_of_wim(opened, trio)
    opened(trio.owner).store("Our plans are public.", key="plans")
    run(wim, "memory_store", {"text": COPY, "key": "plans"})
    assert "Our plans are public." in words_of(opened(trio.owner))
    assert not leaks(opened, trio)


def test_observations_and_new_entities_of_a_private_text_are_private(
    trio: Trio, opened: Opened
) -> None:
    wim = secret_of_wim(opened, trio)
    wim.graph.create([NewEntity("Leipzig", "office", (SECRET,))], origin="agent")
    wim.graph.observe([("Ines", [COPY])], make=True, origin="agent")
    assert not leaks(opened, trio)
    assert "Ines" in words_of(wim)
    assert "Ines" not in words_of(opened(trio.owner))


def test_an_entity_of_the_team_gets_no_fact_of_a_private_text(trio: Trio, opened: Opened) -> None:
    opened(trio.owner).graph.create([NewEntity("Offices")])
    wim = secret_of_wim(opened, trio)
    with pytest.raises(UsageError, check=has_code("hidden_fact", subject="Offices")):
        wim.graph.observe([("Offices", [COPY])], origin="agent")
    answer = run(wim, "memory_store", {"text": COPY, "entity": "Offices"})
    assert "not all who see it may see" in str(answer)
    assert not leaks(opened, trio)


def test_a_relation_of_entities_of_the_team_repeats_no_private_text(
    trio: Trio, opened: Opened
) -> None:
    opened(trio.owner).graph.create([NewEntity("Offices"), NewEntity("Board")])
    wim = secret_of_wim(opened, trio)
    edge = Relation("Board", "Offices", "plans", context=SECRET)
    with pytest.raises(UsageError, check=has_code("hidden_relation", subject="Board")):
        wim.graph.relate([edge], origin="agent")
    wim.graph.relate([edge._replace(context="decides about")], origin="agent")


def test_a_relation_of_a_private_entity_may(trio: Trio, opened: Opened) -> None:
    wim = secret_of_wim(opened, trio)
    with wim._visible("private"):
        wim.graph.create([NewEntity("Offices"), NewEntity("Board")])
    edge = Relation("Board", "Offices", "plans", context=SECRET)
    assert wim.graph.relate([edge], origin="agent")


def test_a_copy_within_a_scope_is_private_too(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    scope = wim.scope("ana")
    wim.team.share([scope.store(SECRET, key="board").id], "private")
    run(scope, "memory_store", {"text": COPY})
    assert not leaks(opened, trio)
