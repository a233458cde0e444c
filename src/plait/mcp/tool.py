"""A tool: its name, its description for the model, its schemas, and the function that runs it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from plait.errors import Notice, PlaitError
from plait.mcp.replies import Reply
from plait.mcp.schemas import Schema
from plait.mcp.wording import FOR_MODELS, worded
from plait.memory import Memory


class Call(NamedTuple):
    """One call of a tool: the memory, the checked arguments, and the caller's session.

    ``wording`` is the next step by act, in tools that this server has. ``with_data``: the answer is
    sent as data too, for programs.
    """

    memory: Memory
    arguments: dict[str, Any]
    session: str | None = None
    wording: Mapping[str, str] = FOR_MODELS
    with_data: bool = False

    def worded(self, message: PlaitError | Notice | str) -> str:
        """Return a message with its advice worded for this server's tools."""
        return worded(message, self.memory.config, self.wording)


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
