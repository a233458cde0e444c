"""Which verbs there are, and the options of the one that was chosen."""

import os
import sys
from argparse import (
    SUPPRESS,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from plait.errors import UsageError
from plait.types import FUSIONS


class Verb(NamedTuple):
    """A command: its module, what follows its name, what it does in one line, and an example."""

    module: str
    arguments: str
    summary: str
    example: str

    def load(self) -> Callable[..., int]:
        """The function that runs it."""
        found: Callable[..., int] = self._part("run")
        return found

    def options(self) -> Callable[[ArgumentParser], None]:
        """The function that declares its options."""
        found: Callable[[ArgumentParser], None] = self._part("options")
        return found

    def _part(self, name: str) -> Any:
        module, _, verb = self.module.partition(":")
        return getattr(import_module(f"plait.cli.{module}"), f"{verb}_{name}")


VERBS: dict[str, Verb] = {
    "store": Verb(
        "write:store",
        "TEXT | - | --file PATH",
        "remember a text",
        'plait store "Deploy on Fridays"',
    ),
    "ingest": Verb("write:ingest", "[PATH …]", "index files and folders", "plait ingest ~/notes"),
    "search": Verb(
        "read:search", "WORDS …", "find the passages that answer", "plait search rotate ssh keys"
    ),
    "recall": Verb(
        "read:recall",
        "WORDS …",
        "what is known, packed into a budget of tokens",
        'plait recall "ssh keys" --budget 800',
    ),
    "get": Verb(
        "read:get", "NAME …", "read documents or passages whole", "plait get 3f9c2a7b TOOLS.md"
    ),
    "timeline": Verb(
        "read:timeline", "", "what happened, newest first", "plait timeline --since 7d"
    ),
    "entity": Verb(
        "entity:entity",
        "show | list | add | observe | relate | unrelate | delete [NAME …]",
        "named things, what is said of them and how they hang together",
        'plait entity add Deploy "Fridays only" --type process',
    ),
    "delete": Verb(
        "write:delete", "[NAME …]", "forget, with 30 days to undo", "plait delete TOOLS.md"
    ),
    "reindex": Verb(
        "care:reindex", "", "rebuild indexes, make missing vectors", "plait reindex --embeddings"
    ),
    "stats": Verb("care:stats", "", "how much is in the memory", "plait stats --json"),
    "doctor": Verb("care:doctor", "", "examine and mend the memory", "plait doctor --fix"),
    "backup": Verb(
        "care:backup", "FILE", "copy the memory while it is in use", "plait backup copy.db"
    ),
    "export": Verb(
        "care:export", "[FILE]", "write everything as JSON lines", "plait export all.jsonl"
    ),
    "import": Verb("care:import", "FILE | -", "take in an export", "plait import all.jsonl"),
    "watch": Verb(
        "write:watch", "[PATH …]", "index a folder whenever it changes", "plait watch ~/notes"
    ),
    "mcp": Verb(
        "serve:mcp",
        "[--http]",
        "serve agents by the Model Context Protocol",
        "plait mcp --tools core,graph",
    ),
    "eval": Verb(
        "evaluation:eval", "FOLDER …", "measure how well search finds", "plait eval my-questions"
    ),
    "models": Verb(
        "models:models", "[list | pull MODEL]", "which embedders there are", "plait models"
    ),
    "config": Verb(
        "settings:config",
        "[show | get NAME | set NAME VALUE | unset NAME | path | set-key PROVIDER | "
        "remove-key PROVIDER | keys]",
        "show and change settings",
        "plait config show --origin",
    ),
    "completion": Verb(
        "settings:completion",
        "bash | zsh | fish",
        "print a script for tab completion",
        'eval "$(plait completion bash)"',
    ),
}

# What other programs call our verbs. Not aliases, one act has one name; but we know what was meant.
OTHER_NAMES = {
    "add": "store",
    "ask": "search",
    "cat": "get",
    "check": "doctor",
    "entities": "entity list",
    "find": "search",
    "forget": "delete",
    "fsck": "doctor",
    "history": "timeline",
    "index": "ingest",
    "info": "stats",
    "list": "timeline",
    "log": "timeline",
    "ls": "timeline",
    "graph": "entity list",
    "query": "search",
    "relate": "entity relate",
    "read": "get",
    "remember": "store",
    "remove": "delete",
    "restore": "delete --undo",
    "rm": "delete",
    "save": "store",
    "settings": "config",
    "show": "get",
    "status": "stats",
    "undo": "delete --undo",
    "vacuum": "reindex --compact",
}


def whole_number(text: str) -> int:
    """An integer, or a refusal that quotes what was typed."""
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"'{text}' is not a whole number") from None


def number(text: str) -> float:
    """A number, or a refusal that quotes what was typed."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"'{text}' is not a number") from None


def place(text: str) -> str:
    """A path as the operating system spells it, where the locale is not UTF-8 too."""
    if sys.getfilesystemencoding() == "utf-8":
        return text
    try:
        return os.fsdecode(text.encode("utf-8", "surrogateescape"))
    except UnicodeError:
        raise ArgumentTypeError(f"{text!r} cannot be a path") from None


def database(text: str) -> str:
    """A path that SQLite can spell too, which knows only UTF-8."""
    path = place(text)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError(
            f"{path!r} is not UTF-8. Choose another name, or set PYTHONUTF8=1"
        ) from None
    return path


# Options that every verb takes, before or after its name: flag, setting, kind, placeholder, help.
GLOBAL_VALUES: tuple[tuple[str, str, Callable[[str], object], str, str], ...] = (
    ("--db", "db_path", database, "FILE", "the memory's file"),
    ("--config", "config", place, "FILE", "read settings from this file only (TOML or JSON)"),
    ("--project", "project", str, "NAME", "the project to work in ('personal' for none)"),
    (
        "--embedder",
        "embedding_provider",
        str,
        "NAME",
        "what makes vectors: builtin (the default), none, ollama, … (see plait models)",
    ),
    ("--ollama-url", "ollama_url", str, "URL", "where Ollama listens (http://localhost:11434)"),
    ("--model", "model", str, "NAME", "the model of that embedder, where its name has none"),
    ("--chunk-size", "chunk_size", whole_number, "N", "passage size in characters"),
    ("--overlap", "chunk_overlap", whole_number, "N", "overlap of passages in characters"),
    ("--keyword-weight", "keyword_weight", number, "W", "weight of keyword search, 0 to 1"),
    ("--vector-weight", "vector_weight", number, "W", "weight of vector search, 0 to 1"),
    ("--fusion", "fusion", str, "NAME", f"how both are merged: {', '.join(FUSIONS)}"),
)
# The rest matters where text goes in or is asked for; elsewhere it is taken, but not listed.
_LISTED_EVERYWHERE = ("--db", "--config", "--project")
_LIST_ALL = ("store", "ingest", "search", "reindex", "eval")
FORMS = ("text", "json", "array")
_TAKES_VALUE = frozenset({"--format", *(flag for flag, *_ in GLOBAL_VALUES)})
_SWITCHES = frozenset({"--quiet", "-q", "--json", "--help", "-h", "--version", "-V"})


HELP_WIDTH = 90
# argparse's words, and what a person would say.
_PLAINLY = (
    ("unrecognized arguments:", "There is no use here for:"),
    ("the following arguments are required:", "Something is missing:"),
    ("expected one argument", "its value is missing"),
    ("expected at least one argument", "its value is missing"),
    ("invalid choice:", "there is no"),
)
# Likeness (0 to 1) at which an unknown option counts as a slip of the pen.
ALMOST_THE_SAME = 0.75


class Layout(RawDescriptionHelpFormatter):
    """Help in a fixed width: asking the terminal imports shutil, which costs every search 2 ms."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=HELP_WIDTH)


class Parser(ArgumentParser):
    """Says what is wrong in one sentence; the usage of twenty options would bury it."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        message = message.removeprefix("argument ")
        for theirs, ours in _PLAINLY:
            message = message.replace(theirs, ours)
        # What to do with an entity, a setting or a model has no name of its own to a person.
        message = message.removeprefix("act: ").replace("missing: act,", "missing: what to do,")
        message = message.replace("missing: act", "missing: what to do")
        raise UsageError(f"{message[:1].upper()}{message[1:]}. See: {self.prog} --help")

    def format_help(self) -> str:
        """The options of a verb, or all verbs where none was given."""
        return overview() if self.prog == "plait" else super().format_help()


def parser_for(verb: str) -> Parser:
    """The parser of one verb alone: building all of them would cost a search 10 ms."""
    chosen = VERBS[verb]
    parser = Parser(
        prog=f"plait {verb}",
        usage=" ".join(filter(None, ["plait", verb, chosen.arguments, "[options]"])),
        description=f"{chosen.summary[0].upper()}{chosen.summary[1:]}.",
        epilog=f"Example:\n  {chosen.example}",
        formatter_class=Layout,
        allow_abbrev=False,
    )
    chosen.options()(parser)
    add_globals(parser, listed=None if verb in _LIST_ALL else _LISTED_EVERYWHERE)
    return parser


def add_globals(parser: ArgumentParser, listed: Sequence[str] | None = None) -> None:
    """Declare the options that every verb takes; with ``listed``, help leaves the others out."""
    group = parser.add_argument_group("options of every command")
    for flag, name, kind, value, words in GLOBAL_VALUES:
        shown = words if listed is None or flag in listed else SUPPRESS
        group.add_argument(flag, dest=name, type=kind, metavar=value, default=None, help=shown)
    group.add_argument("--json", action="store_true", help="answer in JSON, also on a terminal")
    group.add_argument(
        "--format", choices=FORMS, help="form of the answer; array is search's bare list of hits"
    )
    group.add_argument("-q", "--quiet", action="store_true", default=None, help="no warnings")
    group.add_argument("-V", "--version", action="store_true", help=SUPPRESS)


def arguments_for(words: Sequence[str]) -> tuple[str | None, Namespace]:
    """The verb and its options; no verb at all is a greeting.

    Raises:
        UsageError: There is no such verb or option.
    """
    leading, rest = _split(words)
    if not rest:
        parser = Parser(prog="plait", formatter_class=Layout, allow_abbrev=False)
        add_globals(parser)
        return None, parser.parse_args(leading)
    verb = rest[0]
    if verb not in VERBS:
        raise UsageError(unknown_verb(verb))
    parser = parser_for(verb)
    typed = [*leading, *rest[1:]]
    arguments, left_over = parser.parse_known_args(typed)
    if left_over:
        _refuse_unknown_option(parser, left_over)
        # Words between options; argparse can do that too, but only 3 ms more slowly.
        arguments = parser.parse_intermixed_args(typed)
    return verb, arguments


def _refuse_unknown_option(parser: ArgumentParser, left_over: Sequence[str]) -> None:
    for word in left_over:
        if word == "--":
            return
        name = word.partition("=")[0]
        if word.startswith("-") and word != "-" and name not in parser._option_string_actions:
            from plait.settings import did_you_mean

            hint = (
                did_you_mean(name, parser._option_string_actions, ALMOST_THE_SAME)
                or f" See: {parser.prog} --help"
            )
            raise UsageError(
                f"There is no option {name}.{hint} (To use it as a word: {parser.prog} -- {name})"
            )


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Global options that stand before the verb, and the rest."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        name, equals, _ = words[place].partition("=")
        if name not in _TAKES_VALUE and name not in _SWITCHES:
            raise UsageError(
                f"{name} is not one of the options that may stand before the command. Write: "
                f"plait COMMAND … {words[place]}, or see: plait --help"
            )
        place += 2 if name in _TAKES_VALUE and not equals else 1
    return list(words[:place]), list(words[place:])


def unknown_verb(verb: str) -> str:
    """A sentence that names the closest verb there is."""
    from difflib import get_close_matches

    near = [OTHER_NAMES[verb]] if verb in OTHER_NAMES else get_close_matches(verb, VERBS, n=1)
    hint = f"Did you mean: plait {near[0]}" if near else "See them all with: plait --help"
    return f"There is no command '{verb}'. {hint}"


def overview() -> str:
    """The text of ``plait --help``."""
    width = max(map(len, VERBS))
    lines = [
        "plait: memory your agent can search, by keyword and by meaning, in one file.",
        "",
        "usage: plait COMMAND … [options]",
        "",
    ]
    lines += [f"  {name:<{width}}  {verb.summary}" for name, verb in VERBS.items()]
    lines += ["", "Every command takes these, before or after its name:", ""]
    options = [(f"{flag} {value}", words) for flag, _, _, value, words in GLOBAL_VALUES]
    options += [
        ("--json", "answer in JSON, also on a terminal"),
        (f"--format {'|'.join(FORMS)}", "form of the answer"),
        ("--quiet", "no warnings"),
    ]
    width = max(len(option) for option, _ in options)
    lines += [f"  {option:<{width}}  {words}" for option, words in options]
    lines += ["", "plait COMMAND --help lists its own. Try:", ""]
    lines += [f"  {VERBS[name].example}" for name in ("ingest", "search", "store")]
    return "\n".join(lines) + "\n"
