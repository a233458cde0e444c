"""Models that run on this machine through fastembed and onnxruntime; the extra ``fastembed``.

Embedding never touches the network: a model that is not here is an error at once, and only `pull`
fetches one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from plait.embedders.prefixes import prefixes_of
from plait.embedders.served import TUNING
from plait.embedders.unit import unit_vectors
from plait.errors import ConfigError, EmbedderError
from plait.protocols import Vector
from plait.types import Finding, Space, TextKind

# fastembed's only multilingual model with 384 dims: 220 MB, it reads the first 128 tokens.
DEFAULT_MODEL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
DEFAULT_DIMS = 384
INSTALL = "pip install 'plait[fastembed]'"
# Texts. 128 long ones at once have filled 4 GB of memory in other people's programs.
BATCH = 16
# What fastembed reads beside a model's own files.
SETTINGS_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
)


class Fastembed:
    """A model in a folder of this machine."""

    def __init__(
        self,
        model: str | None = None,
        *,
        folder: str = "",
        dims: int | None = None,
        known: Space | None = None,
    ) -> None:
        _require()
        self.model = model or DEFAULT_MODEL
        self._folder = folder
        self._prefixes = prefixes_of(self.model)
        is_default = self.model == DEFAULT_MODEL
        self._asked_dims = dims
        self.dims = dims or self._dims_of(known) or (DEFAULT_DIMS if is_default else None)
        # The default was made for sentences, not for search: the words stay in front.
        words = 0.6 if is_default else TUNING.keyword_weight
        self.tuning = TUNING._replace(keyword_weight=words, vector_weight=1.0 - words)
        self._loaded: Any = None
        self._loading = Lock()

    @property
    def space(self) -> Space:
        """Identity of the vectors; its ``dims`` are 0 until the model has told them."""
        return self._space(self.dims or 0)

    def forget_dims(self) -> None:
        """Take vectors of any length again, unless one was asked for: the model may be another."""
        self.dims = self._asked_dims

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        """One unit vector per text, in order; a text that means nothing to the model has none.

        Raises:
            EmbedderError: The model is not here, or cannot be used.
        """
        wanted = [number for number, text in enumerate(texts) if text.strip()]
        found: list[Vector | None] = [None] * len(texts)
        if not wanted:
            return found
        prefix = self._prefixes.before(kind)
        # The tokenizer is written in Rust, where half characters do not exist.
        full = [prefix + texts[number].encode("utf-8", "replace").decode() for number in wanted]
        answers = [row.tolist() for row in self._model().embed(full, batch_size=BATCH)]
        if len(answers) != len(full):
            raise EmbedderError(f"fastembed gave {len(answers)} vectors for {len(full)} texts.")
        # A static model that knows none of the words says so with zeros, today and always.
        spoken = [number for number, row in zip(wanted, answers, strict=True) if any(row)]
        rows = [row for row in answers if any(row)]
        vectors = unit_vectors(rows, self.dims, f"fastembed's {self.model}")
        for number, vector in zip(spoken, vectors, strict=True):
            found[number] = vector
            self.dims = len(vector)
        return found

    def check(self) -> list[Finding]:
        """Whether the model is here and can be loaded; for ``doctor``."""
        try:
            self._model()
        except EmbedderError as error:
            return [Finding("embedder", "error", str(error))]
        return [Finding("embedder", "ok", f"fastembed has {self.model}")]

    def _space(self, dims: int) -> Space:
        return Space("fastembed", self.model, dims, prefix=self._prefixes.identity)

    def _dims_of(self, known: Space | None) -> int | None:
        return known.dims if known is not None and known == self._space(known.dims) else None

    def _model(self) -> Any:
        with self._loading:
            if self._loaded is None:
                self._loaded = _load(self.model, self._folder)
            return self._loaded


def pull(model: str | None, folder: str, *, progress: bool = True) -> str:
    """Download a model into a folder and make sure that it loads; its full name.

    Args:
        model: One that fastembed knows; ``None``: the default.
        folder: Where models lie; empty: fastembed's own choice.
        progress: Whether to show bars on standard error.

    Raises:
        ConfigError: fastembed is not installed, or knows no such model.
        EmbedderError: The download failed.
    """
    _require()
    description = _description(model or DEFAULT_MODEL)
    name: str = description["model"]
    source = description["sources"]["hf"]
    files = [*SETTINGS_FILES, description["model_file"], *description["additional_files"]]
    # Straight from the hub: fastembed's own way tries for 39 silent seconds before it gives up.
    hub = _module("huggingface_hub")
    bars = _module("huggingface_hub.utils")
    shown = bars.enable_progress_bars if progress else bars.disable_progress_bars
    shown()
    try:
        hub.snapshot_download(repo_id=source, allow_patterns=files, cache_dir=_cache(folder))
    except Exception as error:
        # Broad on purpose: two HTTP libraries and the hub's own errors may come out of there.
        raise EmbedderError(f"{name} cannot be downloaded: {_first_line(error)}") from error
    _load(name, folder)
    return name


def _require() -> None:
    from importlib.util import find_spec

    if find_spec("fastembed") is None:
        raise ConfigError(f"The embedder fastembed is not installed. Run: {INSTALL}")


def _module(name: str) -> Any:
    """A module of an optional package, which type checkers need not have."""
    from importlib import import_module

    with _quiet():
        return import_module(name)


def _load(model: str, folder: str) -> Any:
    fastembed = _module("fastembed")
    _module("loguru").logger.disable("fastembed")
    try:
        with _quiet():
            return fastembed.TextEmbedding(model, cache_dir=_cache(folder), local_files_only=True)
    except ValueError as error:
        try:
            _description(model)
        except ConfigError as unknown:
            raise EmbedderError(str(unknown)) from error
        raise EmbedderError(
            f"The model '{model}' is not on this machine. Run: plait models pull {model}"
        ) from error
    except Exception as error:
        # Broad on purpose: a damaged file shows as whatever onnxruntime makes of it.
        raise EmbedderError(
            f"The model '{model}' cannot be loaded: {_first_line(error)}. "
            f"Run: plait models pull {model}"
        ) from error


def _description(model: str) -> dict[str, Any]:
    """What fastembed knows about a model."""
    known: list[dict[str, Any]] = _module("fastembed").TextEmbedding.list_supported_models()
    for description in known:
        if description["model"].lower() == model.lower():
            return description
    names = ", ".join(sorted(description["model"] for description in known))
    raise ConfigError(f"fastembed has no model '{model}'. Choose one of: {names}")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _cache(folder: str) -> str | None:
    return folder or None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the advice that fastembed gives to programmers."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
