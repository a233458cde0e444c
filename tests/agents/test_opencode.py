"""opencode's database and its old files: which parts count, what was undone, what is read again."""

import json
import os
import threading
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from plait.agents.choosing import Wanted
from plait.agents.histories import Places
from plait.agents.histories.opencode import find, read
from plait.agents.importing import import_histories
from plait.memory import Memory
from plait.stores.sqlite.carving import copy_file
from tests.agents import hostile

START = 1793606400000
FAILED = f"{'collecting ' * 50_000}\nKeyError: 'total'\n"
SCHEMA = """
CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT,
 title TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);
"""


def text(words, **more):
    return {"type": "text", "text": words, **more}


def tool(name, status="completed", exit=None, error=None, output="x" * 50, **given):
    state = {"status": status, "input": given, "output": output, "metadata": {"exit": exit}}
    return {"type": "tool", "tool": name, "callID": "c1", "state": state | {"error": error}}


def user(id, *parts):
    return id, {"role": "user", "time": {"created": START + 1000}}, list(parts)


def answer(id, *parts, **more):
    path = {"cwd": "/home/ann/shop", "root": "/home/ann/shop"}
    data = {"role": "assistant", "time": {"created": START + 2000}, "path": path, **more}
    return id, data, list(parts)


def database(home: Path, name="opencode.db") -> Path:
    path: Path = home / ".local" / "share" / "opencode" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write(path: Path, id, *messages, updated=START, log=False, **about):
    """Write a session as the database has it; with ``log``, leave it in the write-ahead log."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous=off")
    if log:
        connection.execute("PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0")
    if not connection.execute("SELECT 1 FROM sqlite_schema").fetchall():
        connection.execute(SCHEMA)
    row = {
        "parent_id": None,
        "directory": "/home/ann/shop",
        "title": "Cart",
        "revert": None,
    } | about
    connection.execute(
        "REPLACE INTO session VALUES (?, 'p', ?, ?, ?, ?, 0, ?)",
        (id, row["parent_id"], row["directory"], row["title"], row["revert"], updated),
    )
    for name, data, parts in messages:
        created = START + int(name.rpartition("_")[2])
        connection.execute("REPLACE INTO message VALUES (?,?,?,?)", (name, id, created, raw(data)))
        for place, part in enumerate(parts):
            key = f"prt_{name}_{place}"
            connection.execute("REPLACE INTO part VALUES (?,?,?,?)", (key, name, id, raw(part)))
    return connection


def raw(value):
    return value if isinstance(value, str | bytes) else json.dumps(value)


def places(home):
    return Places(str(home), {})


def readings(home, mark=None):
    (source,) = find(places(home))
    return list(read(source, mark))


def told(home):
    return [row.whole for row in hostile.utterances("opencode", places(home))]


def files_beside(path):
    return sorted(row.name for row in path.parent.iterdir())


def test_a_session_has_what_was_typed_answered_and_done(tmp_path):
    write(
        database(tmp_path),
        "ses_1",
        user("msg_1", text("why is the total off?"), text("<file>", synthetic=True)),
        answer(
            "msg_2",
            {"type": "step-start"},
            {"type": "reasoning", "text": "hm"},
            text("A float is used."),
            tool("edit", filePath="cart.py"),
        ),
        answer("msg_3", tool("bash", exit=1, output=FAILED, command="pytest")),
        answer("msg_4", tool("read", "error", error="no such file", filePath="x.py")),
        answer("msg_5", text("This is what we did so far."), summary=True),
        answer("msg_6", text("Fixed."), text("seen", ignored=True)),
    )
    rows = hostile.utterances("opencode", places(tmp_path))
    assert [row.whole for row in rows] == [
        "why is the total off?",
        "A float is used.\nedit: cart.py\nbash: pytest (exit 1)\nread: x.py (failed)",
        "Fixed.",
    ]
    assert [(row.id, row.typed) for row in rows] == [
        *(("msg_1", True), ("msg_2", False), ("msg_6", False)),
    ]
    assert [act.exit for act in rows[1].acts] == [None, 1, None]
    assert rows[1].acts[1].error == "KeyError: 'total'"
    assert (rows[0].at, rows[1].acts[2].error) == (START + 1000, "no such file")
    ((session,),) = [reading.sessions for reading in readings(tmp_path)]
    assert (session.id, session.cwd) == ("ses_1", "/home/ann/shop")
    assert readings(tmp_path)[0].skipped == {
        **{"injected": 2, "thinking": 1, "tool result": 3, "summary": 1}
    }


@pytest.mark.parametrize(
    ("revert", "left"),
    [
        ({"messageID": "msg_3"}, ["one", "1"]),
        ({"messageID": "msg_4", "partID": "prt_msg_4_1"}, ["one", "1", "two", "2"]),
        ({}, ["one", "1", "two", "2\n\nmore"]),
    ],
)
def test_what_the_user_went_back_from_is_left_out(tmp_path, revert, left):
    write(
        database(tmp_path),
        "ses_1",
        user("msg_1", text("one")),
        answer("msg_2", text("1")),
        user("msg_3", text("two")),
        answer("msg_4", text("2"), text("more")),
        revert=json.dumps(revert),
    )
    assert told(tmp_path) == left


def test_only_sessions_that_changed_lately_are_read_again(tmp_path):
    path = database(tmp_path)
    day = 86_400_000
    write(path, "ses_1", user("msg_1", text("old")), updated=START).close()
    write(path, "ses_2", user("msg_2", text("new")), updated=START + 9 * day).close()
    (first,) = readings(tmp_path)
    assert [session.id for session in first.sessions] == ["ses_1", "ses_2"]
    assert readings(tmp_path, json.loads(json.dumps(first.mark))) == []
    write(path, "ses_2", answer("msg_3", text("grown")), updated=START + 9 * day).close()
    (second,) = readings(tmp_path, json.loads(json.dumps(first.mark)))
    assert [row.text for session in second.sessions for row in session.utterances] == [
        "new",
        "grown",
    ]


def test_an_answer_that_comes_after_its_sessions_time_is_read(tmp_path):
    path = database(tmp_path)
    hour = 3_600_000
    write(path, "ses_1", user("msg_1", text("one")), updated=START).close()
    write(path, "ses_2", user("msg_2", text("two")), updated=START + hour).close()
    (first,) = readings(tmp_path)
    write(path, "ses_1", answer("msg_3", text("late")), updated=START).close()
    (second,) = readings(tmp_path, first.mark)
    assert [row.text for session in second.sessions for row in session.utterances] == [
        *("one", "late", "two"),
    ]


@pytest.mark.parametrize("is_file_late", [False, True], ids=["session", "session and file"])
def test_a_clock_that_was_wrong_hides_no_later_session(tmp_path, is_file_late):
    path = database(tmp_path)
    future = START + 100 * 365 * 86_400_000
    write(path, "ses_1", user("msg_1", text("one")), updated=future).close()
    late = future if is_file_late else START + 1
    os.utime(path, ns=(late * 1_000_000, late * 1_000_000))
    (first,) = readings(tmp_path)
    write(path, "ses_2", user("msg_2", text("two")), updated=START + 2).close()
    os.utime(path, ns=((START + 3) * 1_000_000, (START + 3) * 1_000_000))
    (second,) = readings(tmp_path, json.loads(json.dumps(first.mark)))
    assert "two" in [row.text for session in second.sessions for row in session.utterances]


def test_what_is_still_in_the_log_is_read_and_nothing_is_left_beside(tmp_path):
    path = database(tmp_path)
    writer = write(path, "ses_1", user("msg_1", text("one")), log=True)
    before = files_beside(path)
    assert before == ["opencode.db", "opencode.db-shm", "opencode.db-wal"]
    assert told(tmp_path) == ["one"]
    assert files_beside(path) == before
    write(path, "ses_1", user("msg_2", text("two")), log=True).close()
    assert told(tmp_path) == ["one", "two"]
    writer.close()
    assert files_beside(path) == ["opencode.db"]
    assert told(tmp_path) == ["one", "two"]
    assert files_beside(path) == ["opencode.db"]


def test_since_counts_what_is_still_in_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = database(tmp_path)
    with closing(write(path, "ses_1", user("msg_1", text("one")), log=True)):
        os.utime(path, (1, 1))
        with Memory.open(tmp_path / "memory.db", embedder="none") as memory:
            report = import_histories(memory, find(places(tmp_path)), Wanted(since=START))
    assert (report.messages, report.skipped) == (1, {})


def test_a_log_whose_program_died_is_read_from_a_copy(tmp_path):
    path = database(tmp_path)
    writer = write(path, "ses_1", user("msg_1", text("one")), log=True)
    elsewhere = database(tmp_path / "other")
    for ending, kind in (("", apsw.SQLITE_OPEN_MAIN_DB), ("-wal", apsw.SQLITE_OPEN_WAL)):
        copy_file(f"{path}{ending}", f"{elsewhere}{ending}", kind)
    writer.close()
    before = {row.name: row.read_bytes() for row in elsewhere.parent.iterdir()}
    assert told(tmp_path / "other") == ["one"]
    assert {row.name: row.read_bytes() for row in elsewhere.parent.iterdir()} == before


def test_a_database_is_not_locked_between_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.histories.opencode.FULL", 1)
    path = database(tmp_path)
    for place in range(3):
        write(path, f"ses_{place}", user(f"msg_{place}", text(f"q{place}"))).close()
    (source,) = find(places(tmp_path))
    batches = read(source, None)
    assert next(batches).sessions[0].id == "ses_0"
    write(path, "ses_9", user("msg_9", text("q9"))).close()
    assert [session.id for reading in batches for session in reading.sessions] == ["ses_1", "ses_2"]


def test_a_database_that_is_locked_for_a_moment_is_waited_for(tmp_path):
    path = database(tmp_path)
    write(path, "ses_1", user("msg_1", text("why?"))).close()
    agent = apsw.Connection(str(path))
    agent.execute("PRAGMA journal_mode = DELETE")
    agent.execute("BEGIN EXCLUSIVE")
    moment = threading.Timer(0.3, agent.execute, ["ROLLBACK"])
    moment.start()
    try:
        assert told(tmp_path) == ["why?"]
    finally:
        moment.join()
        agent.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"no database", b"SQLite format 3\0" + bytes(200)],
    ids=["empty", "text", "head"],
)
def test_what_is_no_database_cannot_be_read_and_is_left_as_it_is(tmp_path, content):
    path = database(tmp_path)
    path.write_bytes(content)
    (source,) = find(places(tmp_path))
    if content:
        with pytest.raises(OSError, match=r"^it is not a database$|^file is not a database$"):
            list(read(source, None))
    else:
        assert [reading.sessions for reading in read(source, None)] == [()]
    assert (path.read_bytes(), files_beside(path)) == (content, ["opencode.db"])


def test_a_rollback_journal_is_never_given_to_sqlite(tmp_path):
    path = database(tmp_path)
    write(path, "ses_1", user("msg_1", text("one"))).close()
    journal = Path(f"{path}-journal")
    journal.write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(600))
    before = journal.read_bytes()
    (source,) = find(places(tmp_path))
    with pytest.raises(OSError, match="writing to it"):
        list(read(source, None))
    assert journal.read_bytes() == before


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE session(id TEXT); INSERT INTO session VALUES ('x')",
        "CREATE VIEW session AS SELECT 'x' AS id, 1 AS time_updated",
        "CREATE TABLE session(id TEXT, time_updated INTEGER AS (length(id)));"
        "INSERT INTO session(id) VALUES ('x')",
        "CREATE TABLE other(x)",
    ],
)
def test_tables_that_are_missing_or_other_give_nothing(tmp_path, schema):
    connection = apsw.Connection(str(database(tmp_path)))
    connection.execute(schema)
    assert told(tmp_path) == []


def test_a_table_without_the_columns_that_tell_the_order_is_unreadable(tmp_path):
    connection = apsw.Connection(str(database(tmp_path)))
    connection.execute("CREATE TABLE session(time_updated INTEGER); CREATE TABLE part(data TEXT)")
    connection.execute("INSERT INTO session VALUES (1)")
    (source,) = find(places(tmp_path))
    with pytest.raises(OSError, match="no such column"):
        list(read(source, None))


def test_old_files_are_read_and_have_the_ids_of_the_database(tmp_path):
    top = tmp_path / ".local" / "share" / "opencode" / "storage"
    files = {
        "session/p/ses_1.json": {"id": "ses_1", "directory": "/home/ann/shop", "title": "Cart"},
        "message/ses_1/msg_1.json": {"role": "user", "time": {"created": START}},
        "message/ses_1/msg_2.json": {"role": "assistant"},
        "part/msg_1/prt_1.json": text("one"),
        "part/msg_2/prt_2.json": text("1"),
        "part/msg_2/prt_3.json": tool("bash", command="ls", exit=0),
        "session/p/ses_2.json": {"parentID": "ses_1"},
        "message/ses_2/msg_3.json": {"role": "user"},
        "part/msg_3/prt_4.json": text("go"),
    }
    for name, value in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(json.dumps(value), "utf-8")
    (top / "message/ses_1/msg_9.json").write_text("{broken", "utf-8")
    sessions = {
        session.id: session
        for reading in hostile.read_all("opencode", places(tmp_path))
        for session in reading.sessions
    }
    rows = sessions["ses_1"].utterances
    assert [(row.id, row.whole) for row in rows] == [("msg_1", "one"), ("msg_2", "1\nbash: ls")]
    assert (sessions["ses_1"].cwd, sessions["ses_2"].kind) == ("/home/ann/shop", "subagent")
    assert hostile.check("opencode", places(tmp_path)) == 3


def test_subagents_other_names_and_places(tmp_path):
    write(
        database(tmp_path, "opencode-beta.db"),
        "ses_2",
        user("msg_1", text("go")),
        parent_id="ses_1",
    )
    (session,) = readings(tmp_path)[0].sessions
    assert (session.kind, [row.typed for row in session.utterances]) == ("subagent", [False])
    named = Places("/nowhere", {"OPENCODE_DB": str(database(tmp_path, "opencode-beta.db"))})
    assert [source.path for source in find(named)] == [named.environ["OPENCODE_DB"]]


def test_hostile_values_are_skipped(tmp_path):
    path = database(tmp_path)
    messages = [
        user("msg_1", text("one")),
        answer("msg_2", text("1"), tool("bash", command="ls", exit=0)),
    ]
    write(path, "ses_1", *messages, revert='{"messageID": "msg_9"}').close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous=off")
    total = 0
    for name, data, parts in messages:
        for variant in hostile.variants(data):
            connection.execute("UPDATE message SET data = ? WHERE id = ?", (raw(variant), name))
            total += hostile.check("opencode", places(tmp_path))
        for number, part in enumerate(parts):
            key = f"prt_{name}_{number}"
            for variant in hostile.variants(part):
                connection.execute("UPDATE part SET data = ? WHERE id = ?", (raw(variant), key))
                total += hostile.check("opencode", places(tmp_path))
    assert total
    for value in (b"\xff\xfe", "{", "\0", 7, None, 1.5):
        for table, column in (("session", "directory"), ("session", "revert"), ("part", "data")):
            connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
            hostile.check("opencode", places(tmp_path))
