"""plait: memory that an AI agent can search, by keyword and by meaning, in one SQLite file."""

from typing import TYPE_CHECKING, Any

from plait.errors import (
    AmbiguousId,
    ConfigError,
    EmbedderError,
    NotFound,
    PlaitError,
    SourceError,
    StoreError,
    UsageError,
)
from plait.types import Answer, Document, Filter, Hit, Passage, Receipt

if TYPE_CHECKING:
    from plait.embedders import Embedder
    from plait.memory import Memory

__version__ = "0.1.0"
__all__ = [
    "AmbiguousId",
    "Answer",
    "ConfigError",
    "Document",
    "Embedder",
    "EmbedderError",
    "Filter",
    "Hit",
    "Memory",
    "NotFound",
    "Passage",
    "PlaitError",
    "Receipt",
    "SourceError",
    "StoreError",
    "UsageError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Load `Memory` and `Embedder` when first used: ``plait --version`` needs neither."""
    if name == "Memory":
        from plait.memory import Memory

        return Memory
    if name == "Embedder":
        from plait.embedders import Embedder

        return Embedder
    raise AttributeError(f"module 'plait' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List every public name, including those not loaded yet."""
    return sorted({*globals(), *__all__})
