"""What can be set: names, types, defaults, accepted values and the rules between them.

Pure: where the values come from is the business of ``plait.config``.
"""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from plait.errors import ConfigError
from plait.types import FILE_PATTERNS, FUSIONS, MIN_CUT_SIZE, Cut, Fusion

if TYPE_CHECKING:
    from plait.secrets import Secret

Floor = Literal["relevance", "rrf"]
Durability = Literal["full", "normal"]
SignalsCount = Literal["read", "listed"]

# Weights are written in decimals, and 0.1 + 0.9 must not be refused for a rounding error.
WEIGHT_TOLERANCE = 1e-9
IN_MEMORY = ":memory:"
# Likeness (0 to 1) that names outside [memory] need before they count as slips of the pen: another
# program's names may be a little like ours, and every PLAIT_ variable is.
ALMOST_THE_SAME = 0.8
POSTGRES = ("postgres", "postgresql", "pg")
TRUE_WORDS = ("on", "true", "1", "yes")
FALSE_WORDS = ("off", "false", "0", "no")
# Characters of a refused value that a message repeats.
MAX_SHOWN = 80
# Names that other programs use for our settings; wrong here, but we know what was meant.
OTHER_NAMES = {
    "db": "db_path",
    "overlap": "chunk_overlap",
    "provider": "embedding_provider",
    "embedding_model": "model",
    "embedding_dimensions": "dims",
    "embedding_cache_size": "cache_size",
    "embedding_api_key": "api_key",
    "openai_api_key": "api_key",
    "min_relevance_score": "min_score",
}
# Settings that have a second name; in TOML it is a dotted key, or a key of a table.
ALSO_CALLED = {"signals.count": "signals_count"}


class Settings(NamedTuple):
    """Every setting, resolved. ``None`` leaves the choice to the part that knows better."""

    db_path: str
    backend: str = "sqlite"
    memory_dir: str | None = None
    auto_save: bool = False
    embedding_provider: str | None = None
    model: str | None = None
    api_key: "Secret | None" = None
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


class Place(NamedTuple):
    """Settings that were given together: each with its origin, and what may be made of them.

    ``fenced``: a repository brought them along, the user did not write them.
    """

    given: dict[str, tuple[Any, str]]
    is_file: bool = False
    fenced: bool = False


class Setting(NamedTuple):
    """How one setting is read, what it accepts and what it is for."""

    parse: Callable[[object], object]
    expected: str
    description: str
    options: tuple[str, ...] = ()


def _whole(low: int, high: int, description: str) -> Setting:
    def parse(value: object) -> int:
        number = int(value) if isinstance(value, str) else value
        # subtle: True is an int to Python, and not a number to the person who wrote it.
        if type(number) is not int or not low <= number <= high:
            raise ValueError
        return number

    return Setting(parse, f"a whole number from {low} to {high}", description)


def _number(low: float, high: float, description: str) -> Setting:
    def parse(value: object) -> float:
        number = float(value) if isinstance(value, str | int) else value
        # subtle: NaN fails both comparisons, so it is refused here too.
        if isinstance(value, bool) or not isinstance(number, float) or not low <= number <= high:
            raise ValueError
        return number

    return Setting(parse, f"a number from {low:g} to {high:g}", description)


def _choice(options: tuple[str, ...], description: str) -> Setting:
    def parse(value: object) -> str:
        return options[options.index(_word(value))]

    expected = "one of " + ", ".join(options) if len(options) > 1 else options[0]
    return Setting(parse, expected, description, options)


def _switch(description: str) -> Setting:
    def parse(value: object) -> bool:
        word = _word(value)
        if word not in TRUE_WORDS + FALSE_WORDS:
            raise ValueError
        return word in TRUE_WORDS

    return Setting(parse, "on or off", description)


def _word(value: object) -> str:
    return str(value).strip().lower()


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return value.strip()


def _path(value: object) -> str:
    os.fsencode(text := _text(value))
    return text


def _url(value: object) -> str:
    text = _text(value)
    scheme, _, rest = text.partition("://")
    text = f"{scheme.lower()}://{rest}"
    if scheme.lower() not in ("http", "https") or not rest.strip("/") or len(text.split()) > 1:
        raise ValueError
    return text.rstrip("/")


def _ollama_url(value: object) -> str:
    from plait.embedders.ollama import ollama_address

    try:
        return ollama_address(_text(value)).url
    except ConfigError as error:
        raise ValueError from error


def _provider(value: object) -> str:
    kind, _, rest = (text := _text(value)).partition(":")
    if kind != "custom":
        return text
    url, _, model = rest.partition("#")
    return f"custom:{_url(url)}" + (f"#{model.strip()}" if model.strip() else "")


def _key(value: object) -> object:
    from plait.secrets import as_secret

    return as_secret(value)


def _project(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    return "" if _word(value) == "personal" else value.strip()


def _patterns(value: object) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not parts:
        raise ValueError
    return tuple(_text(part) for part in parts)


def _constants(value: object) -> tuple[tuple[str, float], ...]:
    """``name=number`` pairs; a half-life in days is named after its kind."""
    from plait.ranking.limbic import constants_from

    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not parts:
        raise ValueError
    pairs = [_text(part).partition("=") for part in parts]
    found = tuple((name.strip(), float(number)) for name, _, number in pairs)
    constants_from(found)
    return found


SETTINGS: dict[str, Setting] = {
    "db_path": Setting(_path, "a path", "The memory's file; --db and PLAIT_DB for short."),
    "backend": _choice(("sqlite",), "The engine that keeps the memory."),
    "memory_dir": Setting(_path, "a path", "The folder that `plait ingest` takes without a path."),
    "auto_save": _switch(
        "Keep conversations by themselves; off, because nothing is kept that nobody asked to keep."
    ),
    "embedding_provider": Setting(
        _provider,
        "a name such as builtin, ollama:MODEL or custom:URL#MODEL",
        "What turns text into vectors; unset: as the memory was built, builtin for a new one.",
    ),
    "model": Setting(_text, "a name", "The embedder's model; unset: the provider's own choice."),
    "api_key": Setting(
        _key,
        "one line of printable ASCII without spaces",
        "The key for the embedder that the same file names; better: `plait config set-key`.",
    ),
    "ollama_url": Setting(
        _ollama_url,
        "an address such as http://localhost:11434",
        "Where Ollama is; scheme and port may be left out.",
    ),
    "dims": _whole(1, 65_536, "Numbers in a vector; unset: as many as the model gives."),
    "vector_weight": _number(
        0, 1, "Weight of meaning; 0 never runs it; unset: the embedder's own, or the rest of 1."
    ),
    "keyword_weight": _number(
        0, 1, "Weight of keywords; 0 never runs them; unset: the embedder's own, or the rest of 1."
    ),
    "fusion": _choice(FUSIONS, "How keyword and vector hits become one ranking."),
    "floor": _choice(
        ("relevance", "rrf"), "What min_score tests; rrf is the normalised score of fusion = rrf."
    ),
    "chunk_size": _whole(
        MIN_CUT_SIZE, 100_000, "Characters that a passage aims at; it may reach 1.3 times that."
    ),
    "chunk_overlap": _whole(
        0, 49_999, "Characters that a passage repeats of the one before; under half of chunk_size."
    ),
    "cache_size": _whole(0, 10_000_000, "Embeddings kept for texts that come again."),
    "expansion_factor": _whole(1, 100, "Candidates fetched by each branch, times the limit."),
    "rrf_k": _whole(1, 10_000, "Damping of fusion = rrf; a larger one flattens the top ranks."),
    "auto_reindex": _switch("Embed everything again when the embedder changes."),
    "sqlite_open_timeout_secs": _number(
        0, 3600, "Seconds to wait for another process that is writing."
    ),
    "durability": _choice(
        ("full", "normal"), "full survives a power cut; normal may lose the last moments."
    ),
    "project": Setting(
        _project, "a name, a folder or personal", "The project; unset: the git root, or personal."
    ),
    "limit": _whole(1, 1000, "Hits in an answer, at most."),
    "min_score": _number(0, 1, "Relevance below which a hit is left out."),
    "limbic": _switch(
        "Let use and age move a hit up or down a little, by a factor of 0.8 to 1.25."
    ),
    "limbic_constants": Setting(
        _constants,
        "pairs such as age_weight=0.02,half_life_message=30",
        "Numbers behind that factor; unset: those that docs/limbic.md gives.",
    ),
    "signals_count": _choice(
        ("read", "listed"), "What counts as use: a passage that was read, or every hit of a search."
    ),
    "quiet": _switch("No warnings on stderr."),
    "patterns": Setting(_patterns, "patterns such as *.md,*.txt", "Names of files to ingest."),
    "max_file_mb": _number(0.001, 4096, "Megabytes above which a file is skipped."),
}
# subtle: the short name comes last, so that it wins where both are set.
ENVIRONMENT = {f"PLAIT_{name.upper()}": name for name in SETTINGS} | {"PLAIT_DB": "db_path"}
FLAGS = {
    "db_path": "--db",
    "chunk_overlap": "--overlap",
    "patterns": "--pattern",
    "embedding_provider": "--embedder",
}


def describe() -> list[tuple[str, str, str]]:
    """Name, default and description of every setting."""
    defaults = {"db_path": "memory.db in the platform's data folder", **Settings._field_defaults}
    return [(name, shown(defaults[name]), SETTINGS[name].description) for name in SETTINGS]


def shown(value: object) -> str:
    """A setting's value as a person would type it.

    >>> shown(True), shown(None), shown(("*.md", "*.txt"))
    ('on', 'unset', '*.md,*.txt')
    """
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(
            part if isinstance(part, str) else f"{part[0]}={part[1]:g}" for part in value
        )
    return f"{value:g}" if isinstance(value, float) else str(value)


def parse_setting(name: str, raw: object, origin: str) -> Any:
    """The value of one setting, read from text, TOML, JSON or Python.

    Raises:
        ConfigError: The name is unknown or the value is bad; the message names ``origin``.
    """
    if name not in SETTINGS:
        meant = OTHER_NAMES.get(name)
        hint = f" Did you mean {meant!r}?" if meant else did_you_mean(name, SETTINGS)
        where = "" if origin.startswith("flag ") else f" in {origin}"
        raise ConfigError(f"Unknown setting {name!r}{where}.{hint}")
    if name in ("backend", "db_path"):
        refuse_postgres(raw, origin)
    setting = SETTINGS[name]
    try:
        return setting.parse(raw)
    except (ValueError, OverflowError) as error:
        got = "a value that is not shown" if name == "api_key" else _shortened(repr(raw))
        hint = did_you_mean(_word(raw), setting.options)
        message = f"{name} must be {setting.expected}, got {got} ({origin}).{hint}"
        raise ConfigError(message) from error


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def refuse_postgres(raw: object, origin: str) -> None:
    """Answer a request for PostgreSQL with one sentence, until that engine ships."""
    if _word(raw) in POSTGRES or _word(raw).startswith(("postgres://", "postgresql://")):
        raise ConfigError(
            f"PostgreSQL ({origin}) is not supported by this version of plait yet; "
            'leave it out or set backend = "sqlite" in [memory].'
        )


def did_you_mean(word: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """A question that names the closest of ``names``, or nothing where none is close."""
    from difflib import get_close_matches

    close = get_close_matches(word, list(names), n=1, cutoff=cutoff)
    return f" Did you mean {close[0]!r}?" if close else ""


def settle(values: dict[str, Any], origins: dict[str, str]) -> Settings:
    """Fill in what follows from other settings, and check those that depend on each other.

    Both arguments are completed in place. ``values`` must hold ``db_path``.

    Raises:
        ConfigError: The weights add up to more than 1, or the overlap is too large.
    """
    _settle_weights(values, origins)
    _settle_overlap(values, origins)
    return Settings(**values)


def _settle_weights(values: dict[str, Any], origins: dict[str, str]) -> None:
    pair = "keyword_weight", "vector_weight"
    for name, other in (pair, pair[::-1]):
        if name in values and other not in values:
            # Without this the embedder's own second weight could push the sum above 1.
            values[other] = round(1.0 - values[name], 9)
            origins[other] = f"1 - {name}"
    if pair[0] not in values:
        return
    keyword, vector = (values[name] for name in pair)
    both = f"keyword_weight {keyword:g} ({origins[pair[0]]}) and vector_weight {vector:g} "
    both += f"({origins[pair[1]]})"
    if keyword + vector > 1.0 + WEIGHT_TOLERANCE:
        raise ConfigError(f"{both} add up to {keyword + vector:g}; at most 1.0 is allowed.")
    if keyword + vector == 0:
        raise ConfigError(f"{both} leave nothing to search with; raise one of them.")


def _settle_overlap(values: dict[str, Any], origins: dict[str, str]) -> None:
    either = {**Settings._field_defaults, **values}
    size, overlap = either["chunk_size"], either["chunk_overlap"]
    if overlap * 2 < size:
        return
    if "chunk_overlap" in values:
        raise ConfigError(
            f"chunk_overlap {overlap} ({origins['chunk_overlap']}) must be less than half of "
            f"chunk_size {size} ({origins['chunk_size']})."
        )
    values["chunk_overlap"] = size // 10
    origins["chunk_overlap"] = "a tenth of chunk_size"
