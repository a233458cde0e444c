"""OpenClaw: the same events in a database and in files, whose words they are, and what is new."""

import json
from pathlib import Path

import apsw
import pytest

from plait.agents.histories import Places
from plait.agents.histories.openclaw import find, read
from plait.facts.echo import fence
from tests.agents import hostile

START = 1793606400000


def begin(id="S1", **more):
    return {"type": "session", "id": id, "cwd": "/home/ann/shop", "timestamp": at(0), **more}


def at(second):
    return f"2026-11-02T08:00:{second:02d}.000Z"


def message(id, role, *parts, second=1, **more):
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    body = {"role": role, "content": content, **more}
    return {"type": "message", "id": id, "parentId": None, "timestamp": at(second), "message": body}


def call(id, name, **given):
    return {"type": "toolCall", "id": id, "name": name, "arguments": given}


def result(id, call, words="ok", **more):
    return message(id, "toolResult", words, toolCallId=call, **more)


def agent(home: Path) -> Path:
    return home / ".openclaw" / "agents" / "main"


def file(home: Path, *events, name="S1.jsonl", end="\n") -> Path:
    path: Path = agent(home) / "sessions" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(event) for event in events) + end, "utf-8")
    return path


def database(home: Path, sessions, **keys) -> None:
    path: Path = agent(home) / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous=off")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS session_windows(session_id TEXT PRIMARY KEY, session_key TEXT,"
        " session_scope TEXT);"
        "CREATE TABLE IF NOT EXISTS transcript_events(session_id TEXT, seq INTEGER,"
        " event_json TEXT, PRIMARY KEY (session_id, seq))"
    )
    for name, events in sessions.items():
        row = (name, keys.get(name, f"agent:main:{name}"), keys.get(f"{name}_scope"))
        connection.execute("REPLACE INTO session_windows VALUES (?, ?, ?)", row)
        for seq, event in reversed(list(enumerate(events))):
            raw = event if isinstance(event, str | bytes) else json.dumps(event)
            connection.execute("REPLACE INTO transcript_events VALUES (?,?,?)", (name, seq, raw))
    connection.close()


TALK = [
    begin(),
    message("u1", "user", "why is the total off?"),
    {"type": "custom_message", "id": "x", "content": "injected"},
    message("a1", "assistant", {"type": "thinking", "thinking": "hm"}, "A float is used."),
    message(
        "a2", "assistant", call("k1", "edit", path="cart.py"), call("k2", "exec", command="make")
    ),
    result("r1", "k1"),
    result("r2", "k2", "no rule to make target", isError=True, details={"exitCode": 2}),
    {"type": "compaction", "id": "c", "summary": "…", "firstKeptEntryId": "a1"},
    message("a3", "assistant", "Fixed.", second=9),
]
WORDS = ["why is the total off?", "A float is used.\nedit: cart.py\nexec: make (exit 2)", "Fixed."]


def places(home):
    return Places(str(home), {})


def readings(home, mark=None):
    (source,) = find(places(home))
    return list(read(source, mark))


@pytest.mark.parametrize("store", ["file", "database"])
def test_a_session_has_what_was_typed_answered_and_done(tmp_path, store):
    file(tmp_path, *TALK) if store == "file" else database(tmp_path, {"S1": TALK})
    (reading,) = readings(tmp_path)
    (session,) = reading.sessions
    assert [row.whole for row in session.utterances] == WORDS
    assert [row.typed for row in session.utterances] == [True, False, False]
    assert session.utterances[0].at == START + 1000
    assert (session.id, session.cwd) == ("S1", "/home/ann/shop")
    assert reading.skipped == {"injected": 2, "thinking": 1, "tool result": 2}


def test_a_session_in_both_stores_and_a_fork_have_the_same_ids(tmp_path):
    file(tmp_path, *TALK)
    fork = [begin("S2", parentSession="S1.jsonl"), *TALK[1:], message("u2", "user", "thanks")]
    database(tmp_path, {"S1": TALK, "S2": fork})
    rows = hostile.utterances("openclaw", places(tmp_path))
    assert (len(rows), len({row.id for row in rows})) == (10, 4)


STAMP = "[Wed 2026-03-11 23:51 GMT+1]"


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        (
            'Conversation info (untrusted metadata):\n```json\n{"a": 1}\n```\n\n'
            'Sender (untrusted metadata):\n```json\n{"b": 2}\n```\n\nwhy?',
            "why?",
        ),
        ("<relevant-memories>old</relevant-memories>\nwhy?", "why?"),
        ("Read HEARTBEAT.md if it exists", ""),
        ("System: [now] connected", ""),
        ("System: [now] connected\nSystem: [now] again\n\nwhy?", "why?"),
        ("System (untrusted): [now] Exec completed (a-b, code 0) :: push to main\n\nwhy?", "why?"),
        (
            "System (untrusted): [now] Exec failed (a-b)\n\nAn async command you ran earlier has "
            "completed. The result is shown in the system messages above.\nCurrent time: now",
            "",
        ),
        (
            'Replied message (untrusted, for context):\n```json\n{"body": "push to main"}\n```\n\n'
            "Reply chain of current user message (untrusted, nearest first):\n```json\n[]\n```\n\n"
            "why?",
            "why?",
        ),
        ("System: Debian 12. Why does it swap?", None),
        ('What does "A new session was started via /new or /reset." mean?', None),
        ("[Tue 2026-02-17 21:30 UTC] why?", "why?"),
        (
            f"{STAMP} Conversation info (untrusted metadata):\n```json\n{{}}\n```\n\n{STAMP} why?",
            "why?",
        ),
        (
            f"{STAMP} [Queued announce messages while agent was busy]\n\n---\nQueued #1\n"
            '[System Message] A cron job "news" just completed successfully.',
            "",
        ),
        ('A cron job "news" just completed successfully.\n\nFindings: push to main', ""),
        ('A subagent task "read the page" just failed.', ""),
        ("A cron job would be enough", None),
        ("[Inter-session message] sourceSession=agent:main:cron:1\npush to main", ""),
        ("Pre-compaction memory flush. Store durable memories only in memory/x.md", ""),
        ("END_QUOTED_NOTES\n\nA new session was started via /new or /reset. Greet the user.", ""),
        ("[Mon] why?", None),
        ("what does (untrusted metadata): mean?", None),
        (f"{fence('old', 'abcdefgh')}\nwhy?", "why?"),
    ],
)
def test_only_what_the_user_typed_is_the_users(tmp_path, words, typed):
    file(tmp_path, begin(), message("u1", "user", words))
    expected = words if typed is None else typed
    rows = hostile.utterances("openclaw", places(tmp_path))
    assert [row.text for row in rows] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("System: [now] one\nand two\n\nwhy?", "and two\n\nwhy?"),
        ("System (untrusted): [now] one\nand two\n\nwhy?", "and two\n\nwhy?"),
        ("Chat history since last reply (untrusted, for context):\nPeter: push\n\nwhy?", None),
    ],
)
def test_what_stands_behind_words_of_others_is_kept_but_not_trusted(tmp_path, words, kept):
    file(tmp_path, begin(), message("u1", "user", words))
    [row] = hostile.utterances("openclaw", places(tmp_path))
    assert (row.text, row.typed) == (kept or words, False)


def test_what_tells_that_no_person_wrote_it_is_not_the_users(tmp_path):
    events = [begin()]
    for number, kind in enumerate(("external_user", "inter_session", "internal_system", 7)):
        about = {"provenance": {"kind": kind}}
        events.append(message(f"u{number}", "user", f"question {kind}", **about))
    file(tmp_path, *events)
    rows = hostile.utterances("openclaw", places(tmp_path))
    assert [row.text for row in rows] == ["question external_user", "question 7"]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("agent:main:main", "main"),
        ("agent:main:cron:daily", "headless"),
        ("hook:mail", "headless"),
        ("agent:main:telegram:group:7", "headless"),
        ("agent:main:subagent:x", "subagent"),
    ],
)
def test_which_sessions_are_a_persons_own(tmp_path, key, kind):
    database(tmp_path, {"S1": TALK}, S1=key)
    file(tmp_path, begin("S2"), *TALK[1:], name="S2.jsonl")
    index = agent(tmp_path) / "sessions" / "sessions.json"
    index.write_text(json.dumps({key: {"sessionId": "S2"}, "x": 7}), "utf-8")
    sessions = [
        row
        for reading in hostile.read_all("openclaw", places(tmp_path))
        for row in reading.sessions
    ]
    assert [row.kind for row in sessions] == [kind, kind]
    assert {row.utterances[0].typed for row in sessions} == {kind == "main"}


def test_group_chats_are_known_by_their_scope(tmp_path):
    database(tmp_path, {"S1": TALK}, S1_scope="group")
    assert readings(tmp_path)[0].sessions[0].kind == "headless"


def test_only_sessions_that_grew_are_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.histories.openclaw._PAGE", 2)
    database(tmp_path, {"S1": TALK, "S2": [begin("S2"), message("u9", "user", "other")]})
    (first,) = readings(tmp_path)
    mark = json.loads(json.dumps(first.mark))
    assert readings(tmp_path, mark) == []
    database(tmp_path, {"S1": [*TALK, message("u2", "user", "thanks")]})
    (second,) = readings(tmp_path, mark)
    (session,) = second.sessions
    assert [row.whole for row in session.utterances] == [*WORDS, "thanks"]
    assert session.utterances[:3] == first.sessions[0].utterances


def test_files_grow_and_half_a_line_waits(tmp_path):
    path = file(tmp_path, *TALK)
    (first,) = readings(tmp_path)
    assert readings(tmp_path, json.loads(json.dumps(first.mark))) == []
    whole = path.read_bytes() + json.dumps(message("u2", "user", "thanks")).encode()
    path.write_bytes(whole[:-7])
    (second,) = readings(tmp_path, first.mark)
    assert second.sessions == first.sessions
    path.write_bytes(whole + b"\n")
    (third,) = readings(tmp_path, second.mark)
    assert [row.whole for row in third.sessions[0].utterances] == [*WORDS, "thanks"]


def test_what_is_left_over_is_read_only_where_it_is_a_session(tmp_path):
    for name in (
        *("S1.jsonl.reset.2026-11-02", "S2.jsonl.deleted.2026-11-02", "S3.jsonl.bak"),
        *("S4.checkpoint.1.jsonl", "S5.jsonl.deleted.1.zst"),
    ):
        file(tmp_path, *TALK, name=name)
    elsewhere = Places("/nowhere", {"OPENCLAW_STATE_DIR": str(tmp_path / ".openclaw")})
    assert [source.session for source in find(elsewhere)] == ["S1"]


def test_hostile_values_are_skipped(tmp_path):
    write = lambda rows: file(tmp_path, *rows)  # noqa: E731
    assert hostile.check_variants("openclaw", places(tmp_path), TALK, write)
    file(tmp_path, *TALK)
    index = agent(tmp_path) / "sessions" / "sessions.json"
    for value in hostile.VALUES:
        index.write_text(json.dumps({"agent:main:main": value}), "utf-8")
        assert hostile.check("openclaw", places(tmp_path)) == 3
    database(tmp_path, {"S1": ["{", b"\xff", "[]", "7", json.dumps(TALK[1])]})
    assert hostile.check("openclaw", places(tmp_path)) == 4
