"""Text to vectors. Every provider is one module behind one protocol, imported when asked for."""

from plait.embedders.none import NoEmbedder
from plait.errors import ConfigError
from plait.protocols import Embedder

PROVIDERS = ("builtin", "none")


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
    raise ConfigError(
        f"Unknown embedding_provider '{spec}'. Choose one of: {', '.join(PROVIDERS)}, hashing."
    )
