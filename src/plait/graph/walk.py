"""Walk from one entity to others along relations. Pure: no stores."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from plait.types import check_choice, check_range
from plait.types.relations import Relation

Direction = Literal["both", "out", "in"]
DIRECTIONS: tuple[Direction, ...] = ("both", "out", "in")
MAX_DEPTH = 10


def check_walk(depth: int, direction: str) -> None:
    """Check the arguments of a walk.

    Raises:
        UsageError: The depth is out of range, or the direction is unknown.
    """
    check_range("depth", depth, 1, MAX_DEPTH)
    check_choice("direction", direction, DIRECTIONS)


def reach(
    start: str,
    depth: int,
    direction: Direction,
    edges_of: Callable[[Sequence[str]], Iterable[Relation]],
) -> tuple[list[str], list[Relation]]:
    """Return the ids within ``depth`` edges of one, nearest first, and the edges on the way.

    Args:
        start: The id to start from; it comes first.
        depth: How many edges away at most.
        direction: Along the edges, against them, or both.
        edges_of: Returns the edges that touch any of some ids.
    """
    reached = {start: None}
    edges: dict[Relation, None] = {}
    frontier = set(reached)
    for _ in range(depth):
        steps = _steps(frontier, direction, edges_of(sorted(frontier)))
        edges.update(dict.fromkeys(edge for edge, _ in steps))
        frontier = {end for _, end in steps} - reached.keys()
        reached.update(dict.fromkeys(end for _, end in steps if end in frontier))
    return list(reached), list(edges)


def _steps(
    frontier: set[str], direction: Direction, edges: Iterable[Relation]
) -> list[tuple[Relation, str]]:
    """List the edges that lead away from some entities, each with the entity at its other end."""
    steps = []
    for edge in edges:
        if direction != "in" and edge.source_id in frontier:
            steps.append((edge, edge.target_id))
        if direction != "out" and edge.target_id in frontier:
            steps.append((edge, edge.source_id))
    return steps
