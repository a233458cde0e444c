"""Decide which vanished files leave the memory, and which are kept because a disk may be missing.

A folder whose disk is not mounted looks like a folder whose files were all deleted. Deleting by
hand removes a few files, or some of many; a folder that has lost everything, or nearly everything
at once, is kept until the user says otherwise.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from plait.errors import Notice, advise
from plait.types.records import NamedTuple
from plait.writing.moves import is_bare, is_below

# A folder that has lost this share of its files at once, and at least so many, is kept. Fewer than
# five are deleted together every day, and are quickly restored.
LOST_SHARE = 0.9
HANDFUL = 5
# What is to be mounted where, on Linux and the BSDs, and what is now, on Linux: there, a folder
# that is mounted twice is on the device of the folder around it.
FSTAB, MOUNTED = Path("/etc/fstab"), Path("/proc/self/mounts")


class KeptBack(NamedTuple):
    """The vanished files that are kept, and the folder that they are missing from."""

    paths: frozenset[str] = frozenset()
    folder: str = ""

    @property
    def caution(self) -> Notice | None:
        """Why they are kept, for an interface to word."""
        if not self.paths:
            return None
        is_one = len(self.paths) == 1
        count, them = ("1 file", "it") if is_one else (f"{len(self.paths):,} files", "them")
        return Notice(
            f"{self.folder} has lost {count} at once, perhaps because a disk is not mounted: "
            f"what is known of {them} was kept.",
            "folder_emptied",
            self.folder,
            advise("allow_removal", path=self.folder),
        )


def kept_back(
    root: str, own: bool, gone: Sequence[str], left: Collection[str], *, read_at: int = 0
) -> KeptBack:
    """Return which of the vanished files to keep.

    Args:
        root: The folder that was read.
        own: Whether the files were ingested from this very folder.
        gone: Paths of known files that are no longer there or have no text any more.
        left: Paths of known files that are still there, or could not be examined.
        read_at: When the last of the vanished ones was read, in UTC milliseconds.
    """
    if not gone:
        return KeptBack()
    away = _without_disk(root)
    has_no_disk = any(place == root or is_below(root, place) for place in away)
    if has_no_disk or _is_emptied(len(gone), len(left)) or (own and is_bare(root)):
        return KeptBack(frozenset(gone), root)
    # A disk may also be mounted on a folder inside.
    lost = Counter(folder for path in gone for folder in _folders_between(root, path))
    spared = Counter(folder for path in left for folder in _folders_between(root, path))
    kept = [
        folder
        for folder, count in lost.items()
        if folder in away
        or (_is_emptied(count, spared[folder]) and _is_abandoned(folder, count, read_at))
    ]
    return KeptBack(frozenset(path for path in gone if _is_in(path, kept)), min(kept, default=""))


def _is_emptied(lost: int, left: int) -> bool:
    return lost >= HANDFUL and lost >= LOST_SHARE * (lost + left)


def _is_abandoned(folder: str, lost: int, read_at: int) -> bool:
    """Tell whether a folder that lost files is there with next to nothing in it, and nothing new.

    That is how the place of a disk looks without it: often a file says so, or keeps it in git. A
    file written since, such as a summary of notes that were deleted, shows that the folder is used.
    """
    most = max(1, int(lost * (1 - LOST_SHARE)))
    errors: list[OSError] = []
    count = 0
    for place, _, names in os.walk(folder, onerror=errors.append):
        count += len(names)
        if count > most:
            return False
        for name in names:
            try:
                written_at = Path(place, name).lstat().st_mtime
            except OSError:
                return False
            if written_at * 1000 > read_at:
                return False
    return not errors


def _without_disk(root: str) -> list[str]:
    """Return the folders on which the system's table mounts a disk that is not there now.

    Of those that a folder is in, or that are in it: nobody should wait for another disk.
    """
    mounted = _places(MOUNTED)
    return [
        place
        for place in _places(FSTAB)
        if place == root or is_below(root, place) or is_below(place, root)
        if place not in mounted and os.path.isdir(place) and not os.path.ismount(place)  # noqa: PTH112
    ]


def _places(table: Path) -> list[str]:
    r"""Return the folders of a table of mounts, which writes a blank in a name as ``\040``."""
    try:
        lines = table.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines if not line.lstrip().startswith("#")]
    names = [row[1] for row in rows if len(row) > 1 and row[1].startswith("/")]
    plain = [re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), name) for name in names]
    return [os.path.normpath(name) for name in plain]  # people end them with a slash, too


def _folders_between(root: str, path: str) -> list[str]:
    folders = []
    folder = os.path.dirname(path)  # noqa: PTH120
    while is_below(folder, root):
        folders.append(folder)
        folder = os.path.dirname(folder)  # noqa: PTH120
    return folders


def _is_in(path: str, folders: Collection[str]) -> bool:
    return any(is_below(path, folder) for folder in folders)
