"""A tool: its name, its description for the model, its schemas, and the function that runs it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from plait.mcp.replies import Reply
from plait.mcp.schemas import Schema
from plait.memory import Memory


class Call(NamedTuple):
    """One call of a tool: the memory, the checked arguments, and the caller's session."""

    memory: Memory
    arguments: dict[str, Any]
    session: str | None = None


class Tool(NamedTuple):
    """A tool of the server. A tool that ``writes`` creates the memory's file if it is absent."""

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
