"""Files that only their owner can read: read them, replace them whole, one writer at a time.

What is in them is not decided here: keys are in `plait.settings.secrets`, the project files that
the user trusts in `plait.settings.trust`.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from plait.errors import ConfigError, advise

# Dozens of keys need a few kilobytes.
MAX_PRIVATE_BYTES = 1_000_000
LOCK_PATIENCE_S = 10.0
LOCK_PAUSE_S = 0.02
PRIVATE_MODE = 0o600
# Windows has neither; there other users cannot open a user's folder.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# A pipe instead of a file must not make us wait.
NO_WAIT = getattr(os, "O_NONBLOCK", 0)


def is_private(status: os.stat_result) -> bool:
    """Return whether only its owner can read a file."""
    return sys.platform == "win32" or not stat.S_IMODE(status.st_mode) & 0o077


def read_private(path: str) -> bytes | None:
    """Read a file that only its owner can read; return ``None`` if there is no file.

    Raises:
        ConfigError: Others can read it, or it is no file.
    """
    try:
        if os.path.islink(path):
            raise ConfigError(
                f"{path} is a link. Replace it with the file itself.",
                code="not_a_file",
                subject=path,
            )
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | NO_FOLLOW | NO_WAIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise cannot("read", path, error) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path} is not a file. Remove it.", code="not_a_file", subject=path)
        if not is_private(status):
            mode = stat.S_IMODE(status.st_mode)
            raise ConfigError(
                f"Other users can read {path} (mode {mode:03o}).",
                code="not_private",
                subject=path,
                advice=advise("make_private", path=path),
            )
        return os.read(handle, MAX_PRIVATE_BYTES)
    finally:
        os.close(handle)


def write_aside(path: str, data: bytes) -> str:
    """Write a new private file in the folder of ``path``, which is made, and return its path."""
    import tempfile

    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # mkstemp makes the file 0600, so that other users can never read it.
        handle, aside = tempfile.mkstemp(prefix=".private-", dir=folder)
        try:
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            os.unlink(aside)
            raise
    except OSError as error:
        raise cannot("write", path, error) from error
    return aside


def replace_private(path: str, data: bytes) -> None:
    """Replace a file as a whole; the new one is private.

    Raises:
        ConfigError: The folder cannot be written.
    """
    aside = write_aside(path, data)
    try:
        os.replace(aside, path)
    except OSError as error:
        os.unlink(aside)
        raise cannot("write", path, error) from error


def cannot(act: str, path: str, error: OSError) -> ConfigError:
    """Return the error that a file cannot be read, written or locked."""
    return ConfigError(
        f"Cannot {act} {path}: {error.strerror}.", code=f"cannot_{act}", subject=path
    )


@contextmanager
def locked(folder: str, name: str) -> Iterator[None]:
    """Let one process write at a time what it has read before; ``name`` is that of the lock file.

    Raises:
        ConfigError: The folder cannot be written, or another process keeps the lock.
    """
    path = os.path.join(folder, name)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW | NO_WAIT, PRIVATE_MODE)
    except OSError as error:
        raise cannot("write", path, error) from error
    try:
        try:
            _wait_for(handle, path)
        except OSError as error:
            raise cannot("lock", path, error) from error
        yield
    finally:
        os.close(handle)  # also releases the lock


def _wait_for(handle: int, path: str) -> None:
    import time

    deadline = time.monotonic() + LOCK_PATIENCE_S
    while not _try_lock(handle):
        if time.monotonic() > deadline:
            raise ConfigError(
                f"Another process has locked {path} for {LOCK_PATIENCE_S:g} s. Try again later.",
                code="settings_locked",
                subject=path,
            )
        time.sleep(LOCK_PAUSE_S)


def _try_lock(handle: int) -> bool:
    try:
        if sys.platform == "win32":  # pragma: no cover
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the latter on Windows
        return False
    return True
