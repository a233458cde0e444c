"""A `Filter` as a test of one document, and a check for values that no store accepts."""

from collections.abc import Iterable, Mapping
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from plait.errors import UsageError
from plait.text.normal_form import composed, spellings
from plait.text.unspaced import split
from plait.types import Document, Filter
from plait.types.ids import SCOPE_PREFIX

_MEMBER = {
    "kinds": "kind",
    "memory_types": "memory_type",
    "types": "type",
    "keys": "key",
    "origins": "origin",
    "trusts": "trust",
    "parents": "parent",
    "topics": "topic",
    "hashes": "sha256",
    "projects": "project",
}
_EQUAL = ("source", "session")
_PREFIX = {"key_prefix": "key", "path_prefix": "path"}
_LARGEST = 2**63
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def meets(document: Document, where: Filter, moment: int) -> bool:
    """Tell whether a document passes a filter; ``moment`` is the present."""
    return (
        all(
            same(getattr(document, field)) in map(same, wanted)
            for name, field in _MEMBER.items()
            if (wanted := getattr(where, name))
        )
        and all(
            same(getattr(document, name)) == same(wanted)
            for name in _EQUAL
            if (wanted := getattr(where, name)) is not None
        )
        and all(
            (getattr(document, field) or "").startswith(tuple(spellings(prefix)))
            for name, field in _PREFIX.items()
            if (prefix := getattr(where, name))
        )
        and all(_has_tag(document, tag) for tag in where.tags)
        and (not where.named or _contains(_names(document), where.named))
        and all(
            (same(name), same(value))
            in {(same(own), same(text)) for own, text in document.metadata.items()}
            for name, value in where.metadata
        )
        and where.pinned in (None, document.pinned)
        and (not where.statuses or (document.status or "active") in where.statuses)
        and bool(where.scopes or where.projects or not _is_scoped(document))
        and _in_time(document, where, moment)
    )


def _is_scoped(document: Document) -> bool:
    return (document.project or "").startswith(SCOPE_PREFIX)


def mentions(texts: Iterable[str], where: Filter) -> bool:
    """Tell whether one of a document's passages has one of the texts that a filter wants."""
    if not where.mentions:
        return True
    wanted = [form for part in where.mentions for form in spellings(part)]
    return any(_has_words(_lower(text), _lower(form)) for text in texts for form in wanted)


def _has_words(text: str, words: str) -> bool:
    """Tell whether a text has these words; a letter at their edge is the edge of a word."""
    at = text.find(words)
    while at >= 0:
        end = at + len(words)
        inside = (_joins(text[max(0, at - 1) : at + 1]), _joins(text[end - 1 : end + 1]))
        if not any(inside):
            return True
        at = text.find(words, at + 1)
    return False


def _joins(pair: str) -> bool:
    return len(pair) == 2 and pair.isalnum() and split(pair) is None


def _has_tag(document: Document, tag: str) -> bool:
    wanted = composed(tag)
    return any(
        own == wanted or own.startswith(f"{wanted}/") for own in map(composed, document.tags)
    )


def _names(document: Document) -> list[str]:
    return [document.key or "", ", ".join(document.aliases)]


def _contains(texts: Iterable[str], parts: Iterable[str]) -> bool:
    wanted = [_lower(form) for part in parts for form in spellings(part)]
    return any(part in _lower(text) for text in texts for part in wanted)


def _lower(text: str) -> str:
    return text.translate(_LOWER)


def same(name: str | None) -> str | None:
    """Return a name in the spelling by which names are compared."""
    return None if name is None else composed(name)


def _in_time(document: Document, where: Filter, moment: int) -> bool:
    happened = document.event_at or 0
    if where.since is not None and happened < where.since:
        return False
    if where.until is not None and happened >= where.until:
        return False
    if where.as_of is not None and document.kind == "entity":
        return False  # a profile describes the present
    asked = moment if where.as_of is None else where.as_of
    return where.all_versions or is_valid(document.valid_from, document.valid_to, asked)


def is_valid(valid_from: int | None, valid_to: int | None, moment: int) -> bool:
    """Tell whether a moment lies in a span; the end is exclusive."""
    return (valid_from is None or valid_from <= moment) and (valid_to is None or valid_to > moment)


def begins_or_ends(document: Document, since: int, until: int) -> bool:
    """Tell whether a document becomes or stops being valid after one moment, up to another."""
    return any(
        at is not None and since < at <= until for at in (document.valid_from, document.valid_to)
    )


def check_values(values: Iterable[Any]) -> None:
    """Refuse values that no store accepts, at any depth: invalid Unicode and huge numbers.

    Raises:
        UsageError: A value cannot be stored or looked up.
    """
    for value in values:
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise _refusal(error) from error
        elif isinstance(value, int):
            if not -_LARGEST <= value < _LARGEST:
                raise _refusal(f"{value} has more than 64 bits")
        elif isinstance(value, Mapping):
            check_values(value)
            check_values(value.values())
        elif isinstance(value, tuple | list):
            check_values(value)


def _refusal(reason: object) -> UsageError:
    return UsageError(f"A value cannot be stored or looked up: {reason}.", code="not_storable")
