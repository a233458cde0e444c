"""Filters of the LangGraph store on values of any size."""

from typing import Any

import pytest

from plait.tools.adapters.matching import matches

HUGE = 10**400
NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "operator", "limit", "holds"),
    [
        (HUGE, "$gt", 5, True),
        (HUGE, "$gt", 5.5, True),
        (HUGE, "$lte", 5, False),
        (-HUGE, "$lt", 5, True),
        (5, "$lt", HUGE, True),
        (HUGE, "$gte", HUGE, True),
        (HUGE + 1, "$gt", HUGE, True),
        (HUGE, "$lt", float("inf"), True),
        (HUGE, "$gt", NAN, False),
        (NAN, "$lt", HUGE, False),
        (NAN, "$gte", NAN, False),
        ("9" * 5_000, "$gt", 5, True),
        ("9" * 5_000, "$lt", 5, False),
        ("nine", "$gt", 5, False),
        (None, "$lt", 5, False),
        ([HUGE], "$gt", 5, False),
        ("7", "$gte", 7, True),
        (True, "$gt", 0, True),
        (HUGE, "$eq", HUGE, True),
        (HUGE, "$ne", 5, True),
    ],
)
def test_numbers_of_any_size_are_compared(
    value: Any, operator: str, limit: Any, holds: bool
) -> None:
    assert matches(value, {operator: limit}) is holds
