"""Tell whether a text copies another, word for word, however it is wrapped, quoted or punctuated.

Used to keep text that was shown as untrusted from coming back as trusted. A paraphrase is not a
copy: nobody can tell it from a text of one's own. `plait.writing.echoes` looks up the sources.
"""

import re
from collections.abc import Iterator, Sequence

# Words. A run this long does not occur in two texts by chance; a shorter sentence counts whole.
RUN_WORDS = 8
# Characters. "Yes." or "See below." does not tell where it came from.
SHORTEST_COPY = 20
# Words of one keyword query, and how far the next one begins behind it: no run falls between.
WINDOW_WORDS = 24
WINDOW_STEP = WINDOW_WORDS - RUN_WORDS
_WORD = re.compile(r"\w+")
# The full stops and marks of Chinese and Japanese need no space behind them.
_END = re.compile(r"(?<![.!?])[.!?]++(?=\s|$)|[\u3002\uff01\uff1f]")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


# A part of a text, small enough for one query: the words of a sentence, or some of a longer one.
Window = tuple[str, ...]


def windows(text: str, *, by_line: bool = False) -> list[Window]:
    r"""Return the parts of a text; repeated ones once.

    Sentences are read across lines, as in a paragraph, or line by line, as in a list.

    >>> [" ".join(window) for window in windows("It is up. Ana\nsays so.")]
    ['it is up', 'ana says so']
    """
    ends = "\n" if by_line else _BLANK_LINE
    parts: dict[Window, None] = {}
    for unit in re.split(ends, text):
        for sentence in _END.split(unit):
            parts.update(dict.fromkeys(_of_sentence(sentence)))
    return list(parts)


def _of_sentence(sentence: str) -> Iterator[Window]:
    words = tuple(_WORD.findall(sentence.casefold()))
    if words:
        for start in range(0, max(1, len(words) - RUN_WORDS + 1), WINDOW_STEP):
            yield words[start : start + WINDOW_WORDS]


class Original:
    """A stored text, to compare others with."""

    def __init__(self, text: str) -> None:
        words = _WORD.findall(text.casefold())
        self._text = f" {' '.join(words)} "
        self._runs = _runs(words)

    def copied_by(self, window: Window) -> frozenset[str]:
        """Return what a window copies: runs of words, or all of a shorter sentence."""
        if len(window) >= RUN_WORDS:
            return _runs(window) & self._runs
        sentence = " ".join(window)
        return frozenset({sentence} if f" {sentence} " in self._text else ())


def _runs(words: Sequence[str]) -> frozenset[str]:
    places = range(len(words) - RUN_WORDS + 1)
    return frozenset(" ".join(words[place : place + RUN_WORDS]) for place in places)


def tells(window: Window) -> bool:
    """Tell whether a copied part is long enough to show where it came from.

    >>> tells(("yes",)), tells(("the", "password", "is", "hunter2"))
    (False, True)
    """
    return len(" ".join(window)) >= SHORTEST_COPY
