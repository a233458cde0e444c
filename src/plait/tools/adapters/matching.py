"""Whether a value is what a filter wants, by the rules of LangGraph's own stores."""

from collections.abc import Mapping
from typing import Any


def matches(value: Any, wanted: Any) -> bool:
    """Tell whether a value is what a filter wants: equal, part by part, or by ``$`` operators.

    >>> matches({"age": 41, "pet": {"kind": "cat"}}, {"age": {"$gte": 40}, "pet": {"kind": "cat"}})
    True

    Raises:
        ValueError: There is no such operator.
    """
    match wanted:
        case Mapping() if any(str(name).startswith("$") for name in wanted):
            return all(_holds(value, name, limit) for name, limit in wanted.items())
        case Mapping():
            return isinstance(value, Mapping) and all(
                matches(value.get(name), inner) for name, inner in wanted.items()
            )
        case list() | tuple():
            return (
                isinstance(value, list | tuple)
                and len(value) == len(wanted)
                and all(matches(*pair) for pair in zip(value, wanted, strict=True))
            )
        case _:
            return bool(value == wanted)


def _holds(value: Any, operator: str, limit: Any) -> bool:
    if operator == "$eq":
        return bool(value == limit)
    if operator == "$ne":
        return bool(value != limit)
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"Unsupported operator: {operator}")
    try:
        number, bound = _number(value), _number(limit)
    except (TypeError, ValueError, OverflowError):
        return False  # what is no number is neither more nor less
    return {
        "$gt": number > bound,
        "$gte": number >= bound,
        "$lt": number < bound,
        "$lte": number <= bound,
    }[operator]


def _number(value: Any) -> float:
    # An integer stays one: it may be larger than any float, and is compared all the same.
    return value if isinstance(value, int) else float(value)
