"""Deleted documents: which ones a name refers to, and which are restored together."""

from collections.abc import Collection, Sequence

from plait.protocols import Trashed
from plait.times import DAY_MS
from plait.types import ID_PREFIX

KEPT_MS = 30 * DAY_MS
# The batch of documents that can be restored only by id.
BY_ID_ONLY = ""


def named(trash: Sequence[Trashed], name: str) -> list[Trashed]:
    """Return the deleted documents that a name refers to.

    A name refers to the same document as before the delete: an id or a key, else the id of a
    passage or its chunk_id, else an id prefix.
    """
    own, inside, begun = [], [], []
    for row in trash:
        document = row.document
        if name in (document.id, document.key):
            own.append(row)
        elif name in row.names or name in _chunk_ids(row):
            inside.append(row)
        elif len(name) >= ID_PREFIX and any(
            id_.startswith(name.lower()) for id_ in (document.id, *row.names)
        ):
            begun.append(row)
    return own or inside or begun


def _chunk_ids(row: Trashed) -> set[str]:
    names = (row.document.id, row.document.key)
    return {f"{name}-{ordinal}" for name in names if name for ordinal in range(len(row.names))}


def latest_batch(trash: Sequence[Trashed]) -> list[Trashed]:
    """Return what the latest undoable delete removed; ``trash`` lists the latest first."""
    batch = next((row.batch for row in trash if row.batch != BY_ID_ONLY), None)
    return [] if batch is None else [row for row in trash if row.batch == batch]


def family(trash: Sequence[Trashed], ids: Collection[str]) -> list[Trashed]:
    """Return these documents and those restored with them.

    An entity brings back what was deleted with it; an observation brings back its entity.
    """
    batches = {row.document.id: row.batch for row in trash if row.document.id in ids}
    parents = {row.document.parent for row in trash if row.document.id in ids}
    return [
        row
        for row in trash
        if row.document.id in ids
        or row.document.id in parents
        or batches.get(row.document.parent or "") == row.batch
    ]


def belonging(trash: Sequence[Trashed], ids: Collection[str]) -> list[Trashed]:
    """Return these documents, and those that belong to the entities among them."""
    return [row for row in trash if row.document.id in ids or row.document.parent in ids]


def restore_order(rows: Sequence[Trashed]) -> list[Trashed]:
    """Return entities first, then everything else in the order of first writing."""
    return sorted(rows, key=lambda row: (row.document.kind != "entity", row.place))
