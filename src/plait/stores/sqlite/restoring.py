"""Replace a memory by a backup, so that a kill at any step leaves the old one or the new one whole.

The steps, under the write lock of the present memory and a lock of their own:

1. Copy the backup to a new file beside the memory; check, migrate and sync the copy.
2. Write down what is about to happen, in a file that exists only meanwhile (``-restoring``).
3. Give the present file a second name: under it, it will be kept.
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
from typing import NamedTuple
from urllib.parse import quote

import apsw

from plait.errors import (
    NO_DESCRIPTORS,
    NotFound,
    SchemaTooNew,
    StoreBusy,
    StoreDamaged,
    StoreError,
    UsageError,
    advise,
    too_many_files,
)
from plait.stores import exists
from plait.stores.sqlite import journal
from plait.stores.sqlite.connection import (
    APPLICATION_ID,
    PRIVATE_FILE,
    RESTORING,
    SCHEMA_VERSION,
    Connections,
    WriteLock,
    has_journal,
    translate,
    version_of,
)
from plait.types import new_id
from plait.types.reports import Restored

KEPT_ASIDE = ".kept-"  # between the name of a memory and the time at which it was replaced
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
    _check_source(path, source)
    copy = f"{path}.{new_id()}.partial"
    with _failures(path):
        try:
            documents = _copy(source, copy, timeout)
            kept, aside = _swap(path, copy, timeout)
        finally:
            _remove(copy, copy + "-wal", copy + "-shm")
    if kept is not None:
        _tidy(kept)
    return Restored(path, source, kept, aside, documents)


def adopt(path: str, *, timeout: float) -> Restored:
    """Accept the file at a path as it is: set a journal aside that belongs to another file.

    Raises:
        UsageError: There is no such journal.
    """
    with _failures(path):
        aside = set_journal_aside(path, timeout)
    if aside is None:
        raise UsageError(
            "Name the backup to restore.", code="no_backup", advice=advise("give_backup")
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
    folder, name = os.path.split(path)
    kept = [
        entry
        for entry in os.listdir(folder)
        if entry.startswith(name + KEPT_ASIDE) and not entry.endswith(("-wal", "-shm", ".partial"))
    ]
    return os.path.join(folder, max(kept)) if kept else None


# -- the backup ----------------------------------------------------------------------------


def _check_source(path: str, source: str) -> None:
    if not os.path.exists(source):
        raise NotFound(f"There is no file {source}.", code="no_backup", subject=source)
    if os.path.isdir(source):
        raise UsageError(f"{source} is a folder, not a file.", code="is_folder", subject=source)
    if os.path.exists(path) and os.path.samefile(path, source):
        raise UsageError(
            f"{source} is the memory itself. Name a backup of it.", code="same_file", subject=source
        )
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)


def _copy(source: str, copy: str, timeout: float) -> int:
    """Check a backup and copy it; return how many documents it has."""
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE_FILE))
    with _opened_to_read(source) as backup:
        try:
            _check(backup, source)
        except apsw.NotADBError as error:
            raise _not_a_memory(source) from error
        except apsw.CantOpenError:
            raise
        except apsw.Error as error:
            raise _damaged(source, str(error)) from error
        backup.execute("VACUUM INTO ?", (copy,))
    # Opening migrates it. A commit gives it a number of its own, which no journal continues.
    connections = Connections(copy, create=False, timeout=timeout)
    try:
        with WriteLock(connections) as connection:
            connection.execute("UPDATE meta SET value = value")
        documents = int(connection.execute("SELECT count(*) FROM documents").get)
    finally:
        connections.close()  # this syncs it
    return documents


@contextmanager
def _opened_to_read(source: str) -> Iterator[apsw.Connection]:
    """Open a backup without writing beside it, unless it has a journal of its own."""
    if journal.belongs(source) is False:
        raise journal.foreign_journal(source)
    mode = "ro" if has_journal(source) else "ro&immutable=1"
    address = f"file:{quote(source)}?mode={mode}"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(address, flags=flags)
    try:
        yield connection
    finally:
        connection.close(force=True)


def _check(backup: apsw.Connection, source: str) -> None:
    version = version_of(backup)
    if not version or backup.execute("PRAGMA application_id").get != APPLICATION_ID:
        raise _not_a_memory(source)
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"{source} has schema version {version}, but this plait knows versions up to "
            f"{SCHEMA_VERSION}.",
            subject=source,
            advice=advise("upgrade"),
        )
    for (answer,) in backup.execute("PRAGMA integrity_check"):
        # A damaged keyword index is rebuilt when the memory is opened or repaired.
        if answer != "ok" and "fts5" not in str(answer).lower():
            raise _damaged(source, str(answer))


def _not_a_memory(source: str) -> StoreDamaged:
    return StoreDamaged(f"{source} is not a plait memory.", code="not_a_memory", subject=source)


def _damaged(source: str, reason: str) -> StoreDamaged:
    return StoreDamaged(
        f"The backup {source} is damaged ({reason}). Nothing was replaced.",
        code="backup_damaged",
        subject=source,
    )


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
        _write(note, _Note(os.path.basename(copy), os.path.basename(kept or "")))
        _sync_folder(path)
        if kept is not None:
            pair = _keep(path, kept) and pair
        os.replace(copy, path)
        aside = _keep_journal(path, kept if pair else None)
        _sync_folder(path)
        _write(note, None)
    return kept, aside


def _keep(path: str, kept: str) -> bool:
    """Give the present file a second name; tell whether its journal still belongs to it."""
    try:
        os.link(path, kept)
    except OSError:  # a file system without hard links
        with _opened_to_read(path) as connection:
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
    connection = None
    try:
        if journal.belongs(path) is not False:
            connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            _begin(connection, path, deadline)
    except (apsw.NotADBError, apsw.CorruptError, apsw.CantOpenError, apsw.ReadOnlyError):
        pass  # nobody can write to it
    try:
        yield
    finally:
        if connection is not None:
            connection.close(force=True)


def _begin(connection: apsw.Connection, path: str, deadline: float) -> None:
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError as error:
            if time.monotonic() > deadline:
                raise translate(error, path) from error
            time.sleep(_PAUSE_S)
        else:
            return


def _tidy(kept: str) -> None:
    """Move the kept file's journal into it, if no process reads it any more."""
    with suppress(apsw.Error):
        connection = apsw.Connection(kept, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.close(force=True)


def _free_name(path: str) -> str:
    """Return a dated name that no file has."""
    name = base = path + KEPT_ASIDE + time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    number = 1
    while any(os.path.lexists(name + suffix) for suffix in ("", "-wal")):
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


def set_journal_aside(path: str, timeout: float, vfs: str | None = None) -> str | None:
    """Rename a journal that belongs to another file than the one beside it; return its new name."""
    if journal.belongs(path, vfs) is not False:
        return None
    with _locked(path, time.monotonic() + timeout):
        # Another process may have done it: the journal is now the file's own.
        if journal.belongs(path, vfs) is not False:
            return None
        name = _free_name(path + "-wal")
        os.replace(path + "-wal", name)
        _remove(path + "-shm")
        return name


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
    handle = os.open(place, os.O_CREAT | os.O_RDWR, PRIVATE_FILE)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(place)):
            return handle
    except ImportError:  # no such locks on Windows
        return handle
    except OSError:  # locked, or its owner has removed it meanwhile
        pass
    os.close(handle)
    return None


def _recover(path: str, note: _Note | None) -> None:
    """Undo or complete what a killed restore left."""
    if note is None:
        return
    folder = os.path.dirname(path)
    copy = os.path.join(folder, note.copy)
    kept = os.path.join(folder, note.kept) if note.kept else None
    if os.path.exists(copy):
        # Not replaced yet: the second name must not stay, it would follow every write.
        if kept is not None and os.path.exists(kept) and os.path.samefile(kept, path):
            _remove(kept)
        _remove(copy, copy + "-wal", copy + "-shm")
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
        if error.errno in NO_DESCRIPTORS:
            raise too_many_files(path) from error
        raise StoreError(
            f"Cannot restore {path}: {error.strerror or error}.",
            code="restore_failed",
            subject=path,
        ) from error


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
