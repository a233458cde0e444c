"""Documents as callers give them: their keys, their times, and what only rules may say."""

from collections.abc import Callable, Mapping
from typing import Any

from plait.errors import UsageError, advise, quoted
from plait.protocols import Store
from plait.times import as_moment
from plait.types import PROVENANCE, Document, check_choice
from plait.types.ids import ARCHIVED_FIELD, RESERVED_FIELDS, is_id, without
from plait.writing.documents import check_name

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


def with_provenance(
    metadata: Mapping[str, str] | None, provenance: Mapping[str, str] | None
) -> dict[str, str]:
    """Return metadata with what is known of a text's making.

    Raises:
        UsageError: A name is reserved or not one of `PROVENANCE`, or a value of it is empty.
    """
    if reserved := [name for name in metadata or () if name in RESERVED_FIELDS]:
        raise UsageError(
            f"The name {quoted(reserved[0])} in metadata is plait's own. Choose another name.",
            code="reserved_field",
            subject="metadata",
        )
    for name, value in (provenance or {}).items():
        check_choice("provenance", name, PROVENANCE)
        check_name(f"provenance {name}", value)
    return {**(metadata or {}), **(provenance or {})}


def without_marks(document: Document) -> Document:
    """Return a document of a caller, who cannot tell that a rule archived it."""
    if ARCHIVED_FIELD not in document.metadata:
        return document
    return document._replace(metadata=without(document.metadata, (ARCHIVED_FIELD,)))


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
