"""Answers of the graph's tools, cut to what clients pass on to a model as a whole.

The reference server has no such limit. Claude Code shows a model only the first 2,000 characters of
an answer above 50,000.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from plait.present.text import counted

# Bytes of an answer as indented JSON, which is longer than the data.
GRAPH_BYTES = 40_000
# Bytes of the note, and of what stands around the rows.
_NOTE_BYTES = 600
# The part of the room that relations may take from entities: one in so many.
_FOR_RELATIONS = 4
# Bytes of an entity above which it may be shortened: one must not keep all others out.
_LONG_BYTES = 8_000
# Bytes that observations need for something of them to be worth showing.
_LEAST_BYTES = 200
# Rows that do not fit before others behind them are not tried any more: there may be many.
_MOST_PASSED_OVER = 50
# What stands before each line of a row in the answer, and behind the row.
_INDENT = 4
_BETWEEN = 2

EntityRow = dict[str, Any]
_Row = TypeVar("_Row")


def fitted(data: Mapping[str, Any], words: str = "") -> dict[str, Any]:
    """Return an answer with as many of its first rows as fit, and with a note if that is not all.

    ``words`` is what was looked for: an entity that is too long keeps the observations that contain
    them, before others.
    """
    name = "entities" if "entities" in data else "results"
    rows, edges = data[name], data.get("relations", [])
    room = GRAPH_BYTES - _NOTE_BYTES
    if _fits([*rows, *edges], room):
        return dict(data)
    for_edges = min(_size(_fitting(edges, room)), room // _FOR_RELATIONS)
    shown, notes = _with_parts(rows, words, room - for_edges)
    if len(shown) < len(rows):
        notes.insert(0, f"{len(shown)} of {counted(len(rows), 'entity')}")
    names = {row["name"] for row in shown}
    near = [edge for edge in edges if names & {edge["from"], edge["to"]}]
    near = _fitting(near, room - _size(shown))
    if len(near) < len(edges):
        notes.append(f"{len(near)} of {counted(len(edges), 'relation')}")
    cut: dict[str, Any] = {**data, name: shown}
    if "relations" in data:
        cut["relations"] = near
    advice = "search_nodes finds others by their words, open_nodes reads some by name."
    return {**cut, "note": f"Too long, so this is a part: {', '.join(notes)}. {advice}"}


def _with_parts(
    rows: Sequence[EntityRow], words: str, room: int
) -> tuple[list[EntityRow], list[str]]:
    """Return the entities that fit, long ones shortened, and what is missing of these."""
    taken = _fitting(rows, room, _least)
    left = room - sum(map(_least, taken))
    shown: list[EntityRow] = []
    notes: list[str] = []
    for place, row in enumerate(taken, start=1):
        least, part = _least(row), row
        if _size([row]) > least + left:
            part, missing = _with_fewer(row, words, least + left)
            entity = "the first entity" if place == 1 else f"entity {place}"
            notes.append(missing.format(entity))
        left -= _size([part]) - least
        shown.append(part)
    return shown, notes


def _least(row: EntityRow) -> int:
    """Return the bytes that an entity must get to be shown."""
    size = _size([row])
    if size <= _LONG_BYTES:
        return size
    return min(size, max(_bare_size(row) + _LEAST_BYTES, _LONG_BYTES))


def _bare_size(row: EntityRow) -> int:
    """Return the bytes of an entity without the texts of its observations."""
    return _size([{**row, "observations": [""]}])


def _with_fewer(row: EntityRow, words: str, room: int) -> tuple[EntityRow, str]:
    """Return an entity with as many of its observations as fit, those with some words first.

    The first of these is cut if it is too long: it gets half of the room, and what others leave.
    Also return what is missing of which entity.
    """
    texts, sought = list(row["observations"]), words.casefold()
    order = sorted(range(len(texts)), key=lambda at: sought not in texts[at].casefold())
    sizes = [_text_size(text) for text in texts]
    left = room - _bare_size(row)
    is_cut = sizes[order[0]] > left
    if is_cut:
        others = _fitting(order[1:], left // 2, sizes.__getitem__)
        kept = [order[0], *others]
        texts[order[0]] = _beginning(texts[order[0]], left - sum(sizes[at] for at in others))
    else:
        kept = _fitting(order, left, sizes.__getitem__)
    missing = f"{len(kept)} of {counted(len(texts), 'observation')} of {{}}"
    if is_cut:
        missing = f"{missing}, one of them cut" if texts[1:] else "the observation of {}, cut"
    return {**row, "observations": [texts[at] for at in sorted(kept)]}, missing


def _beginning(text: str, room: int) -> str:
    """Return as much of the beginning of an observation as fits."""

    def size(end: int) -> int:
        return _text_size(f"{text[:end]}…")

    return f"{text[: bisect_right(range(1, min(len(text), room)), room, key=size)]}…"


def _fitting(
    rows: Iterable[_Row], room: int, size: Callable[[_Row], int] = lambda row: _size([row])
) -> list[_Row]:
    """Return the rows that fit, in order; one that is too long is passed over."""
    kept: list[_Row] = []
    passed_over = 0
    for row in rows:
        needed = size(row)
        if needed <= room:
            room -= needed
            kept.append(row)
        else:
            passed_over += 1
            if passed_over > _MOST_PASSED_OVER:
                break
    return kept


def _fits(rows: Sequence[Any], room: int) -> bool:
    """Tell whether all rows fit."""
    for row in rows:
        room -= _size([row])
        if room < 0:
            return False
    return True


def _text_size(text: str) -> int:
    """Return the bytes of an observation, which stands deeper in an answer than its entity."""
    return _size([text]) + _INDENT


def _size(rows: Sequence[Any]) -> int:
    """Return the bytes of rows in an answer."""
    total = 0
    for row in rows:
        text = json.dumps(row, ensure_ascii=False, indent=2)
        lines = text.count("\n") + 1
        total += len(text.encode("utf-8", "surrogatepass")) + _INDENT * lines + _BETWEEN
    return total
