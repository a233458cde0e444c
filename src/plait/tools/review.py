"""The profile ``review``: what may be settled in the memory, and the tool that settles it."""

from collections.abc import Sequence
from typing import Any

from plait.errors import UsageError
from plait.memory.review import review
from plait.present.review import calls_of, item_dict, item_lines
from plait.present.text import counted, on_a_line
from plait.tools.arguments import as_written
from plait.tools.replies import MAX_TOKENS, Reply, fit_to_budget, named, with_cost
from plait.tools.schemas import ROWS, Schema, boolean, integer, object_of, string, strings
from plait.tools.tool import Call, Tool
from plait.types import STATUSES
from plait.types.review import REVIEW_KINDS, ReviewItem

REVIEW_TOKENS = 2_000
REVIEW_ITEMS = 20
MOST_FINDINGS = 200
_VERDICTS = ("good", "wrong", "none")
_ANY_OBJECT: Schema = {"type": "object"}


def memory_review(call: Call) -> Reply:
    """Return what a person may want to settle."""
    results = review(
        call.memory,
        call.arguments["kinds"],
        limit=call.arguments["limit"],
        all_projects=call.arguments["all_projects"],
    )

    def calls(item: ReviewItem) -> tuple[str, ...]:
        if item.project in (None, call.memory.config.project):
            return calls_of(item)
        return (f"ask the user to settle it in project {on_a_line(item.project)}",)

    def render(shown: Sequence[Any], left_out: int) -> Reply:
        hidden = results.total - len(results.items) + left_out
        data: dict[str, Any] = {
            "results": [item_dict(item, calls) for item in shown],
            "counts": dict(results.counts),
        }
        note = "" if results.items else "Nothing to settle."
        if hidden:
            data["left_out"] = hidden
            more = counted(hidden, "finding")
            note = f"{more} left out: raise limit or max_tokens, or give kinds."
        if shown:
            note = f"{note} Ask the user before you settle any of them.".strip()
        text = "\n".join(line for item in shown for line in item_lines(item, calls(item)))
        return call.reply(text, data, note)

    budget = call.arguments["max_tokens"]
    return fit_to_budget(results.items, render, budget, with_data=call.with_data)


def memory_mark(call: Call) -> Reply:
    """Change what is known about documents, or count feedback on hits."""
    given = dict(call.arguments)
    names = list(map(as_written, given.pop("ids")))
    verdict = given.pop("feedback", None)
    if verdict is not None:
        if any(given.values()):
            raise UsageError("Give feedback alone.", code="nothing_to_mark", subject="feedback")
        # All of them are looked up first: a call that fails and is repeated must not count twice.
        meant = [call.memory._named(name, "change") for name in names]
        hits = dict.fromkeys((part or document).id for document, part in meant)
        judged = [
            call.memory.feedback(id_, None if verdict == "none" else verdict).id for id_ in hits
        ]
        reply = call.sentence(f"Noted: {named(judged)} {verdict}.", {"ids": judged})
        return with_cost(reply, with_data=call.with_data)
    marked = call.memory.mark(*names, **given)
    reply = call.sentence(f"Marked {named(marked.ids)}.", {"ids": list(marked.ids)})
    return with_cost(reply, with_data=call.with_data)


REVIEW_TOOLS = (
    Tool(
        "memory_review",
        "List what may be wrong in memory: repeats, contradictions, facts that later text "
        "contradicts, facts nobody reads, entities with too many facts, secrets, orphans. Each "
        "comes with the call that would settle it. Nothing is changed: ask the user first.",
        object_of(
            kinds=strings(", ".join(REVIEW_KINDS), default=[]),
            limit=integer(default=REVIEW_ITEMS, minimum=1, maximum=MOST_FINDINGS),
            all_projects=boolean("beyond this project"),
            max_tokens=integer(minimum=1, maximum=MAX_TOKENS, default=REVIEW_TOKENS),
        ),
        memory_review,
        output=ROWS,
    ),
    Tool(
        "memory_mark",
        "Settle a finding the user agreed to: set a status, end facts in favour of another one, "
        "or move them to an entity. Or give feedback on hits: it counts in ranking.",
        object_of(
            "ids",
            ids=strings(minItems=1),
            status=string("done and archived rank lower", enum=list(STATUSES)),
            superseded_by=string("id of the fact that replaces them"),
            not_superseded=boolean("takes that back"),
            entity=string("what they are about"),
            feedback=string("none takes it back", enum=list(_VERDICTS)),
        ),
        memory_mark,
        output=_ANY_OBJECT,
        writes=True,
        destroys=True,
        idempotent=False,
    ),
)
