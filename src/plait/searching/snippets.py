"""The words of a query in a passage: which it has, and the part of it that shows them."""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence

from plait.protocols import Candidate, Token
from plait.text import is_unspaced, single_spaced

SNIPPET_CHARS = 200  # two lines of a terminal
# Files of other endings, such as code and tables, mean something by their lines.
PROSE = (".md", ".markdown", ".txt", ".rst", ".org", ".html", ".htm", ".docx", ".pdf", ".ipynb")
MAX_HEADING_MARKS = 6
FENCES = ("```", "~~~")
CODE_INDENT = ("    ", "\t")

Snippet = tuple[str, tuple[tuple[int, int], ...]]


def base_forms(term: str, begun: Mapping[str, str], wanted: Collection[str]) -> list[str]:
    """Return what a term counts as: itself, if it is wanted, and whatever it is a form of.

    >>> base_forms("книгу", {"книг": "книги"}, ["книги"]), base_forms("год", {"книг": "книги"}, [])
    (['книги'], [])
    """
    forms = [word for start, word in begun.items() if term.startswith(start) and word != term]
    return [term, *forms] if term in wanted else forms


def in_base_forms(
    candidate: Candidate, begun: Mapping[str, str], wanted: Collection[str]
) -> Candidate:
    """Return a candidate with only the wanted terms, also in place of their other forms."""
    if not begun:
        return candidate
    starts = tuple(begun)
    tokens = [
        (token[0], token[1], form)
        for token in candidate.tokens
        if token[2] in wanted or token[2].startswith(starts)
        for form in base_forms(token[2], begun, wanted)
    ]
    names = [form for term in candidate.name_terms for form in base_forms(term, begun, wanted)]
    return candidate._replace(tokens=tokens, name_terms=frozenset(names))


def snippet_of(candidate: Candidate, wanted: frozenset[str]) -> Snippet:
    """Cut out the matching words; headings are shown next to them, not repeated inside."""
    text, tokens = candidate.passage.text, candidate.tokens
    path = candidate.document.path
    is_code = path is not None and not path.lower().endswith(PROSE)
    start = 0 if is_code else _after_headings(text)
    if start:
        tokens = [(a - start, b - start, term) for a, b, term in tokens if a >= start]
    return snippet(text[start:], tokens, wanted, SNIPPET_CHARS, keep_lines=is_code)


def _after_headings(text: str) -> int:
    """Return where the body of a passage begins; 0 if it has only headings."""
    place = 0
    while place < len(text) and (text[place] == "\n" or _is_heading(text, place)):
        end = text.find("\n", place)
        if end < 0:
            return 0
        place = end + 1
    return place


def _is_heading(text: str, place: int) -> bool:
    """Tell whether a heading begins here: "#todo", "#1" and "#include" are text of the body."""
    marks = 0
    while text.startswith("#", place + marks):
        marks += 1
    after = text[place + marks : place + marks + 1]
    return 1 <= marks <= MAX_HEADING_MARKS and (not after or after.isspace())


def snippet(
    text: str,
    tokens: Sequence[Token],
    wanted: frozenset[str],
    width: int = SNIPPET_CHARS,
    *,
    keep_lines: bool = False,
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Cut about ``width`` characters with the most distinct wanted terms; return their places too.

    White space becomes single spaces, but lines of code, lists and tables stay lines. ``…`` marks a
    cut end, and adjacent places are joined.

    Args:
        text: The passage.
        tokens: Its terms as ``(start, end, term)``, in order of start.
        wanted: The terms to show.
        width: Size of the window in characters of the passage.
        keep_lines: Whether every line stays a line.
    """
    matches = [token for token in tokens if token[2] in wanted]
    first, last = _densest(matches, width)
    slack = max(0, width - (last - first))
    start = max(0, min(first - slack // 2, len(text) - width))
    end = min(len(text), start + width)
    while 0 < start < first and not _between_words(text, start):
        start += 1
    while last < end < len(text) and not _between_words(text, end):
        end -= 1
    window = text[start:end]
    own_lines = _own_lines(text[:end], keep_all=keep_lines) if "\n" in window else {}
    shown, spaced = "", None
    if not own_lines:
        start, window = start + len(window) - len(window.lstrip()), window.strip()
        end, shown = start + len(window), single_spaced(window)
    # If every gap was one character already, all characters stay in their places.
    if len(shown) != len(window):
        spaced = _Spaced(window, {at - start: gap for at, gap in own_lines.items()})
        shown = spaced.text
    before, after = ("…" if cut.strip() else "" for cut in (text[:start], text[end:]))
    marked: list[tuple[int, int]] = []
    for left, right, _ in matches:
        if right <= start or left >= end:
            continue
        opening, closing = max(left, start) - start, min(right, end) - start
        if spaced is not None:
            opening, closing = spaced.place(opening), spaced.place(closing)
        opening, closing = len(before) + opening, len(before) + closing
        if marked and opening <= marked[-1][1]:
            marked[-1] = (marked[-1][0], max(closing, marked[-1][1]))
        elif closing > opening:
            marked.append((opening, closing))
    return before + shown + after, tuple(marked)


def _densest(matches: Sequence[Token], width: int) -> tuple[int, int]:
    """Return the bounds of the window with the most distinct terms, then with the most terms."""
    best, bounds = (0, 0), (0, 0)
    counts: dict[str, int] = {}
    oldest = 0
    for newest, (_, end, term) in enumerate(matches):
        counts[term] = counts.get(term, 0) + 1
        while oldest < newest and end - matches[oldest][0] > width:
            gone = matches[oldest][2]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            oldest += 1
        size = (len(counts), newest - oldest + 1)
        if size > best:
            best, bounds = size, (matches[oldest][0], end)
    return bounds


def _between_words(text: str, at: int) -> bool:
    """Tell whether a cut before this character splits no word."""
    left, right = text[at - 1], text[at]
    if not (left.isalnum() and right.isalnum()):
        # subtle: a mark is not alphanumeric and still belongs to the letter before it.
        return right.isascii() or left.isspace() or right.isspace()
    return is_unspaced(left + right)


def _own_lines(text: str, *, keep_all: bool) -> dict[int, str]:
    """Return where a line begins that stays a line, with its indentation.

    Lines of code, lists, tables and quotes do, and what follows them after an empty line.
    """
    kept: dict[int, str] = {}
    fence, after_code, in_list, after_gap = "", False, False, False
    place = 0
    for line in text.split("\n"):
        bare = line.lstrip()
        at = place + len(line) - len(bare)
        place += len(line) + 1
        if not bare:
            after_gap = True
            continue
        marks = bare[:3] if bare.startswith(FENCES) else ""
        is_code = bool(fence or marks) or line.startswith(CODE_INDENT)
        is_item = not is_code and _is_item(bare)
        if keep_all or is_code or is_item or after_code or (in_list and after_gap):
            # Other white space, such as U+2028, may end a line on a screen.
            indent = line[: len(line) - len(bare)]
            kept[at] = "".join("\t" if mark == "\t" else " " for mark in indent)
        if marks and fence in ("", marks):
            fence = "" if fence else marks
        in_list = is_item or (in_list and not after_gap)
        after_code, after_gap = is_code, False
    return kept


def _is_item(line: str) -> bool:
    """Tell whether a line of Markdown is an item of a list, a row of a table or a quote."""
    head = line.partition(" ")[0]
    return head in ("-", "*", "+") or line[0] in "|>" or (head[-1] in ".)" and head[:-1].isdigit())


class _Spaced:
    """The words of a window with one space, or a line break and indentation, between them."""

    def __init__(self, window: str, own_lines: Mapping[int, str]) -> None:
        outer = own_lines.get(len(window) - len(window.lstrip()), "")
        self._starts: list[int] = []  # of the words, in the window
        self._ends: list[int] = []
        self._shown_at: list[int] = []
        parts: list[str] = []
        end = length = 0
        for word in window.split():
            start = window.index(word, end)
            if parts:
                indent = own_lines.get(start)
                parts.append(" " if indent is None else "\n" + indent.removeprefix(outer))
                length += len(parts[-1])
            end = start + len(word)
            self._starts.append(start)
            self._ends.append(end)
            self._shown_at.append(length)
            parts.append(word)
            length += len(word)
        self.text = "".join(parts)

    def place(self, at: int) -> int:
        """Return where a character of the window is now, or its end.

        Of a gap, the first one is the end of the word before it, the others begin the next word.
        """
        word = bisect_right(self._starts, at) - 1
        if word < 0:
            return 0
        if at <= self._ends[word]:
            return self._shown_at[word] + at - self._starts[word]
        after = word + 1
        return self._shown_at[after] if after < len(self._starts) else len(self.text)
