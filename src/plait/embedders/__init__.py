"""Embedders: text to vectors, one module per provider. The rest of plait sees the protocol only."""

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

from plait.embedders.none import NoEmbedder
from plait.errors import ConfigError, EmbedderError
from plait.protocols import Embedder, Vector
from plait.types import ONE_MODEL, Space, TextKind

PROVIDERS = ("builtin", "none", "fastembed", "ollama", "openai", "custom")
OLLAMA_URL = "http://localhost:11434"


class Options(NamedTuple):
    """What an embedder may need beside its name.

    ``key`` gives the secret for an origin such as ``https://api.openai.com:443``, or ``None``.
    ``folder`` is where models lie. ``known`` is the space of the memory's vectors: where it is
    this embedder's own, the number of dimensions need not be asked for.
    """

    model: str | None = None
    dims: int | None = None
    ollama_url: str = OLLAMA_URL
    key: Callable[[str], str | None] = lambda _: None
    folder: str = ""
    known: Space | None = None


DEFAULTS = Options()


def open_embedder(spec: str, options: Options = DEFAULTS) -> Embedder:
    """The embedder a settings string names: ``builtin``, ``ollama:MODEL``, ``custom:URL#MODEL``.

    Nothing is loaded and nobody is asked before the first text.

    Raises:
        ConfigError: There is no such provider, or what it needs is not installed.
    """
    provider, _, rest = spec.partition(":")
    if provider in ONE_MODEL and rest:
        raise ConfigError(
            f"The embedder '{provider}' has no models to choose from, as in '{spec}'."
        )
    if provider == "none":
        return NoEmbedder()
    if provider == "builtin":
        from plait.embedders.builtin import Builtin

        return Builtin()
    if provider in PROVIDERS:
        return _open_external(provider, rest, options)
    raise ConfigError(f"Unknown embedder '{spec}'. Choose one of: {', '.join(PROVIDERS)}, hashing.")


def _open_external(provider: str, rest: str, options: Options) -> Embedder:
    model, dims, known = rest or options.model, options.dims, options.known
    if provider == "fastembed":
        from plait.embedders.fastembed import Fastembed

        return Fastembed(model, folder=options.folder, dims=dims, known=known)
    if provider == "ollama":
        from plait.embedders.ollama import Ollama

        url = options.ollama_url
        return Ollama(model, url=url, dims=dims, known=known, key=options.key)
    from plait.embedders.openai import Custom, OpenAI

    if provider == "openai":
        return OpenAI(model, dims=dims, known=known, key=options.key)
    return Custom(rest, model=options.model, dims=dims, known=known, key=options.key)


def embed_safely(embedder: Embedder, texts: Sequence[str], kind: TextKind) -> list[Vector | None]:
    """One vector per text, in order, whatever the embedder is made of.

    Raises:
        EmbedderError: It failed in any way, or its answer does not fit the question.
    """
    try:
        found = [_vector(vector) for vector in embedder.embed(texts, kind)]
    except EmbedderError:
        raise
    except Exception as error:
        # Broad on purpose, here alone: this is other people's code, and whatever it does, the text
        # must be stored and found.
        name = type(embedder).__name__
        raise EmbedderError(f"{name} failed: {type(error).__name__}: {error}") from error
    if len(found) != len(texts):
        # Which vector belongs to which text is anybody's guess: take none of them.
        raise EmbedderError(f"the embedder gave {len(found)} vectors for {len(texts)} texts")
    return found


def _vector(numbers: Vector | Sequence[float] | None) -> Vector | None:
    """Lists and foreign arrays count too, as long as they hold numbers."""
    return numbers if numbers is None or isinstance(numbers, array) else array("f", numbers)
