"""plait: memory that an AI agent can search, by keyword and by meaning, in one SQLite file."""

from typing import TYPE_CHECKING, Any

from plait.errors import PlaitError
from plait.types import Answer, Document, Filter, Hit, Passage, Receipt

if TYPE_CHECKING:
    from plait.memory import Memory

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Document",
    "Filter",
    "Hit",
    "Memory",
    "Passage",
    "PlaitError",
    "Receipt",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Load `Memory` when it is first asked for: ``plait --version`` needs no database."""
    if name == "Memory":
        from plait.memory import Memory

        return Memory
    raise AttributeError(f"module 'plait' has no attribute {name!r}")
