"""Which stored documents hold secrets, by kind.

Nothing is recorded about it: the text decides whenever it is read. So the answer is right after an
import, for documents of earlier versions, and when a later version knows more shapes.
"""

from collections.abc import Iterable

from plait.facts.credentials import document_secrets
from plait.protocols import Store
from plait.types import Document

# One read holds the texts of so many documents.
TEXTS_PER_READ = 100


def held_secrets(store: Store, documents: Iterable[Document]) -> dict[str, tuple[str, ...]]:
    """Return the kinds of secrets in each document that holds any, by the document's id."""
    held: dict[str, tuple[str, ...]] = {}
    unread: list[str] = []
    for document in documents:
        if document.text:
            held[document.id] = document_secrets(document)
        else:
            unread.append(document.id)
    for start in range(0, len(unread), TEXTS_PER_READ):
        for document in store.load(unread[start : start + TEXTS_PER_READ]):
            held[document.id] = document_secrets(document)
    return {id_: kinds for id_, kinds in held.items() if kinds}
