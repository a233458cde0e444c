"""Build a `Filter` from a caller's arguments: field names, single values, times as text."""

import re
from collections.abc import Mapping
from typing import Any

from plait.errors import UsageError
from plait.times import parse_time
from plait.types import KINDS, MEMORY_TYPES, ORIGINS, TRUSTS, Document, Filter, check_choice
from plait.types.guarding import check_type

# Fields of `Filter` by name; times may be texts, lists may be single values.
Where = Mapping[str, Any]

_TIMES = ("since", "until", "as_of")
_LISTS = frozenset(
    {"projects", "kinds", "memory_types", "types", "tags", "keys", "origins", "trusts", "metadata"}
    | {"parents", "topics"}
)
_TYPES = {
    **dict.fromkeys(_TIMES, "int | str | None"),
    **dict.fromkeys((*_LISTS, "entity"), "str | Sequence[str] | set[str]"),
    "projects": "str | Sequence[Project]",
    "metadata": "Mapping[str, str] | Sequence[tuple[str, str]]",
    "all_versions": "bool",
    "pinned": "bool",
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "kinds": KINDS,
    "memory_types": MEMORY_TYPES,
    "origins": ORIGINS,
    "trusts": TRUSTS,
}


def to_filter(where: Filter | Where | None, project: str | None, *, all_projects: bool) -> Filter:
    """Return the caller's filter; by default it selects this project and personal documents.

    Raises:
        UsageError: A field is unknown or has a bad value.
    """
    fields = given_fields(where)
    unknown = fields.keys() - set(Filter._fields)
    if unknown:
        raise UsageError(
            f"There is no filter named {sorted(unknown)[0]}. Choose from: "
            + ", ".join([*Filter._fields, "entity"]),
            code="unknown_filter",
            subject=sorted(unknown)[0],
        )
    check_fields(fields)
    for name in fields.keys() & set(_TIMES):
        fields[name] = moment(fields[name])
    for name in fields.keys() & _LISTS:
        fields[name] = _listed(fields[name])
    for name, allowed in _CHOICES.items():
        for value in fields.get(name, ()):
            check_choice(name, value, allowed)
    if "projects" not in fields and not all_projects:
        fields["projects"] = Filter.of_project(project).projects
    return Filter(**fields)


def check_fields(fields: Where) -> None:
    """Refuse values of a wrong type.

    Raises:
        UsageError: A field has one; the code is "bad_type".
    """
    for name, value in fields.items():
        check_type(name, value, _TYPES.get(name, "str | None"))


def given_fields(where: Filter | Where | None) -> dict[str, Any]:
    """Return the fields that were given, without empty ones and defaults."""
    if isinstance(where, Filter):
        defaults = Filter._field_defaults
        return {name: v for name, v in where._asdict().items() if v != defaults[name]}
    return {name: v for name, v in (where or {}).items() if v or (v == 0 and v is not False)}


def narrows(where: Filter | Where | None) -> bool:
    """Tell whether a filter selects anything: an empty one must never delete the whole memory."""
    return bool(given_fields(where).keys() - {"all_versions"})


def widened(where: Filter | Where | None) -> dict[str, Any]:
    """Return the fields for whole documents: quarantined and superseded ones count by default."""
    fields = given_fields(where)
    return {"trusts": TRUSTS, "all_versions": "as_of" not in fields, **fields}


def moment(value: int | str | None) -> int | None:
    """Return UTC milliseconds for a number, a date or an age.

    Raises:
        UsageError: It is not a time.
    """
    if value is None or isinstance(value, int):
        return value
    parsed = parse_time(value)
    if parsed is None:
        raise UsageError(
            f"'{value}' is not a time. Write 2026-03-01, 2026-03-01T09:30 or an age like 7d.",
            code="bad_time",
            subject=value,
        )
    return parsed


def page_end(document: Document, *, in_session: bool = False) -> str:
    """Return the cursor of the page that follows a document; ``in_session``: in its order.

    >>> page_end(Document(id="3f9c2a7bq", event_at=17)), page_start("17-3f9c2a7bq")
    ('17-3f9c2a7bq', (17, '3f9c2a7bq'))
    """
    number = document.place[0] if in_session else document.event_at
    return f"{number}-{document.id}"


def page_start(cursor: str | None) -> tuple[int, str] | None:
    """Return where the page of a cursor begins.

    Raises:
        UsageError: It is not a cursor.
    """
    if cursor is None:
        return None
    moment_, _, id_ = cursor.rpartition("-")
    is_number = re.fullmatch(r"-?\d{1,19}", moment_, re.ASCII) is not None
    if not is_number or abs(int(moment_)) >= 2**63 or not id_:
        raise UsageError(
            f"'{cursor}' is not a cursor. Use the one an earlier answer gave as next.",
            code="bad_cursor",
            subject=cursor,
        )
    return int(moment_), id_


def _listed(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        return tuple(value.items())
    # A single string is a sequence too, of one-letter values.
    return (value,) if isinstance(value, str) else tuple(value)
