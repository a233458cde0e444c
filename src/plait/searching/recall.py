"""Recall: pack hits into one fenced text within a token budget, for a model's prompt.

First every hit gets a line and its snippet. Then the best ones grow: to their whole passage, to
their section, to the passages around it. A hit that would exceed the budget stays as it was.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from plait.errors import quotable
from plait.facts.echo import PREFACE, TAG_CHARS, fence
from plait.facts.names import PERSONAL, changed_mark, distinct_names
from plait.protocols import Store
from plait.searching.joining import join
from plait.searching.search import BYTES_PER_TOKEN
from plait.searching.search import tokens_of as tokens_of
from plait.times import show_day, show_end
from plait.types import Answer, Document, Hit, Passage, Receipt, Ref, check_range
from plait.types.ids import SHORT_ID, new_id
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.protocols import ReadAhead

DEFAULT_RECALLED = 5
# Five whole passages of the default size.
DEFAULT_BUDGET = 1_500
MAX_BUDGET = 100_000
MAX_RECALLED = 50
# Passages fetched on each side of a hit; `get` reads more.
AROUND = 3
# Codes of notices: the hits are not what the operators match; without NOT there would be some.
WORDS_FOLLOW, NOT_LEFT_OUT = "words_follow", "not_left_out"


class RecalledItem(NamedTuple):
    """One hit as shown in the text: how much of its document, from which line to which.

    ``project`` is the name of its project if that is another one, short, or "personal".
    ``section`` is that of an overview: ``pinned``, ``preferences``, ``decisions``, ``facts``,
    ``recent`` or ``open``. ``earlier`` counts the facts that it replaced.
    """

    hit: Hit
    text: str
    start_line: int
    end_line: int
    refs: tuple[Ref, ...]
    whole: bool
    project: str = ""
    section: str = ""
    earlier: int = 0


class Packed(NamedTuple):
    """The text and its parts. ``left_out`` counts hits that did not fit."""

    text: str = ""
    tokens: int = 0
    items: tuple[RecalledItem, ...] = ()
    left_out: int = 0


class Recalled(NamedTuple):
    """The result of ``recall``: a fenced text within its budget, its parts, and the receipt.

    ``is_overview``: no hits for a query, but what `Memory.overview` returns.
    """

    text: str
    tokens: int
    budget_tokens: int
    items: tuple[RecalledItem, ...] = ()
    left_out: int = 0
    receipt: Receipt = Receipt()
    is_overview: bool = False

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The passages that the text holds whole: those that were read, not only listed."""
        return tuple(ref for item in self.items if item.whole for ref in item.refs)


def check_budget(limit: int, budget_tokens: int | None) -> int:
    """Return the token budget.

    Raises:
        UsageError: A number is out of range.
    """
    check_range("limit", limit, 1, MAX_RECALLED)
    budget = DEFAULT_BUDGET if budget_tokens is None else budget_tokens
    check_range("budget_tokens", budget, 1, MAX_BUDGET)
    return budget


def without_weak(answer: Answer) -> Answer:
    """Return an answer without its weak hits; with nothing left, no notice speaks of hits."""
    hits = [hit for hit in answer if not hit.is_weak]
    if hits:
        return Answer(hits, answer.receipt)
    kept = [notice for notice in answer.receipt.degraded if notice.code != WORDS_FOLLOW]
    return Answer([], answer.receipt._replace(degraded=tuple(kept)))


def most_that_fit(count: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to ``count`` that still fits; 0 if not even 1 does.

    >>> most_that_fit(100, lambda number: number * number <= 50)
    7
    """
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def pack(
    hits: Sequence[Hit],
    around: Sequence[Sequence[Passage]],
    budget: int,
    home: str | None = None,
    earlier: Mapping[str, int] = MappingProxyType({}),
) -> Packed:
    """Pack hits, best first, into at most ``budget`` tokens.

    Args:
        hits: Best first.
        around: For each hit, the passages of its document around it, in order, including its own.
        budget: Tokens by `tokens_of`; if not even the first hit fits, it is cut.
        home: The current project; hits of another one name it.
        earlier: By the id of a document, how many facts it replaced.
    """
    sizes = [
        [
            size._replace(
                project=other_project(hit.document, home), earlier=earlier.get(hit.document.id, 0)
            )
            for size in _sizes(hit, near)
        ]
        for hit, near in zip(hits, around, strict=True)
    ]
    chosen: dict[int, int] = {}
    for place in range(len(hits)):
        tried = {**chosen, place: 0}
        if tokens_of(_render(_shown(sizes, tried))) > budget:
            break
        chosen = tried
    left_out = len(hits) - len(chosen)
    if not chosen:
        return _squeezed(sizes, budget) if hits else Packed()
    for level in range(1, max(len(levels) for levels in sizes)):
        for place in sorted(chosen):
            chosen = _grown(sizes, chosen, place, level, budget)
    items = _shown(sizes, chosen)
    text = _render(items)
    return Packed(text, tokens_of(text), tuple(items), left_out)


def surroundings(
    store: Store,
    pinned: Sequence[Hit],
    others: Sequence[Hit],
    ahead: "ReadAhead | None" = None,
) -> list[list[Passage]]:
    """Return for each hit the passages around it; what is pinned is shown as it is."""
    from plait.searching.readable import readable_passages

    around = [[hit.passage] for hit in pinned]
    for hit in others:
        if hit.document.chunk_count == 1:
            around.append([hit.passage])
        elif ahead is not None:
            around += ahead.spans([span_of(hit)])
        else:
            # What is damaged near a hit is told by `search`, `get` and `doctor`.
            around.append(readable_passages(store, *span_of(hit), []))
    return around


def span_of(hit: Hit) -> tuple[str, int, int]:
    """Return a document, and the first and the last passage that a hit may grow to."""
    return hit.document.id, hit.passage.ordinal - AROUND, hit.passage.ordinal + AROUND


def fence_recalled(body: str) -> str:
    """Put recalled text between fences with a random tag."""
    return fence(body, new_id(TAG_CHARS))


def recall(
    answer: Answer,
    around: Sequence[Sequence[Passage]],
    budget: int,
    home: str | None = None,
    earlier: Mapping[str, int] = MappingProxyType({}),
) -> Recalled:
    """Pack the hits of a search between fences, which count against the budget too.

    Args:
        answer: The hits.
        around: For each hit, the passages of its document around it, in order, including its own.
        budget: Maximum number of tokens of the text.
        home: The current project; hits of another one name it.
        earlier: By the id of a document, how many facts it replaced.
    """
    packed = pack(answer, around, budget - tokens_of(fence_recalled("")), home, earlier)
    text = fence_recalled(packed.text) if packed.text else ""
    return Recalled(text, tokens_of(text), budget, packed.items, packed.left_out, answer.receipt)


def _sizes(hit: Hit, near: Sequence[Passage]) -> list[RecalledItem]:
    """Return a hit at growing sizes: snippet, passage, section, surroundings."""
    own = hit.passage
    whole = own.text.strip()
    sizes = []
    snippet = hit.snippet.strip()
    if snippet and len(snippet) < len(whole):
        sizes.append(_item(hit, [own], snippet, whole=False))
    sizes.append(_item(hit, [own], whole))
    section = _run(near, own, same_heading=True)
    surroundings = _run(near, own, same_heading=False)
    for wider in (section, surroundings):
        if len(wider) > len(sizes[-1].refs):
            sizes.append(_item(hit, wider, join(wider).strip()))
    return sizes


def other_project(document: Document, home: str | None) -> str:
    """Return the name of the project of a document, short; nothing if it is ``home``.

    >>> [other_project(Document(project=name), "acme") for name in ("acme", "other", None)]
    ['', 'other', 'personal']
    """
    if document.project == home:
        return ""
    return PERSONAL if document.project is None else quotable(document.project)


def project_remark(name: str) -> str:
    """Return how a hit is said to be of another project, or of none.

    >>> project_remark("other"), project_remark("personal"), project_remark("")
    ('project other', 'personal', '')
    """
    return name if name in ("", PERSONAL) else f"project {name}"


def _item(hit: Hit, passages: Sequence[Passage], text: str, *, whole: bool = True) -> RecalledItem:
    refs = tuple(passage.ref for passage in passages)
    return RecalledItem(hit, text, passages[0].start_line, passages[-1].end_line, refs, whole)


def _run(near: Sequence[Passage], own: Passage, *, same_heading: bool) -> list[Passage]:
    """Return the consecutive passages around one, of its section or of any."""
    by_ordinal = {
        passage.ordinal: passage
        for passage in near
        if not same_heading or passage.heading == own.heading
    }
    first = last = own.ordinal
    while first - 1 in by_ordinal:
        first -= 1
    while last + 1 in by_ordinal:
        last += 1
    return [by_ordinal.get(ordinal, own) for ordinal in range(first, last + 1)]


def _grown(
    sizes: Sequence[Sequence[RecalledItem]],
    chosen: dict[int, int],
    place: int,
    level: int,
    budget: int,
) -> dict[int, int]:
    """Return the choice with one hit a size larger, if it fits and repeats nothing."""
    if level >= len(sizes[place]):
        return chosen
    wanted = set(sizes[place][level].refs)
    for other, size in chosen.items():
        refs = set(sizes[other][size].refs)
        # A passage that it contains completely is merged; a partial overlap would be shown twice.
        if other != place and refs & wanted and not refs <= wanted:
            return chosen
    tried = {**chosen, place: level}
    return tried if tokens_of(_render(_shown(sizes, tried))) <= budget else chosen


def _shown(sizes: Sequence[Sequence[RecalledItem]], chosen: dict[int, int]) -> list[RecalledItem]:
    """Return the items in their order, without those that a larger one contains."""
    items = [sizes[place][level] for place, level in sorted(chosen.items())]
    return [
        item
        for place, item in enumerate(items)
        if not any(
            set(item.refs) < set(other.refs) or (item.refs == other.refs and earlier < place)
            for earlier, other in enumerate(items)
            if other.whole
        )
    ]


def _render(items: Sequence[RecalledItem]) -> str:
    names = distinct_names(item.hit.document for item in items)
    parts = [
        f"[{number}] {head(item, names[item.hit.document.id])}\n{_below_a_head(item.text)}"
        for number, item in enumerate(items, start=1)
    ]
    return "\n\n".join([PREFACE, *parts])


def _below_a_head(text: str) -> str:
    r"""Return a text in which no line looks like the head of another item: it is indented.

    >>> _below_a_head("Rotate the keys.\n[2] abcdefgh policy (pinned)")
    'Rotate the keys.\n [2] abcdefgh policy (pinned)'
    """
    return "".join(
        f" {line}" if line.startswith("[") and line[1:].partition("]")[0].isdecimal() else line
        for line in text.splitlines(keepends=True)
    )


def head(item: RecalledItem, name: str, remark: str = "") -> str:
    """Return the line above an item: id, place, heading, then type, date, remark and caveats."""
    document = item.hit.document
    named = document.kind == "file" or (document.key is not None and document.role is None)
    where = f"{name}:{item.start_line}" if named else ""
    facts = [document.type or "", document.role or "", show_day(document.event_at)]
    facts += [remark, "pinned" * document.pinned, project_remark(item.project)]
    facts += [document.trust if document.trust != "trusted" else ""]
    facts += [f"topic {quotable(document.topic)}" if document.topic else ""]
    facts += [f"{item.earlier} earlier" if item.earlier else ""]
    facts += [changed_mark(item.hit.changed_since)]
    by = item.hit.superseded_by
    facts += [show_end(document.valid_to, by and by[:SHORT_ID])]
    remarks = ", ".join(filter(None, facts))
    parts = [item.hit.id[:SHORT_ID], where, item.hit.heading, f"({remarks})" if remarks else ""]
    # A name is stored text too: a line break in it could look like part of the recall.
    return " ".join(" ".join(parts).split())


def _squeezed(sizes: Sequence[Sequence[RecalledItem]], budget: int) -> Packed:
    """Return the first hit alone, cut to fit; nothing if not even its head fits."""
    first = sizes[0][0]
    room = (budget - tokens_of(_render([first._replace(text="")]))) * BYTES_PER_TOKEN
    kept = first.text.encode("utf-8", "surrogatepass")[: max(0, room - len("…".encode()))]
    text = kept.decode("utf-8", "ignore").strip()
    if not text:
        return Packed(left_out=len(sizes))
    item = first._replace(text=f"{text}…", whole=False)
    shown = _render([item])
    return Packed(shown, tokens_of(shown), (item,), len(sizes) - 1)
