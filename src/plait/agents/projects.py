"""Where the sessions of agents belong: the project of a session, and the folder of that project."""

from os.path import isdir
from pathlib import PurePosixPath, PureWindowsPath

from plait.errors import ConfigError
from plait.facts.masking import masked
from plait.settings.loading import find_project, load, project_name, repository_of
from plait.types import EVERYTHING
from plait.types.records import NamedTuple
from plait.writing.writer import Writer


class Home(NamedTuple):
    """A project, and its folder; ``None`` without one."""

    project: str | None = None
    root: str | None = None


class Projects:
    """Finds the project of each session once."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._of_folders: dict[str | None, Home] = {}
        self._of_sessions: dict[str, Home] = {}

    def of(self, session: str, folder: str | None) -> Home:
        """Return where a session belongs, given the folder in which its agent worked.

        One that has messages stays with them: its folder may have been removed, or become part of
        a repository since.
        """
        if session not in self._of_sessions:
            home = self._of_folder(folder)
            where = EVERYTHING._replace(session=session, kinds=("message",), scopes=False)
            for message in self._writer.store.scan(where, limit=1, by_turn=True, damaged=[]):
                if message.project != home.project:
                    home = Home(message.project, message.project)
            self._of_sessions[session] = home
        return self._of_sessions[session]

    def _of_folder(self, folder: str | None) -> Home:
        """Return the project that plait has in a folder; a folder that is gone is its own."""
        if folder not in self._of_folders:
            # A relative path could name anything, also what only `Memory.scope` may reach.
            is_absolute = folder and (
                PurePosixPath(folder).is_absolute() or PureWindowsPath(folder).is_absolute()
            )
            home = Home()
            if folder and is_absolute:
                # Unlike a Path, this raises for no name, however long.
                is_here = isdir(folder)  # noqa: PTH112
                root = find_project(folder) if is_here else folder
                # A folder that is gone is only a text of the history, where secrets are masked.
                name = (_named_in(folder) or repository_of(root)) if is_here else masked(folder)[0]
                home = Home(self._writer.home_of(project_name(name)), root)
            self._of_folders[folder] = home
        return self._of_folders[folder]


def _named_in(folder: str) -> str | None:
    """Return the name that a project has by a file of its own which the user trusts."""
    try:
        file = load(cwd=folder).project_file
    except ConfigError:
        return None  # the user's own settings do not fit together; whoever opened a memory told it
    name, _ = file.given.get("project", (None, "")) if file is not None else (None, "")
    return name if isinstance(name, str) else None
