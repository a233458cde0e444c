"""about, how, fixed: what agents did here, from imported sessions."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from plait.cli import NOTHING_FOUND, Output, as_integer, to_run
from plait.cli.search import open_to_read
from plait.cli.shared import standard_input, warn_no_match
from plait.errors import UsageError
from plait.memory import Memory
from plait.memory.work import about, fixed, how
from plait.present.work import (
    about_dict,
    about_text,
    fixed_dict,
    fixed_text,
    how_dict,
    how_text,
)
from plait.settings.loading import find_project, working_folder

_Row = TypeVar("_Row")


def about_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait about``."""
    parser.add_argument("path", metavar="PATH", help="a file, or the last parts of its path")
    _options(parser, 5, "sessions")


def about_run(arguments: Namespace, out: Output) -> int:
    """Print the sessions that changed, read or mentioned a file."""
    path = arguments.path
    if not path.strip():
        raise UsageError(to_run("The path is empty. For example: plait about src/cart.py"))
    if os.path.lexists(path):
        folder, name = os.path.split(os.path.abspath(path))
        path = os.path.join(os.path.realpath(folder), name)
        root = find_project(folder)
        if root is not None and root == find_project(working_folder()):
            # This project may have another name than its folder.
            path = os.path.relpath(path, root)
    with open_to_read(out) as memory:
        rows = about(memory, path, limit=arguments.limit, all_projects=arguments.all_projects)
        results = [about_dict(row) for row in rows]
        return _show(memory, arguments, out, results, about_text(rows, out.config.project))


def how_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait how``."""
    parser.add_argument(
        "words", nargs="+", metavar="COMMAND", help="a program, and words that its command has"
    )
    _options(parser, 5, "commands")


def how_run(arguments: Namespace, out: Output) -> int:
    """Print invocations of a command that worked."""
    _refuse_empty(arguments, to_run("The command is empty. For example: plait how pytest"))
    return _answer(arguments, out, how, how_dict, how_text)


def fixed_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait fixed``."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="ERROR",
        help="an error, or a whole output; - reads it from standard input",
    )
    _options(parser, 3, "answers")


def fixed_run(arguments: Namespace, out: Output) -> int:
    """Print what was run and edited after an error that did not come back."""
    if arguments.words == ["-"]:
        limit = round(out.config.settings.max_file_mb * 1024 * 1024)
        arguments.words = [standard_input(limit)]
    example = to_run("For example: plait fixed \"KeyError: 'total'\"")
    _refuse_empty(arguments, f"The error is empty. {example}")
    is_word = len(" ".join(arguments.words).split()) == 1
    advice = "the whole line, as it was printed" if is_word else "fewer words of it"
    return _answer(arguments, out, fixed, fixed_dict, fixed_text, (advice,))


def _refuse_empty(arguments: Namespace, sentence: str) -> None:
    if not "".join(arguments.words).strip():
        raise UsageError(sentence)


def _options(parser: ArgumentParser, limit: int, what: str) -> None:
    words = f"maximum number of {what} ({limit})"
    parser.add_argument("--limit", type=as_integer, default=limit, metavar="N", help=words)
    parser.add_argument("--all-projects", action="store_true", help="beyond this project")


def _answer(
    arguments: Namespace,
    out: Output,
    ask: Callable[..., list[_Row]],
    as_dict: Callable[[_Row], dict[str, Any]],
    as_text: Callable[[Sequence[_Row], str | None], str],
    advice: Sequence[str] = (),
) -> int:
    with open_to_read(out) as memory:
        words = " ".join(arguments.words)
        rows = ask(memory, words, limit=arguments.limit, all_projects=arguments.all_projects)
        results = [as_dict(row) for row in rows]
        return _show(memory, arguments, out, results, as_text(rows, out.config.project), *advice)


def _show(
    memory: Memory,
    arguments: Namespace,
    out: Output,
    results: list[dict[str, Any]],
    text: str,
    *advice: str,
) -> int:
    out.result({"results": results}, text)
    if not results:
        warn_no_match(memory, arguments, out, "nothing sure is known", *advice)
    return 0 if results else NOTHING_FOUND
