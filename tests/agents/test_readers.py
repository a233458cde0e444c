"""All readers behind the import: nothing lost, nothing doubled, nothing that stops the rest."""

import contextlib
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from plait.agents.histories import READERS, HistoryFile, Places, reader_of
from plait.agents.importing import import_histories, import_transcript, sources_of
from plait.memory import Memory
from plait.types import EVERYTHING
from plait.writing.writer import Writer
from tests.agents import (
    hostile,
    talks,
    test_aider,
    test_claude_code,
    test_codex,
    test_copilot,
    test_cursor,
    test_exports,
    test_gemini,
    test_openclaw,
    test_opencode,
)
from tests.agents.threads import Threads

RANDOM_HISTORIES = 8
SECRET = "the password is: 'Kq7-88xZ!41w'"


def claude_code(home):
    rows = [test_claude_code.user("u1", f"one {SECRET}"), test_claude_code.user("u2", "two")]
    test_claude_code.transcript(home, *rows)


def codex(home):
    rows = [*test_codex.turn(f"one {SECRET}", "1", 1), *test_codex.turn("two", "2", 9)]
    test_codex.rollout(home, test_codex.meta(), *rows)


def gemini(home):
    rows = [test_gemini.user("m1", f"one {SECRET}"), test_gemini.user("m2", "two")]
    test_gemini.chat(home, test_gemini.ABOUT, *rows)


def opencode(home):
    rows = [("msg_1", f"one {SECRET}"), ("msg_2", "two")]
    messages = [test_opencode.user(name, test_opencode.text(words)) for name, words in rows]
    test_opencode.write(test_opencode.database(home), "ses_1", *messages).close()


def cursor(home):
    rows = [test_cursor.bubble(1, f"one {SECRET}"), test_cursor.bubble(1, "two")]
    test_cursor.put(home, "C1", test_cursor.composer(*rows), *rows).close()


def copilot(home):
    test_copilot.session(
        home, test_copilot.ask("u1", f"one {SECRET}"), test_copilot.ask("u2", "two")
    )


def aider(home):
    test_aider.project(home, f"{test_aider.HEAD}#### one {SECRET}\n\nyes\n\n#### two\n")


def openclaw(home):
    rows = [test_openclaw.message("u1", "user", f"one {SECRET}")]
    rows.append(test_openclaw.message("u2", "user", "two"))
    test_openclaw.file(home, *rows)
    test_openclaw.database(home, {"S1": rows})


def chatgpt(home):
    rows = [test_exports.node("u1", None, "user", f"one {SECRET}")]
    rows.append(test_exports.node("u2", "u1", "user", "two"))
    path = home / "conversations.json"
    path.write_text(json.dumps([test_exports.chatgpt("c1", "u2", *rows)]), "utf-8")


def claude(home):
    talk = test_exports.claude()
    talk["chat_messages"] = [
        {"uuid": "1", "sender": "human", "text": f"one {SECRET}"},
        {"uuid": "2", "sender": "human", "text": "two"},
    ]
    (home / "conversations.json").write_text(json.dumps([talk]), "utf-8")


WRITERS = {
    "claude-code": claude_code,
    "codex": codex,
    "gemini": gemini,
    "opencode": opencode,
    "cursor": cursor,
    "copilot": copilot,
    "aider": aider,
    "openclaw": openclaw,
    "chatgpt": chatgpt,
    "claude": claude,
}


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Memory.open(tmp_path / "memory.db", embedder="hashing") as opened:
        yield opened


def places(home: Path, agent: str) -> Places:
    files = (str(home / "conversations.json"),) if agent in ("chatgpt", "claude") else ()
    return Places(str(home), {}, (str(home / "shop"),), files)


def imported(memory, home, agent):
    return import_histories(memory, sources_of(places(home, agent), [agent]))


def messages(memory):
    return memory.engine.scan(EVERYTHING._replace(kinds=("message",)), by_turn=True, whole=True)


def test_every_reader_is_among_these():
    assert set(WRITERS) == set(READERS)


@pytest.mark.parametrize("agent", WRITERS)
def test_sessions_are_imported_once_with_their_secrets_masked(memory, tmp_path, agent):
    WRITERS[agent](tmp_path)
    report = imported(memory, tmp_path, agent)
    typed = [row for row in messages(memory) if row.role == "user"]
    assert [row.text.partition(" ")[0] for row in typed] == ["one", "two"]
    assert {row.trust for row in typed} == {"untrusted" if agent == "aider" else "trusted"}
    assert "Kq7-88xZ" not in "".join(row.text for row in typed)
    assert {row.metadata["agent"] for row in typed} == {agent}
    assert report.masked == (2 if agent == "openclaw" else 1)
    again = imported(memory, tmp_path, agent)
    assert (again.read, again.messages, again.replaced) == (0, 0, 0)


@pytest.mark.parametrize("agent", WRITERS)
def test_readers_change_nothing_and_leave_nothing_beside(tmp_path, agent):
    WRITERS[agent](tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert hostile.check(agent, places(tmp_path, agent))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("agent", [agent for agent in WRITERS if agent != "claude-code"])
@pytest.mark.parametrize("seed", range(4))
def test_files_with_other_bytes_in_them_stop_nothing(memory, tmp_path, agent, seed):
    WRITERS[agent](tmp_path)
    chance = random.Random(seed)
    for source in reader_of(agent).find(places(tmp_path, agent)):
        path = Path(source.path)
        data = bytearray(path.read_bytes())
        for _ in range(chance.randrange(1, 30)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.randrange(len(data) + 1)] if seed % 2 else data)
    report = imported(memory, tmp_path, agent)
    assert report.messages <= 4


@pytest.mark.parametrize("agent", [agent for agent in WRITERS if agent != "claude-code"])
def test_pipes_folders_and_links_are_no_sources(tmp_path, agent):
    WRITERS[agent](tmp_path)
    for source in list(reader_of(agent).find(places(tmp_path, agent))):
        path = Path(source.path)
        path.unlink()
        os.mkfifo(path)
    assert list(reader_of(agent).find(places(tmp_path, agent))) == []


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(memory, tmp_path):
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    source = HistoryFile("claude-code", str(path), session="S1")
    assert import_histories(memory, [source]).skipped == {"unreadable": 1}


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(RANDOM_HISTORIES))
def test_threads_of_codex_are_neither_lost_nor_doubled(memory, tmp_path, seed):
    threads = Threads(tmp_path, seed)
    for _ in range(25):
        threads.step()
        if threads.chance.random() < 0.3:
            imported(memory, tmp_path, "codex")
    threads.heal()
    imported(memory, tmp_path, "codex")
    texts = [row.text for row in messages(memory)]
    assert Counter(texts) == Counter(threads.messages.values())


@pytest.mark.unmeasured
@pytest.mark.parametrize("agent", talks.WRITERS)
@pytest.mark.parametrize("seed", range(RANDOM_HISTORIES // 2))
def test_sessions_of_any_agent_are_neither_lost_nor_doubled(memory, tmp_path, agent, seed):
    sessions = talks.Talks(tmp_path, agent, seed)
    name = "cursor" if agent == "transcripts" else agent

    def take() -> None:
        files = sorted(map(str, tmp_path.glob("conversations-*.json")))
        projects = tuple(sorted(map(str, tmp_path.glob("*/shop"))))
        there = Places(str(tmp_path), {}, projects, tuple(files))
        import_histories(memory, sources_of(there, [name]))

    for _ in range(25):
        sessions.step()
        if sessions.chance.random() < 0.3:
            take()
    sessions.heal()
    take()
    assert Counter(row.text for row in messages(memory)) == Counter(sessions.messages)


# -- hooks, which may be killed after a second -----------------------------------------------


def long_claude_code(home, words):
    rows = [test_claude_code.user(f"u{place}", text) for place, text in enumerate(words)]
    return test_claude_code.transcript(home, *rows)


def long_codex(home, words):
    rows = [test_codex.turn(text, "done", 3 * place) for place, text in enumerate(words)]
    return test_codex.rollout(home, test_codex.meta(), *(row for turn in rows for row in turn))


def long_copilot(home, words):
    rows = [test_copilot.ask(f"e{place}", text) for place, text in enumerate(words)]
    return test_copilot.session(home, test_copilot.begin(), *rows)


def long_gemini(home, words):
    rows = [test_gemini.user(f"m{place}", text) for place, text in enumerate(words)]
    return test_gemini.chat(home, test_gemini.ABOUT, *rows)


@pytest.mark.parametrize("write", [long_claude_code, long_codex, long_copilot, long_gemini])
def test_a_save_that_is_always_killed_early_still_ends(tmp_path, monkeypatch, write):
    words = [f"{place} {'word ' * 12_000}" for place in range(12)]  # 60 KB each, few messages
    agent = write.__name__.removeprefix("long_").replace("_", "-")
    path = str(write(tmp_path, words))
    put = Writer.write_texts
    written: list[Any] = []

    def dying(self, changes, *values, **options):
        if written:
            raise SystemExit  # the time is up
        written.extend(changes)
        return put(self, changes, *values, **options)

    monkeypatch.setattr(Writer, "write_texts", dying)
    counts = []
    with Memory.open(tmp_path / "memory.db", embedder="none") as memory:
        for _ in range(12):
            written.clear()
            with contextlib.suppress(SystemExit):
                import_transcript(memory, agent, path)
            where = EVERYTHING._replace(kinds=("message",))
            counts.append(sum(row.origin == "user" for row in memory.engine.scan(where)))
    assert counts == sorted(counts) and 0 < counts[0] < counts[1] < counts[-1] == len(words)


def test_folders_that_are_links_in_a_circle_stop_no_search_for_histories(tmp_path):
    for name in (".claude", ".codex", ".gemini", ".cursor", ".copilot", ".openclaw", ".local"):
        tmp_path.joinpath(name).symlink_to(tmp_path / name)
    places = Places(
        str(tmp_path), {"CLAUDE_CONFIG_DIR": str(tmp_path / ".codex")}, (str(tmp_path),)
    )
    assert sources_of(places, READERS) == []
