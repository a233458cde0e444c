"""Linked worktrees of git. Loaded only where ``.git`` is a file."""

import os

# Characters of the files in which git keeps one path each.
_LONGEST = 8_192


def main_worktree(root: str) -> str:
    """Return the folder of the repository to which a worktree belongs; else the root itself.

    A folder that was unpacked may claim to be a worktree of any repository. Only what that
    repository itself lists is believed: git writes there where each of its worktrees is.
    """
    pointer = os.path.join(root, ".git")
    there = _path_in(pointer, root, "gitdir: ")
    folder, kind = os.path.split(os.path.dirname(there))
    if kind != "worktrees" or os.path.basename(folder) != ".git":
        return root  # a submodule, or a worktree of a repository without files
    listed = _path_in(os.path.join(there, "gitdir"), there)
    is_listed = bool(listed) and os.path.realpath(listed) == os.path.realpath(pointer)
    return os.path.realpath(os.path.dirname(folder)) if is_listed else root


def _path_in(file: str, base: str, prefix: str = "") -> str:
    """Return the path that a file of git has, which may be relative; empty if there is none."""
    try:
        if not os.path.isfile(file):
            return ""
        with open(file, encoding="utf-8", errors="surrogateescape") as lines:
            line = lines.readline(_LONGEST).rstrip("\r\n")
    except OSError:
        return ""
    path = line.removeprefix(prefix)
    is_path = line.startswith(prefix) and path and "\0" not in path
    return os.path.normpath(os.path.join(base, path)) if is_path else ""
