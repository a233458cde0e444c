"""The line of an output that tells what went wrong, and what makes two of them the same. Pure."""

import re
from zlib import crc32

# Characters of an output that are looked at, at each end: errors stand first or last.
_LOOKED_AT = 4_000
LONGEST_SHOWN = 200
# Signs in a line that it tells the error, the surest first.
_NAMED = re.compile(
    r"^(?:E {1,12}+)?+\W{0,8}+(?:\w{1,60}+(?:\.|::))*+\w{0,60}?(?:Error|Exception|Exit|Interrupt)\b"
)
# What pytest puts before the lines of an error.
_PYTEST = re.compile(r"E {1,12}+(?=\S)")
_MARKED = re.compile(r"^\W{0,8}+(?:error|fatal|panic)\b", re.I)
_TOLD = re.compile(r"\b(?:error|fatal|panic(?:ked)?|exception)\b", re.I)
_LIKELY = re.compile(
    r"\*\*\*|\b(?:not found|no (?:such|rule|module)|cannot|can't|could not|denied|refused|"
    r"undefined|unknown|invalid|missing|timed out|failed|unable)\b",
    re.I,
)
_FRAME = re.compile(
    r"Traceback \(most recent|File \"|at [\w.$<>]{1,200}+ ?\(|\s*+[\^~]++\s*+$|={4,}|-{4,}"
)
_EXIT = re.compile(r"(?:Command )?exit(?:ed with)? (?:code|status)\b|<?exited with\b", re.I)
_QUOTED = re.compile(r"\"[^\"]{0,200}\"|'[^']{0,200}'|`[^`]{0,200}`|\u2018[^\u2019]{0,200}\u2019")
_PATH = re.compile(r"(?:[A-Za-z]:)?[\w.~@+-]{0,80}+(?:[/\\][\w.@+-]{1,80}+)++[/\\]?")
_HEX = re.compile(r"\b(?:0x[0-9a-f]{1,40}|[0-9a-f]{7,64})\b", re.I)
_WORD = re.compile(r"\w++")
_NUMBER = re.compile(r"\d++(?:[.:]\d++)*+")
# Letters that are left of an error; fewer say nothing.
_FEWEST_LETTERS = 8
_FEWEST_WORDS = 3


def telling_line(output: str) -> str:
    r"""Return the line of an output that tells what went wrong; empty if it has no line.

    >>> telling_line("Traceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'x'")
    "KeyError: 'x'"
    >>> telling_line("building\nmake: *** No rule to make target 'all'.  Stop.\n")
    "make: *** No rule to make target 'all'. Stop."
    """
    if len(output) > 2 * _LOOKED_AT:
        # Whole lines only: half a line may show half a secret.
        head, tail = output[:_LOOKED_AT], output[-_LOOKED_AT:]
        head = head.rpartition("\n")[0] or head.rpartition(" ")[0] or head
        output = "\n".join((head, tail.partition("\n")[2]))
    lines = [line[:_LOOKED_AT] for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not _EXIT.match(line.strip())]
    telling = [line for line in lines if not _FRAME.match(line.strip())]
    # An exception is told last, after where it came from; other programs tell it first.
    named = next((line for line in reversed(telling) if _NAMED.search(line)), None)
    signs = (_MARKED.search, _TOLD.search, _LIKELY.search)
    first = (next(filter(sign, telling), None) for sign in signs)
    line = named or next(filter(None, first), None) or (telling or lines or [""])[0]
    return " ".join(_PYTEST.sub("", line, count=1).split() if _PYTEST.match(line) else line.split())


def short_line(text: str) -> str:
    r"""Return a text on one line, cut between words if it is long.

    >>> short_line("two\nlines"), short_line("word " * 50)[-5:], len(short_line("x" * 300))
    ('two lines', 'word…', 200)
    """
    line = " ".join(text[: 4 * LONGEST_SHOWN].split())
    if len(line) <= LONGEST_SHOWN:
        return line
    head = line[: LONGEST_SHOWN - 1]
    return (head.rpartition(" ")[0] or head) + "…"


def same_error(error: str, *, names: bool = False) -> str:
    """Return an error without what differs from one time to the next; with its quoted ``names``.

    >>> same_error("KeyError: 'x' in /srv/a.py line 12"), same_error("no 'x' at 0x7f", names=True)
    ("keyerror: '' in / line 0", "no 'x' at 0")
    """
    text = error if names else _QUOTED.sub("''", error)
    text = _NUMBER.sub("0", _HEX.sub("0", _PATH.sub("/", text)))
    return " ".join(text.casefold().split())


def has_words(error: str, words: str) -> bool:
    """Tell whether an error has all the words of another text, in any order and case.

    >>> has_words("TypeError: unsupported operand type(s) for +", "unsupported operand TypeError")
    True
    >>> has_words("KeyError: 'total'", "key"), has_words("KeyError: 'total'", "")
    (False, False)
    """
    wanted = {*_WORD.findall(words.casefold())}
    return bool(wanted) and wanted <= {*_WORD.findall(error.casefold())}


def is_sentence(error: str) -> bool:
    """Tell whether enough words are left of an error to recognise it without names and numbers.

    >>> is_sentence("column '' cannot be cast"), is_sentence("keyerror: '' 0 0")
    (True, False)
    """
    return sum(map(str.isalpha, _WORD.findall(error))) >= _FEWEST_WORDS


def failure_of(error: str) -> int | None:
    """Return the number of an error, the same for those that `same_error` cannot tell apart.

    ``None`` if it says too little to be recognised.
    """
    same = same_error(error)
    if sum(letter.isalpha() for letter in same) < _FEWEST_LETTERS:
        return None
    return crc32(same.encode("utf-8", "replace"))
