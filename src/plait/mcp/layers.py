"""The profile ``layers``: mcb's three tools, each with more text and cost than the one before."""

import re
from collections.abc import Sequence
from typing import Any

from plait.errors import quotable
from plait.mcp.core import GET_TOKENS, SEARCH_TOKENS, TIMELINE_TOKENS
from plait.mcp.reading import memory_get
from plait.mcp.replies import MAX_TOKENS, Reply, fence_with_notes, fit_to_budget, on_one_line
from plait.mcp.schemas import Schema, array_of, integer, object_of, string, strings
from plait.mcp.tool import Call, Tool
from plait.mcp.wording import damaged_remark, worded
from plait.present.text import caveats, counted, sort_of
from plait.times import show_time
from plait.types import SHORT_ID, Document, Hit

SEARCH_HITS = 10
MAX_TIMELINE_ROWS = 200


def timeline(call: Call) -> Reply:
    """Return the first layer: documents between two dates, newest first."""
    arguments = call.arguments
    damaged: list[str] = []
    # One more than is shown tells whether there are more.
    documents = call.memory.timeline(
        limit=MAX_TIMELINE_ROWS + 1,
        where={
            "since": arguments.get("start_date"),
            "until": _day_end(arguments.get("end_date")),
        },
        damaged=damaged,
    )
    page = documents[:MAX_TIMELINE_ROWS]
    beyond = max(0, len(documents) + len(damaged) - MAX_TIMELINE_ROWS)
    remark = damaged_remark(damaged, call.memory.config)
    secrets = call.memory.secrets(page)

    def render(shown: Sequence[Document], no_room: int) -> Reply:
        left_out = no_room + beyond
        data: dict[str, Any] = {
            "results": [_row_data(document, secrets.get(document.id, ())) for document in shown]
        }
        if damaged:
            data["damaged"] = [quotable(id_) for id_ in damaged]
        note = ""
        if left_out:
            data["left_out"] = left_out
            least = "At least " if beyond else ""
            remedy = "raise max_tokens" if no_room else "ask for earlier dates"
            note = f"{least}{counted(left_out, 'older one')} left out: {remedy}."
        advice = "Next: search_memories, or get_observations with ids." if shown else ""
        if not documents and not damaged:
            advice = "Nothing in that time."
        lines = [_row_line(document, secrets.get(document.id, ())) for document in shown]
        return Reply(fence_with_notes("\n".join(lines), remark, f"{note} {advice}".strip()), data)

    return fit_to_budget(page, render, arguments["max_tokens"])


def _row_line(document: Document, secret: Sequence[str]) -> str:
    remarks = ", ".join(caveats(document, secret=secret))
    return on_one_line(
        document.id,
        show_time(document.created_at),
        sort_of(document),
        f"({remarks})" if remarks else "",
        document.summary or "",
    )


def _row_data(document: Document, secret: Sequence[str]) -> dict[str, Any]:
    return {
        "id": document.id,
        "created_at": show_time(document.created_at),
        "type": document.type or document.kind,
        "tags": list(document.tags),
        "summary": document.summary or "",
        **_trust_mark(document),
        **({"secret": list(secret)} if secret else {}),
    }


def _trust_mark(document: Document) -> dict[str, str]:
    """Return the trust of a text that is not trusted; mcb's rows have no such field."""
    return {} if document.trust == "trusted" else {"trust": document.trust}


def _day_end(date: str | None) -> int | str | None:
    """Return the end of a day, because the day is included; any other time unchanged."""
    if date is None or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date.strip()):
        return date
    from datetime import date as Day
    from datetime import timedelta

    try:
        # The next day by the calendar: where clocks are changed, a day has 23 or 25 hours.
        return (Day.fromisoformat(date.strip()) + timedelta(days=1)).isoformat()
    except ValueError:
        return date  # not a day: the memory refuses it like any other bad time
    except OverflowError:
        return None


def search_memories(call: Call) -> Reply:
    """Return the second layer: ids, scores and snippets of what matches a query."""
    answer = call.memory.search(call.arguments["query"], limit=call.arguments["limit"])
    degraded = [worded(reason, call.memory.config) for reason in answer.receipt.degraded]

    def render(hits: Sequence[Hit], left_out: int) -> Reply:
        data: dict[str, Any] = {"results": [_hit_data(hit) for hit in hits]}
        more = ""
        if left_out:
            data["left_out"] = left_out
            more = f"{counted(left_out, 'more hit')} left out: raise max_tokens."
        advice = "Next: get_observations with ids." if hits else ""
        if not answer:
            advice = "No hits. Try other words."
        lines = [_hit_line(hit) for hit in hits]
        text = fence_with_notes("\n".join(lines), *degraded, f"{more} {advice}".strip())
        return Reply(text, data)

    return fit_to_budget(answer.hits, render, call.arguments["max_tokens"])


def _hit_data(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "score": round(hit.score, 4),
        "similarity_score": round(hit.relevance, 4),
        "snippet": hit.snippet,
        **_trust_mark(hit.document),
    }


def _hit_line(hit: Hit) -> str:
    remarks = ", ".join(caveats(hit.document, hit.superseded_by))
    mark = f" ({remarks})" if remarks else ""
    return f"{hit.id[:SHORT_ID]} {hit.score:.2f}{mark} {hit.snippet}"


def get_observations(call: Call) -> Reply:
    """Return the third layer: whole documents."""
    return memory_get(call._replace(arguments={**call.arguments, "document": True}))


_RESULTS: Schema = object_of(
    "results", "tokens", results=array_of({"type": "object"}), tokens={"type": "integer"}
)

LAYERS_TOOLS = (
    Tool(
        "timeline",
        "Layer 1, cheapest: list what was stored between two dates, one line each. Use it for an "
        "overview before searching.",
        object_of(
            start_date=string("first day, or an age like 7d"),
            end_date=string("last day, included"),
            max_tokens=integer(minimum=1, maximum=MAX_TOKENS, default=TIMELINE_TOKENS),
        ),
        timeline,
        output=_RESULTS,
    ),
    Tool(
        "search_memories",
        "Layer 2: get ids, scores and snippets for a query. Snippets are only leads; "
        "similarity_score tells how well one matches.",
        object_of(
            "query",
            query=string("words or a question"),
            limit=integer(minimum=1, maximum=50, default=SEARCH_HITS),
            max_tokens=integer(minimum=1, maximum=MAX_TOKENS, default=SEARCH_TOKENS),
        ),
        search_memories,
        output=_RESULTS,
    ),
    Tool(
        "get_observations",
        "Layer 3, most expensive: read whole memories by id. Ask only for what you need from "
        "layers 1 and 2, several at once.",
        object_of(
            "ids",
            ids=strings(minItems=1, maxItems=50),
            max_tokens=integer(minimum=1, maximum=MAX_TOKENS, default=GET_TOKENS),
        ),
        get_observations,
        output=_RESULTS,
    ),
)
