"""The JSON answers have the shapes that docs/cli.md lists, and every verb is in that list."""

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from plait.agents.connecting.handshake import Proof
from plait.cli import connect
from plait.cli.verbs import VERBS
from tests.chat.server import ChatServer, Reply
from tests.interfaces.command import ROOT, SAMPLE, spawn

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
MORE = "…"  # in a shape: other fields
# Seen in tests/postgres and tests/people, which have a server.
WITH_SERVER = {
    *("postgres list", "postgres drop", "postgres distribute"),
    *("team list", "team add", "team role", "team remove"),
}
ASK_A_MODEL = {"chat", "digest"}
OF_A_SETTING = {"config get", "config set", "config unset"}
# They need a network, answer with no object, or go on until they are stopped.
UNSEEN = {"models pull", "tools", "watch", "mcp", "completion"}


def shapes() -> dict[str, str]:
    """What the table says of each verb."""
    table = PAGE[PAGE.index("The shapes of the JSON answers") :].split("\n\n")[1]
    rows = [line.strip("| ").split(" | ", 1) for line in table.splitlines()[2:]]
    return {verb: answer for verbs, answer in rows for verb in re.findall("`(.*?)`", verbs)}


def documented(verb: str) -> dict[str, Any]:
    """The fields of the first shape of a row, each with its own fields."""
    shape = re.match("`({.*?})`", shapes()[verb])
    assert shape is not None, verb
    levels: list[dict[str, Any]] = [{}]
    name = ""
    for mark in re.findall(r'"\w+"|[{}]|(?<!")…(?!])', shape[1]):
        if mark == "{":
            levels.append(levels[-1].setdefault(name, {}))
        elif mark == "}":
            levels.pop()
        else:
            name = mark.strip('"')
            levels[-1][name] = {}
    top: dict[str, Any] = levels[0][""]
    return top


def differences(answer: Any, shape: dict[str, Any], place: str) -> list[str]:
    """Where an answer is not as its shape says."""
    if isinstance(answer, list):
        return [line for item in answer for line in differences(item, shape, place)]
    listed = shape.keys() - {MORE}
    missing = [f"{place}.{name} does not come" for name in listed - answer.keys()]
    unlisted = [f"{place}.{name} is not listed" for name in answer.keys() - listed]
    inner = [
        line
        for name, fields in shape.items()
        if fields and answer.get(name)
        for line in differences(answer[name], fields, f"{place}.{name}")
    ]
    return missing + ([] if MORE in shape else unlisted) + inner


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
        "search": plait("search", "keys").json,
        "recall": plait("recall", "keys").json,
        "overview": plait("overview").json,
        "get": plait("get", "a").json,
        "open": plait("open", "TOOLS.md", "--print").json,
        "timeline": plait("timeline").json,
        "hook": plait("hook", "--try", "A fact about deploys?").json,
        "log": plait("log").json,
        "mark": plait("mark", "a", "--status", "done").json,
        "feedback": plait("feedback", "a", "good").json,
        "review": plait("review").json,
        "mute": plait("mute", "a") and plait("mute").json,
        "unmute": plait("unmute", "a").json,
        "about": plait("about", "a.py").json,
        "how": plait("how", "make").json,
        "fixed": plait("fixed", "KeyError: 'x'").json,
        **entities(plait),
        "delete": plait("delete", "a").json,
        "delete --undo": plait("delete", "--undo").json,
        "import AGENT": plait("import", "claude-code", session(notes)).json,
        "import --undo": plait("import", "--undo").json,
        "prune": plait("prune", "--keep-most", "note=0").json,
        "maintain": plait("maintain", "--dry-run").json,
        "reindex": plait("reindex").json,
        "stats": plait("stats").json,
        "doctor": plait("doctor").json,
        "models": plait("models").json,
        **evaluations(plait, notes.parent),
        "export FILE": plait("export", "all.jsonl").json,
        "export FOLDER": plait("export", "--format", "markdown", "snapshot").json,
        "import": plait("import", "all.jsonl").json,
        "migrate": plait("migrate", "--to", "moved.db").json,
        "backup": plait("backup", "copy.db").json,
        "restore": plait("restore", "copy.db").json,
        **configuration(plait, notes.parent),
    }


def chats(plait) -> dict[str, Any]:
    """Answers of the verbs that ask a model, if its client is installed."""
    if find_spec("ollama") is None:
        return {}
    with ChatServer([Reply("Yes."), Reply('["We deploy on Fridays."]')]) as server:
        options = server.options("ollama")
        return {
            "chat": plait("chat", "Is it Friday?", "--session", "s1", *options).json,
            "digest": plait("digest", "s1", *options).json,
        }


def entities(plait) -> dict[str, Any]:
    """Answers about two entities and a relation."""
    plait("entity", "add", "Tern", "A boat")
    relation = ("Heron", "follows", "Tern")
    return {
        "entity add": plait("entity", "add", "Heron", "A boat").json,
        "entity observe": plait("entity", "observe", "Heron", "It is green").json,
        "entity relate": plait("entity", "relate", *relation).json,
        "entity show": plait("entity", "show", "Heron").json,
        "entity list": plait("entity", "list").json,
        "entity unrelate": plait("entity", "unrelate", *relation).json,
        "entity delete": plait("entity", "delete", "Tern").json,
    }


def evaluations(plait, folder: Path) -> dict[str, Any]:
    """Measurements of a collection with one question, and of the memory itself."""
    collection = folder / "collection"
    collection.mkdir()
    for name, text in {
        "corpus.jsonl": '{"_id": "d1", "title": "", "text": "Herons fish"}\n',
        "queries.jsonl": '{"_id": "q1", "text": "who fishes"}\n',
        "qrels.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    }.items():
        (collection / name).write_text(text, encoding="utf-8")
    plait("ingest", str(SAMPLE))
    return {
        "eval": plait("eval", "collection", "--mode", "keyword").json,
        "eval --make": plait("eval", "--make", "2", "--mode", "keyword").json,
    }


def configuration(plait, folder: Path) -> dict[str, Any]:
    """Answers about settings and keys; at last the folder has a file of settings to trust."""
    key = spawn("config", "set-key", "openai", "--json", stdin=b"sk-a-key-of-the-tests").json
    answers = {
        "config set-key": key,
        "config keys": plait("config", "keys").json,
        "config remove-key": plait("config", "remove-key", "openai").json,
        "config show": plait("config", "show").json,
        "config path": plait("config", "path").json,
    }
    (folder / ".git").mkdir()
    (folder / "plait.toml").write_text("[memory]\nauto_save = true\n", encoding="utf-8")
    return {
        **answers,
        "config trust": plait("config", "trust", "--yes").json,
        "config untrust": plait("config", "untrust").json,
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


def test_every_answer_has_the_documented_fields(answers):
    assert [
        line
        for verb, answer in answers.items()
        for line in differences(answer, documented(verb), verb)
    ] == []


def test_every_row_is_seen_and_every_verb_has_one(answers):
    elsewhere = ASK_A_MODEL | WITH_SERVER | OF_A_SETTING | UNSEEN
    assert shapes().keys() - elsewhere == answers.keys() - elsewhere
    assert shapes().keys() > elsewhere
    assert {verb.split()[0] for verb in shapes()} == VERBS.keys()


def test_a_setting_is_a_field(plait):
    assert plait("config", "set", "limit", "5").json.keys() == {"path", "limit"}
    assert plait("config", "get", "limit").json == {"limit": 5}
    assert plait("config", "show", "--origin").json["limit"].keys() == {"value", "origin"}
    assert plait("config", "unset", "limit").json.keys() == {"path", "limit"}


def test_a_hit_has_the_documented_fields(plait):
    plait("store", "Herons fish at dawn")
    [listed] = re.findall(r"^A hit has (.*?) and `signals`", PAGE, re.M | re.S)
    [hit] = plait("search", "herons").json["results"]
    assert sorted([*re.findall(r"`(\w+)`", listed), "signals"]) == sorted(hit)


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ({"a": 1, "rows": [{"b": 1}]}, []),
        ({"a": 1, "rows": []}, []),
        ({"rows": []}, ["x.a does not come"]),
        ({"a": 1, "rows": [], "c": 1}, ["x.c is not listed"]),
        ({"a": 1, "rows": [{"b": 1, "c": 1}]}, ["x.rows.c is not listed"]),
        ({"a": 1, "rows": [{}]}, ["x.rows.b does not come"]),
    ],
)
def test_a_difference_is_told(answer, wrong):
    assert differences(answer, {"a": {}, "rows": {"b": {}}}, "x") == wrong
    assert differences({"a": 1, "c": 1}, {"a": {}, MORE: {}}, "x") == []
