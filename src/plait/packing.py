"""Hits into one text of at most so many tokens, for a model's prompt. Pure: nothing is read here.

First every hit gets a line and its snippet, then the best ones grow: to their whole passage, to
their section, to what stands around it. Whatever would pass the budget stays as it was.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from plait.errors import UsageError
from plait.guard import PREFACE as PREFACE  # the guard knows it again
from plait.recall import join
from plait.times import show_day, show_end
from plait.types import Answer, Hit, Passage, Receipt

# A token of English is about four bytes of UTF-8; one of Chinese or Thai, three bytes a character,
# about three quarters of a character. Tokenizers differ by a quarter around that.
BYTES_PER_TOKEN = 4
DEFAULT_LIMIT = 5
# Five whole passages of the default size.
DEFAULT_BUDGET = 1_500
MAX_BUDGET = 100_000
MAX_LIMIT = 50
# A hit below this evidence shares one common word with the question, or nothing but its mood.
RECALL_FLOOR = 0.25
# Passages fetched on each side of a hit: beyond that it is a document to `get`.
AROUND = 3
SHORT_ID = 8  # characters of an id that are shown: two more than the shortest that is accepted


class Item(NamedTuple):
    """One hit as it stands in the text: how much of its document, from which line to which."""

    hit: Hit
    text: str
    start_line: int
    end_line: int
    refs: tuple[int, ...]
    whole: bool


class Packed(NamedTuple):
    """The text, and what is in it. ``left_out`` counts hits that had no room."""

    text: str = ""
    tokens: int = 0
    items: tuple[Item, ...] = ()
    left_out: int = 0

    @property
    def refs(self) -> tuple[int, ...]:
        """The passages that stand in the text whole: those that were read, not only listed."""
        return _read_whole(self.items)


class Recalled(NamedTuple):
    """What ``recall`` gives: a fenced text within its budget, its parts, and the receipt."""

    text: str
    tokens: int
    budget_tokens: int
    items: tuple[Item, ...] = ()
    left_out: int = 0
    receipt: Receipt = Receipt()

    @property
    def refs(self) -> tuple[int, ...]:
        """The passages that stand in the text whole: those that were read, not only listed."""
        return _read_whole(self.items)


def _read_whole(items: Sequence[Item]) -> tuple[int, ...]:
    return tuple(ref for item in items if item.whole for ref in item.refs)


def check(limit: int, budget_tokens: int | None) -> int:
    """The budget to keep to; refuses what no recall can mean.

    Raises:
        UsageError: A number is out of its range.
    """
    if not 1 <= limit <= MAX_LIMIT:
        raise UsageError(f"limit is {limit}; choose 1 to {MAX_LIMIT}.")
    budget = DEFAULT_BUDGET if budget_tokens is None else budget_tokens
    if not 1 <= budget <= MAX_BUDGET:
        raise UsageError(f"budget_tokens is {budget}; choose 1 to {MAX_BUDGET:,}.")
    return budget


def tokens_of(text: str) -> int:
    """About how many tokens a text costs, rounded up.

    >>> tokens_of(""), tokens_of("We deploy on Fridays"), tokens_of("我们周五部署")
    (0, 5, 5)
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def most_that_fit(count: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to ``count`` for which it still fits; 0 where not even 1 does.

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


def pack(hits: Sequence[Hit], around: Sequence[Sequence[Passage]], budget: int) -> Packed:
    """The hits, best first, in at most ``budget`` tokens.

    Args:
        hits: Best first.
        around: For each hit the passages of its document near it, in order, its own among them.
        budget: Tokens by `tokens_of`; where not even the first hit fits, it is cut.
    """
    sizes = [_sizes(hit, near) for hit, near in zip(hits, around, strict=True)]
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


def fenced(
    found: Answer,
    around: Sequence[Sequence[Passage]],
    budget: int,
    fence: Callable[[str], str],
) -> Recalled:
    """What a search found, packed between fences that count against the budget too."""
    packed = pack(found, around, budget - tokens_of(fence("")))
    text = fence(packed.text) if packed.text else ""
    return Recalled(text, tokens_of(text), budget, packed.items, packed.left_out, found.receipt)


def _sizes(hit: Hit, near: Sequence[Passage]) -> list[Item]:
    """A hit at growing sizes: snippet, passage, section, surroundings."""
    own = hit.passage
    whole = own.text.strip()
    found = []
    snippet = hit.snippet.strip()
    if snippet and len(snippet) < len(whole):
        found.append(_item(hit, [own], snippet, whole=False))
    found.append(_item(hit, [own], whole))
    section = _run(near, own, same_heading=True)
    surroundings = _run(near, own, same_heading=False)
    for wider in (section, surroundings):
        if len(wider) > len(found[-1].refs):
            found.append(_item(hit, wider, join(wider).strip()))
    return found


def _item(hit: Hit, passages: Sequence[Passage], text: str, *, whole: bool = True) -> Item:
    refs = tuple(passage.ref for passage in passages)
    return Item(hit, text, passages[0].start_line, passages[-1].end_line, refs, whole)


def _run(near: Sequence[Passage], own: Passage, *, same_heading: bool) -> list[Passage]:
    """The unbroken run of passages around one, of its section or of any."""
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
    sizes: Sequence[Sequence[Item]], chosen: dict[int, int], place: int, level: int, budget: int
) -> dict[int, int]:
    """The choice with one hit a size larger, if that fits and repeats nothing."""
    if level >= len(sizes[place]):
        return chosen
    wanted = set(sizes[place][level].refs)
    for other, size in chosen.items():
        refs = set(sizes[other][size].refs)
        # What lies wholly inside goes in; half of something would be said twice.
        if other != place and refs & wanted and not refs <= wanted:
            return chosen
    tried = {**chosen, place: level}
    return tried if tokens_of(_render(_shown(sizes, tried))) <= budget else chosen


def _shown(sizes: Sequence[Sequence[Item]], chosen: dict[int, int]) -> list[Item]:
    """The items in their order, without those that a larger one holds already."""
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


def _render(items: Sequence[Item]) -> str:
    parts = [f"[{number}] {head(item)}\n{item.text}" for number, item in enumerate(items, start=1)]
    return "\n\n".join([PREFACE, *parts])


def head(item: Item) -> str:
    """What an item is, in one line: id, place, heading, then date, type and doubts."""
    document = item.hit.document
    named = document.kind == "file" or document.key is not None
    where = f"{document.doc_id}:{item.start_line}" if named else ""
    facts = [document.type or "", show_day(document.event_at)]
    facts += [document.trust if document.trust != "trusted" else ""]
    by = item.hit.superseded_by
    facts += [show_end(document.valid_to, by and by[:SHORT_ID])]
    said = ", ".join(filter(None, facts))
    parts = [item.hit.id[:SHORT_ID], where, item.hit.heading, f"({said})" if said else ""]
    # A name is somebody's text too: with a line break in it, it could pass for more than a name.
    return " ".join(" ".join(parts).split())


def _squeezed(sizes: Sequence[Sequence[Item]], budget: int) -> Packed:
    """The first hit alone, cut until it fits; nothing where not even its head does."""
    first = sizes[0][0]
    room = (budget - tokens_of(_render([first._replace(text="")]))) * BYTES_PER_TOKEN
    kept = first.text.encode("utf-8", "surrogatepass")[: max(0, room - len("…".encode()))]
    text = kept.decode("utf-8", "ignore").strip()
    if not text:
        return Packed(left_out=len(sizes))
    item = first._replace(text=f"{text}…", whole=False)
    shown = _render([item])
    return Packed(shown, tokens_of(shown), (item,), len(sizes) - 1)
