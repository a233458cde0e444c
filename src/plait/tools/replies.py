"""Replies of tools, cut to a budget of tokens."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plait.present.text import NAMES_SHOWN
from plait.searching.recall import fence_recalled, most_that_fit, tokens_of
from plait.types.records import NamedTuple

# The most that an answer may cost, whatever a caller asks for. Without being asked, none costs more
# than 8,000: Claude Code shows a model only the beginning of what has over 50,000 characters.
MAX_TOKENS = 100_000


class Reply(NamedTuple):
    """The same answer in two forms: text for a model, data for a program.

    A client with both shows its model the data alone, without the fence and the notes. So most
    tools send the data only if the server was started for programs.
    """

    text: str
    data: Mapping[str, Any]


def fit_to_budget(
    rows: Sequence[Any],
    render: Callable[[Sequence[Any], int], Reply],
    max_tokens: int,
    *,
    with_data: bool,
) -> Reply:
    """Return a reply with as many of the first rows as the budget allows.

    ``render`` gets the rows to show and the number of rows left out. The reply's data give its cost
    as ``tokens``. If no row fits, the reply has none. ``with_data``: the data are sent too.
    """
    budget = min(max_tokens, MAX_TOKENS)

    def first(count: int) -> Reply:
        return with_cost(render(rows[:count], len(rows) - count), with_data=with_data)

    return first(most_that_fit(len(rows), lambda count: first(count).data["tokens"] <= budget))


def with_cost(reply: Reply, *, with_data: bool) -> Reply:
    """Return the reply with its own cost in its data, as ``tokens``.

    If both forms are sent, the longer one counts: the client decides which one its model sees.
    """
    cost = tokens_of(reply.text)
    if with_data:
        # The cost includes its own field. A number with as many digits costs the same.
        padded = {**reply.data, "tokens": MAX_TOKENS}
        cost = max(cost, tokens_of(json.dumps(padded, ensure_ascii=False)))
    return Reply(reply.text, {**reply.data, "tokens": cost})


def named(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many there are if these are not all.

    >>> named(["a", "b"]), named([str(number) for number in range(1_000)])
    ('a, b', '0, 1, 2, 3, 4, 5, 6, 7, … (1,000 in all)')
    """
    shown = ", ".join(names[:NAMES_SHOWN])
    return shown if len(names) <= NAMES_SHOWN else f"{shown}, … ({len(names):,} in all)"


def fence_with_notes(body: str, *notes: str) -> str:
    """Return recalled text inside its fence, with the notes about it below."""
    fenced = [fence_recalled(body)] if body else []
    return "\n".join([*fenced, *filter(None, notes)])


def on_one_line(*parts: str) -> str:
    """Return the parts on one line: a line break in a name could look like a line of the reply."""
    return " ".join(" ".join(parts).split())


def below_a_row(text: str) -> str:
    """Return a text with its lines indented: none of them can look like another row."""
    return "  " + "  ".join(text.splitlines(keepends=True))
