"""Which files of a message's steps were written since: the only look at a project's files."""

import os
from collections.abc import Iterable, Mapping

from plait.errors import StoreError
from plait.protocols import Store
from plait.searching.steps import stored_steps
from plait.types import Answer, Document, Filter
from plait.types.ids import AGENT_FIELD

# Hits and files of a hit that are looked at: the disk may be slow.
_MOST_HITS = 20
_MOST_FILES = 8
# An agent's own edit comes a little after the message that tells of it.
_SLACK_MS = 60_000
# How long an agent may have gone on after the last message of a session.
_LAST_MS = 30 * 60_000
_MESSAGES = Filter(kinds=("message",))


def marked(store: Store, answer: Answer, home: str | None) -> Answer:
    """Return an answer of which imported messages tell which of their files changed since."""
    changed = changes_since(store, (hit.document for hit in answer[:_MOST_HITS]), home)
    hits = [hit._replace(changed_since=changed.get(hit.document.id, ())) for hit in answer]
    return Answer(hits, answer.receipt)


def changes_since(
    store: Store, documents: Iterable[Document], home: str | None
) -> dict[str, tuple[str, ...]]:
    """Return files of the project that were written after an imported message, by its id.

    Only files that the steps of the message read or changed, and that exist now.
    """
    imported = [
        document
        for document in documents
        if document.project == home and AGENT_FIELD in document.metadata
    ]
    ahead = store.ahead if imported else None
    try:
        known = {} if ahead is None else ahead.steps([document.id for document in imported])
    except StoreError:  # the hits are known: a server that is lost now must not take them
        return {}
    later: list[tuple[Document, dict[str, float]]] = []
    for document in imported:
        try:
            steps = known[document.id] if known else stored_steps(store, document.id)
        except StoreError:  # what is damaged is told by whoever reads it
            continue
        paths = dict.fromkeys(step.path for step in steps if step.path)
        if written := _later(document, list(paths)[:_MOST_FILES]):
            later.append((document, written))
    followed = None
    if ahead is not None and later:
        try:
            followed = ahead.followed([document.id for document, _ in later], _MESSAGES)
        except StoreError:
            return {}
    changes: dict[str, tuple[str, ...]] = {}
    for document, written in later:
        try:
            next_at = _next_at(store, document) if followed is None else followed.get(document.id)
        except StoreError:
            continue
        if changed := _after_all(document, written, next_at):
            changes[document.id] = changed
    return changes


def written_since(store: Store, message: Document, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of some files that were written after a message and all that it tells of.

    Only files that exist now, in a project that is a folder of this machine.
    """
    later = _later(message, paths)
    return _after_all(message, later, _next_at(store, message)) if later else ()


def _later(message: Document, paths: Iterable[str]) -> dict[str, float]:
    """Return when those of some files were written that were so after a message was begun."""
    root = message.project or ""
    at = message.event_at or message.created_at
    written = {path: _written(root, path) for path in paths} if os.path.isabs(root) else {}
    return {path: moment for path, moment in written.items() if moment > at + _SLACK_MS}


def _next_at(store: Store, message: Document) -> int | None:
    """Return the time of the message after another one; ``None`` if that is the last one."""
    where = _MESSAGES._replace(projects=(message.project,), session=message.session)
    following = store.scan(where, limit=1, after=message.place, by_turn=True)
    return (following[0].event_at or 0) if following else None


def _after_all(
    message: Document, written: Mapping[str, float], next_at: int | None
) -> tuple[str, ...]:
    """Return those files that were written after all that a message tells of."""
    at = message.event_at or message.created_at
    # That may have taken long: it ended before the next message.
    ended = at + _LAST_MS if next_at is None else max(at, next_at)
    return tuple(path for path, moment in written.items() if moment > ended + _SLACK_MS)


def _written(root: str, path: str) -> float:
    """Return when a file of a project was last written, in milliseconds; 0 if nobody knows."""
    if os.path.isabs(path) or path.startswith("~") or ".." in path.split("/"):
        return 0.0
    try:
        return os.stat(os.path.join(root, path)).st_mtime * 1000
    except (OSError, ValueError):
        return 0.0
