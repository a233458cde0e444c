"""The tool ``memory_recall``: one text for a prompt, or rows, within a budget."""

from typing import Any

from plait.memory.beyond import Beyond
from plait.present.json import changed_dict
from plait.present.text import corrections_text, counted
from plait.searching.recall import Recalled
from plait.tools.reading import beyond_notes, look_beyond, project_mark, where_of
from plait.tools.replies import MAX_TOKENS, Reply, fence_with_notes, fit_to_budget
from plait.tools.rows import item_row
from plait.tools.tool import Call
from plait.types.shapes import corrections_of

# Tokens of the names and marks of a row, beside its content.
FIELDS_TOKENS = 80


def memory_recall(call: Call) -> Reply:
    """Return one text within the budget: the best passages, whole, or an overview."""
    arguments = call.arguments
    where = where_of(arguments)
    budget = min(arguments["budget_tokens"], MAX_TOKENS)
    packed = budget
    if call.as_rows:
        packed = max(budget // 2, budget - FIELDS_TOKENS * arguments["limit"])
    reach: dict[str, Any] = {
        "budget_tokens": packed,
        "where": where,
        "all_projects": arguments["all_projects"],
    }
    query = arguments.get("query") or ""
    # A model that has no question may send an empty one.
    if arguments["overview"] or not query.strip():
        recalled = call.memory.overview(**reach)
    else:
        recalled = call.memory.recall(query, limit=arguments["limit"], **reach)
    rest = None
    # What is pinned is always there.
    if not (recalled.is_overview or any(item.hit.relevance for item in recalled.items)):
        rest = look_beyond(call, query, where)
    if not call.as_rows:
        return _recalled_reply(call, recalled, rest)
    return fit_to_budget(
        recalled.items,
        lambda items, no_room: _recalled_rows(
            call, recalled._replace(items=tuple(items), left_out=recalled.left_out + no_room), rest
        ),
        budget,
        with_data=True,
    )


def _recalled_reply(call: Call, recalled: Recalled, rest: Beyond | None) -> Reply:
    data: dict[str, Any] = {
        "text": recalled.text,
        "tokens": recalled.tokens,
        "results": [
            {
                "id": item.hit.id,
                "relevance": round(item.hit.relevance, 4),
                "whole": item.whole,
                **({"pinned": True} if item.hit.document.pinned else {}),
                **project_mark(call, item.hit.document),
                **changed_dict(item.hit.changed_since),
            }
            for item in recalled.items
        ],
        **_recall_remarks(call, recalled, rest),
    }
    # The searched word is out of a stored text, so it stands in a fence, too.
    spelling = fence_with_notes(corrections_text(recalled.receipt))
    notes = [*data.get("degraded", ()), _recall_note(recalled, rest)]
    return Reply("\n".join(filter(None, [recalled.text, spelling, *notes])), data)


def _recalled_rows(call: Call, recalled: Recalled, rest: Beyond | None) -> Reply:
    remarks = _recall_remarks(call, recalled, rest)
    data = {"results": [item_row(item) for item in recalled.items], **remarks}
    body = "\n".join(item.text for item in recalled.items)
    return call.reply(body, data, *remarks.get("degraded", ()), _recall_note(recalled, rest))


def _recall_remarks(call: Call, recalled: Recalled, rest: Beyond | None) -> dict[str, Any]:
    """Return what a program should know about the answer as a whole."""
    remarks: dict[str, Any] = {}
    if recalled.left_out:
        remarks["left_out"] = recalled.left_out
    if recalled.receipt.degraded:
        remarks["degraded"] = [call.worded(reason) for reason in recalled.receipt.degraded]
    if recalled.receipt.corrections:
        remarks["corrections"] = corrections_of(recalled.receipt)
    if rest is not None and not recalled.left_out:
        remarks.update({name: count for name, count in rest._asdict().items() if count})
    return remarks


def _recall_note(recalled: Recalled, rest: Beyond | None) -> str:
    """Return what to do if something is missing."""
    if recalled.left_out:
        more = counted(recalled.left_out, "more line" if recalled.is_overview else "more hit")
        return f"{more} did not fit: raise budget_tokens."
    if recalled.is_overview:
        return "" if recalled.items else "Nothing to show."
    if rest is None:
        return ""
    nothing = f"Nothing {'else ' if recalled.items else ''}in memory is relevant to that."
    advice = beyond_notes(rest, "memory_search with ")
    return " ".join([nothing, *(advice or ["Try other words with memory_search."])])
