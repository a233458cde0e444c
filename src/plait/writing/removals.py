"""Decide which vanished files leave the memory, and which are kept because a disk may be missing.

A folder whose disk is not mounted looks like a folder whose files were all deleted. Deleting by
hand removes a few files, or some of many; a folder that has lost everything, or nearly everything
at once, is kept until the user says otherwise.
"""

import os
from collections import Counter
from collections.abc import Collection, Sequence

from plait.errors import Notice, advise
from plait.types.records import NamedTuple
from plait.writing.moves import is_bare, is_below

# A folder that has lost this share of its files at once, and at least so many, is kept. Fewer than
# five are deleted together every day, and are quickly restored.
LOST_SHARE = 0.9
HANDFUL = 5


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


def kept_back(root: str, own: bool, gone: Sequence[str], left: int) -> KeptBack:
    """Return which of the vanished files to keep.

    Args:
        root: The folder that was read.
        own: Whether the files were ingested from this very folder.
        gone: Paths of known files that are no longer there or have no text any more.
        left: How many known files are still there, or could not be examined.
    """
    if not gone:
        return KeptBack()
    many = len(gone) >= HANDFUL
    if (many and len(gone) >= LOST_SHARE * (len(gone) + left)) or (own and is_bare(root)):
        return KeptBack(frozenset(gone), root)
    # A disk may also be mounted on a folder inside.
    lost = Counter(folder for path in gone for folder in _folders_between(root, path))
    bare = [folder for folder, count in lost.items() if count >= HANDFUL and is_bare(folder)]
    return KeptBack(frozenset(path for path in gone if _is_in(path, bare)), min(bare, default=""))


def _folders_between(root: str, path: str) -> list[str]:
    folders = []
    folder = os.path.dirname(path)  # noqa: PTH120
    while is_below(folder, root):
        folders.append(folder)
        folder = os.path.dirname(folder)  # noqa: PTH120
    return folders


def _is_in(path: str, folders: Collection[str]) -> bool:
    return any(is_below(path, folder) for folder in folders)
