"""Blocks that an author wants nobody to keep: ``<private>`` to ``</private>``."""

import re

_TAG = re.compile(r"<(/?)private(?:\s[^<>]*+)?>", re.I)


def without_private(text: str) -> str:
    """Return a text without the blocks that its author wants nobody to keep.

    A block may hold others; one that is not closed goes on to the end.

    >>> without_private("a <private>b <private>c</private> d</private> e")
    'a   e'
    """
    if "<" not in text or "<private" not in text.lower():
        return text
    parts = []
    place = depth = 0
    for tag in _TAG.finditer(text):
        if not tag[1]:
            if depth == 0:
                parts.append(text[place : tag.start()])
            depth += 1
        elif depth > 0:
            depth -= 1
            place = tag.end()
    if depth == 0:
        parts.append(text[place:])
    # A blank, or the words before and after a block could be a tag together.
    return " ".join([*parts, ""] if depth else parts)
