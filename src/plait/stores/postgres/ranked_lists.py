"""The best by words and by meaning, of a few numbers of hits that one question may ask for."""

from collections.abc import Callable, Iterable, Mapping
from operator import le

from plait.protocols import Nearest, Scored, Vector
from plait.stores.postgres import hnsw, vectors
from plait.stores.postgres.connection import SQLStatement
from plait.stores.postgres.filters import Conditions
from plait.types import Space
from plait.types.records import NamedTuple

# How many by words, how many by vector, and of how many by words the cosines.
HowMany = tuple[int, int, int]


class RankedLists(NamedTuple):
    """What both branches have, at most ``limits``; what is nearest, by how many were asked for."""

    limits: HowMany
    scored: list[Scored]
    nearest: Mapping[int, Nearest]

    def best(self, limits: HowMany) -> tuple[list[Scored], Nearest] | None:
        """Return the best, and only the cosines that belong to them; ``None`` if they are not here.

        An index finds the nearest of few among those of many only if it looks at equally many.
        """
        seen = hnsw.neighbours_seen(limits[1])
        near = next(
            (
                near
                for most, near in sorted(self.nearest.items())
                if limits[1] <= most
                and (not near.approximate or hnsw.neighbours_seen(most) == seen)
            ),
            None,
        )
        if near is None or not all(map(le, limits, self.limits)):
            return None
        hits = near.hits[: limits[1]]
        refs = [ref for ref, _ in (*self.scored[: limits[2]], *hits)]
        cosines = {ref: near.cosines[ref] for ref in refs if ref in near.cosines}
        return list(self.scored[: limits[0]]), near._replace(hits=hits, cosines=cosines)


def nearest_of(
    vector: Vector,
    space: Space,
    sizes: Iterable[int],
    index: hnsw.VectorIndex | None,
    ns: int,
    where: Callable[..., Conditions],
) -> tuple[list[int], list[SQLStatement]]:
    """Return for how many of the nearest a search is needed, and the statements of each."""
    if index is None:
        most = max(sizes)
        return [most], [vectors.comparing(vector, space, most, where(searching=True), ())]
    # Of those for which equally many are looked at, the most.
    needed = [*{hnsw.neighbours_seen(size): size for size in sorted(sizes)}.values()]
    statements: list[SQLStatement] = []
    for size in needed:
        chosen = where(searching=True)
        statements += hnsw.comparing(ns, index, vector, space, size, chosen, ())
    return needed, statements
