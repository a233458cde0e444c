"""The profile ``layers``: mcb's three tools, each with more text and cost than the one before."""

import re
from collections.abc import Sequence
from typing import Any

from plait.errors import quotable
from plait.memory.beyond import Beyond, documents_elsewhere
from plait.present.text import caveats, corrections_text, counted
from plait.times import show_time
from plait.tools.core import GET_TOKENS, SEARCH_TOKENS, TIMELINE_TOKENS
from plait.tools.lines import day_lines, hit_lines
from plait.tools.reading import (
    beyond_notes,
    elsewhere_note,
    look_beyond,
    memory_get,
    project_mark,
)
from plait.tools.replies import (
    MAX_TOKENS,
    Reply,
    fit_to_budget,
)
from plait.tools.schemas import ROWS, boolean, integer, object_of, string, strings
from plait.tools.tool import Call, Tool
from plait.tools.wording import damaged_remark
from plait.types import Document, Hit
from plait.types.shapes import corrections_of

SEARCH_HITS = 10
MAX_TIMELINE_ROWS = 200


def timeline(call: Call) -> Reply:
    """Return the first layer: documents between two dates, newest first."""
    arguments = call.arguments
    where = {"since": arguments.get("start_date"), "until": _day_end(arguments.get("end_date"))}
    everywhere = arguments["all_projects"]
    damaged: list[str] = []
    # One more than is shown tells whether there are more.
    documents = call.memory.timeline(
        limit=MAX_TIMELINE_ROWS + 1, where=where, all_projects=everywhere, damaged=damaged
    )
    page = documents[:MAX_TIMELINE_ROWS]
    beyond = max(0, len(documents) + len(damaged) - MAX_TIMELINE_ROWS)
    remark = damaged_remark(damaged, call.memory.config)
    secrets = call.memory.secrets(page)
    earlier = call.memory.earlier(page)
    remarks = {
        row.id: caveats(row, secret=secrets.get(row.id, ()), earlier=earlier.get(row.id, 0))
        for row in page
    }
    elsewhere = 0
    if not (documents or everywhere):
        elsewhere = documents_elsewhere(call.memory, where)

    def render(shown: Sequence[Document], no_room: int) -> Reply:
        left_out = no_room + beyond
        rows = [(call, document, secrets.get(document.id, ())) for document in shown]
        data: dict[str, Any] = {"results": [_row_data(*row) for row in rows]}
        if damaged:
            data["damaged"] = [quotable(id_) for id_ in damaged]
        note = ""
        if left_out:
            data["left_out"] = left_out
            least = "At least " if beyond else ""
            remedy = "raise max_tokens" if no_room else "ask for earlier dates"
            note = f"{least}{counted(left_out, 'older one')} left out: {remedy}."
        advice = "" if documents or damaged else "Nothing in that time."
        if elsewhere:
            data["elsewhere"] = elsewhere
            advice += f" {elsewhere_note(elsewhere)}"
        lines = day_lines(call, shown, remarks)
        return call.reply("\n".join(lines), data, remark, f"{note} {advice}".strip())

    return fit_to_budget(page, render, arguments["max_tokens"], with_data=call.with_data)


def _moment(document: Document) -> str:
    """Return when it happened: the time that a range of dates selects by."""
    return show_time(document.event_at or document.created_at)


def _row_data(call: Call, document: Document, secret: Sequence[str]) -> dict[str, Any]:
    return {
        "id": document.id,
        "created_at": show_time(document.created_at),
        "event_at": _moment(document),
        "type": document.type or document.kind,
        "tags": list(document.tags),
        "summary": document.summary or "",
        **project_mark(call, document),
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
    query, everywhere = call.arguments["query"], call.arguments["all_projects"]
    answer = call.memory.search(query, limit=call.arguments["limit"], all_projects=everywhere)
    degraded = [call.worded(reason) for reason in answer.receipt.degraded]
    earlier = call.memory.earlier(hit.document for hit in answer)
    elsewhere = 0
    if all(hit.is_weak for hit in answer):
        elsewhere = look_beyond(call, query).elsewhere

    def render(hits: Sequence[Hit], left_out: int) -> Reply:
        data: dict[str, Any] = {"results": [_hit_data(call, hit) for hit in hits]}
        if degraded:
            data["degraded"] = degraded
        if answer.receipt.corrections:
            data["corrections"] = corrections_of(answer.receipt)
        more = ""
        if left_out:
            data["left_out"] = left_out
            more = f"{counted(left_out, 'more hit')} left out: raise max_tokens."
        advice = "" if answer else "No hits." if elsewhere else "No hits. Try other words."
        if elsewhere:
            data["elsewhere"] = elsewhere
            [note] = beyond_notes(Beyond(elsewhere))
            advice = f"{advice} {note}".strip()
        told = f"{more} {advice}".strip()
        spelling = corrections_text(answer.receipt)
        lines = [spelling, *hit_lines(call, hits, earlier, spelling, told)]
        return call.reply("\n".join(filter(None, lines)), data, *degraded, told)

    return fit_to_budget(
        answer.hits, render, call.arguments["max_tokens"], with_data=call.with_data
    )


def _hit_data(call: Call, hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "score": round(hit.score, 4),
        "similarity_score": round(hit.relevance, 4),
        "snippet": hit.snippet,
        **({"weak": True} if hit.is_weak else {}),
        **project_mark(call, hit.document),
        **_trust_mark(hit.document),
    }


def get_observations(call: Call) -> Reply:
    """Return the third layer: whole documents."""
    return memory_get(call._replace(arguments={**call.arguments, "document": True}))


LAYERS_TOOLS = (
    Tool(
        "timeline",
        "Layer 1, cheapest: list what happened between two dates, one line each. Use it for an "
        "overview before searching.",
        object_of(
            start_date=string("first day, or an age like 7d"),
            end_date=string("last day, included"),
            all_projects=boolean("beyond this project"),
            max_tokens=integer(minimum=1, maximum=MAX_TOKENS, default=TIMELINE_TOKENS),
        ),
        timeline,
        output=ROWS,
    ),
    Tool(
        "search_memories",
        "Layer 2: get ids and snippets for a query, each with how well it matches: in percent, or "
        "weak. Snippets are only leads.",
        object_of(
            "query",
            query=string("words or a question"),
            limit=integer(minimum=1, maximum=50, default=SEARCH_HITS),
            all_projects=boolean("beyond this project"),
            max_tokens=integer(minimum=1, maximum=MAX_TOKENS, default=SEARCH_TOKENS),
        ),
        search_memories,
        output=ROWS,
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
        output=ROWS,
    ),
)
