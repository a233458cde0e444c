"""The free parts of SQLite's pages, which may still contain what was deleted.

``secure_delete`` overwrites a row where it stood. But when SQLite rebuilds a page to make room, it
moves rows and leaves their old copies in the part of the page that is free from then on
(https://sqlite.org/fileformat2.html#b_tree_pages).
"""

from collections.abc import Iterator
from struct import Struct

from plait.stores.sqlite.pages import HEADER_BYTES, LARGEST_PAGE, PAGE_HEADERS
from plait.types.records import NamedTuple

# A file of more pages could have an overflow page that begins like a page of rows: its first byte
# is the highest of a page number. 128 GiB at 4 KiB a page.
MOST_PAGES = 0x0200_0000
_FIELDS = Struct(">HHH")  # first free block, number of cells, where their content begins
_FREE_BLOCK = Struct(">HH")  # the next one, the length of this one
ZEROS = bytes(LARGEST_PAGE)


class Span(NamedTuple):
    """Bytes from ``start`` to ``end``, exclusive."""

    start: int
    end: int


def dirty_parts(data: bytes, page_size: int, *, first: bool) -> Iterator[Span]:
    """Yield the free parts of consecutive pages that are not zero.

    ``first``: the data begins with the first page of the file. A page that does not follow the
    format is left alone; `doctor` reports it.
    """
    for page in range(0, len(data), page_size):
        header = page + (HEADER_BYTES if first and not page else 0)
        if data[header] in PAGE_HEADERS:
            for start, end in free_parts(data, page, header, page_size):
                if not data.startswith(ZEROS[: end - start], start, end):
                    yield Span(start, end)


def free_parts(data: bytes, page: int, header: int, page_size: int) -> list[Span]:
    """Return the free parts of one page: the gap above its cells, and the blocks between them."""
    block, cells, content = _FIELDS.unpack_from(data, header + 1)
    content = page + (content or LARGEST_PAGE)
    end = page + page_size
    gap = Span(header + PAGE_HEADERS[data[header]] + 2 * cells, content)
    if not gap.start <= gap.end <= end:
        return []
    parts = [gap]
    while block:
        place = page + block
        if not content <= place <= end - _FREE_BLOCK.size:
            return []
        after, length = _FREE_BLOCK.unpack_from(data, place)
        if place + length > end or (after and after < block + length):
            return []
        parts.append(Span(place + _FREE_BLOCK.size, place + length))
        block = after
    return parts
