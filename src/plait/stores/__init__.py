"""Storage engines, one folder each. `open_store` picks one by the form of the address.

Nothing above this folder knows SQL, files or indexes; `plait.protocols.Store` is the interface.
"""

import os
import stat
from typing import Literal

from plait.errors import UsageError, advise
from plait.protocols import Store

# When long keyword queries are planned: in large memories, always or never.
Planner = Literal["auto", "always", "never"]


def open_store(
    path: str,
    *,
    create: bool = True,
    timeout: float = 30.0,
    durability: str = "full",
    planner: Planner = "auto",
) -> Store:
    """Open the memory at this path (``:memory:`` for one that is never written to disk).

    Args:
        path: A file, or ``:memory:``.
        create: Create the file and its folder if they do not exist.
        timeout: Seconds to wait for other processes before giving up.
        durability: ``full`` (an acknowledged write survives a power cut) or ``normal``.
        planner: When long keyword queries are planned.

    Raises:
        UsageError: The address names an engine that plait does not have.
        StoreError: The file cannot be used.
    """
    if path.startswith(("postgres://", "postgresql://")):
        raise UsageError(
            "PostgreSQL memories are not supported yet.",
            code="unknown_engine",
            subject=path.partition(":")[0],
            advice=advise("choose_file"),
        )
    from plait.stores.sqlite.store import SQLiteStore

    return SQLiteStore(path, create=create, timeout=timeout, durability=durability, planner=planner)


def exists(path: str) -> bool:
    """Tell whether a memory may exist at this path; an empty file does not count.

    It does not open the file: a plain ``open`` and ``close`` would drop SQLite's locks.
    """
    try:
        status = os.stat(path)
    except PermissionError:
        return True  # Unknown; opening it will tell.
    except (OSError, ValueError):
        return False
    return bool(status.st_size) or not stat.S_ISREG(status.st_mode)


def backup(store: Store, target: str) -> None:
    """Write a consistent copy of a memory's file, safe under load.

    Raises:
        UsageError: The target exists, or the memory is not a file.
    """
    from plait.stores.sqlite.store import SQLiteStore

    if not isinstance(store, SQLiteStore):
        raise UsageError(
            "Only a memory in a file can be backed up.", code="no_file", advice=advise("export")
        )
    store.backup(target)
