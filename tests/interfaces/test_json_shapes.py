"""The shapes of the JSON answers are those that docs/cli.md lists."""

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from plait.agents.connecting.handshake import Proof
from plait.cli import connect
from tests.chat.server import ChatServer, Reply
from tests.interfaces.command import ROOT


def documented(verb: str) -> list[str]:
    """The fields of a verb's answer, in the order of the page."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    [shape] = re.findall(rf"^\| `{verb}` \| `{{(.*?)}}`", page, re.M)
    # Only the outermost fields: what is in brackets belongs to one of them.
    return re.findall(r'"(\w+)"', re.sub(r"\[.*?\]", "", shape))


@pytest.fixture
def answers(plait, notes, monkeypatch):
    """One answer of each verb."""
    monkeypatch.setattr(connect, "prove", lambda *_: Proof("1", 6))
    return {
        **chats(plait),
        "connect": plait("connect", "codex").json,
        "disconnect": plait("disconnect", "codex").json,
        "store": plait("store", "A fact", "--key", "a").json,
        "ingest": plait("ingest", "notes").json,
        "get": plait("get", "a").json,
        "timeline": plait("timeline").json,
        "hook": plait("hook", "--try", "A fact about deploys?").json,
        "log": plait("log").json,
        "mark": plait("mark", "a", "--status", "done").json,
        "feedback": plait("feedback", "a", "good").json,
        "review": plait("review").json,
        "mute": plait("mute", "a").json,
        "unmute": plait("unmute", "a").json,
        "about": plait("about", "a.py").json,
        "how": plait("how", "make").json,
        "fixed": plait("fixed", "KeyError: 'x'").json,
        "delete": plait("delete", "a").json,
        "delete --undo": plait("delete", "--undo").json,
        "import AGENT": plait("import", "claude-code", session(notes)).json,
        "import --undo": plait("import", "--undo").json,
        "reindex": plait("reindex").json,
        "doctor": plait("doctor").json,
        "import": plait("import", exported(plait)).json,
        "migrate": plait("migrate", "--to", "moved.db").json,
        "restore": plait("restore", plait("backup", "copy.db").json["path"]).json,
    }


def chats(plait) -> dict[str, dict[str, object]]:
    """Answers of the verbs that ask a model, if its client is installed."""
    if find_spec("ollama") is None:
        return {}
    with ChatServer([Reply("Yes."), Reply('["We deploy on Fridays."]')]) as server:
        options = server.options("ollama")
        return {
            "chat": plait("chat", "Is it Friday?", "--session", "s1", *options).json,
            "digest": plait("digest", "s1", *options).json,
        }


def session(folder: Path) -> str:
    """The path of a session of Claude Code."""
    path = folder / "s1.jsonl"
    said = {
        "type": "user",
        "uuid": "u1",
        "sessionId": "s1",
        "message": {"role": "user", "content": "Hi"},
    }
    path.write_text(json.dumps(said) + "\n", encoding="utf-8")
    return str(path)


def exported(plait) -> str:
    """The path of an export of the memory."""
    path: str = plait("export", "all.jsonl").json["path"]
    return path


def test_every_field_of_an_answer_is_documented(answers):
    fields = {verb: sorted(answer) for verb, answer in answers.items()}
    assert fields == {verb: sorted(documented(verb)) for verb in answers}


def test_a_hit_has_the_documented_fields(plait):
    plait("store", "Herons fish at dawn")
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"^A hit has (.*?) and `signals`", page, re.M | re.S)
    [hit] = plait("search", "herons").json["results"]
    assert sorted([*re.findall(r"`(\w+)`", listed), "signals"]) == sorted(hit)
