"""Files of JSON lines that grow: read the rest, or all again when the beginning changed.

A mark holds the size and time of the file, an offset at which a turn begins, and a hash of the
bytes before it. The same bytes before the offset mean that the file only grew. A time alone does
not tell: a file may be cut and grow again, or be restored with its old time.
"""

import errno
import json
import os
from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import IO, Any

from plait.agents.histories import Bookmark
from plait.facts.masking import masked
from plait.types.records import NamedTuple

# Bytes. A longer line holds an image or a whole file, and is left out; it is never held in memory.
LONGEST_LINE = 32 * 1024 * 1024
# Bytes after which a batch ends with the next turn, however few messages: a hook that is killed
# after a second must have written some.
FAR_BYTES = 200_000
_BLOCK = 1024 * 1024
_DIGEST = 16
BOM = b"\xef\xbb\xbf"
# What readers keep as texts, and as lists of texts.
_TEXTS, _LISTS = ("branch", "id", "kind", "root"), ("folders", "turns")
_DECODER = json.JSONDecoder()  # `json.loads` looks at its options for every line


class Line(NamedTuple):
    """A record of a file; ``None`` where a line cannot be read, ``reason`` says why."""

    record: dict[str, Any] | None
    start: int
    reason: str = ""


class JsonLines:
    """One pass over a file, from a mark or from its beginning."""

    def __init__(self, path: str, mark: Bookmark | None) -> None:
        self.path = path
        # What the reader keeps beside the place, such as the folder. It is stored as it is, so it
        # holds no words of a session: they may be secret, private, or purged later.
        self.state: dict[str, Any] = {}
        self.from_start = True
        self._hash = blake2b(digest_size=_DIGEST)
        self._start = 0
        self._seen: tuple[int, int] | None = None
        if mark is not None and _is_sound(mark):
            self._seen = mark["size"], mark["time"]
            if not self.is_unchanged:
                self._continue(mark)
        # The place to go on from, with the hash of all before it.
        self._turn = self._start, self._hash.copy()
        self._marked = self._start
        self._read_to = 0

    def _continue(self, mark: Bookmark) -> None:
        """Go on at the mark if the bytes before it are as they were."""
        hashed = blake2b(digest_size=_DIGEST)
        left = mark["offset"]
        try:
            with _opened(self.path) as file:
                while left and (block := file.read(min(left, _BLOCK))):
                    hashed.update(block)
                    left -= len(block)
        except OSError:
            return
        if not left and hashed.hexdigest() == mark["hash"]:
            self._start, self._hash = mark["offset"], hashed
            self.state = dict(mark["state"])
            self.from_start = False

    def restart(self) -> None:
        """Read from the beginning after all; what is before the mark is told by `is_known`."""
        self._read_to = self._start
        self._hash = blake2b(digest_size=_DIGEST)
        self._start, self.from_start, self.state = 0, True, {}
        self._turn = 0, self._hash.copy()
        self._marked = 0

    @property
    def is_far(self) -> bool:
        """Whether so much was read since the last mark that the next should not be far."""
        return self._turn[0] - self._marked >= FAR_BYTES

    @property
    def is_known(self) -> bool:
        """Whether all before this turn was read before the last mark, too."""
        return 0 < self._turn[0] <= self._read_to

    @property
    def is_unchanged(self) -> bool:
        """Whether size and time are those of the mark; then there is nothing to read."""
        return self._seen == size_and_time(self.path)

    def __iter__(self) -> Iterator[Line]:
        """Yield the lines. One that is still being written is left for the next time."""
        with _opened(self.path) as file:
            file.seek(self._start)
            place = self._start
            # Another process may append while this one reads: the mark must not count that.
            status = os.fstat(file.fileno())
            self._seen = None
            # The hash is over what comes before the line that was yielded last.
            before = b""
            while raw := file.readline(LONGEST_LINE):
                self._hash.update(before)
                before = raw
                size, is_whole = len(raw), raw.endswith(b"\n")
                is_long = not is_whole and size == LONGEST_LINE
                if is_long:
                    self._hash.update(raw)
                    before = b""
                while is_long and not is_whole and (rest := file.readline(_BLOCK)):
                    self._hash.update(rest)
                    size, is_whole = size + len(rest), rest.endswith(b"\n")
                line = Line(None, place, "long line") if is_long else _parsed(raw, place)
                if not is_whole and line.record is None:
                    break
                self._line = place
                place += size
                if line.record is not None or line.reason:
                    yield line
        self._seen = status.st_size, status.st_mtime_ns

    def begin_turn(self) -> None:
        """Note that a turn begins with the line that was yielded last."""
        self._turn = self._line, self._hash.copy()

    def mark(self) -> Bookmark:
        """Return where the turn began that was read last; before the end, without a size."""
        size, time = self._seen or (0, 0)
        offset, hashed = self._turn
        self._marked = offset
        return {
            "size": size,
            "time": time,
            "offset": offset,
            "hash": hashed.hexdigest(),
            "state": {**self.state, **_safe_folders(self.state)},
        }


def _safe_folders(state: dict[str, Any]) -> dict[str, list[str]]:
    """Return the folders of a session without the secrets in their names."""
    return {"folders": [masked(path)[0] for path in state["folders"]]} if "folders" in state else {}


def _is_sound(mark: Bookmark) -> bool:
    """Tell whether a mark is of the form of `JsonLines.mark`: a damaged row may hold anything."""
    offset, state = mark.get("offset"), mark.get("state")
    if not isinstance(state, dict) or not mark.keys() >= {"size", "time", "hash"}:
        return False
    lists = [state.get(name, []) for name in _LISTS]
    texts = [state[name] for name in _TEXTS if state.get(name) is not None]
    if type(offset) is not int or offset < 0 or not all(isinstance(rows, list) for rows in lists):
        return False
    return all(isinstance(text, str) for text in chain(texts, *lists))


def _opened(path: str) -> IO[bytes]:
    """Open a regular file; a pipe would make the reader wait for ever."""
    if not Path(path).is_file():
        raise FileNotFoundError(errno.ENOENT, "no regular file", path)
    return Path(path).open("rb")


def size_and_time(path: str) -> tuple[int, int] | None:
    """Return the size of a file and when it was written; ``None`` if it is missing."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _parsed(raw: bytes, place: int) -> Line:
    raw = raw.removeprefix(BOM) if place == 0 else raw
    if not raw.startswith(b"{") and not raw.strip(b" \t\r\n\0"):
        return Line(None, place)
    try:
        text = raw.decode("utf-8", "replace")
        if text.startswith("{") and text.endswith("}\n"):
            # Without a look for blanks around the record.
            record, end = _DECODER.raw_decode(text)
            if end == len(text) - 1:
                return Line(record, place)
        record = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return Line(None, place, "broken line")
    return Line(record, place) if isinstance(record, dict) else Line(None, place, "broken line")
