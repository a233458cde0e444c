r"""Cut a document into passages: sections, whole code blocks, paragraphs, then sentences.

Pure and in linear time: text in, slices of that very text out. Nothing is removed or rewritten, and
the slices tile the document, so that stitching them together gives the document back. A line ends
at ``\n`` and nowhere else. Knows nothing of files, stores or embedders.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Literal, NamedTuple

from plait.errors import UsageError
from plait.types import MIN_CUT_SIZE, Cut, Passage

# Characters, not tokens. Raise `Cut.rules` whenever the same text would be cut differently.
DEFAULT_SIZE = Cut().size
DEFAULT_OVERLAP = Cut().overlap
MIN_SIZE = MIN_CUT_SIZE

Style = Literal["markdown", "plain", "rst", "org"]

# Shares of the size: where a cut may fall, and the least text a passage adds to the one before.
WINDOW_OPENS, WINDOW_CLOSES, LEAST = 0.7, 1.3, 0.3
# A piece of a cut line; less than the window is wide, so that some cut always falls into it.
PIECE = 0.5
# Sections that together stay under this share of the size may live in one passage.
TINY = 0.25
# An unclosed fence that would swallow more than this many sizes is a typing error, not a fence.
UNCLOSED_FENCE = 20
# Characters. Bounded, or one endless heading would be repeated beside every passage below it.
TITLE_LIMIT = 200
HEADING_LIMIT = 400
DEEPEST = 6

# How good it is to cut before a line. Headings need no score: they always end a passage.
FENCE, RULE, AFTER_LIST, BLANK, LIST_ITEM, SENTENCE, WORD = 80.0, 70.0, 30.0, 10.0, 1.0, 0.5, 0.1

_ITEM_MARK = r"(?:[-*+]|\d{1,9}[.)])[ \t]"
_VISIBLE = re.compile(r"\S")
_ITEM = re.compile(_ITEM_MARK)
_RULE = re.compile(r"([-*_])(?:[ \t]*+\1){2,}+[ \t\r]*+$", re.M)
_MARKS = frozenset("-*+_0123456789")
_ENDS = frozenset(".!?…。！？｡")
_SENTENCE = re.compile(r"""((?:[.!?…।॥؟۔።]["'”’)\]]*+(?=\s)|[。！？｡]++["'”’」』）)\]]*+))\s*+""")
_GAP = re.compile(r"(?<=[、，；：])\s*+|\s++")
_MARKDOWN = re.compile(
    rf"""^\ufeff?+(?:
      [ ]{{0,3}}(?P<level>\#{{1,6}}+)(?!\S)(?P<title>[^\n]*+)
    | [ \t]*+(?:{_ITEM_MARK}[ \t]*+)*+(?P<fence>`{{3,}}+(?=[^`\n]*+$)|~{{3,}}+)
    | [ ]{{0,3}}(?!{_ITEM_MARK}|[>|\#])(?P<above>(?=[^\n]*\w)\S[^\n]*+)\n
      [ ]{{0,3}}(?P<line>={{3,}}+|-{{3,}}+)[ \t\r]*+$
    )""",
    re.M | re.X,
)
_CLOSER = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t\r]*+$", re.M)
_RST = re.compile(
    r"""^\ufeff?+(?:
      (?P<over>[!-/:-@\[-`{-~])(?P=over){2,}+[ \t\r]*+\n
      [ \t]*+(?P<framed>(?=[^\n]*\w)\S[^\n]*+)\n(?P=over){3,}+[ \t\r]*+$
    | (?P<title>(?=[^\n]*\w)\S[^\n]*+)\n(?P<run>(?P<under>[!-/:-@\[-`{-~])(?P=under){2,}+)[ \t\r]*+$
    )""",
    re.M | re.X,
)
_ORG = re.compile(r"^\ufeff?(\*++)[ \t]++([^\n]*+)", re.M)


class _Heading(NamedTuple):
    start: int
    body: int
    level: int
    title: str


class _Section(NamedTuple):
    """Text under one heading; ``body`` is where its heading lines end."""

    start: int
    body: int
    end: int
    heading: str


class _Block(NamedTuple):
    """Text that is not cut: a line, a piece of one, or a fence. ``stop`` ends its visible part."""

    start: int
    stop: int
    score: float
    kind: Literal["line", "piece", "fence"] = "line"


class _Closer(NamedTuple):
    start: int
    end: int
    length: int
    longest_from_here: int


# Start and end of every stretch that must stay whole.
_Fences = dict[int, int]
_Outline = tuple[list[_Heading], _Fences]


def chunk(
    text: str,
    *,
    size: int = DEFAULT_SIZE,
    overlap: int = DEFAULT_OVERLAP,
    style: Style = "markdown",
) -> list[Passage]:
    r"""Cut a text into passages of about ``size`` characters that tile it without a gap.

    >>> guide = "# Guide\nRead this.\n\n## Setup\n" + "Plug it in. " * 5 + "\n"
    >>> [(p.heading, p.start_line, p.end_line) for p in chunk(guide, size=100, overlap=0)]
    [('Guide', 1, 2), ('Guide > Setup', 4, 5)]

    A fenced block stays in one passage whatever its size; anything else keeps its visible text
    within 1.3 times ``size``. The overlap starts at a line, sentence or word of the same section.

    Args:
        text: The document, front matter included or not.
        size: Characters aimed at.
        overlap: Most characters of a passage that are repeated at the start of the next one.
        style: How headings and fences are written; ``plain`` knows neither.

    Raises:
        UsageError: Size, overlap or style make no sense.
    """
    _check(size, overlap, style)
    if not text or text.isspace():
        return []
    headings, fences = _OUTLINES[style](text, size)
    found: list[tuple[int, int, str]] = []
    group = 0
    for section in _sections(text, headings):
        joined = _join(found[-1][2], section.heading) if found else ""
        if found and section.end - group <= size * TINY and len(joined) <= HEADING_LIMIT:
            found[-1] = (found[-1][0], section.end, joined)
            continue
        group = section.start
        spans = _split(text, section, _blocks(text, section, fences), size, overlap)
        found.extend((start, end, section.heading) for start, end in spans)
    return _passages(text, found)


def _check(size: int, overlap: int, style: str) -> None:
    if size < MIN_SIZE:
        raise UsageError(f"Chunk size {size} is too small; give at least {MIN_SIZE} characters.")
    if not 0 <= overlap < size / 2:
        raise UsageError(
            f"Overlap {overlap} does not suit chunk size {size}; "
            f"give 0 to {(size - 1) // 2} characters."
        )
    if style not in _OUTLINES:
        raise UsageError(f"Unknown text style {style!r}; give one of {', '.join(_OUTLINES)}.")


def _join(heading: str, another: str) -> str:
    """Name both sections; what stands before the first heading has no name.

    >>> _join("Guide > Setup", "Guide > Usage")
    'Guide > Setup; Guide > Usage'
    """
    return f"{heading}; {another}" if heading and another else heading or another


def _passages(text: str, found: list[tuple[int, int, str]]) -> list[Passage]:
    passages = []
    line, counted = 1, 0
    for ordinal, (start, end, heading) in enumerate(found):
        body = text[start:end]
        first = end - len(body.lstrip())
        line += text.count("\n", counted, first)
        counted = first
        last = line + text.count("\n", first, start + len(body.rstrip()))
        passages.append(Passage(body, heading, line, last, start, ordinal))
    return passages


# Outlines: where the headings are, and what must stay whole.


def _outline_plain(text: str, size: int) -> _Outline:
    return [], {}


def _outline_markdown(text: str, size: int) -> _Outline:
    headings: list[_Heading] = []
    fences: _Fences = {}
    closers = _closers(text)
    at = front_matter(text)[1]
    # A line here starts a paragraph even without a blank line above it.
    fresh = at
    while found := _MARKDOWN.search(text, at):
        at = found.end()
        start = found.start()
        if fence := found["fence"]:
            end = _fence_end(closers[fence[0]], len(fence), at)
            if end is None and len(text) - start <= UNCLOSED_FENCE * size:
                end = len(text)
            if end is not None:
                fences[start] = at = fresh = end
        elif found["level"]:
            title = _title(text, *found.span("title"), closing="#")
            fresh = _line_end(text, at)
            headings.append(_Heading(start, fresh, len(found["level"]), title))
        elif start == fresh or _blank_above(text, start):
            level = 1 if found["line"][0] == "=" else 2
            fresh = _line_end(text, at)
            title = _title(text, *found.span("above"))
            headings.append(_Heading(start, fresh, level, title))
    return headings, fences


def _closers(text: str) -> dict[str, list[_Closer]]:
    """Lines that may close a fence, last one first, so that the next one is popped in no time."""
    closers: dict[str, list[_Closer]] = {"`": [], "~": []}
    for found in reversed(list(_CLOSER.finditer(text))):
        later = closers[found[1][0]]
        length = len(found[1])
        longest = max(length, later[-1].longest_from_here) if later else length
        later.append(_Closer(found.start(), _line_end(text, found.end()), length, longest))
    return closers


def _fence_end(closers: list[_Closer], length: int, after: int) -> int | None:
    while closers and closers[-1].start < after:
        closers.pop()
    # Asking for the longest first keeps a thousand unclosed fences from each reading to the end.
    if not closers or closers[-1].longest_from_here < length:
        return None
    while closers[-1].length < length:
        closers.pop()
    return closers[-1].end


def _outline_rst(text: str, size: int) -> _Outline:
    headings = []
    # In this format a level is whatever underline comes first, second, third …
    levels: dict[str, int] = {}
    for found in _RST.finditer(text):
        framed = found["over"] is not None
        title = _title(text, *found.span("framed" if framed else "title"))
        if not framed and len(found["run"]) < len(title):
            continue
        mark = found["over"] * 2 if framed else found["under"]
        level = min(levels.setdefault(mark, len(levels) + 1), DEEPEST)
        headings.append(_Heading(found.start(), _line_end(text, found.end()), level, title))
    return headings, {}


def _outline_org(text: str, size: int) -> _Outline:
    headings = []
    for found in _ORG.finditer(text):
        title = _title(text, *found.span(2))
        level = min(len(found[1]), DEEPEST)
        headings.append(_Heading(found.start(), _line_end(text, found.end()), level, title))
    return headings, {}


_OUTLINES: dict[Style, Callable[[str, int], _Outline]] = {
    "markdown": _outline_markdown,
    "plain": _outline_plain,
    "rst": _outline_rst,
    "org": _outline_org,
}


def _line_end(text: str, at: int) -> int:
    """Where the line around ``at`` ends, its newline included."""
    return text.find("\n", at) + 1 or len(text)


def _blank_above(text: str, start: int) -> bool:
    above = text[text.rfind("\n", 0, start - 1) + 1 : start]
    return not above or above.isspace()


def _title(text: str, start: int, end: int, closing: str = "") -> str:
    title = " ".join(text[start : min(end, start + 2 * TITLE_LIMIT)].split())
    bare = title.rstrip(closing) if closing else title
    # "C#" keeps its sign; only a run set apart by a space closes a heading.
    if bare != title and (not bare or bare[-1] == " "):
        title = bare.rstrip()
    if len(title) > TITLE_LIMIT:
        kept = title[:TITLE_LIMIT]
        title = (kept.rpartition(" ")[0] or kept) + "…"
    return title


def _sections(text: str, headings: list[_Heading]) -> Iterator[_Section]:
    start = body = 0
    heading = ""
    path: list[_Heading] = []
    for index, each in enumerate(headings):
        before = text[body : each.start]
        empty = not before or before.isspace()
        # A heading with nothing under it but its own subheading is not a section of its own.
        leads_here = empty and (not index or headings[index - 1].level < each.level)
        if not leads_here:
            yield _Section(start, body, each.start, heading)
            start = each.start
        body = each.body
        while path and path[-1].level >= each.level:
            path.pop()
        path.append(each)
        heading = " > ".join(step.title for step in path if step.title)
    yield _Section(start, body, len(text), heading)


# Blocks: what lies between two possible cuts.


def _blocks(text: str, section: _Section, fences: _Fences) -> Iterator[_Block]:
    at, end = section.start, section.end
    stop = 0
    listed = after_fence = False
    # Heading lines and the line after them stay together: a heading alone answers nothing.
    settled = False
    while found := _VISIBLE.search(text, at, end):
        visible = found.start()
        start = text.rfind("\n", at, visible) + 1 or at
        fence = fences.get(start)
        if fence is not None:
            score, listed = FENCE, False
        else:
            gap = start > at
            score, listed = _score(text, visible, visible > start, gap, listed)
            if after_fence:
                score = FENCE
            elif not (score or gap) and text[stop - 1] in _ENDS:
                score = SENTENCE
        if score > LIST_ITEM and text[stop - 1] in ":：":
            # What announces a list or a piece of code stays with it.
            score = LIST_ITEM
        at = fence or text.find("\n", visible, end) + 1 or end
        stop = at
        while text[stop - 1].isspace():
            stop -= 1
        yield _Block(start, stop, score if settled else 0.0, "fence" if fence else "line")
        settled = settled or start >= section.body
        after_fence = fence is not None


def _score(text: str, visible: int, indented: bool, gap: bool, listed: bool) -> tuple[float, bool]:
    """How good a cut before this line is, and whether it belongs to a list."""
    if text[visible] in _MARKS:
        if _RULE.match(text, visible):
            return RULE, False
        if _ITEM.match(text, visible):
            return (BLANK if gap and not listed else LIST_ITEM), True
    if not gap:
        return 0.0, listed
    if not listed:
        return BLANK, False
    return (0.0, True) if indented else (AFTER_LIST, False)


def _pieces(text: str, line: _Block, limit: int) -> Iterator[_Block]:
    """Cut a line after its sentences; too long a sentence after a word, a comma, or anywhere."""
    start, score = line.start, line.score
    for stop, following, next_score in _cuts(text, line, limit):
        yield _Block(start, stop, score, "piece")
        start, score = following, next_score
    yield _Block(start, line.stop, score, "piece")


def _cuts(text: str, line: _Block, limit: int) -> Iterator[tuple[int, int, float]]:
    at = next(_VISIBLE.finditer(text, line.start)).start()
    for found in _SENTENCE.finditer(text, at, line.stop):
        if found.end() == line.stop:
            break
        yield from _cuts_in_sentence(text, at, found.end(1), limit)
        at = found.end()
        yield found.end(1), at, SENTENCE
    yield from _cuts_in_sentence(text, at, line.stop, limit)


def _cuts_in_sentence(text: str, at: int, end: int, limit: int) -> Iterator[tuple[int, int, float]]:
    if end - at <= limit:
        return
    gaps = (found.span() for found in _GAP.finditer(text, at, end))
    last_stop = last = at
    for stop, following in chain(gaps, [(end, end)]):
        while stop - at > limit:
            if last > at:
                yield last_stop, last, WORD
                at = last
            else:
                at = last = _between_characters(text, at + limit)
                yield at, at, 0.0
        last_stop, last = stop, following


def _between_characters(text: str, cut: int) -> int:
    """The nearest place at or before ``cut`` that does not part a letter from its marks."""
    for place in range(cut, cut - 8, -1):
        if unicodedata.category(text[place])[0] != "M":
            return place
    return cut


# Packing blocks into passages.


def _split(
    text: str, section: _Section, blocks: Iterator[_Block], size: int, overlap: int
) -> Iterator[tuple[int, int]]:
    """Start and end of each passage of a section."""
    sources = [blocks]
    held: list[_Block] = []
    # The first blocks held, this many, are those repeated from the passage before.
    repeated = 0
    start = section.start
    while sources:
        block = next(sources[-1], None)
        if block is None:
            sources.pop()
            continue
        held.append(block)
        while block.stop - held[0].start > size * WINDOW_CLOSES:
            too_long = block.stop - block.start > size * WINDOW_CLOSES
            cut = _best_cut(held, repeated, size)
            if cut is not None:
                yield start, held[cut].start
                held, repeated = _repeat(text, section, held, cut, overlap)
            elif block.kind == "line" and (too_long or not repeated):
                sources.append(_pieces(text, held.pop(), int(size * PIECE)))
                break
            elif repeated:
                del held[:repeated]
                repeated = 0
            else:
                break
            start = held[0].start
    yield start, section.end


def _best_cut(held: list[_Block], repeated: int, size: int) -> int | None:
    """Which block should start the next passage; ``None`` while there is no decent place."""
    origin, new = held[0].start, held[repeated].start
    best = early = paragraph = late = None
    # Only a piece behind a very deep indent finds no other place.
    if held[-1].kind == "piece" and len(held) > repeated + 1:
        late = len(held) - 1
    best_value = (-1.0, 0.0)
    for index in range(repeated + 1, len(held)):
        block = held[index]
        reach = block.start - origin
        if reach > size * WINDOW_CLOSES:
            late = index
        elif reach >= size * WINDOW_OPENS:
            distance = abs(reach - size) / (size * (WINDOW_CLOSES - WINDOW_OPENS))
            value = (block.score * (1 - distance * distance), -distance)
            if value > best_value:
                best, best_value = index, value
        elif block.score and block.start - new >= size * LEAST:
            early = index
            if block.score >= BLANK:
                paragraph = index
    # A list or paragraph that fills the window moves whole into the next passage.
    order = (best, paragraph) if best_value[0] > LIST_ITEM else (paragraph, best)
    return next((index for index in (*order, early, late) if index is not None), None)


def _repeat(
    text: str, section: _Section, held: list[_Block], cut: int, overlap: int
) -> tuple[list[_Block], int]:
    """Blocks of the next passage, and how many of them repeat the end of this one."""
    following = held[cut:]
    earliest = max(following[0].start - overlap, section.body, held[0].start + 1)
    first = cut
    for index in range(cut - 1, 0, -1):
        block = held[index]
        if block.start < earliest:
            break
        # subtle: a piece of an endless word starts in the middle of it.
        if block.score or text[block.start - 1].isspace():
            first = index
    if first < cut:
        return held[first:], cut - first
    before = held[cut - 1]
    if before.kind != "fence":
        earliest = max(earliest, before.start)
        for boundary in (_SENTENCE, _GAP):
            found = boundary.search(text, earliest, before.stop)
            if found and found.end() < before.stop:
                return [before._replace(start=found.end()), *following], 1
    return following, 0


# Front matter: a small part of YAML and TOML, enough for titles, dates and tags.

_FRONT = re.compile(r"\ufeff?(---|\+\+\+)[ \t\r]*\n")
_YAML_KEY = re.compile(
    r"""("[^"]*"|'[^']*'|[^\s\-#\[\]{}"'][^\n]{0,63}?)[ \t]*:(?:[ \t]+(.*)|$)""", re.S
)
_TOML_KEY = re.compile(r"""("[^"]*"|'[^']*'|[\w.-]{1,64})[ \t]*=[ \t]*(.*)""", re.S)
_TABLE = re.compile(r"\[{1,2}([^\[\]]+)\]{1,2}$")
_LIST_VALUE = re.compile(
    r"""\s*+("(?:[^"\\]|\\.)*+"|'(?:[^']|'')*+'|[^,"'][^,]*+)\s*(?:,|$)""", re.S
)


def front_matter(text: str) -> tuple[dict[str, str | list[str]], int]:
    r"""Read the block of values at the head of a note; give them and the block's length.

    What is nested deeper than a list stays as it was written. A block that holds anything but
    values is no front matter.

    >>> front_matter("---\ntitle: 'Keys'\ntags: [ssh, ops]\n---\nRotate them.\n")
    ({'title': 'Keys', 'tags': ['ssh', 'ops']}, 39)
    >>> front_matter("No front matter.")
    ({}, 0)
    """
    opening = _FRONT.match(text)
    if not opening:
        return {}, 0
    toml = opening[1] == "+++"
    closings = ("+++",) if toml else ("---", "...")
    entries: list[tuple[str, list[str]]] = []
    table = ""
    at = opening.end()
    while at < len(text):
        end = _line_end(text, at)
        line = text[at:end].rstrip()
        at = end
        if line in closings:
            return {key: _value(lines) for key, lines in entries}, at
        if toml and (header := _TABLE.match(line)):
            table = header[1].strip() + "."
        elif key := (_TOML_KEY if toml else _YAML_KEY).match(line):
            entries.append((table + _scalar(key[1]), [key[2] or ""]))
        elif line and line[0] in " \t-]})" and entries:
            entries[-1][1].append(line)
        elif line and line[0] != "#":
            break
    return {}, 0


def _value(lines: list[str]) -> str | list[str]:
    head, rest = lines[0].strip(), lines[1:]
    if head[:1] not in ("|", ">"):
        rest = [line for line in rest if not line.lstrip().startswith("#")]
    if rest and head[:1] not in ("", "|", ">", "#"):
        head, rest = " ".join([head, *(line.strip() for line in rest)]), []
    if head.startswith("[") and (items := _inline_list(head)) is not None:
        return items
    if not rest:
        return _scalar(head)
    bare = [line.strip() for line in rest]
    if head[:1] in ("", "#") and all(line[:2] in ("-", "- ") for line in bare):
        return [_scalar(line[1:].strip()) for line in bare]
    if head[:1] == ">":
        return " ".join(bare)
    margin = min(len(line) - len(line.lstrip()) for line in rest)
    return "\n".join(line[margin:] for line in rest)


def _inline_list(value: str) -> list[str] | None:
    """The values between brackets; ``None`` when there is more to it than a plain list."""
    inside, bracket, comment = value[1:].rpartition("]")
    if not bracket or "[" in inside or "{" in inside or comment.strip()[:1] not in ("", "#"):
        return None
    items = []
    at = 0
    while _VISIBLE.search(inside, at):
        found = _LIST_VALUE.match(inside, at)
        if not found:
            return None
        items.append(_scalar(found[1]))
        at = found.end()
    return items


def _scalar(value: str) -> str:
    value = value.strip()
    quote = value[:1]
    if quote in ("'", '"') and (end := value.rfind(quote)):
        if value[end + 1 :].strip()[:1] in ("", "#"):
            inside = value[1:end]
            return inside.replace("''", "'") if quote == "'" else inside.replace('\\"', '"')
        return value
    return "" if quote == "#" else value.partition(" #")[0].rstrip()


def first_heading(text: str) -> str:
    """The first Markdown heading of a text; empty where it has none."""
    headings, _ = _outline_markdown(text, DEFAULT_SIZE)
    return headings[0].title if headings else ""
