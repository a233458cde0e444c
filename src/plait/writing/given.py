"""Documents as callers give them: their keys, their times, and what only rules may say."""

from collections.abc import Callable
from typing import Any

from plait.errors import UsageError, advise
from plait.protocols import Store
from plait.times import as_moment
from plait.types import Document
from plait.types.ids import ARCHIVED_FIELD, is_id

# When a document was written; the memory fills in what is 0.
_STAMPS = ("created_at", "updated_at", "indexed_at")
_TIMES = ("event_at", "valid_from", "valid_to", *_STAMPS)


def with_moments(document: Document) -> Document:
    """Return a document of a caller with its times in milliseconds.

    Raises:
        UsageError: One of them is not a time.
    """
    given = {name: getattr(document, name) for name in _TIMES}
    # 0 is what a document has that was never stored.
    unset = [name for name in _STAMPS if given[name] == 0]
    times: dict[str, Any] = {
        name: as_moment(time, name) for name, time in given.items() if name not in unset
    }
    return document._replace(**times)


def without_marks(document: Document) -> Document:
    """Return a document of a caller, who cannot tell that a rule archived it."""
    if ARCHIVED_FIELD not in document.metadata:
        return document
    metadata = {name: text for name, text in document.metadata.items() if name != ARCHIVED_FIELD}
    return document._replace(metadata=metadata)


def refuse_id_as_key(opened: Callable[[], Store], document: Document) -> None:
    """Refuse the id of a stored document as a key: it would name two of them.

    Raises:
        UsageError: It is one.
    """
    key = document.key
    if key is None or not is_id(key):
        return
    for known in opened().known([Document(id=key)]):
        if known is not None and known.id != document.id:
            raise UsageError(
                f"'{key}' is the id of a stored document and cannot be the key of another.",
                code="key_is_id",
                subject="key",
                advice=advise("supersede_id", name=key)
                if known.key is None
                else advise("key_of_id", key=known.key),
            )
