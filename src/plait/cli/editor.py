"""open: show a hit's file at its line in the person's editor."""

import os
import shlex
from argparse import ArgumentParser, Namespace
from contextlib import nullcontext

from plait.cli import Output, to_run
from plait.cli.search import open_to_read
from plait.cli.shared import or_empty
from plait.errors import SourceError, UsageError
from plait.text import visible

# How editors take a line, by program; others get the file alone.
_PLUS = "vi vim nvim gvim view nano pico emacs emacsclient kak micro joe ne mg jed kate gedit"
_COLON = "subl sublime_text zed zeditor hx helix atom mate"
_WITHOUT_LINES = (".pdf", ".docx")
_GOTO = "code code-insiders codium cursor windsurf"


def open_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait open``."""
    parser.add_argument(
        "name", metavar="NAME", help="a hit's id or its first six or more characters, or a key"
    )
    parser.add_argument(
        "--print", dest="only_print", action="store_true", help="print path:line, open nothing"
    )


def open_run(arguments: Namespace, out: Output) -> int:
    """Open the file of a document or passage in the editor of the environment."""
    nothing = {"file_path": None, "start_line": None}
    with (
        or_empty(out, nothing) if arguments.only_print else nullcontext(),
        open_to_read(out) as memory,
    ):
        document, passage = memory.lookup(arguments.name)
    line = 1 if passage is None else passage.start_line
    # The pages of a PDF or Word file were made into lines of plait's own, which no editor knows.
    has_lines = not (document.path or "").lower().endswith(_WITHOUT_LINES)
    if document.kind != "file" or not document.path or not os.path.isabs(document.path):
        raise UsageError(
            f"'{arguments.name}' is text that was stored, not a file. "
            + to_run(f"Run: plait get {shlex.quote(arguments.name)}")
        )
    place = f"{document.path}:{line}" if has_lines else document.path
    if arguments.only_print:
        value = {"file_path": document.path, "start_line": line if has_lines else None}
        out.result(value, visible(place, one_line=True))  # whole: scripts read it
        return 0
    if not os.path.isfile(document.path):  # a pipe or a device would hang the editor
        raise SourceError(
            f"{document.path} is not there any more. "
            + to_run(f"Run: plait get {shlex.quote(arguments.name)}")
        )
    if not out.config.editor:
        raise UsageError(f"No editor is set: {place}. Set EDITOR, as in EDITOR=nano, or VISUAL.")
    if document.mtime is not None and (
        os.stat(document.path).st_mtime_ns // 1_000_000 != document.mtime
    ):
        out.warn("the file has changed since it was ingested; the line may have moved")
    return _run(editor_command(out.config.editor, document.path, line if has_lines else None))


def editor_command(editor: str, path: str, line: int | None) -> list[str]:
    """Return the command that opens an absolute path at a line, if it has lines.

    >>> editor_command("code --wait", "/notes/ssh.md", 41)
    ['code', '--wait', '--goto', '/notes/ssh.md:41']

    Raises:
        UsageError: The editor is no command.
    """
    try:
        words = shlex.split(editor)
    except ValueError as error:
        raise _no_command(editor, f": {str(error).lower()}") from None
    if not words:
        raise _no_command(editor, "")
    if line is None:
        return [*words, path]
    program = os.path.splitext(os.path.basename(words[0]))[0]
    if program in _PLUS.split():
        return [*words, f"+{line}", path]
    if program in _GOTO.split():
        return [*words, "--goto", f"{path}:{line}"]
    return [*words, f"{path}:{line}" if program in _COLON.split() else path]


def _no_command(editor: str, reason: str) -> UsageError:
    return UsageError(
        f"The editor {editor!r} is no command{reason}. Set EDITOR, as in EDITOR=nano, or VISUAL.",
        code="bad_editor",
    )


def _run(command: list[str]) -> int:
    import subprocess

    try:
        return 0 if subprocess.run(command, check=False).returncode == 0 else 1
    except OSError as error:
        raise UsageError(
            f"The editor '{command[0]}' does not start: {error.strerror}. "
            "Set EDITOR to one that does."
        ) from None
