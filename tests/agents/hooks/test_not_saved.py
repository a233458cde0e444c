"""What hooks do not save, and that the record says why."""

import json
from typing import Any

import pytest

from plait.agents.choosing import EXCLUDE_FILE
from tests.agents.hooks.conftest import Home

PROMPTED = {"role": "user", "content": "We chose Pennant."}
CLAUDE = {
    "type": "user",
    "uuid": "u1",
    "sessionId": "t",
    "timestamp": "2026-11-02T08:00:00.000Z",
    "message": PROMPTED,
}
BY_PROGRAM = [CLAUDE | {"entrypoint": "sdk-cli"}]
BY_CODEX_EXEC = [
    {
        "type": "session_meta",
        "timestamp": "2026-11-02T08:00:00.000Z",
        "payload": {"id": "t", "originator": "codex_exec", "source": "exec", "cwd": "/w"},
    },
    {
        "type": "event_msg",
        "timestamp": "2026-11-02T08:00:01.000Z",
        "payload": {"type": "user_message", "message": "We chose Pennant."},
    },
]


@pytest.mark.parametrize(
    ("agent", "rows", "why"),
    [
        ("claude-code", BY_PROGRAM, "headless"),
        ("codex", BY_CODEX_EXEC, "headless"),
        ("claude-code", [CLAUDE | {"cwd": "/kept/out"}], "excluded"),
        ("claude-code", [CLAUDE | {"cwd": "/w"}], "taken_in"),
    ],
    ids=["claude -p", "codex exec", "excluded", "saved"],
)
def test_the_record_says_why_a_session_is_not_saved(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    agent: str,
    rows: list[dict[str, Any]],
    why: str,
) -> None:
    monkeypatch.setenv("PLAIT_AUTO_SAVE", "on")
    config = home.path / "config" / "plait"
    config.mkdir(parents=True)
    (config / EXCLUDE_FILE).write_text("/kept\n", encoding="utf-8")
    path = home.path / "rollout-2026-11-02T08-00-00-t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    home.ask("Stop", agent, transcript_path=str(path))
    assert home.entries()[-1].why == why
    home.ask("SessionEnd", agent, transcript_path=str(path))
    assert home.entries()[-1].why == ("nothing_new" if why == "taken_in" else why)
