"""opencode: a database in ``~/.local/share/opencode``; before 2026, JSON files in ``storage``.

Messages and their parts have ids that ascend. Both stores may hold the same session.
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
    Session,
    SessionKind,
)
from plait.agents.histories.acts import act_of
from plait.agents.histories.collecting import FULL, Utterances
from plait.agents.histories.files import (
    below,
    database_state,
    history_file,
    is_unchanged,
    matching,
    oldest_first,
    opened_history,
    read_json,
    state_of,
)
from plait.agents.histories.values import (
    Fields,
    decoded,
    folder,
    identifier,
    joined,
    moment_of,
    number,
    record_of,
    string,
)
from plait.stores.sqlite.others import LiveDatabase
from plait.times import DAY_MS

_AGENT = "opencode"
# Characters at the end of an output in which an error is looked for.
_FAILURE_CHARS = 4_000
_SESSIONS = ("id", "parent_id", "directory", "revert", "time_updated")
# What a tool answered may be large, and is not wanted, but for the end that tells of a failure.
_SLIM = {
    "data": "CASE WHEN json_valid(data) THEN json_remove(json_set(data, '$.state.error', "
    "coalesce(json_extract(data, '$.state.error'), "
    "iif(json_extract(data, '$.state.metadata.exit') <> 0, "
    f"substr(json_extract(data, '$.state.output'), -{_FAILURE_CHARS}), NULL))), '$.state.output', "
    "'$.state.attachments', '$.state.metadata.output') END"
}
# A session's time is written when a turn begins; its parts may come later.
_LONGEST_TURN_MS = DAY_MS
# Each with its id and its parts, which have ids, too.
_Messages = list[tuple[str, Fields, list[tuple[str, Fields]]]]


def find(places: Places) -> Iterator[HistoryFile]:
    """Yield the databases, and the old session files, those used longest ago first."""
    if places.files:
        rows = (history_file(_AGENT, Path(file)) for file in places.files)
        yield from oldest_first(source for sources in rows for source in sources)
        return
    environ = places.environ
    shared = environ.get("XDG_DATA_HOME") or Path(places.home, ".local", "share")
    tops = [Path(shared, _AGENT)]
    if environ.get("LOCALAPPDATA"):
        tops.append(Path(environ["LOCALAPPDATA"], _AGENT))
    sources: list[HistoryFile] = []
    if environ.get("OPENCODE_DB"):
        sources += history_file(_AGENT, tops[0] / environ["OPENCODE_DB"])
    for top in tops:
        for path in (top / "opencode.db", *matching(top, "opencode-*.db")):
            sources += history_file(_AGENT, path)
        for path in below(top / "storage" / "session", (".json",), closed=True):
            sources += history_file(_AGENT, path, path.stem)
    yield from oldest_first(sources)


def read(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield the sessions that changed since a mark."""
    if source.path.endswith(".json"):
        yield from _read_files(source, mark)
        return
    state = database_state(source.path)
    if is_unchanged(mark, state):
        return
    # No session is newer than its file, unless a clock was wrong: then all are read again.
    written = max(time for _, time in state) // 1_000_000
    updated = number(mark, "updated") or 0
    updated = updated if updated <= written else 0
    since = updated - _LONGEST_TURN_MS
    with opened_history(source.path) as database:
        rest = "WHERE time_updated >= ? ORDER BY time_updated, id"
        known = "time_updated" in database.columns("session")
        rows = database.select(
            "session", _SESSIONS, rest if known else "", [since] if known else []
        )
        sessions: list[Session] = []
        skipped: Counter[str] = Counter()
        for row in rows:
            sessions += _session(row, _messages(database, row, skipped), skipped)
            updated = max(updated, min(number(row, "time_updated") or 0, written))
            if sum(len(session.utterances) for session in sessions) >= FULL:
                yield Reading(tuple(sessions), {"updated": updated}, +skipped)
                sessions, skipped = [], Counter()
        yield Reading(tuple(sessions), {"files": state, "updated": updated}, +skipped)


def _messages(database: LiveDatabase, session: Fields, skipped: Counter[str]) -> _Messages:
    """Return the messages of a session in their order, each with its parts."""
    whose = [string(session, "id")]
    parts: dict[str, list[tuple[str, Fields]]] = {}
    rest = "WHERE session_id = ? ORDER BY id"
    for row in database.select("part", ("id", "message_id", "data"), rest, whose, _SLIM):
        data = decoded(row["data"])
        skipped["broken record"] += not isinstance(data, dict)
        parts.setdefault(identifier(row, "message_id"), []).append(
            (identifier(row, "id"), record_of(data))
        )
    rest = "WHERE session_id = ? ORDER BY time_created, id"
    messages: _Messages = []
    for row in database.select("message", ("id", "time_created", "data"), rest, whose):
        data = decoded(row["data"])
        skipped["broken record"] += not isinstance(data, dict)
        id_ = identifier(row, "id")
        if id_:
            about = {"created": row["time_created"], **record_of(data)}
            messages.append((id_, about, parts.get(id_, [])))
    return messages


def _read_files(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield a session of the old store: a file for each session, message and part."""
    path = Path(source.path)
    storage = next((top.parent for top in path.parents if top.name == "session"), path.parent)
    folder_of_messages = storage / "message" / path.stem
    state = state_of(source.path, str(folder_of_messages))
    if is_unchanged(mark, state):
        return
    skipped: Counter[str] = Counter()
    about = read_json(path)
    skipped["broken file"] += not isinstance(about, dict)
    messages: _Messages = []
    for file in sorted(below(folder_of_messages, (".json",))):
        message = read_json(file)
        skipped["broken file"] += not isinstance(message, dict)
        parts = [
            (part.stem, record_of(read_json(part)))
            for part in sorted(below(storage / "part" / file.stem, (".json",)))
        ]
        messages.append((file.stem, record_of(message), parts))
    row = {"parent_id": record_of(about).get("parentID"), **record_of(about), "id": path.stem}
    yield Reading(_session(row, messages, skipped), {"files": state}, +skipped)


def _session(row: Fields, messages: _Messages, skipped: Counter[str]) -> tuple[Session, ...]:
    """Return a session; nothing if nothing was said in it."""
    id_ = identifier(row, "id")
    kind: SessionKind = "subagent" if row.get("parent_id") else "main"
    rows, cwd = Utterances(), folder(row, "directory")
    for name, message, parts in _shown(messages, row.get("revert"), skipped):
        cwd = cwd or folder(message.get("path"), "cwd")
        text = _text(parts, skipped)
        at = moment_of(record_of(message.get("time")).get("created")) or moment_of(
            message.get("created")
        )
        if message.get("role") == "user" and text:
            rows.say(name, "user", text, at, typed=kind == "main")
        elif message.get("role") == "assistant" and message.get("summary") is True:
            skipped["summary"] += 1
        elif message.get("role") == "assistant":
            if text:
                rows.say(name, "assistant", text, at)
            for _, part in parts:
                if part.get("type") == "tool":
                    _add_call(rows, part, name, at, skipped)
    utterances = rows.take()
    if not utterances or not id_:
        return ()
    return (Session(_AGENT, id_, utterances, cwd or None, None, kind),)


def _shown(messages: _Messages, revert: Any, skipped: Counter[str]) -> Iterator[Any]:
    """Yield the messages and parts before the one to which the user went back."""
    hidden = record_of(decoded(revert) if isinstance(revert, str) else revert)
    end, end_part = identifier(hidden, "messageID"), identifier(hidden, "partID")
    for name, message, parts in messages:
        if end and (name > end or (name == end and not end_part)):
            skipped["undone"] += 1
        elif end and name == end:
            yield name, message, [part for part in parts if part[0] < end_part]
        else:
            yield name, message, parts


def _text(parts: list[tuple[str, Fields]], skipped: Counter[str]) -> str:
    texts = []
    for _, part in parts:
        if part.get("type") == "text" and (part.get("synthetic") or part.get("ignored")):
            skipped["injected"] += 1
        elif part.get("type") == "text":
            texts.append(string(part, "text"))
        elif part.get("type") == "reasoning":
            skipped["thinking"] += 1
    return joined(texts)


def _add_call(
    rows: Utterances, part: Fields, name: str, at: int | None, skipped: Counter[str]
) -> None:
    state = record_of(part.get("state"))
    act = act_of(string(part, "tool"), record_of(state.get("input")))
    id_ = identifier(part, "callID")
    rows.call(act, id_, name, at)
    if state.get("status") in ("completed", "error"):
        skipped["tool result"] += 1
        code = number(state.get("metadata"), "exit")
        failed = state["status"] == "error"
        told = string(state, "error") or string(state, "output")[-_FAILURE_CHARS:]
        rows.end(id_, told, failed=failed, exit=code)
