"""The text of an overview: one line for each document, in sections, within a token budget."""

import re
from collections.abc import Collection, Sequence

from plait.errors import Notice
from plait.facts.echo import PREFACE, section_line
from plait.facts.names import distinct_names
from plait.protocols import Store
from plait.searching.recall import (
    Recalled,
    RecalledItem,
    fence_recalled,
    head,
    other_project,
    tokens_of,
)
from plait.searching.scoring import with_entities
from plait.types import Document, Hit, Passage, Receipt
from plait.types.records import NamedTuple

# Of a text, what is looked at to make a line of it.
READ_CHARS = 2_400
# Between the headings of a passage.
_PARTS = re.compile(r"; | > ")
# A minus before a number is no mark of a list.
_MARKS = re.compile(r"(?:[#>*+-]{1,6}\s++)*+")


class OverviewLine(NamedTuple):
    """A line to show: the passage that it is out of, the text, where that is, and a remark."""

    document: Document
    passage: Passage
    text: str
    line: int
    remark: str = ""


def flat(text: str) -> str:
    r"""Return the beginning of a text on one line, without the marks of headings and lists.

    >>> flat("## Deploys\n\n- on *Fridays*\n- -5 degrees")
    'Deploys on *Fridays* -5 degrees'
    """
    lines = (_MARKS.sub("", line.strip(), count=1) for line in text[:READ_CHARS].splitlines())
    return " ".join(" ".join(filter(None, lines)).split())


def below_heading(text: str, heading: str) -> str:
    r"""Return a text without the headings that it begins with, if they are shown beside it.

    A text that is nothing else stays as it is.

    >>> below_heading("# Plan\n\n## Boats\n\nBuild one.", "Plan > Boats")
    'Build one.'
    """
    parts = (heading, *heading.split("; "), *heading.split(" > "), *_PARTS.split(heading))
    shown = {"", *map(flat, parts)}
    lines = text.splitlines(keepends=True)
    first = next((row for row, line in enumerate(lines) if not _is_shown(line, shown)), None)
    return text if first is None else "".join(lines[first:])


def _is_shown(line: str, shown: Collection[str]) -> bool:
    """Tell whether a line is one of the headings that are shown, or the rule below one."""
    return flat(line) in shown or set(line.strip()) in ({"="}, {"-"})


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, cut between words where there are any.

    >>> cut("We deploy on Fridays", 13)
    'We deploy on…'
    """
    if len(text) <= most:
        return text
    words, space, _ = text[:most].rpartition(" ")
    return f"{words if space and len(words) > most // 2 else text[: most - 1]}…"


def items_of(
    store: Store, chosen: Sequence[tuple[str, OverviewLine]], home: str | None
) -> list[tuple[str, RecalledItem]]:
    """Return the lines as they are shown, in their order."""
    ended = [line.document.id for _, line in chosen if line.document.valid_to is not None]
    successors = store.successors(ended) if ended else {}
    hits = [
        Hit(
            line.passage,
            line.document,
            # It orders; nothing was asked, so the evidence is the same.
            score=1.0 / (1 + rank),
            relevance=1.0,
            source="keyword",
            snippet=line.text,
            superseded_by=successors.get(line.document.id),
        )
        for rank, (_, line) in enumerate(chosen)
    ]
    names = distinct_names(line.document for _, line in chosen)
    items = []
    for hit, (section, line) in zip(with_entities(store, hits), chosen, strict=True):
        item = RecalledItem(
            hit,
            line.text,
            line.line,
            line.line,
            (line.passage.ref,),
            whole=False,
            project=other_project(hit.document, home),
            section=section,
        )
        items.append((f"{head(item, names[hit.document.id], line.remark)} {line.text}", item))
    return items


def nothing(budget: int, degraded: tuple[Notice, ...] = ()) -> Recalled:
    """Return the overview of a memory in which there is nothing, or that cannot be read."""
    receipt = Receipt(mode_asked="keyword", mode_used="keyword", degraded=degraded)
    return Recalled("", 0, budget, receipt=receipt, is_overview=True)


def packed(
    rows: Sequence[tuple[str, RecalledItem]], budget: int, degraded: tuple[Notice, ...]
) -> Recalled:
    """Pack the first line of each section, then the second ones, and so on, while they fit."""
    room = budget - tokens_of(fence_recalled(""))
    by_section: dict[str, list[int]] = {}
    for place, (_, item) in enumerate(rows):
        by_section.setdefault(item.section, []).append(place)
    chosen: list[int] = []
    for turn in range(max(map(len, by_section.values()), default=0)):
        for places in by_section.values():
            if turn < len(places):
                tried = sorted([*chosen, places[turn]])
                if tokens_of(_render([rows[place] for place in tried])) <= room:
                    chosen = tried
    kept = [rows[place] for place in chosen]
    text = fence_recalled(_render(kept)) if kept else ""
    items = tuple(item for _, item in kept)
    return nothing(budget, degraded)._replace(
        text=text, tokens=tokens_of(text), items=items, left_out=len(rows) - len(kept)
    )


def _render(rows: Sequence[tuple[str, RecalledItem]]) -> str:
    lines = [PREFACE]
    section = ""
    for number, (line, item) in enumerate(rows, start=1):
        if item.section != section:
            section = item.section
            lines += ["", section_line(section)]
        lines.append(f"[{number}] {line}")
    return "\n".join(lines)
