"""A folder whose files a model may read and change, and nothing outside of it.

Every folder on the way to a file is opened by its name inside of the one before, without following
links. Whatever another process puts in its place meanwhile, the act stays in the folder that was
opened. Where the system cannot do that (Windows), each is examined right before it is used.
"""

import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from plait.errors import NotFound, UsageError
from plait.tools.paths import ROOT, folded, is_plain
from plait.types.ids import is_id, new_id
from plait.types.records import NamedTuple

FILE_MODE = 0o600
FOLDER_MODE = 0o700
MAX_FOLDER_ENTRIES = 1_000
_BY_HANDLE = os.open in os.supports_dir_fd and os.listdir in os.supports_fd
_FOLDER_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
# NONBLOCK: do not wait for a pipe.
_FILE_FLAGS = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_IN_THE_WAY = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
# File systems without hard links.
_NO_LINKS = (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
# How a system is asked to rename without replacing anything, and its answers where a disk cannot.
_RENAMING = {"linux": ("renameat2", 1), "darwin": ("renameatx_np", 4)}
_NOT_AT_ONCE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
# Codes of files that are there, and that a model does not get.
NOT_FOR_MODELS = ("too_large", "special_file")
# The name of a new text before it takes the place of the old one.
_ASIDE = ".plait-"
_JUNCTION_TAG = 0xA0000003


class Listed(NamedTuple):
    """A file or folder of a listing, by its path below the one that was listed."""

    path: str
    size: int
    is_folder: bool


class _Place(NamedTuple):
    """An open folder; without a handle, only its path is known."""

    path: str
    handle: int | None

    def target(self, name: str) -> str:
        """Return how the system is told about a name in this folder."""
        return name if self.handle is not None else os.path.join(self.path, name)

    def names(self) -> list[str]:
        """Return the names of all that is in it."""
        return os.listdir(self.path if self.handle is None else self.handle)


class ConfinedFolder:
    """Reads, writes, renames and deletes files below one folder, by the names on the way there.

    Raises `NotFound` for what is not there, and `UsageError` for links, special files and what is
    there already. One process at a time writes.
    """

    def __init__(self, root: str) -> None:
        """Take a folder, which is made if it is missing.

        Raises:
            UsageError: It is a file.
        """
        try:
            os.makedirs(root, mode=FOLDER_MODE, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(
                f"{root} is a file. Use a folder.", code="bad_path", subject="folder"
            ) from None
        self.root = os.path.realpath(root)

    # -- reading ---------------------------------------------------------------------------

    def read(self, parts: Sequence[str], max_bytes: int) -> bytes | None:
        """Return what is in a file; ``None`` for a folder.

        Raises:
            NotFound: There is no such file.
            UsageError: It is a link or no plain file, or it is too large.
        """
        if not parts:
            return None
        with self._entered(parts[:-1]) as place:
            if stat.S_ISDIR(self._status(place, parts[-1]).st_mode):
                return None
            try:
                data = self._first_bytes(place, parts, max_bytes + 1)
            except UsageError:
                # While it is renamed, a file has two names.
                with self._locked():
                    data = self._first_bytes(place, parts, max_bytes + 1)
        if len(data) > max_bytes:
            raise UsageError(
                f"{_path(parts)} is too large: more than {max_bytes:,} bytes", code="too_large"
            )
        return data

    def listing(self, parts: Sequence[str], depth: int) -> tuple[int, list[Listed]]:
        """Return the size of a folder and what is in it, down to a depth.

        Links are left out, and what no model may name: hidden files, and names with line breaks.

        Raises:
            NotFound: There is no such folder.
        """
        rows: list[Listed] = []
        with self._entered(parts) as place:
            size = os.stat(place.path if place.handle is None else place.handle).st_size
            self._collect(place, "", depth, rows)
        return size, rows

    def _collect(self, place: _Place, above: str, depth: int, rows: list[Listed]) -> None:
        for name in sorted(filter(is_plain, place.names())):
            if len(rows) >= MAX_FOLDER_ENTRIES:
                return
            path = f"{above}{name}"
            with suppress(NotFound, UsageError):  # a link, or gone meanwhile
                status = self._status(place, name)
                if stat.S_ISREG(status.st_mode):
                    rows.append(Listed(path, status.st_size, is_folder=False))
                elif stat.S_ISDIR(status.st_mode):
                    rows.append(Listed(f"{path}/", status.st_size, is_folder=True))
                    if depth > 1:
                        with self._below(place, name) as inner:
                            self._collect(inner, f"{path}/", depth - 1, rows)

    # -- writing ---------------------------------------------------------------------------

    def create(self, parts: Sequence[str], data: bytes) -> None:
        """Write a new file, and the folders above it.

        Raises:
            UsageError: Something of that name, or that some system takes for it, is there.
        """
        with self._locked(), self._entered(parts[:-1], make=True) as place:
            _refuse_taken(place.names(), parts)
            self._write(place, parts, data)

    def replace(self, parts: Sequence[str], old: bytes, new: bytes) -> bool:
        """Replace what is in a file; returns false if it is not ``old`` any more."""
        with self._locked(), self._entered(parts[:-1]) as place:
            if self._first_bytes(place, parts, len(old) + 1) != old:
                return False
            mode = stat.S_IMODE(self._status(place, parts[-1]).st_mode)
            _sweep(place)
            aside = f"{_ASIDE}{new_id()}"
            self._write(place, (aside,), new, mode)
            try:
                os.replace(
                    place.target(aside),
                    place.target(parts[-1]),
                    src_dir_fd=place.handle,
                    dst_dir_fd=place.handle,
                )
            except OSError:
                os.unlink(place.target(aside), dir_fd=place.handle)
                raise
            return True

    def delete(self, parts: Sequence[str]) -> None:
        """Delete a file, or a folder with all that is in it; links in it are not followed.

        Raises:
            NotFound: There is nothing of that name.
        """
        if not parts:
            raise UsageError(f"Cannot delete the {ROOT} directory itself", code="bad_path")
        with self._locked(), self._entered(parts[:-1]) as place:
            _sweep(place)
            if stat.S_ISDIR(self._status(place, parts[-1]).st_mode):
                shutil.rmtree(place.target(parts[-1]), dir_fd=place.handle)
            else:
                os.unlink(place.target(parts[-1]), dir_fd=place.handle)

    def rename(self, old: Sequence[str], new: Sequence[str]) -> None:
        """Give a file or folder another name; nothing is ever replaced by it.

        Raises:
            NotFound: There is nothing of the old name.
            UsageError: There is something of the new one, or it is inside of the old one.
        """
        if not old:
            raise UsageError(f"Cannot rename the {ROOT} directory itself", code="bad_path")
        if tuple(new[: len(old)]) == tuple(old):
            raise (
                _taken(new)
                if len(new) == len(old)
                else UsageError(f"{_path(new)} is inside of {_path(old)}", code="bad_path")
            )
        if not new:
            raise _taken(new)
        with self._locked(), self._entered(old[:-1]) as source:
            is_folder = stat.S_ISDIR(self._status(source, old[-1]).st_mode)
            with self._entered(new[:-1], make=True) as target:
                # Another case of the same name is no other file.
                same = old[-1] if tuple(new[:-1]) == tuple(old[:-1]) else None
                _refuse_taken([name for name in target.names() if name != same], new)
                _move(source, old[-1], target, new[-1], is_folder=is_folder)

    def _write(
        self, place: _Place, parts: Sequence[str], data: bytes, mode: int = FILE_MODE
    ) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS
        try:
            handle = os.open(place.target(parts[-1]), flags, FILE_MODE, dir_fd=place.handle)
        except FileExistsError:
            raise _taken(parts) from None
        try:
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                if mode != FILE_MODE and hasattr(os, "fchmod"):
                    os.fchmod(file.fileno(), mode)
        except OSError:
            os.unlink(place.target(parts[-1]), dir_fd=place.handle)
            raise

    # -- getting there ---------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process or thread change files at a time; a reader never waits."""
        try:
            import fcntl
        except ImportError:
            yield
            return
        handle = os.open(self.root, _FOLDER_FLAGS)
        try:
            with suppress(OSError):  # some network disks have no locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    @contextmanager
    def _entered(self, parts: Sequence[str], *, make: bool = False) -> Iterator[_Place]:
        """Open a folder, by way of all folders above it."""
        try:
            root = os.open(self.root, _FOLDER_FLAGS) if _BY_HANDLE else None
        except OSError as error:
            raise _gone(()) from error
        place = _Place(self.root, root)
        opened = [root]
        try:
            for depth, name in enumerate(parts, start=1):
                place = self._step(place, name, parts[:depth], make=make)
                opened.append(place.handle)
            yield place
        finally:
            for handle in opened:
                if handle is not None:
                    os.close(handle)

    @contextmanager
    def _below(self, place: _Place, name: str) -> Iterator[_Place]:
        inner = self._step(place, name, (name,))
        try:
            yield inner
        finally:
            if inner.handle is not None:
                os.close(inner.handle)

    def _step(self, place: _Place, name: str, way: Sequence[str], *, make: bool = False) -> _Place:
        target = place.target(name)
        if make and name not in (names := place.names()):
            _refuse_taken(names, way)
            with suppress(FileExistsError):
                os.mkdir(target, FOLDER_MODE, dir_fd=place.handle)
        path = os.path.join(place.path, name)
        if place.handle is None:
            if not stat.S_ISDIR(self._status(place, name).st_mode):
                raise _gone(way)
            return _Place(path, None)
        try:
            return _Place(path, os.open(target, _FOLDER_FLAGS, dir_fd=place.handle))
        except OSError as error:
            if error.errno in _IN_THE_WAY or isinstance(error, FileNotFoundError):
                self._status(place, name)  # a link is told apart from a file
                raise _gone(way) from error
            raise

    def _status(self, place: _Place, name: str) -> os.stat_result:
        try:
            status = os.stat(place.target(name), dir_fd=place.handle, follow_symlinks=False)
        except FileNotFoundError:
            raise _gone((name,)) from None
        junction = getattr(status, "st_reparse_tag", 0) == _JUNCTION_TAG
        if junction or stat.S_ISLNK(status.st_mode):
            raise UsageError(
                f"{name} is a link, and links are not followed", code="bad_path", subject=name
            )
        return status

    def _first_bytes(self, place: _Place, parts: Sequence[str], count: int) -> bytes:
        flags = os.O_RDONLY | _FILE_FLAGS
        try:
            handle = os.open(place.target(parts[-1]), flags, dir_fd=place.handle)
        except OSError as error:
            self._status(place, parts[-1])
            raise UsageError(
                f"Cannot read {_path(parts)}: {error.strerror}", code="unreadable"
            ) from error
        with open(handle, "rb") as file:
            status = os.fstat(file.fileno())
            # A second name of the file may be anywhere, so that this one tells nothing.
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                raise UsageError(f"Unsupported file type for {_path(parts)}", code="special_file")
            return file.read(count)


def _sweep(place: _Place) -> None:
    """Delete what a process that was killed has left behind; nobody else writes while we do."""
    for name in place.names():
        if name.startswith(_ASIDE) and is_id(name.removeprefix(_ASIDE)):
            with suppress(OSError):  # a folder of that name is not ours
                os.unlink(place.target(name), dir_fd=place.handle)


def _move(source: _Place, old: str, target: _Place, new: str, *, is_folder: bool) -> None:
    """Rename without replacing what another process may have put there just now."""
    here, there = source.target(old), target.target(new)
    at = {"src_dir_fd": source.handle, "dst_dir_fd": target.handle}
    if source.handle is None:
        os.rename(here, there)  # on Windows it never replaces anything
    elif _moved_at_once(source, old, target, new):
        return
    elif is_folder:
        os.mkdir(there, FOLDER_MODE, dir_fd=target.handle)
        try:
            os.rename(here, there, **at)  # replaces an empty folder only
        except OSError:
            os.rmdir(there, dir_fd=target.handle)
            raise
    else:
        try:
            os.link(here, there, follow_symlinks=False, **at)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.rename(here, there, **at)
        else:
            os.unlink(here, dir_fd=source.handle)


def _moved_at_once(source: _Place, old: str, target: _Place, new: str) -> bool:
    """Rename in one step that replaces nothing, where the system has one.

    A process that is killed between two steps leaves a file with two names, which nobody can read.
    """
    import ctypes

    name, flag = _RENAMING.get(sys.platform, ("", 0))
    rename = getattr(ctypes.CDLL(None, use_errno=True), name, None) if name else None
    if rename is None:
        return False
    paths = (source.handle, os.fsencode(old), target.handle, os.fsencode(new))
    if rename(*paths, flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_AT_ONCE:
        return False
    raise OSError(number, os.strerror(number), new)


def _refuse_taken(names: Sequence[str], parts: Sequence[str]) -> None:
    wanted = folded(parts[-1])
    if any(folded(name) == wanted for name in names):
        raise _taken(parts)
    if len(names) >= MAX_FOLDER_ENTRIES:
        raise UsageError(
            f"{_path(parts[:-1])} is full: it has {len(names):,} files. Use another folder.",
            code="folder_full",
        )


def _path(parts: Sequence[str]) -> str:
    return "/".join((ROOT, *parts))


def _gone(parts: Sequence[str]) -> NotFound:
    path = _path(parts)
    return NotFound(f"The path {path} does not exist", code="no_such_path", subject=path)


def _taken(parts: Sequence[str]) -> UsageError:
    path = _path(parts)
    return UsageError(f"File {path} already exists", code="path_taken", subject=path)
