"""Rows for a model that reads JSON: what it needs of a hit or a document, and nothing twice.

They have tars' names: ``content``, ``file_path``, ``file_title``, ``memory_type``, ``start_line``
and ``end_line`` are always there. Everything else is left out where it says nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from plait.present.json import changed_dict
from plait.searching.recall import RecalledItem
from plait.types import Document, Hit, Passage
from plait.types.shapes import period_dict, time_text, turn_dict


def hit_row(hit: Hit, *, whole: bool) -> dict[str, Any]:
    """Return a hit with its whole passage, or else with its snippet."""
    content = hit.content.strip("\n") if whole else hit.snippet
    return {
        "id": hit.id,
        "score": round(hit.score, 4),
        "relevance": round(hit.relevance, 4),
        **_place(content, hit.document, hit.start_line, hit.end_line),
        **without_empty({"weak": hit.is_weak, "cut": not whole, "heading": hit.heading}),
        **_about(hit.document, hit.superseded_by),
        **changed_dict(hit.changed_since),
    }


def item_row(item: RecalledItem) -> dict[str, Any]:
    """Return a part of a recalled text, as it stands in the text."""
    told = {
        "cut": not item.whole,
        "section": item.section,
        "heading": item.hit.heading,
        "pinned": item.hit.document.pinned,
        "project": item.project,
    }
    return {
        "id": item.hit.id,
        "relevance": round(item.hit.relevance, 4),
        **_place(item.text, item.hit.document, item.start_line, item.end_line),
        **without_empty(told),
        **_about(item.hit.document, item.hit.superseded_by),
        **changed_dict(item.hit.changed_since),
    }


def readable_row(
    document: Document, passage: Passage | None, superseded_by: str | None, secret: Sequence[str]
) -> dict[str, Any]:
    """Return a document, or one passage of it; ``secret``: kinds of secrets in it."""
    if passage is None:
        content, heading, lines = document.text, "", (1, document.text.count("\n") + 1)
    else:
        content, heading = passage.text.strip("\n"), passage.heading
        lines = (passage.start_line, passage.end_line)
    return {
        "id": document.id if passage is None else passage.id,
        **_place(content, document, *lines),
        **without_empty({"heading": heading, "summary": document.summary, "secret": list(secret)}),
        **_about(document, superseded_by),
    }


def _place(content: str, document: Document, start_line: int, end_line: int) -> dict[str, Any]:
    return {
        "content": content,
        "file_path": document.path,
        "file_title": document.title,
        "memory_type": document.memory_type,
        "start_line": start_line,
        "end_line": end_line,
    }


def _about(document: Document, superseded_by: str | None) -> dict[str, Any]:
    fields = {
        "key": document.key if document.kind != "file" else None,
        "kind": document.kind,
        "type": document.type,
        "tags": list(document.tags),
        "event_at": time_text(document.event_at),
        "trust": document.trust if document.trust != "trusted" else None,
        **(turn_dict(document) if document.kind == "message" else {}),
        **period_dict(document, superseded_by),
    }
    return without_empty(fields)


def without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that say something."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], False)}
