"""Readers of agents' session histories: a module for each agent, all with the same two functions.

``find(places)`` yields the files and databases that exist. ``read(source, mark)`` yields what they
say since an earlier mark, in batches. Readers only read: they create, lock and change nothing, and
know nothing of a memory. Their words are data; `plait.agents.importing` decides what is stored.

A batch is a `Reading`: whole turns of sessions, and the mark that ends it. An open turn, the last
one of a file, is part of a batch and is read again with the next one, because it may have grown;
its utterances keep their ids, so that they are replaced and not doubled.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, Protocol, cast

from plait.errors import refused_choice
from plait.types.records import NamedTuple

Role = Literal["user", "assistant"]
SessionKind = Literal["main", "subagent", "headless"]

# The agents that have a reader: the name a user writes, and its module here.
READERS: Mapping[str, str] = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
    "cursor": "cursor",
    "copilot": "copilot",
    "aider": "aider",
    "openclaw": "openclaw",
    "chatgpt": "chatgpt",
    "claude": "claude_ai",
}
# Those that keep nothing on this machine: the user names what the service exported.
EXPORTED = ("chatgpt", "claude")

# Where the last reading of a source ended. Opaque outside of its reader; can be written as JSON.
Bookmark = Mapping[str, Any]


class Places(NamedTuple):
    """Where to look for histories.

    ``projects`` are folders the user names or works in, for agents that write into the project.
    With ``files``, only these are read: an export, or one transcript.
    """

    home: str
    environ: Mapping[str, str]
    projects: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class HistoryFile(NamedTuple):
    """A file or a database with one session or many.

    ``expires_at`` is when the agent deletes it, in UTC milliseconds, if it does.
    """

    agent: str
    path: str
    kind: SessionKind = "main"
    session: str | None = None
    size: int = 0
    expires_at: int | None = None


class Act(NamedTuple):
    """A call of a tool: ``line`` for people and for search, the rest as data.

    ``also`` are more files of the same call, such as those of one patch.
    """

    tool: str
    line: str
    path: str | None = None
    command: str | None = None
    exit: int | None = None
    error: str | None = None
    also: tuple[str, ...] = ()


class Utterance(NamedTuple):
    """What one side said, with the tools it called.

    ``id`` is unique over all sessions of an agent: a copy in a resumed session has the same id, or
    names its original in ``copy_of``. ``typed`` are the user's own words.

    ``twins`` are by what it is known in another source of the same session that gives its messages
    other ids, one for each part; of an agent without such sources it has none.
    """

    id: str
    role: Role
    text: str
    at: int | None = None
    typed: bool = False
    acts: tuple[Act, ...] = ()
    copy_of: str | None = None
    twins: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        """The text, and below it the tool calls, a line each."""
        if not self.acts:
            return self.text
        return "\n".join(filter(None, (self.text, *[act.line for act in self.acts])))


class Session(NamedTuple):
    """A session, or its part since the last mark, in the order in which it was said.

    ``folders`` are those in which it was led, as far as it tells; ``cwd`` is the first.
    """

    agent: str
    id: str
    utterances: Sequence[Utterance]
    cwd: str | None = None
    branch: str | None = None
    kind: SessionKind = "main"
    folders: Sequence[str] = ()


class Reading(NamedTuple):
    """One batch of a source, with the mark to go on from and what was left out, by reason."""

    sessions: Sequence[Session]
    mark: Bookmark
    skipped: Mapping[str, int] = {}


class Reader(Protocol):
    """What the module of an agent offers."""

    def find(self, places: Places) -> Iterator[HistoryFile]:
        """Yield the sources that exist, oldest first."""
        ...

    def read(self, source: HistoryFile, mark: Bookmark | None) -> Iterator[Reading]:
        """Yield what a source says since a mark; nothing if it did not change."""
        ...


def reader_of(agent: str) -> Reader:
    """Return the module that reads the histories of an agent.

    Raises:
        UsageError: There is none.
    """
    if agent not in READERS:
        raise refused_choice("agent", agent, READERS)
    return cast("Reader", import_module(f"{__name__}.{READERS[agent]}"))
