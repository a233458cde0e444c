"""Text that came out of this memory must not go back in as something new.

Memories that saved what they had just recalled filled up with copies of themselves. What is handed
to a model is marked by a fence with a tag that nobody can guess; what comes back without its fence
is recognised by its words. A person's own ``store`` is never questioned.
"""

import re
from collections.abc import Iterable
from os import urandom

from plait import text as words
from plait.protocols import Store
from plait.types import Document, Filter, Origin, Query

# Who saves by itself, and therefore saves what it was shown.
GUARDED: tuple[Origin, ...] = ("agent", "tool")
TAG_CHARS = 8  # 40 random bits
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_OPENING = re.compile(rf"<<plait-recall ([{_ALPHABET}]{{{TAG_CHARS}}})>>")
_ANY_FENCE = re.compile(rf"<</?plait-recall [{_ALPHABET}]{{{TAG_CHARS}}}>>")
# Share of a text's characters that must be ours before it counts as recalled.
MOSTLY = 0.8
# Characters of a cutting below which it says nothing about where it came from.
TELLING_CUT = 20
_SENTENCE_END = re.compile(r"\n|(?<=[.!?。])\s+")
_EDGES = re.compile(r"^[-*•>#\"'`\s]+|[\"'`.!?。\s]+$")
# Lines that are looked for, the longest first; each costs a keyword search of a millisecond. Of a
# new text none of the first ones is known.
PARAGRAPHS = 20
FIRST_LOOK = 3
CANDIDATES = 5
QUERY_WORDS = 24


def fence(body: str, tag: str | None = None) -> str:
    r"""Recalled text between two lines that `unfenced` knows again.

    >>> fence("We deploy on Fridays", tag="abcdefgh")
    '<<plait-recall abcdefgh>>\nWe deploy on Fridays\n<</plait-recall abcdefgh>>'
    """
    if tag is None:
        tag = "".join(_ALPHABET[byte & 31] for byte in urandom(TAG_CHARS))
    return f"<<plait-recall {tag}>>\n{body}\n<</plait-recall {tag}>>"


def unfenced(text: str) -> tuple[str, bool]:
    """What of a text stands outside of fences, and whether there was one.

    Only the closing line of the same tag ends a fence, so that recalled text cannot end its own.

    >>> unfenced("So: " + fence("We deploy on Fridays") + " I will wait.")
    ('So:  I will wait.', True)
    """
    parts = []
    rest = text
    while opening := _OPENING.search(rest):
        closing = f"<</plait-recall {opening[1]}>>"
        _, _, after = rest[opening.end() :].partition(closing)
        parts.append(rest[: opening.start()])
        rest = after
    return "".join([*parts, rest]), bool(parts)


def without_fences(text: str) -> str:
    """A text with everything in it, but for the fences themselves."""
    return _ANY_FENCE.sub("", text)


def share_known(text: str, known: Iterable[str]) -> float:
    r"""Share of a text's characters that stand, sentence by sentence, in texts that are known.

    Whole sentences only: "we deploy on Fridays" is not what "it is false that we deploy on Fridays"
    says. What an ellipsis shows to be a cutting of ours may lie inside a sentence.

    >>> share_known("- We deploy on Fridays.\nNew: Ana approves it", ["We deploy on Fridays."])
    0.5
    """
    stored = [sentence for one in known for sentence in _sentences(one)]
    whole = frozenset(stored)
    ours = total = 0
    for sentence in _sentences(text):
        bare = sentence.strip(" …")
        total += len(bare)
        cut = bare != sentence and len(bare) >= TELLING_CUT
        if sentence in whole or (cut and any(bare in one for one in stored)):
            ours += len(bare)
    return ours / total if total else 0.0


def _sentences(text: str) -> list[str]:
    """The sentences of each line, without the marks that quoting adds at their edges.

    Case counts, as it does for duplicates: a password in other letters is another fact.
    """
    found = (_EDGES.sub("", " ".join(part.split())) for part in _SENTENCE_END.split(text))
    return [sentence for sentence in found if sentence]


def known_from(store: Store, text: str, where: Filter, least: float = MOSTLY) -> Document | None:
    """The stored document that a text repeats for this share of it, if there is one."""
    paragraphs = sorted(
        (part for part in text.splitlines() if re.search(r"\w", part)), key=len, reverse=True
    )
    found: dict[int, tuple[str, Document]] = {}
    looked: list[str] = []
    for paragraph in paragraphs[:PARAGRAPHS]:
        refs = [ref for ref, _ in store.keyword(plain_query(paragraph), CANDIDATES, where)]
        for ref, (passage, document) in store.passages(refs).items():
            found[ref] = (passage.text, document)
        looked.append(paragraph)
        known = [said for said, _ in found.values()]
        if len(looked) == FIRST_LOOK and not share_known("\n".join(looked), known):
            return None
    share = share_known("\n".join(looked), known) if looked else 0.0
    if not share or share < least:
        return None
    return max(found.values(), key=lambda row: share_known(text, [row[0]]))[1]


def plain_query(text: str) -> Query:
    """A text as a bag of words: no quote or AND in it is an operator."""
    return words.parse(" ".join(re.findall(r"\w+", text.lower())[:QUERY_WORDS]))
