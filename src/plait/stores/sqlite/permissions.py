"""Files beside a memory that were made while it could not be written. Loaded only for these.

SQLite gives the journal and its index the mode of the file. Who reads a file of mode 0444 leaves an
index of that mode behind, and SQLite keeps to it after a `chmod` of the file itself.
"""

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.stores.sqlite.connection import Connections


FILES_BESIDE = ("-wal", "-shm")


def unwritable(path: str) -> str | None:
    """Return a file beside the memory that this process may not write, though the memory it may."""
    real = os.path.realpath(path)
    if not os.access(real, os.W_OK):
        return None
    names = [real + ending for ending in FILES_BESIDE]
    return next((it for it in names if os.path.exists(it) and not os.access(it, os.W_OK)), None)


def repair(path: str) -> None:
    """Give the files beside a memory its own mode, where they are this user's."""
    while (name := unwritable(path)) is not None:
        try:
            _change_mode(name, stat.S_IMODE(os.stat(os.path.realpath(path)).st_mode))
        except (OSError, NotImplementedError):
            return  # another user's, or a link: the error of the write names it
        if not os.access(name, os.W_OK):
            return


def _change_mode(name: str, mode: int) -> None:
    """Change the mode of a file, but of no other that a link of this name leads to.

    Where others may make files beside a memory, it could be a link to a private one.

    Raises:
        OSError: It is a link, has other names, or belongs to somebody else.
    """
    if not hasattr(os, "O_PATH"):
        os.chmod(name, mode, follow_symlinks=False)
        return
    # subtle: closing a file that was opened in any other way drops SQLite's locks on it.
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise PermissionError(name)
        os.chmod(f"/proc/self/fd/{handle}", mode)
    finally:
        os.close(handle)


def reopens_to_write(connections: "Connections") -> bool:
    """Close this thread's connection if it was opened while the file could not be written.

    Whether it can be now is told.
    """
    names = (connections.real, os.path.dirname(connections.real))
    if connections.in_memory or not all(os.access(name, os.W_OK) for name in names):
        return False
    connections.drop(connections.get())
    return True
