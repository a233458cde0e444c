"""Documents by the time of what they tell: a page of them, or what happened around one."""

from collections.abc import Sequence

from plait.protocols import Store
from plait.types import KINDS, Document, Filter

SUMMARY_CHARS = 100


def happenings(where: Filter) -> Filter:
    """A filter without entities, which have no time of their own, unless it asks for them."""
    if where.kinds:
        return where
    return where._replace(kinds=tuple(kind for kind in KINDS if kind != "entity"))


def around(
    store: Store, middle: Document, where: Filter, *, older: int, newer: int
) -> list[Document]:
    """A document between its nearest neighbours in time, newest first."""
    place = (middle.event_at or 0, middle.id)
    after = store.scan(where, limit=newer, after=place) if newer else []
    before = store.scan(where, limit=older, before=place) if older else []
    return [*reversed(after), middle, *before]


def outlined(store: Store, documents: Sequence[Document]) -> list[Document]:
    """The documents without their text, each with a summary."""
    return [
        document._replace(text="", summary=document.summary or summarise(document.text))
        for document in store.load([document.id for document in documents])
    ]


def summarise(text: str) -> str:
    r"""The first words of a text, on one line.

    >>> summarise("# Deploys\n\nWe deploy on Fridays.")
    'Deploys We deploy on Fridays.'
    """
    from plait.chunking import front_matter

    _, front = front_matter(text)
    first = " ".join(text[front : front + 4 * SUMMARY_CHARS].replace("#", " ").split())
    return first if len(first) <= SUMMARY_CHARS else first[: SUMMARY_CHARS - 1] + "…"
