"""Where a memory lives. `open_store` picks the engine by the form of its address."""

import os
import stat

from plait.errors import UsageError
from plait.protocols import Store


def open_store(
    path: str, *, create: bool = True, timeout: float = 30.0, durability: str = "full"
) -> Store:
    """Open the memory at this path (``:memory:`` for one that is never written to disk).

    Args:
        path: A file, or ``:memory:``.
        create: Make the file and its folder when they do not exist yet.
        timeout: Seconds to wait for other processes before giving up.
        durability: ``full`` (an acknowledged write survives a power cut) or ``normal``.

    Raises:
        UsageError: The address names an engine that plait does not have.
        StoreError: The file cannot be used.
    """
    if path.startswith(("postgres://", "postgresql://")):
        raise UsageError(
            "PostgreSQL memories are not supported yet. Give a file path, as in: --db memory.db"
        )
    from plait.stores.sqlite.store import SQLiteStore

    return SQLiteStore(path, create=create, timeout=timeout, durability=durability)


def exists(path: str) -> bool:
    """Whether a memory may lie at this path; an empty file is none yet.

    It looks without opening: a plain ``open`` and ``close`` would drop SQLite's locks.
    """
    try:
        found = os.stat(path)
    except PermissionError:
        return True  # What may not be looked at is not known to be absent: opening it will tell.
    except (OSError, ValueError):
        return False
    return bool(found.st_size) or not stat.S_ISREG(found.st_mode)
