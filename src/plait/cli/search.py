"""search, and the query and the filters that it shares with other verbs."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from plait.cli import NOTHING_FOUND, Output, as_integer, as_list, as_number, as_path, in_shell
from plait.errors import NotFound, UsageError, advise
from plait.memory import MODE_ALIASES, Memory
from plait.types import KINDS, MEMORY_TYPES, MODES, STATUSES, TRUSTS, Answer, Hit, Receipt
from plait.types.ids import SHORT_ID

NO_MATCH_FOR_FILTERS = "nothing found with these filters"


def search_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait search``."""
    query_options(parser)
    parser.add_argument("--limit", type=as_integer, metavar="N", help="maximum number of hits (10)")
    parser.add_argument(
        "--offset",
        type=as_integer,
        default=0,
        metavar="N",
        help="skip the N best hits: the next page",
    )
    parser.add_argument(
        "--mode",
        type=as_mode,
        choices=MODES,
        default="hybrid",
        metavar="NAME",
        help="hybrid, keyword (fts) or vector (vec)",
    )
    parser.add_argument(
        "--min-score",
        type=as_number,
        metavar="R",
        help="minimum relevance of a hit, 0 to 1",
    )
    parser.add_argument(
        "--window",
        type=as_integer,
        default=0,
        metavar="N",
        help="also show N passages before and after a hit, 0 to 5",
    )
    parser.add_argument(
        "--best-per-document", action="store_true", help="only the best hit of each document"
    )
    parser.add_argument(
        "--diverse", action="store_true", help="fold copies, and prefer hits that say something new"
    )
    parser.add_argument("--explain", action="store_true", help="explain each score")
    add_max_tokens(parser)
    add_filters(parser)


def as_mode(text: str) -> str:
    """Return the name of a mode; ``fts`` and ``vec`` are other names."""
    return MODE_ALIASES.get(text, text)


def search_run(arguments: Namespace, out: Output) -> int:
    """Print the passages that match a query."""
    query = query_of(arguments, out)
    where = filters_of(arguments)
    with open_to_read(out) as memory:
        answer = memory.search(
            query,
            limit=arguments.limit,
            offset=arguments.offset,
            mode=arguments.mode,
            min_score=arguments.min_score,
            window=arguments.window,
            best_per_document=arguments.best_per_document,
            diverse=arguments.diverse,
            strict=arguments.strict,
            explain=arguments.explain,
            where=where,
            all_projects=arguments.all_projects,
        )
        if not answer:
            from plait.cli.shared import warn_no_match

            reason = NO_MATCH_FOR_FILTERS if where else "nothing found"
            advice = [] if where else ["other words"]
            if arguments.min_score is not None:
                advice.append("a lower --min-score")
            is_hybrid = answer.receipt.mode_used == "hybrid" and not advice[1:] and not where
            warn_no_match(memory, arguments, out, reason, *advice, query=query, is_hybrid=is_hybrid)
        elif query.strip(" *") and all(hit.is_weak for hit in answer):
            from plait.cli.shared import warn_if_better_elsewhere

            warn_if_better_elsewhere(memory, arguments, out, query)
        hits = _show(answer, arguments.max_tokens, out)
        warn_of(answer.receipt, memory, out)
        if hits and out.form == "text":
            from plait.present.text import receipt_text

            out.suggest(f"plait get {answer[0].id[:SHORT_ID]}", receipt_text(answer.receipt, hits))
        out.flush()  # closing the memory writes statistics; print the answer first
    return 0 if hits else NOTHING_FOUND


def warn_of(receipt: Receipt, memory: Memory, out: Output) -> None:
    """Print what a search lacked and ignored, unless that was told when the memory was opened."""
    if not memory.is_off:
        told = memory.opening_notices
        out.warn_all(row for row in (*receipt.degraded, *receipt.ignored) if row not in told)
    if receipt.corrections:
        from plait.present.text import corrections_text

        out.warn(corrections_text(receipt))


def _show(answer: Answer, max_tokens: int | None, out: Output) -> int:
    """Print an answer in the chosen form and return how many hits it shows."""
    if max_tokens is None:
        shown, left_out = _rendered(answer, out), 0
    else:
        from plait.cli.shared import Rendered, fitted

        def render(hits: Sequence[Hit], left_out: int) -> Rendered:
            part = _rendered(Answer(tuple(hits), answer.receipt), out)
            return part if isinstance(part, str) else {**part, "left_out": left_out}

        shown, left_out = fitted(answer, render, max_tokens, out)
    out.show(shown["results"] if out.form == "array" and isinstance(shown, dict) else shown)
    return len(answer) - left_out


def _rendered(answer: Answer, out: Output) -> dict[str, Any] | str:
    """Return the answer in the form to print; do not build the other form."""
    if out.form == "text":
        from plait.present.text import answer_text

        return answer_text(answer, color=out.color, home=out.config.project)
    from plait.types.shapes import answer_dict

    return answer_dict(answer, in_shell)


def query_options(parser: ArgumentParser) -> None:
    """Declare the query, and ``--strict``."""
    parser.add_argument(
        "words", nargs="*", metavar="WORDS", help="the query; - reads it from standard input"
    )
    parser.add_argument("--query", metavar="TEXT", help="the query, as an option")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="require every quoted phrase, and show only what the operators match",
    )


def query_of(arguments: Namespace, out: Output) -> str:
    """Return the query that was given as words, with ``--query`` or on standard input."""
    if arguments.query is not None and arguments.words:
        raise UsageError("Give the query once: as words or with --query.")
    if arguments.query is None and not arguments.words:
        raise _empty_query()
    query = " ".join(arguments.words) if arguments.query is None else str(arguments.query)
    if query == "-":
        from plait.cli.shared import standard_input

        query = standard_input(round(out.config.settings.max_file_mb * 1024 * 1024))
    if not query.strip():
        raise _empty_query()  # the newest documents would look like hits of "$UNSET"
    return query


def _empty_query() -> UsageError:
    return UsageError("The query is empty.", code="empty_query", advice=advise("give_query"))


def add_max_tokens(parser: ArgumentParser) -> None:
    """Declare ``--max-tokens``."""
    parser.add_argument(
        "--max-tokens",
        type=as_integer,
        metavar="N",
        help="maximum size of the output in tokens (no limit)",
    )


# -- opening the memory ---------------------------------------------------------------------


@contextmanager
def open_to_read(out: Output) -> Iterator[Memory]:
    """Open the memory. A missing file is not created; the memory is then empty."""
    with open_memory(out, create=False) as memory, suggesting_names(memory, out):
        out.warn_all(memory.opening_notices)
        warn_of_project(memory, out)
        yield memory


def warn_of_project(memory: Memory, out: Output) -> None:
    """Warn if there is no project that was typed: personal documents would hide that."""
    if out.arguments.project is not None:
        from plait.cli.projects import warn_if_unknown

        warn_if_unknown(memory, out)


def open_memory(out: Output, *, create: bool, undo: bool = False) -> Memory:
    """Open the memory in the project that is meant; ``undo``: a deleted one may be."""
    memory = Memory.open(config=out.config._replace(brief=True), create=create)
    if out.arguments.project is None:
        return memory
    from plait.cli.projects import in_meant_project

    return in_meant_project(memory, out, create=create, undo=undo)


@contextmanager
def suggesting_names(memory: Memory, out: Output) -> Iterator[None]:
    """Add a similar name to the error when a name is unknown."""
    try:
        yield
    except NotFound as error:
        if memory.is_off and not out.quiet:  # told when it was opened
            raise error.with_notice(error.notice._replace(text="")) from None
        from plait.cli.suggestions import with_suggestion

        raise error.with_notice(with_suggestion(memory, error)) from None


# -- filters --------------------------------------------------------------------------------

# Option, field of Filter, allowed values (any if empty), help. Each may be given several times.
_LISTS: tuple[tuple[str, str, Sequence[str], str], ...] = (
    ("--kind", "kinds", KINDS, f"only documents of this kind: {', '.join(KINDS)}"),
    (
        "--memory-type",
        "memory_types",
        MEMORY_TYPES,
        f"only documents of this memory type: {', '.join(MEMORY_TYPES)}",
    ),
    ("--type", "types", (), "only documents of this type: decision, fact, …"),
    ("--tag", "tags", (), "only documents with this tag"),
    ("--entity", "entity", (), "only facts about this entity"),
    ("--topic", "topics", (), "only facts on this topic"),
    ("--named", "named", (), "only documents with this in their key or an alias"),
    ("--mentions", "mentions", (), "only documents with this in their text, as written"),
    ("--status", "statuses", STATUSES, f"only documents with this status: {', '.join(STATUSES)}"),
    ("--trust", "trusts", TRUSTS, f"only documents with this trust level: {', '.join(TRUSTS)}"),
)
_VALUES = (
    ("--key-prefix", "key_prefix", "TEXT", "only documents whose key starts with this"),
    (
        "--path",
        "path_prefix",
        "PATH",
        "only this file, or files in this folder; a path on disk, or as hits show it",
    ),
    ("--source", "source", "FOLDER", "only files that were ingested from this folder"),
    ("--session", "session", "NAME", "only documents of this session"),
    (
        "--since",
        "since",
        "TIME",
        "only documents from this time on: 2026-03-01, 7d, 'last week'",
    ),
    (
        "--until",
        "until",
        "TIME",
        "only documents from before this time; with the same day as --since, of that day",
    ),
    (
        "--as-of",
        "as_of",
        "TIME",
        "facts that were valid at this time (of a day: at its end), instead of now",
    ),
)


ALL_PROJECTS = "include all projects, not only the current one and personal documents"


def add_filters(parser: ArgumentParser, all_projects: str = ALL_PROJECTS) -> None:
    """Declare the filter options; ``all_projects`` is the help of the last one."""
    group = parser.add_argument_group(
        "filters",
        "A document must match all filters. X,Y means several values: use commas or repeat the\n"
        "option. With --tag, a document must have all of them; with other options, any of them.",
    )
    for flag, name, allowed, words in _LISTS:
        group.add_argument(
            flag,
            dest=name,
            action="extend",
            type=as_list,
            choices=allowed or None,
            metavar="X,Y",
            default=[],
            help=words,
        )
    for flag, name, value, words in _VALUES:
        kind = as_path if flag in ("--path", "--source") else str
        group.add_argument(flag, dest=name, type=kind, metavar=value, default=None, help=words)
    group.add_argument(
        "--metadata",
        dest="metadata",
        action="append",
        metavar="K=V",
        default=[],
        help="only documents with this metadata",
    )
    group.add_argument("--all-versions", action="store_true", help="include superseded facts")
    group.add_argument("--pinned", action="store_true", help="only pinned documents")
    group.add_argument(
        "--all-projects",
        action="store_true",
        help=all_projects,
    )


def filters_of(arguments: Namespace) -> dict[str, Any]:
    """Return the fields of `Filter` that were given."""
    given = vars(arguments)
    fields: dict[str, Any] = {name: tuple(given[name]) for _, name, *_ in _LISTS if given.get(name)}
    for _, name, *_ in _VALUES:
        if (value := given.get(name)) is not None:
            fields[name] = value
    if "source" in fields:
        fields["source"] = os.path.realpath(os.path.expanduser(fields["source"]))
    if "path_prefix" in fields:
        path = fields.pop("path_prefix")
        if "key_prefix" not in fields and _is_key(path):
            fields["key_prefix"] = _as_prefix(os.path.normpath(path).replace(os.sep, "/"), "/")
        else:
            fields["path_prefix"] = _on_disk(path)
    if given.get("metadata"):
        fields["metadata"] = tuple(key_and_value(text) for text in given["metadata"])
    for name in ("all_versions", "pinned"):
        if given.get(name):
            fields[name] = True
    return fields


def key_and_value(text: str, example: str = "--metadata author=Ana") -> tuple[str, str]:
    """Split ``key=value``.

    >>> key_and_value("author=Ana")
    ('author', 'Ana')
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"'{text}' is not KEY=VALUE. Example: {example}")
    return name, value


def _is_key(path: str) -> bool:
    """Tell whether a path can only be a key as hits show it, because no such file exists."""
    starts_on_disk = path.startswith(("~", ".")) or os.path.isabs(path)
    return not starts_on_disk and not os.path.lexists(path)


def _on_disk(path: str) -> str:
    """Return the path as ingest recorded it: absolute, with symbolic links resolved."""
    path = os.path.abspath(os.path.expanduser(path))
    if os.path.isdir(path):
        return os.path.join(os.path.realpath(path), "")
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return path if os.path.exists(path) else _as_prefix(path, os.sep)


def _as_prefix(path: str, separator: str) -> str:
    """Return a folder's path with the separator at its end, so that `notes` excludes `notes-old`.

    A path that does not exist on the disk counts as a file if its name has an extension.
    """
    return path if os.path.splitext(path)[1] else f"{path.rstrip(separator)}{separator}"
