"""What hooks did, one line each, and what they must not show: two private files of limited size.

Both are beside the default memory. They hold ids and numbers, never a text or a prompt, so a purge
has nothing to remove from them. Several processes write at once: each line is one append.
"""

import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from plait.errors import PlaitError, StoreBusy
from plait.settings.loading import default_db_path
from plait.settings.private import (
    NO_FOLLOW,
    NO_WAIT,
    PRIVATE_MODE,
    locked,
    read_private,
    replace_private,
)
from plait.types.records import NamedTuple

LOG_NAME = "hooks.log"
MUTED_NAME = "hooks-muted.txt"
_LOCK_NAME = ".hooks.lock"
# About 1,500 lines; as many again are in the file before.
MOST_LOG_BYTES = 300_000
OLDER = ".1"
# What a hook reads of it: the end, in which its own session is.
RECENT_BYTES = 60_000
MOST_MUTED = 10_000
# Characters of a field that another program chose.
MOST_FIELD = 300
# Of a path, which is opened again: what file systems allow.
MOST_PATH = 4_096
_PATHS = ("memory", "transcript")
MOST_IDS = 50


# What a hook did.
DEEDS = ("shown", "silent", "saved", "late", "failed")


class HookRun(NamedTuple):
    """One run of a hook.

    ``did`` is one of `DEEDS`; ``why`` is a code, never a message. ``at`` and
    ``ms`` are milliseconds. ``whole`` are those of the ``ids`` that were shown whole. ``hint`` is
    the number of a hint, by which it is known again; ``source`` is how a session began.
    """

    at: int = 0
    agent: str = ""
    event: str = ""
    did: str = ""
    why: str = ""
    session: str = ""
    memory: str = ""
    tokens: int = 0
    ms: int = 0
    ids: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    transcript: str = ""
    hint: int = 0
    source: str = ""


def data_folder() -> str:
    """Return the folder of both files."""
    return os.path.dirname(default_db_path())


def write_entry(folder: str, entry: HookRun) -> None:
    """Append one line; start a new file if this one is full.

    Raises:
        OSError: The folder cannot be written.
    """
    path = os.path.join(folder, LOG_NAME)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_FOLLOW | NO_WAIT
    handle = os.open(path, flags, PRIVATE_MODE)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return
        if status.st_mode & 0o077 and hasattr(os, "fchmod"):
            os.fchmod(handle, PRIVATE_MODE)
        os.write(handle, as_line(entry).encode("ascii"))
        full = status.st_size > MOST_LOG_BYTES
    finally:
        os.close(handle)
    if full:
        _begin_anew(folder)


def try_to_write(entry: HookRun) -> None:
    """Append one line, if that is possible: a hook works without its record."""
    try:
        write_entry(data_folder(), entry)
    except (OSError, PlaitError):
        return


def as_line(entry: HookRun) -> str:
    """Return the line of an entry: ASCII, without the fields that say nothing."""
    cut = entry._replace(ids=entry.ids[:MOST_IDS], whole=entry.whole[:MOST_IDS])
    fields = {
        name: value[: MOST_PATH if name in _PATHS else MOST_FIELD]
        if isinstance(value, str)
        else value
        for name, value in cut._asdict().items()
        if value
    }
    return json.dumps(fields) + "\n"


def _begin_anew(folder: str) -> None:
    path = os.path.join(folder, LOG_NAME)
    with locked(folder, _LOCK_NAME):
        # Another process may have done it while this one waited.
        if os.path.getsize(path) > MOST_LOG_BYTES:
            os.replace(path, path + OLDER)


def entries(folder: str) -> list[HookRun]:
    """Return everything that is recorded, the oldest first."""
    path = os.path.join(folder, LOG_NAME)
    return [*_read(path + OLDER), *_read(path)]


def recent(folder: str) -> list[HookRun]:
    """Return the last entries, the oldest first."""
    return _read(os.path.join(folder, LOG_NAME), RECENT_BYTES)


def _read(path: str, most: int = 2 * MOST_LOG_BYTES) -> list[HookRun]:
    try:
        handle = os.open(path, os.O_RDONLY | NO_FOLLOW | NO_WAIT | getattr(os, "O_BINARY", 0))
        try:
            size = os.fstat(handle).st_size
            os.lseek(handle, max(0, size - most), os.SEEK_SET)
            lines = os.read(handle, most).split(b"\n")
        finally:
            os.close(handle)
    except OSError:
        return []
    # A line that was cut at its beginning, or written only in part, is no JSON.
    read = (entry_of(line) for line in lines if line)
    return [entry for entry in read if entry is not None]


def entry_of(line: bytes | str) -> HookRun | None:
    """Return the entry of a line; ``None`` if it is none."""
    try:
        fields: Mapping[str, Any] = json.loads(line)
        told = {name: fields[name] for name in HookRun._fields if fields.get(name) is not None}
        lists = {name: tuple(told.get(name, ())) for name in ("ids", "whole")}
        entry = HookRun(**{**told, **lists})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    for value, default in zip(entry, HookRun(), strict=True):
        if type(value) is not type(default):
            return None
    return entry if all(type(id_) is str for id_ in (*entry.ids, *entry.whole)) else None


def shown_to(session: str, recorded: Iterable[HookRun]) -> frozenset[str]:
    """Return the ids of what a session was shown whole since it last began.

    Of an overview, which has one line of each, nothing.
    """
    ids: set[str] = set()
    for entry in _of_session(session, recorded):
        if entry.why == STARTED or _empties(entry):
            ids.clear()
        ids.update(entry.whole)
    return frozenset(ids)


def hinted_to(session: str, recorded: Iterable[HookRun]) -> frozenset[int]:
    """Return the numbers of the hints that a session was given since it last began."""
    numbers: set[int] = set()
    for entry in _of_session(session, recorded):
        if entry.why == STARTED or _empties(entry):
            numbers.clear()
        if entry.hint:
            numbers.add(entry.hint)
    return frozenset(numbers)


def emptied_at(session: str, recorded: Iterable[HookRun]) -> int:
    """Return when the context of a session was last emptied; 0 if it never was."""
    return max((row.at for row in _of_session(session, recorded) if _empties(row)), default=0)


def _of_session(session: str, recorded: Iterable[HookRun]) -> Iterator[HookRun]:
    return (row for row in recorded if session and row.session == session[:MOST_FIELD])


def _empties(entry: HookRun) -> bool:
    """Tell whether what a session said before is gone from its context, whatever the hook did."""
    return entry.source in EMPTIED or entry.event.lower() in _COMPACTIONS


# How a session begins whose context was emptied; one that is resumed has all of it.
EMPTIED = ("clear", "compact")
# Events before a compaction: after it, not every agent lets a session begin anew.
_COMPACTIONS = ("precompact", "precompress")
# Why an entry has the ids that it has: the session began, and what was shown before is gone.
STARTED = "session_start"
# It is a line beside a tool; the ids are those of messages.
HINTED = "hint"


def unfinished(recorded: Iterable[HookRun]) -> list[HookRun]:
    """Return the last saves that did not end, the newest first, one of each transcript.

    A deadline stopped them, or others kept the memory busy.
    """
    late: dict[tuple[str, str], HookRun] = {}
    for entry in recorded:
        if not entry.transcript:
            continue
        late.pop((entry.agent, entry.transcript), None)
        if entry.did == "late" or (entry.did, entry.why) == ("failed", StoreBusy.code):
            late[entry.agent, entry.transcript] = entry
    return list(reversed(late.values()))


# -- what is never shown ---------------------------------------------------------------------


def muted_ids(folder: str) -> list[str]:
    """Return the ids of documents and passages that hooks do not show, in the order of muting.

    Raises:
        ConfigError: The file cannot be read, or others can read it.
    """
    data = read_private(os.path.join(folder, MUTED_NAME)) or b""
    return data.decode("ascii", "replace").split()


def change_muted(folder: str, add: Collection[str] = (), remove: Collection[str] = ()) -> list[str]:
    """Mute some ids and unmute others; return all that are muted now.

    Raises:
        ConfigError: The file cannot be read or written.
    """
    with locked(folder, _LOCK_NAME):
        ids = [id_ for id_ in muted_ids(folder) if id_ not in remove and id_ not in add]
        ids = [*ids, *add][-MOST_MUTED:]
        text = "".join(f"{id_}\n" for id_ in ids)
        replace_private(os.path.join(folder, MUTED_NAME), text.encode("ascii"))
    return ids
