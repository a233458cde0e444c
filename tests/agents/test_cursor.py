"""Cursor: sessions of the editor's database, transcripts, and which of the two counts."""

import json
from pathlib import Path

import apsw
import pytest

from plait.agents.histories import Places
from plait.agents.histories.cursor import find, read
from plait.agents.importing import import_histories, sources_of
from plait.agents.undoing import undo_import
from plait.memory import Memory
from plait.stores.sqlite import others
from tests.agents import hostile

START = 1793606400000


def bubble(kind, words="", **more):
    return {"type": kind, "text": words, "timingInfo": {"clientStartTime": START + 500.25}} | more


def tool(name, status="completed", result=None, **given):
    call = {"name": name, "params": json.dumps(given), "status": status}
    return bubble(2, toolFormerData=call | {"result": json.dumps(result or {})})


def composer(*bubbles, updated=START, **more):
    headers = [{"bubbleId": f"b{place}", "type": 1} for place in range(len(bubbles))]
    return (
        {"createdAt": START, "lastUpdatedAt": updated, "name": "Cart"}
        | {
            "fullConversationHeadersOnly": headers,
            "workspaceIdentifier": {"id": "w1", "uri": {"fsPath": "/home/ann/shop"}},
        }
        | more
    )


def user_folder(home: Path) -> Path:
    return home / ".config" / "Cursor" / "User"


def database(path: Path, table="cursorDiskKV") -> apsw.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous=off")
    connection.execute(f"CREATE TABLE IF NOT EXISTS {table}(key TEXT UNIQUE, value BLOB)")
    return connection


def put(home: Path, id, about, *bubbles) -> apsw.Connection:
    connection = database(user_folder(home) / "globalStorage" / "state.vscdb")
    rows = {f"composerData:{id}": about}
    rows |= {f"bubbleId:{id}:b{place}": row for place, row in enumerate(bubbles)}
    for key, value in rows.items():
        raw = value if isinstance(value, bytes | None) else json.dumps(value)
        connection.execute("REPLACE INTO cursorDiskKV VALUES (?, ?)", (key, raw))
    return connection


def transcript(home: Path, *records, id="T1", project="home-ann-shop", inside="", end="\n") -> Path:
    top: Path = home / ".cursor" / "projects" / project / "agent-transcripts" / id / inside
    path = top / f"{id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(record) for record in records) + end, "utf-8")
    return path


def line(role, *parts):
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {"role": role, "message": {"content": content}}


def places(home):
    return Places(str(home), {})


def readings(home, mark=None):
    (source,) = find(places(home))
    return list(read(source, mark))


def told(home):
    return [row.whole for row in hostile.utterances("cursor", places(home))]


def test_a_session_of_the_editor(tmp_path):
    rows = [
        bubble(1, "why is the total off?"),
        bubble(2, thinking={"text": "hm"}, capabilityType=30),
        bubble(2, "A float is used."),
        tool("edit_file", target_file="cart.py"),
        tool("run_terminal_cmd", result={"exitCode": 1}, command="pytest"),
        tool("read_file", "error", {"error": "no such file"}, target_file="x.py"),
    ]
    put(tmp_path, "C1", composer(*rows), *rows)
    utterances = hostile.utterances("cursor", places(tmp_path))
    assert [row.whole for row in utterances] == [
        "why is the total off?",
        "A float is used.\nedit_file: cart.py\nrun_terminal_cmd: pytest (exit 1)\n"
        "read_file: x.py (failed)",
    ]
    assert [(row.id, row.typed, row.at) for row in utterances] == [
        *(("b0", True, START + 500), ("b2", False, START + 500)),
    ]
    (session,) = readings(tmp_path)[0].sessions
    assert (session.id, session.cwd) == ("C1", "/home/ann/shop")


def test_the_list_gives_the_order_and_broken_values_are_counted(tmp_path):
    rows = [bubble(1, "one"), bubble(2, "1"), bubble(1, "two")]
    about = composer(*rows)
    about["fullConversationHeadersOnly"].insert(0, {"bubbleId": "gone"})
    connection = put(tmp_path, "C1", about, *rows)
    put(tmp_path, "C2", b"{broken")
    put(tmp_path, "C3", None)
    connection.execute("INSERT INTO cursorDiskKV VALUES ('bubbleId:C1:zz', 'no')")
    (reading,) = readings(tmp_path)
    assert [row.text for row in reading.sessions[0].utterances] == ["one", "1", "two"]
    assert reading.skipped == {"broken record": 2}


def test_old_sessions_hold_their_messages_and_their_workspace_tells_the_folder(tmp_path):
    about = composer(workspaceIdentifier=None)
    about["conversation"] = [bubble(1, "one", bubbleId="x1"), bubble(2, "1", bubbleId="x2")]
    put(tmp_path, "C1", about)
    storage = user_folder(tmp_path) / "workspaceStorage" / "w1"
    known = json.dumps({"allComposers": [{"composerId": "C1"}]})
    database(storage / "state.vscdb", "ItemTable").execute(
        "INSERT INTO ItemTable VALUES ('composer.composerData', ?)", (known,)
    )
    (storage / "workspace.json").write_text('{"folder": "file:///home/ann/store"}', "utf-8")
    (session,) = readings(tmp_path)[0].sessions
    assert session.cwd == "/home/ann/store"
    assert [row.id for row in session.utterances] == ["x1", "x2"]


def test_only_sessions_that_changed_are_read_again(tmp_path):
    for name in ("C1", "C2"):
        put(tmp_path, name, composer(bubble(1)), bubble(1, f"one of {name}")).close()
    (first,) = readings(tmp_path)
    mark = json.loads(json.dumps(first.mark))
    assert readings(tmp_path, mark) == []
    rows = [bubble(1, "one of C2"), bubble(2, "1")]
    put(tmp_path, "C2", composer(*rows, updated=START + 9), *rows).close()
    (second,) = readings(tmp_path, mark)
    assert [(row.id, len(row.utterances)) for row in second.sessions] == [("C2", 2)]


def test_many_sessions_come_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.histories.cursor.FULL", 2)
    monkeypatch.setattr("plait.agents.histories.cursor._PAGE", 2)
    for place in range(5):
        put(tmp_path, f"C{place}", composer(bubble(1)), bubble(1, f"q{place}")).close()
    (source,) = find(places(tmp_path))
    batches = list(read(source, None))
    assert [[row.id for row in batch.sessions] for batch in batches] == [
        *(["C0", "C1"], ["C2", "C3"], ["C4"]),
    ]
    rest = [row.id for batch in read(source, batches[0].mark) for row in batch.sessions]
    assert rest == ["C2", "C3", "C4"]


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        ("<timestamp>now</timestamp>\n<user_query>why?</user_query>", "why?"),
        ("<user_info>x</user_info><cursor_commands>y</cursor_commands>why?", "why?"),
        ("what is <user_query>x</user_query>?", None),
        ("<user_info>x</user_info>", ""),
    ],
)
def test_what_was_typed_in_a_transcript(tmp_path, words, typed):
    transcript(tmp_path, line("user", words))
    expected = words if typed is None else typed
    assert told(tmp_path) == ([expected] if expected else [])


def test_a_transcript_has_words_and_calls_and_grows(tmp_path):
    call = {"type": "tool_use", "name": "Shell", "input": {"command": "pytest"}}
    old = [line("user", "yes"), line("assistant", "Done.", call), line("user", "yes")]
    path = transcript(tmp_path, *old)
    (first,) = readings(tmp_path)
    rows = first.sessions[0].utterances
    assert [row.whole for row in rows] == ["yes", "Done.\nShell: pytest", "yes"]
    assert len({row.id for row in rows}) == 3
    assert rows[0].at == path.stat().st_mtime_ns // 1_000_000
    assert readings(tmp_path, json.loads(json.dumps(first.mark))) == []
    path.write_bytes(path.read_bytes() + json.dumps(line("assistant", "Done.")).encode()[:-4])
    (second,) = readings(tmp_path, first.mark)
    assert [row.id for row in second.sessions[0].utterances] == [row.id for row in rows]


def test_the_folder_of_a_transcript_is_one_that_exists(tmp_path):
    project = tmp_path / "my_app.v2"
    project.mkdir()
    name = "".join(letter if letter.isalnum() else "-" for letter in str(project)).lstrip("-")
    transcript(tmp_path, line("user", "one"), project=name)
    (session,) = readings(tmp_path)[0].sessions
    assert session.cwd == str(project)
    (tmp_path / "my-app-v2").mkdir()
    (session,) = readings(tmp_path)[0].sessions
    assert session.cwd is None


def brought(memory, home):
    return import_histories(memory, sources_of(places(home), ["cursor"]))


def stored(memory):
    rows = memory.delete(where={"kinds": ("message",)}, all_projects=True, dry_run=True).ids
    return sorted(row.text for row in memory.engine.load(list(rows)))


SHELL = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}
# Each once as the database has it, and once as a transcript has it; each lacks something.
BUBBLES = [
    bubble(1, "yes"),
    tool("run_terminal_cmd", result={"exitCode": 0}, command="ls"),
    bubble(1, "why is\n the total off?"),
    bubble(2, "A float is used."),
    bubble(2, "I mend it."),
    bubble(1, "yes"),
    bubble(2, "Only the database has this."),
]
LINES = [
    line("user", "<user_query>\nyes\n</user_query>"),
    line("assistant", SHELL),
    line("user", "<user_query>why is the total off?</user_query>"),
    line("assistant", "A float is used.", "I mend it.\n\n[REDACTED]"),
    line("assistant", "[REDACTED]"),
    line("user", "<user_query>yes</user_query>"),
    line("user", "<user_query>Only the transcript has this.</user_query>"),
]


@pytest.mark.parametrize("first", ["database", "transcript", "both"])
def test_a_session_of_both_sources_is_stored_once(tmp_path, first):
    with Memory.open(tmp_path / "memory.db", embedder="none") as memory:
        if first != "transcript":
            put(tmp_path, "T1", composer(*BUBBLES), *BUBBLES).close()
        if first != "database":
            transcript(tmp_path, *LINES)
        brought(memory, tmp_path)
        put(tmp_path, "T1", composer(*BUBBLES, updated=START + 1), *BUBBLES).close()
        transcript(tmp_path, *LINES)
        brought(memory, tmp_path)
        texts = stored(memory)
        assert sum(text.startswith("yes") for text in texts) == 2
        for words in ("total off", "A float", "I mend", "Only the database", "Only the trans"):
            assert sum(words in text for text in texts) == 1, (words, texts)
        assert not any("REDACTED" in text for text in texts)
        assert len(texts) == (7 if first == "transcript" else 8)
        again = brought(memory, tmp_path)
        assert (again.messages, again.replaced) == (0, 0)


def test_a_message_that_was_deleted_does_not_return_from_the_other_source(tmp_path):
    with Memory.open(tmp_path / "memory.db", embedder="none") as memory:
        transcript(tmp_path, *LINES)
        brought(memory, tmp_path)
        memory.delete(where={"kinds": ("message",)}, all_projects=True)
        put(tmp_path, "T1", composer(*BUBBLES), *BUBBLES).close()
        brought(memory, tmp_path)
        assert stored(memory) == ["Only the database has this."]


def test_what_was_undone_comes_from_either_source_again(tmp_path):
    with Memory.open(tmp_path / "memory.db", embedder="none") as memory:
        transcript(tmp_path, line("user", "one"))
        brought(memory, tmp_path)
        undo_import(memory)
        put(tmp_path, "T1", composer(bubble(1)), bubble(1, "one")).close()
        assert (brought(memory, tmp_path).messages, stored(memory)) == (1, ["one"])


def test_a_session_that_the_database_lost_comes_from_its_transcript(tmp_path):
    put(tmp_path, "T1", composer())
    transcript(tmp_path, line("user", "one"))
    transcript(tmp_path, line("user", "go"), id="T3", inside="subagents")
    with Memory.open(tmp_path / "memory.db", embedder="none") as memory:
        assert (brought(memory, tmp_path).messages, stored(memory)) == (1, ["one"])


def test_a_transcript_waits_for_a_database_that_cannot_be_read_now(tmp_path, monkeypatch):
    monkeypatch.setattr(others, "_BUSY_MS", 10)
    put(tmp_path, "T1", composer(bubble(1)), bubble(1, "one")).close()
    transcript(tmp_path, line("user", "one"))
    transcript(tmp_path, line("user", "two"), id="T2")
    writing = apsw.Connection(str(next(tmp_path.rglob("state.vscdb"))))
    with Memory.open(tmp_path / "memory.db", embedder="none") as memory:
        writing.execute("BEGIN EXCLUSIVE").fetchall()
        locked = brought(memory, tmp_path)
        assert (locked.messages, list(locked.unreadable.values())) == (0, ["database is locked"])
        writing.execute("ROLLBACK").fetchall()
        writing.close()
        assert [brought(memory, tmp_path).messages for _ in range(2)] == [2, 0]


def test_hostile_values_are_skipped(tmp_path):
    rows = [bubble(1, "one"), tool("run_terminal_cmd", result={"exitCode": 1}, command="ls")]
    about = composer(*rows)
    total = 0
    for variant in hostile.variants(about):
        put(tmp_path, "C1", variant, *rows).close()
        total += hostile.check("cursor", places(tmp_path))
    for place, row in enumerate(rows):
        for variant in hostile.variants(row):
            changed = [*rows[:place], variant, *rows[place + 1 :]]
            put(tmp_path, "C1", about, *changed).close()
            total += hostile.check("cursor", places(tmp_path))
    assert total
    (user_folder(tmp_path) / "globalStorage" / "state.vscdb").unlink()
    call = {"type": "tool_use", "name": "Shell", "input": {"command": "ls"}}
    records = [line("user", "one"), line("assistant", "1", call), line("user", "two")]
    write = lambda rows: transcript(tmp_path, *rows)  # noqa: E731
    assert hostile.check_variants("cursor", places(tmp_path), records, write)
