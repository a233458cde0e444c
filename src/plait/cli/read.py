"""search, recall, get, timeline: the verbs that only read."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from plait import checks, present
from plait.cli.filters import add_filters, filters_of
from plait.cli.output import Output
from plait.cli.verbs import number, whole_number
from plait.errors import NotFound, UsageError
from plait.memory import Memory
from plait.scope import page_end, page_start
from plait.types import Answer, Document, Hit, Passage

Row = TypeVar("Row")
Shown = tuple[dict[str, Any], str]  # the answer as JSON and as text

NOTHING_FOUND = 3
FILTERED = "nothing found with these filters"


def open_to_read(out: Output) -> Memory:
    """The memory if there is one; an absent file stays absent and answers empty."""
    memory = Memory.open(config=out.config, create=False)
    out.warn_all(memory.identity_warnings())
    return memory


def say_if_empty(memory: Memory, out: Output) -> bool:
    """Tell a newcomer that there is nothing to find yet, and where to begin."""
    if memory.stats().doc_count:
        return False
    begin = "Start with: plait ingest FOLDER"
    if os.path.exists(memory.path):
        out.warn(f"the memory at {memory.path} is empty. {begin}")
    else:
        out.warn(f"there is no memory at {memory.path} yet. {begin}")
    return True


@contextmanager
def suggesting(
    memory: Memory, *, entities: Iterable[str] = (), documents: Iterable[str] = ()
) -> Iterator[None]:
    """Where one of these names is refused as unknown, say which one there is instead."""
    try:
        yield
    except NotFound as error:
        from plait.cli import meant

        said = str(error)
        for name in entities:
            said = meant.with_entity(memory, name, said)
        for name in documents:
            said = meant.with_document(memory, name, said)
        raise NotFound(said) from error


def say_nothing_found(
    memory: Memory, arguments: Namespace, out: Output, said: str, *advice: str
) -> None:
    """Say that nothing fits, and what could help: other projects only where there are any."""
    if say_if_empty(memory, out):
        return
    here = (None, "", memory.config.project)
    if not arguments.all_projects and any(name not in here for name, _ in memory.stats().projects):
        advice = (*advice, "--all-projects")
    out.warn(f"{said}. Try {', or '.join(advice)}." if advice else f"{said}.")


def search_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait search``."""
    parser.add_argument("words", nargs="*", metavar="WORDS", help="what to look for")
    parser.add_argument("--query", metavar="TEXT", help="the same, as one option")
    parser.add_argument("--limit", type=whole_number, metavar="N", help="how many hits (10)")
    parser.add_argument(
        "--mode", default="hybrid", metavar="NAME", help="hybrid, keyword (fts) or vector (vec)"
    )
    parser.add_argument("--min-score", type=number, metavar="R", help="least relevance, 0 to 1")
    parser.add_argument(
        "--window", type=whole_number, default=0, metavar="N", help="passages around a hit, 0 to 5"
    )
    parser.add_argument("--best-per-document", action="store_true", help="one hit a document")
    parser.add_argument("--explain", action="store_true", help="why each hit scored what it did")
    _max_tokens_option(parser)
    add_filters(parser)


def search_run(arguments: Namespace, out: Output) -> int:
    """Find passages."""
    query = _query(arguments)
    where = filters_of(arguments)
    with open_to_read(out) as memory:
        with suggesting(memory, entities=where.get("entity", ())):
            answer = memory.search(
                query,
                limit=arguments.limit,
                mode=arguments.mode,
                min_score=arguments.min_score,
                window=arguments.window,
                best_per_document=arguments.best_per_document,
                explain=arguments.explain,
                where=where,
                all_projects=arguments.all_projects,
            )
        if not answer:
            said, advice = (FILTERED, ()) if where else ("nothing found", ("other words",))
            say_nothing_found(memory, arguments, out, said, *advice)
        if arguments.max_tokens is None:
            value, text = present.answer_dict(answer), present.answer_text(answer, color=out.color)
        else:
            answer, value, text = _within_tokens(answer, arguments.max_tokens, out)
        out.result(value["results"] if out.form == "array" else value, text)
        out.warn_all(answer.receipt.degraded)
        if answer:
            first = answer[0].id[: present.SHORT_ID]
            out.suggest(f"plait get {first}", present.receipt_text(answer.receipt, len(answer)))
        out.flush()  # what is noted when the memory is closed must not delay the answer
    return 0 if answer else NOTHING_FOUND


def _within_tokens(
    answer: Answer, max_tokens: int, out: Output
) -> tuple[Answer, dict[str, Any], str]:
    """As many of the hits as cost so many tokens, in both forms."""

    def render(hits: Sequence[Hit], left_out: int) -> Shown:
        part = Answer(tuple(hits), answer.receipt)
        value = {**present.answer_dict(part), "left_out": left_out}
        return value, present.answer_text(part, color=out.color)

    value, text, left_out = fitted(answer, render, max_tokens, out)
    return Answer(answer[: len(answer) - left_out], answer.receipt), value, text


def fitted(
    rows: Sequence[Row],
    render: Callable[[Sequence[Row], int], Shown],
    budget: int | None,
    out: Output,
) -> tuple[dict[str, Any], str, int]:
    """The rows that cost at most so many tokens in the form that is asked for.

    Args:
        rows: The most important one first.
        render: Makes both forms of some rows; it is told how many were left out.
        budget: Tokens; all rows are shown when omitted.
        out: Knows the form, and is told what had no room.

    Returns:
        The value, which says its cost as ``tokens``, the text, and how many rows are not in them.
    """
    import json

    from plait.packing import MAX_BUDGET, most_that_fit, tokens_of

    def priced(count: int) -> Shown:
        value, text = render(rows[:count], len(rows) - count)
        if out.form == "text":
            return {**value, "tokens": tokens_of(text)}, text
        # Its own cost is part of it: the number is put in with as many digits as it can have.
        whole = json.dumps({**value, "tokens": MAX_BUDGET}, ensure_ascii=False)
        return {**value, "tokens": tokens_of(whole)}, text

    count = len(rows)
    if budget is not None:
        checks.count("max_tokens", budget, 1, MAX_BUDGET)
        count = most_that_fit(count, lambda some: bool(priced(some)[0]["tokens"] <= budget))
    value, text = priced(count)
    left_out = len(rows) - count
    if left_out:
        share = f"{left_out:,} of {len(rows):,}" if count else "nothing"
        verb = "had no room" if count else "fits"
        whole = priced(len(rows))[0]["tokens"]
        out.warn(f"{share} {verb} in {budget} tokens. All of it: --max-tokens {whole}")
    return value, text, left_out


def recall_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait recall``."""
    parser.add_argument("words", nargs="*", metavar="WORDS", help="what to recall")
    parser.add_argument("--query", metavar="TEXT", help="the same, as one option")
    parser.add_argument(
        "--limit", type=whole_number, default=5, metavar="N", help="how many hits at most (5)"
    )
    parser.add_argument(
        "--budget", type=whole_number, metavar="N", help="tokens the text may cost (1500)"
    )
    parser.add_argument(
        "--min-score", type=number, metavar="R", help="least relevance, 0 to 1 (0.25)"
    )
    add_filters(parser)


def recall_run(arguments: Namespace, out: Output) -> int:
    """Pack what is known about something into a budget of tokens."""
    where = filters_of(arguments)
    with open_to_read(out) as memory:
        with suggesting(memory, entities=where.get("entity", ())):
            recalled = memory.recall(
                _query(arguments),
                limit=arguments.limit,
                budget_tokens=arguments.budget,
                min_score=arguments.min_score,
                where=where,
                all_projects=arguments.all_projects,
            )
        if not recalled.items:
            said, advice = "nothing found", ["other words"]
            if recalled.left_out:
                said, advice = f"nothing fits into {recalled.budget_tokens} tokens", ["--budget"]
            say_nothing_found(memory, arguments, out, said, *advice)
        out.result(present.recalled_dict(recalled), recalled.text)
        out.warn_all(recalled.receipt.degraded)
        if recalled.items:
            first = recalled.items[0].hit.id[: present.SHORT_ID]
            tokens = present.counted(recalled.tokens, "token")
            out.suggest(f"plait get {first}", f"about {tokens}")
        out.flush()
    return 0 if recalled.items else NOTHING_FOUND


def _query(arguments: Namespace) -> str:
    if arguments.query is not None and arguments.words:
        raise UsageError("Give the query once: as words or with --query.")
    return " ".join(arguments.words) if arguments.query is None else str(arguments.query)


def get_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait get``."""
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="ids, unique beginnings of six or more characters, keys, chunk_ids",
    )
    parser.add_argument("--document", action="store_true", help="the whole document of a passage")
    _max_tokens_option(parser)


def _max_tokens_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--max-tokens", type=whole_number, metavar="N", help="tokens the answer may cost (any)"
    )


def get_run(arguments: Namespace, out: Output) -> int:
    """Read documents or passages whole."""
    with open_to_read(out) as memory:
        found, missing = memory.get_known(arguments.names)
        by = memory.successors(document for document, _ in found)

        def render(rows: Sequence[tuple[Document, Passage | None]], left_out: int) -> Shown:
            values, texts = [], []
            for document, passage in rows:
                successor = by.get(document.id)
                if passage is None or arguments.document:
                    values.append(present.document_dict(document, successor))
                    texts.append(present.document_text(document, successor))
                else:
                    values.append(present.passage_dict(passage, document, successor))
                    texts.append(present.passage_text(passage, document, successor))
            return {"results": values, "left_out": left_out}, "\n\n".join(texts)

        left_out = 0
        if found:
            value, text, left_out = fitted(found, render, arguments.max_tokens, out)
            out.result(value, text)
        if missing:
            from plait.cli import meant

            for name, trouble in missing.items():
                out.error(meant.with_document(memory, name, str(trouble)))
        out.flush()
    for trouble in missing.values():
        return trouble.exit_code
    return NOTHING_FOUND if left_out == len(found) else 0


def timeline_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait timeline``."""
    parser.add_argument("--limit", type=whole_number, default=20, metavar="N", help="how many (20)")
    parser.add_argument("--cursor", metavar="TEXT", help="go on where an earlier answer ended")
    parser.add_argument("--anchor", metavar="ID", help="look around this one instead")
    parser.add_argument(
        "--older", type=whole_number, default=5, metavar="N", help="neighbours before it (5)"
    )
    parser.add_argument(
        "--newer", type=whole_number, default=5, metavar="N", help="neighbours after it (5)"
    )
    _max_tokens_option(parser)
    add_filters(parser)


def timeline_run(arguments: Namespace, out: Output) -> int:
    """List what happened, newest first."""
    where = filters_of(arguments)
    with open_to_read(out) as memory:
        with suggesting(memory, entities=where.get("entity", ())):
            documents = memory.timeline(
                limit=arguments.limit,
                before=page_start(arguments.cursor),
                anchor=arguments.anchor,
                older=arguments.older,
                newer=arguments.newer,
                where=where,
                all_projects=arguments.all_projects,
            )
        if not documents:
            said = FILTERED if where else "nothing found"
            say_nothing_found(memory, arguments, out, said)
        by = memory.successors(documents)

        def render(rows: Sequence[Document], left_out: int) -> Shown:
            following = None
            is_full = left_out or len(documents) == arguments.limit
            if rows and is_full and arguments.anchor is None:
                following = page_end(rows[-1].event_at, rows[-1].id)
            listed = [present.timeline_dict(row, by.get(row.id)) for row in rows]
            value = {"results": listed, "next": following, "left_out": left_out}
            return value, present.timeline_text(rows, by)

        value, text, left_out = fitted(documents, render, arguments.max_tokens, out)
        out.result(value, text)
        if value["next"] is not None:
            out.suggest(f"plait timeline --cursor {value['next']}", "older ones")
    return 0 if len(documents) > left_out else NOTHING_FOUND
