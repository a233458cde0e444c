"""Taking out: what a delete by name means, what would go with it, and what an undo brings back."""

from collections.abc import Mapping, Sequence

from plait import text as words
from plait.errors import NotFound
from plait.names import resolve
from plait.protocols import Store
from plait.types import TRUSTS, Deleted, Document, Filter


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
    store: Store, name: str, project: str | None, trash: Sequence[Document]
) -> list[Document]:
    known = set(store.trashed_as(words.clean(name))) if trash else set()
    older = [
        row
        for row in trash
        if row.id in known and (row.key != name or row.project in (project, None))
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
    """Restore what the latest delete removed, or what is named as it was for the delete.

    Raises:
        NotFound: Nothing of that kind was deleted in the last 30 days; nothing is restored.
    """
    ids: list[str] = []
    for name in names:
        known = store.trashed_as(words.clean(name))
        if not known:
            raise NotFound(f"Nothing named {name} was deleted in the last 30 days.")
        ids += [id_ for id_ in known if id_ not in ids]
    back = store.restore(ids)
    if not back:
        raise NotFound(
            "Nothing to undo: nothing was deleted in the last 30 days, or newer documents "
            "have taken the names."
        )
    return back
