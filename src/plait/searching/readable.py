"""Read documents of a damaged memory: those that can be read, and the names of the others."""

from collections.abc import Sequence

from plait.errors import Notice, StoreDamaged, advise, quoted
from plait.protocols import Store
from plait.types import Document, Passage


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


def readable_passages(
    store: Store, document: str, first: int, last: int, damaged: list[str]
) -> list[Passage]:
    """Return passages of a document; if one cannot be read, the others, and its id in ``damaged``.

    ``first`` and ``last`` are ordinals; there need not be passages of all of them.
    """
    try:
        return store.passages(document, first, last)
    except StoreDamaged:
        damaged.append(document)
    passages: list[Passage] = []
    for ordinal in range(max(first, 0), last + 1):
        try:
            passages += store.passages(document, ordinal, ordinal)
        except StoreDamaged:
            continue
    return passages


def unreadable(id_: str) -> Notice:
    """Return the notice that a document is left out of an answer."""
    text = f"left out, because it cannot be read: document {quoted(id_)}."
    return Notice(text, StoreDamaged.code, id_, advise("doctor_fix"))


def damaged_document(id_: str) -> StoreDamaged:
    """Return the error for a document that cannot be read."""
    return StoreDamaged(
        f"document {quoted(id_)} cannot be read.", subject=id_, advice=advise("doctor_fix")
    )
