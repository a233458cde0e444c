"""A disk with a log: every write and sync is noted, so that a power cut can be replayed anywhere.

What a real disk may do to writes that no sync has confirmed: keep any of their sectors, in any
order, and lose the others. kill -9 cannot show that, since the page cache survives the process.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

SECTOR = 512
VFS = "plait-power"
FAULTY = "plait-faulty"
SMALL = "plait-small"
FULL = "plait-full"


class Event(NamedTuple):
    """One thing that happened to a file. ``ack`` and ``begin`` are marks of the harness."""

    what: str  # write, truncate, sync, delete, begin, ack
    file: str = ""
    at: int = 0
    data: bytes = b""


class LoggingVFS(apsw.VFS):
    """The usual VFS, with a log."""

    def __init__(self, log: list[Event]) -> None:
        self._log = log
        super().__init__(VFS, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        if name is None:
            # A scratch file: SQLite deletes it itself, and no power cut brings it back.
            return apsw.VFSFile("", name, flags)
        return _LoggingFile(self._log, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:
        super().xDelete(name, syncdir)
        self._log.append(Event("delete", Path(name).name, int(syncdir)))


class _LoggingFile(apsw.VFSFile):
    def __init__(self, log: list[Event], name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._name = Path(name if isinstance(name, str) else name.filename()).name
        self._log = log

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._log.append(Event("write", self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._log.append(Event("truncate", self._name, newsize))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._log.append(Event("sync", self._name))


@contextmanager
def logged(*, checkpoint_pages: int) -> Iterator[list[Event]]:
    """A log of all that goes through the VFS `VFS` meanwhile."""
    log: list[Event] = []
    with _registered(LoggingVFS(log), VFS, checkpoint_pages):
        yield log


@contextmanager
def _registered(vfs: apsw.VFS, name: str, checkpoint_pages: int) -> Iterator[None]:
    def alone(connection: apsw.Connection) -> None:
        if connection.open_vfs == name:
            # Without shared memory, which such a VFS has not, WAL works for one connection only.
            connection.pragma("locking_mode", "exclusive")
            connection.wal_autocheckpoint(checkpoint_pages)

    apsw.connection_hooks.append(alone)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(alone)
        vfs.unregister()


class Fault:
    """The one call that fails: the ``call``-th write or sync after `arm`."""

    def __init__(self) -> None:
        self._left = 0
        self._happened = False

    def arm(self, call: int) -> None:
        """From now on, count."""
        self._left, self._happened = call, False

    def disarm(self) -> bool:
        """Stop counting; whether it came to the failure."""
        self._left = 0
        return self._happened

    def strike(self) -> None:
        """Called before every write and sync."""
        self._left -= 1
        if self._left == 0:
            self._happened = True
            raise apsw.IOError("planted")


class _FaultyVFS(apsw.VFS):
    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        super().__init__(FAULTY, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _FaultyFile(self._fault, name, flags)


class _FaultyFile(apsw.VFSFile):
    def __init__(self, fault: Fault, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._fault = fault

    def xWrite(self, data: bytes, offset: int) -> None:
        self._fault.strike()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._fault.strike()
        super().xSync(flags)


@contextmanager
def failing() -> Iterator[Fault]:
    """A disk, reached through the VFS `FAULTY`, on which one call can be made to fail."""
    fault = Fault()
    with _registered(_FaultyVFS(fault), FAULTY, checkpoint_pages=1_000):
        yield fault


class _SmallVFS(apsw.VFS):
    def __init__(self, most: int) -> None:
        self._most = most
        super().__init__(SMALL, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _SmallFile(self._most, name, flags)


class _SmallFile(apsw.VFSFile):
    def __init__(self, most: int, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._most = most

    def xWrite(self, data: bytes, offset: int) -> None:
        if offset + len(data) > self._most:
            raise apsw.FullError("planted")
        super().xWrite(data, offset)


@contextmanager
def small(most: int) -> Iterator[None]:
    """A disk, reached through the VFS `SMALL`, on which a file has room for so many bytes."""
    with _registered(_SmallVFS(most), SMALL, checkpoint_pages=1_000):
        yield


class _FullVFS(apsw.VFS):
    def __init__(self, room: int) -> None:
        self.room = room
        super().__init__(FULL, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _FullFile(self, name, flags)


class _FullFile(apsw.VFSFile):
    def __init__(self, disk: _FullVFS, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk

    def xWrite(self, data: bytes, offset: int) -> None:
        more = max(0, offset + len(data) - self.xFileSize())
        if more > self._disk.room:
            raise apsw.FullError("planted")
        self._disk.room -= more
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._disk.room += self.xFileSize() - newsize
        super().xTruncate(newsize)


@contextmanager
def full(room: int) -> Iterator[_FullVFS]:
    """A disk, reached through the VFS `FULL`, on which all files may grow by so many bytes."""
    disk = _FullVFS(room)
    with _registered(disk, FULL, checkpoint_pages=1_000):
        yield disk


class Disk:
    """Files as a disk would hold them: what is certain, and what is on its way."""

    def __init__(self) -> None:
        self._sure: dict[str, bytearray] = {}
        self._flying: dict[str, list[Event]] = {}

    def apply(self, event: Event) -> None:
        """Let one event of the log happen."""
        if event.what in ("write", "truncate"):
            self._flying.setdefault(event.file, []).append(event)
        elif event.what == "sync":
            image = self._sure.setdefault(event.file, bytearray())
            for waiting in self._flying.pop(event.file, ()):
                carry_out(image, waiting)
        elif event.what == "delete":
            self._sure.pop(event.file, None)
            self._flying.pop(event.file, None)

    def after_power_cut(self, dice: random.Random) -> dict[str, bytes]:
        """What is found when the power comes back."""
        images = {name: bytearray(image) for name, image in self._sure.items()}
        # Sometimes nothing of it arrived, sometimes nearly all: extremes find the most.
        luck = dice.choice([0.0, 0.1, 0.5, 0.9, 1.0])
        for name, waiting in self._flying.items():
            if name not in images and dice.random() > luck:
                continue
            image = images.setdefault(name, bytearray())
            for event in waiting:
                for part in _sectors(event):
                    if dice.random() < luck:
                        carry_out(image, part)
        return {name: bytes(image) for name, image in images.items()}


def _sectors(event: Event) -> Iterator[Event]:
    if event.what != "write":
        yield event
        return
    start, end = event.at, event.at + len(event.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield Event("write", event.file, start, event.data[start - event.at : stop - event.at])
        start = stop


def carry_out(image: bytearray, event: Event) -> None:
    """Change a file as an event of the log did."""
    if event.what == "truncate":
        del image[event.at :]
        return
    if len(image) < event.at:
        image.extend(bytes(event.at - len(image)))
    image[event.at : event.at + len(event.data)] = event.data
