"""What a tool is: a name, words for the model, a schema, and a function from call to reply."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from plait import guard
from plait.mcp.arguments import Schema
from plait.memory import Memory
from plait.packing import most_that_fit, tokens_of

MAX_TOKENS = 100_000


class Reply(NamedTuple):
    """An answer twice: as text for a model, as data for a program."""

    text: str
    data: Mapping[str, Any]


class Call(NamedTuple):
    """One call: the memory it is about, its checked arguments, and the caller's session."""

    memory: Memory
    given: dict[str, Any]
    session: str | None = None


class Tool(NamedTuple):
    """A tool of the server. ``writes`` makes the memory's file where there is none."""

    name: str
    description: str
    input: Schema
    run: Callable[[Call], Reply]
    output: Schema | None = None
    title: str | None = None
    writes: bool = False
    destroys: bool = False
    idempotent: bool = True
    strict: bool = True


# -- schemas -------------------------------------------------------------------------------


def takes(*required: str, **properties: Schema) -> Schema:
    """A schema of arguments; those that are named first must be given."""
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    return found


def text(description: str = "", **more: Any) -> Schema:
    """A text."""
    return _described("string", description, more)


def number(description: str = "", **more: Any) -> Schema:
    """A number."""
    return _described("number", description, more)


def whole(description: str = "", **more: Any) -> Schema:
    """A whole number."""
    return _described("integer", description, more)


def yes(description: str = "", **more: Any) -> Schema:
    """True or false."""
    return _described("boolean", description, more)


def texts(description: str = "", **more: Any) -> Schema:
    """A list of texts."""
    return _described("array", description, {"items": {"type": "string"}, **more})


def listed(items: Schema, description: str = "", **more: Any) -> Schema:
    """A list of anything."""
    return _described("array", description, {"items": items, **more})


def _described(kind: str, description: str, more: Mapping[str, Any]) -> Schema:
    return {"type": kind, **({"description": description} if description else {}), **more}


# -- replies -------------------------------------------------------------------------------


def cost(reply: Reply) -> int:
    """Tokens of the dearer form; which of the two a client shows to its model is its choice."""
    return max(tokens_of(reply.text), tokens_of(json.dumps(reply.data, ensure_ascii=False)))


def within(
    rows: Sequence[Any], render: Callable[[Sequence[Any], int], Reply], max_tokens: int
) -> Reply:
    """As many rows, from the first on, as the budget holds; ``render`` is told how many are not in.

    The reply's data say its cost as ``tokens``. Where nothing fits, the empty form is given.
    """

    def first(count: int) -> Reply:
        return priced(render(rows[:count], len(rows) - count))

    return first(most_that_fit(len(rows), lambda count: cost(first(count)) <= max_tokens))


def priced(reply: Reply) -> Reply:
    """The reply with its own cost among its data."""
    # Any number of that many digits costs the same.
    known = Reply(reply.text, {**reply.data, "tokens": MAX_TOKENS})
    return Reply(reply.text, {**reply.data, "tokens": cost(known)})


def fenced(body: str, *after: str) -> str:
    """Recalled text as data between its fence, and what is to be said about it below."""
    return "\n".join([*([guard.fence(body)] if body else []), *filter(None, after)])
