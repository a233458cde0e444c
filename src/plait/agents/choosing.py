"""Which sessions an import takes: what its caller asks for, less what the user keeps out."""

import errno
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from plait.agents.histories import READERS, HistoryFile, Places, reader_of
from plait.errors import AmbiguousId, NotFound, PlaitError, UsageError, quoted
from plait.settings.loading import config_folder
from plait.types.ids import SHORT_SESSION
from plait.types.records import NamedTuple

# Patterns of folders whose sessions are never imported, one on each line.
EXCLUDE_FILE = "import-exclude.txt"


class Wanted(NamedTuple):
    """Which sessions to import.

    ``since`` counts the time of the last message that has one, else the last use of the file.
    ``session`` is an id as the agent has it, or AGENT:ID as plait names it; its first eight or more
    characters will do.
    """

    since: int | None = None
    folder: str | None = None
    session: str | None = None
    subagents: bool = False
    headless: bool = False
    again: bool = False

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of sessions that are taken."""
        more = {"subagent": self.subagents, "headless": self.headless}
        return frozenset({"main", *(kind for kind, is_taken in more.items() if is_taken)})

    def takes(self, agent: str, session: str, folder: str, last: int | None) -> bool:
        """Tell whether a session of a folder was asked for; ``last`` is when it ended, if known."""
        is_there = self.folder is None or is_below(folder, self.folder)
        is_old = self.since is not None and last is not None and last < self.since
        return is_there and not is_old and self.names(agent, session)

    def names(self, agent: str, session: str) -> bool:
        """Tell whether a session was asked for by its name, or none was."""
        return self.session in (None, session, f"{agent}:{session}")

    @property
    def narrows(self) -> bool:
        """Whether sessions are left out that another import may want."""
        return any(value is not None for value in (self.since, self.folder, self.session))


def with_whole_session(wanted: Wanted, sources: Sequence[HistoryFile]) -> Wanted:
    """Return what is wanted with the whole name of its session, if it has only its beginning.

    Raises:
        NotFound: None of the sources has such a session.
        AmbiguousId: Several begin so.
    """
    name = wanted.session
    if name is None:
        return wanted
    known = {session for source in sources for session in _sessions_in(source)}
    if any(wanted.names(*session) for session in known):
        return wanted
    begun = []
    for agent, id_ in sorted(known):
        start = name.removeprefix(f"{agent}:")
        if len(start) >= SHORT_SESSION and id_.startswith(start):
            begun.append(f"{agent}:{id_}")
    if not begun:
        raise NotFound(f"No session is named {quoted(name)}.", subject=name)
    if len(begun) > 1:
        raise AmbiguousId(
            f"'{name}' matches {len(begun)} sessions. Write more of the name.", subject=name
        )
    return wanted._replace(session=begun[0])


def _sessions_in(source: HistoryFile) -> Iterator[tuple[str, str]]:
    """Yield the sessions of a source; one that does not tell before is read."""
    if source.session is not None:
        yield source.agent, source.session
        return
    # What cannot be read is told by the import itself.
    with suppress(OSError, PlaitError):
        for reading in reader_of(source.agent).read(source, None):
            yield from ((session.agent, session.id) for session in reading.sessions)


def is_below(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies in it."""
    top = folder.rstrip("/\\")
    return path == top or path.startswith((f"{top}/", f"{top}\\"))


def is_excluded(folder: str, masks: Collection[str]) -> bool:
    """Tell whether a folder, or one above it, is kept out, under this name or its real one."""
    if not masks or not folder:
        return False
    names = {folder, os.path.realpath(folder)}
    return any(
        is_below(name, mask) or fnmatch(name, mask) or fnmatch(name, f"{mask}/*")
        for name in names
        for mask in masks
    )


def excluded_folders() -> list[str]:
    """Return the patterns of folders that are never imported, from the user's own file.

    Raises:
        UsageError: It is there and cannot be read: what it keeps out must not come in.
    """
    path = Path(config_folder(), EXCLUDE_FILE)
    try:
        text = _text_of(path)
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} names folders that are never imported, and cannot be read. Save it as a text "
            "in UTF-8, or move it away.",
            code="bad_exclude_file",
            subject=str(path),
        ) from error
    lines = (line.strip() for line in text.splitlines())
    masks = [str(Path(line).expanduser()) for line in lines if line and not line.startswith("#")]
    # Agents write the real name of the folder that they work in.
    return list(dict.fromkeys([*masks, *map(os.path.realpath, filter(os.path.isabs, masks))]))


def _text_of(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "no regular file", str(path))  # a pipe would wait for ever
    return path.read_text("utf-8-sig")


def all_histories(places: Places) -> dict[str, list[HistoryFile]]:
    """Return what every agent left on this machine, by agent; those without are left out."""
    listed = {agent: list(reader_of(agent).find(places)) for agent in READERS}
    return {agent: sources for agent, sources in listed.items() if sources}
