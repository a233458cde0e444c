"""The settings as data: names, types, defaults, accepted values, descriptions; rules between them.

Nothing is read here: `plait.settings.loading` reads the settings and checks each value.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from plait.errors import Advice, ConfigError, advise
from plait.types import (
    FILE_PATTERNS,
    FUSION_ALIASES,
    FUSIONS,
    MIN_CUT_SIZE,
    Cut,
    Fusion,
)
from plait.types.guarding import weights_problem
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.settings.secrets import Secret

Floor = Literal["relevance", "rrf"]
Durability = Literal["full", "normal"]
SignalsCount = Literal["read", "listed"]
# When a setting in a project's plait.toml counts. Such a file comes with a clone, so this is an
# allow-list: "search" tunes searches made there, "files" how the files below it are read, and both
# count at once. The rest counts when the user has trusted the file; a key never does, nor does the
# server that a chat is sent to, nor a rule by which texts are deleted.
FromProject = Literal["search", "files", "trusted", "never"]
# How a value is parsed; `plait.settings.loading` has one function for each.
ValueType = Literal[
    "amounts",
    "api_key",
    "choice",
    "counts",
    "limbic_constants",
    "number",
    "ollama_url",
    "path",
    "patterns",
    "project",
    "provider",
    "switch",
    "text",
    "whole",
]

IN_MEMORY = ":memory:"
MOST_DAYS = 36_500
# What can be archived for its age; and the kinds and origins that can have a budget.
ARCHIVED = ("file", "note", "observation", "message")
BUDGETED = (*ARCHIVED, "user", "agent", "tool", "web", "import")
# Similarity (0 to 1) from which a name outside [memory] counts as a typing error: names of other
# programs may be a little like ours, and every PLAIT_ variable is.
TYPO_LIKENESS = 0.8
# Names that other programs use for our settings. They are refused with the right name.
FOREIGN_NAMES = {
    "db": "db_path",
    "overlap": "chunk_overlap",
    "provider": "embedding_provider",
    "embedding_model": "model",
    "embedding_dimensions": "dims",
    "embedding_api_key": "api_key",
    "openai_api_key": "api_key",
    "min_relevance_score": "min_score",
}
# Settings with a second name; with a dot, in TOML it is a dotted key, or a key of a table.
ALSO_CALLED = {"signals.count": "signals_count", "embedding_cache_size": "cache_size"}


class Settings(NamedTuple):
    """The value of each setting. ``None`` leaves the choice to the module that uses it."""

    db_path: str
    backend: str = "sqlite"
    memory_dir: str | None = None
    auto_save: bool = False
    auto_hydrate: bool = False
    embedding_provider: str | None = None
    model: str | None = None
    api_key: "Secret | None" = None
    chat_model: str | None = None
    ollama_url: str = "http://localhost:11434"
    dims: int | None = None
    vector_weight: float | None = None
    keyword_weight: float | None = None
    fusion: Fusion = "weighted"
    floor: Floor = "relevance"
    chunk_size: int = Cut().size
    chunk_overlap: int = Cut().overlap
    cache_size: int = 10_000
    expansion_factor: int = 3
    rrf_k: int = 60
    auto_reindex: bool = False
    sqlite_open_timeout_secs: float = 30.0
    durability: Durability = "full"
    project: str | None = None
    limit: int = 10
    min_score: float = 0.0
    limbic: bool = True
    limbic_constants: tuple[tuple[str, float], ...] | None = None
    signals_count: SignalsCount = "read"
    quiet: bool = False
    patterns: tuple[str, ...] = FILE_PATTERNS
    max_file_mb: float = 10.0
    keep_days: tuple[tuple[str, float], ...] | None = None
    keep_most: tuple[tuple[str, float], ...] | None = None
    keep_mb: tuple[tuple[str, float], ...] | None = None
    archive_days: tuple[tuple[str, float], ...] | None = None
    delete_archived_days: float | None = None
    maintain_hours: float | None = None
    response_cache_enabled: bool = False
    response_cache_ttl_minutes: float = 60.0
    response_cache_max_entries: int = 5_000
    read_only: bool = False


# Settings that describe a model: without an embedder they mean Ollama, as in hybrid-memory.
OF_OLLAMA = ("model", "dims", "ollama_url")
OF_EMBEDDER = (*OF_OLLAMA, "cache_size", "api_key")
OF_SEARCH = (
    *("keyword_weight", "vector_weight", "floor", "rrf_k", "expansion_factor"),
    "limbic_constants",
)


def of_ollama(settings: Settings) -> tuple[str, ...]:
    """Return the settings that mean Ollama; its address does not if the chat model needs it."""
    is_for_chat = (settings.chat_model or "").startswith("ollama:")
    return tuple(name for name in OF_OLLAMA if not (is_for_chat and name == "ollama_url"))


# Where the value of each setting comes from.
Origins = Mapping[str, str]


# Values by the name of the setting, each with its origin.
Given = dict[str, tuple[Any, str]]


class Source(NamedTuple):
    """Settings that were given together, such as those of one file; each with its origin.

    A ``foreign`` source came with a repository: the user did not write it.
    """

    given: Given
    is_file: bool = False
    foreign: bool = False


class Setting(NamedTuple):
    """The type of a setting, the values that it accepts, and what it is for.

    ``aliases`` are other names for an option. A setting that does not act is accepted and
    checked, but nothing uses its value yet. ``from_project`` is when a project's file may set it.
    """

    type: ValueType
    description: str
    low: float = 0
    high: float = 0
    options: tuple[str, ...] = ()
    aliases: Mapping[str, str] = MappingProxyType({})
    example: str = ""
    from_project: FromProject = "trusted"

    @property
    def expected(self) -> str:
        """Which values are accepted, in words."""
        if self.type == "choice":
            return f"one of {', '.join(self.options)}" if len(self.options) > 1 else self.options[0]
        pairs = f"{self.example}, each name once: names are {', '.join(self.options)}"
        reach = f"numbers from {self.low:g} to {self.high:.15g}"
        return {
            "amounts": f"{pairs}, {reach}",
            "counts": f"{pairs}, whole {reach}",
            "path": "a path",
            "switch": "on or off",
            "whole": f"a whole number from {self.low} to {self.high}",
            "number": f"a number from {self.low:g} to {self.high:g}",
        }.get(self.type, self.example)


SETTINGS: dict[str, Setting] = {
    "db_path": Setting(
        "path",
        "Path of the memory's file, or the address of one in PostgreSQL (postgresql://…); --db and "
        "PLAIT_DB are short forms.",
    ),
    "backend": Setting(
        "choice",
        "The engine that stores the memory; none turns the memory off.",
        options=("sqlite", "postgres", "none"),
        aliases={"postgresql": "postgres", "pg": "postgres"},
    ),
    "memory_dir": Setting("path", "The folder that `plait ingest` reads if you give no path."),
    "auto_save": Setting(
        "switch",
        "Save agents' sessions by their hooks, chats, and turns by plait.tools; off, because a "
        "session holds more than you would store yourself.",
    ),
    "auto_hydrate": Setting(
        "switch",
        "Fill an empty memory from the Markdown snapshot in memory_dir, or in the folder beside "
        "its file that has its name.",
    ),
    "embedding_provider": Setting(
        "provider",
        "The embedder; unset: the one that the memory was built with, builtin for a new memory.",
        example="a name such as builtin, ollama:MODEL or custom:URL#MODEL",
    ),
    "model": Setting(
        "text", "The embedder's model; unset: the provider's default.", example="a name"
    ),
    "api_key": Setting(
        "api_key",
        "The key for the embedder that the same file names; `plait config set-key` is safer.",
        example="one line of printable ASCII without spaces",
        from_project="never",
    ),
    "chat_model": Setting(
        "text",
        "The model of `plait chat` and `plait digest`; unset: name one with --model.",
        example="a name such as ollama:NAME, anthropic:NAME, openai:NAME or custom:URL#NAME",
        from_project="never",
    ),
    "ollama_url": Setting(
        "ollama_url",
        "URL of the Ollama server; you may leave out scheme and port.",
        example="an address such as http://localhost:11434",
    ),
    "dims": Setting(
        "whole", "Length of the vectors; unset: the model's default.", low=1, high=65_536
    ),
    "vector_weight": Setting(
        "number",
        "Weight of vector search; 0 turns it off; unset: 1 minus keyword_weight, or the "
        "embedder's default.",
        high=1,
        from_project="search",
    ),
    "keyword_weight": Setting(
        "number",
        "Weight of keyword search; 0 turns it off; unset: 1 minus vector_weight, or the "
        "embedder's default.",
        high=1,
        from_project="search",
    ),
    "fusion": Setting(
        "choice",
        "How keyword and vector hits are merged into one ranking.",
        options=FUSIONS,
        aliases=FUSION_ALIASES,
        from_project="search",
    ),
    "floor": Setting(
        "choice",
        "The score that min_score is compared with; rrf is the normalised score of fusion = rrf.",
        options=("relevance", "rrf"),
    ),
    "chunk_size": Setting(
        "whole",
        "Target size of a passage in characters; a passage may reach 1.3 times that.",
        low=MIN_CUT_SIZE,
        high=100_000,
        from_project="files",
    ),
    "chunk_overlap": Setting(
        "whole",
        "Characters that a passage repeats from the one before; less than half of chunk_size.",
        high=49_999,
        from_project="files",
    ),
    "cache_size": Setting("whole", "How many vectors the embedding cache keeps.", high=10_000_000),
    "expansion_factor": Setting(
        "whole",
        "Candidates that each branch fetches, as a multiple of the limit; fusion = weighted "
        "fetches at least 200 by keyword and 100 by vector.",
        low=1,
        high=100,
        from_project="search",
    ),
    "rrf_k": Setting(
        "whole",
        "Damping of fusion = rrf and of search_semantic; a larger value makes the top ranks more "
        "equal.",
        low=1,
        high=10_000,
        from_project="search",
    ),
    "auto_reindex": Setting("switch", "Embed everything again when the embedder changes."),
    "sqlite_open_timeout_secs": Setting(
        "number", "Seconds to wait while another process writes.", high=3600
    ),
    "durability": Setting(
        "choice",
        "full survives a power cut; normal may lose the last writes.",
        options=("full", "normal"),
    ),
    "project": Setting(
        "project",
        "The project; unset: the git repository, or personal.",
        example="a name, a folder or personal",
    ),
    "limit": Setting("whole", "Maximum number of hits.", low=1, high=1000, from_project="search"),
    "min_score": Setting("number", "Minimum relevance of a hit.", high=1),
    "limbic": Setting(
        "switch",
        "Let use and age change a hit's score by a factor of 0.8 to 1.25.",
        from_project="search",
    ),
    "limbic_constants": Setting(
        "limbic_constants",
        "The numbers behind that factor; unset: those in docs/limbic.md.",
        example="pairs such as age_weight=0.02,half_life_message=30, each name once",
    ),
    "signals_count": Setting(
        "choice",
        "What counts as use: read passages, or all hits that a search listed.",
        options=("read", "listed"),
    ),
    "quiet": Setting("switch", "Suppress warnings."),
    "patterns": Setting(
        "patterns",
        "Which files to ingest, by name, or by group: notes, code, pdf, chats.",
        example="patterns such as *.md,*.txt",
        from_project="files",
    ),
    "max_file_mb": Setting(
        "number",
        "Maximum size of a file or a text in megabytes; larger files are skipped, texts refused.",
        low=0.001,
        high=4096,
    ),
    "keep_days": Setting(
        "amounts",
        "Days after which `plait prune` deletes notes, observations or messages; unset: never.",
        options=("note", "observation", "message"),
        example="pairs such as message=90,observation=365",
        low=1,
        high=MOST_DAYS,
        from_project="never",
    ),
    "keep_most": Setting(
        "counts",
        "How many documents of a kind or an origin `plait prune` leaves; unset: all.",
        options=BUDGETED,
        example="pairs such as message=20000,web=500",
        high=1e9,
        from_project="never",
    ),
    "keep_mb": Setting(
        "amounts",
        "How many megabytes of text of a kind or an origin `plait prune` leaves; unset: all.",
        options=BUDGETED,
        example="pairs such as message=50,web=20",
        high=1e6,
        from_project="never",
    ),
    "archive_days": Setting(
        "amounts",
        "Days after which `plait prune` archives what nobody changed or read; unset: never.",
        options=ARCHIVED,
        example="pairs such as file=180,note=365",
        low=1,
        high=MOST_DAYS,
        from_project="never",
    ),
    "delete_archived_days": Setting(
        "number",
        "Days after which `plait prune` deletes what it archived and nobody has read for as long; "
        "unset: never.",
        low=1,
        high=MOST_DAYS,
        from_project="never",
    ),
    "maintain_hours": Setting(
        "number",
        "Hours after which `plait watch` and `plait mcp` run `plait maintain`; unset: never.",
        low=1,
        high=8760,
        from_project="never",
    ),
    "response_cache_enabled": Setting(
        "switch",
        "Answer a prompt of `plait chat` and `take_turn` that was asked before from a cache.",
    ),
    "response_cache_ttl_minutes": Setting(
        "number", "Minutes for which an answer is cached.", low=1, high=525_600
    ),
    "response_cache_max_entries": Setting(
        "whole", "How many answers the response cache keeps.", low=1, high=1_000_000
    ),
    "read_only": Setting("switch", "Write nothing: verbs that would change the memory refuse."),
}
# subtle: the short name comes last, so that it wins if both are set.
ENVIRONMENT = {
    "PLAIT_EMBEDDING_CACHE_SIZE": "cache_size",
    **{f"PLAIT_{name.upper()}": name for name in SETTINGS},
    "PLAIT_DB": "db_path",
}
FLAGS = {
    "db_path": "--db",
    "chunk_overlap": "--overlap",
    "patterns": "--pattern",
    "embedding_provider": "--embedder",
    "chat_model": "--model",
}


WEIGHTS = ("keyword_weight", "vector_weight")
# Without any of these, there is nothing to complete, and most searches have none.
INTERDEPENDENT = frozenset({*WEIGHTS, "chunk_size", "chunk_overlap", "backend"})


def complete_settings(values: dict[str, Any], origins: dict[str, str]) -> Settings:
    """Derive settings from others, and check those that depend on each other.

    Both arguments are completed in place. ``values`` must contain ``db_path``.

    Raises:
        ConfigError: The weights add up to 0 or to more than 1, the overlap is too large, or
            PostgreSQL is wanted without an address.
    """
    if values.get("backend", "none") != "none" or "://" in values["db_path"]:
        from plait.settings.databases import settle_backend

        settle_backend(values, origins)
    if any(name in values for name in WEIGHTS):
        _settle_weights(values, origins)
    _settle_overlap(values, origins)
    return Settings(**values)


def _settle_weights(values: dict[str, Any], origins: dict[str, str]) -> None:
    for name, other in (WEIGHTS, WEIGHTS[::-1]):
        if name in values and other not in values:
            # Otherwise the embedder's default for the other weight could push the sum above 1.
            values[other] = round(1.0 - values[name], 9)
            origins[other] = f"1 - {name}"
    problem = weights_problem(*(values[name] for name in WEIGHTS))
    if problem:
        first, second = (origins[name] for name in WEIGHTS)
        text = f"{problem} They are set by {first} and {second}."
        raise ConfigError(text, code="bad_weights", subject=WEIGHTS[0])


def _settle_overlap(values: dict[str, Any], origins: dict[str, str]) -> None:
    either = {**Settings._field_defaults, **values}
    size, overlap = either["chunk_size"], either["chunk_overlap"]
    fitting = fitting_overlap(size, overlap)
    if fitting == overlap:
        return
    if "chunk_overlap" in values:
        raise ConfigError(
            f"chunk_overlap {overlap} ({origins['chunk_overlap']}) must be less than half of "
            f"chunk_size {size} ({origins['chunk_size']}).",
            code="bad_overlap",
            subject="chunk_overlap",
        )
    values["chunk_overlap"] = fitting
    origins["chunk_overlap"] = "a tenth of chunk_size"


def fitting_overlap(size: int, overlap: int) -> int:
    """Return an overlap for passages of a size: this one, or a tenth if it is half or more.

    >>> fitting_overlap(1200, 120), fitting_overlap(200, 120)
    (120, 20)
    """
    return overlap if overlap * 2 < size else size // 10


def closest(word: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name that is most similar to a word, if any is similar."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(names), n=1, cutoff=cutoff)), None)


def suggestion(word: str, names: Iterable[str], cutoff: float = 0.6) -> Advice | None:
    """Return advice that suggests the closest name."""
    name = closest(word, names, cutoff)
    return None if name is None else advise("did_you_mean", name=name)


def did_you_mean(word: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a question that suggests the closest name, or nothing if none is close."""
    name = closest(word, names, cutoff)
    return f" Did you mean {name!r}?" if name else ""
