"""A query with many beginnings of words, ``prefix*``: the first are searched, the receipt tells."""

import pytest

from plait import Memory
from plait.errors import UsageError
from plait.searching.beginnings import MANY_BEGINNINGS
from plait.text import MAX_TERMS, parse
from plait.text.operators import MAX_BEGINNINGS, terms_of
from tests.codes import has_code

STARTS = [f"be{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
MANY = " ".join(f"{start}*" for start in STARTS)
BEYOND = len(STARTS) - MAX_BEGINNINGS


def told(memory: Memory, query: str) -> list[str]:
    return [
        row.text for row in memory.search(query).receipt.degraded if row.code == MANY_BEGINNINGS
    ]


@pytest.mark.parametrize(
    "query",
    [
        MANY,
        MANY.replace(" ", " OR "),
        f"x NOT ({MANY.replace(' ', ' OR ')})",
        " ".join(f'"a {start}"*' for start in STARTS),
        f"({MANY}) AND ({MANY})",
    ],
)
def test_only_the_first_beginnings_are_walks_through_the_index(query: str) -> None:
    parsed = parse(query)
    assert parsed.expression is not None
    begun = {term for term in terms_of(parsed.expression, denied=True) if term.prefix}
    assert (len(begun), parsed.unbegun) == (MAX_BEGINNINGS, BEYOND)


def test_what_was_searched_otherwise_is_told(memory: Memory) -> None:
    memory.store("A beard.")
    memory.store("The bez of a watch.")
    memory.store("A bezel.")
    found = [hit.text for hit in memory.search(MANY)]
    assert "A beard." in found and "The bez of a watch." in found
    [text] = told(memory, MANY)
    assert f"{BEYOND} of them were searched as whole words" in text
    [text] = told(memory, " ".join(f"{start}*" for start in STARTS[: MAX_BEGINNINGS + 1]))
    assert "1 of them was searched as whole words" in text


def test_beginnings_of_a_query_that_is_too_long_for_operators_are_told(memory: Memory) -> None:
    memory.store("A beard.")
    [text] = told(memory, f"{MANY} " * (MAX_TERMS // len(STARTS) + 1))
    assert f"{len(STARTS)} of them were" in text


def test_few_beginnings_are_told_nothing(memory: Memory) -> None:
    memory.store("A beard.")
    assert told(memory, " ".join(f"{start}*" for start in STARTS[:MAX_BEGINNINGS])) == []


def test_a_strict_search_refuses_more(memory: Memory) -> None:
    memory.store("A beard.")
    with pytest.raises(UsageError, match=f"give at most {MAX_BEGINNINGS}") as caught:
        memory.search(MANY, strict=True)
    assert has_code(MANY_BEGINNINGS)(caught.value)
