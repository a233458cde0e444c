"""The free parts of pages: what SQLite calls unused, and nothing that it uses."""

import random
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from plait.stores.sqlite import slack
from plait.stores.sqlite.pages import HEADER_BYTES

_UNUSED = "SELECT pageno, unused FROM dbstat WHERE pagetype <> 'overflow' ORDER BY pageno"
FREE_BLOCK, MOST_FRAGMENTS = 4, 60


def busy_file(path: Path, seed: int, page_size: int, *, secure: bool) -> dict[int, int]:
    """Write and delete rows of all lengths in every kind of tree; return unused bytes by page."""
    dice = random.Random(seed)
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA page_size = {page_size}").fetchall()
    connection.execute(f"PRAGMA secure_delete = {'ON' if secure else 'OFF'}").fetchall()
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)")
    connection.execute("CREATE TABLE keys (text TEXT PRIMARY KEY, more TEXT) WITHOUT ROWID")
    connection.execute("CREATE INDEX by_text ON rows (text)")
    for _ in range(6):
        with connection:
            for _ in range(150):
                word = "".join(dice.choices("abcdef", k=8)) * dice.choice([1, 3, 40, 400])
                connection.execute("INSERT INTO rows (text) VALUES (?)", (word,))
                connection.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (word[:99], word))
            connection.execute("DELETE FROM rows WHERE id % 7 < ?", (dice.randrange(1, 6),))
            connection.execute("DELETE FROM keys WHERE text < ?", (dice.choice("abcd"),))
    unused = {page: count for page, count in connection.execute(_UNUSED)}
    connection.close()
    return unused


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
@pytest.mark.parametrize("seed", range(3))
def test_free_parts_are_what_sqlite_calls_unused(tmp_path: Path, seed: int, page_size: int) -> None:
    path = tmp_path / "busy.db"
    unused = busy_file(path, seed, page_size, secure=seed > 0)
    data = path.read_bytes()
    assert len(unused) > 5
    for number, count in unused.items():
        page = (number - 1) * page_size
        header = page + (HEADER_BYTES if number == 1 else 0)
        gap, *blocks = slack.free_parts(data, page, header, page_size)
        known = gap.end - gap.start + sum(end - start + FREE_BLOCK for start, end in blocks)
        assert 0 <= count - known <= MOST_FRAGMENTS, f"page {number}"


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_clearing_free_parts_changes_no_row(tmp_path: Path, page_size: int) -> None:
    path = tmp_path / "busy.db"
    busy_file(path, 7, page_size, secure=False)

    def dump() -> Sequence[object]:
        connection = apsw.Connection(str(path))
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        rows = connection.execute("SELECT * FROM rows ORDER BY id").fetchall()
        rows += connection.execute("SELECT * FROM keys ORDER BY text").fetchall()
        connection.close()
        return rows

    before = dump()
    data = bytearray(path.read_bytes())
    parts = list(slack.dirty_parts(bytes(data), page_size, first=True))
    assert parts
    for start, end in parts:
        data[start:end] = bytes(end - start)
    path.write_bytes(data)
    assert list(slack.dirty_parts(bytes(data), page_size, first=True)) == []
    assert dump() == before


@pytest.mark.parametrize(
    "page",
    [
        b"\x0d" + b"\x00\x00" + b"\x00\x01" + b"\x00\x02",  # the content begins in the header
        b"\x0d" + b"\x00\x00" + b"\x00\x01" + b"\xff\xff",  # or after the end
        b"\x0d" + b"\x00\x04" + b"\x00\x01" + b"\x01\x00",  # a free block among the cells' places
        b"\x0d" + b"\x01\xff" + b"\x00\x01" + b"\x01\x00",  # or over the end
        b"\x0d" + b"\x01\x00" + b"\x00\x01" + b"\x01\x00" + bytes(249) + b"\x01\x00\x00\x08",
        b"\x00\x00\x00\x07" + b"text of an overflow page",
    ],
)
def test_a_page_that_does_not_follow_the_format_is_left_alone(page: bytes) -> None:
    data = page + b"x" * (512 - len(page))
    assert list(slack.dirty_parts(data, 512, first=False)) == []
