"""Compare one vector with many where simsimd is not there: by numpy, or else by hand."""

import math
from array import array
from typing import Any, cast

from plait.stores.sqlite.vectors import Distances


def without_simsimd() -> Distances:
    """Return the faster of the two ways."""
    try:
        return by_numpy()
    except ImportError:
        return by_hand()


def by_numpy() -> Distances:
    """Return numpy's way.

    Raises:
        ImportError: It is not installed.
    """
    import numpy  # type: ignore[import-not-found, unused-ignore]

    def distances(query: bytes, rows: memoryview, dims: int) -> "memoryview[float]":
        matrix = numpy.frombuffer(rows, dtype=numpy.int8).reshape(-1, dims).astype(numpy.float32)
        wanted = numpy.frombuffer(query, dtype=numpy.int8).astype(numpy.float32)
        norms = numpy.sqrt((matrix * matrix).sum(axis=1)) * numpy.sqrt((wanted * wanted).sum())
        cosines: Any = (matrix @ wanted) / numpy.maximum(norms, 1e-9)
        return cast("memoryview[float]", memoryview((1.0 - cosines).astype(numpy.float64)))

    return distances


def by_hand() -> Distances:
    """Return the way of plain Python, which is slow."""

    def distances(query: bytes, rows: memoryview, dims: int) -> "memoryview[float]":
        wanted = array("b", query)
        length = math.sqrt(sum(value * value for value in wanted))
        computed = array("d")
        for start in range(0, len(rows), dims):
            row = rows[start : start + dims].cast("b")
            norm = math.sqrt(sum(value * value for value in row)) * length
            dot = sum(map(int.__mul__, wanted, row))
            computed.append(1.0 - dot / norm if norm else 1.0)
        return cast("memoryview[float]", memoryview(computed))

    return distances
