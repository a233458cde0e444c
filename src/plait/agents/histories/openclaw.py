"""OpenClaw: a database for each of its agents; before 2026.8, a file of JSON lines per session.

Both have the same events, and one session may be in both: its events keep their ids and times.
Sessions of schedules and hooks are headless, and so are group chats: other people's words.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from plait.agents.histories import Bookmark, HistoryFile, Places, Reading, Session, SessionKind
from plait.agents.histories.acts import act_of
from plait.agents.histories.collecting import FULL, Utterances
from plait.agents.histories.files import (
    database_state,
    history_file,
    is_unchanged,
    matching,
    oldest_first,
    opened_history,
    read_json,
    state_of,
)
from plait.agents.histories.lines import JsonLines
from plait.agents.histories.stripping import holds_block, without_head
from plait.agents.histories.values import (
    Fields,
    decoded,
    folder,
    hashed,
    identifier,
    joined,
    moment_of,
    number,
    record_of,
    records_of,
    string,
    texts_of,
)
from plait.stores.sqlite.others import LiveDatabase

_AGENT = "openclaw"
# Days after the last use; `session.maintenance` changes it.
_RETENTION_DAYS = 30
_DATABASE = "openclaw-agent.sqlite"
_EVENTS, _WINDOWS = "transcript_events", "session_windows"
# Events that are fetched together; one may hold an image.
_PAGE = 200
_HEADLESS_KEYS = ("cron:", ":cron:", "hook:", ":hook:", "heartbeat", ":group:", ":channel:")
_HEAD_TAGS = ("relevant-memories", "system-reminder")
# Before what was typed stand blocks of JSON: where it came from, and what others said before.
_HEAD_BLOCK = re.compile(r"\(untrusted[^()\n]{0,60}\):")
_MOST_BLOCKS = 10
# Each on a line of its own before what was typed; newer versions say what they are worth.
_EVENTS_BEFORE = ("System: [", "System (untrusted): [")
_NOT_TYPED = (
    *("Read HEARTBEAT.md", "[System Message]", "[Inter-session message]"),
    *("[Queued announce messages", "[Subagent Context]", "Pre-compaction memory flush."),
    "An async command you ran earlier has completed.",
)
# A schedule or a subagent reports into the session.
_REPORT = re.compile(r'A (?:cron job|subagent task|background task) "[^"]{0,400}" just ')
# The first prompt after a reset, below notes of earlier sessions.
_RESET = "A new session was started via /new or /reset."
# When a message came in, before its words.
_STAMP = re.compile(r"\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d[^\[\]\n]{0,40}+\]\s*+")
# Messages that came in meanwhile, each with a head of its own.
_QUEUED = "[Queued messages while agent was busy]"


def find(places: Places) -> Iterator[HistoryFile]:
    """Yield databases and files, those used longest ago first."""
    sources: list[HistoryFile] = []
    for file in places.files:
        sources += history_file(_AGENT, Path(file))
    if not places.files:
        home = Path(places.environ.get("OPENCLAW_STATE_DIR") or Path(places.home, ".openclaw"))
        for path in matching(home / "agents", f"*/agent/{_DATABASE}"):
            sources += history_file(_AGENT, path, days=_RETENTION_DAYS)
        for path in matching(home / "agents", "*/sessions/*.jsonl*"):
            name, _, rest = path.name.partition(".jsonl")
            is_own = not rest or rest.startswith(".reset.")
            if is_own and ".checkpoint" not in name:
                sources += history_file(_AGENT, path, name, days=_RETENTION_DAYS)
    yield from oldest_first(sources)


def read(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield the sessions that changed since a mark."""
    if ".jsonl" in Path(source.path).name:
        yield from _read_file(source, mark)
        return
    state = database_state(source.path)
    if is_unchanged(mark, state):
        return
    before = record_of((mark or {}).get("sessions"))
    lengths: dict[str, int] = {}
    sessions: list[Session] = []
    skipped: Counter[str] = Counter()
    with opened_history(source.path) as database:
        keys = {
            identifier(row, "session_id"): row
            for row in database.select(_WINDOWS, ("session_id", "session_key", "session_scope"))
        }
        last = {"seq": "max(seq)"}
        rest = "GROUP BY session_id ORDER BY session_id"
        for row in database.select(_EVENTS, ("session_id", "seq"), rest, (), last):
            raw, name = row["session_id"], identifier(row, "session_id")
            lengths[name] = number(row, "seq") or 0
            if not name or before.get(name) == lengths[name]:
                continue
            about = keys.get(name, {})
            scope = string(about, "session_scope")
            is_group = scope in ("group", "channel")
            kind = "headless" if is_group else _kind_of(string(about, "session_key"))
            talk = _Talk(name, kind, skipped)
            sessions += talk.session(_rows(database, str(raw), skipped))
            if sum(len(session.utterances) for session in sessions) >= FULL:
                known = {**before, **lengths}
                yield Reading(tuple(sessions), {"sessions": known}, +skipped)
                sessions, skipped = [], Counter()
    yield Reading(tuple(sessions), {"files": state, "sessions": lengths}, +skipped)


def _rows(database: LiveDatabase, session: str, skipped: Counter[str]) -> Iterator[Fields]:
    """Yield the events of a session in their order."""
    last: Any = -1
    rest = f"WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT {_PAGE}"
    while rows := database.select(_EVENTS, ("seq", "event_json"), rest, [session, last]):
        for row in rows:
            event = decoded(row["event_json"])
            skipped["broken record"] += not isinstance(event, dict)
            yield record_of(event)
        last = rows[-1]["seq"]


def _read_file(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    state = state_of(source.path)
    if is_unchanged(mark, state):
        return
    skipped: Counter[str] = Counter()
    path = Path(source.path)
    name = source.session or path.name.partition(".jsonl")[0]
    kind: SessionKind = "main"
    for key, about in record_of(read_json(path.with_name("sessions.json"))).items():
        if identifier(about, "sessionId") == name:
            kind = _kind_of(str(key))

    def events() -> Iterator[Fields]:
        for line in JsonLines(source.path, None):
            if line.record is None:
                skipped[line.reason] += 1
            else:
                yield line.record

    sessions = tuple(_Talk(name, kind, skipped).session(events()))
    yield Reading(sessions, {"files": state}, +skipped)


def _kind_of(key: str) -> SessionKind:
    is_other = key.startswith(_HEADLESS_KEYS) or any(part in key for part in _HEADLESS_KEYS)
    if is_other:
        return "headless"
    return "subagent" if ":subagent:" in key else "main"


class _Talk:
    """Collects the utterances of one session, event by event."""

    def __init__(self, id: str, kind: SessionKind, skipped: Counter[str]) -> None:
        self._id = id
        self._kind = kind
        self._skipped = skipped
        self._rows = Utterances()
        self._cwd = ""
        self._at: int | None = None

    def session(self, events: Iterable[Fields]) -> Iterator[Session]:
        """Yield the session with these events, unless nothing was said."""
        for event in events:
            kind = event.get("type")
            if kind == "session":
                self._cwd = self._cwd or folder(event, "cwd")
                self._at = moment_of(event.get("timestamp"))
            elif kind == "message":
                self._add(event, record_of(event.get("message")))
            elif kind in ("custom_message", "compaction", "branch_summary"):
                self._skipped["injected"] += 1
        utterances = self._rows.take()
        if utterances:
            yield Session(_AGENT, self._id, utterances, self._cwd or None, None, self._kind)

    def _add(self, event: Fields, message: Fields) -> None:
        role, content = message.get("role"), message.get("content")
        when = event.get("timestamp") or message.get("timestamp")
        at = self._at = moment_of(when) or self._at
        # The ids are short: with its time, one is unique, and a fork copies both.
        id_ = hashed(identifier(event, "id") or (self._id, joined(texts_of(content, "text"))), when)
        if role == "user":
            # Newer versions tell who wrote it: a person, another session, or the program.
            origin = string(message.get("provenance"), "kind")
            self._ask(content if origin in ("", "external_user") else "", id_, at)
        elif role == "assistant":
            text = joined(texts_of(content, "text"))
            if text:
                self._rows.say(id_, "assistant", text, at)
            for part in records_of(content):
                if part.get("type") in ("toolCall", "toolUse", "tool_use"):
                    given = record_of(part.get("arguments")) or record_of(part.get("input"))
                    act = act_of(string(part, "name"), given)
                    self._rows.call(act, identifier(part, "id"), id_, at)
                self._skipped["thinking"] += part.get("type") == "thinking"
        elif role == "toolResult":
            self._skipped["tool result"] += 1
            code = number(message.get("details"), "exitCode")
            result = joined(texts_of(content, "text"))
            failed = message.get("isError") is True
            self._rows.end(identifier(message, "toolCallId"), result, failed=failed, exit=code)

    def _ask(self, content: Any, id_: str, at: int | None) -> None:
        whole = joined(texts_of(content, "text"))
        text = _typed(whole)
        if not text:
            self._skipped["injected"] += 1
            return
        is_mixed = any(words in whole for words in _EVENTS_BEFORE) or _QUEUED in text
        is_mixed = is_mixed or _HEAD_BLOCK.search(text) is not None
        is_mixed = is_mixed or holds_block(text, _HEAD_TAGS)
        self._rows.say(id_, "user", text, at, typed=self._kind == "main" and not is_mixed)


def _typed(text: str) -> str:
    """Return what the user typed of a text; empty if a program wrote it."""
    text = without_head(text, _HEAD_TAGS, _EVENTS_BEFORE)
    for _ in range(_MOST_BLOCKS):
        head, opened, rest = text.partition("\n```json\n")
        _, closed, after = rest.partition("\n```")
        if not (opened and closed) or "\n" in head or _HEAD_BLOCK.search(head) is None:
            break
        text = after.lstrip()
    stamp = _STAMP.match(text)
    text = text[stamp.end() :] if stamp is not None else text
    # Within a line, a person speaks of it.
    is_programs = text.startswith((*_NOT_TYPED, _RESET)) or f"\n{_RESET}" in text
    is_programs = is_programs or _REPORT.match(text) is not None
    return "" if is_programs else text
