"""Which documents a caller means: filters as they come naturally, made into one `Filter`."""

import re
from collections.abc import Mapping
from typing import Any

from plait import checks
from plait.errors import UsageError
from plait.times import parse_time
from plait.types import KINDS, MEMORY_TYPES, ORIGINS, TRUSTS, Filter

# Fields of `Filter` by name; times may be texts, lists may be single values.
Where = Mapping[str, Any]

_TIMES = ("since", "until", "as_of")
_LISTS = frozenset(
    {"projects", "kinds", "memory_types", "types", "tags", "keys", "origins", "trusts", "metadata"}
    | {"parents", "topics"}
)
_CHOICES: dict[str, tuple[str, ...]] = {
    "kinds": KINDS,
    "memory_types": MEMORY_TYPES,
    "origins": ORIGINS,
    "trusts": TRUSTS,
}


def to_filter(where: Filter | Where | None, project: str | None, *, all_projects: bool) -> Filter:
    """The caller's filter; unless it says otherwise, this project and personal things.

    Raises:
        UsageError: There is no such field, or it cannot have that value.
    """
    fields = said(where)
    unknown = fields.keys() - set(Filter._fields)
    if unknown:
        raise UsageError(
            f"There is no filter named {sorted(unknown)[0]}. Choose from: "
            + ", ".join(Filter._fields)
        )
    for name in fields.keys() & set(_TIMES):
        fields[name] = moment(fields[name])
    for name in fields.keys() & _LISTS:
        fields[name] = _listed(fields[name])
    for name, allowed in _CHOICES.items():
        for value in fields.get(name, ()):
            checks.one_of(name, value, allowed)
    if "projects" not in fields and not all_projects:
        fields["projects"] = (None, project) if project else (None,)
    return Filter(**fields)


def said(where: Filter | Where | None) -> dict[str, Any]:
    """The fields that were really given: what is empty or at its default says nothing."""
    if isinstance(where, Filter):
        defaults = Filter._field_defaults
        return {name: v for name, v in where._asdict().items() if v != defaults[name]}
    return {name: v for name, v in (where or {}).items() if v not in (None, (), [], {}, "", False)}


def narrows(where: Filter | Where | None) -> bool:
    """Whether a filter picks anything out: an empty one must never delete the whole memory."""
    return bool(said(where).keys() - {"all_versions"})


def widened(where: Filter | Where | None) -> dict[str, Any]:
    """For whole documents: the quarantined and superseded count too, unless it says otherwise."""
    fields = said(where)
    return {"trusts": TRUSTS, "all_versions": "as_of" not in fields, **fields}


def moment(value: int | str | None) -> int | None:
    """UTC milliseconds for a number, a date or an age.

    Raises:
        UsageError: It is no time.
    """
    if value is None or isinstance(value, int):
        return value
    found = parse_time(value)
    if found is None:
        raise UsageError(
            f"'{value}' is not a time. Write 2026-03-01, 2026-03-01T09:30 or an age like 7d."
        )
    return found


def page_end(event_at: int | None, id_: str) -> str:
    """Where a page of a timeline ended, as a text to go on from.

    >>> page_end(1_700_000_000_000, "3f9c2a7bq"), page_start("1700000000000-3f9c2a7bq")
    ('1700000000000-3f9c2a7bq', (1700000000000, '3f9c2a7bq'))
    """
    return f"{event_at}-{id_}"


def page_start(cursor: str | None) -> tuple[int, str] | None:
    """Where the next page begins.

    Raises:
        UsageError: No page ended so.
    """
    if cursor is None:
        return None
    moment_, _, id_ = cursor.rpartition("-")
    if not re.fullmatch(r"-?\d{1,18}", moment_, re.ASCII) or not id_:
        raise UsageError(f"'{cursor}' is not a cursor. Use the one an earlier answer gave as next.")
    return int(moment_), id_


def _listed(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        return tuple(value.items())
    # A lone string is a sequence too, of one-letter values.
    return (value,) if isinstance(value, str) else tuple(value)
