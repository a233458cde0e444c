"""Made-up sessions of one agent with known truth: they grow, are copied, cut off, written anew."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.agents import (
    test_aider,
    test_copilot,
    test_cursor,
    test_exports,
    test_gemini,
    test_openclaw,
    test_opencode,
)


class Said(NamedTuple):
    """A message: a number for its id, who said it, and its words."""

    number: int
    by_user: bool
    words: str


Talk = Sequence[Said]


def gemini(home: Path, name: str, talk: Talk, clock: int) -> Path:
    rows = [
        (test_gemini.user if row.by_user else test_gemini.model)(f"m{row.number}", row.words)
        for row in talk
    ]
    more = {"$set": {"lastUpdated": clock}}
    about = {**test_gemini.ABOUT, "sessionId": name}
    return test_gemini.chat(home, about, *rows, more, name=f"session-{name}.jsonl")


def copilot(home: Path, name: str, talk: Talk, clock: int) -> Path:
    rows = [
        (test_copilot.ask if row.by_user else test_copilot.answer)(f"e{row.number}", row.words)
        for row in talk
    ]
    return test_copilot.session(home, test_copilot.begin(), *rows, id=name)


def openclaw(home: Path, name: str, talk: Talk, clock: int) -> Path | None:
    rows = [test_openclaw.begin(name)]
    for row in talk:
        role = "user" if row.by_user else "assistant"
        rows.append(test_openclaw.message(f"e{row.number}", role, row.words))
    if int(name[1:]) % 2:
        test_openclaw.database(home, {name: rows})
        return None
    return test_openclaw.file(home, *rows, name=f"{name}.jsonl")


def opencode(home: Path, name: str, talk: Talk, clock: int) -> None:
    rows = []
    for row in talk:
        make = test_opencode.user if row.by_user else test_opencode.answer
        rows.append(make(f"msg_{row.number}", test_opencode.text(row.words)))
    at = test_opencode.START + clock * 60_000
    test_opencode.write(test_opencode.database(home), f"ses_{name}", *rows, updated=at).close()


def cursor(home: Path, name: str, talk: Talk, clock: int) -> None:
    rows = [test_cursor.bubble(1 if row.by_user else 2, row.words) for row in talk]
    about = test_cursor.composer(*rows, updated=test_cursor.START + clock)
    connection = test_cursor.put(home, name, about)
    about["fullConversationHeadersOnly"] = []
    for row, bubble in zip(talk, rows, strict=True):
        about["fullConversationHeadersOnly"].append({"bubbleId": f"b{row.number}"})
        key = f"bubbleId:{name}:b{row.number}"
        connection.execute("REPLACE INTO cursorDiskKV VALUES (?, ?)", (key, json.dumps(bubble)))
    connection.close()
    test_cursor.put(home, name, about).close()


def transcripts(home: Path, name: str, talk: Talk, clock: int) -> Path:
    rows = [test_cursor.line("user" if row.by_user else "assistant", row.words) for row in talk]
    return test_cursor.transcript(home, *rows, id=name)


def aider(home: Path, name: str, talk: Talk, clock: int) -> Path:
    """One file for each session; a reader of one with many is tested by itself."""
    text = "".join(f"#### {row.words}\n\n" if row.by_user else f"{row.words}\n\n" for row in talk)
    number = int(name[1:])
    head = test_aider.HEAD.replace("08:00:00", f"08:{number // 60:02d}:{number % 60:02d}")
    return Path(test_aider.project(home / name, head + text))


def claude(home: Path, name: str, talk: Talk, clock: int) -> Path:
    chat = test_exports.claude(name)
    chat["chat_messages"] = [
        {"uuid": f"u{row.number}", "sender": "human" if row.by_user else "assistant"}
        | {"text": row.words}
        for row in talk
    ]
    path = home / f"conversations-{name}.json"
    path.write_text(json.dumps([{"uuid": f"empty {clock}"}, chat]), "utf-8")
    return path


def chatgpt(home: Path, name: str, talk: Talk, clock: int) -> Path:
    rows: list[dict[str, Any]] = []
    for row in talk:
        role, parent = "user" if row.by_user else "assistant", rows[-1]["id"] if rows else None
        rows.append(test_exports.node(f"n{row.number}", parent, role, row.words))
    last = rows[-1]["id"] if rows else "none"
    path = home / f"conversations-{name}.json"
    root = {"id": "root", "parent": None, "message": None}
    path.write_text(json.dumps([test_exports.chatgpt(name, last, root, *rows)]), "utf-8")
    return path


# How each agent writes a session, and whether copies of its messages keep their ids.
WRITERS: dict[str, tuple[Callable[[Path, str, Talk, int], Path | None], bool]] = {
    "gemini": (gemini, False),
    "copilot": (copilot, True),
    "openclaw": (openclaw, True),
    "opencode": (opencode, False),
    "cursor": (cursor, True),
    "transcripts": (transcripts, False),
    "aider": (aider, False),
    "claude": (claude, True),
    "chatgpt": (chatgpt, True),
}


class Talks:
    """The sessions of an agent, and every message that was ever said in them."""

    def __init__(self, home: Path, agent: str, seed: int) -> None:
        self._home = home
        self._write, self._copies = WRITERS[agent]
        self.chance = random.Random(seed)
        self._clock = 0
        self._sessions: dict[str, list[Said]] = {}
        self._paths: dict[str, Path | None] = {}
        self.messages: list[str] = []

    def step(self) -> None:
        """Let something happen to one of the sessions."""
        steps = [self.speak] * 5 + [self.truncate, self.rewrite]
        self.chance.choice([*steps, self.copy] if self._copies else steps)()

    def heal(self) -> None:
        """Write all sessions whole."""
        for name in self._sessions:
            self._store(name)

    def speak(self) -> None:
        """Add a question, and perhaps an answer."""
        name = self._session()
        for by_user in (True, False)[: self.chance.randrange(1, 3)]:
            words = self.chance.choice(["yes", f"words {self._tick()}"])
            self._sessions[name].append(Said(self._tick(), by_user, words))
            self.messages.append(words)
        if self._sessions[name][-1].by_user:
            # Questions without an answer in between are one message of aider's.
            self._sessions[name].append(Said(self._tick(), by_user=False, words="ok"))
            self.messages.append("ok")
        self._store(name)

    def copy(self) -> None:
        """Begin a session with all messages of another one."""
        before = self._sessions[self._session()]
        name = f"s{len(self._sessions)}"
        self._sessions[name] = list(before)
        self._store(name)

    def truncate(self) -> None:
        """Cut a file off, where a session has one."""
        path = self._paths.get(self._session())
        if path is not None:
            data = path.read_bytes()
            path.write_bytes(data[: self.chance.randrange(len(data) + 1)])

    def rewrite(self) -> None:
        """Write a session anew."""
        self._store(self._session())

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _session(self) -> str:
        if not self._sessions or self.chance.random() < 0.2:
            name = f"s{len(self._sessions)}"
            self._sessions[name] = []
            self._store(name)
        return self.chance.choice(sorted(self._sessions))

    def _store(self, name: str) -> None:
        self._paths[name] = self._write(self._home, name, self._sessions[name], self._tick())
