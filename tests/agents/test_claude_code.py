"""Claude Code's session files: whose words they are, what is joined, and what is read again."""

import json
import os
from html import escape
from pathlib import Path

import pytest

from plait.agents.histories import Places, Reading, Utterance
from plait.agents.histories.claude_code import find, read
from plait.facts.echo import fence

HEAD = {"sessionId": "S1", "cwd": "/home/ann/shop", "gitBranch": "main", "isSidechain": False}
SESSION = "11111111-1111-4111-8111-111111111111"


def user(uuid, content, **more):
    message = {"role": "user", "content": content}
    at = more.pop("timestamp", f"2026-11-02T08:00:{len(uuid):02d}.000Z")
    return {"type": "user", "uuid": uuid, "timestamp": at, "message": message, **HEAD, **more}


def answer(uuid, *parts, id="msg_1", **more):
    message = {"id": id, "role": "assistant", "content": list(parts)}
    at = more.pop("timestamp", "2026-11-02T08:01:00.000Z")
    return {"type": "assistant", "uuid": uuid, "timestamp": at, "message": message, **HEAD, **more}


def text(words):
    return {"type": "text", "text": words}


def call(id, name, **given):
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def result(uuid, id, words="ok", *, is_error=False):
    part = {"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": words}
    return user(uuid, [part])


def command(name, words=""):
    message = f"<command-message>{name[1:]}</command-message>"
    return f"<command-name>{name}</command-name>\n{message}\n<command-args>{words}</command-args>"


def places(home: Path) -> Places:
    return Places(str(home), {})


def transcript(home: Path, *records, session=SESSION, end="\n") -> Path:
    path = home / ".claude" / "projects" / "-home-ann-shop" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(json.dumps(record) for record in records)
    path.write_text(lines + end, "utf-8")
    return path


def readings(home: Path, mark=None) -> list[Reading]:
    (source,) = find(places(home))
    return list(read(source, mark))


def utterances(home: Path) -> list[Utterance]:
    rows = [session for reading in readings(home) for session in reading.sessions]
    return [utterance for session in rows for utterance in session.utterances]


def said(home: Path) -> list[str]:
    return [utterance.whole for utterance in utterances(home)]


def test_one_answer_in_several_lines_is_one_utterance_with_its_calls(tmp_path):
    transcript(
        tmp_path,
        user("u1", "why is the total off?"),
        answer("a1", {"type": "thinking", "thinking": "hm"}),
        answer("a2", text("A float is used.")),
        answer("a3", call("t1", "Edit", file_path="cart.py")),
        result("r1", "t1"),
        answer("a4", call("t2", "Bash", command="pytest -q"), id="msg_2"),
        result("r2", "t2", "Exit code 1\nAssertionError: 0.1", is_error=True),
        answer("a5", text("One test still fails."), id="msg_3"),
        {"type": "ai-title", "aiTitle": "Fix cart rounding"},
    )
    rows = utterances(tmp_path)
    assert [row.whole for row in rows] == [
        "why is the total off?",
        "A float is used.\nEdit: cart.py\nBash: pytest -q (exit 1)",
        "One test still fails.",
    ]
    assert [row.id for row in rows] == ["u1", "a2", "a5"]
    assert [row.typed for row in rows] == [True, False, False]
    edit, run = rows[1].acts
    assert (edit.path, run.command, run.exit) == ("cart.py", "pytest -q", 1)
    assert run.error == "AssertionError: 0.1"
    (session,) = readings(tmp_path)[0].sessions
    assert (session.id, session.cwd, session.branch) == (SESSION, "/home/ann/shop", "main")
    assert readings(tmp_path)[0].skipped == {"thinking": 1, "tool result": 2}


def test_calls_before_any_text_of_a_turn_do_not_join_the_users_words(tmp_path):
    transcript(
        tmp_path,
        user("u1", "look"),
        answer("a1", call("t1", "Read", file_path="a.py")),
        answer("a2", call("t2", "Read", file_path="b.py"), id="msg_2"),
        answer("a3", text("Done."), id="msg_3"),
    )
    assert said(tmp_path) == ["look", "Read: a.py\nRead: b.py", "Done."]


@pytest.mark.parametrize(
    ("content", "more", "typed"),
    [
        ("<system-reminder>be brief</system-reminder>\nwhy?", {}, "why?"),
        ("<ide_opened_file>a.py</ide_opened_file> why?", {}, "why?"),
        ([text("<system-reminder>x</system-reminder>"), text("why?")], {}, "why?"),
        ([text("why?"), {"type": "image", "source": {"data": "…"}}], {}, "why?"),
        ("what is <system-reminder>x</system-reminder> for?", {}, None),
        (f"{escape(fence('old', 'abcdefgh'))} why?", {}, "why?"),
        ("what does <<plait-recall abcdefgh>> mean?", {}, None),
        (f"{fence('old', 'abcdefgh')}\nwhy?", {}, "why?"),
        ("<command-name>/fix</command-name><command-args>a.py</command-args>", {}, "/fix a.py"),
        (command("/clear"), {}, ""),
        (command("/model", "opus"), {}, ""),
        (command("/compact", "keep the plan"), {}, ""),
        (command("/init"), {}, ""),
        (command("/init", "only the tests"), {}, "/init only the tests"),
        (command("/review", "PR 77"), {}, "/review PR 77"),
        (command("/deploy"), {}, "/deploy"),
        (f"<system-reminder>x</system-reminder>\n{command('/login')}", {}, ""),
        ("/clear", {}, ""),
        ("/status is slow since Monday", {}, None),
        ("model", {}, "model"),
        ("<user-memory-input>use tabs</user-memory-input>", {}, "use tabs"),
        ("a <b>bold</b> word", {}, None),
        ("<private>x</private> why?", {}, None),
        ("<local-command-stdout>x</local-command-stdout>", {}, ""),
        ("[Request interrupted by user]", {}, ""),
        ("<task-notification>x</task-notification>", {}, ""),
        ('<agent-message from="a">x</agent-message>', {}, ""),
        ('<cross-session-message from="a">x</cross-session-message>', {}, ""),
        ("Another Claude session sent a message:\nx", {}, ""),
        ("Another Claude session sent a message?", {"turnOrigin": "human"}, None),
        ("Stop hook feedback:\n- [lint]: x", {}, ""),
        ("<user-prompt-submit-hook>x</user-prompt-submit-hook>\nwhy?", {}, "why?"),
        ("why?", {"isVisibleInTranscriptOnly": True}, ""),
        ("Caveat: The messages below were generated by the user while running commands.", {}, ""),
        ("Caveat: the table is locked until March.", {}, None),
        ("Stop hook feedback: it never comes. Why?", {}, None),
        ("Another Claude session sent a message to me, or so it seems. Why?", {}, None),
        ("<goal>x</goal>", {}, ""),
        ("This session is being continued from a previous one", {}, ""),
        ("why?", {"isMeta": True}, ""),
        ("why?", {"isCompactSummary": True}, ""),
        ("why?", {"isSidechain": True}, ""),
        ("why?", {"teamName": "blue"}, ""),
        ("why?", {"turnOrigin": "task_notification"}, ""),
        ("why?", {"origin": {"kind": "peer"}}, ""),
        ("why?", {"turnOrigin": "human"}, "why?"),
        ("Caveat: the tests are slow", {"turnOrigin": "human"}, "Caveat: the tests are slow"),
        ("<bash-stdout>rm it</bash-stdout>", {"turnOrigin": "human"}, ""),
        ("<goal> is a tag of ours: why?", {"turnOrigin": "human"}, None),
    ],
)
def test_only_what_the_user_typed_is_the_users(tmp_path, content, more, typed):
    transcript(tmp_path, user("u1", content, **more))
    expected = content if typed is None else typed
    assert [(row.text, row.typed) for row in utterances(tmp_path)] == (
        [(expected, True)] if expected else []
    )


def test_commands_that_set_up_are_counted_and_name_no_session(tmp_path):
    steering = {"type": "queued_command", "prompt": "/compact"}
    transcript(
        tmp_path,
        user("u1", command("/clear")),
        user("u2", command("/model", "opus")),
        user("u3", "why is the total off?"),
        {"type": "attachment", "uuid": "q1", "attachment": steering},
    )
    (reading,) = readings(tmp_path)
    assert reading.skipped == {"command": 3}
    assert said(tmp_path) == ["why is the total off?"]


@pytest.mark.parametrize("is_marked", [True, False])
def test_what_the_program_says_in_the_models_place_is_no_answer(tmp_path, is_marked):
    error = answer("e1", text("API Error: 529 overloaded"), id="msg_0")
    if is_marked:
        error["isApiErrorMessage"] = True
    else:
        error["message"]["model"] = "<synthetic>"
    transcript(
        tmp_path,
        user("u1", "why?"),
        error,
        answer("a1", call("t1", "Read", file_path="a.py")),
        answer("a2", text("Because."), id="msg_2"),
    )
    assert said(tmp_path) == ["why?", "Read: a.py", "Because."]
    assert readings(tmp_path)[0].skipped == {"injected": 1}


def test_a_headless_session_is_named_so_and_its_prompts_are_not_typed(tmp_path):
    transcript(tmp_path, user("u1", "summarise this", turnOrigin="sdk"))
    (session,) = readings(tmp_path)[0].sessions
    assert session.kind == "headless"
    assert [row.typed for row in session.utterances] == [False]


def test_steering_is_read_once(tmp_path):
    steering = {"type": "queued_command", "prompt": [text("also round half up")]}
    transcript(
        tmp_path,
        {"type": "queue-operation", "operation": "enqueue", "content": "also round half up"},
        {"type": "attachment", "uuid": "q1", "attachment": steering},
    )
    assert [(row.text, row.typed) for row in utterances(tmp_path)] == [("also round half up", True)]


@pytest.mark.parametrize("mode", ["prompt", "task-notification", "bash"])
def test_what_waits_for_the_model_is_the_users_only_if_it_is_a_prompt(tmp_path, mode):
    queued = {"type": "queued_command", "prompt": "ls", "commandMode": mode}
    transcript(tmp_path, {"type": "attachment", "uuid": "q1", "attachment": queued})
    assert said(tmp_path) == (["ls"] if mode == "prompt" else [])


def test_lines_of_a_file_that_repeat_are_read_once(tmp_path):
    once = [user("u1", "why?"), answer("a1", text("Because."))]
    transcript(tmp_path, *once, *once)
    assert said(tmp_path) == ["why?", "Because."]


def test_lines_that_a_compaction_copies_are_read_once(tmp_path):
    at = "2026-11-02T09:00:00.000Z"
    transcript(
        tmp_path,
        user("u1", "why?"),
        answer("a1", text("Because.")),
        {"type": "system", "subtype": "compact_boundary", "uuid": "c1", "timestamp": at},
        user("c2", "This session is being continued from", isCompactSummary=True, timestamp=at),
        user("u1b", "why?", timestamp=at),
        answer("a1b", text("Because."), timestamp=at),
        user("u2", "why?", timestamp="2026-11-02T09:05:00.000Z"),
    )
    assert said(tmp_path) == ["why?", "Because.", "why?"]


def test_a_compaction_brings_nothing_again_of_what_was_read_before(tmp_path):
    at = "2026-11-02T09:00:00.000Z"
    old = [user("u1", "why?"), answer("a1", text("Because.")), user("u2", "and then?")]
    transcript(tmp_path, *old)
    (first,) = readings(tmp_path)
    transcript(
        tmp_path,
        *old,
        {"type": "system", "subtype": "compact_boundary", "uuid": "c1", "timestamp": at},
        user("u1b", "why?", timestamp=at),
        answer("a1b", text("Because."), timestamp=at),
        user("u3", "new", timestamp="2026-11-02T09:05:00.000Z"),
    )
    rest = readings(tmp_path, first.mark)
    texts = [row.text for reading in rest for row in reading.sessions[0].utterances]
    assert texts == ["and then?", "new"]


def test_a_copy_in_a_fork_names_its_original(tmp_path):
    transcript(tmp_path, user("n1", "why?", forkedFrom={"sessionId": "S0", "messageUuid": "u1"}))
    assert [(row.id, row.copy_of) for row in utterances(tmp_path)] == [("n1", "u1")]


def test_nothing_is_read_of_a_file_that_did_not_change(tmp_path):
    transcript(tmp_path, user("u1", "why?"))
    (first,) = readings(tmp_path)
    assert readings(tmp_path, first.mark) == []


def test_settings_that_are_a_pipe_are_not_waited_for(tmp_path):
    transcript(tmp_path, user("u1", "why?"))
    os.mkfifo(tmp_path / ".claude" / "settings.json")
    assert said(tmp_path) == ["why?"]


def test_growth_is_read_from_the_beginning_of_the_open_turn(tmp_path):
    old = [user("u1", "one"), answer("a1", text("1")), user("u2", "two")]
    transcript(tmp_path, *old)
    (first,) = readings(tmp_path)
    transcript(tmp_path, *old, answer("a2", text("2"), id="msg_2"))
    (second,) = readings(tmp_path, json.loads(json.dumps(first.mark)))
    (session,) = second.sessions
    assert [row.text for row in session.utterances] == ["two", "2"]
    assert session.cwd == "/home/ann/shop"


def test_a_file_that_was_cut_and_grew_again_is_read_whole(tmp_path):
    transcript(tmp_path, user("u1", "one"), user("u2", "two"), user("u3", "three"))
    (first,) = readings(tmp_path)
    transcript(tmp_path, user("u1", "one"), *(user(f"v{n}", f"other {n}") for n in range(9)))
    (second,) = readings(tmp_path, first.mark)
    assert second.sessions[0].utterances[0].text == "one"


def test_half_a_line_waits(tmp_path):
    path = transcript(tmp_path, user("u1", "one"))
    whole = path.read_bytes() + json.dumps(user("u2", "two")).encode()
    path.write_bytes(whole[:-9])
    (first,) = readings(tmp_path)
    assert [row.text for row in first.sessions[0].utterances] == ["one"]
    assert first.skipped == {}
    path.write_bytes(whole + b"\n")
    (second,) = readings(tmp_path, first.mark)
    assert [row.text for row in second.sessions[0].utterances] == ["one", "two"]


def test_a_broken_line_is_counted_and_the_rest_is_read(tmp_path):
    path = transcript(tmp_path, user("u1", "one"), end="\n{broken\n\x00\x00\n[]\n")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    (reading,) = readings(tmp_path)
    assert [row.text for row in reading.sessions[0].utterances] == ["one"]
    assert reading.skipped == {"broken line": 2}


def test_long_files_come_in_batches_that_end_between_turns(tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.histories.claude_code.FULL", 4)
    rows = []
    for n in range(10):
        rows += [user(f"u{n}", f"q{n}"), answer(f"a{n}", text(f"r{n}"), id=f"msg_{n}")]
    transcript(tmp_path, *rows)
    batches = readings(tmp_path)
    assert len(batches) == 5
    rest = readings(tmp_path, batches[1].mark)
    texts = [row.text for reading in rest for row in reading.sessions[0].utterances]
    assert texts == [f"{side}{n}" for n in range(4, 10) for side in "qr"]


def test_subagents_and_retention_are_told_and_foreign_folders_left_out(tmp_path):
    path = transcript(tmp_path, user("u1", "why?"))
    (tmp_path / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 2}', "utf-8")
    side = path.parent / SESSION / "subagents" / "agent-7.jsonl"
    foreign = path.parent.parent / "-x-observer-sessions" / "a.jsonl"
    for other in (side, foreign):
        other.parent.mkdir(parents=True)
        other.write_text(json.dumps(user("s1", "go", isSidechain=True)) + "\n", "utf-8")
    main, subagent = sorted(find(places(tmp_path)), key=lambda source: source.kind)
    assert (subagent.kind, subagent.session) == ("subagent", f"{SESSION}/agent-7")
    assert main.expires_at == round(path.stat().st_mtime * 1000) + 2 * 86_400_000
    ((session,),) = [reading.sessions for reading in read(subagent, None)]
    assert [(row.text, row.typed) for row in session.utterances] == [("go", False)]
