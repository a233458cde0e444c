"""Take out of a message what a program put in: its own memories, reminders, pasted context.

Blocks of other programs are taken out only at the head of a message, because people quote their
tags when they talk about them. What plait itself injected is taken out wherever it is.
"""

import re
from collections.abc import Sequence
from html import unescape

from plait.agents.hooks.prompts import OPENING_TAG
from plait.agents.private import without_private
from plait.facts.echo import unfenced

# What plait puts around recalled text, as Gemini CLI stores it.
_ESCAPED_FENCE = re.compile(r"&lt;&lt;(/?)plait-recall ([a-z2-7]{8})&gt;&gt;")
# Halves of a fence may be left that are one together. Nobody writes so: a text with more is none.
_MOST_NESTED = 8
# Before a plan that a model wrote and the user only agreed to: it goes into a new session as the
# user's words.
_PLANS = (
    "Implement the following plan:",
    "PLEASE IMPLEMENT THIS PLAN:",
    "A previous agent produced the plan below",
)
_FILLED = re.compile(r"\S")
# Of a tag that nobody knows yet, only the name is certain: its attributes may hold anything.
_TAG_NAME = re.compile(r"<([A-Za-z][^\s<>/]{0,100}+)[\s>]")


def without_own(text: str) -> str:
    r"""Return a text without memories that plait injected, raw or escaped.

    >>> fenced = "<<plait-recall abcdefgh>>\nWe deploy on Fridays\n<</plait-recall abcdefgh>>"
    >>> without_own(f"{fenced}\nwhen is it due?")
    'when is it due?'
    """
    if "plait-recall" not in text:
        return text
    for _ in range(_MOST_NESTED):
        before = text
        text = unfenced(_ESCAPED_FENCE.sub(r"<<\1plait-recall \2>>", text))[0]
        if text == before:
            return text.strip()
    return ""


def without_head(text: str, tags: Sequence[str], lines: Sequence[str] = ()) -> str:
    r"""Return a text without the blocks and lines that a program put before it.

    >>> without_head("<note>x</note>\n<note>y</note> why?", ["note"])
    'why?'
    >>> without_head("what does <note>x</note> mean?", ["note"])
    'what does <note>x</note> mean?'

    A block ends where its tag ends last: it may hold a file with the same tag.
    """
    place = 0
    while True:
        start = _FILLED.search(text, place)
        if start is None:
            return ""
        place = start.start()
        tag = OPENING_TAG.match(text, place)
        if tag is not None and tag[1] in tags:
            closing = f"</{tag[1]}>"
            end = text.rfind(closing, tag.end())
            if end < 0:
                return text[place:].rstrip()
            place = end + len(closing)
        elif any(text.startswith(line, place) for line in lines):
            end = text.find("\n", place)
            place = len(text) if end < 0 else end
        else:
            return text[place:].rstrip()


def holds_block(text: str, tags: Sequence[str]) -> bool:
    """Tell whether a text may hold a block of a program, cut off or behind other words.

    Where it ends, nobody knows. The text is kept, but it is not known to be the user's. People
    quote tags within their lines.
    """
    return any(
        text.startswith(f"<{tag}") or f"\n<{tag}" in text or text.endswith(f"</{tag}>")
        for tag in tags
    )


def opens_with_block(text: str) -> bool:
    """Tell whether a text begins with a block, whatever its tag.

    Programs get new tags, and what a person puts there was pasted.

    >>> opens_with_block("<open_tabs>a.py</open_tabs> why?"), opens_with_block("<3 it. Why </b>?")
    (True, False)
    """
    text = without_private(text).lstrip()
    tag = _TAG_NAME.match(text)
    return tag is not None and f"</{tag[1]}>" in text


def is_plan(text: str) -> bool:
    """Tell whether a text is a plan of a model, sent as the words of the user who agreed to it."""
    return text.startswith(_PLANS)


def inner(text: str, tag: str) -> str:
    """Return what is between a tag and its end; empty if there is none.

    >>> inner("<command-args>fix &amp; push</command-args>", "command-args")
    'fix & push'
    """
    _, opened, rest = text.partition(f"<{tag}>")
    body, closed, _ = rest.partition(f"</{tag}>")
    return unescape(body).strip() if opened and closed else ""
