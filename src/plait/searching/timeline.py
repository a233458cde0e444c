"""Documents by event time, or in the order of a session: a page of them, or those around one."""

import re
from collections.abc import Sequence
from functools import partial

from plait.protocols import Store
from plait.searching.readable import load_readable
from plait.types import KINDS, Document, Filter

SUMMARY_CHARS = 100
# Not the sign of "C#", "#12" and "#todo".
_HEADING = re.compile(r"^ {0,3}#{1,6}(?!\S)[ \t]*([^\n]*?)(?:[ \t]+#+)?[ \t]*$", re.MULTILINE)
# What begins a list, a table, a quote or code: a row of signs below it underlines nothing.
_NO_HEADINGS = ("-", "=", "#", ">", "|", "*", "+", "    ", "\t")


def happenings(where: Filter) -> Filter:
    """Return a filter without entities, which have no event time, unless it names kinds."""
    if where.kinds:
        return where
    return where._replace(kinds=tuple(kind for kind in KINDS if kind != "entity"))


def page(
    store: Store,
    where: Filter,
    limit: int,
    cursor: tuple[int, str] | None,
    damaged: list[str] | None,
) -> list[Document]:
    """Return the documents that follow a cursor: of a session in its order, else newest first."""
    if where.session is None:
        return store.scan(where, limit=limit, before=cursor, damaged=damaged)
    return store.scan(where, by_turn=True, limit=limit, after=cursor, damaged=damaged)


def around(
    store: Store,
    middle: Document,
    where: Filter,
    *,
    older: int,
    newer: int,
    damaged: list[str] | None = None,
) -> list[Document]:
    """Return a document between its nearest neighbours: of its session, else in time.

    Neighbours that cannot be read are named in ``damaged``, if it is given.
    """
    if where.session is not None:
        turns = partial(store.scan, where, by_turn=True, damaged=damaged)
        before = turns(limit=older, before=middle.place) if older else []
        after = turns(limit=newer, after=middle.place) if newer else []
        return [*reversed(before), middle, *after]
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
        document._replace(text="", summary=summary_of(document))
        for document in load_readable(store, ids, damaged)
    ]


def summary_of(document: Document) -> str:
    r"""Return the summary of a whole document, else its first words, on one line.

    >>> summary_of(Document(text="# Deploys\n\nWe deploy C# on Fridays, see #12."))
    'Deploys: We deploy C# on Fridays, see #12.'
    >>> summary_of(Document(text="# C#")), summary_of(Document(text="To buy:"))
    ('C#', 'To buy:')
    >>> summary_of(Document(text="Deploys\n=======\n\nWe deploy."))
    'Deploys: We deploy.'
    """
    if document.summary:
        return document.summary
    from plait.text.front_matter import front_matter

    text = document.text
    front = 0 if document.kind == "message" else front_matter(text)[1]
    begin = _without_underlines(text[front : front + 4 * SUMMARY_CHARS])
    marked = _HEADING.sub(_heading_words, begin)
    first = " ".join(marked.split())
    if not text.rstrip().endswith(":"):
        first = first.removesuffix(":")  # there is nothing after the heading
    return first if len(first) <= SUMMARY_CHARS else first[: SUMMARY_CHARS - 1] + "…"


def _without_underlines(text: str) -> str:
    r"""Return a text whose underlined headings are marked like others.

    >>> _without_underlines("Keys\n====\nRotate.\n\n---\n- them\n---\n")
    '# Keys\nRotate.\n\n---\n- them\n---'
    """
    lines: list[str] = []
    for line in text.splitlines():
        row = line.strip()
        if len(row) > 1 and row in ("=" * len(row), "-" * len(row)) and lines:
            above = lines[-1]
            if above.strip() and not above.startswith(_NO_HEADINGS):
                lines[-1] = f"# {above.strip()}"
                continue
        lines.append(line)
    return "\n".join(lines)


def _heading_words(match: re.Match[str]) -> str:
    """Return a heading so that the words after it do not run into it."""
    words = match[1]
    return f"{words}:" if words and words[-1].isalnum() else words
