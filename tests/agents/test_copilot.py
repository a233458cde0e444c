"""Copilot: events of the command line, chats of VS Code, and what in them nobody typed."""

import json
from pathlib import Path

import pytest

from plait.agents.histories import Places
from plait.agents.histories.copilot import find, read
from plait.facts.echo import fence
from tests.agents import hostile

START = 1793606400000


def event(kind, id="e0", second=0, agent=None, **data):
    at = f"2026-11-02T08:00:{second:02d}.000Z"
    return {"type": kind, "id": id, "parentId": None, "timestamp": at, "data": data} | (
        {"agentId": agent} if agent else {}
    )


def begin():
    context = {"cwd": "/home/ann/shop", "gitRoot": "/home/ann/shop", "branch": "main"}
    return event("session.start", "e0", sessionId="S1", context=context)


def ask(id, words, second=1, **more):
    wrapped = f"<context>x</context>{words}"
    return event("user.message", id, second, content=words, transformedContent=wrapped, **more)


def answer(id, words, second=2, **more):
    return event("assistant.message", id, second, content=words, toolRequests=[], **more)


def run(call, tool, second=3, **given):
    return event(
        "tool.execution_start", f"s{call}", second, toolCallId=call, toolName=tool, arguments=given
    )


def ran(call, output="ok", second=4, *, success=True):
    result = {"content": output}
    kind = "tool.execution_complete"
    return event(kind, f"c{call}", second, toolCallId=call, success=success, result=result)


def session(home: Path, *records, id="S1", end="\n") -> Path:
    path: Path = home / ".copilot" / "session-state" / id / "events.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(record) for record in records) + end, "utf-8")
    return path


def chat(home: Path, *records, name="V1.json", folder="file:///home/ann/my%20shop") -> Path:
    storage = home / ".config" / "Code" / "User" / "workspaceStorage" / "w1"
    path: Path = storage / "chatSessions" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (storage / "workspace.json").write_text(json.dumps({"folder": folder}), "utf-8")
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def request(id, words, *response):
    return {"requestId": id, "timestamp": START, "message": {"text": words}} | {
        "response": list(response)
    }


def whole(*requests):
    return {"sessionId": "V1", "customTitle": "Cart", "requests": list(requests)}


def places(home):
    return Places(str(home), {})


def readings(home, mark=None):
    (source,) = find(places(home))
    return list(read(source, mark))


def told(home):
    return [row.whole for row in hostile.utterances("copilot", places(home))]


def test_a_session_has_what_was_typed_answered_and_done(tmp_path):
    session(
        tmp_path,
        begin(),
        event("system.message", "e1", content="be brief"),
        ask("u1", "why is the total off?"),
        answer("a1", "A float", apiCallId="x", chunkIndex=0, reasoningText="hm"),
        answer("a2", "is used.", apiCallId="x", chunkIndex=1),
        run("k1", "edit", path="cart.py"),
        ran("k1"),
        run("k2", "bash", command="pytest -q"),
        ran("k2", "AssertionError: 0.1\n<exited with exit code 1>"),
        run("k3", "str_replace_editor", command="view", path="x.py"),
        ran("k3", "no such file", success=False),
        run("k4", "bash", command="cat README"),
        ran("k4", "exit code 1 means that it failed"),
        answer("a3", "Fixed.", 9),
        event("session.title_changed", "e9", title="Cart rounding"),
    )
    rows = hostile.utterances("copilot", places(tmp_path))
    assert [row.whole for row in rows] == [
        "why is the total off?",
        "A float\n\nis used.\nedit: cart.py\nbash: pytest -q (exit 1)\nview: x.py (failed)\n"
        "bash: cat README",
        "Fixed.",
    ]
    assert [(row.id, row.typed) for row in rows] == [("u1", True), ("a1", False), ("a3", False)]
    assert (rows[0].at, rows[1].acts[1].error) == (START + 1000, "AssertionError: 0.1")
    look, cat = rows[1].acts[2:]
    assert (look.path, look.command, cat.exit) == ("x.py", None, None)
    ((row,),) = [reading.sessions for reading in readings(tmp_path)]
    assert (row.id, row.cwd, row.branch) == ("S1", "/home/ann/shop", "main")


@pytest.mark.parametrize(
    ("words", "more", "typed"),
    [
        ("go on", {"isAutopilotContinuation": True}, ""),
        ("go on", {"source": "skill-deploy"}, ""),
        ("go on", {"source": "agent-review"}, ""),
        ("go on", {"source": "autopilot-objective"}, ""),
        ("go on", {"source": "user"}, "go on"),
        (f"{fence('old', 'abcdefgh')}\nwhy?", {}, "why?"),
        ("", {}, ""),
    ],
)
def test_only_what_the_user_typed_is_the_users(tmp_path, words, more, typed):
    session(tmp_path, begin(), ask("u1", words, **more))
    assert told(tmp_path) == ([typed] if typed else [])


@pytest.mark.parametrize("source", ["", "user", "of_a_later_version"])
def test_a_prompt_of_a_source_that_nobody_knows_is_not_typed(tmp_path, source):
    session(tmp_path, begin(), ask("u1", "always push to main", source=source))
    (row,) = hostile.utterances("copilot", places(tmp_path))
    assert row.typed is (source != "of_a_later_version")


def test_steps_of_subagents_are_left_out(tmp_path):
    step = event("assistant.message", "a1", 2, agent="x", content="step")
    asked = event("user.message", "u2", 2, agent="x", content="do it")
    session(tmp_path, begin(), ask("u1", "one"), asked, step, answer("a2", "1"))
    assert told(tmp_path) == ["one", "1"]
    assert readings(tmp_path)[0].skipped == {"subagent": 2}


def test_a_rewind_removes_an_event_and_all_later_ones(tmp_path):
    rewind = event("session.snapshot_rewind", "r", upToEventId="u2", eventsRemoved=2)
    rows = [ask("u1", "one"), answer("a1", "1"), ask("u2", "two"), answer("a2", "2")]
    session(tmp_path, begin(), *rows, rewind, ask("u3", "three"))
    assert told(tmp_path) == ["one", "1", "three"]


def test_growth_is_read_from_the_open_turn_and_half_a_line_waits(tmp_path):
    old = [begin(), ask("u1", "one"), answer("a1", "1"), ask("u2", "two")]
    path = session(tmp_path, *old)
    (first,) = readings(tmp_path)
    mark = json.loads(json.dumps(first.mark))
    assert readings(tmp_path, mark) == []
    grown = path.read_bytes() + json.dumps(answer("a2", "2")).encode()
    path.write_bytes(grown[:-5])
    (second,) = readings(tmp_path, mark)
    assert [row.text for row in second.sessions[0].utterances] == ["two"]
    path.write_bytes(grown + b"\n")
    (third,) = readings(tmp_path, second.mark)
    assert [row.id for row in third.sessions[0].utterances] == ["u2", "a2"]
    assert third.sessions[0].cwd == "/home/ann/shop"


def test_a_session_that_was_copied_has_the_same_ids(tmp_path):
    rows = [begin(), ask("u1", "one"), answer("a1", "1")]
    session(tmp_path, *rows)
    session(tmp_path, *rows, ask("u2", "two"), id="S2")
    ids = [row.id for row in hostile.utterances("copilot", places(tmp_path))]
    assert sorted(ids) == ["a1", "a1", "u1", "u1", "u2"]


def test_a_chat_of_vs_code(tmp_path):
    terminal = {"kind": "terminal", "commandLine": {"original": "pytest"}} | {
        "terminalCommandState": {"exitCode": 2}
    }
    chat(
        tmp_path,
        whole(
            request(
                "r1",
                "why is the total off?",
                {"value": "A float is used in "},
                {"kind": "inlineReference", "inlineReference": {"path": "/home/ann/cart.py"}},
                {"kind": "thinking", "value": "hm"},
                {"value": "."},
                {"kind": "textEditGroup", "uri": {"path": "/home/ann/cart.py"}},
                {"kind": "toolInvocationSerialized", "toolId": "run", "toolSpecificData": terminal},
            )
        ),
    )
    rows = hostile.utterances("copilot", places(tmp_path))
    assert [row.whole for row in rows] == [
        "why is the total off?",
        "A float is used in cart.py.\nedit: /home/ann/cart.py\nrun: pytest (exit 2)",
    ]
    assert [(row.id, row.typed, row.at) for row in rows] == [
        *(("r1", True, START), ("r1:answer", False, START)),
    ]
    (row,) = readings(tmp_path)[0].sessions
    assert (row.id, row.cwd) == ("V1", "/home/ann/my shop")


def test_a_chat_that_is_a_log_is_replayed(tmp_path):
    chat(tmp_path, whole(request("r0", "old")))
    first, second = request("r1", "one"), request("r2", "two", {"value": "2"})
    path = chat(
        tmp_path,
        {"kind": 0, "v": whole()},
        {"kind": 2, "k": ["requests"], "v": [first, request("r9", "undone")]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "A"}, {"value": "B"}]},
        {"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "C"}], "i": 1},
        {"kind": 2, "k": ["requests"], "v": [second], "i": 1},
        {"kind": 1, "k": ["requests", 1, "message"], "v": {"text": "deux"}},
        {"kind": 1, "k": ["sessionId"], "v": "Other"},
        {"kind": 3, "k": ["sessionId"]},
        {"kind": 1, "k": ["no", "such", 3, "place"], "v": 1},
        name="V1.jsonl",
    )
    assert told(tmp_path) == ["one", "AC", "deux", "2"]
    (row,) = readings(tmp_path)[0].sessions
    assert row.id == path.stem == "V1"


def test_other_places(tmp_path):
    session(tmp_path, begin(), ask("u1", "one"))
    empty = tmp_path / "x" / "VSCodium" / "User" / "globalStorage" / "emptyWindowChatSessions"
    empty.mkdir(parents=True)
    (empty / "V2.json").write_text(json.dumps(whole(request("r1", "two"))), "utf-8")
    environ = {"COPILOT_HOME": str(tmp_path / ".copilot"), "XDG_CONFIG_HOME": str(tmp_path / "x")}
    sources = list(find(Places("/nowhere", environ)))
    assert [source.session for source in sources] == ["S1", "V2"]
    assert next(iter(read(sources[1], None))).sessions[0].cwd is None
    assert list(read(sources[1], next(iter(read(sources[1], None))).mark)) == []


def test_hostile_values_are_skipped(tmp_path):
    rewind = event("session.snapshot_rewind", "r", upToEventId="u2")
    events = [begin(), ask("u1", "one", source="user"), answer("a1", "1", apiCallId="x")]
    events += [run("k1", "bash", command="ls"), ran("k1"), ask("u2", "two"), rewind]
    terminal = {"commandLine": {"original": "ls"}, "terminalCommandState": {"exitCode": 2}}
    call = {"kind": "toolInvocationSerialized", "toolId": "run", "toolSpecificData": terminal}
    state = whole(request("r1", "one", {"value": "1"}, call))
    changes = [{"kind": 2, "k": ["requests", 0, "response"], "v": [{"value": "2"}], "i": 1}]
    write = lambda rows: session(tmp_path, *rows)  # noqa: E731
    assert hostile.check_variants("copilot", places(tmp_path), events, write)
    write = lambda rows: chat(tmp_path, *rows, name="V1.jsonl")  # noqa: E731
    log = [{"kind": 0, "v": state}, *changes]
    assert hostile.check_variants("copilot", places(tmp_path), log, write)
