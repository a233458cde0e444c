"""The profile ``work``: what agents did here, in one tool."""

from collections.abc import Callable, Sequence
from typing import Any

from plait.memory.work import about, fixed, how
from plait.present.text import counted
from plait.present.work import about_dict, about_text, fixed_dict, fixed_text, how_dict, how_text
from plait.tools.replies import MAX_TOKENS, Reply, fit_to_budget
from plait.tools.schemas import ROWS, boolean, integer, object_of, string
from plait.tools.tool import Call, Tool

WORK_TOKENS = 800
# What can be asked: the function that answers, and the two forms of its rows.
_KINDS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., str]]] = {
    "about": (about, about_dict, about_text),
    "how": (how, how_dict, how_text),
    "fixed": (fixed, fixed_dict, fixed_text),
}


def memory_work(call: Call) -> Reply:
    """Return what was done about a file, with a command, or after an error."""
    ask, as_dict, as_text = _KINDS[call.arguments["kind"]]
    rows = ask(call.memory, call.arguments["query"], all_projects=call.arguments["all_projects"])

    def render(shown: Sequence[Any], left_out: int) -> Reply:
        data: dict[str, Any] = {"results": [as_dict(row) for row in shown]}
        note = "" if rows else "Nothing sure is known."
        if left_out:
            data["left_out"] = left_out
            note = f"{counted(left_out, 'row')} left out: raise max_tokens."
        text = as_text(shown, call.memory.config.project)
        return call.reply(text, data, note)

    budget = call.arguments["max_tokens"]
    return fit_to_budget(rows, render, budget, with_data=call.with_data)


WORK_TOOLS = (
    Tool(
        "memory_work",
        "What agents did here before: about = which sessions changed a file and why; how = the "
        "command that worked, with its flags; fixed = what ended an error. Ask before you edit, "
        "run or debug.",
        object_of(
            "kind",
            "query",
            kind=string(enum=list(_KINDS)),
            query=string("path, command or error"),
            all_projects=boolean("beyond this project"),
            max_tokens=integer(minimum=1, maximum=MAX_TOKENS, default=WORK_TOKENS),
        ),
        memory_work,
        output=ROWS,
    ),
)
