"""recall and overview: one text of limited size for a prompt."""

from argparse import ArgumentParser, Namespace

from plait.cli import NOTHING_FOUND, Output, as_integer, as_number, in_shell
from plait.cli.search import (
    NO_MATCH_FOR_FILTERS,
    add_filters,
    filters_of,
    open_to_read,
    query_of,
    query_options,
    warn_of,
)
from plait.cli.shared import warn_no_match
from plait.memory import Memory
from plait.present.json import recalled_dict
from plait.present.text import counted
from plait.searching.recall import Recalled
from plait.types.ids import SHORT_ID


def recall_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait recall``."""
    query_options(parser)
    parser.add_argument(
        "--limit", type=as_integer, default=5, metavar="N", help="maximum number of hits (5)"
    )
    _add_budget(parser)
    parser.add_argument(
        "--min-score",
        type=as_number,
        metavar="R",
        help="minimum relevance of a hit, 0 to 1 (0.25)",
    )
    add_filters(parser)


def recall_run(arguments: Namespace, out: Output) -> int:
    """Print the best passages as one text of limited size; without a query, the overview."""
    if arguments.query is None and not arguments.words and not arguments.strict:
        return overview_run(arguments, out)
    query = query_of(arguments, out)
    with open_to_read(out) as memory:
        recalled = memory.recall(
            query,
            limit=arguments.limit,
            budget_tokens=arguments.budget,
            min_score=arguments.min_score,
            strict=arguments.strict,
            where=filters_of(arguments),
            all_projects=arguments.all_projects,
        )
        return _show(recalled, memory, arguments, out, query)


def overview_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait overview``."""
    _add_budget(parser)
    add_filters(parser)


def overview_run(arguments: Namespace, out: Output) -> int:
    """Print what to know at the beginning of a session."""
    with open_to_read(out) as memory:
        recalled = memory.overview(
            budget_tokens=arguments.budget,
            where=filters_of(arguments),
            all_projects=arguments.all_projects,
        )
        return _show(recalled, memory, arguments, out)


def _add_budget(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--budget", type=as_integer, metavar="N", help="maximum size of the text in tokens (1500)"
    )


def _show(
    recalled: Recalled, memory: Memory, arguments: Namespace, out: Output, query: str = ""
) -> int:
    """Print a text and return the exit code; if it is empty, say what could help."""
    if not recalled.items:
        _warn_of_nothing(recalled, memory, arguments, out, query)
    out.result(recalled_dict(recalled, in_shell), recalled.text)
    warn_of(recalled.receipt, memory, out)
    if recalled.items:
        first = recalled.items[0].hit.id[:SHORT_ID]
        out.suggest(f"plait get {first}", f"about {counted(recalled.tokens, 'token')}")
    out.flush()  # closing the memory writes statistics; print the answer first
    return 0 if recalled.items else NOTHING_FOUND


def _warn_of_nothing(
    recalled: Recalled, memory: Memory, arguments: Namespace, out: Output, query: str
) -> None:
    if recalled.left_out:
        reason = f"nothing fits into {counted(recalled.budget_tokens, 'token')}"
        warn_no_match(memory, arguments, out, reason, "a larger --budget")
    elif recalled.is_overview:
        reason = NO_MATCH_FOR_FILTERS if filters_of(arguments) else "nothing found"
        warn_no_match(memory, arguments, out, reason)
    else:
        warn_no_match(memory, arguments, out, "nothing found", "other words", query=query)
