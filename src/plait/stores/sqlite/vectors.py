"""Vectors as int8 rows in blocks, scanned exactly. No extension, no numpy.

Passage ``r`` owns row ``r % BLOCK_ROWS`` of block ``r // BLOCK_ROWS``, so text and vector are
written in one transaction and always agree. Cosine is scale-free: a row is just its int8 bytes,
scaled so that its largest component is 127. A row of zeros means "no vector".
"""

import math
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import apsw

from plait.errors import EmbedderError
from plait.protocols import Scored, Vector
from plait.stores.sqlite import filters
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.state import Generation, answering
from plait.types import Ref, Space

BLOCK_ROWS = 2_048
LAST_BLOCK = (2**63 - 1) // BLOCK_ROWS
INT8_MAX = 127
NO_HIT = 1.0  # this distance is a cosine of 0
# A process that searches more than once keeps this much of the blocks: 250,000 rows of 256 dims.
KEPT_BYTES = 64 * 1024 * 1024
# How many times the wanted number of neighbours is tested before a filter is listed in full.
OVER_FETCH = 4

_PLACES = "SELECT block, rowid FROM vector_blocks WHERE generation = ? ORDER BY block"
_BLOCKS = "SELECT block, data FROM vector_blocks WHERE generation = ? ORDER BY block"
_BLOCK = "SELECT data FROM vector_blocks WHERE generation = ? AND block = ?"
_BLOCK_ROW = "SELECT rowid FROM vector_blocks WHERE generation = ? AND block = ?"
_DISTRUSTED = (
    "SELECT p.rowid FROM documents AS d JOIN passages AS p ON p.document = d.rowid "
    "WHERE d.trust <> 'trusted'"
)
_ADD_BLOCK = "INSERT INTO vector_blocks (generation, block, data) VALUES (?, ?, zeroblob(?))"

# Of a double: the byte with the sign and most of the exponent, and the one after it.
_TOP_BYTE, _LEVEL_BYTE = (7, 6) if sys.byteorder == "little" else (0, 1)
_USUAL_TOP = 0x3F  # of doubles from 2**-15 to 2
_LAST_LEVEL = 0xEF  # of distances below `NO_HIT`
_FARTHEST = 0xFF
MANY_NEAR = 64  # rows of a block, such as copies of one text: all are read then, not one by one
_ALL_LEVELS = bytes(range(256))
_HIDDEN = bytes([_FARTHEST, *[0] * 255])

# Cosine distances from one row to many, as doubles.
Distances = Callable[[bytes, memoryview, int], "memoryview[float]"]
# The distances of all rows from one query, by block.
Scan = dict[int, "memoryview[float]"]


def quantise(vector: Vector, dims: int) -> bytes:
    """Return a vector as int8 bytes.

    >>> quantise(array("f", [0.5, -1.0]), 2) == bytes([64, 0x81])
    True

    Raises:
        EmbedderError: It has the wrong length, is not finite, or is zero.
    """
    if len(vector) != dims:
        raise EmbedderError(f"The embedder returned {len(vector)} dimensions instead of {dims}.")
    largest = max(map(abs, vector))
    if not math.isfinite(sum(vector)) or not math.isfinite(largest):
        raise EmbedderError("The embedder returned a vector that is not finite.")
    if largest == 0.0:
        raise EmbedderError("The embedder returned a zero vector.")
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
        cosines: Any = (matrix @ wanted) / numpy.maximum(norms, 1e-9)
        return cast("memoryview[float]", memoryview((1.0 - cosines).astype(numpy.float64)))

    return distances


def _by_hand() -> Distances:
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


def kernel(
    ladder: Sequence[Callable[[], Distances]] = (_by_simsimd, _by_numpy, _by_hand),
) -> Distances:
    """Return the fastest way to compare one vector with many on this machine."""
    for build in ladder[:-1]:
        try:
            return build()
        except ImportError:
            continue
    return ladder[-1]()


def check_block(block: object, size: int, dims: int) -> None:
    """Check that a block has its place and size.

    Raises:
        apsw.CorruptError: It has not.
    """
    if not isinstance(block, int) or not 0 <= block <= LAST_BLOCK or size != BLOCK_ROWS * dims:
        raise apsw.CorruptError(f"block {block!r} of the vectors cannot be read")


def flagged(refs: Iterable[Ref]) -> dict[int, bytearray]:
    """Return one flag per row of each block."""
    by_block: dict[int, bytearray] = {}
    for ref in refs:
        block, slot = divmod(ref, BLOCK_ROWS)
        flags = by_block.get(block)
        if flags is None:
            flags = by_block[block] = bytearray(BLOCK_ROWS)
        flags[slot] = 1
    return by_block


class Blocks:
    """Reads blocks from the file; the second scan of an unchanged file caches what it read."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self.kept_bytes = kept_bytes
        self._kept: tuple[object, dict[int, bytes] | None] = (None, None)

    def scan(
        self, connection: apsw.Connection, generation: int, dims: int, version: object
    ) -> Iterator[tuple[int, memoryview]]:
        """Yield the blocks in order; asking for the next one may overwrite a view."""
        key = (generation, version)
        seen, kept = self._kept
        if seen == key and kept is not None:
            for block, data in kept.items():
                yield block, memoryview(data)
            return
        places = rows(connection, _PLACES, (generation,))
        size = BLOCK_ROWS * dims
        keeps = seen == key and len(places) * size <= self.kept_bytes
        fresh: dict[int, bytes] = {}
        buffer = bytearray(0 if keeps else size)
        if places:
            with connection.blob_open("main", "vector_blocks", "data", places[0][1], False) as blob:
                for block, place in places:
                    blob.reopen(place)
                    check_block(block, blob.length(), dims)
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
        """Yield the rows of these passages, except in blocks that do not exist."""
        seen, kept = self._kept
        at_hand = kept if kept is not None and seen == (generation, version) else {}
        by_block: dict[int, list[Ref]] = {}
        for ref in sorted(refs):
            by_block.setdefault(ref // BLOCK_ROWS, []).append(ref)
        for block, members in by_block.items():
            # A blob's pages are a linked list: reading its last row costs as much as reading all.
            data = at_hand.get(block) or connection.execute(_BLOCK, (generation, block)).get
            if data is not None:
                check_block(block, len(data) if isinstance(data, bytes) else 0, dims)
            for ref in members if data else ():
                first = ref % BLOCK_ROWS * dims
                yield ref, data[first : first + dims]


def scanned(blocks: Iterable[tuple[int, memoryview]], query: bytes, distances: Distances) -> Scan:
    """Return the distances of all rows, block by block."""
    return {block: distances(query, data, len(query)) for block, data in blocks}


def nearest(scan: Scan, limit: int, flags: Mapping[int, bytearray] | None = None) -> list[Scored]:
    """Return the nearest passages with a positive cosine, best first, exact over all flagged."""
    levels = {
        block: _levels(distances, None if flags is None else flags[block])
        for block, distances in scan.items()
        if flags is None or block in flags
    }
    last = _level_of(b"".join(levels.values()), limit)
    is_near = bytes(level <= last for level in range(256))
    best: list[tuple[float, Ref]] = []
    bar = NO_HIT
    for block, listed in levels.items():
        distances, first = scan[block], block * BLOCK_ROWS
        marks = listed.translate(is_near)
        if marks.count(1) > MANY_NEAR:
            near = zip(distances.tolist(), marks, strict=True)
            best += [(d, first + slot) for slot, (d, mark) in enumerate(near) if mark and d < bar]
        else:
            slot = marks.find(1)
            while slot >= 0:
                best.append((distances[slot], first + slot))
                slot = marks.find(1, slot + 1)
        if len(best) > 2 * limit:
            best.sort()
            del best[limit:]
            bar = best[-1][0]
    best.sort()
    return [(ref, 1.0 - distance) for distance, ref in best[:limit]]


def _level_of(levels: bytes, wanted: int) -> int:
    """Return the least level that so many have or are below; the last one if there are fewer."""
    least, last = 0, _LAST_LEVEL
    while least < last:
        middle = (least + last) // 2
        if len(levels.translate(None, _ALL_LEVELS[middle + 1 :])) >= wanted:
            last = middle
        else:
            least = middle + 1
    return last


def _levels(distances: "memoryview[float]", flags: bytearray | None) -> bytes | bytearray:
    """Return about how large each distance is, as a byte; above `_LAST_LEVEL` it is no hit.

    subtle: the lower half of the exponent and the highest bits of the fraction, which order all
    doubles from 2**-15 to 2. Comparing the doubles one by one would take ten times as long.
    """
    data = distances.tobytes()
    levels: bytes | bytearray = data[_LEVEL_BYTE::8]
    tops = data[_TOP_BYTE::8]
    if tops.count(_USUAL_TOP) != len(tops):
        levels = bytearray(levels)
        for slot, top in enumerate(tops):
            if top != _USUAL_TOP:
                levels[slot] = 0 if distances[slot] < NO_HIT else _FARTHEST
    if flags is None:
        return levels
    hidden = int.from_bytes(flags.translate(_HIDDEN), "little")
    return (int.from_bytes(levels, "little") | hidden).to_bytes(len(levels), "little")


def scanned_cosines(scan: Scan, refs: Iterable[Ref]) -> tuple[dict[Ref, float], list[Ref]]:
    """Return the cosines that a scan computed, and the passages that it did not cover."""
    computed: dict[Ref, float] = {}
    unknown: list[Ref] = []
    for ref in refs:
        block, slot = divmod(ref, BLOCK_ROWS)
        near = scan.get(block)
        distance = NO_HIT if near is None else near[slot]
        # subtle: this may also be the distance to a row of zeros, which is not a vector.
        if distance == NO_HIT:
            unknown.append(ref)
        else:
            computed[ref] = 1.0 - distance
    return computed, unknown


def pick(rows: Iterable[tuple[Ref, bytes]], query: bytes, distances: Distances) -> dict[Ref, float]:
    """Return the cosines of these rows; those without a vector are absent."""
    wanted: list[Ref] = []
    matrix = bytearray()
    for ref, row in rows:
        if any(row):
            wanted.append(ref)
            matrix += row
    if not wanted:
        return {}
    near = distances(query, memoryview(matrix), len(query))
    return {ref: 1.0 - distance for ref, distance in zip(wanted, near, strict=True)}


class NearestVectors:
    """Finds the nearest passages in the current generation."""

    def __init__(self, selections: filters.Selections, *, over_fetch: int = OVER_FETCH) -> None:
        self._selections = selections
        self.over_fetch = over_fetch
        self.blocks = Blocks()
        self.distances: Distances | None = None
        self._latest: tuple[object, Scan] = (None, {})

    def nearest(
        self,
        connection: apsw.Connection,
        vector: Vector,
        space: Space,
        limit: int,
        conditions: list[filters.Clause],
        passages: int,
    ) -> list[Scored]:
        """Return the nearest passages by cosine, exact; none for another space."""
        generation = answering(connection, space)
        if generation is None:
            return []
        query = quantise(vector, generation.dims)
        selection = None
        if conditions:
            selection = self._selections.find(connection, conditions, passages)
            if selection.refs is not None and selection.short:
                cosines = self._pick(connection, generation, query, selection.refs)
                ranked = sorted((-cosine, ref) for ref, cosine in cosines.items() if cosine > 0.0)
                return [(ref, -negative) for negative, ref in ranked[:limit]]
        version = filters.data_version(connection)
        blocks = self.blocks.scan(connection, generation.id, generation.dims, version)
        scan = scanned(blocks, query, self._kernel())
        self._latest = ((generation.id, version, query), scan)
        if selection is None:
            return nearest(scan, limit)
        hits = nearest(scan, limit * self.over_fetch)
        kept = self._first_passing(connection, conditions, hits, limit)
        if kept is not None:
            return kept
        if selection.flags is None:
            refs = selection.refs
            selection.flags = flagged(
                filters.passing(connection, conditions) if refs is None else refs
            )
        return nearest(scan, limit, selection.flags)

    def _first_passing(
        self,
        connection: apsw.Connection,
        conditions: list[filters.Clause],
        hits: list[Scored],
        limit: int,
    ) -> list[Scored] | None:
        """Return the best hits that meet the conditions; ``None`` if these are not enough.

        Testing the best ones is far cheaper than listing everything that passes.
        """
        kept: list[Scored] = []
        step = limit + limit // 2
        for start in range(0, len(hits), step):
            part = hits[start : start + step]
            refs = [ref for ref, _ in part]
            passing = set(filters.passing(connection, conditions, among=refs))
            kept += [pair for pair in part if pair[0] in passing]
            if len(kept) >= limit:
                return kept[:limit]
        return kept if len(hits) < limit * self.over_fetch else None

    def best_cosines(
        self, connection: apsw.Connection, vectors: Sequence[Vector], space: Space
    ) -> list[float]:
        """Return the cosine of the nearest of all trusted passages to each vector, in one scan."""
        generation = answering(connection, space)
        if generation is None:
            return []
        queries = [quantise(vector, generation.dims) for vector in vectors]
        nearest_of_all = [NO_HIT] * len(queries)
        version = filters.data_version(connection)
        distances, dims = self._kernel(), generation.dims
        distrusted: dict[int, list[int]] = {}
        for (ref,) in rows(connection, _DISTRUSTED):
            distrusted.setdefault(ref // BLOCK_ROWS, []).append(ref % BLOCK_ROWS)
        for block, scanned_rows in self.blocks.scan(connection, generation.id, dims, version):
            data = scanned_rows
            if block in distrusted:
                kept = bytearray(data)
                for slot in distrusted[block]:
                    kept[slot * dims : (slot + 1) * dims] = bytes(dims)
                data = memoryview(kept)
            for place, query in enumerate(queries):
                near = min(distances(query, data, dims).tolist())
                nearest_of_all[place] = min(nearest_of_all[place], near)
        return [1.0 - distance for distance in nearest_of_all]

    def cosines(
        self, connection: apsw.Connection, vector: Vector, space: Space, refs: Sequence[Ref]
    ) -> dict[Ref, float]:
        """Return the cosines of these passages; those without a vector are absent."""
        generation = answering(connection, space)
        if generation is None:
            return {}
        query = quantise(vector, generation.dims)
        key, scan = self._latest
        if key != (generation.id, filters.data_version(connection), query):
            return self._pick(connection, generation, query, refs)
        computed, unknown = scanned_cosines(scan, refs)
        return computed | self._pick(connection, generation, query, unknown)

    def _pick(
        self,
        connection: apsw.Connection,
        generation: Generation,
        query: bytes,
        refs: Collection[Ref],
    ) -> dict[Ref, float]:
        if not refs:
            return {}
        version = filters.data_version(connection)
        listed = self.blocks.rows(connection, generation.id, generation.dims, version, refs)
        return pick(listed, query, self._kernel())

    def _kernel(self) -> Distances:
        if self.distances is None:
            self.distances = kernel()
        return self.distances


def write(
    connection: apsw.Connection, generation: int, dims: int, rows: Mapping[Ref, bytes | None]
) -> None:
    """Write rows of the blocks; ``None`` clears one. Call inside a write transaction."""
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
            check_block(block, blob.length(), dims)
            for offset, row in sorted(patches, key=lambda patch: patch[0]):
                blob.seek(offset)
                blob.write(empty if row is None else row)


def occupied(connection: apsw.Connection, generation: int, dims: int) -> Iterable[list[Ref]]:
    """Yield the passages that have a vector, block by block, from the bytes themselves."""
    for block, data in connection.execute(_BLOCKS, (generation,)):
        check_block(block, len(data) if isinstance(data, bytes) else 0, dims)
        yield [
            block * BLOCK_ROWS + slot
            for slot in range(BLOCK_ROWS)
            if data.count(0, slot * dims, (slot + 1) * dims) != dims
        ]
