"""Create the file of a memory, private to its owner. Loaded only if there is no file yet."""

import os

from plait.errors import StoreError, StoreReadOnly, advise
from plait.stores import exists
from plait.stores.sqlite.connection import PRIVATE_FILE


def create_private(path: str) -> None:
    """Create an empty file that only its owner can read; -wal and -shm get the same mode."""
    folder = os.path.dirname(path)
    try:
        if folder and not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(path, flags, PRIVATE_FILE))
    except FileExistsError:
        # An empty file becomes a memory, a folder cannot; or another process created it first.
        if os.path.isdir(path):
            raise is_folder(path) from None
        if not exists(path):
            _make_private(path)
    except OSError as error:
        raise StoreReadOnly(
            f"Cannot create {path}: {error.strerror}.",
            code="cannot_create",
            subject=path,
            advice=advise("choose_file"),
        ) from error


def is_folder(path: str) -> StoreError:
    """Return the error for a folder in the place of the file."""
    return StoreError(
        f"{path} is a folder, not a file.",
        code="is_folder",
        subject=path,
        advice=advise("choose_file"),
    )


def _make_private(path: str) -> None:
    try:
        os.chmod(path, PRIVATE_FILE)
    except OSError:
        return  # another user's file that we can write: doctor warns about its mode
