"""What hooks and commands recalled is not stored as new, however often it is recalled and saved."""

import json
from typing import Any

import pytest

from plait.cli import main
from plait.searching.steps import stored_steps
from plait.types import EVERYTHING
from tests.agents.hooks.conftest import ANSWER, QUESTION, Home
from tests.agents.test_claude_code import answer, call, result, text, transcript, user
from tests.reliability.scale import SOAK

ROUNDS = 500 if SOAK else 5


def test_rounds_of_recall_and_save_store_nothing_that_was_recalled(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("PLAIT_AUTO_SAVE", "on")
    for place in range(ROUNDS):
        session = f"{place:08d}-1111-4111-8111-111111111111"
        told = json.loads(home.ask(session_id=session))["hookSpecificOutput"]["additionalContext"]
        assert ANSWER in told
        assert main(["recall", QUESTION]) == 0
        printed = capsys.readouterr().out
        assert ANSWER in printed
        reminder = f"<system-reminder>\nUserPromptSubmit hook additional context: {told}\n"
        path = transcript(
            home.path,
            user(f"{place}a", f"{told}\n\nthe keys, round {place}"),
            user(f"{place}b", [text(f"{reminder}</system-reminder>"), text(f"more {place}")]),
            answer(
                f"{place}c",
                text(f"The memory tells:\n{told}\nSo it is settled, round {place}."),
                call(f"t{place}", "Bash", command=f"plait recall '{QUESTION}'"),
                call(f"v{place}", "Task", prompt=f"Check this: {told} " + "and so on " * 30),
                id=f"m{place}",
            ),
            result(f"{place}d", f"t{place}", f"Exit code 1\n{printed}", is_error=True),
            session=session,
        )
        home.ask("Stop", session_id=session, transcript_path=str(path))
        assert home.entries()[-1].why == "taken_in"
    with home.open() as memory:
        everything = [row.id for row in memory.engine.scan(EVERYTHING)]
        documents = memory.engine.load(everything)
        assert len(documents) == 3 + 3 * ROUNDS
        assert [row.key for row in documents if ANSWER in row.text] == ["keys"]
        assert not [row.text for row in documents if "plait-recall" in row.text]
        steps = [step for id_ in everything for step in stored_steps(memory.engine, id_)]
        assert len(steps) == ROUNDS and ANSWER not in repr(steps)
