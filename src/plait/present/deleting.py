"""What was deleted or restored, as text for people."""

from collections.abc import Mapping, Sequence

from plait.present.text import NAMES_SHOWN, as_lines, counted, on_a_line
from plait.times import show_day
from plait.types import Document
from plait.types.ids import SHORT_ID
from plait.types.reports import Deleted


def deleted_text(
    deleted: Deleted, messages: Mapping[str, Document] | None = None, kinds: str = ""
) -> str:
    """Return how much was deleted, and of which ``kinds``, with as many names as fit on a line.

    The name of a message tells nobody what it is: with ``messages``, by id, each of the first
    documents has a line, and that of a message begins like its text.
    """
    documents = counted(len(deleted.ids), "document")
    passages = counted(deleted.chunks_deleted, "passage")
    count = f"{documents}, {passages}" + (f" ({kinds})" if kinds else "")
    if not messages:
        return f"{count}: {_first_names(deleted.doc_ids)}"
    rows = []
    for id_, name in zip(deleted.ids[:NAMES_SHOWN], deleted.doc_ids, strict=False):
        row = messages.get(id_)
        rows.append(f"  {on_a_line(name)}" if row is None else f"  {_message_line(row)}")
    if left := len(deleted.ids) - len(rows):
        rows.append(f"  … and {left:,} more")
    return f"{count}:\n{as_lines(rows)}"


def _message_line(message: Document) -> str:
    day, who = show_day(message.event_at), message.role or message.kind
    return f"{day}  {message.id[:SHORT_ID]}  {who:<11} {on_a_line(message.text)}"


def restored_text(names: Sequence[str]) -> str:
    """Return what was restored: the names, or how many there are and the first of them."""
    count = f"{counted(len(names), 'document')}: " if len(names) > NAMES_SHOWN else ""
    return f"{count}{_first_names(names)}"


def _first_names(names: Sequence[str]) -> str:
    """Return as many names as fit on a line."""
    more = " …" if len(names) > NAMES_SHOWN else ""
    return ", ".join(map(on_a_line, names[:NAMES_SHOWN])) + more
