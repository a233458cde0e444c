"""The profile ``layers``: three tools, each dearer and fuller than the one before (seed 003)."""

import re
from collections.abc import Sequence
from typing import Any

from plait import present
from plait.mcp.answers import doubts
from plait.mcp.answers import get as get_whole
from plait.mcp.arguments import Schema
from plait.mcp.memory_tools import GET_TOKENS, SEARCH_TOKENS, TIMELINE_TOKENS
from plait.mcp.tool import (
    MAX_TOKENS,
    Call,
    Reply,
    Tool,
    fenced,
    listed,
    takes,
    text,
    texts,
    whole,
    within,
)
from plait.packing import SHORT_ID
from plait.times import show_time
from plait.types import Document, Hit

SEARCH_LIMIT = 10
TIMELINE_LIMIT = 200


def timeline(call: Call) -> Reply:
    """First layer: what there is between two dates, newest first."""
    given = call.given
    # One more than is shown tells whether there are more.
    found = call.memory.timeline(
        limit=TIMELINE_LIMIT + 1,
        where={"since": given.get("start_date"), "until": _day_end(given.get("end_date"))},
    )
    listed, beyond = found[:TIMELINE_LIMIT], len(found) - len(found[:TIMELINE_LIMIT])

    def render(rows: Sequence[Document], no_room: int) -> Reply:
        left_out = no_room + beyond
        data: dict[str, Any] = {"results": [_row(row) for row in rows]}
        said = ""
        if left_out:
            data["left_out"] = left_out
            least = "At least " if beyond else ""
            knob = "raise max_tokens" if no_room else "ask for earlier dates"
            said = f"{least}{present.counted(left_out, 'older one')} left out: {knob}."
        advice = "Next: search_memories, or get_observations with ids." if rows else ""
        if not found:
            advice = "Nothing then."
        lines = [_row_text(row) for row in rows]
        return Reply(fenced("\n".join(lines), f"{said} {advice}".strip()), data)

    return within(listed, render, given["max_tokens"])


def _row_text(document: Document) -> str:
    said = ", ".join(doubts(document))
    what = [document.id, _shown(document), document.type or document.kind]
    parts = [*what, f"({said})" if said else "", document.summary or ""]
    return " ".join(" ".join(parts).split())


def _row(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "created_at": _shown(document),
        "type": document.type or document.kind,
        "tags": list(document.tags),
        "summary": document.summary or "",
        **_marked(document),
    }


def _marked(document: Document) -> dict[str, str]:
    """What seed 003's rows do not have: only where a text is not to be trusted."""
    return {} if document.trust == "trusted" else {"trust": document.trust}


def _shown(document: Document) -> str:
    return show_time(document.created_at)


def _day_end(date: str | None) -> int | str | None:
    """A day means all of it; any other moment means itself."""
    if date is None or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date.strip()):
        return date
    from datetime import date as Day
    from datetime import timedelta

    try:
        # The next day by the calendar: where clocks are changed, a day has 23 or 25 hours.
        return (Day.fromisoformat(date.strip()) + timedelta(days=1)).isoformat()
    except ValueError:
        return date  # no day at all: refused like any other text that is no time
    except OverflowError:
        return None


def search_memories(call: Call) -> Reply:
    """Second layer: what fits a query, as ids, scores and snippets."""
    answer = call.memory.search(call.given["query"], limit=call.given["limit"])
    degraded = list(answer.receipt.degraded)

    def render(hits: Sequence[Hit], left_out: int) -> Reply:
        data: dict[str, Any] = {"results": [_scored(hit) for hit in hits]}
        more = ""
        if left_out:
            data["left_out"] = left_out
            more = f"{present.counted(left_out, 'more hit')} left out: raise max_tokens."
        advice = "Next: get_observations with ids." if hits else ""
        if not answer:
            advice = "Nothing found. Try other words."
        lines = [_scored_text(hit) for hit in hits]
        return Reply(fenced("\n".join(lines), *degraded, f"{more} {advice}".strip()), data)

    return within(answer.hits, render, call.given["max_tokens"])


def _scored(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "score": round(hit.score, 4),
        "similarity_score": round(hit.relevance, 4),
        "snippet": hit.snippet,
        **_marked(hit.document),
    }


def _scored_text(hit: Hit) -> str:
    said = ", ".join(doubts(hit.document, hit.superseded_by))
    mark = f" ({said})" if said else ""
    return f"{hit.id[:SHORT_ID]} {hit.score:.2f}{mark} {hit.snippet}"


def get_observations(call: Call) -> Reply:
    """Third layer: whole objects."""
    return get_whole(call._replace(given={**call.given, "document": True}))


_RESULTS: Schema = takes(
    "results", "tokens", results=listed({"type": "object"}), tokens={"type": "integer"}
)

TOOLS = (
    Tool(
        "timeline",
        "Layer 1, cheapest: what was remembered between two dates, one line each. Use it to get an "
        "overview before searching.",
        takes(
            start_date=text("first day, or an age like 7d"),
            end_date=text("last day, included"),
            max_tokens=whole(minimum=1, maximum=MAX_TOKENS, default=TIMELINE_TOKENS),
        ),
        timeline,
        output=_RESULTS,
    ),
    Tool(
        "search_memories",
        "Layer 2: ids, scores and snippets for a query. Snippets are only leads; "
        "similarity_score says how far to believe one.",
        takes(
            "query",
            query=text("words or a question"),
            limit=whole(minimum=1, maximum=50, default=SEARCH_LIMIT),
            max_tokens=whole(minimum=1, maximum=MAX_TOKENS, default=SEARCH_TOKENS),
        ),
        search_memories,
        output=_RESULTS,
    ),
    Tool(
        "get_observations",
        "Layer 3, dearest: whole memories by id. Ask only for those that layers 1 and 2 made "
        "worth it, several at once.",
        takes(
            "ids",
            ids=texts(minItems=1, maxItems=50),
            max_tokens=whole(minimum=1, maximum=MAX_TOKENS, default=GET_TOKENS),
        ),
        get_observations,
        output=_RESULTS,
    ),
)
