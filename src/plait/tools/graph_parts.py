"""Answers of the graph's tools, cut to what clients pass on to a model as a whole.

The reference server has no such limit. Claude Code shows a model only the first 2,000 characters of
an answer above 50,000.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from plait.present.text import counted

# Bytes of an answer as indented JSON, which is longer than the data.
GRAPH_BYTES = 40_000
# Bytes of the note, and of what stands around the rows.
_NOTE_BYTES = 600
# The part of the room that relations may take from entities: one in so many.
_FOR_RELATIONS = 4
# What stands before each line of a row in the answer, and behind the row.
_INDENT = 4
_BETWEEN = 2

EntityRow = dict[str, Any]


def fitted(data: Mapping[str, Any], words: str = "") -> dict[str, Any]:
    """Return an answer with as many of its first rows as fit, and with a note if that is not all.

    ``words`` is what was looked for: if the first entity alone is too long, it keeps the
    observations that contain them, before others.
    """
    name = "entities" if "entities" in data else "results"
    rows, edges = data[name], data.get("relations", [])
    room = GRAPH_BYTES - _NOTE_BYTES
    whole = _fitting(rows, room)
    if whole == len(rows) and _fitting(edges, room - _size(rows)) == len(edges):
        return dict(data)
    for_edges = min(_size(edges[: _fitting(edges, room)]), room // _FOR_RELATIONS)
    shown = rows[: _fitting(rows, room - for_edges)]
    notes = []
    if rows and not shown:
        first = _with_fewer(rows[0], words, room - for_edges)
        shown = [first] if _size([first]) <= room else []
        total, kept = len(rows[0]["observations"]), len(first["observations"])
        notes.append(f"{kept} of {counted(total, 'observation')} of the first entity")
    if len(shown) < len(rows):
        notes.insert(0, f"{len(shown)} of {counted(len(rows), 'entity')}")
    names = {row["name"] for row in shown}
    near = [edge for edge in edges if names & {edge["from"], edge["to"]}]
    near = near[: _fitting(near, room - _size(shown))]
    if len(near) < len(edges):
        notes.append(f"{len(near)} of {counted(len(edges), 'relation')}")
    cut: dict[str, Any] = {**data, name: shown}
    if "relations" in data:
        cut["relations"] = near
    advice = "search_nodes finds others by their words, open_nodes reads some by name."
    return {**cut, "note": f"Too long, so this is a part: {', '.join(notes)}. {advice}"}


def _with_fewer(row: EntityRow, words: str, room: int) -> EntityRow:
    """Return an entity with as many of its observations as fit, those with some words first."""
    texts, sought = row["observations"], words.casefold()
    order = sorted(range(len(texts)), key=lambda at: sought not in texts[at].casefold())
    left = room - _size([{**row, "observations": []}])
    kept: list[int] = []
    for at in order:
        left -= _size([texts[at]]) + _INDENT
        if left < 0:
            break
        kept.append(at)
    if texts and not kept:
        return {**row, "observations": [f"{_beginning(texts[order[0]], room // 2)}…"]}
    return {**row, "observations": [texts[at] for at in sorted(kept)]}


def _beginning(text: str, size: int) -> str:
    # Escaped, a character may be six times as long.
    return text.encode("utf-8", "surrogatepass")[: size // 6].decode("utf-8", "ignore")


def _fitting(rows: Sequence[Any], room: int) -> int:
    """Return how many of the first rows fit."""
    for count, row in enumerate(rows):
        room -= _size([row])
        if room < 0:
            return count
    return len(rows)


def _size(rows: Sequence[Any]) -> int:
    """Return the bytes of rows in an answer."""
    total = 0
    for row in rows:
        text = json.dumps(row, ensure_ascii=False, indent=2)
        lines = text.count("\n") + 1
        total += len(text.encode("utf-8", "surrogatepass")) + _INDENT * lines + _BETWEEN
    return total
