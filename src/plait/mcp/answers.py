"""What the reading tools answer: search, recall, get and timeline, within a budget of tokens."""

from collections.abc import Callable, Sequence
from typing import Any

from plait import present
from plait.errors import UsageError
from plait.mcp.tool import Call, Reply, fenced, priced, within
from plait.mcp.wording import for_models
from plait.packing import SHORT_ID, most_that_fit, tokens_of
from plait.scope import page_end, page_start
from plait.times import show_day, show_end, show_time
from plait.types import Document, Hit, Passage

# Characters below which a cut text says too little to be worth its head.
LEAST_PART = 40
Row = tuple[Document, Passage | None]


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
        "valid_from": _shown(hit.document.valid_from),
        "valid_to": _shown(hit.document.valid_to),
        "superseded_by": hit.superseded_by,
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _shown(moment: int | None) -> str | None:
    return None if moment is None else show_time(moment)


def _hit_head(hit: Hit) -> str:
    facts = ["weak" if present.is_weak(hit) else "", hit.document.type or ""]
    facts.append(show_day(hit.document.event_at))
    said = ", ".join(filter(None, [*facts, *doubts(hit.document, hit.superseded_by)]))
    named = hit.document.kind == "file" or hit.document.key is not None
    where = f"{hit.doc_id}:{hit.start_line} {hit.heading}" if named else ""
    return _line(hit.id[:SHORT_ID], f"{hit.score:.2f}", where, f"({said})" if said else "")


def _line(*parts: str) -> str:
    """Parts on one line: a name with a line break in it could pass for more than a name."""
    return " ".join(" ".join(parts).split())


def doubts(document: Document, superseded_by: str | None = None) -> list[str]:
    """What a model must know before it believes a text: that it is untrusted, or no longer so."""
    trust = "" if document.trust == "trusted" else document.trust
    end = show_end(document.valid_to, superseded_by and superseded_by[:SHORT_ID])
    return [said for said in (trust, end) if said]


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
    """Whole documents or passages, in one query; unknown ids are named beside those that are there.

    Raises:
        NotFound: None of the ids is known.
        AmbiguousId: The same, and the first one fits several.
        UsageError: The budget does not even hold the beginning of the first document.
    """
    found, troubles = call.memory.get_known(call.given["ids"])
    if not found:
        raise next(iter(troubles.values()))
    whole_documents = call.given["document"]
    rows: list[Row] = [(row, None if whole_documents else passage) for row, passage in found]
    by = call.memory.successors(row for row, _ in rows)
    budget = call.given["max_tokens"]

    def render(rows: Sequence[Row], left_out: int) -> Reply:
        data: dict[str, Any] = {"results": [_whole(*row, by.get(row[0].id)) for row in rows]}
        if left_out:
            data["left_out"] = left_out
        if troubles:
            data["not_found"] = list(troubles)
        body = "\n\n".join(_whole_text(*row, by.get(row[0].id)) for row in rows)
        more = present.counted(left_out, "more document")
        said = f"{more} had no room: ask for fewer ids or raise max_tokens." if left_out else ""
        return Reply(fenced(body, said, *(for_models(str(one)) for one in troubles.values())), data)

    reply = within(rows, render, budget)
    return reply if reply.data["results"] else _part(rows, render, budget)


def _part(rows: Sequence[Row], render: Callable[[Sequence[Row], int], Reply], budget: int) -> Reply:
    """The first document alone, cut to the budget."""
    document, passage = rows[0]
    body = document.text if passage is None else passage.text

    def cut(count: int) -> Reply:
        shown = body if count == len(body) else f"{body[:count]}…"
        row = (
            (document._replace(text=shown), None)
            if passage is None
            else (document, passage._replace(text=shown))
        )
        tried = render([row], len(rows) - 1)
        if count == len(body):
            return priced(tried)
        whole = tokens_of(body)
        note = f"Cut: the whole is about {whole:,} tokens. Raise max_tokens, or search for a part."
        return priced(Reply(f"{tried.text}\n{note}", {**tried.data, "cut": True}))

    count = most_that_fit(len(body), lambda count: cut(count).data["tokens"] <= budget)
    if count < min(LEAST_PART, len(body)):
        whole = cut(len(body)).data["tokens"]
        raise UsageError(
            f"max_tokens is {budget}: too few for the first document, which costs {whole:,} whole."
        )
    return cut(count)


def _whole(
    document: Document, passage: Passage | None, superseded_by: str | None
) -> dict[str, Any]:
    if passage is not None:
        found = present.passage_dict(passage, document, superseded_by)
    else:
        found = present.document_dict(document, superseded_by)
        for name in ("size", "sha256", "file_mtime", "indexed_at", "path", "source"):
            found.pop(name, None)
    return {name: value for name, value in found.items() if value not in (None, "", [], {}, False)}


def _whole_text(document: Document, passage: Passage | None, superseded_by: str | None) -> str:
    if passage is not None:
        return present.passage_text(passage, document, superseded_by)
    return present.document_text(document, superseded_by)


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
    by = call.memory.successors(found)

    def render(rows: Sequence[Document], left_out: int) -> Reply:
        data: dict[str, Any] = {"results": [_row(row, by.get(row.id)) for row in rows]}
        said = _said(len(rows), left_out, "document", "max_tokens")
        if left_out:
            data["left_out"] = left_out
        if rows and not around and (left_out or is_full):
            data["next"] = page_end(rows[-1].event_at, rows[-1].id)
            said += f" Older ones: cursor={data['next']}."
        lines = [_row_text(row, by.get(row.id)) for row in rows]
        return Reply(fenced("\n".join(lines), said), data)

    return within(found, render, given["max_tokens"])


def _row(document: Document, superseded_by: str | None) -> dict[str, Any]:
    found = {
        "id": document.id,
        "created_at": show_time(document.created_at),
        "event_at": show_time(document.event_at or document.created_at),
        "type": document.type or document.kind,
        "tags": list(document.tags),
        "title": document.title,
        "summary": document.summary or "",
        "trust": document.trust if document.trust != "trusted" else "",
        "valid_to": _shown(document.valid_to),
        "superseded_by": superseded_by,
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _row_text(document: Document, superseded_by: str | None) -> str:
    what = document.type or document.kind
    tags = f"[{', '.join(document.tags)}]" if document.tags else ""
    day = show_day(document.event_at)
    words = document.summary or document.title
    said = ", ".join(doubts(document, superseded_by))
    return _line(document.id[:SHORT_ID], day, what, tags, f"({said})" if said else "", words)
