"""Storage engines, one folder each. `open_store` picks one by the form of the address.

Nothing above this folder knows SQL, files or indexes; `plait.protocols.Store` is the interface.
"""

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NoReturn

from plait.errors import StoreError, StoreReadOnly, UsageError, advise
from plait.protocols import Store
from plait.types.ids import is_address

if TYPE_CHECKING:
    from plait.types.reports import Finding, Restored, Salvaged

# When long keyword queries are planned: in large memories, always or never.
Planner = Literal["auto", "always", "never"]


def open_store(
    path: str,
    *,
    create: bool = True,
    timeout: float = 30.0,
    durability: str = "full",
    planner: Planner = "auto",
    read_only: bool = False,
    brief: bool = False,
) -> Store:
    """Open the memory at this path (``:memory:`` for one that is never written to disk).

    Args:
        path: A file, the address of a database, or ``:memory:``.
        create: Create the memory if it does not exist.
        timeout: Seconds to wait for other processes before giving up.
        durability: ``full`` (an acknowledged write survives a power cut) or ``normal``.
        planner: When long keyword queries are planned.
        read_only: Refuse every write, and open a file that cannot be written.
        brief: Keep nothing for a second search after the first: the process will end before it.

    Raises:
        UsageError: The address cannot be read, or plait lacks what it needs for that engine.
        StoreError: The memory cannot be used.
    """
    if is_address(path):
        from plait.stores.databases import open_database

        return open_database(
            path, create=create, timeout=timeout, durability=durability, read_only=read_only
        )
    refuse_unnameable(path)
    from plait.stores.sqlite.store import SQLiteStore

    return SQLiteStore(
        path,
        create=create,
        timeout=timeout,
        durability=durability,
        planner=planner,
        read_only=read_only,
        brief=brief,
    )


def open_if_there(
    path: str, *, create: bool, timeout: float, durability: str, read_only: bool, brief: bool
) -> Store | None:
    """Open the memory at this path; ``None`` if there is none and it is not to be created.

    Raises:
        UsageError: As for `open_store`.
        StoreError: The memory cannot be used.
    """
    if not (create or path == ":memory:" or exists(path)):
        return None
    try:
        return open_store(
            path,
            create=create,
            timeout=timeout,
            durability=durability,
            read_only=read_only,
            brief=brief,
        )
    except StoreError as error:
        # Only its server knows whether there is such a memory; or the file was just deleted.
        if create or error.code != "no_memory":
            raise
        return None


def refuse_unnameable(path: str) -> None:
    """Refuse a path that is not UTF-8, or lies in such a folder: SQLite opens no other.

    Raises:
        UsageError: The path is such a one.
    """
    place = path if path == ":memory:" else os.path.abspath(path)
    try:
        place.encode()
    except UnicodeEncodeError:
        name = place.encode("utf-8", "backslashreplace").decode()
        raise UsageError(
            f"SQLite cannot open {name}: the name is not UTF-8.",
            code="path_not_utf8",
            subject=name,
            advice=advise("choose_file"),
        ) from None


def _require_file(path: str, verb: str) -> None:
    """Refuse an address, and a path that SQLite cannot open."""
    if is_address(path):
        from plait.stores.databases import refuse_without_file

        refuse_without_file(path, verb)
    refuse_unnameable(path)


def exists(path: str) -> bool:
    """Tell whether a memory may exist at this path; an empty file does not count.

    It does not open the file: a plain ``open`` and ``close`` would drop SQLite's locks.
    """
    if is_address(path):
        return True  # Unknown; opening it will tell.
    try:
        status = os.stat(path)
    except PermissionError:
        return True  # Unknown; opening it will tell.
    except (OSError, ValueError):
        return False
    return bool(status.st_size) or not stat.S_ISREG(status.st_mode)


def refuse_to_write(path: str) -> NoReturn:
    """Refuse a write to a memory that is open for reading only.

    Raises:
        StoreReadOnly: Always; the code is "read_only".
    """
    raise StoreReadOnly(
        f"{path} is open for reading only; nothing was changed.",
        code="read_only",
        subject=path,
        advice=advise("allow_writing"),
    )


def make_folders(path: str) -> None:
    """Make the folders of a memory that is in its usual place, private to their owner."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        with suppress(OSError):  # creating the file tells what is wrong
            os.makedirs(folder, mode=0o700, exist_ok=True)


def check_file(path: str, *, fix: bool = False) -> "list[Finding]":
    """Check a memory that is too damaged to be opened as a whole; with ``fix``, repair it.

    Raises:
        StoreDamaged: Not even its file can be opened.
    """
    store = open_store(path, create=False)
    try:
        return store.check(fix=fix)
    finally:
        store.close()


def salvage(path: str, target: str) -> "Salvaged":
    """Copy every row of a damaged memory that can still be read into a new one.

    The damaged file is not changed. Ids, projects, trust, topics, trash, relations and counts of
    use are kept; vectors are made by the next reindex.

    Raises:
        NotFound: There is no file at ``path``.
        UsageError: ``target`` exists.
        StoreError: The file has nothing of a memory, or cannot be read or written.
    """
    for place in (path, target):
        _require_file(place, "salvage")
    from plait.stores.sqlite.salvage import salvage as copy_readable_rows

    return copy_readable_rows(path, target)


def backup(store: Store, target: str) -> None:
    """Write a consistent copy of a memory's file, safe under load.

    Raises:
        UsageError: The target exists, or the memory is not a file.
    """
    from plait.stores.sqlite.store import SQLiteStore

    _require_file(getattr(store, "path", ""), "back up")
    if not isinstance(store, SQLiteStore):
        raise UsageError(
            "Only a memory in a file can be backed up.", code="no_file", advice=advise("export")
        )
    _require_file(target, "back up")
    store.backup(target)


def restore(
    path: str, source: str | None, *, undo: bool = False, timeout: float = 30.0
) -> "Restored":
    """Replace the memory at a path by a backup, and keep the present one under another name.

    Args:
        path: The memory; it need not exist, and it may be damaged.
        source: The backup. Without one, a journal that belongs to another file is set aside.
        undo: Restore what the latest restore replaced.
        timeout: Seconds to wait for other processes before giving up.

    Raises:
        NotFound: There is no such backup, or nothing to undo.
        UsageError: There is neither a backup nor a journal to set aside.
        StoreError: The backup is damaged or not a memory, or the files cannot be written.
    """
    if path == ":memory:":
        raise UsageError("Only a memory in a file can be restored.", code="no_file")
    for place in (path, source or path):
        _require_file(place, "restore")
    from plait.stores.sqlite import restoring

    real = os.path.realpath(path)
    if undo and source is not None:
        raise UsageError(
            "Undo takes no backup: it brings back what the last restore replaced.",
            code="undo_takes_no_backup",
        )
    if undo:
        return restoring.undo(real, timeout=timeout)
    if source is None:
        return restoring.adopt(real, timeout=timeout)
    return restoring.restore(real, os.path.abspath(source), timeout=timeout)
