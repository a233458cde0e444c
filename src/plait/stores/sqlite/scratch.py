"""Folders for files that are not finished yet.

Whoever makes one keeps it locked, so that what a killed process left can be told from what another
process is still writing.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from plait.types.ids import is_id, new_id

ENDING = ".partial"


@contextmanager
def beside(place: str) -> Iterator[str]:
    """Make a private folder beside a file, remove it at the end; what was abandoned there, too."""
    remove_abandoned(os.path.dirname(place))
    folder, handle = _made(place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def abandoned(folder: str) -> list[str]:
    """Return what killed processes left unfinished in a folder."""
    left = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        _, dot, mark = name.removesuffix(ENDING).rpartition(".")
        if dot and name.endswith(ENDING) and is_id(mark) and os.path.isdir(path):
            handle = None
            with suppress(OSError):  # one that cannot be locked is not known to be abandoned
                handle = _locked(path)
            if handle is not None:
                os.close(handle)
                left.append(path)
    return left


def remove_abandoned(folder: str) -> int:
    """Remove what killed processes left unfinished in a folder; return how much it was."""
    left = abandoned(folder)
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
    return len(left)


def _made(place: str) -> tuple[str, int | None]:
    while True:
        folder = f"{place}.{new_id()}{ENDING}"
        os.mkdir(folder, 0o700)
        if os.name != "posix":
            return folder, None
        try:
            handle = _locked(folder)
        except OSError:
            os.rmdir(folder)
            raise
        if handle is not None:
            return folder, handle
        # Another process took it for abandoned before it was locked.


def _locked(folder: str) -> int | None:
    """Open and lock a folder; ``None`` where another process has it, or locks are unknown.

    Raises:
        OSError: It cannot be locked for another reason: trying again would not help.
    """
    handle = None
    is_ours = False
    try:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = os.path.samestat(os.fstat(handle), os.stat(folder))
    except (ImportError, BlockingIOError, FileNotFoundError):
        pass
    finally:
        if handle is not None and not is_ours:
            os.close(handle)
    return handle if is_ours else None
