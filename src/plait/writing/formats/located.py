"""Where the strings of a JSON file are: the lines that an editor shows."""

import json

# A string that is written in another way than ours is looked for in vain through the whole file.
_MOST_MISSES = 50


class Lines:
    """Finds the lines of strings that are asked for in the order of the file."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._line = 1
        self._misses = 0

    def of(self, text: str) -> int:
        """Return the line of a string's beginning; that of the one before if it is not there."""
        if self._misses >= _MOST_MISSES or not text.strip():
            return self._line
        for ascii_only in (False, True):
            written = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            place = self._source.find(written, self._at)
            if place >= 0:
                self._line += self._source.count("\n", self._at, place)
                self._at = place
                return self._line
            if text.isascii():
                break
        self._misses += 1
        return self._line


def parsed(text: str) -> object:
    """Return the value of a JSON text, or ``None`` if it is none or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
