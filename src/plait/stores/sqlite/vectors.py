"""Vectors as int8 rows in blocks, scanned exactly or by their signs. No extension, no numpy.

Passage ``r`` owns row ``r % BLOCK_ROWS`` of block ``r // BLOCK_ROWS``, so text and vector are
written in one transaction and always agree. Cosine is scale-free: a row is just its int8 bytes,
scaled so that its largest component is 127. A row of zeros means "no vector".
"""

import math
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import apsw

from plait.errors import EmbedderError
from plait.protocols import Nearest, Scored, Vector
from plait.stores.sqlite import filters
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.state import Generation, answering, data_version, may_remember
from plait.types import Ref, Space

if TYPE_CHECKING:
    from plait.stores.sqlite.signs import SignedBlocks

BLOCK_ROWS = 2_048
LAST_BLOCK = (2**63 - 1) // BLOCK_ROWS
INT8_MAX = 127
NO_HIT = 1.0  # this distance is a cosine of 0
# A process that may search again keeps this much of the blocks: 250,000 rows of 256 dims.
KEPT_BYTES = 64 * 1024 * 1024
OVER_FETCH = 4  # times the wanted neighbours are tested before a filter is listed in full

_PLACES = (
    "SELECT b.block, b.rowid, CAST(v.version AS BLOB), s.rowid FROM vector_blocks AS b "
    "LEFT JOIN block_versions AS v ON v.generation = b.generation AND v.block = b.block "
    "LEFT JOIN vector_signs AS s ON s.generation = b.generation AND s.block = b.block "
    "WHERE b.generation = ? ORDER BY b.block"
)

# Added to a small double, this leaves its whole part, rounded half to even, in the lowest byte.
ROUNDING = 1.5 * 2**52
_LOW_BYTE = 0 if sys.byteorder == "little" else 7
# Of a double: the byte with the sign and most of the exponent, and the one after it.
_TOP_BYTE, _LEVEL_BYTE = (7, 6) if sys.byteorder == "little" else (0, 1)
_USUAL_TOP = 0x3F  # of doubles from 2**-15 to 2
_LAST_LEVEL = 0xEF  # of distances below `NO_HIT`
_FARTHEST = 0xFF
MANY_NEAR = 64  # rows of a block, such as copies of one text: all are read then, not one by one
_ALL_LEVELS = bytes(range(256))
_SAMPLED = 64  # one of so many tells nearly which level is wanted
_HIDDEN = bytes([_FARTHEST, *[0] * 255])

# Cosine distances from one row to many, as doubles.
Distances = Callable[[bytes, memoryview, int], "memoryview[float]"]
# The distances of all rows from one query, by block.
Scan = dict[int, "memoryview[float]"]
_Kept = dict[int, tuple[bytes, bytes]]  # blocks by their numbers, each with its version
# A block: its number, its row in the file, its version, and the row of its signs, if it has any.
Place = tuple[int, int, bytes | None, int | None]
# The nearest passages, of all or of flagged ones.
Best = Callable[[int, Mapping[int, bytearray] | None], list[Scored]]


def quantise(vector: Vector, dims: int) -> bytes:
    """Return a vector as int8 bytes.

    >>> quantise(array("f", [0.5, -1.0]), 2) == bytes([64, 0x81])
    True

    Raises:
        EmbedderError: It has the wrong length, is not finite, or is zero.
    """
    values, scale = scale_of(vector, dims)
    return low_bytes(array("d", [value * scale + ROUNDING for value in values]))


def low_bytes(sums: "array[float] | memoryview[float]") -> bytes:
    """Return numbers to which `ROUNDING` was added as int8 bytes."""
    return sums.tobytes()[_LOW_BYTE::8]


def scale_of(vector: Vector, dims: int) -> tuple[list[float], float]:
    """Return the numbers of a vector, and by what to multiply them.

    Raises:
        EmbedderError: As for `quantise`.
    """
    if len(vector) != dims:
        raise EmbedderError(f"The embedder returned {len(vector)} dimensions instead of {dims}.")
    values = vector.tolist()
    largest = max(max(values), -min(values))
    if not math.isfinite(sum(values)) or not math.isfinite(largest):
        raise EmbedderError("The embedder returned a vector that is not finite.")
    if largest == 0.0:
        raise EmbedderError("The embedder returned a zero vector.")
    return values, INT8_MAX / largest


def by_simsimd() -> Distances:
    """Return simsimd's way.

    Raises:
        ImportError: It is not installed.
    """
    import simsimd

    def distances(query: bytes, rows: memoryview, dims: int) -> "memoryview[float]":
        matrix = rows.cast("b", shape=[len(rows) // dims, dims])
        tensor: Any = simsimd.cosine(memoryview(query).cast("b"), matrix)
        # The values are doubles; memoryview's type only knows of integers.
        return cast("memoryview[float]", memoryview(tensor))

    return distances


def kernel() -> Distances:
    """Return the fastest way to compare one vector with many on this machine."""
    try:
        return by_simsimd()
    except ImportError:
        from plait.stores.sqlite import kernels

        return kernels.without_simsimd()


def is_block(block: object) -> bool:
    """Tell whether this is the number of a block."""
    return isinstance(block, int) and 0 <= block <= LAST_BLOCK


def check_block(block: object, size: int, dims: int) -> None:
    """Check that a block has its place and size.

    Raises:
        apsw.CorruptError: It has not.
    """
    if not is_block(block) or size != BLOCK_ROWS * dims:
        name = block if isinstance(block, int) else "without a number"
        raise apsw.CorruptError(f"block {name} of the vectors cannot be read")


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
    """Reads blocks from the file, and keeps them: only those that changed are read again.

    Each write gives a block a new version, which is random: no other content of it, in this file or
    in one that takes its place, ever has the same. So bytes of a known version are never out of
    date, whoever wrote since, and one snapshot's versions never lead to another's bytes.
    """

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self.kept_bytes = kept_bytes
        # New memory costs more than reading the file: not for a process that searches once.
        self.keeps_first = self.is_first = True
        self._kept: _Kept = {}

    def keeps(self, size: int) -> bool:
        """Tell whether so many bytes are kept for the next search."""
        return size <= self.kept_bytes and (self.keeps_first or not self.is_first)

    def scan(
        self, connection: apsw.Connection, places: Sequence[Place], dims: int
    ) -> Iterator[tuple[int, memoryview]]:
        """Yield these blocks in order; asking for the next one may overwrite a view."""
        kept: _Kept | None = {} if self.keeps(len(places) * BLOCK_ROWS * dims) else None
        yield from self._read(connection, places, dims, kept)
        self._kept, self.is_first = kept or {}, False

    def _read(
        self,
        connection: apsw.Connection,
        places: Iterable[Place],
        dims: int,
        kept: _Kept | None,
        counts: Mapping[int, int] | None = None,
    ) -> Iterator[tuple[int, memoryview]]:
        """Yield blocks, or so many first rows of each; add them to what is kept, if anything is."""
        # subtle: another thread may replace what is kept meanwhile, but changes nothing in it.
        known, buffer = self._kept, bytearray()
        blob = None
        try:
            for block, place, version, _ in places:
                same = known.get(block)
                if same is None or same[0] != version:
                    if blob is None:
                        blob = connection.blob_open("main", "vector_blocks", "data", place, False)
                    else:
                        blob.reopen(place)
                    check_block(block, blob.length(), dims)
                    if kept is None or version is None:
                        # A blob is a linked list: its last row is reached by reading all. New
                        # memory for each would take five times as long as that.
                        buffer = buffer or bytearray(BLOCK_ROWS * dims)
                        count = BLOCK_ROWS if counts is None else counts[block]
                        blob.read_into(buffer, 0, count * dims)
                        yield block, memoryview(buffer)
                        continue
                    same = (version, blob.read())
                if kept is not None:
                    kept[block] = same
                yield block, memoryview(same[1])
        finally:
            if blob is not None:
                blob.close()

    def rows(
        self, connection: apsw.Connection, generation: int, dims: int, refs: Collection[Ref]
    ) -> tuple[list[Ref], bytearray]:
        """Return the rows of some passages, except in blocks that do not exist, and of which."""
        singly, wanted, by_block = list[Ref](), list[Place](), dict[int, list[Ref]]()
        places, known, wished, last = places_of(connection, generation), self._kept, sorted(refs), 0
        for place in places:
            block, _, version, signed = place
            if wished[last] >= (block + 1) * BLOCK_ROWS:
                continue
            first = bisect_left(wished, block * BLOCK_ROWS, last)
            last = bisect_left(wished, (block + 1) * BLOCK_ROWS, first)
            own = wished[first:last]
            if own and (signed is None or (block in known and known[block][0] == version)):
                wanted.append(place)
                by_block[block] = own
            else:
                singly += own
            if last == len(wished):
                break
        kept: _Kept | None = {} if self.keeps(len(places) * BLOCK_ROWS * dims) else None
        counts = {block: listed[-1] % BLOCK_ROWS + 1 for block, listed in by_block.items()}
        listed, matrix = list[Ref](), bytearray()
        for block, data in self._read(connection, wanted, dims, kept, counts):
            for ref in by_block[block]:
                first = ref % BLOCK_ROWS * dims
                matrix += data[first : first + dims]
            listed += by_block[block]
        self._kept = {**self._kept, **(kept or {})}
        if singly:
            from plait.stores.sqlite import signs

            matrix += signs.single_rows(connection, singly, dims)
        return listed + singly, matrix


def places_of(connection: apsw.Connection, generation: int) -> list[Place]:
    """Return where the blocks are, in order."""
    places: list[Place] = rows(connection, _PLACES, (generation,))
    if not all(is_block(block) for block, *_ in places):
        raise apsw.CorruptError("a block without a number of the vectors cannot be read")
    return places


def nearest(scan: Scan, limit: int, flags: Mapping[int, bytearray] | None = None) -> list[Scored]:
    """Return the nearest passages with a positive cosine, best first, exact over all flagged."""
    levels = {
        block: levels_of(distances, None if flags is None else flags[block])
        for block, distances in scan.items()
        if flags is None or block in flags
    }
    last = level_of(b"".join(levels.values()), limit)
    best: list[tuple[float, Ref]] = []
    bar = NO_HIT
    for block, listed in levels.items():
        distances, first = scan[block], block * BLOCK_ROWS
        marks = listed.translate(up_to(last))
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


def level_of(levels: bytes, wanted: int) -> int:
    """Return the least level that so many have or are below; the last one if there are fewer."""
    least, last = 0, _LAST_LEVEL
    guesses: list[int] = []
    if len(levels) > 2 * _SAMPLED:
        # To count in the middle, where most are, takes ten times as long as near the end.
        near = level_of(levels[::_SAMPLED], -(-wanted // _SAMPLED))
        guesses = [near + 2, near + 1, near - 2, near - 1, near]
    while least < last:
        guess = guesses.pop() if guesses else (least + last) // 2
        if not least <= guess < last:
            continue
        if len(levels.translate(None, _ALL_LEVELS[guess + 1 :])) >= wanted:
            last = guess
        else:
            least = guess + 1
    return last


def levels_of(distances: "memoryview[float]", flags: bytearray | None) -> bytes | bytearray:
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
    return levels if flags is None else hidden_but(levels, flags)


@cache
def up_to(last: int) -> bytes:
    """Return a table that marks these levels with 1."""
    return bytes(level <= last for level in range(256))


def hidden_but(levels: bytes | bytearray, flags: bytes | bytearray) -> bytes:
    """Return levels of which only those that are flagged can be near."""
    hidden = int.from_bytes(flags.translate(_HIDDEN), "little")
    return (int.from_bytes(levels, "little") | hidden).to_bytes(len(levels), "little")


def _highest(cosines: Mapping[Ref, float], limit: int) -> list[Scored]:
    """Return the passages with the highest cosines, all positive, best first."""
    # To sort numbers takes a quarter of the time that pairs take.
    bar = sorted(cosines.values())[-limit:][:1]
    ranked = sorted((-cosine, ref) for ref, cosine in cosines.items() if 0.0 < cosine >= bar[0])
    return [(ref, -negative) for negative, ref in ranked[:limit]]


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


class NearestVectors:
    """Finds the nearest passages in the current generation."""

    def __init__(self, selections: filters.Selections, *, over_fetch: int = OVER_FETCH) -> None:
        self._selections, self.over_fetch = selections, over_fetch
        self.blocks = Blocks()
        self.distances: Distances | None = None
        self.is_exact = False  # compare with all vectors, however many
        self._latest: tuple[object, Scan] = (None, {})
        self._signs: SignedBlocks | None = None

    def nearest(
        self,
        connection: apsw.Connection,
        vector: Vector,
        space: Space,
        limit: int,
        conditions: list[filters.Clause],
        passages: int,
    ) -> Nearest:
        """Return the nearest passages by cosine, and cosines that were computed one by one."""
        generation = answering(connection, space)
        if generation is None:
            return Nearest([], {})
        query = quantise(vector, generation.dims)
        selection = None
        if conditions:
            selection = self._selections.find(connection, conditions, passages)
            if selection.refs is not None and selection.short:
                cosines = self._pick(connection, generation, query, selection.refs)
                return Nearest(_highest(cosines, limit), cosines)
        best, by_signs = self._ranking(connection, generation, query)
        if selection is None:
            return Nearest(best(limit, None), {}, approximate=by_signs)
        hits = best(limit * self.over_fetch, None)
        kept = filters.first_passing(connection, conditions, hits, limit)
        if len(kept) == limit or len(hits) < limit * self.over_fetch:
            return Nearest(kept, {}, approximate=by_signs)
        if selection.flags is None:
            refs = selection.refs
            selection.flags = flagged(
                filters.passing(connection, conditions) if refs is None else refs
            )
        return Nearest(best(limit, selection.flags), {}, approximate=by_signs)

    def _ranking(
        self, connection: apsw.Connection, generation: Generation, query: bytes
    ) -> tuple[Best, bool]:
        """Compare the query with all vectors, or first with the signs of those that have signs."""
        places = places_of(connection, generation.id)
        signed = [place for place in places if place[3] is not None]
        chosen = self._by_signs(connection, generation, query, signed, len(places))
        if chosen is not None:
            places = [place for place in places if place[3] is None]
        distances, blocks = self.kernel(), self.blocks.scan(connection, places, generation.dims)
        scan = {block: distances(query, data, generation.dims) for block, data in blocks}
        if may_remember(connection):
            self._latest = ((generation.id, data_version(connection), query), scan)

        def best(limit: int, flags: Mapping[int, bytearray] | None) -> list[Scored]:
            hits = nearest(scan, limit, flags)
            if chosen is not None:
                hits = sorted(hits + chosen(limit, flags), key=lambda hit: (-hit[1], hit[0]))
            return hits[:limit]

        return best, chosen is not None

    def _by_signs(
        self,
        connection: apsw.Connection,
        generation: Generation,
        query: bytes,
        signed: list[Place],
        blocks: int,
    ) -> Best | None:
        """Return how to rank by signs; ``None`` where everything is compared."""
        if not signed or self.is_exact:
            return None
        from plait.stores.sqlite import signs

        if blocks * BLOCK_ROWS < signs.LEAST_PASSAGES:
            return None
        if self._signs is None:
            self._signs = signs.SignedBlocks()
        keeps, distances = self.blocks.keeps, self.kernel()
        return self._signs.ranking(connection, signed, query, distances, keeps=keeps)

    def cosines(
        self,
        connection: apsw.Connection,
        vector: Vector,
        space: Space,
        refs: Collection[Ref],
        near: Nearest,
    ) -> dict[Ref, float]:
        """Return the cosines of these passages; those without a vector are absent.

        ``near`` is what `nearest` told of the same vector: its cosines are not computed again.
        """
        known = near.cosines | dict(near.hits)
        computed = {ref: known[ref] for ref in refs if ref in known}
        unknown = [ref for ref in refs if ref not in known]
        generation = answering(connection, space) if unknown else None
        if generation is None:
            return computed
        query = quantise(vector, generation.dims)
        key, scan = self._latest
        if key == (generation.id, data_version(connection), query):
            scanned, unknown = scanned_cosines(scan, unknown)
            computed |= scanned
        return computed | self._pick(connection, generation, query, unknown)

    def _pick(
        self,
        connection: apsw.Connection,
        generation: Generation,
        query: bytes,
        refs: Collection[Ref],
    ) -> dict[Ref, float]:
        """Return the cosines of these passages, from their own rows."""
        if not refs:
            return {}
        dims = len(query)
        listed, matrix = self.blocks.rows(connection, generation.id, dims, refs)
        near = self.kernel()(query, memoryview(matrix), dims).tolist() if listed else []
        cosines = {ref: 1.0 - distance for ref, distance in zip(listed, near, strict=True)}
        for row, distance in enumerate(near):
            # As far as this may also be a row of zeros, which is not a vector.
            if distance == NO_HIT and not any(matrix[row * dims : (row + 1) * dims]):
                del cosines[listed[row]]
        return cosines

    def kernel(self) -> Distances:
        """Return how vectors are compared."""
        self.distances = self.distances or kernel()
        return self.distances
