"""Create the file of a memory, private to its owner. Loaded only if there is no file yet."""

import os
from contextlib import suppress

from plait.errors import StoreError, StoreReadOnly, advise
from plait.stores import exists
from plait.stores.sqlite.connection import PRIVATE_FILE


def create_private(path: str) -> None:
    """Create an empty file that only its owner can read; -wal and -shm get the same mode."""
    try:
        make_folder(path)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(path, flags, PRIVATE_FILE))
    except FileExistsError:
        # An empty file becomes a memory, a folder cannot; or another process created it first.
        if os.path.isdir(path):
            raise is_folder(path) from None
        if os.path.islink(path) and not os.path.exists(path):
            raise _leads_nowhere(path) from None
        if not exists(path):
            _make_private(path)
    except OSError as error:
        raise StoreReadOnly(
            f"Cannot create {path}: {error.strerror}.",
            code="cannot_create",
            subject=path,
            advice=advise("choose_file"),
        ) from error


def make_folder(path: str) -> None:
    """Make the folder of a file, but not the one above it: that is more likely a typing error.

    Raises:
        StoreReadOnly: The folder above it does not exist.
    """
    folder = os.path.dirname(path)
    if not folder or os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    if above and not os.path.isdir(above):
        raise StoreReadOnly(
            f"Cannot create {path}: there is no folder {above}.",
            code="no_folder",
            subject=above,
            advice=advise("make_folder", folder=folder),
        )
    with suppress(FileExistsError):  # another process was faster
        os.mkdir(folder, 0o700)


def is_folder(path: str) -> StoreError:
    """Return the error for a folder in the place of the file."""
    return StoreError(
        f"{path} is a folder, not a file.",
        code="is_folder",
        subject=path,
        advice=advise("choose_file"),
    )


def _leads_nowhere(path: str) -> StoreError:
    # A link out of somebody else's folder must not choose where a file is made.
    return StoreReadOnly(
        f"{path} is a link to {os.readlink(path)}, which does not exist, and plait makes no memory "
        "through a link. Name that file itself, or make an empty one there first.",
        code="cannot_create",
        subject=path,
    )


def _make_private(path: str) -> None:
    try:
        os.chmod(path, PRIVATE_FILE)
    except OSError:
        return  # another user's file that we can write: doctor warns about its mode
