"""A tool: its name, its description for the model, its schemas, and the function that runs it."""

from collections.abc import Callable, Mapping
from typing import Any

from plait.errors import Notice, PlaitError
from plait.facts.echo import PREFACE
from plait.memory import Memory
from plait.tools.replies import Reply, fence_with_notes
from plait.tools.rows import without_empty
from plait.tools.schemas import Schema
from plait.tools.wording import FOR_MODELS, worded
from plait.types.records import NamedTuple

# Ids of what was done, in JSON for a model; the sentence beside them says how many there are.
IDS_TOLD = 100


class Call(NamedTuple):
    """One call of a tool: the memory, the checked arguments, and the caller's session.

    ``wording`` is the next step by act, in tools that this server has. ``with_data``: the answer is
    sent as data too, for programs. ``as_rows``: only the data are sent, to a model, in rows with
    the fields of `plait.tools.rows`.
    """

    memory: Memory
    arguments: dict[str, Any]
    session: str | None = None
    wording: Mapping[str, str] = FOR_MODELS
    with_data: bool = False
    as_rows: bool = False

    def worded(self, message: PlaitError | Notice | str) -> str:
        """Return a message with its advice worded for this server's tools."""
        return worded(message, self.memory.config, self.wording)

    def sentence(self, text: str, data: Mapping[str, Any]) -> Reply:
        """Return what was done, in a sentence and as data; a model gets the first ids of many."""
        if not self.as_rows:
            return Reply(text, data)
        listed = {
            name: value[:IDS_TOLD] if isinstance(value, list) else value
            for name, value in data.items()
        }
        return Reply(text, {**without_empty(listed), "note": text})

    def reply(self, body: str, data: Mapping[str, Any], *notes: str) -> Reply:
        """Return recalled text in its fence with the notes below, and the same as data."""
        text = fence_with_notes(body, *notes)
        if not self.as_rows:
            return Reply(text, data)
        told = " ".join(filter(None, [PREFACE if body else "", *notes]))
        return Reply(text, {**data, "note": told} if told else data)


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
