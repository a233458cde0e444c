"""aider's chat history: whose lines they are, and what is read again."""

import json
import os
import subprocess

import pytest

from plait.agents.histories import Places
from plait.agents.histories.aider import find, read
from plait.facts.echo import fence
from plait.times import parse_time
from tests.agents import hostile

HEAD = "\n# aider chat started at 2026-11-02 08:00:00\n\n"
TALK = (
    HEAD
    + """> aider --model x
> Added cart.py to the chat.

#### why is the total off?
#### <blank>
#### it should be 3

A float is used.

```python
#### not typed
> not aider's
# aider chat
```

> Applied edit to cart.py
> Commit 1234567 fix: use decimals

Done.

#### /run pytest
> 1 failed

#### /ask and now?

It works.
"""
)


def project(tmp_path, text, mode="w"):
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True, exist_ok=True)
    path = folder / ".aider.chat.history.md"
    with path.open(mode, encoding="utf-8") as file:
        file.write(text)
    return path


def places(tmp_path):
    (tmp_path / "shop" / "src").mkdir(parents=True, exist_ok=True)
    return Places("/nowhere", {}, (str(tmp_path / "shop" / "src"),))


def readings(tmp_path, mark=None):
    (source,) = find(places(tmp_path))
    return list(read(source, mark))


def told(tmp_path):
    return [row.whole for row in hostile.utterances("aider", places(tmp_path))]


def test_lines_of_the_user_of_the_model_and_of_aider(tmp_path):
    path = project(tmp_path, TALK)
    (reading,) = readings(tmp_path)
    (session,) = reading.sessions
    assert [row.whole for row in session.utterances] == [
        "why is the total off?\n\nit should be 3",
        "A float is used.\n\n```python\n#### not typed\n> not aider's\n# aider chat\n```\n"
        "edit: cart.py",
        "Done.",
        "and now?",
        "It works.",
    ]
    assert [row.role for row in session.utterances].count("user") == 2
    assert not any(row.typed for row in session.utterances)
    assert {row.at for row in session.utterances} == {parse_time("2026-11-02 08:00:00")}
    assert session.utterances[1].acts[0].path == "cart.py"
    assert session.cwd == str(path.parent)
    assert reading.skipped == {"tool result": 4, "command": 1}


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        ("\n#### ".join(f"{fence('old', 'abcdefgh')}\nwhy?".split("\n")), "why?"),
        ("/add a.py", ""),
        ("why \ud800?".encode("utf-8", "replace").decode(), "why ??"),
    ],
)
def test_only_what_the_user_typed_is_the_users(tmp_path, words, typed):
    project(tmp_path, f"{HEAD}#### {words}\n")
    assert told(tmp_path) == ([typed] if typed else [])


def test_sessions_of_the_same_second_and_words_before_any_session(tmp_path):
    project(tmp_path, "#### lost\n" + f"{HEAD}#### yes\n" * 2)
    sessions = readings(tmp_path)[0].sessions
    assert [len(row.utterances) for row in sessions] == [1, 1]
    assert len({row.id for row in sessions}) == 2
    assert len({row.utterances[0].id for row in sessions}) == 2


def test_growth_keeps_ids(tmp_path):
    path = project(tmp_path, TALK)
    (first,) = readings(tmp_path)
    assert readings(tmp_path, json.loads(json.dumps(first.mark))) == []
    project(tmp_path, "More of it.\n\n#### thanks\n" + HEAD + "#### next day\n", "a")
    (second,) = readings(tmp_path, first.mark)
    before, after = first.sessions[0].utterances, second.sessions[0].utterances
    assert after[:4] == before[:4]
    assert (after[4].id, after[4].text) == (before[4].id, "It works.\nMore of it.")
    assert [row.text for row in after[5:]] == ["thanks"]
    assert [row.text for row in second.sessions[1].utterances] == ["next day"]
    path.write_text(HEAD + "#### other\n", "utf-8")
    assert told(tmp_path) == ["other"]


def test_half_a_line_waits(tmp_path):
    project(tmp_path, f"{HEAD}#### one\n\nok\n\n###")
    assert told(tmp_path) == ["one", "ok"]
    project(tmp_path, f"{HEAD}#### one\n\nok\n\n#### two\n")
    assert told(tmp_path) == ["one", "ok", "two"]


def test_a_session_that_begins_ends_an_open_fence(tmp_path):
    project(tmp_path, f"{HEAD}#### one\n\n```\ncut off\n{HEAD}#### two\n")
    assert told(tmp_path) == ["one", "```\ncut off", "two"]


def test_bytes_that_are_no_text_and_long_lines_are_no_trouble(tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.histories.aider._LONGEST_LINE", 100)
    path = project(tmp_path, "")
    path.write_bytes(HEAD.encode() + b"#### one \xff\0\r\n\n" + b"x" * 350 + b"\nanswer\n")
    assert told(tmp_path) == ["one \ufffd", "answer"]
    assert readings(tmp_path)[0].skipped == {"long line": 1}
    assert hostile.check("aider", places(tmp_path)) == 2


def test_only_named_places_are_looked_at(tmp_path):
    path = project(tmp_path, TALK)
    above = tmp_path / ".aider.chat.history.md"
    above.write_text(TALK, "utf-8")
    assert [source.path for source in find(places(tmp_path))] == [str(path)]
    assert list(find(Places(str(tmp_path), {}))) == []
    named = Places("/nowhere", {"AIDER_CHAT_HISTORY_FILE": str(above)})
    assert [source.path for source in find(named)] == [str(above)]
    path.unlink()
    os.mkfifo(path)
    assert list(find(places(tmp_path))) == []


@pytest.mark.parametrize(
    ("index", "is_read"),
    [
        (None, True),
        (b"DIRC\0\0\0\2" + b"\0" * 70 + b"cart.py\0", True),
        (b"DIRC\0\0\0\2" + b"\0" * 70 + b".aider.chat.history.md\0", False),
        (b"DIRC\0\0\0\3" + b"\0" * 70 + b".aider.chat.history.md\0", False),
        (b"DIRC\0\0\0\4" + b"\0" * 70 + b"md\0", False),
        (b"", False),
    ],
)
@pytest.mark.parametrize("is_worktree", [False, True])
def test_a_history_that_a_clone_brings_is_read_only_if_it_is_named(
    tmp_path, index, is_read, is_worktree
):
    path = project(tmp_path, TALK)
    folder = path.parent / ".git"
    if is_worktree:
        folder.rmdir()
        folder.write_text(f"gitdir: {tmp_path / 'real'}\n", "utf-8")
        folder = tmp_path / "real"
        folder.mkdir()
    if index is not None:
        (folder / "index").write_bytes(index)
    assert bool(list(find(places(tmp_path)))) is is_read
    named = Places("/nowhere", {}, files=(str(path),))
    assert [source.path for source in find(named)] == [str(path)]


def test_a_history_below_the_top_of_a_repository_is_not_read(tmp_path):
    path = project(tmp_path, TALK)
    path.unlink()
    below = path.parent / "src" / "deep"
    below.mkdir(parents=True)
    below.joinpath(path.name).write_text(TALK, "utf-8")
    assert list(find(Places(str(tmp_path), {}, (str(below),)))) == []
    path.parent.joinpath(".git").rmdir()
    assert len(list(find(Places(str(tmp_path), {}, (str(below),))))) == 1


@pytest.mark.parametrize("place", ["x" * 5000, "a\0b", "/dev/zero/x"])
def test_a_folder_of_git_that_cannot_be_is_none(tmp_path, place):
    path = project(tmp_path, TALK)
    path.parent.joinpath(".git").rmdir()
    path.parent.joinpath(".git").write_text(f"gitdir: {place}\n", "utf-8")
    assert len(list(find(places(tmp_path)))) == 1


def test_the_index_of_git_itself_is_understood(tmp_path):
    path = project(tmp_path, TALK)
    path.parent.joinpath(".git").rmdir()
    for command in (["init", "-q"], ["add", "."]):
        assert list(find(places(tmp_path)))
        subprocess.run(["git", *command], cwd=path.parent, check=True)
    assert list(find(places(tmp_path))) == []


def test_a_moved_project_keeps_its_ids(tmp_path):
    path = project(tmp_path, TALK)
    (before,) = readings(tmp_path)
    moved = tmp_path / "elsewhere" / "shop"
    moved.parent.mkdir()
    path.parent.rename(moved)
    (after,) = readings(moved.parent)
    assert before.sessions[0].utterances == after.sessions[0].utterances
    assert before.sessions[0].id == after.sessions[0].id


def test_many_sessions_come_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("plait.agents.histories.aider.FULL", 2)
    project(tmp_path, f"{HEAD}#### yes\n" * 5)
    assert [len(reading.sessions) for reading in readings(tmp_path)] == [2, 2, 1]
