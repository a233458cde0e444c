"""Files and databases of other programs: which there are, and whether they changed since a mark.

Databases are read while their program may be writing to them; nothing is created beside them.
"""

import errno
import fnmatch
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from plait.agents.histories import Bookmark, HistoryFile, Places, SessionKind
from plait.agents.histories.lines import BOM, size_and_time
from plait.agents.histories.values import decoded, folder, string
from plait.errors import StoreError, UsageError, flattened
from plait.stores.sqlite.others import LiveDatabase, opened_live
from plait.times import DAY_MS

# Bytes of a file that is held whole, such as one JSON value.
_LARGEST_FILE = 256 * 1024 * 1024
# Bytes. A larger value of a database holds a file or an image.
_LARGEST_VALUE = 64 * 1024 * 1024

_MAIN: SessionKind = "main"


def below(
    top: Path, endings: tuple[str, ...], leave_out: Sequence[str] = (), *, closed: bool = False
) -> Iterator[Path]:
    """Yield the files of a folder, and of those in it, that end so.

    Links to folders are not followed: they may lead in a circle, or out of the agent's folder.
    With ``closed``, also the folders that cannot be looked into: nobody knows what is in them.
    """
    refused: list[Path] = []

    def note(error: OSError) -> None:
        if closed and isinstance(error, PermissionError):
            refused.append(Path(error.filename))

    for place, folders, names in os.walk(top, onerror=note):
        folders[:] = [name for name in folders if name not in leave_out]
        yield from (Path(place, name) for name in names if name.endswith(endings))
    yield from refused


def matching(top: Path, pattern: str) -> Iterator[Path]:
    """Yield what a pattern names in a folder, and the folders that cannot be looked into.

    `Path.glob` says nothing of these.
    """
    part, _, rest = pattern.partition("/")
    names = [part]
    if "*" in part:
        try:
            names = sorted(fnmatch.filter((row.name for row in top.iterdir()), part))
        except PermissionError:
            yield top
            return
        except OSError:
            return
    for name in names:
        if rest:
            yield from matching(top / name, rest)
        else:
            yield top / name


def history_file(
    agent: str,
    path: Path,
    session: str | None = None,
    kind: SessionKind = _MAIN,
    days: int | None = None,
) -> list[HistoryFile]:
    """Return a regular file as a source; nothing if it is none.

    A folder that cannot be looked into is one too, so that an import can say so.
    ``days`` is how long after its last use the agent deletes it.
    """
    try:
        status = path.stat()
    except PermissionError:
        around = (folder for folder in path.parents if os.path.isdir(folder))  # noqa: PTH112
        return [HistoryFile(agent, str(folder)) for folder in islice(around, 1)]
    except (OSError, ValueError):
        return []
    if stat.S_ISDIR(status.st_mode) and not os.access(path, os.R_OK | os.X_OK):
        return [HistoryFile(agent, str(path))]
    if not stat.S_ISREG(status.st_mode):
        return []  # opening a pipe would wait for ever
    expires_at = None if days is None else round(status.st_mtime * 1000) + days * DAY_MS
    return [HistoryFile(agent, str(path), kind, session, status.st_size, expires_at)]


def refuse_closed(source: HistoryFile) -> None:
    """Raise for what may not be read, whatever its reader would make of that.

    Raises:
        PermissionError: It is a closed file, or a folder: only a closed one is a source.
    """
    # Unlike those of a Path, these raise for no name, however odd.
    is_folder = not source.size and os.path.isdir(source.path)  # noqa: PTH112
    is_closed = os.path.exists(source.path) and not os.access(source.path, os.R_OK)  # noqa: PTH110
    if is_folder or is_closed:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), source.path)


def oldest_first(sources: Iterable[HistoryFile]) -> list[HistoryFile]:
    """Return sources in the order of their last use, each once."""
    rows = {source.path: source for source in sources}
    return sorted(rows.values(), key=lambda row: (state_of(row.path)[0][1], row.path))


def state_of(*paths: str) -> list[list[int]]:
    """Return size and time of files, as a mark keeps them; zeros for one that is missing."""
    return [list(size_and_time(path) or (0, 0)) for path in paths]


def read_json(path: Path) -> Any:
    """Return what a file of JSON says; ``None`` if there is none, or it is too large to hold."""
    raw = read_bytes(path)
    return None if raw is None else decoded(raw)


def read_text(path: Path) -> str:
    """Return what a file says; empty if there is none, or it is too large to hold."""
    return (read_bytes(path) or b"").decode("utf-8", "replace")


def read_bytes(path: Path) -> bytes | None:
    """Return the bytes of a file; ``None`` if there is none, or it is too large to hold."""
    try:
        status = path.stat()
        # Opening a pipe would wait for ever.
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_FILE:
            return None
        return path.read_bytes().removeprefix(BOM)
    except (OSError, ValueError):
        return None


def is_unchanged(mark: Bookmark | None, state: list[list[int]]) -> bool:
    """Tell whether files are as a mark says that they were read to the end."""
    return mark is not None and mark.get("files") == state


def data_folders(places: Places, name: str) -> list[Path]:
    """Return where programs of the VS Code family keep the data of a user.

    Under Windows and macOS they have places of their own; under WSL those of Windows count, too.
    """
    home, environ = Path(places.home), places.environ
    folders = [home / ".config" / name / "User"]
    if environ.get("XDG_CONFIG_HOME"):
        folders.insert(0, Path(environ["XDG_CONFIG_HOME"], name, "User"))
    if environ.get("APPDATA"):
        folders.append(Path(environ["APPDATA"], name, "User"))
    if sys.platform == "darwin":
        folders.append(home / "Library" / "Application Support" / name / "User")
    if environ.get("WSL_DISTRO_NAME"):
        windows = Path("/mnt/c/Users")
        folders += sorted(windows.glob(f"*/AppData/Roaming/{name}/User"))
    # Unlike that of a Path, this raises for no folder.
    return [path for path in dict.fromkeys(folders) if os.path.isdir(path)]  # noqa: PTH112


def workspace_folder(storage: Path) -> str:
    """Return the folder that a workspace of the VS Code family is about; empty if it is not here.

    ``storage`` is the folder that keeps what the program knows about the workspace.
    """
    address = string(read_json(storage / "workspace.json"), "folder")
    if not address.startswith("file:///"):
        return ""
    path = unquote(address.removeprefix("file://"), errors="replace")
    is_windows = path[2:3] == ":"
    return folder({"path": path[1:] if is_windows else path}, "path")


@contextmanager
def opened_history(path: str) -> Iterator[LiveDatabase]:
    """Open the database of an agent.

    Raises:
        OSError: It cannot be read.
    """
    try:
        with opened_live(path, _LARGEST_VALUE) as database:
            yield database
    except (StoreError, UsageError) as error:
        # A StoreError would be about the memory.
        cause = str(error)
        for name in (path, flattened(path)):
            cause = cause.removeprefix(f"{name} cannot be imported: ")
        raise OSError(cause.removesuffix(" Nothing was imported.").rstrip(".")) from error


def database_state(path: str) -> list[list[int]]:
    """Return size and time of a database and of its log, as a mark keeps them."""
    return state_of(path, f"{path}-wal")
