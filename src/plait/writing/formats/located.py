"""Where the strings of a JSON file are: the lines that an editor shows."""

import json
import re
from collections.abc import Sequence

# How often the length of the file may be looked through in vain: a string may be written in
# another way than ours.
_MOST_IN_VAIN = 50
_SPACE = re.compile(r"[ \t\n\r]*+")
_DECODER = json.JSONDecoder()


class Lines:
    """Finds the lines of strings that are asked for in the order of the file.

    ``starts`` are the places of a list's items; after `enter`, only one of them is looked through.
    """

    def __init__(self, source: str, starts: Sequence[int] = ()) -> None:
        self._source = source
        self._starts = [*starts, len(source)]
        self._at = 0
        self._line = 1
        self._until = len(source)
        self._vain = 0
        # A program writes all strings of a file in one way, so one look through it is enough.
        self._ascii_only = source.isascii()
        self._slashes = "\\/" in source

    def enter(self, number: int) -> int:
        """Go to an item, counted from 0, and return its line; items are entered in order."""
        if number < len(self._starts) - 1:
            self._go_to(max(self._at, self._starts[number]))
            self._until = self._starts[number + 1]
        return self._line

    def of(self, text: str) -> int:
        """Return the line of a string's beginning; that of the one before if it is not there."""
        if self._vain > _MOST_IN_VAIN * len(self._source) or not text.strip():
            return self._line
        written = json.dumps(text, ensure_ascii=self._ascii_only)[1:-1]
        if self._slashes:
            written = written.replace("/", "\\/")
        place = self._source.find(written, self._at, self._until)
        if place < 0:
            self._vain += self._until - self._at
            return self._line
        self._go_to(place)
        line = self._line
        # An equal string further down is another one.
        self._at += len(written)
        return line

    def _go_to(self, place: int) -> None:
        self._line += self._source.count("\n", self._at, place)
        self._at = place


def parsed(text: str) -> object:
    """Return the value of a JSON text, or ``None`` if it is none or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def starts_of(source: str, name: str) -> list[int]:
    r"""Return where the items of a list begin: that of this name in an object, or the whole text.

    >>> starts_of('{"a": 1, "list": [{}, "x"]}', "list"), starts_of("[1,\n2]", "")
    ([18, 22], [1, 4])

    Args:
        source: A JSON text that can be parsed.
        name: The name of the list.
    """
    starts: list[int] = []
    at = _after_space(source, 0)
    if source[at] == "[":
        return _items(source, at)
    at = _after_space(source, at + 1)
    while source[at] != "}":
        key, at = _DECODER.raw_decode(source, at)
        at = _after_space(source, _after_space(source, at) + len(":"))
        if key == name:
            starts = _items(source, at) if source[at] == "[" else []
        at = _next(source, at)
    return starts


def _items(source: str, at: int) -> list[int]:
    starts = []
    at = _after_space(source, at + 1)
    while source[at] != "]":
        starts.append(at)
        at = _next(source, at)
    return starts


def _next(source: str, at: int) -> int:
    """Return the place after a value and its comma."""
    _, at = _DECODER.raw_decode(source, at)
    at = _after_space(source, at)
    return _after_space(source, at + 1) if source[at] == "," else at


def _after_space(source: str, at: int) -> int:
    match = _SPACE.match(source, at)
    return at if match is None else match.end()
