"""The command line: parse the words, call `Memory`, print the result, return an exit code.

What a command does to a memory belongs below `Memory`.

A command loads only the module of its verb (`plait.cli.verbs` says which). Exit codes: 0 success,
1 failure, 2 wrong usage, 3 nothing found, 130 interrupted.
"""

import json
import os
import sys
from argparse import (
    SUPPRESS,
    Action,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Literal, NoReturn

from plait import __version__
from plait.cli.verbs import VERBS
from plait.errors import Notice, PlaitError, UsageError, lacks_descriptors, too_many_files
from plait.settings.loading import Config, load
from plait.settings.schema import SETTINGS
from plait.text import visible
from plait.types import FUSION_ALIASES, FUSIONS, check_choice
from plait.types.ids import may_be_address

NOTHING_FOUND, INTERRUPTED = 3, 130

Form = Literal["text", "json", "array"]
FORMS = ("text", "json", "array")
# `plait.present` marks colors by NUL and a letter: NUL is in no stored text, and escapes may be.
COLOR_MARK = "\0"
COLORS = {"b": "\x1b[1m", "d": "\x1b[2m", "p": "\x1b[0m"}
HELP_WIDTH = 90


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = _typed() if argv is None else list(argv)
    _use_utf8()
    try:
        return _run(words)
    except SystemExit as done:  # argparse, after --help
        return done.code if isinstance(done.code, int) else 0
    except BrokenPipeError:
        # The reader (`head`, a pager) closed the pipe early. That is not a failure.
        discard_stdout()
        return 0
    except KeyboardInterrupt as stop:
        if stop.args:  # how far it came
            _tell(in_shell(stop.args[0]))
        return INTERRUPTED
    except PlaitError as error:
        _tell(in_shell(error.notice, words))
        return error.exit_code
    except (OSError, ImportError) as error:
        if lacks_descriptors(error):
            _tell(too_many_files(getattr(error, "filename", None) or "A file").notice.text)
            return 1
        if isinstance(error, ImportError):
            return _report_bug()
        discard_stdout()
        # An error without a file name comes from stdout: a full disk behind `plait … > file`.
        act = f"read or write {error.filename}" if error.filename else "write the output"
        _tell(f"Cannot {act}: {error.strerror or error}.")
        return 1
    except Exception:  # noqa: BLE001 - the only broad handler of the command line
        return _report_bug()
    finally:
        _options.clear()


def _report_bug() -> int:
    import traceback

    write_error(traceback.format_exc())
    _tell("this is a bug. Please report it with the lines above.")
    return 1


def in_shell(message: str | Notice, words: Sequence[str] = ()) -> str:
    """Return the message with its advice as a shell command, and with options as in ``words``.

    >>> from plait.errors import advise
    >>> in_shell(Notice("3 passages have no vector.", advice=advise("reindex")))
    '3 passages have no vector. Run: plait reindex'
    """
    if isinstance(message, str) or not (message.advice or words):
        return message if isinstance(message, str) else message.text
    try:
        from plait.cli.wording import SHELL, as_typed  # most commands have nothing to word
        from plait.present.commands import with_command
    except OSError:  # no more files can be opened, which may be what the message says
        return message.text
    return with_command(as_typed(message, words), SHELL, _options)


# The options of the running command line. A command that it suggests keeps those that choose the
# memory: without its --db, the pasted command would act on another one.
_options: dict[str, Any] = {}


def to_run(text: str, **others: str) -> str:
    """Return a text of plait's own with the typed options, or ``others``, in its command."""
    from plait.present.commands import with_options

    return with_options(text, _options | others)


def _run(words: list[str]) -> int:
    if words and words[0] in ("-V", "--version", "version"):
        return _print(f"plait {__version__}\n")
    if words and words[0] in ("-h", "--help", "help"):
        if len(words) == 1:
            return _print(import_module("plait.cli.help").overview())
        words = [words[1], "--help"]
    if "hook" in words and import_module("plait.cli.hook").answered_agent(words):
        return 0
    verb, arguments = arguments_for(words)
    _options.update(vars(arguments))
    if arguments.version:
        return _print(f"plait {__version__}\n")
    out = Output(arguments, words)
    try:
        if verb is None:
            from plait.cli.help import welcome

            return welcome(out)
        run: Callable[[Namespace, Output], int] = _part(verb, "run")
        return run(arguments, out)
    finally:
        out.flush()


def _part(verb: str, part: Literal["options", "run"]) -> Any:
    """Return a verb's function: ``search_options`` or ``search_run`` of its module."""
    return getattr(import_module(f"plait.cli.{VERBS[verb].module}"), f"{verb}_{part}")


def _typed() -> list[str]:
    """Return the command line as UTF-8, whatever the locale; other bytes stay as they are."""
    return [os.fsencode(word).decode("utf-8", "surrogateescape") for word in sys.argv[1:]]


def _print(text: str) -> int:
    write_out(text)
    sys.stdout.flush()
    return 0


def _use_utf8() -> None:
    """Print UTF-8 whatever the locale: stored text is Unicode and must not break a pipe."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as in `plait … >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def discard_stdout() -> None:
    """Drop buffered output; otherwise Python complains about it at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stream without a file has nothing to drop
        return


# -- printing -------------------------------------------------------------------------------
# Whatever a command prints goes through one of these two. On stdout, text for a file or a pipe is
# not changed; stderr is for people.


def write_out(text: str) -> None:
    """Write to stdout. A terminal gets no control characters but our own colors."""
    if sys.stdout.isatty():
        head, *painted = text.split(COLOR_MARK)
        text = visible(head) + "".join(
            COLORS[part[0]] + visible(part[1:])
            if part[:1] in COLORS
            else visible(COLOR_MARK + part)
            for part in painted
        )
    sys.stdout.write(text)


def write_error(text: str, start: str = "") -> None:
    """Write to stderr without any control characters, except our own at the start."""
    sys.stderr.write(start + visible(text))


def _tell(message: str) -> None:
    """Tell something in one line: a line break in a name must not look like a second message."""
    if "://" in message:  # whatever was typed, a password in it is not repeated
        message = import_module("plait.settings.databases").without_passwords(message)
    if message:  # an error without words was told before
        write_error(f"plait: {visible(message, one_line=True)}\n")


class Output:
    """Prints results to stdout and everything else to stderr; JSON unless stdout is a terminal."""

    def __init__(self, arguments: Namespace, words: Sequence[str] = ()) -> None:
        self.arguments = arguments
        self.words = words
        self.on_terminal = sys.stdout.isatty()
        default: Form = "json" if arguments.json or not self.on_terminal else "text"
        self.form: Form = getattr(arguments, "format", None) or default
        self._config: Config | None = None

    @property
    def config(self) -> Config:
        """The settings, read on first use so that ``config set`` can repair a bad file."""
        if self._config is None:
            self._config = self.config_with()
            self.warn_all(self._config.warnings)
        return self._config

    def config_with(self, **options: str) -> Config:
        """Return the settings with other values for some options."""
        given = {**vars(self.arguments), **options}
        flags = {name: given[name] for name in SETTINGS if given.get(name) is not None}
        return load(flags, config=given.get("config"))

    def use_project(self, name: str) -> None:
        """Use another project than the settings say."""
        self._config = self.config._replace(project=name)

    @property
    def quiet(self) -> bool:
        """Whether only results and errors are printed."""
        return bool(self.arguments.quiet) or self.config.settings.quiet

    @property
    def color(self) -> bool:
        """Whether to print in color."""
        return self.on_terminal and self.form == "text" and self.config.color

    def result(self, value: Any, text: str) -> None:
        """Print the answer: ``text`` for people, otherwise ``value`` as JSON."""
        self.show(text if self.form == "text" else value)

    def show(self, answer: Any) -> None:
        """Print an answer: text unchanged (nothing if it is empty), anything else as JSON."""
        if not isinstance(answer, str):
            indent = 2 if self.on_terminal else None
            answer = visible(json.dumps(answer, ensure_ascii=False, indent=indent))
        if answer:
            write_out(answer + "\n")

    def line(self, text: str) -> None:
        """Print one line of a long output, in JSON."""
        write_out(visible(text) + "\n")

    def warn(self, message: str | Notice) -> None:
        """Print a warning to stderr, except under ``--quiet``."""
        if not self.quiet:
            _tell(in_shell(message))

    def warn_all(self, messages: Iterable[str | Notice]) -> None:
        """Print several warnings."""
        for message in messages:
            self.warn(message)

    def error(self, message: str | Notice) -> None:
        """Print to stderr what failed while the rest succeeded, also under ``--quiet``."""
        self.flush()
        _tell(in_shell(message))

    def suggest(self, command: str, why: str, **others: str) -> None:
        """Suggest the next command, but not to programs that read JSON.

        It gets the typed options that choose the memory, or ``others`` in their place.
        """
        if self.form == "text" and not self.quiet:
            self.suggest_line(to_run(command, **others), why)

    def suggest_line(self, command: str, why: str) -> None:
        """Suggest a command that has all of its options."""
        write_error(f"\n{visible(f'{command}  # {why}', one_line=True)}\n")

    def step(self, text: str) -> None:
        """Show what a long command is doing now, on a terminal only."""
        if sys.stderr.isatty() and not self.quiet:
            write_error(visible(text, one_line=True), start="\r\x1b[2K")
            sys.stderr.flush()

    def end_progress(self) -> None:
        """Clear the progress line."""
        self.step("")

    def flush(self) -> None:
        """Write everything out before the exit code is returned."""
        sys.stdout.flush()
        sys.stderr.flush()


# -- values of options ----------------------------------------------------------------------


def as_integer(text: str) -> int:
    """Parse a whole number, or refuse the text."""
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"'{text}' is not a whole number") from None


def as_number(text: str) -> float:
    """Parse a number, or refuse the text."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"'{text}' is not a number") from None


def as_path(text: str) -> str:
    """Return a path in the encoding of the file system, which need not be UTF-8."""
    if sys.getfilesystemencoding() == "utf-8":
        return text
    try:
        return os.fsdecode(text.encode("utf-8", "surrogateescape"))
    except UnicodeError:
        raise ArgumentTypeError(f"{text!r} is not a valid path") from None


def as_database_path(text: str) -> str:
    """Return the address of a database, or a path that is UTF-8: SQLite opens no other."""
    path = as_path(text)
    if may_be_address(path):
        return import_module("plait.settings.databases").parse_address(path)  # type: ignore[no-any-return]
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError(
            f"{path!r} is not UTF-8. Choose another name, or set PYTHONUTF8=1"
        ) from None
    return path


def as_fusion(text: str) -> str:
    """Return the name of a fusion; ``seed001`` is the old name of ``max``."""
    return check_choice("--fusion", FUSION_ALIASES.get(text, text), FUSIONS)


def as_list(text: str) -> list[str]:
    """Return values that are separated by commas; for the action "extend"."""
    return [part.strip() for part in text.split(",") if part.strip()]


# -- parsing --------------------------------------------------------------------------------

# Options of every verb, before or after its name: flag, setting, type, placeholder, help.
GLOBAL_OPTIONS: tuple[tuple[str, str, Callable[[str], object], str, str], ...] = (
    ("--db", "db_path", as_database_path, "FILE", "the memory: a file, or postgresql://…"),
    ("--config", "config", as_path, "FILE", "read settings only from this file (TOML or JSON)"),
    ("--project", "project", str, "NAME", "project to use; 'personal' means no project"),
    (
        "--embedder",
        "embedding_provider",
        str,
        "NAME",
        "embedder: builtin (default), none, ollama, … (see plait models)",
    ),
    ("--ollama-url", "ollama_url", str, "URL", "URL of the Ollama server (http://localhost:11434)"),
    ("--model", "model", str, "NAME", "embedding model, unless --embedder names one"),
    ("--chunk-size", "chunk_size", as_integer, "N", "target size of a passage in characters"),
    ("--overlap", "chunk_overlap", as_integer, "N", "overlap of adjacent passages in characters"),
    ("--keyword-weight", "keyword_weight", as_number, "W", "weight of keyword search, 0 to 1"),
    ("--vector-weight", "vector_weight", as_number, "W", "weight of vector search, 0 to 1"),
    (
        "--fusion",
        "fusion",
        as_fusion,
        "NAME",
        f"how keyword and vector hits are merged: {', '.join(FUSIONS)}",
    ),
)
FORMAT_HELP = "output format; array prints only the hits of a search"
JSON_HELP = "print JSON, even on a terminal"
QUIET_HELP = "suppress warnings"
READ_ONLY_HELP = "write nothing"
# The verbs that write or search text list all of them; the others accept all but list only these.
_LISTED_EVERYWHERE = ("--db", "--config", "--project")
_LIST_ALL = ("store", "ingest", "search", "reindex", "eval")
_TAKES_VALUE = frozenset({"--format", *(flag for flag, *_ in GLOBAL_OPTIONS)})
_SWITCHES = frozenset({"--quiet", "-q", "--json", "--read-only", "--help", "-h", "--version", "-V"})


class HelpLayout(RawDescriptionHelpFormatter):
    """Formats help in a fixed width: asking the terminal imports shutil, 2 ms of every search."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=HELP_WIDTH)


class Parser(ArgumentParser):
    """Reports an error in one sentence; the usage of twenty options would bury it."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise UsageError(import_module("plait.cli.help").reworded(message, self.prog))

    # subtle: argparse calls these two for whatever was typed, so that no option can be forgotten.
    def _get_values(self, action: Action, arg_strings: list[str]) -> Any:
        """Refuse an empty value, as of ``--path "$UNSET"``: a delete would remove more."""
        checked = action.option_strings or action.type in (as_path, as_database_path)
        if checked and not all(map(as_list if action.type is as_list else str.strip, arg_strings)):
            raise import_module("plait.cli.help").refused_blank(action)
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: Action, value: Any) -> None:
        """Refuse a value that is not one of a few; of a list, each."""
        for part in value if isinstance(value, list) else [value]:
            if action.choices is not None and part not in action.choices:
                raise import_module("plait.cli.help").refused(action, part)

    def format_help(self) -> str:
        """Return the options of a verb, or all verbs if none was given."""
        is_all = self.prog == "plait"
        return import_module("plait.cli.help").overview() if is_all else super().format_help()


def parser_for(verb: str) -> Parser:
    """Return the parser of one verb: building all of them would cost a search 10 ms."""
    row = VERBS[verb]
    parser = Parser(
        prog=f"plait {verb}",
        usage=" ".join(filter(None, ["plait", verb, row.arguments, "[options]"])),
        description=f"{row.summary[0].upper()}{row.summary[1:]}.",
        epilog=f"Example:\n  {row.example}",
        formatter_class=HelpLayout,
        allow_abbrev=False,
    )
    _part(verb, "options")(parser)
    add_global_options(parser, listed=None if verb in _LIST_ALL else _LISTED_EVERYWHERE)
    return parser


def add_global_options(parser: ArgumentParser, listed: Sequence[str] | None = None) -> None:
    """Declare the options of every verb; help shows all of them, or only the ``listed`` ones."""
    group = parser.add_argument_group("options of every command")
    for flag, name, kind, value, words in GLOBAL_OPTIONS:
        if flag in (parser.get_default("own_flags") or ()):
            continue
        shown = words if listed is None or flag in listed else SUPPRESS
        group.add_argument(flag, dest=name, type=kind, metavar=value, default=None, help=shown)
    group.add_argument("--json", action="store_true", help=JSON_HELP)
    forms, told = parser.get_default("formats") or (FORMS, FORMAT_HELP)
    group.add_argument("--format", choices=forms, help=told)
    group.add_argument("-q", "--quiet", action="store_true", default=None, help=QUIET_HELP)
    group.add_argument("--read-only", action="store_true", default=None, help=READ_ONLY_HELP)
    group.add_argument("-V", "--version", action="store_true", help=SUPPRESS)


def arguments_for(words: Sequence[str]) -> tuple[str | None, Namespace]:
    """Parse a command line into its verb, if it has one, and its options.

    Raises:
        UsageError: The verb or an option is unknown, or a value is missing or wrong.
    """
    leading, rest = split_words(words)
    if not rest:
        parser = Parser(prog="plait", formatter_class=HelpLayout, allow_abbrev=False)
        add_global_options(parser)
        return None, parser.parse_args(leading)
    verb = rest[0]
    if verb not in VERBS:
        from plait.cli.help import unknown_verb

        raise UsageError(unknown_verb(verb))
    parser = parser_for(verb)
    typed = [*leading, *rest[1:]]
    arguments, left_over = parser.parse_known_args(typed)
    if left_over:
        from plait.cli.help import refuse_unknown_option

        refuse_unknown_option(parser, left_over)
        # Words between options. Parsing them always would cost every command 3 ms.
        arguments = parser.parse_intermixed_args(typed)
    return verb, arguments


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the global options before the verb, and the rest."""
    count = 0
    while count < len(words) and words[count].startswith("-") and words[count] != "-":
        name, equals, _ = words[count].partition("=")
        if name not in _TAKES_VALUE and name not in _SWITCHES:
            raise UsageError(import_module("plait.cli.help").misplaced_option(words[count]))
        count += 2 if name in _TAKES_VALUE and not equals else 1
    return list(words[:count]), list(words[count:])
