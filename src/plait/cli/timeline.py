"""timeline: list documents by date."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from plait.cli import NOTHING_FOUND, Output, as_integer
from plait.cli.search import (
    NO_MATCH_FOR_FILTERS,
    add_filters,
    add_max_tokens,
    filters_of,
    open_to_read,
)
from plait.cli.shared import Rendered, fitted, or_empty, suggest_page, tell_damaged, warn_no_match
from plait.errors import UsageError
from plait.memory import Memory
from plait.present.json import timeline_dict
from plait.present.text import timeline_text
from plait.searching.where import page_end, page_start
from plait.types import Document


def timeline_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait timeline``."""
    parser.add_argument(
        "--limit", type=as_integer, default=20, metavar="N", help="maximum number of documents (20)"
    )
    parser.add_argument(
        "--cursor", metavar="TEXT", help="cursor of the next page, from the previous output"
    )
    parser.add_argument(
        "--anchor", metavar="ID", help="list the documents before and after this one"
    )
    parser.add_argument(
        "--older", type=as_integer, default=5, metavar="N", help="with --anchor: how many older (5)"
    )
    parser.add_argument(
        "--newer", type=as_integer, default=5, metavar="N", help="with --anchor: how many newer (5)"
    )
    add_saved(
        parser, "list only what hooks saved (auto_save), of this day or month if one is given"
    )
    add_max_tokens(parser)
    add_filters(parser)


def add_saved(parser: ArgumentParser, words: str) -> None:
    """Declare ``--saved``, which is True without a day."""
    parser.add_argument("--saved", nargs="?", const=True, metavar="DAY", help=words)


def saved_day(arguments: Namespace) -> str | None:
    """Return the day of ``--saved``, empty for all days, or ``None`` if it was not given."""
    if arguments.saved is True:
        return ""
    return None if arguments.saved is None else str(arguments.saved)


def _listed(
    memory: Memory, arguments: Namespace, where: dict[str, Any], damaged: list[str]
) -> list[Document]:
    day = saved_day(arguments)
    if day is not None:
        from plait.agents.hooks.saving import saved_messages
        from plait.searching.timeline import outlined

        if where or arguments.anchor or arguments.cursor:
            raise UsageError("--saved takes a day, and no filters.")
        rows = saved_messages(memory, day, all_projects=arguments.all_projects)
        rows = rows[: max(1, arguments.limit)]
        return outlined(memory.engine, rows, damaged) if rows else []
    return memory.timeline(
        limit=arguments.limit,
        before=page_start(arguments.cursor),
        anchor=arguments.anchor,
        older=arguments.older,
        newer=arguments.newer,
        where=where,
        all_projects=arguments.all_projects,
        damaged=damaged,
    )


def timeline_run(arguments: Namespace, out: Output) -> int:
    """List documents, newest first; those of a session in its order."""
    where = filters_of(arguments)
    damaged: list[str] = []
    with open_to_read(out) as memory:
        with or_empty(out, {"results": [], "next": None, "left_out": 0, "tokens": 0}):
            documents = _listed(memory, arguments, where, damaged)
        if not documents and not damaged:
            reason = NO_MATCH_FOR_FILTERS if where else "nothing found"
            warn_no_match(memory, arguments, out, reason)
        successors = memory.successors(documents)
        secrets = memory.secrets(documents)

        def cursor_after(rows: Sequence[Document]) -> str | None:
            """Return the cursor of the next page, unless these rows are the last ones."""
            is_last = len(rows) == len(documents) and len(rows) + len(damaged) < arguments.limit
            if not rows or is_last or not (arguments.anchor is arguments.saved is None):
                return None
            return page_end(rows[-1], in_session=arguments.session is not None)

        def render(rows: Sequence[Document], left_out: int) -> Rendered:
            if out.form == "text":
                return timeline_text(rows, successors, secrets, out.config.project)
            results = [
                timeline_dict(row, successors.get(row.id), secrets.get(row.id, ())) for row in rows
            ]
            return {"results": results, "next": cursor_after(rows), "left_out": left_out}

        rendered, left_out = fitted(documents, render, arguments.max_tokens, out)
        out.show(rendered)
        if documents and arguments.saved is not None:
            when = f" {day}" if (day := saved_day(arguments)) else ""
            beyond = " --all-projects" if arguments.all_projects else ""
            out.suggest(f"plait delete --saved{when}{beyond}", "delete all of it")
        cursor = cursor_after(documents[: len(documents) - left_out])
        if cursor is not None:
            why = "older documents" if arguments.session is None else "later ones"
            suggest_page(out, cursor, why)
    told = tell_damaged(damaged, out)
    return told or (0 if len(documents) > left_out else NOTHING_FOUND)
