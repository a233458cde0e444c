"""Why a file or folder is not read: the reasons that a report shows.

Looks at statuses and errors only. Opens no files.
"""

import errno
import os
import stat

from plait.errors import SourceError, advise
from plait.types.records import NamedTuple

NAME_NOT_UTF8 = "its name is not valid UTF-8; rename it"
LINK_TO_FOLDER = "a link to a folder; links to folders are not followed"
LINK_LEADS_OUT = "a link to a place outside the folder"
LINK_TO_IGNORED = "a link to a hidden or ignored file"
LINK_DANGLES = "a dangling link: its target does not exist"
LINK_LOOP = "symbolic link loop"
BINARY = "binary, not text"
OVER_LIMIT = "too large"
WRONG_SIZE = "its size does not match its content, as in a system file"
CHANGED_DURING_READ = "changed while it was being read; ingest it again later"


class Refusal(NamedTuple):
    """Why a file must not be read; ``code`` is that of the error."""

    code: str
    reason: str


def refusal_of(status: os.stat_result, max_bytes: int) -> Refusal | None:
    """Return why a file with this status must not be read, or ``None`` if it may."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        if status.st_size <= max_bytes:
            return None
        sizes = f"{amount(status.st_size)}, limit {amount(max_bytes)}"
        return Refusal("too_large", f"{OVER_LIMIT}: {sizes}")
    if stat.S_ISFIFO(mode):
        reason = "a pipe, not a file"
    elif stat.S_ISSOCK(mode):
        reason = "a socket, not a file"
    elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        reason = "a device, not a file"
    else:
        reason = "not an ordinary file"
    return Refusal("not_a_file", reason)


def unread(path: str, reason: str) -> SourceError:
    """Return the error that a file cannot be read, for one that was named."""
    too_large = reason.startswith(OVER_LIMIT)
    return SourceError(
        f"Cannot read {path}: {reason}.",
        code="too_large" if too_large else "unreadable_source",
        subject=path,
        advice=advise("raise_limit") if too_large else None,
    )


def error_reason(error: OSError | RuntimeError) -> str:
    """Return why a file or folder that was listed could not be opened."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "disappeared after the folder was listed"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "replaced by a link after the folder was listed"
    return f"unreadable: {getattr(error, 'strerror', None) or error}"


def link_error_reason(error: OSError | RuntimeError) -> str:
    """Return why a link could not be followed."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return LINK_DANGLES
    if isinstance(error, RuntimeError) or error.errno == errno.ELOOP:
        return LINK_LOOP
    return error_reason(error)


def amount(size: int) -> str:
    """Return a size like ``12.3 MB``, rounded up: a size over the limit never looks equal to it.

    >>> amount(1024), amount(1025)
    ('1 KB', '1.1 KB')
    """
    unit, name = 1, "bytes"
    for name in ("bytes", "KB", "MB", "GB", "TB"):
        if size < unit * 1024 or name == "TB":
            break
        unit *= 1024
    return f"{-(-size * 10 // unit) / 10:g} {name}"
