"""search, recall, get, timeline: the verbs that only read."""

from argparse import ArgumentParser, Namespace

from plait import present
from plait.cli.filters import add_filters, filters_of
from plait.cli.output import Output
from plait.cli.verbs import number, whole_number
from plait.errors import AmbiguousId, NotFound, UsageError
from plait.memory import Memory
from plait.scope import page_end, page_start

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
    out.warn(f"the memory at {memory.path} is empty. Start with: plait ingest FOLDER")
    return True


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
    add_filters(parser)


def search_run(arguments: Namespace, out: Output) -> int:
    """Find passages."""
    query = _query(arguments)
    where = filters_of(arguments)
    with open_to_read(out) as memory:
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
    value = present.answer_dict(answer)
    out.result(
        value["results"] if out.form == "array" else value,
        present.answer_text(answer, color=out.color),
    )
    out.warn_all(answer.receipt.degraded)
    if answer:
        first = answer[0].id[: present.SHORT_ID]
        out.suggest(f"plait get {first}", present.receipt_text(answer.receipt, len(answer)))
        return 0
    return NOTHING_FOUND


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
    with open_to_read(out) as memory:
        recalled = memory.recall(
            _query(arguments),
            limit=arguments.limit,
            budget_tokens=arguments.budget,
            min_score=arguments.min_score,
            where=filters_of(arguments),
            all_projects=arguments.all_projects,
        )
        if not recalled.items:
            said, advice = "nothing found", ["other words"]
            if recalled.left_out:
                said, advice = f"nothing fits into {recalled.budget_tokens} tokens", ["--budget"]
            say_nothing_found(memory, arguments, out, said, *advice)
    out.result(present.recalled_dict(recalled), recalled.text)
    out.warn_all(recalled.receipt.degraded)
    if not recalled.items:
        return NOTHING_FOUND
    tokens = present.counted(recalled.tokens, "token")
    out.suggest(f"plait get {recalled.items[0].hit.id[: present.SHORT_ID]}", f"about {tokens}")
    return 0


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


def get_run(arguments: Namespace, out: Output) -> int:
    """Read documents or passages whole."""
    values, texts = [], []
    missing: list[NotFound | AmbiguousId] = []
    with open_to_read(out) as memory:
        for name in arguments.names:
            try:
                document, passage = memory.lookup(name)
            except (NotFound, AmbiguousId) as error:
                missing.append(error)
                continue
            if passage is None or arguments.document:
                values.append(present.document_dict(document))
                texts.append(present.document_text(document))
            else:
                values.append(present.passage_dict(passage, document))
                texts.append(present.passage_text(passage, document))
    if values:
        out.result({"results": values}, "\n\n".join(texts))
    for trouble in missing:
        out.error(str(trouble))
    return missing[0].exit_code if missing else 0


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
    add_filters(parser)


def timeline_run(arguments: Namespace, out: Output) -> int:
    """List what happened, newest first."""
    where = filters_of(arguments)
    with open_to_read(out) as memory:
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
    following = None
    if len(documents) == arguments.limit and arguments.anchor is None:
        following = page_end(documents[-1].event_at, documents[-1].id)
    value = {
        "results": [present.timeline_dict(document) for document in documents],
        "next": following,
    }
    out.result(value, present.timeline_text(documents))
    if following is not None:
        out.suggest(f"plait timeline --cursor {following}", "older ones")
    return 0 if documents else NOTHING_FOUND
