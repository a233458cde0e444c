"""Replies of tools, cut to a budget of tokens."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from plait.searching.recall import fence_recalled, most_that_fit, tokens_of

MAX_TOKENS = 100_000


class Reply(NamedTuple):
    """The same answer in two forms: text for a model, data for a program."""

    text: str
    data: Mapping[str, Any]


def token_cost(reply: Reply) -> int:
    """Return the tokens of the longer form: the client decides which one its model sees."""
    return max(tokens_of(reply.text), tokens_of(json.dumps(reply.data, ensure_ascii=False)))


def fit_to_budget(
    rows: Sequence[Any], render: Callable[[Sequence[Any], int], Reply], max_tokens: int
) -> Reply:
    """Return a reply with as many of the first rows as the budget allows.

    ``render`` gets the rows to show and the number of rows left out. The reply's data give its cost
    as ``tokens``. If no row fits, the reply has none.
    """

    def first(count: int) -> Reply:
        return with_cost(render(rows[:count], len(rows) - count))

    return first(most_that_fit(len(rows), lambda count: token_cost(first(count)) <= max_tokens))


def with_cost(reply: Reply) -> Reply:
    """Return the reply with its own cost in its data, as ``tokens``."""
    # The cost includes its own field. A number with as many digits costs the same.
    padded = Reply(reply.text, {**reply.data, "tokens": MAX_TOKENS})
    return Reply(reply.text, {**reply.data, "tokens": token_cost(padded)})


def fence_with_notes(body: str, *notes: str) -> str:
    """Return recalled text inside its fence, with the notes about it below."""
    fenced = [fence_recalled(body)] if body else []
    return "\n".join([*fenced, *filter(None, notes)])


def on_one_line(*parts: str) -> str:
    """Return the parts on one line: a line break in a name could look like a line of the reply."""
    return " ".join(" ".join(parts).split())


def below_a_row(text: str) -> str:
    """Return a text with its lines indented: none of them can look like another row."""
    return "  " + text.replace("\n", "\n  ")
