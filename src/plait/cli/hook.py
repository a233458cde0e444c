"""hook: answer a hook of an agent, or show a person what it would answer.

An agent takes an exit code for a decision and any text for an answer. So on any error the command
for an agent prints nothing and succeeds; `plait log` tells what happened.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from plait.cli import (
    NOTHING_FOUND,
    Output,
    arguments_for,
    as_number,
    discard_stdout,
    split_words,
    to_run,
    write_out,
)
from plait.cli.verbs import VERBS
from plait.errors import PlaitError, UsageError
from plait.settings.schema import SETTINGS
from plait.types.ids import SHORT_ID

if TYPE_CHECKING:
    from plait.agents.hooks.answering import Asked

# Seconds from here to the end. With the start of Python, a hook takes less than one.
HOOK_DEADLINE_S = 0.9
LONGEST_HOOK_S = 60.0

# Why a hook says nothing, or leaves something out.
WHY_NOT = {
    "needs_no_memory": "the prompt needs no memory",
    "nothing_relevant": "nothing in the memory is clearly about it",
    "muted": "muted",
    "flagged": "flagged: it looks like orders to a model, or is quarantined",
    "secret": "it holds a secret",
    "shown_before": "this session has been shown it already",
    "own_session": "this session said it itself, and has it in its context",
    "too_long": "it does not fit",
}


def answered_agent(words: Sequence[str]) -> bool:
    """Answer an agent, if the command line is one of a hook, and tell whether it was."""
    rest = _from_verb(words)
    for_person = {"--try", "--help", "-h"}
    is_hook = rest[:1] == ["hook"] and not any(
        word.partition("=")[0] in for_person for word in rest
    )
    if not is_hook or (sys.stdin is not None and sys.stdin.isatty()):
        return False
    from plait.agents.hooks.deadline import SendText, within

    seconds = HOOK_DEADLINE_S
    asked = None
    try:
        _, arguments = arguments_for(words)
        seconds = min(max(arguments.deadline, 0.0), LONGEST_HOOK_S)
        asked = arguments
    except (PlaitError, SystemExit):
        pass  # recorded as an unknown agent

    def work(send: SendText) -> None:
        from plait.agents.hooks.answering import respond

        respond(_asked(asked), _sent(), send)

    def deliver(messages: list[str]) -> None:
        if len(messages) > 1 and messages[1]:
            write_out(messages[1] + "\n")
            sys.stdout.flush()

    def late(messages: list[str]) -> None:
        if len(messages) < 2:
            from plait.agents.hooks import record

            known = record.entry_of(messages[0]) if messages else None
            entry = _asked(asked).entry() if known is None else known
            record.try_to_write(entry._replace(did="late", ms=round(seconds * 1000)))

    try:
        within(seconds, work, deliver, late)
    except Exception:  # noqa: BLE001 - an agent must go on, whatever happens here
        discard_stdout()
    return True


def _from_verb(words: Sequence[str]) -> list[str]:
    """Return the verb and what follows it; an unknown option before it may have a value."""
    try:
        return split_words(words)[1]
    except UsageError:
        place = next((n for n, word in enumerate(words) if word in VERBS), len(words))
        return list(words[place:])


def _asked(arguments: Namespace | None) -> "Asked":
    """Return what was called; of a command line that cannot be read, nothing."""
    from plait.agents.hooks.answering import Asked

    if arguments is None:
        return Asked("", "")
    given = vars(arguments)
    flags = {name: given[name] for name in SETTINGS if given.get(name) is not None}
    agent, event = [*arguments.words, "", ""][:2]
    return Asked(agent, event, flags, given.get("config"))


def _sent() -> bytes:
    """Return what the agent sent; nothing if its input is closed."""
    from plait.agents.hooks.forms import MAX_PAYLOAD_BYTES

    return b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_PAYLOAD_BYTES + 1)


def hook_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait hook``."""
    from plait.agents.hooks.forms import HOOK_EVENTS

    parser.add_argument(
        "words",
        nargs="*",
        metavar="AGENT EVENT",
        help=f"the agent ({', '.join(HOOK_EVENTS)}) and its own word for the event, such as "
        "SessionStart; its JSON is read from standard input",
    )
    parser.add_argument(
        "--deadline",
        type=as_number,
        default=HOOK_DEADLINE_S,
        metavar="S",
        help=f"seconds after which it gives up and answers nothing ({HOOK_DEADLINE_S:g})",
    )
    parser.add_argument(
        "--try",
        dest="prompt",
        metavar="PROMPT",
        help="show what an agent would be shown at this prompt, and why or why not",
    )


def hook_run(arguments: Namespace, out: Output) -> int:
    """Show a person what an agent would be shown at a prompt."""
    if arguments.prompt is None:
        raise UsageError(
            "Hooks are for agents, which send JSON. "
            + to_run('To see what one would be shown: plait hook --try "your prompt"')
        )
    from plait.agents.hooks import record
    from plait.agents.hooks.injecting import for_prompt
    from plait.cli.search import open_to_read
    from plait.cli.shared import warn_if_empty
    from plait.present.text import counted

    with open_to_read(out) as memory:
        if memory.is_off:
            return NOTHING_FOUND
        warn_if_empty(memory, out)
        shown = for_prompt(memory, arguments.prompt, record.muted_ids(record.data_folder()))
        value = {
            "shown": bool(shown.text),
            "why": shown.why,
            "text": shown.text,
            "tokens": shown.tokens,
            "ids": list(shown.ids),
            "left_out": [
                {"id": hit.id, "relevance": round(hit.relevance, 3), "why": why}
                for hit, why in shown.left_out
            ],
        }
        lines = [shown.text] if shown.text else []
        if shown.why:
            lines.append(f"An agent would be shown nothing: {WHY_NOT[shown.why]}.")
        lines += [
            f"left out: {hit.id[:SHORT_ID]}  relevance {hit.relevance:.2f}  {WHY_NOT[why]}"
            for hit, why in shown.left_out
        ]
        out.result(value, "\n".join(lines))
        if shown.text:
            cost = f"what is shown here costs {counted(shown.tokens, 'token')}"
            out.suggest(
                f"plait mute {shown.ids[0][:SHORT_ID]}", f"never show this one again; {cost}"
            )
    return 0 if shown.text else NOTHING_FOUND
