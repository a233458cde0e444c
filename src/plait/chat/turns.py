"""What a conversation with a model is made of, whatever the provider's protocol."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from plait.errors import Notice
from plait.types.records import NamedTuple


class ModelCall(NamedTuple):
    """A model's request to run a tool. ``arguments`` is a text if it could not be read."""

    id: str
    name: str
    arguments: Mapping[str, Any] | str


class ChatTurn(NamedTuple):
    """One turn of the conversation, as the model sees it.

    An assistant's turn may end with ``calls``; each is answered by a turn of the role ``tool``
    with the call's ``call_id`` and ``tool``.
    """

    role: Literal["user", "assistant", "tool"]
    text: str
    calls: tuple[ModelCall, ...] = ()
    call_id: str = ""
    tool: str = ""
    is_error: bool = False


# What a model sends: pieces of its text, calls of tools, and what went wrong with the answer.
Part = str | ModelCall | Notice


class Model(Protocol):
    """A chat model that answers piece by piece."""

    def answer(self, system: str, turns: Sequence[ChatTurn], *, tools: bool) -> Iterator[Part]:
        """Yield the parts of the next answer; ``tools`` offers the memory's tools.

        Raises:
            ChatError: The server cannot be reached, refused, or broke off.
        """

    def close(self) -> None:
        """Close the connection."""


def arguments_of(text: str) -> dict[str, Any] | str:
    """Parse the arguments of a call; return the text itself if it is not a JSON object.

    >>> arguments_of('{"query": "ssh"}'), arguments_of(""), arguments_of("[1")
    ({'query': 'ssh'}, {}, '[1')
    """
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
