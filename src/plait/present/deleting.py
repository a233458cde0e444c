"""What was deleted or restored, as text for people."""

from collections.abc import Mapping, Sequence

from plait.present.text import NAMES_SHOWN, as_lines, counted, on_a_line, sort_of
from plait.times import show_day
from plait.types import Document
from plait.types.ids import SHORT_ID
from plait.types.reports import Deleted


def is_unnamed(document: Document) -> bool:
    """Tell whether the name of a document tells nobody what it is.

    An id does not, nor does the key of a message, which a program made.
    """
    return document.kind == "message" or document.key is None


def deleted_text(
    deleted: Deleted,
    unnamed: Mapping[str, Document] | None = None,
    kinds: str = "",
    *,
    verbose: bool = False,
) -> str:
    """Return how much was deleted, and of which ``kinds``, with as many names as fit on a line.

    With ``unnamed`` documents, by id, each of the first documents has a line, and that of an
    unnamed one begins like its text. ``verbose``: every document has a line.
    """
    documents = counted(len(deleted.ids), "document")
    passages = counted(deleted.chunks_deleted, "passage")
    count = f"{documents}, {passages}" + (f" ({kinds})" if kinds else "")
    if not unnamed and not verbose:
        return f"{count}: {_first_names(deleted.doc_ids)}"
    shown = len(deleted.ids) if verbose else NAMES_SHOWN
    return f"{count}:\n{_first_lines(deleted.ids, deleted.doc_ids, unnamed or {}, shown)}"


def restored_text(documents: Sequence[Document]) -> str:
    """Return what was restored, as `deleted_text` does: the names, or lines."""
    names = [document.doc_id for document in documents]
    unnamed = {row.id: row for row in documents[:NAMES_SHOWN] if is_unnamed(row)}
    count = counted(len(names), "document")
    if unnamed:
        return f"{count}:\n{_first_lines([row.id for row in documents], names, unnamed)}"
    return f"{count}: {_first_names(names)}" if len(names) > NAMES_SHOWN else _first_names(names)


def _first_names(names: Sequence[str]) -> str:
    """Return as many names as fit on a line."""
    more = " …" if len(names) > NAMES_SHOWN else ""
    return ", ".join(map(on_a_line, names[:NAMES_SHOWN])) + more


def _first_lines(
    ids: Sequence[str],
    names: Sequence[str],
    unnamed: Mapping[str, Document],
    shown: int = NAMES_SHOWN,
) -> str:
    """Return a line for each of the first documents."""
    rows = []
    for id_, name in zip(ids[:shown], names, strict=False):
        row = unnamed.get(id_)
        rows.append(f"  {on_a_line(name)}" if row is None else f"  {_line_of(row)}")
    if left := len(ids) - len(rows):
        rows.append(f"  … and {left:,} more")
    return as_lines(rows)


def _line_of(document: Document) -> str:
    words = f"{document.title}: {document.text}" if document.title else document.text
    day, id_ = show_day(document.event_at), document.id[:SHORT_ID]
    return f"{day}  {id_}  {sort_of(document):<11} {on_a_line(words)}"
