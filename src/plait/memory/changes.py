"""Which files of a message's steps were written since: the only look at a project's files."""

import os
from collections.abc import Iterable

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
    changes: dict[str, tuple[str, ...]] = {}
    imported = [
        document
        for document in documents
        if document.project == home and AGENT_FIELD in document.metadata
    ]
    ahead = store.ahead if imported else None
    known = {} if ahead is None else ahead.steps([document.id for document in imported])
    for document in imported:
        try:
            steps = known[document.id] if known else stored_steps(store, document.id)
            paths = dict.fromkeys(step.path for step in steps if step.path)
            changed = written_since(store, document, list(paths)[:_MOST_FILES])
        except StoreError:  # what is damaged is told by whoever reads it
            continue
        if changed:
            changes[document.id] = changed
    return changes


def written_since(store: Store, message: Document, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of some files that were written after a message and all that it tells of.

    Only files that exist now, in a project that is a folder of this machine.
    """
    root = message.project or ""
    at = message.event_at or message.created_at
    written = {path: _written(root, path) for path in paths} if os.path.isabs(root) else {}
    later = {path: moment for path, moment in written.items() if moment > at + _SLACK_MS}
    if not later:
        return ()
    # What a message tells of may have taken long: it ended before the next message.
    where = Filter(projects=(message.project,), session=message.session, kinds=("message",))
    following = store.scan(where, limit=1, after=message.place, by_turn=True)
    ended = max([at, *(row.event_at or 0 for row in following)]) if following else at + _LAST_MS
    return tuple(path for path, moment in later.items() if moment > ended + _SLACK_MS)


def _written(root: str, path: str) -> float:
    """Return when a file of a project was last written, in milliseconds; 0 if nobody knows."""
    if os.path.isabs(path) or path.startswith("~") or ".." in path.split("/"):
        return 0.0
    try:
        return os.stat(os.path.join(root, path)).st_mtime * 1000
    except (OSError, ValueError):
        return 0.0
