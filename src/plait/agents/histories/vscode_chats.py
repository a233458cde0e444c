"""Copilot's chats in VS Code: a file for each chat, beside what the editor knows of a workspace.

It is one JSON value, or a log whose first line is the whole and whose others change it. VS Code
writes both anew now and then, so a file that changed is read whole.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plait.agents.connecting.places import VSCODE_FOLDERS
from plait.agents.histories import Bookmark, HistoryFile, Places, Reading, Session
from plait.agents.histories.acts import act_of
from plait.agents.histories.collecting import Utterances
from plait.agents.histories.files import (
    data_folders,
    is_unchanged,
    matching,
    read_json,
    state_of,
    workspace_folder,
)
from plait.agents.histories.lines import JsonLines
from plait.agents.histories.values import (
    Fields,
    hashed,
    identifier,
    moment_of,
    number,
    record_of,
    records_of,
    string,
)

_WHOLE, _SET, _PUSH, _DELETE = range(4)
# Steps of a path in a log; no chat is deeper.
_DEEPEST = 50


def chat_files(places: Places) -> Iterator[Path]:
    """Yield the files of chats, of all editors of the family."""
    for top in (row for name in VSCODE_FOLDERS for row in data_folders(places, name)):
        for pattern in ("workspaceStorage/*/chatSessions", "globalStorage/emptyWindowChatSessions"):
            for path in matching(top, f"{pattern}/*.json*"):
                newer = path.with_suffix(".jsonl")
                is_old = path.suffix == ".json" and os.path.exists(newer)  # noqa: PTH110
                if path.suffix in ("", ".json", ".jsonl") and not is_old:
                    yield path


def read_chat(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield a chat, if its file changed since a mark."""
    state = state_of(source.path)
    if is_unchanged(mark, state):
        return
    skipped: Counter[str] = Counter()
    path = Path(source.path)
    chat: Any = None
    if path.suffix == ".json":
        chat = read_json(path)
    else:
        for line in JsonLines(source.path, None):
            if line.record is None:
                skipped[line.reason] += 1
            else:
                chat = _changed(chat, line.record)
    skipped["broken file"] += not isinstance(chat, dict)
    yield Reading(_sessions(record_of(chat), source, skipped), {"files": state}, +skipped)


def _changed(chat: Any, change: Fields) -> Any:
    """Return a chat after one line of the log; a change of something that is not there is left."""
    kind, path, value = change.get("kind"), change.get("k"), change.get("v")
    if kind == _WHOLE:
        return value
    if not isinstance(path, list) or not 0 < len(path) <= _DEEPEST:
        return chat
    holder = chat
    for step in path[:-1]:
        holder = _at(holder, step)
    last = path[-1]
    is_field = isinstance(holder, dict) and isinstance(last, str)
    if kind == _SET and (is_field or (isinstance(holder, list) and _at(holder, last) is not None)):
        holder[last] = value
    elif kind == _DELETE and is_field:
        holder.pop(last, None)
    elif kind == _PUSH:
        rows, start = _at(holder, last), number(change, "i")
        if isinstance(rows, list):
            if start is not None and start >= 0:
                del rows[start:]
            rows += value if isinstance(value, list) else []
    return chat


def _at(holder: Any, step: Any) -> Any:
    if isinstance(holder, dict) and isinstance(step, str):
        return holder.get(step)
    is_place = isinstance(step, int) and not isinstance(step, bool)
    if isinstance(holder, list) and is_place and 0 <= step < len(holder):
        return holder[step]
    return None


def _sessions(chat: Fields, source: HistoryFile, skipped: Counter[str]) -> tuple[Session, ...]:
    path = Path(source.path)
    session = identifier(chat, "sessionId") or path.stem
    rows = Utterances()
    at = moment_of(chat.get("creationDate"))
    for request in records_of(chat.get("requests")):
        message = request.get("message")
        text = string(message if not isinstance(message, str) else request, "text")
        text = text or string(request, "message")
        told = moment_of(request.get("timestamp"))
        id_ = identifier(request, "requestId") or hashed(session, told, text)
        at = told or at
        if text.strip():
            rows.say(id_, "user", text, at, typed=True)
        _answer(rows, request, f"{id_}:answer", at, skipped)
    utterances = rows.take()
    if not utterances:
        return ()
    cwd = workspace_folder(path.parent.parent)
    return (Session(source.agent, session, utterances, cwd or None),)


def _answer(
    rows: Utterances, request: Fields, id_: str, at: int | None, skipped: Counter[str]
) -> None:
    """Add an answer: its pieces are one text, with the names of files between them."""
    pieces: list[str] = []
    calls: list[Fields] = []
    for part in records_of(request.get("response")):
        kind = part.get("kind")
        if kind in (None, "markdownContent"):
            pieces.append(string(part, "value") or string(part.get("content"), "value"))
        elif kind == "inlineReference":
            reference = record_of(part.get("inlineReference"))
            pieces.append(string(reference, "name") or Path(string(reference, "path")).name)
        elif kind in ("toolInvocationSerialized", "textEditGroup"):
            calls.append(part)
        elif kind == "thinking":
            skipped["thinking"] += 1
    text = "".join(pieces).strip()
    if text:
        rows.say(id_, "assistant", text, at)
    for place, part in enumerate(calls):
        name = f"{id_}:{place}"
        if part.get("kind") == "textEditGroup":
            rows.call(act_of("edit", {"path": string(part.get("uri"), "path")}), name, id_, at)
            continue
        data = record_of(part.get("toolSpecificData"))
        line = data.get("commandLine")
        command = string(line, "original") or string(data, "command") or string(data, "commandLine")
        shown = part.get("pastTenseMessage") or part.get("invocationMessage")
        about = shown if isinstance(shown, str) else string(shown, "value")
        rows.call(
            act_of(string(part, "toolId"), {"command": command, "title": about}), name, id_, at
        )
        code = number(data.get("terminalCommandState"), "exitCode")
        if code is not None:
            rows.end(name, "", failed=code != 0, exit=code)
