"""Who changed what: the rows of the audit log, and under whose name the present call acts."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from plait.text import clean
from plait.types import Origin
from plait.types.records import NamedTuple

# "tools" are the tools that a program gives to a model: `plait.tools`, its adapters and the chat.
Door = Literal["cli", "mcp", "tools", "library", "hook", "import"]
DOORS: tuple[Door, ...] = ("cli", "mcp", "tools", "library", "hook", "import")
# Who acts where no text tells it.
ACTORS: dict[Door, Origin] = {
    "cli": "user",
    "mcp": "agent",
    "tools": "agent",
    "library": "user",
    "hook": "agent",
    "import": "import",
}
# What entries are recorded as; a test compares them with what the code records.
LOGGED_VERBS = (
    *("store", "store_many", "ingest", "import", "mark", "feedback", "delete", "undo", "purge"),
    *("erase", "prune", "maintain", "reindex", "doctor", "create", "observe", "forget"),
    *("relate", "unrelate", "team", "refresh", "write"),
)
# The verb that brings back the texts of others, who did not do that.
UNDO = "undo"


class Caller(NamedTuple):
    """The door by which a call came in, the verb that it is, and its session."""

    door: Door = "library"
    verb: str = ""
    session: str | None = None


class AuditEntry(NamedTuple):
    """One change of one document.

    ``origin`` is who made it. ``before`` and ``after`` are hashes of the document with the key of
    this memory: ``None`` where there was none. A purge has no ``document``, only its project.
    ``member`` made it, in a memory with members; ``None`` is whoever administers it.
    """

    at: int
    origin: str
    door: str
    verb: str
    session: str | None = None
    project: str | None = None
    document: str = ""
    before: bytes | None = None
    after: bytes | None = None
    member: str | None = None


class AuditQuery(NamedTuple):
    """Selects entries of the audit log. Every field that is set must match.

    ``projects`` has ``None`` for personal documents. Without ``scopes``, those of users do not
    count.
    """

    documents: tuple[str, ...] = ()
    projects: tuple[str | None, ...] | None = None
    verbs: tuple[str, ...] = ()
    doors: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    session: str | None = None
    since: int | None = None
    scopes: bool = True


_caller: ContextVar[Caller] = ContextVar("caller")


def caller() -> Caller:
    """Return in whose name the present call acts."""
    return _caller.get(Caller())


@contextmanager
def acting(
    verb: str = "", *, door: Door | None = None, session: str | None = None
) -> Iterator[None]:
    """Record what is written inside under a verb, unless the call is already part of another.

    A door or a session that is given here replaces the one of the caller. What a hook imports
    came by the hook. A session is named as its documents name it, whatever a program sent.
    """
    outer = caller()
    if door == "import" and outer.door == "hook":
        door = None
    named = clean(session) if session else outer.session
    inner = Caller(door or outer.door, outer.verb or verb, named)
    token = _caller.set(inner)
    try:
        yield
    finally:
        _caller.reset(token)
