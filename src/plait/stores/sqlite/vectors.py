"""Vectors as int8 rows in blocks, scanned exactly. No extension, no numpy.

Passage ``r`` owns row ``r % BLOCK_ROWS`` of block ``r // BLOCK_ROWS``, so text and vector are
patched in one transaction and nothing can drift. Cosine is scale-free: a row is just its int8
bytes, scaled so that its largest component is 127. A row of zeros means "no vector".
"""

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import apsw

from plait.errors import EmbedderError
from plait.protocols import Scored, Vector
from plait.types import Ref

BLOCK_ROWS = 2_048
INT8_MAX = 127

_BLOCKS = "SELECT block, data FROM vector_blocks WHERE generation = ? ORDER BY block"
_BLOCK = "SELECT data FROM vector_blocks WHERE generation = ? AND block = ?"
_BLOCK_ROW = "SELECT rowid FROM vector_blocks WHERE generation = ? AND block = ?"
_ADD_BLOCK = "INSERT INTO vector_blocks (generation, block, data) VALUES (?, ?, zeroblob(?))"

Distances = Callable[[bytes, memoryview, int], list[float]]


def quantise(vector: Vector, dims: int) -> bytes:
    """The vector as int8 bytes.

    >>> quantise(array("f", [0.5, -1.0]), 2) == bytes([64, 0x81])
    True

    Raises:
        EmbedderError: It has the wrong length, is not finite, or is zero.
    """
    if len(vector) != dims:
        raise EmbedderError(f"The embedder gave {len(vector)} dimensions where {dims} were due.")
    largest = max(map(abs, vector))
    if not math.isfinite(sum(vector)) or not math.isfinite(largest):
        raise EmbedderError("The embedder gave a vector that is not finite.")
    if largest == 0.0:
        raise EmbedderError("The embedder gave a zero vector.")
    scale = INT8_MAX / largest
    return array("b", [round(value * scale) for value in vector]).tobytes()


def _by_simsimd() -> Distances:
    import simsimd

    def distances(query: bytes, rows: memoryview, dims: int) -> list[float]:
        matrix = rows.cast("b", shape=[len(rows) // dims, dims])
        tensor: Any = simsimd.cosine(memoryview(query).cast("b"), matrix)
        # The values are doubles; memoryview's type only knows of integers.
        return cast(list[float], memoryview(tensor).tolist())

    return distances


def _by_numpy() -> Distances:
    import numpy  # type: ignore[import-not-found, unused-ignore]

    def distances(query: bytes, rows: memoryview, dims: int) -> list[float]:
        matrix = numpy.frombuffer(rows, dtype=numpy.int8).reshape(-1, dims).astype(numpy.float32)
        wanted = numpy.frombuffer(query, dtype=numpy.int8).astype(numpy.float32)
        norms = numpy.sqrt((matrix * matrix).sum(axis=1)) * numpy.sqrt((wanted * wanted).sum())
        found: list[float] = (1.0 - (matrix @ wanted) / numpy.maximum(norms, 1e-9)).tolist()
        return found

    return distances


def _by_hand() -> Distances:
    def distances(query: bytes, rows: memoryview, dims: int) -> list[float]:
        wanted = array("b", query)
        length = math.sqrt(sum(value * value for value in wanted))
        found = []
        for start in range(0, len(rows), dims):
            row = rows[start : start + dims].cast("b")
            norm = math.sqrt(sum(value * value for value in row)) * length
            dot = sum(map(int.__mul__, wanted, row))
            found.append(1.0 - dot / norm if norm else 1.0)
        return found

    return distances


def kernel(
    ladder: Sequence[Callable[[], Distances]] = (_by_simsimd, _by_numpy, _by_hand),
) -> Distances:
    """The fastest way to compare one vector with many that this machine has."""
    for build in ladder[:-1]:
        try:
            return build()
        except ImportError:
            continue
    return ladder[-1]()


class Selection:
    """The passages a filter lets through: a short list, or a flag per row of each block."""

    __slots__ = ("flags", "refs")

    def __init__(self, refs: Collection[Ref], *, short: bool) -> None:
        self.refs: Collection[Ref] | None = refs if short else None
        self.flags: dict[int, bytearray] = {}
        if not short:
            for ref in refs:
                block, slot = divmod(ref, BLOCK_ROWS)
                flags = self.flags.get(block)
                if flags is None:
                    flags = self.flags[block] = bytearray(BLOCK_ROWS)
                flags[slot] = 1


def nearest(
    connection: apsw.Connection,
    generation: int,
    query: bytes,
    limit: int,
    selection: Selection | None,
    distances: Distances,
) -> list[Scored]:
    """The closest passages with a positive cosine, best first, exact over all that are selected."""
    dims = len(query)
    if selection is not None and selection.refs is not None:
        cosines = pick(connection, generation, query, selection.refs, distances)
        ranked = sorted((-cosine, ref) for ref, cosine in cosines.items() if cosine > 0.0)
        return [(ref, -negative) for negative, ref in ranked[:limit]]
    best: list[tuple[float, Ref]] = []
    bar = 1.0  # a distance of 1 is a cosine of 0: no hit
    for block, data in connection.execute(_BLOCKS, (generation,)):
        first = block * BLOCK_ROWS
        near = distances(query, memoryview(data), dims)
        if selection is None:
            found = [(d, first + slot) for slot, d in enumerate(near) if d < bar]
        else:
            flags = selection.flags.get(block)
            if flags is None:
                continue
            found = [(d, first + slot) for slot, d in enumerate(near) if d < bar and flags[slot]]
        if found:
            best += found
            if len(best) > limit:
                best.sort()
                del best[limit:]
                bar = best[-1][0]
    best.sort()
    return [(ref, 1.0 - distance) for distance, ref in best]


def pick(
    connection: apsw.Connection,
    generation: int,
    query: bytes,
    refs: Iterable[Ref],
    distances: Distances,
) -> dict[Ref, float]:
    """Cosines of these passages only; those without a vector are absent."""
    dims = len(query)
    by_block: dict[int, list[Ref]] = {}
    for ref in refs:
        by_block.setdefault(ref // BLOCK_ROWS, []).append(ref)
    wanted: list[Ref] = []
    rows = bytearray()
    for block, members in by_block.items():
        place = connection.execute(_BLOCK_ROW, (generation, block)).get
        if place is None:
            continue
        with connection.blob_open("main", "vector_blocks", "data", place, False) as blob:
            for ref in members:
                blob.seek(ref % BLOCK_ROWS * dims)
                row = blob.read(dims)
                if any(row):
                    wanted.append(ref)
                    rows += row
    if not wanted:
        return {}
    near = distances(query, memoryview(rows), dims)
    return {ref: 1.0 - distance for ref, distance in zip(wanted, near, strict=True)}


def write(
    connection: apsw.Connection, generation: int, dims: int, rows: Mapping[Ref, bytes | None]
) -> None:
    """Patch rows of the blocks; ``None`` clears one. Call inside a write transaction."""
    by_block: dict[int, list[tuple[int, bytes | None]]] = {}
    for ref, row in rows.items():
        by_block.setdefault(ref // BLOCK_ROWS, []).append((ref % BLOCK_ROWS * dims, row))
    empty = bytes(dims)
    for block, patches in by_block.items():
        place = connection.execute(_BLOCK_ROW, (generation, block)).get
        if place is None:
            if all(row is None for _, row in patches):
                continue
            connection.execute(_ADD_BLOCK, (generation, block, BLOCK_ROWS * dims))
            place = connection.last_insert_rowid()
        with connection.blob_open("main", "vector_blocks", "data", place, True) as blob:
            for offset, row in sorted(patches, key=lambda patch: patch[0]):
                blob.seek(offset)
                blob.write(empty if row is None else row)


def occupied(connection: apsw.Connection, generation: int, dims: int) -> Iterable[list[Ref]]:
    """The passages that have a vector, block by block, read from the bytes themselves."""
    for block, data in connection.execute(_BLOCKS, (generation,)):
        yield [
            block * BLOCK_ROWS + slot
            for slot in range(BLOCK_ROWS)
            if data.count(0, slot * dims, (slot + 1) * dims) != dims
        ]
