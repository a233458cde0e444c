"""Code that several verbs share and that an ordinary search does not load."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from plait.cli import Output, in_shell, to_run
from plait.cli.search import filters_of, open_memory, suggesting_names, warn_of_project
from plait.errors import NotFound, Notice, UsageError, advise, quoted
from plait.memory import Memory
from plait.memory.beyond import Beyond, beyond
from plait.types import WEAK_RELEVANCE, Document, check_range
from plait.types.audit import acting
from plait.types.ids import SCOPE_PREFIX
from plait.types.reports import Deleted

_Row = TypeVar("_Row")
COPIES_SHOWN = 3
LOADED_AT_ONCE = 500  # documents, with their texts
BAR_MARKS = 20
Rendered = dict[str, Any] | str  # an answer in the form to print: JSON or text

# By how much two runs of one command may differ in cost.
RUNS_DIFFER_TOKENS = 20


@contextmanager
def open_to_write(out: Output) -> Iterator[Memory]:
    """Open the memory, and create it if it does not exist."""
    with (
        acting(door="cli"),
        open_memory(out, create=True) as memory,
        suggesting_names(memory, out),
    ):
        # Of a full disk, the write itself tells.
        out.warn_all(row for row in memory.opening_notices if row.code != "disk_full")
        yield memory


@contextmanager
def open_existing(out: Output, *, undo: bool = False) -> Iterator[Memory]:
    """Open the memory without warnings about its index: the verb repairs it or does not use it."""
    with (
        acting(door="cli"),
        open_memory(out, create=False, undo=undo) as memory,
        suggesting_names(memory, out),
    ):
        if memory.is_off:
            out.warn_all(memory.opening_notices)
        if not undo:  # all of the project may have been deleted
            warn_of_project(memory, out)
        yield memory


def suggest_page(out: Output, cursor: str, why: str) -> None:
    """Suggest the command line as it was typed, for the next page."""
    if out.form == "text" and not out.quiet:
        from plait.cli.wording import next_page

        out.suggest_line(next_page(out.words, cursor), why)


@contextmanager
def or_empty(out: Output, empty: Rendered) -> Iterator[None]:
    """Print the empty form of an answer before the error that nothing has that name."""
    try:
        yield
    except NotFound:
        out.result(empty, "")
        raise


def warn_if_empty(memory: Memory, out: Output) -> bool:
    """Warn that the memory is empty or missing, and tell whether it is."""
    if memory.is_off:
        return True  # told when it was opened
    if memory.stats().doc_count:
        return False
    from plait.exporting.folder import snapshot_near

    start = to_run("Start with: plait ingest FOLDER")
    folder = snapshot_near(memory.path, memory.config.settings.memory_dir)
    if folder is not None:
        offer = Notice(f"A snapshot is in {folder}.", advice=advise("hydrate", path=folder))
        start = in_shell(offer)
    if memory.is_there:
        out.warn(f"the memory at {memory.path} is empty. {start}")
    else:
        out.warn(f"there is no memory at {memory.path} yet. {start}")
    return True


def loaded(memory: Memory, ids: Sequence[str]) -> Iterator[Document]:
    """Yield stored documents, some at a time: their texts may be larger than the memory."""
    for start in range(0, len(ids), LOADED_AT_ONCE):
        yield from memory.engine.load(ids[start : start + LOADED_AT_ONCE])


def first_unnamed(
    memory: Memory, ids: Sequence[str], *, verbose: bool = False
) -> dict[str, Document]:
    """Return the unnamed among the documents that a list of what is deleted shows, by id."""
    from plait.present.deleting import is_unnamed
    from plait.present.text import NAMES_SHOWN

    shown = ids if verbose else ids[:NAMES_SHOWN]
    return {row.id: row for row in loaded(memory, shown) if is_unnamed(row)}


def add_verbose(parser: ArgumentParser) -> None:
    """Declare ``--verbose`` of a command that lists documents before it deletes them."""
    parser.add_argument(
        "--verbose", action="store_true", help="list every document, not only the first ones"
    )


def tell_of_others(count: int, shown: int, arguments: Namespace, out: Output) -> None:
    """Say how to see all documents, if a list for people left some out."""
    if count > shown and out.form == "text" and not arguments.verbose:
        out.warn(f"{shown} of {count:,} documents are listed; --verbose lists all, as --json does")


def tell_damaged(damaged: Sequence[str], out: Output) -> int:
    """Name what was left out, documents and relations, and return the exit code."""
    if not damaged:
        return 0
    for id_ in damaged:
        out.error(f"left out, because it cannot be read: {quoted(id_)}")
    count = f"{len(damaged):,} of the documents and relations cannot be read."
    out.error(Notice(count, "store_damaged", advice=advise("doctor_fix")))
    return 1


def vectors_missing(trouble: Notice | None) -> list[Notice]:
    """Return what to tell about vectors that are missing, and why they are; nothing if none is."""
    if trouble is None:
        return []
    return [trouble._replace(text=f"vectors are missing: {trouble.text}")]


def warn_no_match(
    memory: Memory,
    arguments: Namespace,
    out: Output,
    reason: str,
    *advice: str,
    query: str = "",
    is_hybrid: bool = False,
) -> None:
    """Warn that nothing was found, and say what could help: with a query, what the rest has."""
    if warn_if_empty(memory, out):
        return
    rest = _beyond(memory, arguments, query) if query else Beyond()
    if is_hybrid and rest == Beyond() and _has_any(memory, arguments):
        advice = (*advice, "--mode vector")  # it shows the nearest, however far they are
    if _has_others(memory, arguments):
        advice = (*advice, "--all-projects")
    if query:
        advice = ("the query without --strict", *advice) if arguments.strict else advice
        from plait.present.text import counted

        if rest.elsewhere:
            reason += f" here, but {counted(rest.elsewhere, 'hit')} in other projects"
        if rest.earlier:
            reason += f"; {counted(rest.earlier, 'hit')} no longer valid"
            advice = (*advice, "--all-versions")
    from plait.cli.suggestions import similar_values

    meant = similar_values(memory, vars(arguments), all_projects=arguments.all_projects)
    tries = f" Try {', or '.join(advice)}." if advice else ""
    out.warn(f"{reason}.{meant}{tries}")


def warn_if_better_elsewhere(memory: Memory, arguments: Namespace, out: Output, query: str) -> None:
    """Warn that all hits are weak, if other projects have some that are not."""
    if not _has_others(memory, arguments):
        return
    from plait.present.text import counted

    if count := _beyond(memory, arguments, query).elsewhere:
        others = counted(count, "hit")
        out.warn(f"only weak hits here, but {others} in other projects. Try --all-projects.")


def _has_any(memory: Memory, arguments: Namespace) -> bool:
    """Tell whether there is a document that the command could have found."""
    return bool(memory.timeline(limit=1, all_projects=arguments.all_projects))


def _has_others(memory: Memory, arguments: Namespace) -> bool:
    """Tell whether there are projects that a command did not look at, and could."""
    here = (None, "", memory.config.project)
    rows = () if arguments.all_projects else memory.stats().projects
    # What belongs to users' scopes is no command's, whatever its options.
    return any(name not in here and not name.startswith(SCOPE_PREFIX) for name, _ in rows if name)


def _beyond(memory: Memory, arguments: Namespace, query: str) -> Beyond:
    return beyond(
        memory,
        query,
        filters_of(arguments),
        all_projects=arguments.all_projects,
        min_score=WEAK_RELEVANCE,
        strict=arguments.strict,
    )


def fitted(
    rows: Sequence[_Row],
    render: Callable[[Sequence[_Row], int], Rendered],
    budget: int | None,
    out: Output,
) -> tuple[Rendered, int]:
    """Render as many rows as a budget of tokens allows.

    Args:
        rows: The most important one first.
        render: Renders some rows; it also gets the number of rows that were left out.
        budget: How many tokens the result may cost; ``None`` for no limit.
        out: Gets a warning if rows did not fit.

    Returns:
        What to print, and how many rows it leaves out. A dict contains its cost as ``tokens``.
    """
    from plait.searching.recall import MAX_BUDGET, most_that_fit

    def priced(count: int) -> tuple[Rendered, int]:
        return _priced(render(rows[:count], len(rows) - count))

    count = len(rows)
    if budget is not None:
        check_range("max_tokens", budget, 1, MAX_BUDGET)
        count = most_that_fit(count, lambda some: priced(some)[1] <= budget)
    rendered, _ = priced(count)
    left_out = len(rows) - count
    if left_out:
        # The times in the receipt of the next run may have more digits.
        cost = priced(len(rows))[1] + RUNS_DIFFER_TOKENS
        result = f"{left_out:,} of {len(rows):,} did not fit" if count else "nothing fits"
        into = f"into {budget} token{'s' * (budget != 1)}"
        out.warn(f"{result} {into}. To show everything: --max-tokens {cost}")
    return rendered, left_out


def _priced(rendered: Rendered) -> tuple[Rendered, int]:
    """Return what to print and its cost in tokens; a dict gets the cost as a field."""
    import json

    from plait.searching.recall import MAX_BUDGET, tokens_of

    if isinstance(rendered, str):
        return rendered, tokens_of(rendered)
    # The field itself costs tokens too: count it with as many digits as it can have.
    tokens = tokens_of(json.dumps({**rendered, "tokens": MAX_BUDGET}, ensure_ascii=False))
    return {**rendered, "tokens": tokens}, tokens


def warn_of_copies(deleted: Deleted, out: Output) -> None:
    """Name the files beside the memory that may still have what was purged."""
    if deleted.copies:
        more = len(deleted.copies) - COPIES_SHOWN
        listed = ", ".join(deleted.copies[:COPIES_SHOWN]) + (
            f" and {more} more" if more > 0 else ""
        )
        out.warn(f"what was purged may still be in {listed}. Delete files that you no longer need")


def bar(done: int, total: int) -> str:
    """Return a progress bar, or only a count while the total is unknown.

    >>> bar(500, 1000), bar(7, 0)
    ('[##########----------] 500/1,000', '7')
    """
    if total <= 0:
        return f"{done:,}"
    marks = BAR_MARKS * min(done, total) // total
    return f"[{'#' * marks:-<{BAR_MARKS}}] {done:,}/{total:,}"


def refuse_closed_input() -> None:
    """Refuse to read standard input that the caller closed, as in ``plait … <&-``."""
    if sys.stdin is None:
        raise UsageError("Standard input is closed. Give the text in the command or in a file.")


def standard_input(limit: int) -> str:
    """Read standard input under the rules for files: UTF-8, and at most ``limit`` bytes."""
    refuse_closed_input()
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise UsageError(
            f"Standard input has more than {limit / 1024 / 1024:g} MB. "
            + to_run("Raise the limit with: plait config set max_file_mb 50")
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"Standard input is not UTF-8 text (byte {error.start}). "
            "Convert it first, for example with: iconv -f latin1 -t utf-8"
        ) from error
