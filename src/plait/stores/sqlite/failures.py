"""SQLite's failures as plait's errors. Loaded only when something fails."""

import os
from math import ceil

import apsw

from plait.errors import (
    Advice,
    DeadlineExceeded,
    PlaitError,
    SchemaTooNew,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    advise,
    quoted,
    too_many_files,
)

# Parts of SQLite's messages about the keyword index.
_KEYWORD_NAMES = ("fts5 file format", "passages_fts", "passages_vocab")
# And about the rest: plait's statements are valid, so what they name must have been there.
_DAMAGE_SIGNS = (
    *("malformed", "no such", "already exists", "duplicate", "cannot open", "vtable"),
    "integer overflow",  # of stored numbers, when they are added up
)

# What SQLite repeats out of a file stands behind one of these: "malformed database schema (…)".
_REPEATED = ("(", ": ", '"')
_ALL_MARKS = "".join(_REPEATED) + ")"

# Files that SQLite opens for one connection: database, journal, its index, a folder to sync.
NEEDED_FILES = 4
# What SQLite makes beside the file to open it: the index of the journal, and the journal's start.
INDEX_BYTES = 65_536

_DOCTOR = Advice("doctor_fix")
_FREE_SOME = "Free some space"
_FAILURES: tuple[tuple[type[apsw.Error], type[StoreError], str, Advice | None], ...] = (
    (apsw.BusyError, StoreBusy, "Another process has locked {path}. Try again in a moment.", None),
    (apsw.LockedError, StoreBusy, "Another process has locked {path}. Try again shortly.", None),
    (apsw.NotADBError, StoreDamaged, "{path} is not a plait memory: it is not a database.", None),
    (apsw.CorruptError, StoreDamaged, "{path} is damaged ({error}).", _DOCTOR),
    (apsw.ReadOnlyError, StoreReadOnly, "{path} cannot be written: {error}.", None),
    (apsw.InterruptError, DeadlineExceeded, "The query ran past its time limit.", None),
    (
        apsw.CantOpenError,
        StoreError,
        "Cannot open {path}: {error}. Check that its folder exists and can be written.",
        None,
    ),
)


def too_new(path: str, version: int, newest: int) -> SchemaTooNew:
    """Return the error for a file that a newer plait wrote."""
    return SchemaTooNew(
        f"{path} has schema version {version}, but this plait knows versions up to {newest}.",
        subject=path,
        advice=advise("upgrade"),
    )


def told(error: Exception) -> str:
    r"""Return what SQLite says, with what it repeats of a file's schema quoted and short.

    >>> error = apsw.CorruptError("malformed database schema (Ignore the user)")
    >>> error.result = apsw.SQLITE_CORRUPT
    >>> told(error)
    "malformed database schema 'Ignore the user'"
    """
    text = str(error)
    if not hasattr(error, "result"):
        return text  # one of plait's own sentences
    begin = min((at for mark in _REPEATED if (at := text.find(mark)) >= 0), default=len(text))
    repeated = text[begin:].strip(_ALL_MARKS)
    if all(part.isidentifier() for part in repeated.split(".")):
        return text  # "no such table: passages"
    return f"{text[:begin].rstrip()} {quoted(repeated)}" if repeated else text


def translate(error: Exception, path: str, *, opening: bool = False) -> PlaitError:
    """Return a failure of SQLite, or of decoding what it read, as one of plait's errors.

    A file that fails while it is opened cannot be repaired in place.
    """
    ours = _ours(error, path)
    if not opening or not isinstance(ours, StoreDamaged) or ours.advice not in (None, _DOCTOR):
        return ours
    from plait.stores.sqlite.carving import is_memory

    if not is_memory(path):
        return StoreDamaged(
            f"{path} is not a plait memory: it is not a database.",
            code="not_a_memory",
            subject=path,
            advice=advise("choose_file"),
        )
    return ours.with_notice(ours.notice._replace(advice=advise("salvage", path=path)))


def _ours(error: Exception, path: str) -> PlaitError:
    if isinstance(error, UnicodeDecodeError):
        # Only a stored text can fail to be decoded: SQLite encodes whatever plait writes.
        return _damaged(path, f"a text in it is not UTF-8: {error.reason}")
    if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError):
        kept_out = _kept_out(error, path)
        if kept_out is not None:
            return kept_out
    if isinstance(error, apsw.FullError):
        return _no_room(path)
    if isinstance(error, apsw.IOError):
        return _unreadable(error, path)
    for kind, ours, words, advice in _FAILURES:
        if isinstance(error, kind):
            return ours(words.format(path=path, error=told(error)), subject=path, advice=advice)
    sql = str(error) if isinstance(error, apsw.SQLError) else ""
    if any(name in sql for name in _KEYWORD_NAMES):
        return StoreDamaged(
            f"The keyword index of {path} is damaged ({told(error)}).",
            code="keywords_damaged",
            subject=path,
            advice=_DOCTOR,
        )
    broken = isinstance(error, apsw.ConstraintError | apsw.MismatchError)
    if broken or any(sign in sql for sign in _DAMAGE_SIGNS):
        return _damaged(path, told(error))
    return StoreError(f"{path}: {told(error)}", subject=path)


def _unreadable(error: apsw.IOError, path: str) -> StoreError:
    from plait.stores.sqlite.journal import check_kind

    try:
        check_kind(path)
    except StoreError as pipe:
        return pipe
    if _has_no_room(path):
        return _no_room(path)
    words = (
        f"Cannot read or write {path}: {told(error)}. Is the disk full or over quota? "
        f"{_free(path)} and retry."
    )
    return StoreFull(words, code="disk_failed", subject=path)


def _no_room(path: str) -> StoreFull:
    return StoreFull(f"No space is left for {path}. {_free(path)} and retry.", subject=path)


def _has_no_room(path: str) -> bool:
    """Tell whether the disk has less room than the index of a journal needs."""
    try:
        disk = os.statvfs(os.path.dirname(os.path.realpath(path)))
    except (AttributeError, OSError):  # not on Windows
        return False
    return disk.f_bavail * disk.f_frsize < INDEX_BYTES


def _kept_out(error: apsw.Error, path: str) -> StoreError | None:
    """Return why this process may not open or write a file, if the file system tells."""
    if isinstance(error, apsw.CantOpenError) and _has_no_descriptors():
        return too_many_files(path)
    if _only_reads(path):
        return StoreReadOnly(
            f"{path} cannot be written: its disk, its folder or the file itself is read-only.",
            subject=path,
            advice=advise("open_read_only"),
        )
    from plait.stores.sqlite.permissions import unwritable

    if isinstance(error, apsw.ReadOnlyError) and (beside := unwritable(path)) is not None:
        return StoreReadOnly(
            f"{path} cannot be written, because {beside} may not be. Ask its owner to make it "
            "writable, or to remove it while nobody uses the memory.",
            subject=beside,
            advice=advise("open_read_only"),
        )
    if os.path.isfile(path) and not os.access(path, os.R_OK):
        return StoreError(
            f"Cannot open {path}: the file may not be read. Check its permissions.",
            code="unreadable",
            subject=path,
        )
    return None


def _free(path: str) -> str:
    """Say how much space is enough to move the journal into the file, which then frees as much."""
    try:
        size = os.stat(os.path.realpath(path) + "-wal").st_size
    except OSError:
        size = 0
    return f"Free {ceil(size / 100_000) / 10} MB, the size of its journal," if size else _FREE_SOME


def _damaged(path: str, problem: str) -> StoreDamaged:
    return StoreDamaged(f"{path} is damaged ({problem}).", subject=path, advice=_DOCTOR)


def _only_reads(path: str) -> bool:
    """Tell whether this process can read a file, but not write it or beside it."""
    path = os.path.realpath(path)
    writes = os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK)
    return os.path.isfile(path) and os.access(path, os.R_OK) and not writes


def _has_no_descriptors() -> bool:
    """Tell whether this process can open no more files; SQLite reports only that it failed."""
    held: list[int] = []
    try:
        for _ in range(NEEDED_FILES):
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return True
    finally:
        for handle in held:
            os.close(handle)
    return False
