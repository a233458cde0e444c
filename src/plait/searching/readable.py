"""Read documents of a damaged memory: those that can be read, and the names of the others."""

from collections.abc import Sequence

from plait.errors import StoreDamaged
from plait.protocols import Store
from plait.types import Document


def load_readable(
    store: Store, ids: Sequence[str], damaged: list[str] | None = None
) -> list[Document]:
    """Return whole documents; those that cannot be read are named in ``damaged``.

    Raises:
        StoreDamaged: One cannot be read, and there is no list for its name.
    """
    documents, troubles = load_apart(store, ids)
    if damaged is None:
        for trouble in troubles.values():
            raise trouble
    else:
        damaged += troubles
    return documents


def load_apart(store: Store, ids: Sequence[str]) -> tuple[list[Document], dict[str, StoreDamaged]]:
    """Return whole documents, and why others cannot be read, by id."""
    try:
        return store.load(ids), {}
    except StoreDamaged:
        pass
    documents: list[Document] = []
    troubles: dict[str, StoreDamaged] = {}
    for id_ in ids:
        try:
            documents += store.load([id_])
        except StoreDamaged as error:
            troubles[id_] = error
    return documents, troubles
