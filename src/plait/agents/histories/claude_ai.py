"""Claude.ai: the zip that the service exports, or ``conversations.json`` out of it.

The export does not tell to which project a conversation belongs. Pasted files are left out.
"""

from collections import Counter
from collections.abc import Iterator

from plait.agents.histories import Bookmark, HistoryFile, Places, Reading, Session
from plait.agents.histories.acts import act_of
from plait.agents.histories.collecting import Utterances
from plait.agents.histories.exports import exported_files, read_export
from plait.agents.histories.values import (
    Fields,
    hashed,
    identifier,
    joined,
    moment_of,
    record_of,
    records_of,
    string,
    texts_of,
)

_AGENT = "claude"
_CALL, _RESULT, _THOUGHT = "tool_use", "tool_result", "thinking"


def find(places: Places) -> Iterator[HistoryFile]:
    """Yield the exports that the user named."""
    return exported_files(_AGENT, places)


def read(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield the conversations of an export, if it changed since a mark."""
    return read_export(source, mark, _session)


def _session(record: Fields, skipped: Counter[str]) -> tuple[Session, ...]:
    id_ = identifier(record, "uuid")
    rows = Utterances()
    at = moment_of(record.get("created_at"))
    for message in records_of(record.get("chat_messages")):
        parts = records_of(message.get("content"))
        # Older exports have only the flat text; in newer ones it repeats thoughts and results.
        texts = [text for part in parts for text in texts_of(part, "text")]
        texts += [string(part, "text") for part in parts if "type" not in part]
        text = joined(texts) or ("" if parts else string(message, "text").strip())
        told = moment_of(message.get("created_at"))
        name = identifier(message, "uuid") or hashed(id_, message.get("sender"), told, text)
        at = told or at
        skipped["attachment"] += len(records_of(message.get("attachments")))
        if message.get("sender") == "human" and text:
            rows.say(name, "user", text, at, typed=True)
        elif message.get("sender") == "assistant":
            if text:
                rows.say(name, "assistant", text, at)
            for part in parts:
                _add_part(rows, part, name, at, skipped)
    utterances = rows.take()
    if not utterances or not id_:
        skipped["empty conversation"] += 1
        return ()
    return (Session(_AGENT, id_, utterances),)


def _add_part(
    rows: Utterances, part: Fields, name: str, at: int | None, skipped: Counter[str]
) -> None:
    kind = part.get("type")
    if kind == _CALL:
        act = act_of(string(part, "name"), record_of(part.get("input")))
        rows.call(act, identifier(part, "id"), name, at)
    elif kind == _RESULT:
        skipped["tool result"] += 1
        result = joined(texts_of(part.get("content"), "text"))
        failed = part.get("is_error") is True
        rows.end(identifier(part, "tool_use_id"), result, failed=failed)
    elif kind == _THOUGHT:
        skipped["thinking"] += 1
