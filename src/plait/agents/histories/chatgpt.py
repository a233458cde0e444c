"""ChatGPT: the zip that the service exports, or ``conversations*.json`` out of it.

A conversation is a tree; the branch that was shown leads from ``current_node`` up to the root.
Other branches are edits and answers that were replaced.
"""

from collections import Counter
from collections.abc import Iterator

from plait.agents.histories import Bookmark, HistoryFile, Places, Reading, Session
from plait.agents.histories.collecting import Utterances
from plait.agents.histories.exports import exported_files, read_export
from plait.agents.histories.values import (
    Fields,
    identifier,
    joined,
    moment_of,
    record_of,
    string,
    texts_of,
)

_AGENT = "chatgpt"
_CONTENT = ("text", "multimodal_text")
_ROLES = ("user", "assistant")
_THOUGHTS = ("thoughts", "reasoning_recap")


def find(places: Places) -> Iterator[HistoryFile]:
    """Yield the exports that the user named."""
    return exported_files(_AGENT, places)


def read(source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
    """Yield the conversations of an export, if it changed since a mark."""
    return read_export(source, mark, _session)


def _session(record: Fields, skipped: Counter[str]) -> tuple[Session, ...]:
    id_ = identifier(record, "conversation_id") or identifier(record, "id")
    rows = Utterances()
    at = moment_of(record.get("create_time"))
    for node, message in _shown(record):
        about = record_of(message.get("metadata"))
        role, content = string(message.get("author"), "role"), record_of(message.get("content"))
        kind = content.get("content_type")
        if kind in _THOUGHTS:
            skipped["thinking"] += 1
        elif role == "tool":
            skipped["tool result"] += 1
        elif (
            role not in _ROLES
            or about.get("is_visually_hidden_from_conversation")
            or about.get("is_user_system_message")
            or kind not in _CONTENT
            or message.get("recipient") not in (None, "all")
        ):
            skipped["injected"] += 1
        else:
            parts = content.get("parts")
            rest = parts if isinstance(parts, list) else []
            text = joined(texts_of([part for part in rest if isinstance(part, str)]))
            name = identifier(message, "id") or f"{id_}:{node}"
            at = moment_of(message.get("create_time")) or at
            if text and role == "user":
                rows.say(name, "user", text, at, typed=True)
            elif text:
                rows.say(name, "assistant", text, at)
    utterances = rows.take()
    if not utterances or not id_:
        skipped["empty conversation"] += 1
        return ()
    return (Session(_AGENT, id_, utterances),)


def _shown(record: Fields) -> Iterator[tuple[str, Fields]]:
    """Yield the messages of the branch that was shown, the first one first."""
    nodes = record_of(record.get("mapping"))
    current = record.get("current_node")
    if not isinstance(current, str) or current not in nodes:
        current = _latest(nodes)
    branch: dict[str, Fields] = {}
    # A branch that leads in a circle ends where it began.
    while isinstance(current, str) and current in nodes and current not in branch:
        node = record_of(nodes[current])
        branch[current] = record_of(node.get("message"))
        current = node.get("parent")
    yield from reversed(branch.items())


def _latest(nodes: Fields) -> str | None:
    """Return the last leaf, for old exports that do not tell which branch was shown."""
    leaves = [name for name, node in nodes.items() if not record_of(node).get("children")]

    def when(name: str) -> int:
        message = record_of(record_of(nodes[name]).get("message"))
        return moment_of(message.get("create_time")) or 0

    return max(leaves, key=when, default=None)
