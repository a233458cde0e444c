"""One spelling for a text whose accents can be written in two ways. Pure, in linear time.

Names are composed when they are stored: keys of notes, names of entities and projects, topics,
types, tags, sessions and metadata. Paths, and keys of files, stay as the file system gives them. So
whatever looks a name up tries its spellings.
"""

import re
import unicodedata
from collections.abc import Iterable

_CONTROLS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
MAX_MARKS = 30  # Accents on one letter; UAX 15 allows as many in a stream.


def composed(text: str) -> str:
    """Return a text in the form NFC, in which an accented letter is one character.

    A text with endless accents on one letter stays as it is: nobody reads it, and sorting them
    takes quadratic time (https://unicode.org/reports/tr15/#Stream_Safe_Text_Format).

    >>> composed("cafe\u0301") == "caf\u00e9"
    True
    """
    if text.isascii() or unicodedata.is_normalized("NFC", text) or _has_endless_accents(text):
        return text
    return unicodedata.normalize("NFC", text)


def compatible(text: str) -> str:
    """Return a text in the form NFKC, in which ``ﬁ`` is ``fi``; endless accents stay, as above."""
    if text.isascii() or _has_endless_accents(text):
        return text
    return unicodedata.normalize("NFKC", text)


def spellings(name: str) -> tuple[str, ...]:
    """Return a name as it was given, composed, and decomposed, as macOS writes file names.

    >>> spellings("plain"), len(spellings("caf\u00e9"))
    (('plain',), 2)
    """
    if name.isascii() or _has_endless_accents(name):
        return (name,)
    forms = (unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name))
    return tuple(dict.fromkeys((name, *forms)))


def without_controls(name: str) -> str:
    r"""Return a name without control characters and line breaks, each replaced by a mark.

    >>> without_controls("acme\x1b[2J\n")
    'acme\ufffd[2J\ufffd'
    """
    return "".join("\ufffd" if unicodedata.category(mark) in _CONTROLS else mark for mark in name)


def without_unseen(text: str, instead: str = "") -> str:
    r"""Return a text without the characters that nobody sees; line breaks and tabs stay.

    >>> without_unseen("ig\u200bnore\n")
    'ignore\n'
    """
    return "".join(
        mark if mark in "\n\t" or unicodedata.category(mark) not in _CONTROLS else instead
        for mark in text
    )


# Letters and a symbol that look like a blank, or like nothing.
_BLANKS = "\u115f\u1160\u2800\u3164\uffa0"
# Tags: a second ASCII that nobody sees and a model reads.
_TAGS = re.compile("[\U000e0020-\U000e007e]+")
_FIRST_TAG = 0xE0000


def as_read(text: str, instead: str = "") -> str:
    r"""Return a text as a model may read it: no accents, hidden letters shown, other marks gone.

    >>> as_read("\u00edg\ufe0fnore"), as_read("\U000e0069\U000e0067")
    ('ignore', 'ig')
    """

    def shown(tags: re.Match[str]) -> str:
        return instead + "".join(chr(ord(tag) - _FIRST_TAG) for tag in tags[0]) + instead

    text = _TAGS.sub(shown, text.translate(dict.fromkeys(map(ord, _BLANKS), instead)))
    # subtle: without marks first, as sorting endless ones takes quadratic time.
    text = _without_marks(text)
    return without_unseen(_without_marks(unicodedata.normalize("NFKD", text)), instead)


def _without_marks(text: str) -> str:
    return "".join(mark for mark in text if unicodedata.category(mark)[0] != "M")


def all_spellings(names: Iterable[str]) -> list[str]:
    """Return the spellings of several names.

    >>> all_spellings(["a", "b"])
    ['a', 'b']
    """
    return [form for name in names for form in spellings(name)]


def _has_endless_accents(text: str) -> bool:
    marks = {letter for letter in set(text) if unicodedata.category(letter)[0] == "M"}
    run = 0
    for letter in text if marks else "":
        run = run + 1 if letter in marks else 0
        if run > MAX_MARKS:
            return True
    return False
