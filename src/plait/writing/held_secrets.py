"""Which stored documents hold secrets, by kind.

Nothing is recorded about it: the text decides whenever it is read. So the answer is right after an
import, for documents of earlier versions, and when a later version knows more shapes.
"""

from collections import Counter
from collections.abc import Iterable

from plait.errors import advise
from plait.facts.credentials import document_secrets
from plait.protocols import Store
from plait.types import SHORT_ID, Document
from plait.types.reports import Finding
from plait.writing.deleting import EVERYTHING

# One read holds the texts of so many documents.
TEXTS_PER_READ = 100
IDS_SHOWN = 5


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


def check_secrets(store: Store) -> Finding:
    """Report for ``doctor`` how many documents hold secrets, of which kinds, and a few of them."""
    # The profile of an entity repeats its observations, which are counted themselves.
    documents = [row for row in store.scan(EVERYTHING) if row.kind != "entity"]
    held = held_secrets(store, documents)
    if not held:
        return Finding("secrets", "ok", "no document holds a known kind of secret")
    counts = Counter(kind for kinds in held.values() for kind in kinds)
    listed = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(counts.items()))
    ids = ", ".join(id_[:SHORT_ID] for id_ in list(held)[:IDS_SHOWN])
    more = ", …" if len(held) > IDS_SHOWN else ""
    verb = "document holds" if len(held) == 1 else "documents hold"
    return Finding(
        "secrets",
        "warning",
        f"{len(held):,} {verb} secrets: {listed}. See {ids}{more}.",
        advice=advise("purge_secrets"),
        code="holds_secret",
    )
