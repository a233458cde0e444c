r"""Find the outline of a text: where its headings are, and which fences must stay whole.

There is one function per style of markup; ``size`` is the passage size that the text is cut for.
Pure and in linear time. A line ends at ``\n`` and nowhere else.
"""

import re
from functools import lru_cache

from plait.text.front_matter import front_matter
from plait.types.records import NamedTuple

# In passage sizes. A longer fence without an end is a typing error, and its text is not kept whole.
MAX_UNCLOSED_FENCE = 20
# Characters. Without a limit, an endless heading would be stored with every passage below it.
MAX_TITLE_CHARS = 200
MAX_HEADING_LEVEL = 6

# The start of a list item, as a regular expression.
ITEM_MARK = r"(?:[-*+]|\d{1,9}[.)])[ \t]"
_MARKDOWN_LINE = re.compile(
    rf"""^\ufeff?+(?:
      [ ]{{0,3}}(?P<level>\#{{1,6}}+)(?!\S)(?P<title>[^\n]*+)
    | [ \t]*+(?:{ITEM_MARK}[ \t]*+)*+(?P<fence>`{{3,}}+(?=[^`\n]*+$)|~{{3,}}+)
    | [ ]{{0,3}}(?!{ITEM_MARK}|[>|\#])(?P<above>(?=[^\n]*\w)\S[^\n]*+)\n
      [ ]{{0,3}}(?P<line>={{3,}}+|-{{3,}}+)[ \t\r]*+$
    )""",
    re.M | re.X,
)
# A text without them has no heading and no fence.
_MARKDOWN_SIGNS = ("#", "```", "~~~", "===", "---")
_FENCE_CLOSER = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t\r]*+$", re.M)
_RST_HEADING = re.compile(
    r"""^\ufeff?+(?:
      (?P<over>[!-/:-@\[-`{-~])(?P=over){2,}+[ \t\r]*+\n
      [ \t]*+(?P<framed>(?=[^\n]*\w)\S[^\n]*+)\n(?P=over){3,}+[ \t\r]*+$
    | (?P<title>(?=[^\n]*\w)\S[^\n]*+)\n(?P<run>(?P<under>[!-/:-@\[-`{-~])(?P=under){2,}+)[ \t\r]*+$
    )""",
    re.M | re.X,
)
_ORG_HEADING = re.compile(r"^\ufeff?(\*++)[ \t]++([^\n]*+)", re.M)


class Heading(NamedTuple):
    """A heading whose lines start at ``start`` and end at ``body``."""

    start: int
    body: int
    level: int
    title: str


class _Closer(NamedTuple):
    """A line that may close a fence; ``longest_from_here`` counts this and all later lines."""

    start: int
    end: int
    length: int
    longest_from_here: int


# The end of each fence by its start.
Fences = dict[int, int]
Outline = tuple[list[Heading], Fences]


def outline_plain(text: str, size: int) -> Outline:
    """Return an empty outline: plain text has neither headings nor fences."""
    return [], {}


@lru_cache(maxsize=1)  # a document is asked for its title, then for its passages
def outline_markdown(text: str, size: int) -> Outline:
    """Return the headings outside front matter and fences, and the fences."""
    for sign in _MARKDOWN_SIGNS:
        if sign in text:
            break
    else:
        return [], {}
    headings: list[Heading] = []
    fences: Fences = {}
    closers = _closers(text)
    at = front_matter(text)[1]
    # A line that starts here starts a paragraph, even without a blank line above it.
    paragraph = at
    while match := _MARKDOWN_LINE.search(text, at):
        at = match.end()
        start = match.start()
        if fence := match["fence"]:
            end = _fence_end(closers[fence[0]], len(fence), at)
            if end is None and len(text) - start <= MAX_UNCLOSED_FENCE * size:
                end = len(text)
            if end is not None:
                fences[start] = at = paragraph = end
        elif match["level"]:
            title = _title(text, *match.span("title"), closing="#")
            paragraph = _line_end(text, at)
            headings.append(Heading(start, paragraph, len(match["level"]), title))
        elif start == paragraph or _blank_above(text, start):
            level = 1 if match["line"][0] == "=" else 2
            paragraph = _line_end(text, at)
            title = _title(text, *match.span("above"))
            headings.append(Heading(start, paragraph, level, title))
    return headings, fences


def _closers(text: str) -> dict[str, list[_Closer]]:
    """Return the lines that may close a fence, by their sign, last line first.

    In this order the next closer is popped from the end of the list in constant time.
    """
    closers: dict[str, list[_Closer]] = {"`": [], "~": []}
    for match in reversed(list(_FENCE_CLOSER.finditer(text))):
        later = closers[match[1][0]]
        length = len(match[1])
        longest = max(length, later[-1].longest_from_here) if later else length
        later.append(_Closer(match.start(), _line_end(text, match.end()), length, longest))
    return closers


def _fence_end(closers: list[_Closer], length: int, after: int) -> int | None:
    while closers and closers[-1].start < after:
        closers.pop()
    # Without the check for the longest, each of many unclosed fences would search to the end.
    if not closers or closers[-1].longest_from_here < length:
        return None
    while closers[-1].length < length:
        closers.pop()
    return closers[-1].end


def outline_rst(text: str, size: int) -> Outline:
    """Return the underlined headings of reStructuredText."""
    headings = []
    # The first kind of underline is level 1, the next new kind level 2, and so on.
    levels: dict[str, int] = {}
    for match in _RST_HEADING.finditer(text):
        framed = match["over"] is not None
        title = _title(text, *match.span("framed" if framed else "title"))
        if not framed and len(match["run"]) < len(title):
            continue
        mark = match["over"] * 2 if framed else match["under"]
        level = min(levels.setdefault(mark, len(levels) + 1), MAX_HEADING_LEVEL)
        headings.append(Heading(match.start(), _line_end(text, match.end()), level, title))
    return headings, {}


def outline_org(text: str, size: int) -> Outline:
    """Return the starred headings of Org mode."""
    headings = []
    for match in _ORG_HEADING.finditer(text):
        title = _title(text, *match.span(2))
        level = min(len(match[1]), MAX_HEADING_LEVEL)
        headings.append(Heading(match.start(), _line_end(text, match.end()), level, title))
    return headings, {}


def _line_end(text: str, at: int) -> int:
    """Return where the line around ``at`` ends, including its newline."""
    return text.find("\n", at) + 1 or len(text)


def _blank_above(text: str, start: int) -> bool:
    above = text[text.rfind("\n", 0, start - 1) + 1 : start]
    return not above or above.isspace()


def _title(text: str, start: int, end: int, closing: str = "") -> str:
    title = " ".join(text[start : min(end, start + 2 * MAX_TITLE_CHARS)].split())
    bare = title.rstrip(closing) if closing else title
    # "C#" keeps its sign: only signs after a space close a heading.
    if bare != title and (not bare or bare[-1] == " "):
        title = bare.rstrip()
    if len(title) > MAX_TITLE_CHARS:
        kept = title[:MAX_TITLE_CHARS]
        title = (kept.rpartition(" ")[0] or kept) + "…"
    return title
