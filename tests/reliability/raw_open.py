"""An alarm on ``open``: nobody may open a memory's file while SQLite has it open in this process.

On POSIX any ``close`` of a file drops all locks that the process holds on it, SQLite's too; a
header sniffed by plain ``open`` has cost other programs acknowledged writes. plait's own code may
not do it at all; a test may, once every connection to the file is closed.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import apsw

import plait

_SOURCE = str(Path(plait.__file__).parent) + os.sep
_LIBRARY = str(Path(os.__file__).parent)
_SUFFIXES = ("", "-wal", "-shm", "-journal")
# Names of files that SQLite has opened in this process: the alarm looks closer only at these.
_names: set[str] = set()
_alarms: list[str] = []
_installed: list[bool] = []
_permitted: list[bool] = []


class RawOpen(AssertionError):
    """A memory's file was opened other than through SQLite."""


def install() -> None:
    """Set the alarm, once per process; it cannot be taken off again."""
    if not _installed:
        _installed.append(True)
        apsw.connection_hooks.append(_remember)
        sys.addaudithook(_listen)


@contextmanager
def permitted() -> Iterator[None]:
    """For a test that shows what happens then."""
    _permitted.append(True)
    try:
        yield
    finally:
        _permitted.pop()


def alarms() -> list[str]:
    """What was noticed since the last call."""
    noticed = list(_alarms)
    _alarms.clear()
    return noticed


def _remember(connection: apsw.Connection) -> None:
    name = Path(connection.filename).name
    if name:
        _names.update(name + suffix for suffix in _SUFFIXES)


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], str | os.PathLike):
        return
    path = os.fspath(arguments[0])
    # Called for every file that Python opens, so no Path here.
    if path[path.rfind(os.sep) + 1 :] not in _names or _permitted:
        return
    flags = arguments[2]
    if isinstance(flags, int) and flags & getattr(os, "O_PATH", 0):
        return  # it is only looked at: closing it drops no locks
    if isinstance(flags, int) and flags & os.O_EXCL and flags & os.O_CREAT:
        return  # Either a new file, on which nobody holds a lock, or no file is opened at all.
    ours = _opened_by_plait(sys._getframe(1))
    if ours or _is_open(path):
        _alarms.append(f"{path} was opened by {ours or 'a test, while SQLite has it open'}")
        raise RawOpen(_alarms[-1])


def _opened_by_plait(frame: FrameType | None) -> str:
    """The line of plait that opened it; empty when it was somebody else."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_SOURCE):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if not frame.f_code.co_filename.startswith(("<frozen", _LIBRARY)):
            return ""
        frame = frame.f_back
    return ""


def _is_open(path: str) -> bool:
    real = os.path.realpath(path)
    for connection in apsw.connections():
        try:
            name = connection.filename
        except apsw.ConnectionClosedError:
            continue
        if name and real in {os.path.realpath(name) + suffix for suffix in _SUFFIXES}:
            return True
    return False
