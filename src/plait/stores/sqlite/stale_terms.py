"""Words of profiles that were replaced: they stay in the keyword index until it is merged.

When a passage is deleted, FTS5 looks for each of its words in all parts of the index and erases it
there. A profile is replaced with every fact of its entity, and this took longer than all the rest
of it: 3 ms in 10,000 passages, 24 in 300,000. So its words are only marked as deleted, which no
search sees. A purge merges the index, and that drops them.

FTS5 keeps its segments on levels, the oldest on the highest. A merge drops what is marked only if
nothing can be older than its result, which it takes for granted of the highest level alone, though
levels below that may be the highest with anything on them: `is_merged` looks whether it did.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from plait.stores.sqlite.connection import Connections
from plait.stores.sqlite.pages import Damage, varint
from plait.stores.sqlite.state import LAST_ROW, STALE_TERMS, forget_meta, get_meta, set_meta
from plait.stores.sqlite.write_lock import WriteLock
from plait.types.ids import new_id

# Of the index, that are merged under one lock: less than a tenth of a second.
SLICE_PAGES = 500
# How often the index is merged in slices if others write between them, before it is merged as a
# whole: half a second for 120,000 passages, in which nobody else writes.
SLICED_MERGES = 4
# A merge that has nothing left to do still changes this many rows or fewer:
# https://sqlite.org/fts5.html#the_merge_command
_UNCHANGED = 1
_ERASE = "INSERT INTO passages_fts (passages_fts, rank) VALUES ('secure-delete', ?)"
# Also a merge as a whole, and in one transaction.
MERGE_ALL = "INSERT INTO passages_fts (passages_fts) VALUES ('optimize')"
_FLUSH = "INSERT INTO passages_fts (passages_fts) VALUES ('flush')"
_ADD = "INSERT INTO passages_fts (rowid, title) VALUES (?, 'a')"
_REMOVE = "INSERT INTO passages_fts (passages_fts, rowid, title) VALUES ('delete', ?, 'a')"
# Where FTS5 lists its segments: https://sqlite.org/fts5.html#the_data_table_idx_table
_STRUCTURE = "SELECT block FROM passages_fts_data WHERE id = 10"
_COOKIE_BYTES = 4
_WITH_TOMBSTONES = b"\xff\x00\x00\x01"  # follows the cookie where segments have more numbers
_MERGE = "INSERT INTO passages_fts (passages_fts, rank) VALUES ('merge', ?)"


@contextmanager
def erased_later(connection: apsw.Connection) -> Iterator[None]:
    """Delete passages inside, of which the words are only marked as deleted.

    In the caller's transaction: if it fails, the setting is what it was.
    """
    connection.execute(_ERASE, (0,))
    yield
    # The setting holds when FTS5 writes, and not when it is told what to delete. Newer versions of
    # SQLite write before they change it.
    connection.execute(_FLUSH)
    connection.execute(_ERASE, (1,))
    set_meta(connection, STALE_TERMS, new_id())


def erase(connections: Connections) -> None:
    """Erase the words of replaced profiles that may be left in the keyword index."""
    if get_meta(connections.get(), STALE_TERMS) is not None:
        merge(connections)


def merge(connections: Connections) -> None:
    """Merge the keyword index in slices, so that no writer waits long; a kill loses nothing.

    Only if others write during each of several such merges do they wait for one as a whole.
    """
    is_stale = get_meta(connections.get(), STALE_TERMS) is not None
    _merge_in_slices(connections)
    if not is_stale:
        return
    for attempt in range(SLICED_MERGES):
        with WriteLock(connections) as connection:
            if drop_mark(connection):
                return
            # Others wrote between the slices, or FTS5 has merged below its highest level. One more
            # segment, on the lowest level, makes it plan anew for all of them.
            connection.execute(_ADD, (LAST_ROW,))
            connection.execute(_FLUSH)
            connection.execute(_REMOVE, (LAST_ROW,))
            if attempt + 1 == SLICED_MERGES:
                _merge_at_once(connection)
                return
        _merge_in_slices(connections)


def _merge_at_once(connection: apsw.Connection) -> None:
    connection.execute(MERGE_ALL)
    if not drop_mark(connection):
        # All segments are as small as the added one, and so on one level again.
        from plait.stores.sqlite import rebuilding

        rebuilding.rebuild(connection)


def _merge_in_slices(connections: Connections) -> None:
    pages = -SLICE_PAGES  # first it plans to merge all that there is; what others add may stay
    while True:
        with WriteLock(connections) as connection:
            before = connection.total_changes()
            connection.execute(_MERGE, (pages,))
            if pages > 0 and connection.total_changes() - before <= _UNCHANGED:
                return
        pages = SLICE_PAGES


def drop_mark(connection: apsw.Connection) -> bool:
    """Note that nothing is left of replaced profiles, if the index is merged; tell whether."""
    if not is_merged(connection):
        return False
    forget_meta(connection, STALE_TERMS)
    return True


def is_merged(connection: apsw.Connection) -> bool:
    """Tell whether the index has one segment at most, and that without what is marked as deleted.

    FTS5 drops that when it merges into the highest level of all; levels never become fewer.
    """
    block = connection.execute(_STRUCTURE).get
    try:
        levels = segments_by_level(block)
    except (Damage, TypeError):
        return False
    return sum(levels) <= 1 and (not any(levels) or levels[-1] == 1)


def segments_by_level(block: bytes) -> list[int]:
    """Return how many segments are on each level, the lowest first.

    Raises:
        Damage: The record does not end where its numbers do.
    """
    at, end = _COOKIE_BYTES, len(block)
    numbers = 3
    if block[at : at + len(_WITH_TOMBSTONES)] == _WITH_TOMBSTONES:
        at, numbers = at + len(_WITH_TOMBSTONES), 8
    count, at = varint(block, at, end)
    for _ in range(2):  # of all segments, and how much was written
        _, at = varint(block, at, end)
    levels = []
    for _ in range(count):
        _, at = varint(block, at, end)  # of the segments that are being merged
        segments, at = varint(block, at, end)
        levels.append(segments)
        for _ in range(segments * numbers):
            _, at = varint(block, at, end)
    return levels
