"""Taking out: what a delete by name means, what would go with it, and what an undo brings back."""

from collections.abc import Iterable, Mapping, Sequence

from plait.errors import NotFound
from plait.names import resolve
from plait.protocols import Store
from plait.types import TRUSTS, Deleted, Document, Filter

# Characters of an id that stand for it.
MIN_PREFIX = 6


def doomed(
    store: Store, names: Sequence[str], project: str | None, *, purge: bool
) -> dict[str, Document]:
    """What is to be deleted by name, by id; for a purge with what lies under it in the trash.

    Raises:
        NotFound: One of the names fits nothing.
        AmbiguousId: Several have it; the message lists them.
    """
    trash = [row for _, _, row in store.trashed()] if purge else []
    return {row.id: row for name in names for row in _with_trash(store, name, project, trash)}


def _with_trash(
    store: Store, name: str, project: str | None, trash: Iterable[Document]
) -> list[Document]:
    older = [
        row
        for row in trash
        if (len(name) >= MIN_PREFIX and row.id.startswith(name))
        or (row.key == name and row.project in (project, None))
    ]
    try:
        document, _ = resolve(store, name, project)
    except NotFound:
        if older:
            return older
        raise
    return [document, *older]


def forecast(store: Store, chosen: Mapping[str, Document]) -> Deleted:
    """What would go with some documents, given by id: entities take along what is said of them."""
    all_of_it = dict(chosen)
    entities = tuple(row.id for row in chosen.values() if row.kind == "entity")
    if entities:
        belonging = Filter(parents=entities, trusts=TRUSTS, all_versions=True)
        all_of_it.update({row.id: row for row in store.scan(belonging)})
    return Deleted(
        tuple(row.doc_id for row in all_of_it.values()),
        tuple(all_of_it),
        sum(row.chunk_count for row in all_of_it.values()),
    )


def bring_back(store: Store, names: Sequence[str]) -> list[Document]:
    """Restore what the latest delete removed, or what is named by id or key.

    Raises:
        NotFound: Nothing of that kind was deleted in the last 30 days.
    """
    ids = [row.id for _, _, row in store.trashed() if set(names) & {row.id, row.key}]
    if names and not ids:
        raise NotFound(f"Nothing named {', '.join(names)} was deleted in the last 30 days.")
    back = store.restore(ids)
    if not back:
        raise NotFound(
            "Nothing to undo: nothing was deleted in the last 30 days, or newer documents "
            "have taken the names."
        )
    return back
