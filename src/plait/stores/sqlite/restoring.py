"""Replace a memory by a backup, so that a kill at any step leaves the old one or the new one whole.

The steps, under the write lock of the present memory and a lock of their own:

1. Copy the backup to a new file in a folder beside the memory; check, migrate and sync the copy.
2. Write down what is about to happen, in a file that exists only meanwhile (``-restoring``).
3. Give the present file a second name: under it, it will be kept. A rollback journal gets it too.
4. Rename the copy to the memory's name. This is the moment at which the memory is replaced.
5. Give the journal the kept file's name too: the two belong together.
6. Remove the note of step 2.

Whoever opens the memory and sees the note waits for it, or, if its writer was killed, undoes steps
1 to 3 or completes step 5 (`settle`). Processes that have the old file open notice step 4 before
their next act, see `plait.stores.sqlite.replaced`.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

import apsw

from plait.errors import (
    NotFound,
    StoreBusy,
    StoreError,
    UsageError,
    advise,
    lacks_descriptors,
    too_many_files,
)
from plait.stores import exists
from plait.stores.sqlite import journal, scratch
from plait.stores.sqlite.backup import (
    can_be_restored,
    copy_from,
    opened_to_read,
)
from plait.stores.sqlite.connection import (
    KEPT_ASIDE,
    PRIVATE_FILE,
    RESTORING,
    checkpoint,
    has_journal,
    translate,
)
from plait.stores.sqlite.journal import patiently
from plait.types.records import NamedTuple
from plait.types.reports import Restored

_PAUSE_S = 0.02


class _Note(NamedTuple):
    """What a restore is about to do: names of files in the memory's folder."""

    copy: str
    kept: str


def restore(path: str, source: str, *, timeout: float) -> Restored:
    """Replace the memory at a path by a backup, and keep the present one under another name.

    Raises:
        NotFound: There is no such backup.
        UsageError: The backup is the memory itself.
        StoreError: The backup is damaged or not a memory, or there is no room for it.
    """
    _check_system(path)
    _check_source(path, source)
    with _failures(path), scratch.beside(path) as folder:
        copy = os.path.join(folder, "memory.db")
        documents = copy_from(source, copy, timeout)
        kept, aside = _swap(path, copy, timeout)
    if kept is not None:
        _tidy(kept)
    undoable = kept is not None and can_be_restored(kept)
    return Restored(path, source, kept, aside, documents, undoable)


def adopt(path: str, *, timeout: float) -> Restored:
    """Accept the file at a path as it is: set a journal aside that belongs to another file.

    Raises:
        UsageError: There is no such journal.
    """
    _check_system(path)
    with _failures(path):
        aside = set_journal_aside(path, timeout)
    if aside is None:
        raise UsageError(
            f"Name the backup to restore: there is no journal of another file beside {path}.",
            code="no_backup",
            subject=path,
            advice=advise("give_backup"),
        )
    return Restored(path, None, journal=aside)


def undo(path: str, *, timeout: float) -> Restored:
    """Restore what the latest restore replaced; what it replaces now is kept in turn.

    Raises:
        NotFound: Nothing was replaced, or it is no longer there.
    """
    kept = _latest_kept(path)
    if kept is None:
        raise NotFound(
            f"No restore of {path} can be undone: there is no file {path}{KEPT_ASIDE}….",
            code="nothing_kept",
            subject=path,
        )
    restored = restore(path, kept, timeout=timeout)
    _remove(kept, kept + "-wal", kept + "-shm")
    return restored


def _latest_kept(path: str) -> str | None:
    others = (place for place in _all_kept(path) if not _are_same(place, path))
    day = len(path + KEPT_ASIDE + "20260101-000000")  # then a number, of which -9 comes before -10
    return max(others, key=lambda place: (place[:day], len(place), place), default=None)


def _all_kept(path: str) -> list[str]:
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        return []
    return [
        os.path.join(folder, entry)
        for entry in os.listdir(folder)
        if entry.startswith(name + KEPT_ASIDE)
        and not entry.endswith(("-wal", "-shm", "-journal", scratch.ENDING))
    ]


# -- the backup ----------------------------------------------------------------------------


def _check_system(path: str) -> None:
    try:
        import fcntl  # noqa: F401
    except ImportError as error:
        raise StoreError(
            f"On this system plait cannot replace {path}, because a file in use cannot be renamed. "
            f"Close every program that uses it, rename {path} and {path}-wal, and copy the backup "
            "into place.",
            code="cannot_replace",
            subject=path,
        ) from error


def _check_source(path: str, source: str) -> None:
    if not os.path.exists(source):
        raise NotFound(f"There is no file {source}.", code="no_backup", subject=source)
    if os.path.isdir(source):
        raise UsageError(
            f"{source} is a folder, not a file.",
            code="is_folder",
            subject=source,
            advice=advise("give_backup"),
        )
    if _are_same(path, source):
        raise UsageError(
            f"{source} is the memory itself. Name a backup of it.", code="same_file", subject=source
        )
    from plait.stores.sqlite.creating import make_folder

    make_folder(path)


# -- the swap ------------------------------------------------------------------------------


def _swap(path: str, copy: str, timeout: float) -> tuple[str | None, str | None]:
    """Put the copy in the place of the memory; return what the memory and a journal are now."""
    deadline = time.monotonic() + timeout
    with ExitStack() as stack:
        note = stack.enter_context(_locked(path, deadline))
        pair = journal.belongs(path) is not False
        if exists(path):
            stack.enter_context(_write_lock(path, deadline))
        kept = _free_name(path) if os.path.exists(path) else None
        folder = os.path.dirname(path)
        _write(note, _Note(os.path.relpath(copy, folder), os.path.basename(kept or "")))
        _sync_folder(path)
        if kept is not None:
            pair = _keep(path, kept) and pair
        rolled = _set_rollback_aside(path, kept)
        try:
            os.replace(copy, path)
        except OSError:  # such as a mount point
            if kept is not None:
                _remove(kept)
            if rolled is not None:
                os.replace(rolled, path + "-journal")
            _write(note, None)
            raise
        aside = _keep_journal(path, kept if pair else None) or rolled
        _sync_folder(path)
        _write(note, None)
    return kept, aside


def _set_rollback_aside(path: str, kept: str | None) -> str | None:
    """Rename a rollback journal before the copy is there: SQLite would apply it to the copy.

    It is of a file that is gone or cannot be opened: the write lock has applied any other.
    """
    if not os.path.exists(path + "-journal"):
        return None
    aside = (kept or _free_name(path)) + "-journal"
    os.replace(path + "-journal", aside)
    return aside


def _keep(path: str, kept: str) -> bool:
    """Give the present file a second name; tell whether its journal still belongs to it."""
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        with opened_to_read(path) as connection:
            connection.execute("VACUUM INTO ?", (kept,))
        os.chmod(kept, PRIVATE_FILE)
        return False
    return True


def _keep_journal(path: str, kept: str | None) -> str | None:
    """Rename the journal of a replaced file, beside the new one it would be replayed.

    It gets the name of the kept file that it belongs to, or else one of its own, which is returned.
    """
    aside = None
    if kept is not None:
        # subtle: the index of the journal too. Who still has the old file open agrees through it
        # with whoever opens the kept one; two indexes of one journal would contradict each other.
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.replace(path + suffix, kept + suffix)
    elif has_journal(path):
        aside = _free_name(path + "-wal")
        os.replace(path + "-wal", aside)
    # What is left is empty, or an index that SQLite makes anew.
    _remove(path + "-wal", path + "-shm")
    return aside


@contextmanager
def _write_lock(path: str, deadline: float) -> Iterator[None]:
    """Keep others from writing to a memory, if it can be opened at all."""
    journal.check_beside(os.path.realpath(path))
    connection = None
    try:
        if journal.belongs(path) is not False:
            connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            patiently(partial(connection.execute, "BEGIN IMMEDIATE"), deadline - time.monotonic())
    except (apsw.NotADBError, apsw.CorruptError, apsw.CantOpenError, apsw.ReadOnlyError):
        pass  # nobody can write to it
    try:
        yield
    finally:
        if connection is not None:
            connection.close(force=True)


def remove_kept_journal(path: str, file: tuple[int, int]) -> None:
    """Let SQLite remove the empty journal of a kept file, which is given by device and inode."""
    for kept in _all_kept(path):
        with suppress(OSError):
            status = os.stat(kept)
            if (status.st_dev, status.st_ino) == file:
                _tidy(kept)


def _tidy(kept: str) -> None:
    """Move the kept file's journal into it, if no process reads it any more."""
    with suppress(apsw.Error, StoreError):
        journal.check_beside(os.path.realpath(kept))
        connection = apsw.Connection(kept, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            checkpoint(connection, "TRUNCATE")
        finally:
            connection.close(force=True)


def _free_name(path: str) -> str:
    """Return a dated name that no file has."""
    name = base = path + KEPT_ASIDE + time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    number = 1
    while any(os.path.lexists(name + suffix) for suffix in ("", "-wal", "-journal")):
        number += 1
        name = f"{base}-{number}"
    return name


# -- after a kill, and journals of other files ---------------------------------------------


def settle(path: str, timeout: float) -> None:
    """Wait for a restore; undo or complete one that was killed.

    Raises:
        StoreBusy: The restore takes too long.
    """
    with _locked(path, time.monotonic() + timeout):
        return


class Former(NamedTuple):
    """The journal of the file that was here before: device and inode, and our last commit in it."""

    place: tuple[int, int]
    number: str


def set_journal_aside(
    path: str, timeout: float, vfs: str | None = None, former: Former | None = None
) -> str | None:
    """Rename a journal that belongs to another file than the one beside it; return its new name."""
    if not _is_foreign(path, vfs, former):
        return None
    with _locked(path, time.monotonic() + timeout):
        # Another process may have done it: the journal is now the file's own.
        if not _is_foreign(path, vfs, former):
            return None
        name = _free_name(path + "-wal")
        os.replace(path + "-wal", name)
        _remove(path + "-shm")
        return name


def _is_foreign(path: str, vfs: str | None, former: Former | None) -> bool:
    """Tell whether the journal beside a file is another file's.

    The former one is if it is empty, because another process may be about to write there, and if it
    has our commit, although an older copy of the file may fit it. What others have written there
    since may be the new file's.
    """
    fits = journal.belongs(path, vfs)
    if fits is not False and former is not None and _place(path + "-wal") == former.place:
        return fits is None or journal.has_commit(path, former.number, vfs)
    return fits is False


def _place(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _locked(path: str, deadline: float) -> Iterator[int]:
    """Keep others from replacing the file; yield a handle of the note of what is being done."""
    place = path + RESTORING
    while True:
        handle = _lock(place)
        if handle is not None:
            break
        if time.monotonic() > deadline:
            raise StoreBusy(
                f"Another process is replacing {path}. Try again in a moment.", subject=path
            )
        time.sleep(_PAUSE_S)
    try:
        _recover(path, _read(handle))
        yield handle
        _remove(place)
    finally:
        os.close(handle)


def _lock(place: str) -> int | None:
    """Create and lock a file; ``None`` while another process has it locked."""
    import fcntl

    handle = os.open(place, os.O_CREAT | os.O_RDWR, PRIVATE_FILE)
    is_ours = False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = os.path.samestat(os.fstat(handle), os.stat(place))
    except (BlockingIOError, FileNotFoundError):  # locked, or its owner has removed it meanwhile
        pass
    finally:
        if not is_ours:
            os.close(handle)
    return handle if is_ours else None


def _recover(path: str, note: _Note | None) -> None:
    """Undo or complete what a killed restore left."""
    if note is None:
        return
    folder = os.path.dirname(path)
    copy = os.path.join(folder, note.copy)
    kept = os.path.join(folder, note.kept) if note.kept else None
    if kept is not None and _are_same(kept, path):
        _remove(kept)  # not replaced yet: the second name must not stay, it follows every write
        with suppress(FileNotFoundError):
            os.replace(kept + "-journal", path + "-journal")
    if os.path.exists(copy):
        scratch.remove_abandoned(folder)
    elif journal.belongs(path) is False:
        own = kept is not None and not os.path.exists(kept + "-wal")
        _keep_journal(path, kept if own else None)


def _read(handle: int) -> _Note | None:
    try:
        return _Note(*json.loads(os.pread(handle, 4096, 0)))
    except (ValueError, TypeError):  # empty, or killed while it was being written
        return None


def _write(handle: int, note: _Note | None) -> None:
    os.ftruncate(handle, 0)
    if note is not None:
        os.pwrite(handle, json.dumps(note).encode(), 0)
    os.fsync(handle)


# -- files ---------------------------------------------------------------------------------


@contextmanager
def _failures(path: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error
    except OSError as error:
        if lacks_descriptors(error):
            raise too_many_files(path) from error
        raise StoreError(
            f"Cannot restore {path}: {error.strerror or error}. Check the permissions of its "
            "folder.",
            code="restore_failed",
            subject=path,
        ) from error


def _are_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except FileNotFoundError:
        return False


def _sync_folder(path: str) -> None:
    """Make the names in a file's folder durable."""
    handle = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(*paths: str) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)
