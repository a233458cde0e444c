"""GitHub Copilot: the command line's ``~/.copilot/session-state/<session>/events.jsonl``.

Every line is an event with an id. Events with ``agentId`` are steps of a subagent. Chats in VS Code
are files of their own (`vscode_chats`).
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plait.agents.histories import Bookmark, HistoryFile, Places, Reading, Session
from plait.agents.histories import vscode_chats as chats
from plait.agents.histories.acts import act_of
from plait.agents.histories.collecting import Utterances
from plait.agents.histories.files import history_file, matching, oldest_first
from plait.agents.histories.lines import JsonLines
from plait.agents.histories.values import (
    Fields,
    hashed,
    identifier,
    joined,
    moment_of,
    note_folder,
    record_of,
    string,
    texts_of,
)
from plait.facts.masking import masked

_AGENT = "copilot"
_EVENTS = "events.jsonl"
# Where a prompt comes from that nobody typed; what was typed tells no source, or that of a person.
_PROGRAMS = ("skill-", "agent-", "system", "hook", "autopilot")
_PERSON = ("", "user")
_EXIT = re.compile(r"exit(?:ed with exit)? code:? (-?\d{1,5})\W{0,4}+\Z", re.I)
# Of a tool's answer, the end tells the exit status; what stands before was printed.
_TAIL = 200


def find(places: Places) -> Iterator[HistoryFile]:
    """Yield the sessions of the command line and of VS Code, those used longest ago first."""
    sources: list[HistoryFile] = []
    for file in places.files:
        sources += history_file(_AGENT, Path(file), _session_of(Path(file)))
    if not places.files:
        home = Path(places.environ.get("COPILOT_HOME") or Path(places.home, ".copilot"))
        for path in matching(home / "session-state", f"*/{_EVENTS}"):
            sources += history_file(_AGENT, path, _session_of(path))
        for path in chats.chat_files(places):
            sources += history_file(_AGENT, path, path.stem)
    yield from oldest_first(sources)


def _session_of(path: Path) -> str:
    return path.parent.name if path.name == _EVENTS else path.stem


def read(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield what a session says since a mark."""
    if Path(source.path).name != _EVENTS:
        yield from chats.read_chat(source, mark)
        return
    lines = JsonLines(source.path, mark)
    if mark is not None and lines.is_unchanged:
        return
    events = _Events(source, lines.state)
    for line in lines:
        if line.record is None:
            events.skipped[line.reason] += 1
            continue
        if events.is_typed(line.record):
            lines.begin_turn()
            if events.utterances.is_full or lines.is_far:
                yield events.reading(lines.mark())
        events.add(line.record)
    yield events.reading(lines.mark())


class _Events:
    """Collects the utterances of a session, event by event."""

    def __init__(self, source: HistoryFile, state: dict[str, Any]) -> None:
        self._source = source
        self._state = state
        self.skipped: Counter[str] = Counter()
        self.utterances = Utterances()
        # How much had been said before each event, for a rewind.
        self._places: dict[str, int] = {}
        self._answer = ""

    def reading(self, mark: Bookmark) -> Reading:
        """Return what was collected, and begin anew."""
        state = self._state
        session = Session(
            _AGENT,
            self._source.session or "session",
            self.utterances.take(),
            next(iter(state.get("folders", ())), None),
            state.get("branch") or None,
            folders=tuple(state.get("folders", ())),
        )
        skipped, self.skipped, self._places = +self.skipped, Counter(), {}
        return Reading((session,) if session.utterances else (), mark, skipped)

    def is_typed(self, record: Fields) -> bool:
        """Tell whether an event is what the user typed."""
        data = record_of(record.get("data"))
        by_program = data.get("isAutopilotContinuation") or string(data, "source").startswith(
            _PROGRAMS
        )
        return record.get("type") == "user.message" and not by_program and not record.get("agentId")

    def add(self, record: Fields) -> None:
        """Take one event into the session."""
        kind, data = record.get("type"), record_of(record.get("data"))
        at = moment_of(record.get("timestamp"))
        id_ = identifier(record, "id") or hashed(self._source.session, kind, at, sorted(data))
        self._places.setdefault(id_, len(self.utterances))
        if record.get("agentId"):
            self.skipped["subagent"] += 1
        elif record.get("ephemeral"):
            self.skipped["passing event"] += 1
        elif kind == "user.message":
            self._ask(record, data, id_, at)
        elif kind == "assistant.message":
            self._say(data, id_, at)
        elif kind == "tool.execution_start":
            call = act_of(string(data, "toolName"), record_of(data.get("arguments")))
            self.utterances.call(call, identifier(data, "toolCallId"), id_, at)
        elif kind == "tool.execution_complete":
            self._end_call(data)
        elif kind == "session.snapshot_rewind":
            place = self._places.get(identifier(data, "upToEventId"), -1)
            self.skipped["undone"] += self.utterances.undo_to(place)
        else:
            self._note(kind, data)

    def _note(self, kind: Any, data: Fields) -> None:
        """Keep what an event tells about the whole session."""
        state = self._state
        if kind in ("session.start", "session.resume", "session.context_changed"):
            about = data if kind == "session.context_changed" else record_of(data.get("context"))
            note_folder(state, about)
            state["branch"] = masked(string(about, "branch"))[0] or state.get("branch")
        elif kind in ("system.message", "session.compaction_complete"):
            self.skipped["injected"] += 1

    def _ask(self, record: Fields, data: Fields, id_: str, at: int | None) -> None:
        text = string(data, "content").strip()
        if not self.is_typed(record) or not text:
            self.skipped["injected"] += 1
            return
        self._answer = ""
        is_persons = string(data, "source") in _PERSON
        self.utterances.say(id_, "user", text, at, typed=is_persons)

    def _say(self, data: Fields, id_: str, at: int | None) -> None:
        """Add an answer; one that came in pieces is one answer."""
        self.skipped["thinking"] += bool(string(data, "reasoningText"))
        text = string(data, "content").strip()
        answer = identifier(data, "apiCallId")
        if not text:
            return
        if answer and answer == self._answer and len(self.utterances):
            self.utterances.continue_with(text)
        else:
            self.utterances.say(id_, "assistant", text, at)
        self._answer = answer

    def _end_call(self, data: Fields) -> None:
        self.skipped["tool result"] += 1
        result = record_of(data.get("result"))
        text = joined(texts_of(result.get("content")))
        told = _EXIT.search(text[-_TAIL:])
        failed = data.get("success") is False
        error = string(data.get("error"), "message") or text
        code = int(told[1]) if told is not None else None
        self.utterances.end(identifier(data, "toolCallId"), error, failed=failed, exit=code)
