"""Tell whether a journal belongs to the file beside it, before SQLite replays it.

SQLite does not ask. The frames of a write-ahead log carry the salts of the log's own header, but
nothing in the database names its log: after ``cp backup.db memory.db`` SQLite replays the old
``memory.db-wal`` onto the backup, page by page, and calls the result malformed.

So plait keeps a lineage. Every commit stores a new random number and the one of the commit before
it, ``NEW:OLD``, in a row of ``meta``. The root of ``meta`` is page 2: it is the first table of the
schema, and VACUUM keeps that order. The journal therefore contains page 2 of every commit, and
only checkpoints change the file. While the two belong together, the number in page 2 of the file is

- the predecessor of the journal's first commit, if no checkpoint has reached it yet, or
- the number of one of the journal's commits, if a checkpoint has.

Any other number means that the file was replaced. Change counter, size and schema cookie cannot
tell that: copies of one memory may agree in all of them. The rule survives kills and power cuts,
because SQLite syncs the journal before it writes the file, and the file before it reuses the
journal. A power cut may leave half of page 2 in the file, which the journal then repairs, or half
of a commit in the journal, which SQLite ignores. So a number contains its own checksum, the first
commit of a journal must have SQLite's, and what cannot be read proves nothing.

A plain copy of the file from the moment at which the journal begins is the file that the journal
continues: nothing but times could tell, and after a power cut the file may have a later time than
the journal although none of its pages was written. To refuse it would mean to refuse real crashes.

A backup and a restored memory get a number of their own; a plain copy of the file keeps its number
and is recognised by it.

A file of a plait without lineage has no number. The migration gives it one and empties the journal,
so that "no number" fits no journal from then on. Until then the change counter of page 1 must do:
the first version of page 1 in a journal has the counter of the file or the next one, because SQLite
sets it to one more than it last read, and a checkpoint brings the counter of a later version.
"""

import os
import stat
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import apsw

from plait.errors import StoreDamaged, StoreError, UsageError, advise
from plait.stores.sqlite import pages

LINEAGE = "lineage"
LOOKS = 5  # Another process may be writing what is read here: a mismatch must last.
_RANDOM = 16  # characters of a number that are random
_NUMBER = 24  # and with their checksum
# A commit writes its number and its predecessor's.
RECORD_COMMIT = (
    f"INSERT INTO meta (name, value) VALUES ('{LINEAGE}', ?1 || ':') ON CONFLICT (name) "  # noqa: S608
    f"DO UPDATE SET value = ?1 || ':' || substr(value, 1, {_NUMBER})"
)
_HEADER_PAGE = 1
_META_PAGE = 2
_CHANGE_COUNTER, _SCHEMA_COOKIE = 24, 40  # their places in page 1
WAL_HEADER = 32
FRAME_HEADER = 24
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_ROLLBACK_MAGIC = bytes.fromhex("d9d505f920a163d7")


def jitter(longest: float) -> float:
    """Return seconds to pause; importing ``random`` would cost every search 2 ms."""
    return longest * (1 + os.urandom(1)[0]) / 256


def patiently(act: Callable[[], object], timeout: float) -> None:
    """Repeat an act while others hold the lock, with jitter, so that processes take turns."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            act()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(jitter(0.01))
        else:
            return


def record_commit(connection: apsw.Connection) -> str:
    """Give the current transaction its number."""
    random = os.urandom(_RANDOM // 2).hex()
    number = random + _checksum(random)
    connection.execute(RECORD_COMMIT, (number,))
    return number


def mark_changed(connection: apsw.Connection) -> None:
    """Make a change that SQLite counts, for a commit that would get no number without one."""
    connection.execute("UPDATE meta SET value = value")


def number_in(connection: apsw.Connection) -> str:
    """Return the number of the latest commit that a connection sees; empty if there is none."""
    value = connection.execute(f"SELECT value FROM meta WHERE name = '{LINEAGE}'").get  # noqa: S608
    return str(value or "")[:_NUMBER]


def _checksum(random: str) -> str:
    first, second = _sums(random.encode(), (0, 0), "big")
    return f"{first ^ second:08x}"


def belongs(path: str, vfs: str | None = None) -> bool | None:
    """Tell whether the journal beside a file is its own; ``None`` if that cannot be told.

    It cannot be told of an empty journal. A file that no checkpoint has reached may be a copy of
    what was there when the journal began: then another program may have changed its tables since.
    If neither has a number, their change counters must fit.
    """
    number, sought = None, list[bytes]()
    for place, candidate in enumerate(_journal_numbers(path, vfs, sought)):
        if number is None:
            # subtle: after the beginning of the journal, which only a checkpoint of all of it can
            # change; one that reaches the file now leaves a number that comes later in the journal.
            number = file_number(path, vfs)
            if number is None:
                return None
            sought.append(number.encode())
        if candidate == number:
            if place == 0 and _is_newer(path, vfs):
                return False
            return bool(number) or _counters_fit(path, vfs)
    return None if number is None else False


def has_commit(path: str, number: str, vfs: str | None = None) -> bool:
    """Tell whether the journal beside a file has the commit with a number."""
    return number != "" and number in _journal_numbers(path, vfs)


def _counters_fit(path: str, vfs: str | None) -> bool:
    """Tell whether the change counter of a file without a number fits its journal."""
    counter = None
    for page in _journal_pages(path + "-wal", vfs, _HEADER_PAGE):
        candidate = _integer(page, _CHANGE_COUNTER)
        if counter is None:
            counter = _file_integer(path, _CHANGE_COUNTER, vfs)
            if counter in (None, candidate - 1):
                return True
        if candidate == counter:
            return True
    return counter is None


def _is_newer(path: str, vfs: str | None) -> bool:
    """Tell whether a file has a newer schema than its journal, which never lowers it."""
    cookie = _file_integer(path, _SCHEMA_COOKIE, vfs)  # first: a journal may grow meanwhile
    pages = _journal_pages(path + "-wal", vfs, _HEADER_PAGE)
    latest = max((_integer(page, _SCHEMA_COOKIE) for page in pages), default=cookie)
    return cookie is not None and latest is not None and cookie > latest


def foreign_journal(path: str) -> StoreDamaged:
    """Return the error for a file whose journal belongs to another file."""
    return StoreDamaged(
        f"The journal {path}-wal belongs to another file than {path}, which was replaced. plait "
        "did not apply it.",
        code="foreign_journal",
        subject=path,
        advice=advise("set_journal_aside"),
    )


def check_beside(path: str, vfs: str | None = None) -> None:
    """Refuse a file, or a journal beside it, that SQLite must not meet.

    A rollback journal, which plait has only on network disks, ends with the magic number if it
    names a super-journal. SQLite up to 3.53 deletes whatever file is named there. plait attaches no
    databases, so that no journal of its own names one.

    Raises:
        StoreDamaged: A journal names another file.
        StoreError: Opening one of them may never end.
    """
    for ending in ("", "-wal", "-journal"):
        check_kind(path + ending)
    if _ending(path + "-journal", vfs) == _ROLLBACK_MAGIC:
        raise StoreDamaged(
            f"The journal {path}-journal is not one of plait, and could make SQLite delete other "
            f"files. plait did not open {path}. Move that journal away.",
            code="hostile_journal",
            subject=path,
        )


def refuse_orphan(path: str) -> None:
    """Refuse a name beside which a file that is gone left its journal: SQLite would apply it.

    Raises:
        UsageError: There is such a journal.
    """
    for ending in ("-wal", "-journal"):
        with suppress(OSError):
            if os.path.getsize(path + ending):
                raise UsageError(
                    f"{path}{ending} is the journal of a file that is gone, and would change "
                    f"{path}. Move it away, or choose another name.",
                    code="orphan_journal",
                    subject=path,
                )


def check_kind(path: str) -> None:
    """Refuse a pipe or a device: to open one may take forever.

    Raises:
        StoreError: It is one.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # opening it will tell
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise StoreError(
            f"{path} is a pipe or a device, not a file. plait did not open it.",
            code="not_a_file",
            subject=path,
        )


def is_hot(path: str) -> bool:
    """Tell whether the rollback journal beside a file has changes that SQLite would undo."""
    file = _open(path + "-journal", apsw.SQLITE_OPEN_MAIN_JOURNAL, None)
    if file is None:
        return False
    try:
        return _read(file, 1, 0) not in (b"", b"\0")
    finally:
        file.xClose()


def _ending(rollback: str, vfs: str | None) -> bytes:
    file = _open(rollback, apsw.SQLITE_OPEN_MAIN_JOURNAL, vfs)
    if file is None:
        return b""
    try:
        size = len(_ROLLBACK_MAGIC)
        return _read(file, size, max(0, file.xFileSize() - size))
    finally:
        file.xClose()


def _journal_numbers(path: str, vfs: str | None, sought: Sequence[bytes] = ()) -> Iterator[str]:
    """Yield the numbers that the file may have if this is its journal.

    Versions of the page without a number that is ``sought`` are left out: reading one row by row
    takes a tenth of a millisecond, and a journal may have hundreds.
    """
    is_first = True
    for page in _journal_pages(path + "-wal", vfs, _META_PAGE):
        if any(number not in page for number in sought):
            continue
        value = _lineage_in(page)
        if value is None:
            continue
        if is_first:
            is_first = False
            yield value[_NUMBER + 1 :]  # the predecessor; empty without a lineage
        yield value[:_NUMBER]


def _journal_pages(wal: str, vfs: str | None, number: int) -> Iterator[bytes]:
    """Yield the versions of one page in a journal, oldest first.

    Nothing of a journal whose beginning SQLite would reject. What comes after the first version is
    not checked: a wrong number can only make a journal look like the file's own.
    """
    file = _open(wal, apsw.SQLITE_OPEN_WAL, vfs)
    if file is None:
        return
    try:
        header = _read(file, WAL_HEADER, 0)
        if len(header) < WAL_HEADER or _integer(header, 0) not in _WAL_MAGIC:
            return
        page_size, salts = _integer(header, 8), header[16:24]
        order = "little" if _integer(header, 0) == _WAL_MAGIC[0] else "big"
        place, sums, is_first = WAL_HEADER, _sums(header[:24], (0, 0), order), True
        if sums != (_integer(header, 24), _integer(header, 28)):
            return
        while True:
            frame = _read(file, FRAME_HEADER, place)
            # Frames with other salts are left over from before the journal was last emptied.
            if len(frame) < FRAME_HEADER or frame[8:16] != salts:
                return
            is_wanted = _integer(frame, 0) == number
            page = _read(file, page_size, place + FRAME_HEADER) if is_wanted or is_first else b""
            if is_first:
                sums = _sums(frame[:8] + page, sums, order)
                if sums != (_integer(frame, 16), _integer(frame, 20)):
                    return
            if is_wanted:
                is_first = False
                yield page
            place += FRAME_HEADER + page_size
    finally:
        file.xClose()


def file_number(path: str, vfs: str | None = None) -> str | None:
    """Return the number of the latest commit in the file itself; empty if it has none yet."""
    file = _open(path, apsw.SQLITE_OPEN_MAIN_DB, vfs)
    if file is None:
        return None
    try:
        header = _read(file, 100, 0)
        if not header:
            return ""
        page_size = int.from_bytes(header[16:18], "big")
        page_size = 65_536 if page_size == 1 else page_size
        page = _read(file, page_size, page_size)
    finally:
        file.xClose()
    value = _lineage_in(page) if page else ""
    if not value:
        return value
    number = value[:_NUMBER]
    return number if _checksum(number[:_RANDOM]) == number[_RANDOM:] else None


def _file_integer(path: str, place: int, vfs: str | None) -> int | None:
    """Return an integer out of page 1 of a file; ``None`` for an empty one."""
    file = _open(path, apsw.SQLITE_OPEN_MAIN_DB, vfs)
    if file is None:
        return None
    try:
        data = _read(file, 4, place)
    finally:
        file.xClose()
    return _integer(data, 0) if data else None


def _lineage_in(page: bytes) -> str | None:
    """Return the lineage in a page of ``meta``: empty without one, ``None`` if unreadable.

    The format: https://sqlite.org/fileformat2.html#b_tree_pages
    """
    if not page or page[0] != pages.LEAF_INDEX:
        return None
    try:
        rows = [_row_at(page, cell) for cell in range(int.from_bytes(page[3:5], "big"))]
    except (IndexError, ValueError, pages.Damage):
        return None
    names = [name for name, _ in rows]
    if names != sorted(set(names)):  # half of one version of the page and half of another
        return None
    return dict(rows).get(LINEAGE, "")


def _row_at(page: bytes, cell: int) -> tuple[str, str]:
    """Return name and value of one row of ``meta``; an empty value if it goes on in other pages."""
    pointer = 8 + 2 * cell
    place = int.from_bytes(page[pointer : pointer + 2], "big")
    length, at = pages.varint(page, place, len(page))
    local = pages.local_bytes(pages.LEAF_INDEX, length, len(page))
    name, value = pages.record(page[at : at + local], length)
    if not isinstance(name, str) or not isinstance(value, str | None):
        raise pages.Damage
    return name, value or ""


def _sums(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """Continue SQLite's checksum of a journal: https://sqlite.org/fileformat2.html#checksum_algorithm."""
    first, second = sums
    if len(data) % 8:
        return -1, -1  # cut short
    words = array("I", data)
    if order != sys.byteorder:
        words.byteswap()
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


def _integer(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 4], "big")


def _open(path: str, kind: int, vfs: str | None) -> apsw.VFSFile | None:
    """Open a file through SQLite, which keeps the locks of its other connections."""
    try:
        return apsw.VFSFile(vfs or "", path, [kind | apsw.SQLITE_OPEN_READONLY, 0])
    except (apsw.Error, OSError):
        return None


def _read(file: apsw.VFSFile, amount: int, place: int) -> bytes:
    """Return bytes of a file; fewer, or none, at its end."""
    try:
        return bytes(file.xRead(amount, place))
    except (apsw.Error, OSError):
        return b""
