"""Vectors as int8 rows in blocks, scanned exactly. No extension, no numpy.

Passage ``r`` owns row ``r % BLOCK_ROWS`` of block ``r // BLOCK_ROWS``, so text and vector are
patched in one transaction and nothing can drift. Cosine is scale-free: a row is just its int8
bytes, scaled so that its largest component is 127. A row of zeros means "no vector".
"""

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import apsw

from plait.errors import EmbedderError
from plait.protocols import Scored, Vector
from plait.stores.sqlite.rows import rows
from plait.types import Ref

BLOCK_ROWS = 2_048
INT8_MAX = 127
NO_HIT = 1.0  # this distance is a cosine of 0
# A process that searches more than once keeps this much of the blocks: 250,000 rows of 256 dims.
KEPT_BYTES = 64 * 1024 * 1024

_PLACES = "SELECT block, rowid FROM vector_blocks WHERE generation = ? ORDER BY block"
_BLOCKS = "SELECT block, data FROM vector_blocks WHERE generation = ? ORDER BY block"
_BLOCK = "SELECT data FROM vector_blocks WHERE generation = ? AND block = ?"
_BLOCK_ROW = "SELECT rowid FROM vector_blocks WHERE generation = ? AND block = ?"
_ADD_BLOCK = "INSERT INTO vector_blocks (generation, block, data) VALUES (?, ?, zeroblob(?))"

# Cosine distances from one row to many.
Distances = Callable[[bytes, memoryview, int], "memoryview[float]"]
# The distances of every row, by block: what one query computed once and may ask again.
Scan = dict[int, "memoryview[float]"]


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

    def distances(query: bytes, rows: memoryview, dims: int) -> "memoryview[float]":
        matrix = rows.cast("b", shape=[len(rows) // dims, dims])
        tensor: Any = simsimd.cosine(memoryview(query).cast("b"), matrix)
        # The values are doubles; memoryview's type only knows of integers.
        return cast("memoryview[float]", memoryview(tensor))

    return distances


def _by_numpy() -> Distances:
    import numpy  # type: ignore[import-not-found, unused-ignore]

    def distances(query: bytes, rows: memoryview, dims: int) -> "memoryview[float]":
        matrix = numpy.frombuffer(rows, dtype=numpy.int8).reshape(-1, dims).astype(numpy.float32)
        wanted = numpy.frombuffer(query, dtype=numpy.int8).astype(numpy.float32)
        norms = numpy.sqrt((matrix * matrix).sum(axis=1)) * numpy.sqrt((wanted * wanted).sum())
        found: Any = 1.0 - (matrix @ wanted) / numpy.maximum(norms, 1e-9)
        return cast("memoryview[float]", memoryview(found))

    return distances


def _by_hand() -> Distances:
    def distances(query: bytes, rows: memoryview, dims: int) -> "memoryview[float]":
        wanted = array("b", query)
        length = math.sqrt(sum(value * value for value in wanted))
        found = array("d")
        for start in range(0, len(rows), dims):
            row = rows[start : start + dims].cast("b")
            norm = math.sqrt(sum(value * value for value in row)) * length
            dot = sum(map(int.__mul__, wanted, row))
            found.append(1.0 - dot / norm if norm else 1.0)
        return cast("memoryview[float]", memoryview(found))

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
    """The passages a filter lets through: a list, or flags, made when they are needed.

    ``short``: fetching the rows of the list is cheaper than scanning the blocks.
    """

    __slots__ = ("flags", "refs", "short")

    def __init__(self, refs: Collection[Ref] | None, short: bool) -> None:
        self.refs = refs
        self.short = short
        self.flags: dict[int, bytearray] | None = None


def flagged(refs: Iterable[Ref]) -> dict[int, bytearray]:
    """One flag per row of each block."""
    by_block: dict[int, bytearray] = {}
    for ref in refs:
        block, slot = divmod(ref, BLOCK_ROWS)
        flags = by_block.get(block)
        if flags is None:
            flags = by_block[block] = bytearray(BLOCK_ROWS)
        flags[slot] = 1
    return by_block


class Blocks:
    """Reads blocks out of the file; the second scan of an unchanged file keeps what it read."""

    def __init__(self) -> None:
        self._kept: tuple[object, dict[int, bytes] | None] = (None, None)

    def scan(
        self, connection: apsw.Connection, generation: int, dims: int, version: object
    ) -> Iterator[tuple[int, memoryview]]:
        """Every block in order; a view may be overwritten when the next one is asked for."""
        key = (generation, version)
        seen, kept = self._kept
        if seen == key and kept is not None:
            for block, data in kept.items():
                yield block, memoryview(data)
            return
        places = rows(connection, _PLACES, (generation,))
        size = BLOCK_ROWS * dims
        keeps = seen == key and len(places) * size <= KEPT_BYTES
        fresh: dict[int, bytes] = {}
        buffer = bytearray(0 if keeps else size)
        if places:
            with connection.blob_open("main", "vector_blocks", "data", places[0][1], False) as blob:
                for block, place in places:
                    blob.reopen(place)
                    if keeps:
                        fresh[block] = blob.read()
                    else:
                        blob.read_into(buffer)
                    yield block, memoryview(fresh[block] if keeps else buffer)
        self._kept = (key, fresh if keeps else None)

    def rows(
        self,
        connection: apsw.Connection,
        generation: int,
        dims: int,
        version: object,
        refs: Iterable[Ref],
    ) -> Iterator[tuple[Ref, bytes]]:
        """The rows of these passages; those in blocks that do not exist are left out."""
        seen, kept = self._kept
        at_hand = kept if kept is not None and seen == (generation, version) else {}
        by_block: dict[int, list[Ref]] = {}
        for ref in sorted(refs):
            by_block.setdefault(ref // BLOCK_ROWS, []).append(ref)
        for block, members in by_block.items():
            # Pages of a blob are a chain, so reading its last row costs as much as reading all.
            data = at_hand.get(block) or connection.execute(_BLOCK, (generation, block)).get
            for ref in members if data else ():
                first = ref % BLOCK_ROWS * dims
                yield ref, data[first : first + dims]


def scanned(blocks: Iterable[tuple[int, memoryview]], query: bytes, distances: Distances) -> Scan:
    """The distances of all rows, block by block."""
    return {block: distances(query, data, len(query)) for block, data in blocks}


def nearest(scan: Scan, limit: int, flags: Mapping[int, bytearray] | None = None) -> list[Scored]:
    """The closest passages with a positive cosine, best first, exact over all that are flagged."""
    best: list[tuple[float, Ref]] = []
    bar = NO_HIT
    for visited, (block, distances) in enumerate(scan.items()):
        near = cast(list[float], distances.tolist())
        if flags is not None:
            chosen = flags.get(block)
            if chosen is None:
                continue
            near = [d if yes else NO_HIT for d, yes in zip(near, chosen, strict=True)]
        if len(best) < limit <= len(near):
            # Otherwise half of the first block would pass, and be sorted, before there is a bar.
            bar = min(bar, math.nextafter(sorted(near)[limit - 1], 2.0))
        elif visited > limit and min(near) >= bar:
            # By now most blocks hold nothing new, and ``min`` sees that in half the time.
            continue
        first = block * BLOCK_ROWS
        best += [(d, first + slot) for slot, d in enumerate(near) if d < bar]
        if len(best) > limit:
            best.sort()
            del best[limit:]
            bar = best[-1][0]
    best.sort()
    return [(ref, 1.0 - distance) for distance, ref in best[:limit]]


def known(scan: Scan, refs: Iterable[Ref]) -> tuple[dict[Ref, float], list[Ref]]:
    """The cosines a scan has of these passages, and the passages it knows nothing of."""
    found: dict[Ref, float] = {}
    unknown: list[Ref] = []
    for ref in refs:
        block, slot = divmod(ref, BLOCK_ROWS)
        near = scan.get(block)
        distance = NO_HIT if near is None else near[slot]
        # subtle: this may also be the distance to a row of zeros, which is no vector.
        if distance == NO_HIT:
            unknown.append(ref)
        else:
            found[ref] = 1.0 - distance
    return found, unknown


def pick(rows: Iterable[tuple[Ref, bytes]], query: bytes, distances: Distances) -> dict[Ref, float]:
    """Cosines of these rows; those without a vector are absent."""
    wanted: list[Ref] = []
    found = bytearray()
    for ref, row in rows:
        if any(row):
            wanted.append(ref)
            found += row
    if not wanted:
        return {}
    near = distances(query, memoryview(found), len(query))
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
