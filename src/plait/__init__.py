"""plait: memory that an AI agent can search, by keyword and by meaning, in one SQLite file."""

from typing import TYPE_CHECKING, Any

from plait.errors import (
    AmbiguousId,
    ChatError,
    ConfigError,
    DeadlineExceeded,
    EmbedderError,
    NotFound,
    PlaitError,
    SchemaTooNew,
    SourceError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    UsageError,
)
from plait.types import Answer, Document, Filter, Hit, Passage, Receipt

if TYPE_CHECKING:
    from plait.embedders import Embedder
    from plait.memory import Memory
    from plait.types.relations import Relation
    from plait.types.reports import NewEntity

__version__ = "0.1.0"
__all__ = [
    "AmbiguousId",
    "Answer",
    "ChatError",
    "ConfigError",
    "DeadlineExceeded",
    "Document",
    "Embedder",
    "EmbedderError",
    "Filter",
    "Hit",
    "Memory",
    "NewEntity",
    "NotFound",
    "Passage",
    "PlaitError",
    "Receipt",
    "Relation",
    "SchemaTooNew",
    "SourceError",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "UsageError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Load what is large when it is first used: ``plait --version`` needs nothing of it."""
    if name == "Memory":
        from plait.memory import Memory

        return Memory
    if name == "Embedder":
        from plait.embedders import Embedder

        return Embedder
    if name == "NewEntity":
        from plait.types.reports import NewEntity

        return NewEntity
    if name == "Relation":
        from plait.types.relations import Relation

        return Relation
    raise AttributeError(f"module 'plait' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List every public name, including those not loaded yet."""
    return sorted({*globals(), *__all__})
