"""What agents did, as data beside the messages that tell of it: files, commands, their ends."""

from collections.abc import Sequence
from typing import Any

from plait.types.records import NamedTuple

# Parts of the names of tools that change files.
_EDITING = ("edit", "write", "patch", "replace", "create", "insert", "delete", "update")


class Step(NamedTuple):
    """A call of a tool.

    ``path`` is relative to the project if the file lies in it. ``program`` is what the command
    runs. ``exit`` is the command's status, ``error`` the line that tells why a step failed;
    ``failure`` is the same number for errors that differ only in numbers, places and names.
    """

    tool: str
    path: str | None = None
    command: str | None = None
    program: str | None = None
    exit: int | None = None
    error: str | None = None
    failure: int | None = None

    @property
    def shown(self) -> str:
        """The step on one line: its command, or its tool and file."""
        return " ".join((self.command or f"{self.tool} {self.path or ''}").split())

    @property
    def is_edit(self) -> bool:
        """Whether it changed a file."""
        tool = self.tool.lower()
        named = self.path is not None and any(word in tool for word in _EDITING)
        return named and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether it is known to have failed."""
        return bool(self.exit) or self.error is not None


class StepName(NamedTuple):
    """By what steps are looked up: the last part of a path, a program, a failure, a message."""

    file: str | None = None
    program: str | None = None
    failure: int | None = None
    document: str | None = None


class StepTaken(NamedTuple):
    """A step with the message that it belongs to; ``place`` is its order among the message's."""

    step: Step
    document: str
    project: str | None
    session: str | None
    turn: int | None
    event_at: int
    place: int

    @property
    def order(self) -> tuple[int, int]:
        """Its place in the session."""
        return self.turn or 0, self.place


_TYPES = (str, str, str, str, int, str, int)


def step_from(values: Sequence[Any]) -> Step:
    """Return the values of a step, checked.

    Raises:
        ValueError: They are not those of a step.
    """
    if len(values) != len(_TYPES) or not isinstance(values[0], str):
        raise ValueError("a step has other fields")
    for value, type_ in zip(values, _TYPES, strict=True):
        if value is not None and type(value) is not type_:
            raise ValueError(f"a step has {value!r}")
    return Step(*values)


# -- answers ---------------------------------------------------------------------------------


class FileSession(NamedTuple):
    """A session that changed, read or mentioned a file.

    ``request`` are the words of the user before, unless its trust says that somebody else may have
    written them; ``answer`` is the first line of the agent's last answer to them. ``document`` is
    the message to read. ``has_changed``: the file was written after this session touched it.
    """

    path: str
    session: str
    project: str | None
    at: int
    changes: int
    reads: int
    document: str
    request: str
    answer: str
    has_changed: bool
    request_trust: str = "trusted"

    @property
    def did(self) -> str:
        """What the session did with the file."""
        return "changed" if self.changes else "read" if self.reads else "mentioned"


class Invocation(NamedTuple):
    """A command that worked, how often it did and did not, and when it last did."""

    command: str
    worked: int
    failed: int
    at: int
    project: str | None
    session: str | None
    document: str


class Fix(NamedTuple):
    """An error, what was run and edited after it, and what then worked.

    ``is_same``: it is the same error, also by the names in it. ``documents`` are the messages that
    tell of the steps, in their order.
    """

    error: str
    failed: str
    steps: tuple[Step, ...]
    worked: str
    is_same: bool
    at: int
    project: str | None
    session: str | None
    document: str
    documents: tuple[str, ...] = ()
