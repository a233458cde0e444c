"""A session is not given its own words back while it has them in its context."""

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from plait.agents.hooks import record
from plait.agents.hooks.injecting import LOOKED_AT, MOST_OWN
from plait.agents.hooks.record import HookRun
from plait.agents.sessions import session_name
from tests.agents.hooks.conftest import QUESTION, Home
from tests.agents.hooks.test_hooks import shown
from tests.made_up_secrets import SHAPED

ASKED = "which bird is on the logo of the Pelago ferry line?"
TOLD = "The logo of the Pelago ferry line has a cormorant on it."
PROMPT = "what was that bird on the logo of the Pelago ferry line again?"
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


def save(home: Home, session: str, *turns: tuple[str, str], at: datetime = NOON) -> None:
    """Let the hook of a session that stopped save its turns."""
    path = home.path / f"{session}.jsonl"
    rows = [
        {
            "type": role,
            "uuid": f"u{at:%H}-{number}",
            "sessionId": session,
            "timestamp": f"{at + timedelta(seconds=number):%Y-%m-%dT%H:%M:%S}.000Z",
            "message": {"role": role, "content": [{"type": "text", "text": text}]},
        }
        for number, (role, text) in enumerate(turns)
    ]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    home.ask("Stop", session_id=session, transcript_path=str(path))
    assert home.entries()[-1].did == "saved"


@pytest.fixture
def talk(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A memory with what the session "own" asked and was told."""
    monkeypatch.setenv("PLAIT_AUTO_SAVE", "on")
    save(home, "own", ("user", ASKED), ("assistant", TOLD))
    return home


def ask(home: Home, session: str = "own", event: str = "UserPromptSubmit", **sent: Any) -> str:
    return shown(home.ask(event, **{"session_id": session, "prompt": PROMPT, **sent}))


def test_a_prompt_gets_nothing_that_its_own_session_said(talk: Home) -> None:
    assert ask(talk) == ""
    assert (talk.entries()[-1].did, talk.entries()[-1].why) == ("silent", "own_session")
    assert TOLD in ask(talk, "another")


@pytest.mark.parametrize("source", ["startup", "resume", "fork", ""])
def test_a_session_that_goes_on_has_its_words_still(talk: Home, source: str) -> None:
    told = ask(talk, event="SessionStart", source=source)
    assert "Swedish" in told and "Pelago" not in told
    assert ask(talk) == ""
    assert "Pelago" in ask(talk, "another", "SessionStart", source=source)


@pytest.mark.parametrize("source", ["clear", "compact"])
def test_a_session_whose_context_was_emptied_may_be_told_its_words(talk: Home, source: str) -> None:
    assert "Pelago" in ask(talk, event="SessionStart", source=source)
    assert TOLD in ask(talk)


@pytest.mark.parametrize("did", ["late", "failed"])
def test_a_context_is_emptied_whatever_became_of_the_hook(talk: Home, did: str) -> None:
    started = HookRun(at=record.entries(str(talk.data))[-1].at, session="own", did=did)
    record.write_entry(str(talk.data), started._replace(source="compact"))
    assert TOLD in ask(talk)


@pytest.mark.parametrize(
    ("agent", "event"), [("claude-code", "PreCompact"), ("gemini", "PreCompress")]
)
def test_a_compaction_empties_the_context_of_every_agent(
    talk: Home, agent: str, event: str
) -> None:
    talk.ask(event, agent, session_id="own")
    assert TOLD in ask(talk)


def test_what_was_said_after_a_compaction_is_in_the_context(talk: Home) -> None:
    compacted = round((NOON + timedelta(hours=1)).timestamp() * 1000)
    begun = HookRun(at=compacted, session="own", why=record.STARTED, source="compact")
    record.write_entry(str(talk.data), begun)
    later = "The harbour master of Varde keeps two goats."
    save(talk, "own", ("user", later), at=NOON + timedelta(hours=2))
    assert ask(talk, prompt="how many goats has the harbour master of Varde?") == ""
    assert talk.entries()[-1].why == "own_session"
    assert TOLD in ask(talk)


def test_own_words_do_not_hide_what_others_said(talk: Home) -> None:
    turns = [("user", f"{number}: {PROMPT}") for number in range(LOOKED_AT + 2)]
    assert len(turns) < MOST_OWN
    save(talk, "own", *turns, at=NOON + timedelta(hours=1))
    note = "The Pelago ferry line painted the bird on its logo anew in 2019."
    with talk.open() as memory:
        memory.store(note)
        assert note not in {hit.passage.text for hit in memory.search(PROMPT, limit=LOOKED_AT)}
    told = ask(talk)
    assert note in told and ASKED not in told and TOLD not in told


def test_a_session_without_an_id_is_nobodys(talk: Home) -> None:
    assert TOLD in ask(talk, "")
    assert shown(talk.ask(prompt=QUESTION))


def test_a_session_whose_id_is_a_secret_is_known_by_its_other_name(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_AUTO_SAVE", "on")
    secret = SHAPED["age secret key"](Random(7))
    assert secret not in session_name("claude-code", secret)
    save(home, secret, ("user", ASKED), ("assistant", TOLD))
    assert ask(home, secret) == "" and home.entries()[-1].why == "own_session"
