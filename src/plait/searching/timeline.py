"""Documents by event time: a page of them, or those around one."""

from collections.abc import Sequence

from plait.protocols import Store
from plait.searching.readable import load_readable
from plait.types import KINDS, Document, Filter

SUMMARY_CHARS = 100


def happenings(where: Filter) -> Filter:
    """Return a filter without entities, which have no event time, unless it names kinds."""
    if where.kinds:
        return where
    return where._replace(kinds=tuple(kind for kind in KINDS if kind != "entity"))


def around(
    store: Store,
    middle: Document,
    where: Filter,
    *,
    older: int,
    newer: int,
    damaged: list[str] | None = None,
) -> list[Document]:
    """Return a document between its nearest neighbours in time, newest first.

    Neighbours that cannot be read are named in ``damaged``, if it is given.
    """
    place = (middle.event_at or 0, middle.id)
    after = store.scan(where, limit=newer, after=place, damaged=damaged) if newer else []
    before = store.scan(where, limit=older, before=place, damaged=damaged) if older else []
    return [*reversed(after), middle, *before]


def outlined(
    store: Store, documents: Sequence[Document], damaged: list[str] | None = None
) -> list[Document]:
    """Return documents without their text, each with a summary."""
    ids = [document.id for document in documents]
    return [
        document._replace(text="", summary=document.summary or summarise(document.text))
        for document in load_readable(store, ids, damaged)
    ]


def summarise(text: str) -> str:
    r"""Return the first words of a text, on one line.

    >>> summarise("# Deploys\n\nWe deploy on Fridays.")
    'Deploys We deploy on Fridays.'
    """
    from plait.text.front_matter import front_matter

    _, front = front_matter(text)
    first = " ".join(text[front : front + 4 * SUMMARY_CHARS].replace("#", " ").split())
    return first if len(first) <= SUMMARY_CHARS else first[: SUMMARY_CHARS - 1] + "…"
