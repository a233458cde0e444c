"""Walking from one entity to others over the edges between them. Knows nothing of stores."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from plait import checks
from plait.types import Relation

Direction = Literal["both", "out", "in"]
DIRECTIONS: tuple[Direction, ...] = ("both", "out", "in")
MAX_DEPTH = 10


def check(depth: int, direction: str) -> None:
    """Refuse a walk that there is none of.

    Raises:
        UsageError: A depth or direction that there is none of.
    """
    checks.count("depth", depth, 1, MAX_DEPTH)
    checks.one_of("direction", direction, DIRECTIONS)


def reach(
    start: str,
    depth: int,
    direction: Direction,
    edges_of: Callable[[Sequence[str]], Iterable[Relation]],
) -> tuple[list[str], list[Relation]]:
    """The ids within ``depth`` edges of one, nearest first, and the edges that led there.

    Args:
        start: The id to start from; it comes first.
        depth: How many edges away at most.
        direction: Along edges, against them, or both.
        edges_of: The edges that touch any of some ids.
    """
    reached = {start: None}
    edges: dict[Relation, None] = {}
    frontier = set(reached)
    for _ in range(depth):
        step = _step(frontier, direction, edges_of(sorted(frontier)))
        edges.update(dict.fromkeys(edge for edge, _ in step))
        frontier = {there for _, there in step} - reached.keys()
        reached.update(dict.fromkeys(there for _, there in step if there in frontier))
    return list(reached), list(edges)


def _step(
    frontier: set[str], direction: Direction, edges: Iterable[Relation]
) -> list[tuple[Relation, str]]:
    """Edges that lead away from some entities, each with the entity that it leads to."""
    found = []
    for edge in edges:
        if direction != "in" and edge.source_id in frontier:
            found.append((edge, edge.target_id))
        if direction != "out" and edge.target_id in frontier:
            found.append((edge, edge.source_id))
    return found
