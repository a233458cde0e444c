"""Clear what purged text leaves behind: terms, free parts of pages, the journal.

Every step may be repeated, so that a killed purge loses nothing: the mark ``unscrubbed`` stays in
``meta`` until all of it is done. Nearly every step is short, so that writers do not wait long. They
do wait for the keyword index to be merged as a whole if they write during several merges in slices
(`stale_terms.merge`), for it to be rebuilt where a page of it has lost all its terms, and for
``VACUUM`` in a file of very many pages.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw

from plait.errors import PlaitError, StoreBusy, advise
from plait.stores.sqlite import slack, stale_terms
from plait.stores.sqlite.audit import KEY, is_key
from plait.stores.sqlite.connection import (
    APPLICATION_ID,
    KEPT_ASIDE,
    Connections,
    checkpoint,
    empty_journal,
    has_journal,
    rows,
)
from plait.stores.sqlite.journal import FRAME_HEADER, WAL_HEADER
from plait.stores.sqlite.pages import HEADER_BYTES
from plait.stores.sqlite.replaced import current
from plait.stores.sqlite.state import UNSCRUBBED, get_meta, set_meta
from plait.stores.sqlite.write_lock import WriteLock
from plait.types.ids import new_id

PAUSE_S = 0.02
# Pages that are read and cleared under one lock: 32 MiB in less than a tenth of a second.
SLICE_PAGES = 8_192
READ_PAGES = 256
SLICE_SEPARATORS = 200
LONGEST_META = 1_000_000  # bytes that are read of the key of another memory
# Bytes of a journal before its first frame, and of a frame before its page:
# https://sqlite.org/fileformat2.html#walformat

# Each commit under a lock changes this value: other connections then drop the pages they cached,
# which still have the old free parts and would be written back with them.
SCRUBBED_UNTIL = "scrubbed_until"

# Of this kind, because it stops at the first passage; that of the schema reads all to count them.
_LIST_TERMS = (
    "CREATE VIRTUAL TABLE temp.purged_terms USING fts5vocab ('main', 'passages_fts', 'instance')"
)
_UNLIST_TERMS = "DROP TABLE temp.purged_terms"
# As bytes: what somebody else wrote there may be no text, and the purge must not end with it.
_LOST_COUNTS = (
    "SELECT CAST(term AS BLOB) FROM frequent_terms WHERE NOT EXISTS "
    "(SELECT 1 FROM temp.purged_terms AS listed WHERE listed.term = frequent_terms.term)"
)
_FORGET_COUNTS = "DELETE FROM frequent_terms WHERE term = CAST(?1 AS TEXT) OR term = ?1"
# FTS5 lists with which term each of its pages begins, or rather the shortest beginning of it that
# sets it apart from the page before. Where no term begins like that any more, the next term can
# stand for it. The first byte, "0", names the index.
_LOST_SEPARATORS = """
SELECT segid, term, CAST('0' || following AS BLOB) FROM (
    SELECT segid, term, (
        SELECT listed.term FROM temp.purged_terms AS listed
        WHERE listed.term >= CAST(substr(separators.term, 2) AS TEXT) LIMIT 1
    ) AS following
    FROM passages_fts_idx AS separators WHERE length(term) > 1 /*and*/
)
WHERE following IS NULL
OR substr(CAST(following AS BLOB), 1, length(term) - 1) <> substr(term, 2)
"""
_LOST_SEPARATOR = _LOST_SEPARATORS.replace("/*and*/", "AND segid = ? AND term = ?")
_SEPARATE = "UPDATE passages_fts_idx SET term = ? WHERE segid = ? AND term = ?"
_NEXT_SEPARATOR = "SELECT min(term) FROM passages_fts_idx WHERE segid = ? AND term > ?"
_DROP_MARKS = "DELETE FROM meta WHERE name = ? OR (name = ? AND value = ?)"


def scrub(connections: Connections, patience: float | None = None) -> None:
    """Leave no byte of what was purged in the file or its journal.

    Args:
        connections: The connections to the file.
        patience: Seconds to wait for others to leave the journal; otherwise as for a lock.

    Raises:
        StoreBusy: Other processes kept the journal in use for longer.
    """
    mark = get_meta(connections.get(), UNSCRUBBED)
    stale_terms.erase(connections)
    _clear_terms(connections)
    if not connections.in_memory:
        seconds = connections.timeout if patience is None else patience
        deadline = time.monotonic() + seconds
        _clear_pages(connections, deadline)
        _empty_journal(connections, deadline)
    with WriteLock(connections) as connection:
        # Another purge may have begun meanwhile: its mark is a different one.
        connection.execute(_DROP_MARKS, (SCRUBBED_UNTIL, UNSCRUBBED, mark))
    checkpoint(current(connections), "TRUNCATE")


def make_room(connections: Connections, connection: apsw.Connection) -> None:
    """Free the space of the journal after a write has failed for lack of it.

    The journal may hold what the file already has. If the file would have to grow first, the end of
    the journal makes room for that: it has only what the failed write left there.
    """
    empty_journal(connection)
    if not connections.in_memory and has_journal(connection.filename):
        with suppress(apsw.Error):
            if _cut_journal(connection, connections.vfs):
                empty_journal(connection)
    connections.set_wait(connection)


def _cut_journal(connection: apsw.Connection, vfs: str | None) -> bool:
    """Cut off the end of the journal that belongs to no commit; return whether there was any."""
    [(_, frames, _)] = rows(connection, "PRAGMA wal_checkpoint(NOOP)")
    version = connection.execute("PRAGMA data_version").get
    page = int(connection.execute("PRAGMA page_size").get)
    end: int = WAL_HEADER + frames * (FRAME_HEADER + page)
    flags = [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0]
    connection.execute("BEGIN IMMEDIATE")  # nobody appends to it from here on
    try:
        # Without a commit by another process, its length is still the same.
        if connection.execute("PRAGMA data_version").get != version:
            return False
        file = apsw.VFSFile(vfs or "", connection.filename + "-wal", flags)
        try:
            is_longer = file.xFileSize() > end
            if is_longer:
                file.xTruncate(end)
        finally:
            file.xClose()
    finally:
        connection.execute("ROLLBACK")
    return is_longer


# -- the keyword index ---------------------------------------------------------------------


def _clear_terms(connections: Connections) -> None:
    """Drop terms that no passage contains any more from the statistics and the index."""
    with _terms_listed(connections.get()) as connection:  # a long look, without the lock
        counts = rows(connection, _LOST_COUNTS)
        lost = rows(connection, _LOST_SEPARATORS)
    if counts:
        with WriteLock(connections) as connection:
            connection.executemany(_FORGET_COUNTS, counts)
    for start in range(0, len(lost), SLICE_SEPARATORS):
        with WriteLock(connections) as locked, _terms_listed(locked) as connection:
            if not _separate(connection, lost[start : start + SLICE_SEPARATORS]):
                from plait.stores.sqlite import rebuilding

                rebuilding.rebuild(connection)
                return


@contextmanager
def _terms_listed(connection: apsw.Connection) -> Iterator[apsw.Connection]:
    """List the terms of the keyword index in a table that only this connection sees."""
    connection.execute(_LIST_TERMS)
    try:
        yield connection
    finally:
        connection.execute(_UNLIST_TERMS)


def _separate(connection: apsw.Connection, lost: list[tuple[int, bytes, bytes | None]]) -> bool:
    """Replace separators by terms that still exist; false if one has no term on its page."""
    for segment, separator, _ in lost:
        # Others may have written since the look: both are read again.
        for _, term, following in rows(connection, _LOST_SEPARATOR, (segment, separator)):
            after = connection.execute(_NEXT_SEPARATOR, (segment, term)).get
            if following is None or (after is not None and following >= after):
                return False
            connection.execute(_SEPARATE, (following, segment, term))
    return True


# -- other files ---------------------------------------------------------------------------


def copies_beside(connections: Connections) -> tuple[str, ...]:
    """Return the files in the folder of a memory that may have what was in it before.

    What a restore kept, what a killed restore or backup left behind, and backups: these are the
    memories whose journal is not a WAL. A backup of another memory, which has another key, is none.
    """
    if connections.in_memory:
        return ()
    key = get_meta(connections.get(), KEY)
    folder, name = os.path.split(connections.real)
    own = {name, *(name + ending for ending in ("-wal", "-shm", "-journal"))}
    with os.scandir(folder) as entries:
        # subtle: unlike `entry.is_file()`, this is no error for a link that leads to itself.
        others = [row for row in entries if row.name not in own and os.path.isfile(row.path)]
    return tuple(
        sorted(
            entry.path
            for entry in others
            if entry.name.startswith((name + KEPT_ASIDE, name + "-wal" + KEPT_ASIDE))
            or (_is_backup(entry.path, connections.vfs) and not _is_of_another(entry.path, key))
        )
    )


def _is_backup(path: str, vfs: str | None) -> bool:
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    try:
        # Opened by SQLite: this process may be using the file as another memory.
        file = apsw.VFSFile(vfs or "", path, flags)
    except (apsw.Error, OSError, UnicodeEncodeError):  # SQLite opens no name that is not UTF-8
        return False
    try:
        header = bytes(file.xRead(HEADER_BYTES, 0))
    except (apsw.Error, OSError):
        return False
    finally:
        file.xClose()
    # https://sqlite.org/fileformat2.html#the_database_header
    return header[68:72] == APPLICATION_ID.to_bytes(4, "big") and header[18:20] == b"\1\1"


def _is_of_another(path: str, key: str | None) -> bool:
    """Tell whether a backup surely is of another memory; false if it has no key, or is damaged."""
    if key is None or has_journal(path):
        return False
    from plait.stores.sqlite.others import opened_live  # anybody may have put the file there

    try:
        with opened_live(path, LONGEST_META) as backup:
            rows = backup.select("meta", ("value",), "WHERE name = ? LIMIT 1", [KEY])
    except (PlaitError, OSError):
        return False
    other = rows[0]["value"] if rows else None
    return isinstance(other, str) and is_key(other) and other != key


# -- the file ------------------------------------------------------------------------------


def _clear_pages(connections: Connections, deadline: float) -> None:
    """Overwrite the free parts of all pages with zeros, a slice of the file at a time."""
    first, pages = 0, _page_count(connections)
    if pages >= slack.MOST_PAGES:
        connections.get().execute("VACUUM")  # rewrites all pages, but other writers wait for it
        return
    while first < pages:
        with _alone(connections, deadline) as connection:
            if _clear_slice(connection, connections.vfs, first):
                # The next statement must read its pages again: they were cleared below it. The
                # checkpoint after it syncs the file, without making other writers wait.
                connection.execute("PRAGMA shrink_memory").fetchall()
                set_meta(connection, SCRUBBED_UNTIL, new_id())
        first, pages = first + SLICE_PAGES, _page_count(connections)


def _page_count(connections: Connections) -> int:
    return int(connections.get().execute("PRAGMA page_count").get)


def _clear_slice(connection: apsw.Connection, vfs: str | None, first: int) -> bool:
    """Clear the pages from ``first`` on; return whether there was anything to clear."""
    size = int(connection.execute("PRAGMA page_size").get)
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    # Opened by SQLite: a plain ``open`` and ``close`` would drop the locks of this process.
    file = apsw.VFSFile(vfs or "", connection.filename, flags)
    cleared = False
    try:
        end = min((first + SLICE_PAGES) * size, file.xFileSize())
        for place in range(first * size, end, READ_PAGES * size):
            data = file.xRead(min(READ_PAGES * size, end - place), place)
            for part in slack.dirty_parts(data, size, first=place == 0):
                # Only these bytes, not the page: a write that is cut short damages nothing.
                file.xWrite(slack.ZEROS[: part.end - part.start], place + part.start)
                cleared = True
    finally:
        file.xClose()
    return cleared


@contextmanager
def _alone(connections: Connections, deadline: float) -> Iterator[apsw.Connection]:
    """Hold the write lock while the journal is empty: nobody writes to the file itself then."""
    while True:
        _empty_journal(connections, deadline)
        with WriteLock(connections) as connection:
            if not _journal_size(connection):
                yield connection
                return
        _wait(connections, deadline)


def _journal_size(connection: apsw.Connection) -> int:
    try:
        return os.stat(connection.filename + "-wal").st_size
    except FileNotFoundError:
        return 0  # a file without WAL


def _empty_journal(connections: Connections, deadline: float) -> None:
    # First what needs no lock, copying and syncing: writers wait for the rest only.
    checkpoint(current(connections), "PASSIVE")
    # Under load others hold the checkpoint lock most of the time, and there is no queue for it.
    while not checkpoint(current(connections), "TRUNCATE"):
        _wait(connections, deadline)


def _wait(connections: Connections, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise StoreBusy(
            f"The documents are deleted from {connections.path}, but their bytes are still in it "
            "or in its journal, because another process is using them. Close that process first.",
            code="journal_in_use",
            subject=connections.path,
            advice=advise("doctor_fix"),
        )
    time.sleep(PAUSE_S)
