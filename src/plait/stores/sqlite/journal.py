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

A backup and a restored memory get a number of their own; a plain copy of the file keeps its number
and is recognised by it.
"""

import os
import sys
from array import array
from collections.abc import Iterator

import apsw

from plait.errors import StoreDamaged, advise

LINEAGE = "lineage"
_RANDOM = 16  # characters of a number that are random
_NUMBER = 24  # and with their checksum
# A commit writes its number and its predecessor's.
RECORD_COMMIT = (
    f"INSERT INTO meta (name, value) VALUES ('{LINEAGE}', ?1 || ':') ON CONFLICT (name) "  # noqa: S608
    f"DO UPDATE SET value = ?1 || ':' || substr(value, 1, {_NUMBER})"
)
_META_PAGE = 2
_WAL_HEADER = 32
_FRAME_HEADER = 24
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_INDEX_LEAF = 0x0A  # the kind of page that holds rows of a small table WITHOUT ROWID


def record_commit(connection: apsw.Connection) -> None:
    """Give the current transaction its number."""
    random = os.urandom(_RANDOM // 2).hex()
    connection.execute(RECORD_COMMIT, (random + _checksum(random),))


def number_in(connection: apsw.Connection) -> str:
    """Return the number of the latest commit that a connection sees; empty if there is none."""
    value = connection.execute(f"SELECT value FROM meta WHERE name = '{LINEAGE}'").get  # noqa: S608
    return str(value or "")[:_NUMBER]


def _checksum(random: str) -> str:
    first, second = _sums(random.encode(), (0, 0), "big")
    return f"{first ^ second:08x}"


def belongs(path: str, vfs: str | None = None) -> bool | None:
    """Tell whether the journal beside a file is its own; ``None`` if that cannot be told.

    It cannot be told of an empty journal, and of one that a plait without lineage wrote.
    """
    number = None
    for candidate in _journal_numbers(path, vfs):
        if number is None:
            # subtle: after the beginning of the journal, which only a checkpoint of all of it can
            # change; one that reaches the file now leaves a number that comes later in the journal.
            number = file_number(path, vfs)
            if number is None:
                return None
        if candidate == number:
            return True
    return None if number is None else False


def foreign_journal(path: str) -> StoreDamaged:
    """Return the error for a file whose journal belongs to another file."""
    return StoreDamaged(
        f"The journal {path}-wal belongs to another file than {path}, which was replaced. plait "
        "did not apply it.",
        code="foreign_journal",
        subject=path,
        advice=advise("set_journal_aside"),
    )


def _journal_numbers(path: str, vfs: str | None) -> Iterator[str]:
    """Yield the numbers that the file may have if this is its journal."""
    is_first = True
    for page in _journal_pages(path + "-wal", vfs):
        value = _lineage_in(page)
        if value is None:
            continue
        if is_first:
            is_first = False
            yield value[_NUMBER + 1 :]  # the predecessor; empty without a lineage
        yield value[:_NUMBER]


def _journal_pages(wal: str, vfs: str | None) -> Iterator[bytes]:
    """Yield the versions of the page with ``meta`` in a journal, oldest first.

    Nothing of a journal whose beginning SQLite would reject. What comes after the first version is
    not checked: a wrong number can only make a journal look like the file's own.
    """
    file = _open(wal, apsw.SQLITE_OPEN_WAL, vfs)
    if file is None:
        return
    try:
        header = _read(file, _WAL_HEADER, 0)
        if len(header) < _WAL_HEADER or _integer(header, 0) not in _WAL_MAGIC:
            return
        page_size, salts = _integer(header, 8), header[16:24]
        order = "little" if _integer(header, 0) == _WAL_MAGIC[0] else "big"
        place, sums, is_first = _WAL_HEADER, _sums(header[:24], (0, 0), order), True
        if sums != (_integer(header, 24), _integer(header, 28)):
            return
        while True:
            frame = _read(file, _FRAME_HEADER, place)
            # Frames with other salts are left over from before the journal was last emptied.
            if len(frame) < _FRAME_HEADER or frame[8:16] != salts:
                return
            is_meta = _integer(frame, 0) == _META_PAGE
            page = _read(file, page_size, place + _FRAME_HEADER) if is_meta or is_first else b""
            if is_first:
                sums = _sums(frame[:8] + page, sums, order)
                if sums != (_integer(frame, 16), _integer(frame, 20)):
                    return
            if is_meta:
                is_first = False
                yield page
            place += _FRAME_HEADER + page_size
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


def _lineage_in(page: bytes) -> str | None:
    """Return the lineage in a page of ``meta``: empty without one, ``None`` if unreadable.

    The format: https://sqlite.org/fileformat2.html#b_tree_pages
    """
    if not page or page[0] != _INDEX_LEAF:
        return None
    try:
        rows = [_row_at(page, cell) for cell in range(int.from_bytes(page[3:5], "big"))]
    except (IndexError, ValueError):
        return None
    names = [name for name, _ in rows]
    if names != sorted(set(names)):  # half of one version of the page and half of another
        return None
    return dict(rows).get(LINEAGE, "")


def _row_at(page: bytes, cell: int) -> tuple[str, str]:
    """Return name and value of one row of ``meta``; fails if the bytes are not such a row."""
    pointer = 8 + 2 * cell
    size, record = _varint(page, int.from_bytes(page[pointer : pointer + 2], "big"))
    header, at = _varint(page, record)
    name_kind, at = _varint(page, at)
    value_kind, at = _varint(page, at)
    middle = at + (name_kind - 13) // 2  # an odd kind from 13 on is a text of this length
    end = middle + (value_kind - 13) // 2
    if at != record + header or end != record + size or not (name_kind & value_kind & 1):
        raise ValueError("not a row of two texts")
    if end > len(page):  # a long value, which goes on in other pages
        return page[at:middle].decode(), ""
    return page[at:middle].decode(), page[middle:end].decode()


def _varint(page: bytes, place: int) -> tuple[int, int]:
    """Return a variable-length integer and where it ends."""
    value = 0
    for length in range(1, 10):
        byte = page[place + length - 1]
        if length == 9:
            return value << 8 | byte, place + length
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value, place + length


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
