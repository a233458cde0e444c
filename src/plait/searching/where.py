"""Build a `Filter` from a caller's arguments: field names, single values, times as text."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from plait.errors import UsageError, advise
from plait.times import as_end, as_range
from plait.types import (
    KINDS,
    MEMORY_TYPES,
    ORIGINS,
    STATUSES,
    TRUSTS,
    Document,
    Filter,
    check_choice,
)
from plait.types.guarding import check_type
from plait.types.ids import bare_tag

# Fields of `Filter` by name; times may be texts, lists may be single values.
Where = Mapping[str, Any]

_TIMES = ("since", "until", "as_of")
_LISTS = frozenset(
    {"projects", "kinds", "memory_types", "types", "tags", "keys", "origins", "trusts", "metadata"}
    | {"parents", "topics", "named", "mentions", "statuses", "hashes"}
)
# A filter has the name of the field that it tests; these are the fields of `Filter`, which take
# several values.
_FIELD_OF = {
    "project": "projects",
    "kind": "kinds",
    "memory_type": "memory_types",
    "type": "types",
    "tag": "tags",
    "key": "keys",
    "origin": "origins",
    "trust": "trusts",
    "status": "statuses",
    "topic": "topics",
    "parent": "parents",
    "path": "path_prefix",
    "entities": "entity",
}
# The names to choose from, as an error lists them.
FILTER_NAMES = (
    *("project", "kind", "memory_type", "type", "tags", "key", "key_prefix", "path", "source"),
    *("session", "origin", "trust", "status", "metadata", "since", "until", "as_of"),
    *("all_versions", "entity", "topic", "pinned", "named", "mentions"),
)
_TYPES = {
    **dict.fromkeys(_TIMES, "Moment | None"),
    **dict.fromkeys((*_LISTS, "entity"), "str | Sequence[str] | set[str]"),
    "projects": "str | Sequence[Project]",
    "metadata": "Mapping[str, str] | Sequence[tuple[str, str]]",
    "all_versions": "bool",
    "pinned": "bool",
    "scopes": "bool",
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "kinds": KINDS,
    "memory_types": MEMORY_TYPES,
    "origins": ORIGINS,
    "trusts": TRUSTS,
    "statuses": STATUSES,
}


def to_filter(where: Filter | Where | None, project: str | None, *, all_projects: bool) -> Filter:
    """Return the caller's filter; by default it selects this project and personal documents.

    Raises:
        UsageError: A field is unknown or has a bad value.
    """
    fields = given_fields(where)
    check_fields(fields, where)
    if not fields.keys().isdisjoint(_TIMES):
        fields["since"], fields["until"] = as_range(fields.get("since"), fields.get("until"))
        fields["as_of"] = as_end(fields.get("as_of"), "as_of")
    for name in fields.keys() & _LISTS:
        fields[name] = _listed(fields[name])
    if "tags" in fields:
        fields["tags"] = tuple(map(bare_tag, fields["tags"]))
    if "projects" not in fields and not all_projects:
        fields["projects"] = Filter.of_project(project).projects
    return Filter(**fields)


def check_fields(fields: Where, where: Filter | Where | None) -> None:
    """Refuse values of a wrong type, and those that are not one of a few.

    Args:
        fields: Fields of `Filter`.
        where: The same as the caller wrote them, for the names in errors.

    Raises:
        UsageError: A field has one; the code is "bad_type" or "bad_value".
    """
    given = where if isinstance(where, Mapping) else {}
    written = {_FIELD_OF.get(name, name): name for name in given}
    for field, value in fields.items():
        name = written.get(field, field)
        check_type(name, value, _TYPES.get(field, "str | None"))
        for choice in _listed(value) if field in _CHOICES else ():
            check_choice(name, choice, _CHOICES[field])
        names = _listed(value) if field == "projects" else ()
        if not all(row is None or row.strip() for row in names):
            raise UsageError(
                f"{name} has an empty name; None stands for personal documents.",
                code="bad_value",
                subject=name,
            )
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise UsageError(
                    f"{name} has a character that is no text.", code="bad_value", subject=name
                ) from None


def given_fields(where: Filter | Where | None) -> dict[str, Any]:
    """Return the fields that were given, without empty ones and defaults.

    ``None`` as the project is given: it stands for personal documents.

    >>> given_fields({"project": None, "tags": [], "session": None, "pinned": False})
    {'projects': (None,), 'pinned': False}

    Raises:
        UsageError: There is no such filter, or one is an empty text.
    """
    defaults = Filter._field_defaults
    _refuse_blank(where)
    if isinstance(where, Filter):
        return {name: v for name, v in where._asdict().items() if v != defaults[name]}
    fields = renamed(where)
    if fields.get("projects", ()) is None:
        fields["projects"] = (None,)
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value is not defaults.get(name)
        if not isinstance(value, Collection) or value or (name == "projects" and value == "")
    }


def _refuse_blank(where: Filter | Where | None) -> None:
    """Refuse an empty text as a filter: ignored, it would select more than the caller meant."""
    fields = where._asdict() if isinstance(where, Filter) else where or {}
    for name, value in fields.items():
        if name in ("project", "projects", "metadata"):
            continue  # the first two are checked with the others; an empty value can be stored
        values = value if isinstance(value, (list, tuple, set, frozenset)) else (value,)
        if any(isinstance(text, str) and not text.strip() for text in values):
            raise _empty(name)


def check_no_empty_list(where: Filter | Where | None) -> None:
    """Refuse an empty list as a filter of what is deleted; when reading, it means any value."""
    for name, value in ({} if isinstance(where, Filter) else where or {}).items():
        if isinstance(value, Collection) and not value:
            raise _empty(name)


def _empty(name: str) -> UsageError:
    return UsageError(
        f"The filter {name} is empty. Give it a value, or leave it out.",
        code="empty_filter",
        subject=name,
    )


def renamed(where: Where | None) -> dict[str, Any]:
    """Return a caller's filters by the fields of `Filter`, and ``entity``.

    >>> renamed({"tag": "ops", "type": "decision"})
    {'tags': 'ops', 'types': 'decision'}

    Raises:
        UsageError: There is no such filter, or it is given under two names.
    """
    fields: dict[str, Any] = {}
    for name, value in (where or {}).items():
        field = _FIELD_OF.get(name, name)
        if field != "entity" and field not in Filter._fields:
            raise _unknown(name)
        if field in fields:
            raise UsageError(
                f"The filter {name} is given twice.", code="filter_given_twice", subject=name
            )
        fields[field] = value
    return fields


def _unknown(name: str) -> UsageError:
    from difflib import get_close_matches

    close = get_close_matches(name[:60], [*FILTER_NAMES, *_FIELD_OF, *Filter._fields], n=1)
    return UsageError(
        f"There is no filter named {name[:60]!r}. Choose from: {', '.join(FILTER_NAMES)}.",
        code="unknown_filter",
        subject=name,
        advice=advise("did_you_mean", name=close[0]) if close else None,
    )


def narrows(where: Filter | Where | None) -> bool:
    """Tell whether a filter selects anything: an empty one must never delete the whole memory."""
    return bool(given_fields(where).keys() - {"all_versions"})


def widened(where: Filter | Where | None) -> dict[str, Any]:
    """Return the fields for whole documents: quarantined and superseded ones count by default."""
    fields = given_fields(where)
    check_fields(fields, where)  # here, where the caller's names are known
    return {"trusts": TRUSTS, "all_versions": "as_of" not in fields, **fields}


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
