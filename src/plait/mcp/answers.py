"""What the reading tools answer: search, recall, get and timeline, within a budget of tokens."""

from collections.abc import Sequence
from typing import Any

from plait import present
from plait.errors import UsageError
from plait.mcp.tool import Call, Reply, fenced, priced, within
from plait.packing import SHORT_ID, tokens_of
from plait.scope import page_end, page_start
from plait.times import show_day, show_time
from plait.types import Document, Hit, Passage

# Tokens below which a cut text says too little to be worth its head.
LEAST_PART = 40


# -- search --------------------------------------------------------------------------------


def search(call: Call) -> Reply:
    """Hits as ids, scores and snippets."""
    given = call.given
    answer = call.memory.search(
        given["query"],
        limit=given["limit"],
        where=_where(given),
        all_projects=given["all_projects"],
    )
    degraded = list(answer.receipt.degraded)

    def render(hits: Sequence[Hit], left_out: int) -> Reply:
        data: dict[str, Any] = {"results": [_hit(hit) for hit in hits]}
        if degraded:
            data["degraded"] = degraded
        if left_out:
            data["left_out"] = left_out
        lines = [f"{_hit_head(hit)}\n{hit.snippet}" for hit in hits]
        said = _said(len(hits), left_out, "hit", "limit" if not left_out else "max_tokens")
        advice = "Read one whole: memory_get with its id." if hits else "Try other words."
        return Reply(fenced("\n".join(lines), *degraded, f"{said} {advice}"), data)

    return within(answer.hits, render, given["max_tokens"])


def _hit(hit: Hit) -> dict[str, Any]:
    found = {
        "id": hit.id,
        "score": round(hit.score, 4),
        "relevance": round(hit.relevance, 4),
        "snippet": hit.snippet,
        "doc_id": hit.doc_id,
        "heading": hit.heading,
        "line": hit.start_line,
        "date": show_day(hit.document.event_at),
        "type": hit.document.type,
        "tags": list(hit.document.tags),
        "trust": hit.document.trust,
        "origin": hit.document.origin,
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _hit_head(hit: Hit) -> str:
    facts = [hit.document.type or "", show_day(hit.document.event_at), _doubt(hit.document)]
    said = ", ".join(filter(None, facts))
    named = hit.document.kind == "file" or hit.document.key is not None
    where = f"{hit.doc_id}:{hit.start_line} {hit.heading}" if named else ""
    return _line(hit.id[:SHORT_ID], f"{hit.score:.2f}", where, f"({said})" if said else "")


def _line(*parts: str) -> str:
    """Parts on one line: a name with a line break in it could pass for more than a name."""
    return " ".join(" ".join(parts).split())


def _doubt(document: Document) -> str:
    return "" if document.trust == "trusted" else document.trust


def _where(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a filter among the arguments."""
    names = {"types": "types", "tags": "tags", "since": "since", "until": "until"}
    names |= {"entity": "entity", "as_of": "as_of", "path": "path_prefix"}
    return {field: given[name] for name, field in names.items() if given.get(name)}


def _said(shown: int, left_out: int, noun: str, knob: str) -> str:
    if not left_out:
        return f"{present.counted(shown, noun)}."
    more = present.counted(left_out, f"more {noun}")
    return f"{present.counted(shown, noun)}; {more} had no room: raise {knob}."


# -- recall --------------------------------------------------------------------------------


def recall(call: Call) -> Reply:
    """One text within the budget, the best hits whole."""
    given = call.given
    recalled = call.memory.recall(
        given["query"],
        limit=given["limit"],
        budget_tokens=given["budget_tokens"],
        where=_where(given),
        all_projects=given["all_projects"],
    )
    degraded = list(recalled.receipt.degraded)
    data: dict[str, Any] = {
        "text": recalled.text,
        "tokens": recalled.tokens,
        "results": [
            {"id": item.hit.id, "relevance": round(item.hit.relevance, 4), "whole": item.whole}
            for item in recalled.items
        ],
    }
    if recalled.left_out:
        data["left_out"] = recalled.left_out
    if degraded:
        data["degraded"] = degraded
    said = ""
    if recalled.left_out:
        more = present.counted(recalled.left_out, "more hit")
        said = f"{more} had no room: raise budget_tokens."
    elif not recalled.text:
        said = "Nothing in memory is relevant to that. Try other words with memory_search."
    return Reply("\n".join(filter(None, [recalled.text, *degraded, said])), data)


# -- get -----------------------------------------------------------------------------------


def get(call: Call) -> Reply:
    """Whole documents or passages, in one query."""
    found = call.memory.get_many(call.given["ids"])
    whole_documents = call.given["document"]
    rows = [(row, None if whole_documents else passage) for row, passage in found]
    budget = call.given["max_tokens"]

    def render(rows: Sequence[tuple[Document, Passage | None]], left_out: int) -> Reply:
        data: dict[str, Any] = {"results": [_whole(*row) for row in rows]}
        if left_out:
            data["left_out"] = left_out
        body = "\n\n".join(_whole_text(*row) for row in rows)
        more = present.counted(left_out, "more document")
        said = f"{more} had no room: ask for fewer ids or raise max_tokens." if left_out else ""
        return Reply(fenced(body, said), data)

    reply = within(rows, render, budget)
    if reply.data["results"]:
        return reply
    return _part(rows, render, budget)


def _part(rows: Sequence[tuple[Document, Passage | None]], render: Any, budget: int) -> Reply:
    """The first document alone, cut to the budget."""
    document, passage = rows[0]
    body = document.text if passage is None else passage.text
    price = tokens_of(body)
    low, high = 0, len(body)
    best = None
    while low < high:
        middle = (low + high + 1) // 2
        row = _shortened(document, passage, f"{body[:middle]}…")
        tried = render([row], len(rows) - 1)
        note = f"Cut: the whole is about {price:,} tokens. Raise max_tokens, or search for a part."
        reply = priced(Reply(f"{tried.text}\n{note}", {**tried.data, "cut": True}))
        if reply.data["tokens"] <= budget:
            low, best = middle, reply
        else:
            high = middle - 1
    if best is None or low < LEAST_PART:
        raise UsageError(f"max_tokens is {budget}; the first document alone costs {price:,}.")
    return best


def _shortened(
    document: Document, passage: Passage | None, body: str
) -> tuple[Document, Passage | None]:
    if passage is None:
        return document._replace(text=body), None
    return document, passage._replace(text=body)


def _whole(document: Document, passage: Passage | None) -> dict[str, Any]:
    if passage is not None:
        found = present.passage_dict(passage, document)
    else:
        found = present.document_dict(document)
        for name in ("size", "sha256", "file_mtime", "indexed_at", "path", "source"):
            found.pop(name, None)
    return {name: value for name, value in found.items() if value not in (None, "", [], {}, False)}


def _whole_text(document: Document, passage: Passage | None) -> str:
    if passage is not None:
        return present.passage_text(passage, document)
    return present.document_text(document)


# -- timeline ------------------------------------------------------------------------------


def timeline(call: Call) -> Reply:
    """What happened, newest first, or around one document."""
    given = call.given
    around: dict[str, Any] = {}
    if given.get("anchor"):
        around = {name: given[name] for name in ("anchor", "older", "newer")}
    found = call.memory.timeline(
        limit=given["limit"],
        before=page_start(given.get("cursor")),
        where=_where(given),
        all_projects=given["all_projects"],
        **around,
    )
    is_full = len(found) == given["limit"] and not around

    def render(rows: Sequence[Document], left_out: int) -> Reply:
        data: dict[str, Any] = {"results": [_row(row) for row in rows]}
        said = _said(len(rows), left_out, "document", "max_tokens")
        if left_out:
            data["left_out"] = left_out
        if rows and not around and (left_out or is_full):
            data["next"] = page_end(rows[-1].event_at, rows[-1].id)
            said += f" Older ones: cursor={data['next']}."
        return Reply(fenced("\n".join(_row_text(row) for row in rows), said), data)

    return within(found, render, given["max_tokens"])


def _row(document: Document) -> dict[str, Any]:
    found = {
        "id": document.id,
        "created_at": show_time(document.created_at),
        "event_at": show_time(document.event_at or document.created_at),
        "type": document.type or document.kind,
        "tags": list(document.tags),
        "title": document.title,
        "summary": document.summary or "",
        "trust": document.trust if document.trust != "trusted" else "",
    }
    return {name: value for name, value in found.items() if value not in ("", [])}


def _row_text(document: Document) -> str:
    what = document.type or document.kind
    tags = f"[{', '.join(document.tags)}]" if document.tags else ""
    day = show_day(document.event_at)
    words = document.summary or document.title
    return _line(document.id[:SHORT_ID], day, what, tags, _doubt(document), words)
