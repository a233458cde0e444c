"""aider: ``.aider.chat.history.md`` in the project, a Markdown file that only grows.

``#### `` begins a line that the user typed, ``> `` one of aider itself; the rest is the model's.
Inside a code fence, all lines are the model's. Nothing has an id or a time but the sessions.

The file lies in the project, where anyone may have written it, and an answer may hold such lines:
none of its words are known to be the user's.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from plait.agents.histories import Bookmark, HistoryFile, Places, Reading, Session
from plait.agents.histories.acts import act_of
from plait.agents.histories.collecting import FULL, Utterances
from plait.agents.histories.files import (
    history_file,
    is_unchanged,
    oldest_first,
    read_bytes,
    read_text,
    state_of,
)
from plait.agents.histories.values import hashed
from plait.text import clean
from plait.times import parse_time

_AGENT = "aider"
_NAME = ".aider.chat.history.md"
_BEGIN = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*")
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)")
_TYPED, _OWN, _BLANK = "#### ", "> ", "<blank>"
_EDITED = "Applied edit to "
# Commands whose words are for the model; other commands are for aider.
_WORDS = ("/ask ", "/code ", "/architect ", "/context ")
# Bytes. A longer line is no talk.
_LONGEST_LINE = 1024 * 1024


def find(places: Places) -> Iterator[HistoryFile]:
    """Yield the files of the projects that the user works in, and of the folders above them."""
    paths = [Path(file) for file in places.files]
    if not paths:
        if places.environ.get("AIDER_CHAT_HISTORY_FILE"):
            paths.append(Path(places.environ["AIDER_CHAT_HISTORY_FILE"]))
        for project in places.projects:
            paths += _of_project(Path(project))
    rows = (history_file(_AGENT, path) for path in paths)
    yield from oldest_first(source for sources in rows for source in sources)


def _of_project(project: Path) -> list[Path]:
    """Return where a history may be: at the top of a repository, else in any folder above.

    aider writes nowhere else in a repository: what lies in its other folders was brought by it.
    """
    tops = (project, *project.parents)
    # Unlike that of a Path, this raises for no folder.
    top = next((row for row in tops if os.path.exists(row / ".git")), None)  # noqa: PTH110
    if top is not None:
        return [] if _may_be_tracked(top) else [top / _NAME]
    return [folder / _NAME for folder in tops]


def _may_be_tracked(top: Path) -> bool:
    """Tell whether a repository may bring a history: then it is another person's talk.

    Git is not asked: what a repository says could make it run programs.
    """
    folder = top / ".git"
    if folder.is_file():
        folder = top / read_text(folder).removeprefix("gitdir:").strip()
    index = folder / "index"
    try:
        index.stat()
    except (OSError, ValueError):
        return False
    raw = read_bytes(index) or b""
    is_plain = raw[:4] == b"DIRC" and int.from_bytes(raw[4:8], "big") in (2, 3)
    return not is_plain or f"{_NAME}\0".encode() in raw


def read(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield the sessions of a file, if it changed since a mark."""
    state = state_of(source.path)
    if is_unchanged(mark, state):
        return
    sessions: list[Session] = []
    skipped: Counter[str] = Counter()
    for session in _sessions(source, skipped):
        sessions.append(session)
        if sum(len(row.utterances) for row in sessions) >= FULL:
            yield Reading(tuple(sessions), {}, +skipped)
            sessions, skipped = [], Counter()
    yield Reading(tuple(sessions), {"files": state}, +skipped)


def _sessions(source: HistoryFile, skipped: Counter[str]) -> Iterator[Session]:
    times: Counter[str] = Counter()
    talk: _Talk | None = None
    for line in _lines(source.path, skipped):
        begin = _BEGIN.fullmatch(line)
        if begin is not None:
            if talk is not None:
                yield from talk.session(source.path)
            times[begin[1]] += 1
            talk = _Talk(begin[1], times[begin[1]], skipped)
        elif talk is not None:
            talk.add(line)
    if talk is not None:
        yield from talk.session(source.path)


def _lines(path: str, skipped: Counter[str]) -> Iterator[str]:
    """Yield the lines of a file; one that is still being written waits."""
    with Path(path).open("rb") as file:
        while raw := file.readline(_LONGEST_LINE):
            if len(raw) == _LONGEST_LINE and not raw.endswith(b"\n"):
                skipped["long line"] += 1
                while (rest := file.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
                    pass
            elif raw.endswith(b"\n"):
                yield clean(raw.decode("utf-8", "replace")).rstrip("\r\n")


class _Talk:
    """Collects the utterances of one session, line by line."""

    def __init__(self, begun: str, which: int, skipped: Counter[str]) -> None:
        self._begun = f"{begun.replace(' ', 'T')}-{which}"
        self._first = ""
        self._at = parse_time(begun)
        self._skipped = skipped
        self._rows = Utterances()
        self._typed: list[str] = []
        self._answer: list[str] = []
        self._fence = ""
        self._count = 0

    @property
    def _id(self) -> str:
        """Its time and first words: a project may be moved, and what was deleted stays deleted."""
        return f"{hashed(self._first)[:8]}-{self._begun}"

    def add(self, line: str) -> None:
        """Take one line into the session."""
        if not line.startswith(_OWN.strip()):
            self._first = self._first or line.strip()
        fence = _FENCE.match(line)
        if fence is not None and not self._fence:
            self._fence = fence[1]
        elif fence is not None and fence[1].startswith(self._fence) and not fence[2].strip():
            self._fence = ""
        elif not self._fence and (line.startswith(_TYPED) or line == _TYPED.strip()):
            self._end_answer()
            self._typed.append(line.removeprefix(_TYPED).strip())
            return
        elif not self._fence and (line.startswith(_OWN) or line == _OWN.strip()):
            self._end_prompt()
            self._own(line.removeprefix(_OWN).strip())
            return
        if line.strip():
            self._end_prompt()
        self._answer.append(line)

    def _own(self, line: str) -> None:
        if line.startswith(_EDITED):
            self._end_answer()
            self._count += 1
            act = act_of("edit", {"path": line.removeprefix(_EDITED)})
            self._rows.call(act, str(self._count), f"{self._id}:{self._count}", self._at)
        else:
            self._skipped["tool result"] += 1

    def _end_prompt(self) -> None:
        rows, self._typed = self._typed, []
        if not rows:
            return
        self._count += 1
        text = "\n".join("" if row == _BLANK else row for row in rows).strip()
        if text.startswith(_WORDS):
            text = text.partition(" ")[2].strip()
        if text.startswith("/") or not text:
            self._skipped["command"] += 1
            return
        self._rows.say(f"{self._id}:{self._count}", "user", text, self._at)

    def _end_answer(self) -> None:
        text, self._answer = "\n".join(self._answer).strip(), []
        if text:
            self._count += 1
            self._rows.say(f"{self._id}:{self._count}", "assistant", text, self._at)

    def session(self, path: str) -> Iterator[Session]:
        """Yield the session, unless nothing was said."""
        self._end_prompt()
        self._end_answer()
        utterances = self._rows.take()
        if utterances:
            folder = str(Path(path).parent)
            yield Session(_AGENT, self._id, utterances, folder)
