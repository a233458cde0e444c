"""Text to vectors. Every provider is one module behind one protocol, imported when asked for."""

from array import array
from collections.abc import Sequence

from plait.embedders.none import NoEmbedder
from plait.errors import ConfigError, EmbedderError
from plait.protocols import Embedder, Vector
from plait.types import TextKind

PROVIDERS = ("builtin", "none")
LATER = ("ollama", "openai", "custom", "fastembed")


def open_embedder(spec: str) -> Embedder:
    """The embedder a settings string names, as in ``builtin``.

    Raises:
        ConfigError: There is no such provider.
    """
    provider = spec.partition(":")[0]
    if provider == "none":
        return NoEmbedder()
    if provider == "builtin":
        from plait.embedders.builtin import Builtin

        return Builtin()
    known = f"Choose one of: {', '.join(PROVIDERS)}, hashing."
    if provider in LATER:
        raise ConfigError(f"This version of plait cannot use the embedder '{spec}' yet. {known}")
    raise ConfigError(f"Unknown embedder '{spec}'. {known}")


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
