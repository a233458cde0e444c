"""Which journal a file may have: not every file system, and not every SQLite, is safe for WAL."""

import os
from typing import Literal

import apsw

# SQLite 3.7.0 to 3.51.2 can lose committed pages when several processes share a WAL file.
SAFE_SQLITE = (3, 51, 3)
# WAL needs shared memory between processes, which these do not provide.
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "virtiofs", "afs", "ceph"}
    | {"glusterfs", "lustre", "fuse", "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "vboxsf"}
)


def wal_is_safe(version: tuple[int, int, int]) -> bool:
    """Tell whether this SQLite may run WAL with several processes.

    3.44.6 and 3.50.7 contain the fix of 3.51.3.

    >>> wal_is_safe((3, 51, 2)), wal_is_safe((3, 51, 3)), wal_is_safe((3, 50, 7))
    (False, True, True)
    """
    if version[:2] in {(3, 44), (3, 50)}:
        return version[2] >= {44: 6, 50: 7}[version[1]]
    return version >= SAFE_SQLITE


def sqlite_version() -> tuple[int, int, int]:
    """Return the version of the SQLite inside APSW."""
    major, minor, patch = (int(part) for part in apsw.sqlite_lib_version().split(".")[:3])
    return major, minor, patch


def file_system(path: str, mounts: str = "/proc/mounts") -> str:
    """Return the type of the file system of a path; empty if unknown."""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as lines:
            rows = [line.split()[1:3] for line in lines if len(line.split()) > 2]
    except OSError:
        return ""
    real = os.path.realpath(path)
    best, kind = "", ""
    for raw, name in rows:
        mount = raw.replace("\\040", " ")
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, name
    return kind


def journal_mode(path: str) -> Literal["wal", "delete"]:
    """Return WAL, unless the file system or this version of SQLite is known to break it."""
    if file_system(path) in NETWORK_FILE_SYSTEMS or not wal_is_safe(sqlite_version()):
        return "delete"
    return "wal"
