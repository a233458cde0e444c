"""The graph of a memory that is off: it takes everything, keeps nothing, and has nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from plait.embedders.none import NoEmbedder
from plait.graph import Graph
from plait.graph.values import Added, Created, Erased, Forgotten
from plait.stores import open_store
from plait.text.normal_form import composed
from plait.times import Moment
from plait.types.relations import Relation
from plait.types.reports import Deleted, NewEntity


def silent_graph(project: str | None) -> SilentGraph:
    """Return a graph without entities, in which nothing can be written."""
    return SilentGraph(open_store(":memory:"), NoEmbedder(), project=project, max_bytes=0)


class SilentGraph(Graph):
    """A graph over an empty store, whose writes return the empty form of their results."""

    def create(self, entities: Iterable[NewEntity], **_: Any) -> Created:
        """Create nothing."""
        return Created()

    def observe(self, additions: Iterable[tuple[str, Sequence[str]]], **_: Any) -> list[Added]:
        """Add nothing; each entity has its empty result."""
        return [Added(composed(name)) for name, _ in additions]

    def forget(self, deletions: Iterable[tuple[str, Sequence[str]]]) -> Forgotten:
        """Delete nothing."""
        return Forgotten(0)

    def relate(self, relations: Iterable[Relation], **_: Any) -> list[Relation]:
        """Relate nothing."""
        return []

    def unrelate(self, relations: Iterable[Relation], *, end: Moment | None = None) -> int:
        """Remove nothing."""
        return 0

    def delete(self, names: Sequence[str], *, purge: bool = False) -> Erased:
        """Delete nothing."""
        return Erased((), (), Deleted(purged=purge))
