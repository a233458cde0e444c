"""Open a file inside of a folder by a way that leads through no link.

Between the moment at which a folder is listed and the one at which its files are read, another
program may put a link in the place of a file, or of a folder on the way to it.
"""

import errno
import os
import stat
from typing import BinaryIO

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# PATH: a folder that may be entered but not listed can be on the way.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
# Windows opens nothing relative to a folder; there, the last name alone is checked, if at all.
_STEPS = os.open in os.supports_dir_fd and bool(_NO_FOLLOW)


def open_inside(path: str, folder: str, flags: int) -> BinaryIO:
    """Open the file at a path to read it; no link below the folder is followed.

    Without a folder, links are followed; if the file is elsewhere, all but the last may be.

    Raises:
        OSError: It cannot be opened; ``ELOOP`` if there is a link.
    """
    place = None
    try:
        *way, name = _steps(path, folder) or (path,)
        for step in way:
            above, place = place, _entered(step, place)
            if above is not None:
                os.close(above)
        own = flags | _NO_FOLLOW if folder else flags
        return open(name, "rb", opener=lambda name, _: os.open(name, own, dir_fd=place))
    finally:
        if place is not None:
            os.close(place)


def _steps(path: str, folder: str) -> tuple[str, ...]:
    """Return the folder and the names to open one after another; none for a path as a whole.

    A path inside of the folder begins with it as it is written.
    """
    # subtle: `PurePath` takes ten times as long, which every file of an ingest would pay.
    below = os.path.join(folder, "")  # noqa: PTH118
    if not folder or not _STEPS or not path.startswith(below):
        return ()
    return (folder, *path.removeprefix(below).split(os.sep))  # noqa: PTH206


def _entered(name: str, above: int | None) -> int:
    """Open a folder inside of an open one; the first one may be named by a link."""
    if above is None:
        return os.open(name, _FOLDER & ~_NO_FOLLOW)
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except NotADirectoryError:
        # subtle: with O_DIRECTORY the system says so of a link to a folder, too.
        if stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise
