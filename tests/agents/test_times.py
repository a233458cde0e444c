"""A message that tells no time has that of the one before, or that of its session."""

import json

import pytest

from plait.agents.histories import Places
from plait.times import parse_time
from tests.agents import (
    hostile,
    test_codex,
    test_copilot,
    test_cursor,
    test_exports,
    test_gemini,
    test_openclaw,
)

BEGAN = "2025-05-01T08:00:00.000Z"
MOMENT = parse_time(BEGAN) or 0


def codex(home):
    first = {"id": test_codex.THREAD, "timestamp": BEGAN, "instructions": None}
    content = [{"type": "input_text", "text": "why?"}]
    test_codex.rollout(home, first, {"type": "message", "role": "user", "content": content})


def copilot(home):
    asked = {"requestId": "r1", "message": {"text": "why?"}, "response": []}
    test_copilot.chat(home, {**test_copilot.whole(asked), "creationDate": MOMENT})


def cursor(home):
    asked = test_cursor.bubble(1, "why?", timingInfo=None)
    about = test_cursor.composer(asked, updated=MOMENT, createdAt=None)
    test_cursor.put(home, "c1", about, asked).close()


def gemini(home):
    about = {**test_gemini.ABOUT, "startTime": BEGAN}
    test_gemini.chat(home, about, {"id": "m1", "type": "user", "content": "why?"})


def openclaw(home):
    asked = {"type": "message", "id": "e1", "message": {"role": "user", "content": "why?"}}
    test_openclaw.file(home, test_openclaw.begin(timestamp=BEGAN), asked)


def chatgpt(home):
    asked = test_exports.node("u1", None, "user", "why?", create_time=None)
    talk = {**test_exports.chatgpt("c1", "u1", asked), "create_time": MOMENT / 1000}
    (home / "conversations.json").write_text(json.dumps([talk]), "utf-8")


def claude(home):
    asked = {"uuid": "m1", "sender": "human", "text": "why?"}
    talk = {"uuid": "d1", "created_at": BEGAN, "chat_messages": [asked]}
    (home / "conversations.json").write_text(json.dumps([talk]), "utf-8")


@pytest.mark.parametrize("write", [codex, copilot, cursor, gemini, openclaw, chatgpt, claude])
def test_without_a_time_it_is_that_of_the_session(tmp_path, write):
    write(tmp_path)
    export = tmp_path / "conversations.json"
    files = (str(export),) if export.exists() else ()
    (row,) = hostile.utterances(write.__name__, Places(str(tmp_path), {}, files=files))
    assert (row.text, row.at) == ("why?", MOMENT)


def test_without_a_time_it_is_that_of_the_message_before(tmp_path):
    first = test_gemini.user("m1", "why?")
    test_gemini.chat(
        tmp_path, test_gemini.ABOUT, first, test_gemini.user("m2", "and?", timestamp="noon")
    )
    rows = hostile.utterances("gemini", Places(str(tmp_path), {}))
    assert [row.at for row in rows] == [parse_time(first["timestamp"])] * 2
