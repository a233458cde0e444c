r"""Cut a document into passages: sections, whole code blocks, paragraphs, then sentences.

Pure and in linear time. Each passage is a slice of the text. Nothing is removed or rewritten, and
the slices leave no gap: joined without their overlaps, they give the document back. A line ends at
``\n`` and nowhere else. Knows nothing of files, stores or embedders.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Literal

from plait.errors import UsageError
from plait.types import MIN_CUT_SIZE, Cut, Passage
from plait.types.records import NamedTuple
from plait.writing.definitions import outline_code
from plait.writing.outlines import (
    ITEM_MARK,
    Fences,
    Heading,
    Outline,
    outline_markdown,
    outline_org,
    outline_plain,
    outline_rst,
)

# Characters, not tokens. Raise `Cut.rules` with every change that cuts the same text differently.
DEFAULT_SIZE = Cut().size
DEFAULT_OVERLAP = Cut().overlap

Style = Literal[
    "markdown", "plain", "rst", "org", "python", "javascript", "go", "rust", "java", "c", "ruby",
    "php", "shell", "sql",
]  # fmt: skip

# Shares of the size: where a cut may fall, and how much new text a passage has at least.
WINDOW_OPENS, WINDOW_CLOSES, MIN_NEW_TEXT = 0.7, 1.3, 0.3
# Length of a piece of a long line, as a share of the size. It is shorter than the window is wide,
# so at least one cut always falls into the window.
PIECE_LENGTH = 0.5
# Neighbouring sections share a passage if together they stay below this share of the size.
TINY_SECTIONS = 0.25
# Sections stop sharing a passage when their joined headings would be longer, in characters.
MAX_HEADING_CHARS = 400
# Every passage of a section repeats the headings above it. Six of the longest fit: Markdown has six
# levels, Org mode has no limit.
MAX_BREADCRUMB_CHARS = 1_250
_STEP = " > "

# How good it is to cut before a line of this kind. Headings have no score: they always end a
# passage.
_FENCE_SCORE = 80.0
_RULE_SCORE = 70.0
_AFTER_LIST_SCORE = 30.0
_PARAGRAPH_SCORE = 10.0
_ITEM_SCORE = 1.0
_SENTENCE_SCORE = 0.5
_WORD_SCORE = 0.1

_VISIBLE = re.compile(r"\S")
_ITEM = re.compile(ITEM_MARK)
_RULE = re.compile(r"([-*_])(?:[ \t]*+\1){2,}+[ \t\r]*+$", re.M)
_MARK_CHARACTERS = frozenset("-*+_0123456789")
_SENTENCE_ENDS = frozenset(".!?…。！？｡")
_SENTENCE = re.compile(r"""((?:[.!?…।॥؟۔።]["'”’)\]]*+(?=\s)|[。！？｡]++["'”’」』）)\]]*+))\s*+""")
_GAP = re.compile(r"(?<=[、，；：])\s*+|\s++")
_OUTLINES: dict[Style, Callable[[str, int], Outline]] = {
    "markdown": outline_markdown,
    "plain": outline_plain,
    "rst": outline_rst,
    "org": outline_org,
    "python": partial(outline_code, "python"),
    "javascript": partial(outline_code, "javascript"),
    "go": partial(outline_code, "go"),
    "rust": partial(outline_code, "rust"),
    "java": partial(outline_code, "java"),
    "c": partial(outline_code, "c"),
    "ruby": partial(outline_code, "ruby"),
    "php": partial(outline_code, "php"),
    "shell": partial(outline_code, "shell"),
    "sql": partial(outline_code, "sql"),
}


class _Section(NamedTuple):
    """The text under one heading; ``body`` is where the heading lines end."""

    start: int
    body: int
    end: int
    heading: str


class _Block(NamedTuple):
    """Text that is never cut: a line, a piece of a line, or a fence.

    ``stop`` is the end of its visible text, ``score`` how good it is to cut before it.
    """

    start: int
    stop: int
    score: float
    kind: Literal["line", "piece", "fence"] = "line"


class _Span(NamedTuple):
    """A passage before its text is taken and its lines are counted."""

    start: int
    end: int
    heading: str


def chunk(
    text: str,
    *,
    size: int = DEFAULT_SIZE,
    overlap: int = DEFAULT_OVERLAP,
    style: Style = "markdown",
) -> list[Passage]:
    r"""Cut a text into passages of about ``size`` characters, without a gap between them.

    >>> guide = "# Guide\nRead this.\n\n## Setup\n" + "Plug it in. " * 5 + "\n"
    >>> [(p.heading, p.start_line, p.end_line) for p in chunk(guide, size=100, overlap=0)]
    [('Guide', 1, 2), ('Guide > Setup', 4, 5)]

    A fenced block is never cut, whatever its size. The visible text of any other passage is at most
    1.3 times ``size`` long. An overlap starts at a line, sentence or word of the same section.

    Args:
        text: The document, with or without its front matter.
        size: The number of characters to aim at.
        overlap: The most characters that a passage repeats from the end of the one before.
        style: How headings and fences are written; ``plain`` has neither.

    Raises:
        UsageError: The size or overlap is out of range, or the style is unknown.
    """
    _check(size, overlap, style)
    if not text or text.isspace():
        return []
    headings, fences = _OUTLINES[style](text, size)
    if not headings and len(text) <= size * WINDOW_CLOSES:
        return _passages(text, [(0, len(text), "")])  # most messages
    spans: list[_Span] = []
    group_start = 0
    for section in _sections(text, headings):
        joined = _join(spans[-1].heading, section.heading) if spans else ""
        is_tiny = section.end - group_start <= size * TINY_SECTIONS
        if spans and is_tiny and len(joined) <= MAX_HEADING_CHARS:
            spans[-1] = _Span(spans[-1].start, section.end, joined)
            continue
        group_start = section.start
        blocks = _blocks(text, section, fences)
        for start, end in _split(text, section, blocks, size, overlap):
            spans.append(_Span(start, end, section.heading))
    return _passages(text, spans)


def first_heading(text: str, style: Style = "markdown") -> str:
    """Return the first heading of a text, or an empty string."""
    headings, _ = _OUTLINES[style](text, DEFAULT_SIZE)
    return headings[0].title if headings else ""


def title_of_file(text: str) -> str:
    r"""Return the heading that is the title of a Markdown file, or an empty string.

    Many notes have none, because their file has a name: the first heading is then that of their
    first section. It is a title if it is of level 1, or begins the text and is alone of its level.

    >>> title_of_file("Intro.\n\n# Boat"), title_of_file("## Hotel\n\nx\n\n## Food"), \
    ... title_of_file("## Boat\n\n### Sails")
    ('Boat', '', 'Boat')
    """
    headings, _ = outline_markdown(text, DEFAULT_SIZE)
    if not headings:
        return ""
    first = headings[0]
    alone = all(heading.level > first.level for heading in headings[1:])
    begins = not text[: first.start].strip()
    return first.title if first.level == 1 or (begins and alone) else ""


def _check(size: int, overlap: int, style: str) -> None:
    if size < MIN_CUT_SIZE:
        raise UsageError(
            f"Chunk size {size} is too small; give at least {MIN_CUT_SIZE} characters.",
            code="bad_chunk_size",
            subject=str(size),
        )
    if not 0 <= overlap < size / 2:
        raise UsageError(
            f"Overlap {overlap} does not fit chunk size {size}; "
            f"give 0 to {(size - 1) // 2} characters.",
            code="bad_overlap",
            subject=str(overlap),
        )
    if style not in _OUTLINES:
        raise UsageError(
            f"Unknown text style {style!r}; give one of {', '.join(_OUTLINES)}.",
            code="unknown_style",
            subject=style,
        )


def _join(heading: str, another: str) -> str:
    """Return both headings; text before the first heading has none.

    >>> _join("Guide > Setup", "Guide > Usage")
    'Guide > Setup; Guide > Usage'
    """
    return f"{heading}; {another}" if heading and another else heading or another


def _passages(text: str, spans: Sequence[tuple[int, int, str]]) -> list[Passage]:
    passages = []
    line, counted = 1, 0
    for ordinal, (start, end, heading) in enumerate(spans):
        body = text[start:end]
        first = end - len(body.lstrip())
        line += text.count("\n", counted, first)
        counted = first
        last = line + text.count("\n", first, start + len(body.rstrip()))
        passages.append(Passage(body, heading, line, last, start, ordinal))
    return passages


def _sections(text: str, headings: list[Heading]) -> Iterator[_Section]:
    start = body = 0
    breadcrumb = ""
    path: list[Heading] = []
    for index, heading in enumerate(headings):
        before = text[body : heading.start]
        empty = not before or before.isspace()
        # A heading directly above its own subheading shares that section.
        leads_here = empty and (not index or headings[index - 1].level < heading.level)
        if not leads_here:
            yield _Section(start, body, heading.start, breadcrumb)
            start = heading.start
        body = heading.body
        while path and path[-1].level >= heading.level:
            path.pop()
        path.append(heading)
        breadcrumb = _breadcrumb(path)
    yield _Section(start, body, len(text), breadcrumb)


def _breadcrumb(path: list[Heading]) -> str:
    """Return the headings of a section, the outermost first; of too many, the innermost.

    >>> steps = [Heading(0, 0, level, f"{level:0>200}") for level in range(1, 99)]
    >>> len(_breadcrumb(steps[:6])), len(_breadcrumb(steps))
    (1215, 1215)
    """
    titles: list[str] = []
    left = MAX_BREADCRUMB_CHARS
    for step in reversed(path):
        left -= len(step.title) + len(_STEP)
        if left < 0:
            break
        if step.title:
            titles.append(step.title)
    return _STEP.join(reversed(titles))


# Blocks: the text between two possible cuts.


def _blocks(text: str, section: _Section, fences: Fences) -> Iterator[_Block]:
    at, end = section.start, section.end
    stop = 0
    in_list = after_fence = False
    # Heading lines stay with the line after them: a heading alone answers no question.
    below_heading = False
    while match := _VISIBLE.search(text, at, end):
        visible = match.start()
        start = text.rfind("\n", at, visible) + 1 or at
        fence = fences.get(start)
        if fence is not None:
            score, in_list = _FENCE_SCORE, False
        else:
            gap = start > at
            score, in_list = _score(text, visible, visible > start, gap, in_list)
            if after_fence:
                score = _FENCE_SCORE
            elif not (score or gap) and text[stop - 1] in _SENTENCE_ENDS:
                score = _SENTENCE_SCORE
        if score > _ITEM_SCORE and text[stop - 1] in ":：":
            # The line that introduces a list or a code block stays with it.
            score = _ITEM_SCORE
        at = fence or text.find("\n", visible, end) + 1 or end
        stop = at
        while text[stop - 1].isspace():
            stop -= 1
        yield _Block(start, stop, score if below_heading else 0.0, "fence" if fence else "line")
        below_heading = below_heading or start >= section.body
        after_fence = fence is not None


def _score(text: str, visible: int, indented: bool, gap: bool, in_list: bool) -> tuple[float, bool]:
    """Return how good a cut before this line is, and whether the line belongs to a list."""
    if text[visible] in _MARK_CHARACTERS:
        if _RULE.match(text, visible):
            return _RULE_SCORE, False
        if _ITEM.match(text, visible):
            return (_PARAGRAPH_SCORE if gap and not in_list else _ITEM_SCORE), True
    if not gap:
        return 0.0, in_list
    if not in_list:
        return _PARAGRAPH_SCORE, False
    return (0.0, True) if indented else (_AFTER_LIST_SCORE, False)


def _pieces(text: str, line: _Block, limit: int) -> Iterator[_Block]:
    """Cut a line after its sentences, and a long sentence after a word, a comma, or anywhere."""
    start, score = line.start, line.score
    for stop, following, next_score in _cuts(text, line, limit):
        yield _Block(start, stop, score, "piece")
        start, score = following, next_score
    yield _Block(start, line.stop, score, "piece")


def _cuts(text: str, line: _Block, limit: int) -> Iterator[tuple[int, int, float]]:
    """Yield where a piece ends, where the next one starts, and the score of that cut."""
    at = next(_VISIBLE.finditer(text, line.start)).start()
    for match in _SENTENCE.finditer(text, at, line.stop):
        if match.end() == line.stop:
            break
        yield from _cuts_in_sentence(text, at, match.end(1), limit)
        at = match.end()
        yield match.end(1), at, _SENTENCE_SCORE
    yield from _cuts_in_sentence(text, at, line.stop, limit)


def _cuts_in_sentence(text: str, at: int, end: int, limit: int) -> Iterator[tuple[int, int, float]]:
    if end - at <= limit:
        return
    gaps = (match.span() for match in _GAP.finditer(text, at, end))
    last_stop = last = at
    for stop, following in chain(gaps, [(end, end)]):
        while stop - at > limit:
            if last > at:
                yield last_stop, last, _WORD_SCORE
                at = last
            else:
                at = last = _between_characters(text, at + limit)
                yield at, at, 0.0
        last_stop, last = stop, following


def _between_characters(text: str, cut: int) -> int:
    """Return the last position up to ``cut`` that does not separate a letter from its accents."""
    for position in range(cut, cut - 8, -1):
        if unicodedata.category(text[position])[0] != "M":
            return position
    return cut


# Packing blocks into passages.


def _split(
    text: str, section: _Section, blocks: Iterator[_Block], size: int, overlap: int
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each passage of a section."""
    queues = [blocks]
    held: list[_Block] = []
    # This many of the first blocks held repeat the end of the passage before.
    repeated = 0
    start = section.start
    while queues:
        block = next(queues[-1], None)
        if block is None:
            queues.pop()
            continue
        held.append(block)
        while block.stop - held[0].start > size * WINDOW_CLOSES:
            too_long = block.stop - block.start > size * WINDOW_CLOSES
            cut = _best_cut(held, repeated, size)
            if cut is not None:
                yield start, held[cut].start
                held, repeated = _repeat(text, section, held, cut, overlap)
            elif block.kind == "line" and (too_long or not repeated):
                queues.append(_pieces(text, held.pop(), int(size * PIECE_LENGTH)))
                break
            elif repeated:
                del held[:repeated]
                repeated = 0
            else:
                break
            start = held[0].start
    yield start, section.end


def _best_cut(held: list[_Block], repeated: int, size: int) -> int | None:
    """Return which block should start the next passage, or ``None`` if no place is good enough."""
    origin, new = held[0].start, held[repeated].start
    best = early = paragraph = late = None
    # Only a piece behind a very deep indent has no better place than this.
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
        elif block.score and block.start - new >= size * MIN_NEW_TEXT:
            early = index
            if block.score >= _PARAGRAPH_SCORE:
                paragraph = index
    # A list or paragraph that fills the window moves whole into the next passage.
    order = (best, paragraph) if best_value[0] > _ITEM_SCORE else (paragraph, best)
    return next((index for index in (*order, early, late) if index is not None), None)


def _repeat(
    text: str, section: _Section, held: list[_Block], cut: int, overlap: int
) -> tuple[list[_Block], int]:
    """Return the first blocks of the next passage, and how many of them repeat this one."""
    following = held[cut:]
    earliest = max(following[0].start - overlap, section.body, held[0].start + 1)
    first = cut
    for index in range(cut - 1, 0, -1):
        block = held[index]
        if block.start < earliest:
            break
        # subtle: a piece of an endless word starts in the middle of the word.
        if block.score or text[block.start - 1].isspace():
            first = index
    if first < cut:
        return held[first:], cut - first
    before = held[cut - 1]
    if before.kind != "fence":
        earliest = max(earliest, before.start)
        for boundary in (_SENTENCE, _GAP):
            match = boundary.search(text, earliest, before.stop)
            if match and match.end() < before.stop:
                return [before._replace(start=match.end()), *following], 1
    return following, 0
