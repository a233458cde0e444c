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
    try:
        return store.load(ids)
    except StoreDamaged:
        if damaged is None:
            raise
    documents: list[Document] = []
    for id_ in ids:
        try:
            documents += store.load([id_])
        except StoreDamaged:
            damaged.append(id_)
    return documents
