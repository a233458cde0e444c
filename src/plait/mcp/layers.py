"""The profile ``layers``: three tools, each dearer and fuller than the one before (seed 003)."""

import re
from collections.abc import Sequence
from typing import Any

from plait import present
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
from plait.scope import moment
from plait.times import show_time
from plait.types import Document, Hit

DAY_MS = 86_400_000
SEARCH_LIMIT = 10
TIMELINE_LIMIT = 200


def timeline(call: Call) -> Reply:
    """First layer: what there is between two dates, newest first."""
    given = call.given
    found = call.memory.timeline(
        limit=TIMELINE_LIMIT,
        where={"since": given.get("start_date"), "until": _day_end(given.get("end_date"))},
    )

    def render(rows: Sequence[Document], left_out: int) -> Reply:
        lines = [
            " ".join(f"{row.id} {_shown(row)} {row.type or row.kind} {row.summary}".split())
            for row in rows
        ]
        said = f"{present.counted(left_out, 'older one')} left out." if left_out else ""
        advice = "Next: search_memories, or get_observations with ids." if rows else "Nothing then."
        return Reply(
            fenced("\n".join(lines), f"{said} {advice}".strip()),
            {"results": [_row(row) for row in rows]},
        )

    return within(found, render, given["max_tokens"])


def _row(document: Document) -> dict[str, Any]:
    return {
        "id": document.id,
        "created_at": _shown(document),
        "type": document.type or document.kind,
        "tags": list(document.tags),
        "summary": document.summary or "",
    }


def _shown(document: Document) -> str:
    return show_time(document.created_at)


def _day_end(date: str | None) -> int | str | None:
    """A day means all of it; any other moment means itself."""
    if date is None or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date.strip()):
        return date
    begins = moment(date)
    return None if begins is None else begins + DAY_MS


def search_memories(call: Call) -> Reply:
    """Second layer: what fits a query, as ids, scores and snippets."""
    answer = call.memory.search(call.given["query"], limit=call.given["limit"])
    degraded = list(answer.receipt.degraded)

    def render(hits: Sequence[Hit], left_out: int) -> Reply:
        lines = [f"{hit.id[:SHORT_ID]} {hit.score:.2f} {hit.snippet}" for hit in hits]
        more = f"{present.counted(left_out, 'more hit')} left out." if left_out else ""
        advice = "Next: get_observations with ids." if hits else "Nothing found. Try other words."
        return Reply(
            fenced("\n".join(lines), *degraded, f"{more} {advice}".strip()),
            {"results": [_scored(hit) for hit in hits]},
        )

    return within(answer.hits, render, call.given["max_tokens"])


def _scored(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "score": round(hit.score, 4),
        "similarity_score": round(hit.relevance, 4),
        "snippet": hit.snippet,
    }


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
