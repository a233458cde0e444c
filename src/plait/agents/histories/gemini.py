"""Gemini CLI: ``~/.gemini/tmp/<project>/chats/session-*.jsonl``, a log to be replayed.

Messages repeat under their id as they grow, and the last one counts; a rewind removes messages.
So a file that changed is read whole. Older sessions are one JSON file; it may continue as a log.
A compression, or results that are cut short, write the messages anew under other ids.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from operator import eq
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
from plait.agents.histories.acts import act_of, unframed
from plait.agents.histories.collecting import Utterances, portions
from plait.agents.histories.files import (
    below,
    history_file,
    is_unchanged,
    oldest_first,
    read_json,
    read_text,
    state_of,
)
from plait.agents.histories.lines import JsonLines
from plait.agents.histories.stripping import holds_block, without_head
from plait.agents.histories.values import (
    Fields,
    folder,
    hashed,
    identifier,
    joined,
    moment_of,
    record_of,
    records_of,
    string,
    texts_of,
)

_AGENT = "gemini"
# Days after the last use; `general.sessionRetention` changes it.
_RETENTION_DAYS = 30
_SUBAGENT: SessionKind = "subagent"
_HEAD_TAGS = ("session_context", "hook_context")
# After these words come the files that the user named with @, to the end.
_FILES = "--- Content from referenced files ---"
# Commands of the program itself, not words for the model.
_COMMANDS = ("/", "?")
# In the user's place: what a model wrote of earlier turns, what older versions began with, what is
# open in the editor, and what the program says when an answer breaks off.
_SUMMARY = "<state_snapshot>"
_NOT_TYPED = (
    *(_SUMMARY, "This is the Gemini CLI. We are setting up the context"),
    *("Here is the user's editor context", "Here is a summary of changes in the user's editor"),
    "System: Please continue.",
)
# What the model is made to say to both.
_ACKNOWLEDGED = ("Got it. Thanks for the additional context!", "Got it. Thanks for the context!")
_LOG, _WHOLE = ".jsonl", ".json"
_WORD = re.compile(r"\w+")


def find(places: Places) -> Iterator[HistoryFile]:
    """Yield the session files, those used longest ago first."""
    if places.files:
        rows = (history_file(_AGENT, Path(file)) for file in places.files)
        yield from oldest_first(source for sources in rows for source in sources)
        return
    top = Path(places.environ.get("GEMINI_CLI_HOME") or places.home, ".gemini")
    days = _retention_days(top / "settings.json")
    sources: list[HistoryFile] = []
    others = ("checkpoints", "memory", "shell_history")
    for path in below(top / "tmp", (_LOG, _WHOLE), others, closed=True):
        parts = path.relative_to(top / "tmp").parts
        is_file = path.suffix in (_LOG, _WHOLE)
        is_old = path.suffix == _WHOLE and os.path.exists(path.with_suffix(_LOG))  # noqa: PTH110
        if is_file and ("chats" not in parts or is_old):
            continue
        # A subagent's file is in a folder named after the session that called it.
        kind: SessionKind = "main" if path.parent.name == "chats" else _SUBAGENT
        sources += history_file(_AGENT, path, kind=kind, days=days)
    yield from oldest_first(sources)


def _retention_days(path: Path) -> int | None:
    general = record_of(record_of(read_json(path)).get("general"))
    settings = record_of(general.get("sessionRetention"))
    if settings.get("enabled") is False:
        return None
    age = string(settings, "maxAge")
    is_days = age.endswith("d") and age[:-1].isdecimal() and len(age) < 6
    return int(age[:-1]) if is_days else _RETENTION_DAYS


def read(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield what a session says, if its file changed since a mark."""
    state = state_of(source.path)
    if is_unchanged(mark, state):
        return
    chat = _Chat(source)
    if source.path.endswith(_WHOLE):
        whole = read_json(Path(source.path))
        chat.skipped["broken file"] += not isinstance(whole, dict)
        chat.change(record_of(whole))
    else:
        for line in JsonLines(source.path, None):
            if line.record is None:
                chat.skipped[line.reason] += 1
            else:
                chat.replay(line.record)
    sessions = [part for session in chat.sessions() for part in portions(session)]
    for part in sessions[:-1]:
        yield Reading((part,), {}, {})
    yield Reading(sessions[-1:], {"files": state}, +chat.skipped)


class _Chat:
    """The messages of a session while its log is replayed."""

    def __init__(self, source: HistoryFile) -> None:
        self._source = source
        self.skipped: Counter[str] = Counter()
        self._about: dict[str, Any] = {}
        self._messages: dict[str, Fields] = {}
        # Those that the model still has; of what was written anew, the ids that it had before.
        self._live: dict[str, None] = {}
        self._first_ids: dict[str, str] = {}

    def replay(self, record: Fields) -> None:
        """Apply one line of the log."""
        if "$rewindTo" in record:
            self._rewind(identifier(record, "$rewindTo"))
        elif "$set" in record:
            self.change(record_of(record["$set"]))
        elif "id" in record and "type" in record:
            self._put(record)
        else:
            self._about.update(record)

    def change(self, values: Fields) -> None:
        """Change what is known of the session; a list of messages replaces them all."""
        self._about.update((name, value) for name, value in values.items() if name != "messages")
        if isinstance(values.get("messages"), list):
            rows = {_own_id(row): row for row in records_of(values["messages"])}
            self._replace({self._first_ids.get(id_, id_): row for id_, row in rows.items()})

    def _put(self, message: Fields) -> None:
        own = _own_id(message)
        id_ = self._first_ids.get(own, own)
        self._messages[id_] = self._kept(id_, message)
        self._live[id_] = None

    def _kept(self, id: str, message: Fields) -> Fields:
        """Return a message with what it had when it was first written, if this is a copy."""
        known = self._messages.get(id)
        if known is None or id == _own_id(message):
            return message
        first = {name: known.get(name) for name in ("content", "timestamp")}
        return {**known, **message, **first}

    def _replace(self, listed: dict[str, Fields]) -> None:
        """Replace the messages that the model has.

        If the list begins anew with a summary, the turns before that were said all the same.
        """
        anew = self._written_anew(listed)
        self._first_ids.update(anew)
        for id_ in anew:
            self._messages.pop(id_, None)
        rows: dict[str, Fields] = {}
        for id_, row in listed.items():
            first = anew.get(id_, id_)
            rows[first] = self._kept(first, row)
        summary = next((id_ for id_, row in rows.items() if _is_summary(row)), None)
        if summary is None:
            self._messages = {}
        elif summary in self._messages:  # what is behind it, and not in the list, was taken back
            while self._messages.popitem()[0] != summary:
                pass
        self._messages.update(rows)
        self._live = dict.fromkeys(rows)

    def _written_anew(self, listed: dict[str, Fields]) -> dict[str, str]:
        """Return the first ids of messages that repeat earlier ones which the list leaves out.

        They were not there before, or all of them were appended one after another just now.
        """
        left_out: dict[str, list[str]] = {}
        for id_ in self._live:
            if id_ not in listed and (words := _words(self._messages[id_])):
                left_out.setdefault(words, []).append(id_)
        anew: dict[str, str] = {}
        if not left_out:
            return anew
        is_end = all(map(eq, reversed(listed), reversed(self._messages)))
        for id_, message in reversed(listed.items()):  # the last turns are kept, not the first
            if (id_ not in self._messages or is_end) and (words := _words(message)):
                if left_out.get(words):
                    anew[id_] = left_out[words].pop()
                elif is_end:
                    return {}  # what a person said again
        return anew

    def _rewind(self, id: str) -> None:
        """Remove a message and all later ones; all, if it is not there."""
        id = self._first_ids.get(id, id)
        is_there = id in self._messages
        while self._messages:
            name, _ = self._messages.popitem()
            self._live.pop(name, None)
            self.skipped["undone"] += 1
            if is_there and name == id:
                return

    def sessions(self) -> tuple[Session, ...]:
        """Return the session; nothing if nothing was said."""
        kind = _SUBAGENT if self._about.get("kind") == _SUBAGENT else self._source.kind
        rows = Utterances()
        session = identifier(self._about, "sessionId") or Path(self._source.path).stem
        at = moment_of(self._about.get("startTime"))
        for id_, message in self._messages.items():
            name = f"{session}:{id_}"
            at = moment_of(message.get("timestamp")) or at
            if message.get("type") == "user":
                text = self._typed(message)
                if text:
                    typed = kind == "main" and not holds_block(text, _HEAD_TAGS)
                    rows.say(name, "user", text, at, typed=typed)
            elif message.get("type") in ("gemini", "model"):
                self._answer(rows, message, name, at)
        utterances = rows.take()
        if not utterances:
            return ()
        cwd = _project(Path(self._source.path))
        return (
            Session(
                _AGENT,
                session,
                utterances,
                cwd or None,
                None,
                kind,
            ),
        )

    def _typed(self, message: Fields) -> str:
        shown = message.get("displayContent")
        parts = shown if isinstance(shown, str | list | dict) and shown else message.get("content")
        text = _typed_in(parts)
        if text.startswith(_COMMANDS):
            text = ""
        self.skipped["injected"] += not text
        return text

    def _answer(self, rows: Utterances, message: Fields, name: str, at: int | None) -> None:
        text = _answered(message.get("content"))
        calls = records_of(message.get("toolCalls"))
        self.skipped["thinking"] += len(records_of(message.get("thoughts")))
        if text and text not in _ACKNOWLEDGED:
            rows.say(name, "assistant", text, at)
        for place, call in enumerate(calls):
            id_ = f"{place}:{identifier(call, 'id')}"
            act = act_of(string(call, "name"), record_of(call.get("args")))
            rows.call(act, id_, name, at)
            if call.get("result"):
                self.skipped["tool result"] += 1
            status = call.get("status")
            if status in ("success", "error", "cancelled"):
                result = _result(call)
                failed = status == "error" or bool(result)
                exit = 0 if act.command and not failed and status == "success" else None
                rows.end(id_, result, failed=failed, exit=exit)


def _own_id(message: Fields) -> str:
    words = hashed(message.get("type"), message.get("timestamp"), message.get("content"))
    return identifier(message, "id") or words


def _typed_in(content: Any) -> str:
    """Return what was typed of a message: turns of programs may be parts of it."""
    texts = [without_head(text, _HEAD_TAGS) for text in texts_of(content)]
    typed = joined([text for text in texts if not text.startswith(_NOT_TYPED)])
    return typed.partition(_FILES)[0].rstrip()


def _answered(content: Any) -> str:
    """Return the words of an answer, without what the model thought."""
    parts = content
    if isinstance(content, list):
        parts = [part for part in content if not record_of(part).get("thought")]
    return joined(texts_of(parts))


def _words(message: Fields) -> str:
    """Return what a message says, the same for its copies; empty if that is nothing.

    A copy has calls among its parts, and marks that nobody sees.
    """
    content = message.get("content")
    is_users = message.get("type") == "user"
    parts = records_of(content)
    calls = [record_of(part.get("functionCall")) for part in parts if "functionCall" in part]
    ids = [identifier(call, "id") for call in records_of(message.get("toolCalls")) or calls]
    text = joined(texts_of(content)) if _is_summary(message) else ""
    text = text or (_typed_in(content) if is_users else _answered(content))
    words = " ".join((*_WORD.findall(text), *sorted(ids)))
    return hashed(is_users, words) if words else ""


def _is_summary(message: Fields) -> bool:
    texts = texts_of(message.get("content"))
    return message.get("type") == "user" and joined(texts).startswith(_SUMMARY)


def _result(call: Fields) -> str:
    """Return how a call ended, in words; empty if it went well."""
    for part in records_of(call.get("result")):
        response = record_of(record_of(part.get("functionResponse")).get("response"))
        text = string(response, "error") or string(response, "output")
        for line in text.splitlines():
            if line.startswith("Exit Code:") and line.strip() != "Exit Code: 0":
                return f"{line}\n{unframed(text)}"
        if call.get("status") == "error":
            return text
    return string(call, "resultDisplay") if call.get("status") == "error" else ""


def _project(path: Path) -> str:
    """Return the folder that a session was about; the file itself does not tell."""
    chats = next((parent for parent in path.parents if parent.name == "chats"), None)
    if chats is None:
        return ""
    root = read_text(chats.parent / ".project_root").strip()
    known = record_of(read_json(chats.parent.parent.parent / "projects.json"))
    slugs = record_of(known.get("projects"))
    by_name = next((place for place, slug in slugs.items() if slug == chats.parent.name), "")
    return folder({"root": root}, "root") or folder({"root": by_name}, "root")
