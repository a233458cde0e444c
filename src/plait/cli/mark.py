"""mark, feedback: say what has become of a document, and whether a hit was any good."""

from argparse import ArgumentParser, Namespace

from plait.cli import Output
from plait.cli.shared import open_existing, or_empty
from plait.cli.store import STATUS_HELP, VISIBILITY_HELP
from plait.errors import UsageError, shell_word
from plait.present.text import counted, on_a_line
from plait.types import STATUSES
from plait.types.visibility import VISIBILITIES

TAKEN_BACK = "none"
# Documents that a suggested command names.
MOST_SUGGESTED = 5
# Nobody can tell those that moved from what was there before by any name but their ids.
MOST_MOVED_BACK = 50


def mark_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait mark``."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="ids, id prefixes or keys")
    parser.add_argument("--status", choices=STATUSES, metavar="X", help=STATUS_HELP)
    ending = parser.add_mutually_exclusive_group()
    ending.add_argument(
        "--superseded-by",
        metavar="NAME",
        help="end it in favour of this document; it is kept as its history",
    )
    ending.add_argument(
        "--not-superseded",
        action="store_true",
        help="let it hold again, whatever it has ended in favour of",
    )
    parser.add_argument(
        "--entity", metavar="NAME", help="let the fact belong to this entity; created if missing"
    )
    parser.add_argument("--visibility", choices=VISIBILITIES, metavar="X", help=VISIBILITY_HELP)
    parser.add_argument(
        "--to-project",
        metavar="NAME",
        help="let notes and facts belong to this project; without names, all of the current one",
    )


def mark_run(arguments: Namespace, out: Output) -> int:
    """Change what is known about documents."""
    ending = (arguments.superseded_by, arguments.not_superseded)
    target = arguments.to_project
    if not any((arguments.status, *ending, arguments.entity, arguments.visibility, target)):
        raise UsageError(
            "Say what to change: --status, --superseded-by, --not-superseded, --entity, "
            "--visibility or --to-project."
        )
    if target is not None:
        target = out.config_with(project=target).project
        if target is None:
            raise UsageError("--to-project needs the name or the folder of a project.")
    with open_existing(out) as memory, or_empty(out, {"marked": []}):
        marked = memory.mark(
            *arguments.names,
            status=arguments.status,
            superseded_by=arguments.superseded_by,
            not_superseded=arguments.not_superseded,
            entity=arguments.entity,
            visibility=arguments.visibility,
            to_project=target,
        )
        former = memory.config.project
    if target is not None and not marked.ids:
        out.warn("this project has no notes and facts of its own")
    # Who typed a key knows no id of the same document.
    typed = dict.fromkeys(arguments.names)
    shown = ", ".join(map(on_a_line, typed)) or counted(len(marked.ids), "document")
    text = f"Marked {shown}." if marked.ids else ""
    out.result({"marked": list(marked.ids)}, text)
    if target is not None and former is not None and 0 < len(marked.ids) <= MOST_MOVED_BACK:
        ids, here = " ".join(marked.ids), shell_word(target, "NAME")
        there = shell_word(former, "NAME")
        out.suggest(f"plait mark {ids} --project {here} --to-project {there}", "move back")
    if typed and len(marked.ids) <= MOST_SUGGESTED:
        names = " ".join(shell_word(name, "NAME") for name in typed)
        if arguments.status not in (None, "active"):
            out.suggest(f"plait mark {names} --status active", "take the status back")
        if arguments.superseded_by:
            out.suggest(f"plait mark {names} --not-superseded", "take it back")
    return 0


def feedback_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait feedback``."""
    parser.add_argument("name", metavar="ID", help="the id of a hit, or of a whole document")
    parser.add_argument(
        "verdict",
        choices=("good", "wrong", TAKEN_BACK),
        metavar="VERDICT",
        help="good or wrong: it ranks higher or lower; none: all feedback on it is taken back",
    )


def feedback_run(arguments: Namespace, out: Output) -> int:
    """Count feedback on a hit."""
    verdict = None if arguments.verdict == TAKEN_BACK else arguments.verdict
    with open_existing(out) as memory, or_empty(out, {"id": None, "verdict": None}):
        document = memory.feedback(arguments.name, verdict)
    name = on_a_line(arguments.name)
    if verdict is None:
        text = f"Took all feedback on {name} back."
    else:
        text = f"Noted that {name} was {verdict} ({counted(document.chunk_count, 'passage')})."
    out.result({"id": document.id, "verdict": verdict}, text)
    if verdict is not None:
        typed = shell_word(arguments.name, "ID")
        out.suggest(f"plait feedback {typed} {TAKEN_BACK}", "take it back")
    return 0
