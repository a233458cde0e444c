"""Read the rows of a SQLite file page by page, without SQLite, which stops at the first bad page.

The format is https://sqlite.org/fileformat2.html. Every page is read by itself: no tree is
followed, so one lost page hides no other. A cell counts only if its lengths add up exactly. plait
clears what it deletes, so that no page holds rows of the past.
"""

import struct
from collections.abc import Iterator

from plait.types.records import NamedTuple

PAGE_BYTES = 4_096  # what every memory is made with
HEADER_BYTES = 100  # of the file, at the beginning of its first page
SMALLEST_PAGE, LARGEST_PAGE = 512, 65_536
INTERIOR_INDEX, INTERIOR_TABLE, LEAF_INDEX, LEAF_TABLE = 2, 5, 10, 13
# The kinds of pages that contain rows or keys, and the length of their headers.
PAGE_HEADERS = {INTERIOR_INDEX: 12, INTERIOR_TABLE: 12, LEAF_INDEX: 8, LEAF_TABLE: 8}
_WITH_RECORDS = (INTERIOR_INDEX, LEAF_INDEX, LEAF_TABLE)
# A text that is not UTF-8 comes as bytes.
Value = int | float | str | bytes | None

_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
_REAL, _ZERO, _ONE, _FIRST_BLOB = 7, 8, 9, 12
_MOST_COLUMNS = 100


class Cell(NamedTuple):
    """One row of a table (``rowid`` is set) or of an index or table without rowids."""

    rowid: int | None
    values: tuple[Value, ...]


class Damage(Exception):
    """A cell cannot be read."""


def page_sizes(data: bytes) -> list[int]:
    """Return the sizes that the pages of a file may have, the usual one first."""
    sizes = [PAGE_BYTES]
    if len(data) >= HEADER_BYTES:
        size = int.from_bytes(data[16:18], "big")
        size = LARGEST_PAGE if size == 1 else size
        if SMALLEST_PAGE <= size <= LARGEST_PAGE and size & (size - 1) == 0 and size != PAGE_BYTES:
            sizes.append(size)
    return sizes


class PageReader:
    """Reads the cells of a whole file that is in memory."""

    def __init__(self, data: bytes, size: int = PAGE_BYTES) -> None:
        """Take a file and the size of its pages."""
        self._data = data
        self._size = size
        self.unreadable = 0

    def cells(self) -> Iterator[Cell]:
        """Yield every cell that can be read; count the others in ``unreadable``."""
        for start in range(0, len(self._data), self._size):
            yield from self._cells_of(start)

    def _cells_of(self, start: int) -> Iterator[Cell]:
        data = self._data
        head = start + (HEADER_BYTES if start == 0 else 0)
        if head + 8 > len(data) or data[head] not in _WITH_RECORDS:
            return
        kind = data[head]
        count = int.from_bytes(data[head + 3 : head + 5], "big")
        first = head + PAGE_HEADERS[kind]
        count = min(count, (start + self._size - first) // 2)
        for place in range(first, first + 2 * count, 2):
            offset = int.from_bytes(data[place : place + 2], "big")
            try:
                yield self._cell(kind, start, offset)
            except (Damage, IndexError, struct.error):
                self.unreadable += 1

    def _cell(self, kind: int, start: int, offset: int) -> Cell:
        end = min(start + self._size, len(self._data))
        at = start + offset + (4 if kind == INTERIOR_INDEX else 0)
        if offset < 8 or at >= end:
            raise Damage
        length, at = varint(self._data, at, end)
        rowid = None
        if kind == LEAF_TABLE:
            rowid, at = varint(self._data, at, end)
            rowid -= 2**64 if rowid >= 2**63 else 0
        if not 0 < length <= len(self._data):
            raise Damage
        payload = self._payload(kind, at, end, length)
        return Cell(rowid, record(payload))

    def _payload(self, kind: int, at: int, end: int, length: int) -> bytes:
        """Return the bytes of a cell; long ones go on in a chain of other pages."""
        usable = self._size
        local = local_bytes(kind, length, usable)
        if local == length:
            if at + length > end:
                raise Damage
            return self._data[at : at + length]
        if at + local + 4 > end:
            raise Damage
        parts = [self._data[at : at + local]]
        page = int.from_bytes(self._data[at + local : at + local + 4], "big")
        missing = length - local
        while missing > 0:
            start = (page - 1) * usable
            if page < 2 or start + 4 > len(self._data):
                raise Damage
            part = self._data[start + 4 : start + 4 + min(missing, usable - 4)]
            if not part:
                raise Damage
            parts.append(part)
            missing -= len(part)
            page = int.from_bytes(self._data[start : start + 4], "big")
        return b"".join(parts)


def local_bytes(kind: int, length: int, usable: int) -> int:
    """Return how many bytes of a cell lie in its page; the others are in a chain of pages."""
    largest = usable - 35 if kind == LEAF_TABLE else (usable - 12) * 64 // 255 - 23
    if length <= largest:
        return length
    least = (usable - 12) * 32 // 255 - 23
    local = least + (length - least) % (usable - 4)
    return local if local <= largest else least


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    number = 0
    for place in range(at, min(at + 8, end)):
        byte = data[place]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, place + 1
    if at + 8 >= end:
        raise Damage
    return number << 8 | data[at + 8], at + 9


def record(payload: bytes, length: int | None = None) -> tuple[Value, ...]:
    """Return the values of a record; with ``length``, ``None`` for those beyond its first bytes.

    >>> record(bytes([4, 1, 15, 0, 7]) + b"x")
    (7, 'x', None)

    Raises:
        Damage: Its lengths do not add up.
    """
    size, at = varint(payload, 0, len(payload))
    if not at <= size <= len(payload):
        raise Damage
    types = []
    while at < size:
        kind, at = varint(payload, at, size)
        types.append(kind)
    if at != size or not 0 < len(types) <= _MOST_COLUMNS:
        raise Damage
    if size + sum(map(_length, types)) != (len(payload) if length is None else length):
        raise Damage
    values = []
    for kind in types:
        end = at + _length(kind)
        values.append(_value(kind, payload[at:end]) if end <= len(payload) else None)
        at = end
    return tuple(values)


def _length(kind: int) -> int:
    if kind >= _FIRST_BLOB:
        return (kind - _FIRST_BLOB) // 2
    if kind < len(_INTEGER_BYTES):
        return _INTEGER_BYTES[kind]
    if kind in (_REAL, _ZERO, _ONE):
        return 8 if kind == _REAL else 0
    raise Damage


def _value(kind: int, data: bytes) -> Value:
    if kind == 0:
        return None
    if kind == _REAL:
        return float(struct.unpack(">d", data)[0])
    if kind in (_ZERO, _ONE):
        return kind - _ZERO
    if kind < _REAL:
        return int.from_bytes(data, "big", signed=True)
    if kind % 2 == 0:
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data
