"""Exports of ChatGPT and Claude.ai: zip, JSON or folder, split or whole, hostile or not."""

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from plait.agents.histories import Places, reader_of
from tests.agents import hostile

BASE = 1793606400


def node(id, parent, role, *parts, kind="text", at=0, **more):
    metadata = more.pop("metadata", {})
    content = {"content_type": kind, "parts": list(parts)}
    message = {"id": f"msg-{id}", "author": {"role": role}, "create_time": BASE + at + 0.5}
    message |= {"content": content, "metadata": metadata, "recipient": "all"} | more
    return {"id": id, "parent": parent, "children": [], "message": message}


def chatgpt(id="c1", current="a2", *nodes):
    rows = nodes or (
        {"id": "root", "parent": None, "children": ["s"], "message": None},
        node("s", "root", "system", ""),
        node("u", "s", "user", "about me", kind="user_editable_context"),
        node("u1", "u", "user", "plan a walk", {"asset_pointer": "file"}, "in the hills", at=1),
        node("old", "u1", "assistant", "An old answer."),
        node("t", "u1", "assistant", "hm", kind="thoughts"),
        node("k", "t", "assistant", "search()", kind="code", recipient="browser"),
        node("r", "k", "tool", "a result"),
        node("h", "r", "user", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
        node("a2", "h", "assistant", "Take the ridge.", at=2),
    )
    return {"conversation_id": id, "title": "Walk", "current_node": current} | {
        "mapping": {row["id"]: row for row in rows}
    }


def claude(id="d1"):
    call = {"type": "tool_use", "id": "t1", "name": "web_search", "input": {"query": "ridge"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": []}
    thought = {"type": "thinking", "thinking": "hm"}
    at = {"created_at": "2026-11-02T08:00:01.000000Z"}
    pasted = {"file_name": "a.txt", "extracted_content": "pasted"}
    human = {"uuid": f"{id}-1", "sender": "human", "text": "plan a walk", "content": []}
    said = [thought, {"type": "text", "text": "Take the ridge."}, call, result]
    model = {"uuid": f"{id}-2", "sender": "assistant", "text": "flat", "content": said}
    return {"uuid": id, "name": "Walk", **at} | {
        "chat_messages": [human | at | {"attachments": [pasted]}, model | at, None]
    }


def archive(path: Path, members: Mapping[str, object]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in members.items():
            file.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return path


def places(*paths):
    return Places("/nowhere", {}, files=tuple(map(str, paths)))


def read_all(agent, path):
    return hostile.read_all(agent, places(path))


def told(agent, path):
    return [row.whole for row in hostile.utterances(agent, places(path))]


def test_the_shown_branch_of_a_conversation_without_what_programs_wrote(tmp_path):
    path = archive(tmp_path / "export.zip", {"conversations.json": [chatgpt()]})
    (reading,) = read_all("chatgpt", path)
    (session,) = reading.sessions
    assert session.id == "c1"
    assert [(row.id, row.text, row.typed, row.at) for row in session.utterances] == [
        ("msg-u1", "plan a walk\n\nin the hills", True, 1793606401500),
        ("msg-a2", "Take the ridge.", False, 1793606402500),
    ]
    assert reading.skipped == {"injected": 5, "thinking": 1, "tool result": 1}


def test_without_a_current_node_the_latest_leaf_counts(tmp_path):
    rows = [
        node("u1", None, "user", "one"),
        node("a1", "u1", "assistant", "old", at=1),
        node("a2", "u1", "assistant", "new", at=2),
    ]
    rows[0]["children"] = ["a1", "a2"]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt("c", None, *rows)]), "utf-8")
    assert told("chatgpt", path) == ["one", "new"]


def test_parents_in_a_circle_end(tmp_path):
    rows = [node("u1", "a1", "user", "one"), node("a1", "u1", "assistant", "1")]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt("c", "a1", *rows)]), "utf-8")
    assert told("chatgpt", path) == ["one", "1"]


def test_words_calls_and_thoughts_of_claude(tmp_path):
    path = archive(tmp_path / "data-000.zip", {"conversations.json": [claude()], "users.json": []})
    (reading,) = read_all("claude", path)
    (session,) = reading.sessions
    assert session.id == "d1"
    assert [(row.id, row.whole, row.typed, row.at) for row in session.utterances] == [
        ("d1-1", "plan a walk", True, 1793606401000),
        ("d1-2", "Take the ridge.\nweb_search: ridge (failed)", False, 1793606401000),
    ]
    assert reading.skipped == {"attachment": 1, "thinking": 1, "tool result": 1}


def test_split_lists_folders_and_members_that_are_no_lists(tmp_path):
    members = {
        "export/conversations-001.json": [chatgpt("c2")],
        "export/conversations-000.json": [chatgpt("c1")],
        "__MACOSX/conversations.json": b"\0\5\26",
        "../../conversations-002.json": [chatgpt("c3")],
        "user.json": {"id": "x"},
    }
    path = archive(tmp_path / "export.zip", members)
    ids = [session.id for reading in read_all("chatgpt", path) for session in reading.sessions]
    assert ids == ["c3", "c1", "c2"]
    folder = tmp_path / "unpacked"
    (folder / "inner").mkdir(parents=True)
    for name in ("conversations-000.json", "inner/conversations-001.json"):
        (folder / name).write_text(json.dumps([chatgpt(name[-8:-5])]), "utf-8")
    ids = [session.id for reading in read_all("chatgpt", folder) for session in reading.sessions]
    assert sorted(ids) == ["000", "001"]
    assert sorted(row.name for row in tmp_path.iterdir()) == ["export.zip", "unpacked"]


def test_a_new_export_with_more_keeps_the_ids(tmp_path):
    path = archive(tmp_path / "a.zip", {"conversations.json": [claude()]})
    (first,) = read_all("claude", path)
    grown = claude()
    grown["chat_messages"].append({"uuid": "d1-3", "sender": "human", "text": "thanks"})
    newer = archive(tmp_path / "b.zip", {"conversations.json": [grown, claude("d2")]})
    (second,) = read_all("claude", newer)
    assert second.sessions[0].utterances[:2] == first.sessions[0].utterances
    assert [session.id for session in second.sessions] == ["d1", "d2"]


def test_batches_go_on_where_they_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.histories.exports.FULL", 4)
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([claude(f"d{place}") for place in range(7)]), "utf-8")
    reader = reader_of("claude")
    (source,) = reader.find(places(path))
    readings = list(reader.read(source, None))
    assert [[row.id for row in reading.sessions] for reading in readings] == [
        *(["d0", "d1"], ["d2", "d3"], ["d4", "d5"], ["d6"]),
    ]
    rest = list(reader.read(source, json.loads(json.dumps(readings[1].mark))))
    assert [[row.id for row in reading.sessions] for reading in rest] == [["d4", "d5"], ["d6"]]
    assert list(reader.read(source, readings[-1].mark)) == []


def test_long_lists_are_read_piece_by_piece(tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.histories.exports._BLOCK", 50)
    path = tmp_path / "conversations.json"
    path.write_text("\ufeff" + json.dumps([claude("ü"), claude("d2")], indent=1), "utf-8")
    ids = [session.id for reading in read_all("claude", path) for session in reading.sessions]
    assert ids == ["ü", "d2"]


@pytest.mark.parametrize(
    ("content", "read", "reason"),
    [
        (b"", 0, "broken file"),
        (b"{", 0, "broken file"),
        (b"[]", 0, None),
        (b"[" * 100_000, 0, "broken file"),
        (json.dumps(claude()).encode(), 2, None),
        (json.dumps([claude(), 7, None, []]).encode(), 2, "broken record"),
        (json.dumps([claude(), claude("d2")]).encode()[:-20], 2, "broken file"),
        (json.dumps([claude()]).encode() + b"\0\0 garbage", 2, None),
        (b'[{"uuid": ' + b"9" * 5_000 + b"}]", 0, "broken file"),
        (b"PK\x03\x04 no archive", 0, "broken file"),
    ],
)
def test_broken_lists_are_read_as_far_as_they_go(tmp_path, content, read, reason):
    path = tmp_path / "conversations.json"
    path.write_bytes(content)
    readings = read_all("claude", path)
    assert sum(len(row.utterances) for reading in readings for row in reading.sessions) == read
    assert (
        (reason in readings[-1].skipped) if reason else not readings[-1].skipped.get("broken file")
    )


def test_archives_that_are_made_to_harm_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.histories.exports._SURELY_SMALL", 100_000)
    bomb = archive(tmp_path / "bomb.zip", {"conversations.json": b"[" + b" " * 1_000_000 + b"]"})
    assert read_all("claude", bomb)[0].skipped == {"too large": 1}
    whole = archive(
        tmp_path / "cut.zip", {"conversations.json": [claude(str(n)) for n in range(50)]}
    )
    data = bytearray(whole.read_bytes())
    data[100:140] = bytes(40)
    whole.write_bytes(data)
    (reading,) = read_all("claude", whole)
    assert set(reading.skipped) & {"broken archive", "broken file"}


def test_pipes_and_missing_files_are_no_sources(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for agent in ("chatgpt", "claude"):
        assert list(reader_of(agent).find(places(tmp_path / "pipe.json", tmp_path / "no"))) == []
        assert list(reader_of(agent).find(Places(str(tmp_path), {}))) == []


@pytest.mark.parametrize(("agent", "record"), [("chatgpt", chatgpt()), ("claude", claude())])
def test_hostile_values_are_skipped(tmp_path, agent, record):
    path = tmp_path / "conversations.json"
    write = lambda rows: path.write_text(json.dumps(rows), "utf-8")  # noqa: E731
    assert hostile.check_variants(agent, places(path), [record], write)
