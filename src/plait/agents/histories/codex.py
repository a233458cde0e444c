"""Codex: ``~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl``, a file for each thread.

What the user typed is there twice: as an event, which is clean, and as an item that the model got,
among items that programs wrote. The event counts where there is one. A fork repeats the lines of
its parent: an utterance is known by the first thread and by all words before it.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plait.agents.histories import (
    Bookmark,
    HistoryFile,
    Places,
    Reading,
    Role,
    Session,
    SessionKind,
)
from plait.agents.histories.codex_items import (
    call_of,
    holds_context,
    kind_of,
    parent_of,
    payload_of,
    prompt_of,
    result_of,
    root_of,
    words_of,
)
from plait.agents.histories.collecting import Utterances
from plait.agents.histories.files import below, history_file, oldest_first, state_of
from plait.agents.histories.lines import JsonLines
from plait.agents.histories.values import (
    Fields,
    hashed,
    identifier,
    joined,
    moment_of,
    note_folder,
    number,
    string,
    texts_of,
)
from plait.facts.masking import masked

_AGENT = "codex"
_MAIN: SessionKind = "main"
_COMPRESSED = ".jsonl.zst"
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
_RESULTS = ("function_call_output", "custom_tool_call_output")
_UUID = 36
# Beginnings of turns that a mark keeps; a user takes back fewer.
_MOST_TURNS = 20


def find(places: Places) -> Iterator[HistoryFile]:
    """Yield the files of threads, also of archived ones, those used longest ago first."""
    paths = [Path(file) for file in places.files]
    if not paths:
        home = Path(places.environ.get("CODEX_HOME") or Path(places.home, ".codex"))
        for name in ("sessions", "archived_sessions"):
            paths += below(home / name, (".jsonl", _COMPRESSED), closed=True)
    plain = {str(path) for path in paths}
    sources = (
        history_file(_AGENT, path, _thread(path))
        for path in paths
        if not (path.name.endswith(_COMPRESSED) and str(path).removesuffix(".zst") in plain)
    )
    yield from oldest_first(source for rows in sources for source in rows)


def _thread(path: Path) -> str | None:
    """Return the thread that a file's name tells; after a revert, the name has two ids."""
    thread = path.name.partition(".jsonl")[0].partition("_")[0][-_UUID:]
    return thread if thread.count("-") == 4 else None


def read(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield what a thread's file says since a mark."""
    if source.path.endswith(_COMPRESSED):
        yield Reading((), {"files": state_of(source.path)}, {"compressed with zstd": 1})
        return
    lines = JsonLines(source.path, mark)
    if mark is not None and lines.is_unchanged:
        return
    rollout = _Rollout(source, lines.state)
    for line in lines:
        if line.record is None:
            rollout.skipped[line.reason] += 1
            continue
        if rollout.begins_turn(line.record):
            lines.begin_turn()
            if rollout.utterances.is_full or lines.is_far:
                yield rollout.reading(lines.mark())
            rollout.begin_turn()
        rollout.add(line.record)
    rollout.end()
    yield rollout.reading(lines.mark())


class _Rollout:
    """Collects the utterances of a thread, record by record."""

    def __init__(self, source: HistoryFile, state: dict[str, Any]) -> None:
        self._source = source
        self._state = state
        self.skipped: Counter[str] = Counter()
        self.utterances = Utterances()
        # Items of the user that are not yet known to be typed, each with its id.
        self._held: list[tuple[str, str, int | None]] = []
        self._in_prompt = False
        # Of the last line that told one: those of the oldest files tell none but the first.
        self._at: int | None = None
        # A hash of all words so far. Times are no help: a fork writes them anew.
        turns: list[str] = state.get("turns") or [""]
        self._turns, self._words = turns[:-1], turns[-1]

    def reading(self, mark: Bookmark) -> Reading:
        """Return what was collected, and begin anew."""
        state = self._state
        session = Session(
            _AGENT,
            self._thread,
            self.utterances.take(),
            next(iter(state.get("folders", ())), None),
            state.get("branch"),
            state.get("kind", _MAIN),
            tuple(state.get("folders", ())),
        )
        skipped, self.skipped = +self.skipped, Counter()
        return Reading((session,) if session.utterances else (), mark, skipped)

    @property
    def _thread(self) -> str:
        known = self._source.session or self._state.get("id")
        return known or Path(self._source.path).name.partition(".jsonl")[0]

    # -- records

    def begin_turn(self) -> None:
        """Note how far the words are, for the next reading and for turns that are undone."""
        self._turns.append(self._words)
        self._state["turns"] = self._turns[-_MOST_TURNS:]

    def begins_turn(self, record: Fields) -> bool:
        """Tell whether a record is the first since the last answer that may be typed."""
        kind, payload = payload_of(record)
        return not self._in_prompt and bool(prompt_of(kind, payload))

    def add(self, record: Fields) -> None:
        """Take one record into the session."""
        kind, payload = payload_of(record)
        start = number(self._state, "start")
        own = number(record, "ordinal")
        if start is not None and own is not None and own < start and kind != "session_meta":
            self.skipped["copy"] += 1
            return
        words = words_of(kind, payload)
        if words:
            self._words = hashed(self._words, words)
        text = prompt_of(kind, payload)
        at = self._at = moment_of(record.get("timestamp")) or self._at
        if kind == "session_meta":
            self._begin(payload)
        elif kind == "event_msg" and text:
            self.skipped["copy"] += len(self._held)
            self._held, self._in_prompt = [], True
            self._state["events"] = True
            self._say("user", text, self._id(), at)
        elif kind == "event_msg" and payload.get("type") == "thread_rolled_back":
            self._undo(number(payload, "num_turns") or 0)
        elif kind == "turn_context":
            note_folder(self._state, payload)
        elif kind == "response_item":
            self._add_item(payload, text, at)

    def _undo(self, count: int) -> None:
        """Take back the last turns: a fork made later does not repeat them."""
        self.skipped["undone"] += self.utterances.undo_turns(count)
        if 0 < count <= len(self._turns):
            self._words = self._turns[-count]
            del self._turns[-count:]

    def _begin(self, meta: Fields) -> None:
        """Keep what the file's own first line tells; a fork repeats its parent's after it."""
        state, id_ = self._state, identifier(meta, "id")
        root = parent_of(meta)
        if kind_of(meta) != _MAIN:
            state["by_program"] = True  # also from here on, when a program resumes a thread
        if "id" in state:
            if not self._words:
                state["root"] = root or id_
            return
        state["id"] = id_
        state["root"] = root_of(self._source.path, root) if root else id_
        note_folder(state, meta)
        state["branch"] = masked(string(meta.get("git"), "branch"))[0] or None
        state["start"] = number(meta, "subagent_history_start_ordinal")
        state["kind"] = kind_of(meta)
        state["items"] = meta.get("history_mode") is None and "cli_version" not in meta

    def _id(self, line: str = "") -> str:
        """Return the id of what was read last: the same in a fork that repeats it."""
        return hashed(self._state.get("root") or self._thread, self._words, line)

    def _add_item(self, item: Fields, text: str, at: int | None) -> None:
        kind = item.get("type")
        if kind == "message" and item.get("role") == "user":
            if text:
                self._held.append((text, self._id(), at))
                self._in_prompt = True
            else:
                self.skipped["injected"] += 1
        elif kind == "message" and item.get("role") == "assistant":
            self._release()
            self._say("assistant", joined(texts_of(item.get("content"))), self._id(), at)
        elif kind in _CALLS:
            self._release()
            call = call_of(item)
            self.utterances.call(call, identifier(item, "call_id"), self._id(call.line), at)
        elif kind in _RESULTS:
            self.skipped["tool result"] += 1
            result, code, failed = result_of(item.get("output"))
            self.utterances.end(identifier(item, "call_id"), result, failed=failed, exit=code)
        elif kind == "reasoning":
            self.skipped["thinking"] += 1
        elif kind == "message":
            self.skipped["injected"] += 1

    # -- words

    def end(self) -> None:
        """Take what waits for its event at the end, if this file has no events."""
        if self._state.get("items", True):
            self._release()

    def _release(self) -> None:
        """Take the items that no event told to be typed; if there are events, they are not."""
        held, self._held, self._in_prompt = self._held, [], False
        if self._state.get("events"):
            self.skipped["copy"] += len(held)
            return
        for text, id_, at in held:
            self._say("user", text, id_, at)

    def _say(self, role: Role, text: str, id_: str, at: int | None) -> None:
        if text:
            by_person = self._state.get("kind", _MAIN) == _MAIN and not self._state.get(
                "by_program"
            )
            typed = role == "user" and by_person and not holds_context(text)
            self.utterances.say(id_, role, text, at, typed=typed)
