"""Test doubles: an embedder that needs no model and a store that needs no file.

Nothing that a user's memory depends on belongs here.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait.testing.hashing import HashingEmbedder, cosine
    from plait.testing.store import InMemoryStore

__all__ = ["HashingEmbedder", "InMemoryStore", "cosine"]


def __getattr__(name: str) -> Any:
    """Load a test double on first use: the embedder does not need the store."""
    if name == "InMemoryStore":
        from plait.testing.store import InMemoryStore

        return InMemoryStore
    if name in __all__:
        from plait.testing import hashing

        return getattr(hashing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
