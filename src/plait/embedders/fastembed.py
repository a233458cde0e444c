"""Models that run on this machine with fastembed and onnxruntime; the extra ``fastembed``.

Embedding never uses the network: a model that is not here is an error. Only `pull` downloads one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from plait.embedders.external import EXTERNAL_TUNING, ExternalEmbedder
from plait.embedders.unit import unit_vectors
from plait.errors import ConfigError, EmbedderError, advise
from plait.protocols import Vector
from plait.types import Space, TextKind
from plait.types.reports import Finding, finding_of

# fastembed's only multilingual model with 384 dims: 220 MB; it reads the first 128 tokens.
FASTEMBED_MODEL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
FASTEMBED_DIMS = 384
# Texts. 128 long ones at once have filled 4 GB of memory in other programs.
BATCH = 16
# Files that fastembed reads besides the model itself.
MODEL_SETTINGS_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
)


class Fastembed(ExternalEmbedder):
    """A model in a folder on this machine."""

    provider = "fastembed"

    def __init__(
        self,
        model: str | None = None,
        *,
        folder: str = "",
        dims: int | None = None,
        known: Space | None = None,
    ) -> None:
        _require()
        super().__init__(model or FASTEMBED_MODEL, dims=dims, known=known)
        self._folder = folder
        if self.model == FASTEMBED_MODEL:
            self.dims = self.dims or FASTEMBED_DIMS
            # It was trained on pairs of sentences, not for search: keywords weigh more.
            self.tuning = EXTERNAL_TUNING._replace(keyword_weight=0.6, vector_weight=0.4)
        self._loaded: Any = None
        self._loading = Lock()

    def _embed_inputs(
        self, inputs: list[str], kind: TextKind, prefix_chars: int
    ) -> list[Vector | None]:
        answers = [row.tolist() for row in self._model().embed(inputs, batch_size=BATCH)]
        if len(answers) != len(inputs):
            raise EmbedderError(
                f"fastembed returned {len(answers)} vectors for {len(inputs)} texts.",
                code="wrong_count",
            )
        # A static model returns zeros for a text without any known word.
        rows = [row for row in answers if any(row)]
        units = iter(unit_vectors(rows, self.dims, f"fastembed's {self.model}"))
        vectors = [next(units) if any(row) else None for row in answers]
        self.dims = next((len(vector) for vector in vectors if vector is not None), self.dims)
        return vectors

    def check(self) -> list[Finding]:
        """Return for ``doctor`` whether the model is here and loads."""
        try:
            self._model()
        except EmbedderError as error:
            return [finding_of(error)]
        return [Finding("embedder", "ok", f"fastembed has {self.model}")]

    def _model(self) -> Any:
        with self._loading:
            if self._loaded is None:
                self._loaded = _load(self.model, self._folder)
            return self._loaded


def pull(model: str | None, folder: str, *, progress: bool = True) -> str:
    """Download a model into a folder, check that it loads, and return its full name.

    Args:
        model: The name of a model that fastembed supports; ``None``: the default.
        folder: Where models are kept; empty: fastembed's own choice.
        progress: Whether to show progress bars on standard error.

    Raises:
        ConfigError: fastembed is not installed, or does not support the model.
        EmbedderError: The download failed.
    """
    _require()
    description = _description(model or FASTEMBED_MODEL)
    name: str = description["model"]
    source = description["sources"]["hf"]
    files = [*MODEL_SETTINGS_FILES, description["model_file"], *description["additional_files"]]
    # Directly from the hub: fastembed's own download tries for 39 silent seconds before it fails.
    hub = _module("huggingface_hub")
    bars = _module("huggingface_hub.utils")
    shown = bars.enable_progress_bars if progress else bars.disable_progress_bars
    shown()
    try:
        hub.snapshot_download(repo_id=source, allow_patterns=files, cache_dir=_cache(folder))
    except Exception as error:
        # Broad on purpose: two HTTP libraries and the hub may raise errors of their own.
        raise EmbedderError(
            f"{name} cannot be downloaded: {_first_line(error)}",
            code="download_failed",
            subject=name,
        ) from error
    _load(name, folder)
    return name


def _require() -> None:
    from importlib.util import find_spec

    if find_spec("fastembed") is None:
        raise ConfigError(
            "The package fastembed is not installed.",
            code="not_installed",
            subject="fastembed",
            advice=advise("install", extra="fastembed"),
        )


def _module(name: str) -> Any:
    """Import a module of an optional package, which type checkers need not have."""
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
            text, code, subject, advice = unknown.notice
            raise EmbedderError(text, code=code, subject=subject, advice=advice) from error
        raise EmbedderError(
            f"The model '{model}' is not on this machine.",
            code="model_missing",
            subject=model,
            advice=advise("pull_model", model=model),
        ) from error
    except Exception as error:
        # Broad on purpose: onnxruntime raises many kinds of errors for a damaged file.
        raise EmbedderError(
            f"The model '{model}' cannot be loaded: {_first_line(error)}.",
            code="model_unreadable",
            subject=model,
            advice=advise("pull_model", model=model),
        ) from error


def _description(model: str) -> dict[str, Any]:
    """Return fastembed's description of a model."""
    known: list[dict[str, Any]] = _module("fastembed").TextEmbedding.list_supported_models()
    for description in known:
        if description["model"].lower() == model.lower():
            return description
    names = ", ".join(sorted(description["model"] for description in known))
    raise ConfigError(
        f"fastembed has no model '{model}'.",
        code="unknown_model",
        subject=model,
        advice=advise("choose", choices=names),
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _cache(folder: str) -> str | None:
    return folder or None


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the warnings that fastembed addresses to programmers."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
