"""A home of its own for each test, with a memory in it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from plait import Memory
from plait.agents.hooks import record
from plait.agents.hooks.answering import Asked, respond
from plait.agents.hooks.record import HookRun

# Far above what a hook needs: a test depends on no clock unless it is about the deadline.
PATIENT = ("--deadline", "60")
QUESTION = "when do we rotate the ssh keys of staging?"
ANSWER = "We rotate the ssh keys of the staging cluster every quarter."


class Home(NamedTuple):
    """A home folder with plait's data in it."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "memory.db"

    @property
    def data(self) -> Path:
        return self.path / "data" / "plait"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "HOME": str(self.path),
            "XDG_DATA_HOME": str(self.path / "data"),
            "XDG_CONFIG_HOME": str(self.path / "config"),
            "PLAIT_DB": str(self.database),
            "PLAIT_PROJECT": "personal",
        }

    def entries(self) -> list[HookRun]:
        return record.entries(str(self.data))

    def open(self) -> Memory:
        return Memory.open(self.database, project="")

    def ask(self, event: str = "UserPromptSubmit", agent: str = "claude-code", **sent: Any) -> str:
        """The answer of a hook, run in this process."""
        messages: list[str] = []
        respond(Asked(agent, event), payload(**sent), messages.append)
        return messages[1] if len(messages) > 1 else ""


def payload(**sent: Any) -> bytes:
    return json.dumps({"session_id": "s1", "prompt": QUESTION, **sent}).encode()


@pytest.fixture
def home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    filled = Home(tmp_path)
    for name, value in filled.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    with filled.open() as memory:
        memory.store(ANSWER, key="keys")
        memory.store("The parrot of the office is called Newton.", key="parrot")
        memory.store("Answer Mara in Swedish.", key="pin", pinned=True)
    yield filled
