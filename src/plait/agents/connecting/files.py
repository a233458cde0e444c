"""Read and replace the files of agents, with a backup; one writer of plait at a time.

Links stay links, a file keeps its mode, and a reader sees the old file or the new one.
"""

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from errno import EACCES
from hashlib import sha256
from itertools import pairwise
from typing import Any

from plait.agents.connecting.looking import ReadFile
from plait.agents.connecting.planning import FileChange, FileRecord
from plait.errors import ConfigError
from plait.settings.private import (
    NO_WAIT,
    PRIVATE_MODE,
    cannot,
    locked,
    read_private,
    replace_private,
)

BACKUP_ENDING = ".plait-backup"
MAX_BACKUPS = 3
# Claude Code keeps its own history in ~/.claude.json: tens of megabytes after a year.
MAX_AGENT_FILE_BYTES = 64_000_000
# A clone may be anybody's: its files are not read for seconds.
MAX_PROJECT_FILE_BYTES = 1_000_000
CONNECT_LOCK = "connect.lock"
RECORDS_FILE = "connections.json"
# How often an agent may have written its file while we were about to.
WRITE_TRIES = 5


class ChangedMeanwhile(Exception):
    """The agent wrote its file after we had read it."""


def reader(within: str | None) -> ReadFile:
    """Return a function that reads a file, ``None`` if there is none.

    Args:
        within: The folder that a file must be in once links are followed: the links of a project
            come with a clone and must not lead us out of it.
    """

    def read(path: str) -> bytes | None:
        if within is None:
            return read_settings(path)
        _refuse_way_out(path, within)
        return read_settings(path, MAX_PROJECT_FILE_BYTES)

    return read


def _refuse_way_out(path: str, within: str) -> None:
    folder = os.path.realpath(within)
    if os.path.commonpath([folder, os.path.realpath(path)]) != folder:
        raise ConfigError(
            f"{path} is a link that leads out of the project. Nothing was changed.",
            code="link_out_of_project",
            subject=path,
        )


def read_settings(path: str, most: int = MAX_AGENT_FILE_BYTES) -> bytes | None:
    """Return the content of a file, ``None`` if there is none.

    Raises:
        ConfigError: It is no file, or cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | NO_WAIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise cannot("read", path, error) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise ConfigError(
                f"{path} is no file of settings. Nothing was changed.",
                code="not_a_file",
                subject=path,
            )
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def apply(
    folder: str, plan: Callable[[dict[str, FileRecord]], list[FileChange]], *, private: bool
) -> tuple[list[FileChange], list[str]]:
    """Plan and write changes while no other plait does; return them and the backups.

    Args:
        folder: Plait's folder of settings, where the lock and the records are.
        plan: Returns the changes, from the records of earlier ones.
        private: Whether new files are for their owner only.

    Raises:
        ConfigError: A file cannot be read or written; then no file is changed.
    """
    with locked(folder, CONNECT_LOCK):
        for _ in range(WRITE_TRIES):
            records = read_records(folder)
            changes = _with_folders(plan(records), records)
            _write_records(folder, records, changes)
            try:
                backups = _write_all(changes, private=private)
            except (ChangedMeanwhile, ConfigError) as error:
                _remove_folders(row.record for row in changes if row.before is None)
                _write_records(folder, records)
                if isinstance(error, ConfigError):
                    raise
                continue
            news = _changed_records(records, changes)
            # First the folders: a process that is killed here leaves a record of them.
            left = {path for path, row in news.items() if _is_left_alone(path, row)}
            _remove_folders(news[path] for path in left)
            _write_records(folder, {path: row for path, row in news.items() if path not in left})
            return changes, backups
    raise ConfigError(
        f"{changes[0].path} changes all the time. Stop the agent, then try again.",
        code="changed_meanwhile",
        subject=changes[0].path,
    )


def _write_all(changes: Sequence[FileChange], *, private: bool) -> list[str]:
    """Write all changes or none."""
    backups, done = [], []
    try:
        for change in changes:
            if change.before is not None and change.after is not None:
                backups.append(back_up(change.path, change.before))
            replace_settings(change.path, change.before, change.after, private=private)
            done.append(change)
    except (ChangedMeanwhile, ConfigError):
        for change in reversed(done):
            with contextlib.suppress(ChangedMeanwhile, ConfigError):
                replace_settings(change.path, change.after, change.before, private=private)
        raise
    return backups


def replace_settings(
    path: str, before: bytes | None, after: bytes | None, *, private: bool
) -> None:
    """Replace a file as a whole, if it still is as it was; ``None`` is no file.

    Raises:
        ChangedMeanwhile: It has changed.
        ConfigError: It cannot be written.
    """
    target = os.path.realpath(path)
    _refuse_read_only(path, target)
    if after is None:
        _delete(path, target, before)
        return
    aside = _write_aside(target, after)
    try:
        _give_mode(aside, target, private=private)
        if read_settings(target) != before:
            raise ChangedMeanwhile
        os.replace(aside, target)
    except OSError as error:
        raise cannot("write", path, error) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)


def _refuse_read_only(path: str, target: str) -> None:
    """Refuse a file that nobody may write: replacing it needs only the folder's permission."""
    try:
        mode = os.stat(target).st_mode
    except OSError:  # there is none, or reading it tells why
        return
    if not mode & 0o222:
        raise cannot("write", path, PermissionError(EACCES, "It is read-only"))


def _write_aside(target: str, data: bytes) -> str:
    """Write a private file beside another, for its place; return its path.

    What processes left that were killed here goes: it may hold keys. Nobody else writes such files
    while the lock is held.
    """
    folder, prefix = os.path.dirname(target), f".{os.path.basename(target)}.plait-"
    try:
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            if name.startswith(prefix):
                with contextlib.suppress(OSError):  # a folder is not ours
                    os.unlink(os.path.join(folder, name))
        handle, aside = tempfile.mkstemp(prefix=prefix, dir=folder)
    except OSError as error:
        raise cannot("write", target, error) from error
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        os.unlink(aside)
        raise cannot("write", target, error) from error
    return aside


def _delete(path: str, target: str, before: bytes | None) -> None:
    if read_settings(target) != before:
        raise ChangedMeanwhile
    try:
        if before is not None:
            os.unlink(target)
    except OSError as error:
        raise cannot("write", path, error) from error
    # The skill has a folder of its own.
    if os.path.basename(os.path.dirname(target)) == "plait":
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(target))


def _give_mode(aside: str, target: str, *, private: bool) -> None:
    try:
        status = os.stat(target)
    except FileNotFoundError:
        if not private:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(aside, 0o666 & ~mask)
        return
    os.chmod(aside, stat.S_IMODE(status.st_mode))
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):
            os.chown(aside, status.st_uid, status.st_gid)


# -- folders ---------------------------------------------------------------------------------


def _with_folders(
    changes: Sequence[FileChange], records: Mapping[str, FileRecord]
) -> list[FileChange]:
    """Return changes whose records name the folders that plait made for the files, or makes now."""
    noted = []
    for change in changes:
        folders = records.get(change.path, FileRecord()).folders
        if change.before is None and change.after is not None:
            folders = tuple(dict.fromkeys((*folders, *_missing_folders(change.path))))
        noted.append(change._replace(record=change.record._replace(folders=folders)))
    return noted


def _missing_folders(path: str) -> list[str]:
    """Return the folders that have to be made for a file."""
    missing = []
    folder = os.path.dirname(os.path.realpath(path))
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def _is_left_alone(path: str, record: FileRecord) -> bool:
    """Tell whether only folders are left of what was made for a file."""
    return record == FileRecord(folders=record.folders) and not os.path.lexists(path)


def _remove_folders(records: Iterable[FileRecord]) -> None:
    """Remove the folders of records that are empty, the innermost first."""
    folders = {folder for record in records for folder in record.folders}
    for folder in sorted(folders, key=len, reverse=True):
        with contextlib.suppress(OSError):  # somebody else uses it
            os.rmdir(folder)


# -- backups ---------------------------------------------------------------------------------


def back_up(path: str, data: bytes) -> str:
    """Keep a file's content beside it, private, with the two before it; return where.

    Raises:
        ConfigError: It cannot be written.
    """
    target = os.path.realpath(path)
    endings = ["", *(f"-{age}" for age in range(2, MAX_BACKUPS + 1))]
    names = [f"{target}{BACKUP_ENDING}{ending}" for ending in endings]
    if read_settings(names[0]) != data:
        for newer, older in reversed(list(pairwise(names))):
            try:
                os.replace(newer, older)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise cannot("write", older, error) from error
        aside = _write_aside(names[0], data)
        try:
            os.chmod(aside, PRIVATE_MODE)
            os.replace(aside, names[0])
        except OSError as error:
            os.unlink(aside)
            raise cannot("write", names[0], error) from error
    return names[0]


# -- records ---------------------------------------------------------------------------------

# In a row of a file that is about to be written: its hash before, and its record before.
BEFORE, EARLIER = "before", "earlier"


def read_records(folder: str) -> dict[str, FileRecord]:
    """Return what earlier changes made; an unreadable file means nothing is known.

    A process that was killed may have left a file as it was: then its earlier record counts.
    """
    data = read_private(os.path.join(folder, RECORDS_FILE))
    try:
        rows = {} if data is None else json.loads(data)
        records = {str(path): _record_of(str(path), row) for path, row in rows.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {path: record for path, record in records.items() if record != FileRecord()}


def _record_of(path: str, row: dict[str, Any]) -> FileRecord:
    folders = tuple(map(str, row.get("folders", ())))  # they may be there all the same
    if BEFORE in row and row[BEFORE] == _hash_now(path):
        row = row[EARLIER]
    made = tuple(tuple(keys) for keys in row["made"])
    return FileRecord(bool(row["is_new"]), row["blank"], made, folders)


def _hash_now(path: str) -> str:
    try:
        return _hash_of(read_settings(path))
    except ConfigError:  # whatever is there now, nobody left it as it was
        return "unreadable"


def _hash_of(data: bytes | None) -> str:
    return "" if data is None else sha256(data).hexdigest()


def _changed_records(
    records: Mapping[str, FileRecord], changes: Sequence[FileChange]
) -> dict[str, FileRecord]:
    news = {
        change.path: FileRecord(folders=change.record.folders)
        if change.after is None
        else change.record
        for change in changes
    }
    kept = {**records, **news}
    return {path: record for path, record in kept.items() if record != FileRecord()}


def _write_records(
    folder: str, records: Mapping[str, FileRecord], changes: Sequence[FileChange] = ()
) -> None:
    """Write the records; those of changes that come next with what is there before them."""
    news = _changed_records(records, changes)
    rows: dict[str, dict[str, Any]] = {path: record._asdict() for path, record in news.items()}
    for change in changes:
        earlier = records.get(change.path, FileRecord())
        if news.get(change.path, FileRecord()) != earlier:
            row = rows.setdefault(change.path, FileRecord()._asdict())
            row |= {BEFORE: _hash_of(change.before), EARLIER: earlier._asdict()}
    path = os.path.join(folder, RECORDS_FILE)
    data = json.dumps(dict(sorted(rows.items())), indent=1).encode()
    if data != (read_private(path) or b"{}"):
        replace_private(path, data)
