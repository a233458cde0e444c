"""Marks of imports in a memory's file that is damaged, or that somebody else wrote."""

import json
import os

import pytest

from plait.agents.importing import import_histories, sources_of
from plait.agents.ledger import Ledger
from plait.agents.undoing import undo_import
from plait.memory import Memory
from tests.agents import hostile
from tests.agents.test_readers import WRITERS, imported, messages, places

MARK, NUMBER = "history:mark:", "history:number"


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.db", embedder="none") as opened:
        yield opened


def remember(memory, rows):
    with memory.engine.transaction() as transaction:
        transaction.remember(**rows)


@pytest.mark.unmeasured
@pytest.mark.parametrize("agent", WRITERS)
def test_a_mark_that_plait_never_writes_stops_no_import(memory, tmp_path, agent):
    WRITERS[agent](tmp_path)
    imported(memory, tmp_path, agent)
    known = memory.engine.remembered(MARK)
    texts = {row.text for row in messages(memory)}
    used = 0
    for name, value in known.items():
        for variant in (*hostile.variants(json.loads(value)), [], "x", {"mark": 7}):
            remember(memory, {**known, name: json.dumps(variant)})
            for source in sources_of(places(tmp_path, agent), [agent]):
                used += 1
                os.utime(source.path, ns=(used * 10**9, used * 10**9))
            imported(memory, tmp_path, agent)
            assert {row.text for row in messages(memory)} == texts


@pytest.mark.parametrize("state", [{"branch": []}, {"kind": []}, {"turns": True}, {"folders": [7]}])
def test_a_state_of_other_types_is_read_as_none(memory, tmp_path, state):
    WRITERS["codex"](tmp_path)
    imported(memory, tmp_path, "codex")
    ((name, value),) = memory.engine.remembered(MARK).items()
    row = json.loads(value)
    row["mark"]["state"] |= state
    row["mark"]["size"] = 0
    remember(memory, {name: json.dumps(row)})
    assert not imported(memory, tmp_path, "codex").messages
    ((_, value),) = memory.engine.remembered(MARK).items()
    assert json.loads(value)["mark"]["size"]


@pytest.mark.parametrize("number", ["", "many", "-1", "9" * 5_000, "²"])
def test_a_number_of_imports_that_is_none_stops_no_import_and_no_undo(memory, tmp_path, number):
    WRITERS["gemini"](tmp_path)
    remember(memory, {NUMBER: number})
    report = import_histories(memory, sources_of(places(tmp_path, "gemini"), ["gemini"]))
    assert report.messages == 2
    remember(memory, {NUMBER: number})
    assert undo_import(memory) == (report.run, 2)
    assert Ledger(memory.engine).next_number() == {NUMBER: "2"}
