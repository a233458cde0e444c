"""Conversations on the command line: in one by one or by a file, out in their order."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from plait.cli import main
from plait.cli.messages import _OF_ONE_TEXT
from plait.cli.store import store_options
from plait.memory import Memory
from tests.interfaces.command import spawn

SECRET = "The deploy token is ghp_q7Zt0LmW4xR9cVbN2sKdF6hJ8yTgUe3aPi5o."
TALK = [
    {"role": "user", "content": "Shall we meet?"},
    {"role": "assistant", "content": "yes"},
    {"role": "user", "content": "At noon."},
    {"role": "assistant", "content": "yes", "id": "m4"},
]


class Shell:
    """Runs commands on one memory."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capsys = capsys

    def __call__(self, verb: str, *words: str, form: str = "json", code: int = 0) -> Any:
        """Return what a command prints: data, or text and errors."""
        where = ["--db", str(self.path), "--project", "personal", "--embedder", "none"]
        assert main([verb, *where, "--format", form, *words]) == code
        captured = self._capsys.readouterr()
        if code:
            return captured.err
        return json.loads(captured.out) if form == "json" else captured.out + captured.err


@pytest.fixture
def plait(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "memory.db", capsys)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(TALK), encoding="utf-8")
    return path


def test_messages_one_by_one(plait: Shell) -> None:
    for row in TALK:
        stored = plait("store", row["content"], "--role", row["role"], "--session", "s1")
        assert not stored["duplicate"]
    assert stored["turn"] == 4
    rows = plait("get", "s1")["results"]
    fields = [(row["turn"], row["role"], row["text"], row["session"]) for row in rows]
    assert fields == [(n, row["role"], row["content"], "s1") for n, row in enumerate(TALK, start=1)]
    assert {(row["role"], row["origin"]) for row in rows} == {
        ("user", "user"),
        ("assistant", "agent"),
    }


def test_the_text_of_a_message_may_come_from_a_file(plait: Shell, tmp_path: Path) -> None:
    (tmp_path / "said.md").write_text("# Hello", encoding="utf-8")
    path = str(tmp_path / "said.md")
    for _ in range(2):
        plait("store", "--file", path, "--role", "user", "--session", "s1")
    rows = plait("get", "s1")["results"]
    assert [(row["text"], row["key"], row["path"]) for row in rows] == [("# Hello", None, None)] * 2


LINES = "\n".join(map(json.dumps, TALK)) + "\n\n"


@pytest.mark.parametrize(
    "content",
    [json.dumps(TALK), json.dumps({"model": "m", "messages": TALK}), LINES],
    ids=["list", "request", "lines"],
)
def test_a_file_of_messages(plait: Shell, file: Path, content: str) -> None:
    file.write_text(content, encoding="utf-8")
    added = plait("store", "--session", "s1", "--messages", str(file))
    assert (added["session"], added["messages"], added["project"]) == ("s1", 4, None)
    assert [row["turn"] for row in added["results"]] == [1, 2, 3, 4]
    told = plait("store", "--session", "s1", "--messages", str(file), form="text")
    assert told == "Stored s1 (3 messages, 1 known)\n"
    assert len(plait("get", "s1")["results"]) == 7


def test_messages_from_standard_input(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    words = ["--db", path, "store", "--project", "personal", "--embedder", "none"]
    done = spawn(*words, "--session", "s", "--messages", "-", stdin=json.dumps(TALK[0]).encode())
    assert done.code == 0
    assert done.json["messages"] == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("5", "not a list of messages"),
        ("[5]", "not a list of messages"),
        ("{", "line 1 is not JSON"),
        (LINES + "{", "line 6 is not JSON"),
        ("[" * 200_000, "is not JSON"),
        ('[{"role": "user", "content": "x"}, {"content": "y"}]', "messages[1]: role is None"),
        (json.dumps([*TALK, {"role": "tool", "content": SECRET}]), "messages[4]: Not stored"),
    ],
)
def test_a_file_that_is_refused_adds_nothing(
    plait: Shell, file: Path, content: str, told: str
) -> None:
    file.write_text(content, encoding="utf-8")
    error = plait("store", "--session", "s1", "--messages", str(file), code=2)
    assert told in error
    assert "ghp_" not in error
    assert error.count("\n") == 1
    with Memory.open(plait.path, embedder="none", project="") as memory:
        assert memory.stats().doc_count == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["hello"], "TEXT is about one text"),
        (["--doc-id", "k"], "--doc-id is about one text"),
        (["--event-at", "2d"], "--event-at is about one text"),
        (["--role", "user"], "--role is about one text"),
        (["--pinned"], "--pinned is about one text"),
    ],
)
def test_options_of_one_text_do_not_fit_a_file(
    plait: Shell, file: Path, words: list[str], told: str
) -> None:
    error = plait("store", "--session", "s1", "--messages", str(file), *words, code=2)
    assert told in error


def test_every_option_of_store_is_heeded_or_refused_beside_a_file_of_messages() -> None:
    parser = ArgumentParser(add_help=False)
    store_options(parser)
    heeded = {"messages", "session", "origin", "trust", "allow_secret", "visibility"}
    assert {action.dest for action in parser._actions} == heeded | set(_OF_ONE_TEXT)


def test_a_session_must_be_named(plait: Shell, file: Path) -> None:
    for words in (["hello", "--role", "user"], ["--messages", str(file)]):
        assert "--session s1" in plait("store", *words, code=2)


def test_what_happened_to_single_messages_is_told(plait: Shell, file: Path) -> None:
    plait("store", "The admin signs in as hunter2 and nobody may know.", "--trust", "untrusted")
    rows = [
        {"role": "user", "content": SECRET},
        {"role": "assistant", "content": "The admin signs in as hunter2 and nobody may know."},
        {"role": "user", "content": ""},
    ]
    file.write_text(json.dumps(rows), encoding="utf-8")
    told = plait("store", "--session", "s1", "--messages", str(file), form="text")
    assert told.startswith("Stored s1 (2 messages, 1 left out)\n")
    assert "messages[0]: the stored text holds a secret (github token)" in told
    assert "messages[1]: stored as untrusted" in told


def test_a_timeline_of_a_session_is_read_page_by_page(plait: Shell, file: Path) -> None:
    plait("store", "--session", "s1", "--messages", str(file))
    first = plait("timeline", "--session", "s1", "--limit", "3")
    assert [row["turn"] for row in first["results"]] == [1, 2, 3]
    assert [row["role"] for row in first["results"]] == ["user", "assistant", "user"]
    rest = plait("timeline", "--session", "s1", "--limit", "3", "--cursor", first["next"])
    assert [row["turn"] for row in rest["results"]] == [4]
    assert rest["next"] is None
    told = plait("timeline", "--session", "s1", "--limit", "1", form="text")
    assert "  user        Shall we meet?" in told
    assert told.rstrip().endswith("# later ones")


def test_a_conversation_is_read_in_order_with_roles(plait: Shell, file: Path) -> None:
    plait("store", "--session", "s1", "--messages", str(file))
    told = plait("get", "s1", form="text")
    heads = [line.split("  ")[1:] for line in told.splitlines() if "(message; s1; " in line]
    assert [head[0] for head in heads] == ["user", "assistant", "user", "assistant"]
    assert told.index("Shall we meet?") < told.index("At noon.")
    assert "  user 2" in plait("search", "noon", form="text")


def test_of_a_long_conversation_the_end_is_shown(plait: Shell, file: Path) -> None:
    rows = [{"role": "user", "content": f"message {n} of the long talk"} for n in range(50)]
    file.write_text(json.dumps(rows), encoding="utf-8")
    plait("store", "--session", "s1", "--messages", str(file))
    plait("store", "A note", "--doc-id", "note")
    part = plait("get", "s1", "note", "--max-tokens", "1500")
    texts = [row["text"] for row in part["results"]]
    assert "A note" in texts
    shown = [text for text in texts if text != "A note"]
    assert 1 <= len(shown) < 50
    assert shown == [row["content"] for row in rows[-len(shown) :]]
    assert part["left_out"] == 50 - len(shown)


def test_a_document_of_the_name_wins(plait: Shell, file: Path) -> None:
    plait("store", "--session", "s1", "--messages", str(file))
    plait("store", "A note", "--doc-id", "s1")
    assert [row["text"] for row in plait("get", "s1")["results"]] == ["A note"]


def test_hostile_roles_and_sessions_stay_on_their_line(plait: Shell, file: Path) -> None:
    file.write_text(
        json.dumps([{"role": "user\n0.99  x\x1b[2J", "content": "hello harbour"}]), encoding="utf-8"
    )
    plait("store", "--session", "s\n1\x1b[2J", "--messages", str(file))
    for words in (["search", "harbour"], ["timeline"], ["get", "s\n1\x1b[2J"]):
        told = plait(*words, form="text")
        assert not any(line.startswith("0.99") for line in told.splitlines())


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    done = spawn("--db", path, "store", "x", "--session", "s", "--role", b"\xe9")
    assert done.code == 2
    assert "--role is not UTF-8" in done.err


def test_provenance_of_several_messages_is_refused_like_other_fields_of_one_text(
    plait: Shell, file: Path
) -> None:
    words = ["--messages", str(file), "--session", "s", "--provenance", "model=m"]
    assert "--provenance is about one text" in plait("store", *words, code=2)
    plait("get", "s", code=3)
