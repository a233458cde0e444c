"""Which verbs there are, and the options of the one that was chosen."""

from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from plait.errors import UsageError
from plait.types import FUSIONS


class Verb(NamedTuple):
    """A command: its module, what it does in one line, and an example."""

    module: str
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
    "store": Verb("write:store", "remember a text", 'plait store "We deploy on Fridays"'),
    "ingest": Verb("write:ingest", "index files and folders", "plait ingest ~/notes"),
    "search": Verb("read:search", "find the passages that answer", "plait search rotate ssh keys"),
    "get": Verb("read:get", "read documents or passages whole", "plait get 3f9c2a7b"),
    "timeline": Verb("read:timeline", "what happened, newest first", "plait timeline --since 7d"),
    "delete": Verb("write:delete", "forget, with 30 days to undo", "plait delete TOOLS"),
    "reindex": Verb("care:reindex", "rebuild indexes, make missing vectors", "plait reindex"),
    "stats": Verb("care:stats", "how much is in the memory", "plait stats"),
    "doctor": Verb("care:doctor", "examine and mend the memory", "plait doctor --fix"),
    "backup": Verb("care:backup", "copy the memory while it is in use", "plait backup copy.db"),
    "export": Verb("care:export", "write everything as JSON lines", "plait export all.jsonl"),
    "import": Verb("care:import", "take in an export", "plait import all.jsonl"),
    "watch": Verb("write:watch", "index a folder whenever it changes", "plait watch ~/notes"),
    "eval": Verb("evaluation:eval", "measure how well search finds", "plait eval FOLDER"),
    "config": Verb("settings:config", "show and change settings", "plait config show --origin"),
    "completion": Verb("settings:completion", "tab completion", "plait completion bash"),
}

# Options that every verb takes, before or after its name: flag, setting, kind, help.
GLOBAL_VALUES: tuple[tuple[str, str, type, str], ...] = (
    ("--db", "db_path", str, "the memory's file"),
    ("--config", "config", str, "read settings from this file only (TOML or JSON)"),
    ("--project", "project", str, "the project to work in ('personal' for none)"),
    ("--embedder", "embedding_provider", str, "none or hashing"),
    ("--ollama-url", "ollama_url", str, "where Ollama listens"),
    ("--model", "model", str, "the embedding model"),
    ("--chunk-size", "chunk_size", int, "passage size in characters"),
    ("--overlap", "chunk_overlap", int, "overlap of passages in characters"),
    ("--keyword-weight", "keyword_weight", float, "weight of keyword search, 0 to 1"),
    ("--vector-weight", "vector_weight", float, "weight of vector search, 0 to 1"),
    ("--fusion", "fusion", str, f"how both are merged: {', '.join(FUSIONS)}"),
)
FORMS = ("text", "json", "array")
_TAKES_VALUE = frozenset({"--format", *(flag for flag, *_ in GLOBAL_VALUES)})
_SWITCHES = frozenset({"--quiet", "-q", "--json"})


def parser_for(verb: str) -> ArgumentParser:
    """The parser of one verb alone: building all of them would cost a search 10 ms."""
    chosen = VERBS[verb]
    parser = ArgumentParser(
        prog=f"plait {verb}",
        description=f"{chosen.summary[0].upper()}{chosen.summary[1:]}.",
        epilog=f"Example:\n  {chosen.example}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    chosen.options()(parser)
    add_globals(parser)
    return parser


def add_globals(parser: ArgumentParser) -> None:
    """Declare the options that every verb takes."""
    group = parser.add_argument_group("options of every command")
    for flag, name, kind, words in GLOBAL_VALUES:
        group.add_argument(flag, dest=name, type=kind, metavar="X", default=None, help=words)
    group.add_argument("--json", action="store_true", help="answer in JSON, also on a terminal")
    group.add_argument(
        "--format", choices=FORMS, help="form of the answer; array is search's bare list of hits"
    )
    group.add_argument("-q", "--quiet", action="store_true", default=None, help="no warnings")
    group.add_argument("-V", "--version", action="store_true", help=SUPPRESS)


def arguments_for(words: Sequence[str]) -> tuple[str | None, Namespace]:
    """The verb and its options; no verb at all is a greeting.

    Raises:
        UsageError: There is no such verb.
    """
    leading, rest = _split(words)
    if not rest:
        parser = ArgumentParser(prog="plait", allow_abbrev=False)
        add_globals(parser)
        return None, parser.parse_args(leading)
    verb = rest[0]
    if verb not in VERBS:
        raise UsageError(_unknown(verb))
    parser = parser_for(verb)
    arguments, left_over = parser.parse_known_args([*leading, *rest[1:]])
    if left_over:
        # Words between options; argparse can do that too, but only 3 ms more slowly.
        arguments = parser.parse_intermixed_args([*leading, *rest[1:]])
    return verb, arguments


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Global options that stand before the verb, and the rest."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        name, equals, _ = words[place].partition("=")
        place += 2 if name in _TAKES_VALUE and not equals else 1
    return list(words[:place]), list(words[place:])


def _unknown(verb: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(verb, VERBS, n=1)
    hint = f"Did you mean: plait {near[0]}" if near else "See them all with: plait --help"
    return f"There is no command '{verb}'. {hint}"


def overview() -> str:
    """The text of ``plait --help``."""
    width = max(map(len, VERBS))
    lines = [
        "plait: memory your agent can search, by keyword and by meaning, in one file.",
        "",
        "usage: plait [options] COMMAND …",
        "",
    ]
    lines += [f"  {name:<{width}}  {verb.summary}" for name, verb in VERBS.items()]
    lines += ["", "plait COMMAND --help tells the rest. Try:", ""]
    lines += [f"  {VERBS[name].example}" for name in ("ingest", "search", "store")]
    return "\n".join(lines) + "\n"
