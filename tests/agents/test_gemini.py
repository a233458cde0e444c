"""Gemini CLI's logs: replayed to the end, rewound, and known by the folder they lie in."""

import json
import os
from html import escape
from pathlib import Path

import pytest

from plait.agents.histories import Places
from plait.agents.histories.gemini import find, read
from plait.facts.echo import fence
from tests.agents import hostile

ABOUT = {"sessionId": "G1", "projectHash": "x", "startTime": "2026-11-02T08:00:00.000Z"}


def user(id, content, **more):
    return {
        "id": id,
        "timestamp": "2026-11-02T08:00:01.000Z",
        "type": "user",
        "content": content,
    } | more


def model(id, content, *calls, **more):
    row = {"id": id, "timestamp": "2026-11-02T08:00:02.000Z", "type": "gemini", "content": content}
    return row | {"thoughts": [{"subject": "hm"}], "toolCalls": list(calls)} | more


FAILED = (
    "Command: pytest\nDirectory: (root)\nOutput: 1 failed\nAssertionError: 0.1\nError: (none)\n"
    "Exit Code: 1\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: 7"
)


def call(name, status="success", output="", **args):
    result = [{"functionResponse": {"response": {"output": output}}}]
    return {"id": "k", "name": name, "args": args, "status": status, "result": result}


def chat(home: Path, *records, name="session-1.jsonl", end="\n", slug="shop") -> Path:
    project = home / ".gemini" / "tmp" / slug
    path: Path = project / "chats" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (project / ".project_root").write_text("/home/ann/shop\n", "utf-8")
    path.write_text("\n".join(json.dumps(record) for record in records) + end, "utf-8")
    return path


def places(home):
    return Places(str(home), {})


def readings(home, mark=None):
    (source,) = find(places(home))
    return list(read(source, mark))


def told(home):
    return [row.whole for row in hostile.utterances("gemini", places(home))]


def test_places_that_are_pipes_are_not_waited_for(tmp_path):
    path = chat(tmp_path, ABOUT, user("m1", "why?"))
    root = path.parents[1] / ".project_root"
    root.unlink()
    os.mkfifo(root)
    os.mkfifo(tmp_path / ".gemini" / "settings.json")
    assert readings(tmp_path)[0].sessions[0].cwd is None


def test_a_session_has_what_was_typed_answered_and_done(tmp_path):
    path = chat(
        tmp_path,
        ABOUT,
        user("m1", [{"text": "why is the total off?"}]),
        model(
            "m2",
            "A float is used.",
            call("replace", file_path="cart.py"),
            call("run_shell_command", command="pytest", output=FAILED),
            call("read_file", "error", absolute_path="x.py"),
        ),
        {"id": "m3", "type": "info", "content": "update available"},
        {"$set": {"summary": "Cart rounding"}},
    )
    rows = hostile.utterances("gemini", places(tmp_path))
    assert [row.whole for row in rows] == [
        "why is the total off?",
        "A float is used.\nreplace: cart.py\nrun_shell_command: pytest (exit 1)\n"
        "read_file: x.py (failed)",
    ]
    assert [(row.id, row.typed, row.at) for row in rows] == [
        ("G1:m1", True, 1793606401000),
        ("G1:m2", False, 1793606402000),
    ]
    assert (rows[1].acts[1].exit, rows[1].acts[1].error) == (1, "AssertionError: 0.1")
    ((session,),) = [reading.sessions for reading in readings(tmp_path)]
    assert (session.id, session.cwd) == ("G1", "/home/ann/shop")
    (source,) = find(places(tmp_path))
    assert source.expires_at == round(path.stat().st_mtime * 1000) + 30 * 86_400_000


@pytest.mark.parametrize(
    ("content", "typed"),
    [
        ("why?", "why?"),
        (["why?", {"text": "now"}, {"inlineData": {}}], "why?\n\nnow"),
        ({"text": "why?"}, "why?"),
        ("<session_context>x</session_context>", ""),
        ("<hook_context>x</hook_context>\nwhy?", "why?"),
        ([{"text": "why?"}, {"text": "<hook_context>x</hook_context>"}], "why?"),
        ([{"text": "Here is the user's editor context as a JSON object.\n{}"}], ""),
        ([{"text": "Here is the user's editor context. It has x"}, {"text": "why?"}], "why?"),
        ("Here is a summary of changes in the user's editor context, in JSON format. {}", ""),
        ("System: Please continue.", ""),
        ("/memory show", ""),
        ("? help", ""),
        ("what is <hook_context>x</hook_context>?", None),
        (f"why?\n{escape(fence('old', 'abcdefgh'))}", "why?"),
        (f"{fence('old', 'abcdefgh')}\nwhy?", "why?"),
    ],
)
def test_only_what_the_user_typed_is_the_users(tmp_path, content, typed):
    chat(tmp_path, ABOUT, user("m1", content))
    expected = content if typed is None else typed
    assert told(tmp_path) == ([expected] if expected else [])


def test_what_was_shown_counts_before_what_was_sent(tmp_path):
    chat(tmp_path, ABOUT, user("m1", "why? --- content of a.py ---", displayContent="why? @a.py"))
    assert told(tmp_path) == ["why? @a.py"]


def test_a_message_that_repeats_counts_once_and_as_it_was_last(tmp_path):
    chat(tmp_path, ABOUT, user("m1", "why?"), model("m2", "A"), model("m2", "A float."))
    assert told(tmp_path) == ["why?", "A float."]


def test_a_compression_takes_no_turn_away_and_its_summary_is_not_the_users(tmp_path):
    rows = [user("m1", "why is the total off?"), model("m2", "A float is used.")]
    kept = [user("m3", "and the tax?"), model("m4", "It is fine.")]
    summary = [user("s1", [{"text": "<state_snapshot>\n<overall_goal>x</overall_goal>"}])]
    summary.append(model("s2", "Got it. Thanks for the additional context!"))
    chat(tmp_path, ABOUT, *rows, *kept, {"$set": {"messages": [*summary, *kept]}})
    everything = ["why is the total off?", "A float is used.", "and the tax?", "It is fine."]
    assert told(tmp_path) == everything
    later = [user("m5", "thanks"), {"$set": {"messages": [*summary, *kept, user("m5", "thanks")]}}]
    compressed = {"$set": {"messages": [*summary, *kept]}}
    chat(tmp_path, ABOUT, *rows, *kept, compressed, *later, {"$rewindTo": "m5"})
    assert told(tmp_path) == everything


WORK = [
    user("m1", "continue"),
    model("m2", "Done.", call("run_shell_command", command="make")),
    user("m3", [{"text": "and the tax?"}]),
    model("m4", "It is fine.", {**call("read_file", absolute_path="x.py"), "id": "k2"}),
    user("m5", "continue"),
    model("m6", "Done."),
]
SUMMARY = [
    user("s1", [{"text": "<state_snapshot>\n<overall_goal>x</overall_goal>"}]),
    model("s2", "Got it. Thanks for the additional context!"),
]


def anew(rows, start):
    """Messages as Gemini writes them after it changed what the model has: other ids and times."""
    copies = []
    for number, row in enumerate(rows, start):
        parts = [{"text": row["content"]}] if isinstance(row["content"], str) else row["content"]
        calls = [{"functionCall": {"id": one["id"]}} for one in row.get("toolCalls", ())]
        copies.append(
            {"id": f"c{number}", "timestamp": "2026-11-02T09:00:00.000Z"}
            | {"type": row["type"], "content": [*parts, *calls]}
        )
    return copies


def ids(home):
    return [row.id.removeprefix("G1:") for row in hostile.utterances("gemini", places(home))]


def test_turns_that_a_compression_writes_anew_are_not_there_twice(tmp_path):
    first = {"$set": {"messages": [*SUMMARY, *anew(WORK[2:], 1)]}}
    chat(tmp_path, ABOUT, *WORK)
    before = told(tmp_path)
    records = [ABOUT, *WORK, first]
    chat(tmp_path, *records)
    assert (told(tmp_path), ids(tmp_path)) == (before, ["m1", "m2", "m3", "m4", "m5", "m6"])
    # The last answer grows, another follows, and a prompt that was stopped is taken out.
    copies = anew(WORK[2:], 1)
    records += [{**copies[-1], "tokens": {}}, user("m7", "continue"), model("m8", "Done.")]
    records += [user("m9", "stopped")]
    live = [*SUMMARY, *copies, *records[-3:-1]]
    records.append({"$set": {"messages": live}})
    chat(tmp_path, *records)
    assert ids(tmp_path) == ["m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"]
    # A second one, and results that are cut short: all lines are appended under new ids first.
    again = [user("s3", "<state_snapshot>y"), SUMMARY[1], *anew(records[-4:-2], 20)]
    cut = anew([*again], 30)
    chat(tmp_path, *records, {"$set": {"messages": again}}, *cut, {"$set": {"messages": cut}})
    assert ids(tmp_path) == ["m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"]
    assert told(tmp_path)[: len(before)] == before


def test_what_is_written_anew_keeps_its_ids_times_and_calls(tmp_path):
    copies = anew(WORK, 1)
    chat(tmp_path, ABOUT, *WORK)
    (before,) = [reading.sessions for reading in readings(tmp_path)]
    chat(tmp_path, ABOUT, *WORK, *copies, {"$set": {"messages": copies}})
    (after,) = [reading.sessions for reading in readings(tmp_path)]
    assert after == before
    chat(tmp_path, ABOUT, *WORK, *copies, {"$set": {"messages": copies}}, {"$rewindTo": "c5"})
    assert ids(tmp_path) == ["m1", "m2", "m3", "m4"]


def test_what_is_said_again_is_no_copy(tmp_path):
    more = [user("m7", "continue"), model("m8", "Done.")]
    chat(tmp_path, ABOUT, *WORK, *more, {"$set": {"messages": [*SUMMARY, *WORK[2:], *more]}})
    assert ids(tmp_path) == ["m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8"]
    chat(tmp_path, ABOUT, *WORK, *more, {"$set": {"messages": [*WORK[:4], *more]}})
    assert ids(tmp_path) == ["m1", "m2", "m3", "m4", "m7", "m8"]


def test_the_context_of_older_versions_is_not_the_users(tmp_path):
    context = (
        "This is the Gemini CLI. We are setting up the context for our chat.\nToday is Monday."
    )
    chat(tmp_path, ABOUT, user("m1", context), model("m2", "Got it. Thanks for the context!"))
    assert readings(tmp_path)[0].sessions == []


def test_a_list_of_messages_replaces_all(tmp_path):
    chat(tmp_path, ABOUT, user("m1", "old"), {"$set": {"messages": [user("m2", "new")]}})
    assert told(tmp_path) == ["new"]


@pytest.mark.parametrize(("to", "left"), [("m3", ["one", "1", "three"]), ("m9", ["three"])])
def test_a_rewind_removes_a_message_and_all_later_ones(tmp_path, to, left):
    rows = [user("m1", "one"), model("m2", "1"), user("m3", "two"), model("m4", "2")]
    chat(tmp_path, ABOUT, *rows, {"$rewindTo": to}, user("m5", "three"))
    assert told(tmp_path) == left


def test_growth_keeps_ids_and_half_a_line_waits(tmp_path):
    path = chat(tmp_path, ABOUT, user("m1", "one"))
    (first,) = readings(tmp_path)
    assert readings(tmp_path, json.loads(json.dumps(first.mark))) == []
    whole = path.read_bytes() + json.dumps(model("m2", "1")).encode()
    path.write_bytes(whole[:-5])
    (second,) = readings(tmp_path, first.mark)
    assert second.sessions == first.sessions
    path.write_bytes(whole + b"\n")
    (third,) = readings(tmp_path, second.mark)
    assert [row.id for row in third.sessions[0].utterances] == ["G1:m1", "G1:m2"]


def test_an_old_file_is_read_and_the_log_that_continues_it_comes_first(tmp_path):
    old = {**ABOUT, "messages": [user("m1", "one"), model("m2", "1", type="model")]}
    chat(tmp_path, old, name="session-1.json")
    before = hostile.utterances("gemini", places(tmp_path))
    assert [row.text for row in before] == ["one", "1"]
    chat(tmp_path, ABOUT, *old["messages"], user("m3", "two"))
    after = hostile.utterances("gemini", places(tmp_path))
    assert after[:2] == before
    assert [row.text for row in after] == ["one", "1", "two"]


def test_subagents_are_told_apart_and_other_files_left_out(tmp_path):
    chat(
        tmp_path,
        {**ABOUT, "kind": "subagent", "sessionId": "G2"},
        user("m1", "go"),
        name="G1/G2.jsonl",
    )
    (tmp_path / ".gemini" / "tmp" / "shop" / "logs.json").write_text("[]", "utf-8")
    (source,) = find(places(tmp_path))
    ((session,),) = [reading.sessions for reading in read(source, None)]
    assert (source.kind, session.kind, session.id) == ("subagent", "subagent", "G2")
    assert [row.typed for row in session.utterances] == [False]


def test_the_project_is_known_by_its_short_name_and_retention_by_the_settings(tmp_path):
    path = chat(tmp_path, ABOUT, user("m1", "one"))
    (path.parent.parent / ".project_root").unlink()
    top = tmp_path / ".gemini"
    (top / "projects.json").write_text('{"projects": {"/home/ann/store": "shop"}}', "utf-8")
    settings = {"general": {"sessionRetention": {"enabled": False}}}
    (top / "settings.json").write_text(json.dumps(settings), "utf-8")
    elsewhere = Places("/nowhere", {"GEMINI_CLI_HOME": str(tmp_path)})
    (source,) = find(elsewhere)
    assert source.expires_at is None
    assert next(iter(read(source, None))).sessions[0].cwd == "/home/ann/store"


def test_hostile_values_are_skipped(tmp_path):
    records = [
        {**ABOUT, "kind": "main"},
        user("m1", [{"text": "one"}], displayContent="one"),
        model(
            "m2", [{"text": "1"}], call("run_shell_command", command="ls", output="Exit Code: 1")
        ),
        {"$set": {"summary": "x", "messages": [user("m1", "one"), user("m4", "two")]}},
        user("m5", "three"),
        {"$rewindTo": "m5"},
    ]
    write = lambda rows: chat(tmp_path, *rows)  # noqa: E731
    assert hostile.check_variants("gemini", places(tmp_path), records, write)
    assert hostile.check_variants(
        "gemini",
        places(tmp_path),
        [{**ABOUT, "messages": records[1:3]}],
        lambda rows: chat(tmp_path, *rows, name="session-2.json"),
    )
