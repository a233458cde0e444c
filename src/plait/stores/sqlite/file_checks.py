"""Checks of the file itself: SQLite's version, its place and modes, its pages, its journal."""

import os
import stat
from collections.abc import Callable, Iterator

import apsw

from plait.errors import StoreDamaged, advise
from plait.stores.sqlite import integrity, scratch
from plait.stores.sqlite.connection import PRIVATE_FILE, Connections, checkpoint
from plait.stores.sqlite.findings import FIX, broken, first_of, unsafe
from plait.stores.sqlite.modes import NETWORK_FILE_SYSTEMS, file_system, sqlite_version, wal_is_safe
from plait.stores.sqlite.remaking import can_remake, remake
from plait.stores.sqlite.replaced import current
from plait.types.reports import Finding

OTHERS = stat.S_IRWXG | stat.S_IRWXO
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def check_version() -> Finding:
    """Check that SQLite is new enough for several processes."""
    version = sqlite_version()
    words = ".".join(map(str, version))
    if wal_is_safe(version):
        return Finding("sqlite", "ok", f"SQLite {words} (through APSW {apsw.apsw_version()})")
    text = f"SQLite {words} can lose writes of several processes."
    return Finding("sqlite", "error", text, advice=advise("upgrade_package", package="apsw"))


def check_place(connections: Connections, *, fix: bool) -> Iterator[Finding]:
    """Check file system and modes."""
    if connections.in_memory:
        yield Finding("file", "ok", "in memory only, nothing is written to disk")
        return
    path = connections.path
    kind = file_system(path)
    mode = str(connections.get().execute("PRAGMA journal_mode").get)
    if kind in NETWORK_FILE_SYSTEMS and mode == "wal":
        yield Finding(
            "file system",
            "error",
            f"{path} is on {kind}, where SQLite's WAL can lose data. Move it to a local disk.",
        )
    else:
        yield Finding("file system", "ok", f"{kind or 'unknown type'}, journal mode {mode}")
    if os.name != "posix":
        return
    yield _modes(path, fix=fix)
    folder = os.path.dirname(path)
    yield from _leftovers(folder, fix=fix)
    mode_of_folder = os.stat(folder).st_mode
    if mode_of_folder & WRITABLE_BY_OTHERS and not mode_of_folder & stat.S_ISVTX:
        yield Finding(
            "folder",
            "warning",
            f"Other users can write to {folder}.",
            advice=advise("protect_folder", folder=folder),
        )


def _leftovers(folder: str, *, fix: bool) -> Iterator[Finding]:
    """Name copies that a restore, backup or salvage did not finish: they may be large."""
    left = scratch.abandoned(folder)
    if left and fix:
        count = scratch.remove_abandoned(folder)
        yield Finding("leftovers", "ok", f"{count} unfinished copies removed", fixed=True)
    elif left:
        text = f"A process was killed and left {len(left)} unfinished copies: {first_of(left)}."
        yield Finding("leftovers", "warning", text, advice=FIX)


def _modes(path: str, *, fix: bool) -> Finding:
    loose = [
        name
        for name in (path, path + "-wal", path + "-shm")
        if os.path.exists(name) and os.stat(name).st_mode & OTHERS
    ]
    if not loose:
        return Finding("modes", "ok", "only you can read the files")
    if fix:
        for name in loose:
            os.chmod(name, PRIVATE_FILE)
        return Finding("modes", "ok", f"{len(loose)} files made private (0600)", fixed=True)
    return Finding("modes", "warning", f"Other users can read {loose[0]}.", advice=FIX)


def check_pages(
    connections: Connections,
    connection: apsw.Connection,
    verdict: integrity.FileProblems,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    """Check the pages of the file, by what SQLite's own check told of them."""
    if verdict.broken and can_remake(connection, verdict.damaged) and not fix:
        text = f"The file is damaged, but only what can be made again: {verdict.broken[0]}."
        return Finding("pages", "error", text, advice=FIX, code=StoreDamaged.code)
    if verdict.broken:
        return broken(connections, verdict.broken[0])
    if not verdict.unused:
        return Finding("pages", "ok", "no damaged pages")
    if fix:
        # A page that no tree leads to may be full of rows.
        table = misplaced()
        if table is not None:
            return unsafe(connections, table, "pages")
        connection.execute("VACUUM")
        if not integrity.verdict(connection).unused:
            return Finding("pages", "ok", "pages that nobody used were freed", fixed=True)
    text = "The list of free pages is wrong."
    return Finding("pages", "warning", text, advice=FIX if not fix else None)


def remade(
    connections: Connections, connection: apsw.Connection, verdict: integrity.FileProblems
) -> str:
    """Make damaged indexes and other derived data again; return their names if it was possible."""
    if connections.in_memory or not can_remake(connection, verdict.damaged):
        return ""
    remake(connections, verdict.damaged)
    return ", ".join(sorted(verdict.damaged))


def check_journal(connections: Connections, *, fix: bool) -> Finding:
    """Tell how large the journal is; with ``fix``, empty it."""
    path = connections.path + "-wal"
    if connections.in_memory or not os.path.exists(path):
        return Finding("journal", "ok", "empty")
    if fix:
        done = checkpoint(current(connections), "TRUNCATE")
        words = "emptied" if done else "in use by another process"
        return Finding("journal", "ok" if done else "warning", words, fixed=done)
    size = os.stat(path).st_size
    return Finding("journal", "ok", f"{size:,} bytes")
