"""The lines of an answer for a model: one for each hit or document, and as few tokens as tell.

All hits of a search share one budget. The best ones get most of it, because they are the ones that
answer: of the same number of tokens, equal shares show half as many answers (docs/mcp.md).
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from plait.facts.names import changed_mark, distinct_names
from plait.present.text import caveats, sort_of
from plait.protocols import Token
from plait.searching.conversations import short_sessions
from plait.searching.recall import fence_recalled, most_that_fit, other_project, project_remark
from plait.searching.search import BYTES_PER_TOKEN
from plait.searching.snippets import snippet
from plait.times import show_day
from plait.tools.replies import below_a_row, on_one_line
from plait.tools.tool import Call
from plait.types import Document, Hit
from plait.types.ids import SHORT_ID

# Tokens of a search: for all of it, and for each hit.
FRAME_TOKENS = 20
HIT_TOKENS = 25
# Bytes of a snippet that even the last hit gets.
LEAST_SNIPPET = 32
# Bytes. In fewer, a part of two lines tells less than one line.
ONE_LINE = 100
# Characters of a file's name; its end tells more than its beginning.
FILE_NAME_CHARS = 40
# Tokens of a row of a timeline, and bytes of its text whatever stands before it.
ROW_TOKENS = 12
LEAST_SUMMARY = 20
# Kinds that need no word: an id and a text say as much.
_PLAIN_KINDS = ("file", "note", "observation")
_ELLIPSES = len("……".encode())


# -- hits ----------------------------------------------------------------------------------


def hit_lines(
    call: Call, hits: Sequence[Hit], earlier: Mapping[str, int], *beside: str
) -> list[str]:
    """Return each hit with its id, how well it matches, where it is from, and a snippet.

    Args:
        call: The call of the tool.
        hits: Best first.
        earlier: By the id of a document, how many facts it replaced.
        beside: Other lines of the answer, which share its tokens.
    """
    names = _short_names([hit.document for hit in hits])
    sessions = short_sessions(hit.document for hit in hits)
    heads = [_head(call, hit, names, sessions, earlier.get(hit.document.id, 0)) for hit in hits]
    tokens = FRAME_TOKENS + HIT_TOKENS * len(hits)
    frame = len(fence_recalled("")) + sum(_size(line) + len(" \n") for line in (*heads, *beside))
    room = BYTES_PER_TOKEN * tokens - frame
    shown: dict[str, str] = {}
    ranked = sorted(hits, key=lambda hit: hit.is_weak)
    for place, hit in enumerate(ranked, start=1):
        kept = sum(min(_size(later.snippet), LEAST_SNIPPET) for later in ranked[place:])
        shown[hit.id] = below_a_row(_excerpt(hit, max(LEAST_SNIPPET, room - kept))).lstrip()
        room -= _size(shown[hit.id])
    return [f"{head} {shown[hit.id]}" for head, hit in zip(heads, hits, strict=True)]


def _head(
    call: Call, hit: Hit, names: Mapping[str, str], sessions: Mapping[str, str], earlier: int
) -> str:
    document = hit.document
    facts = []
    if document.kind == "message":
        facts += [document.role or "", sessions.get(document.session or "", "")]
    elif document.kind != "file":
        facts.append(document.type or "")  # that of a file is mostly its folder's name
    name = hit.entity or ""
    if document.id in names:
        name = f"{names[document.id]}:{hit.start_line}"
    day = _telling_day(document)
    facts += ["" if day in name else day, _project(call, document)]
    facts += caveats(document, hit.superseded_by, earlier=earlier)
    facts.append(changed_mark(hit.changed_since))
    remarks = ", ".join(filter(None, facts))
    return on_one_line(
        hit.id[:SHORT_ID],
        "weak" if hit.is_weak else f"{hit.relevance:.0%}",
        name,
        f"({remarks})" if remarks else "",
    )


def _project(call: Call, document: Document) -> str:
    return project_remark(other_project(document, call.memory.config.project))


def _telling_day(document: Document) -> str:
    """Return the day of a document; nothing if it only says when a file was last saved."""
    day = show_day(document.event_at)
    return "" if document.kind == "file" and day == show_day(document.mtime) else day


def _short_names(documents: Sequence[Document]) -> dict[str, str]:
    """Return the names of files and keyed notes, without their folders where these tell nothing."""
    named = [row for row in documents if row.kind == "file" or row.key is not None]
    names = distinct_names(row for row in named if row.kind != "message")
    last = {id_: name.rpartition("/")[2] or name for id_, name in names.items()}
    uses = Counter(last.values())
    short = {id_: name if uses[last[id_]] > 1 else last[id_] for id_, name in names.items()}
    return {
        id_: name if len(name) <= FILE_NAME_CHARS else f"…{name[1 - FILE_NAME_CHARS :]}"
        for id_, name in short.items()
    }


def _excerpt(hit: Hit, room: int) -> str:
    """Return the part of the snippet with most of the matching words, in so many bytes."""
    text = hit.snippet
    size = _size(below_a_row(text.strip()))
    if size <= room:
        return text.strip()
    marks = [(start, end, text[start:end].casefold()) for start, end in hit.highlights]
    if room < ONE_LINE:
        text, marks = _best_line(text, marks)
        size = _size(text)
        if size <= room:
            return text.strip()
    width = max(1, (room - _ELLIPSES) * len(text) // size)
    return snippet(text, marks, frozenset(word for _, _, word in marks), width, keep_lines=True)[0]


def _best_line(text: str, marks: Sequence[Token]) -> tuple[str, list[Token]]:
    """Return the line with the most different matching words, and where they are in it."""
    best: tuple[str, list[Token]] = ("", [])
    place = 0
    for line in text.split("\n"):
        end = place + len(line)
        inside = [(a - place, b - place, word) for a, b, word in marks if place <= a and b <= end]
        if not best[0] or len({row[2] for row in inside}) > len({row[2] for row in best[1]}):
            best = (line, inside)
        place = end + 1
    # What was left out of the passage is marked at the ends of the snippet only.
    cut = "" if best[0].endswith("…") or best[0] == text else "…"
    return f"{best[0]}{cut}", best[1]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


# -- documents -----------------------------------------------------------------------------


def day_lines(
    call: Call, documents: Sequence[Document], remarks: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return documents in their order, each in a line, below the day on which they happened.

    ``remarks``: by id, what to know about a document.
    """
    heads = [_row_head(call, document, remarks[document.id]) for document in documents]
    texts = [on_one_line(document.summary or document.title) for document in documents]
    sizes = [_size(f"{head} {text}") for head, text in zip(heads, texts, strict=True)]
    days = {show_day(document.event_at) for document in documents}
    room = BYTES_PER_TOKEN * ROW_TOKENS * len(documents) - len("On 2026-03-01:\n") * len(days)
    # What short rows leave over is for the long ones.
    widest = most_that_fit(max(sizes, default=0), lambda width: _total(sizes, width) <= room)
    lines: list[str] = []
    day = ""
    for document, head, text in zip(documents, heads, texts, strict=True):
        if show_day(document.event_at) != day:
            day = show_day(document.event_at)
            lines.append(f"On {day}:")
        lines.append(f"{head} {_cut(text, max(LEAST_SUMMARY, widest - _size(head) - 1))}")
    return lines


def _total(sizes: Sequence[int], widest: int) -> int:
    return sum(min(size, widest) for size in sizes)


def _row_head(call: Call, document: Document, remarks: Sequence[str]) -> str:
    sort = sort_of(document)
    told = ", ".join(filter(None, [_project(call, document), *remarks]))
    return on_one_line(
        document.id[:SHORT_ID],
        "" if sort in _PLAIN_KINDS else sort,
        f"({told})" if told else "",
    )


def _cut(text: str, size: int) -> str:
    """Return a text in so many bytes, cut between words where there are any."""
    if _size(text) <= size:
        return text
    kept = text.encode("utf-8", "surrogatepass")[: size - len("…".encode())]
    part = kept.decode("utf-8", "ignore")
    words, gap, _ = part.rpartition(" ")
    # A word that is most of the text belongs to a language without spaces.
    return f"{(words if gap and len(words) > len(part) // 2 else part).rstrip()}…"
