"""The signs of vectors as bits, and their rows one by one, for memories too large to scan in full.

The distance of two vectors' signs takes a thirty-second of the time and memory that the vectors
themselves take. It chooses the candidates; their rows, which a table has singly, decide. A block
has both or neither, see `make`; blocks without are scanned in full. Loaded only if some have.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import apsw

from plait.protocols import Scored
from plait.stores.sqlite import vectors
from plait.stores.sqlite.connection import Connections, rows
from plait.stores.sqlite.state import Generation, answering
from plait.stores.sqlite.write_lock import WriteLock
from plait.types import Ref

# From this size on. Of smaller memories all vectors are kept and compared, which is as fast.
LEAST_PASSAGES = 200_000
# So many nearest by their signs are compared. At a million passages of the built-in model, they
# contain 0.992 of the true ten nearest (500 questions); 2,000 contain 0.988, 4,000 0.994.
CANDIDATES = 3_000
CHUNK_BLOCKS = 16  # whose signs are compared in one call
MADE_AT_ONCE = 8  # blocks in one transaction: others wait a tenth of a second for it

_UNSIGNED = (
    "SELECT b.block FROM vector_blocks AS b WHERE b.generation = ?1 AND NOT EXISTS "
    "(SELECT 1 FROM vector_signs AS s WHERE s.generation = b.generation AND s.block = b.block) "
    # The last one is not full yet: each note would be written three times.
    "AND b.block < (SELECT max(block) FROM vector_blocks WHERE generation = ?1) "
    "ORDER BY b.block LIMIT ?2"
)
_COUNT_BLOCKS = "SELECT count(*) FROM vector_blocks WHERE generation = ?"
_ANY_SIGNS = "SELECT 1 FROM vector_signs LIMIT 1"
_BLOCK = "SELECT data FROM vector_blocks WHERE generation = ? AND block = ?"
_ADD_SIGNS = "INSERT INTO vector_signs (generation, block, data) VALUES (?, ?, ?)"
_DROP_SIGNS = "DELETE FROM vector_signs WHERE generation = ? AND block = ?"
_SIGNS = "SELECT block, data FROM vector_signs WHERE generation = ?"
_PUT_ROW = "INSERT OR REPLACE INTO vector_rows (rowid, data) VALUES (?, ?)"
_ROWS = "SELECT data FROM vector_rows WHERE rowid BETWEEN ? AND ? ORDER BY rowid"
_DROP_ROWS = "DELETE FROM vector_rows WHERE rowid BETWEEN ? AND ?"
# By place in a byte: what becomes of a component, whose highest bit is its sign.
_BITS = tuple(bytes(128) + bytes([128 >> place]) * 128 for place in range(8))

# Hamming distances from one row of signs to many, as bytes; of longer ones, their higher bits.
Levels = Callable[[bytes, memoryview], bytes]


def signs_of(data: bytes, dims: int) -> bytes:
    """Return a bit for each component of each row: whether it is negative.

    >>> signs_of(bytes([1, 255, 0, 3, 128, 127, 0, 255]), 4).hex()
    '4090'
    """
    count, width = len(data) // dims, (dims + 7) // 8
    signs = bytearray(count * width)
    for place in range(width):
        column = 0
        for dim in range(8 * place, min(8 * place + 8, dims)):
            column |= int.from_bytes(data[dim::dims].translate(_BITS[dim % 8]), "little")
        signs[place::width] = column.to_bytes(count, "little")
    return bytes(signs)


def kernel(dims: int) -> Levels | None:
    """Return how signs are compared; ``None`` where that is not faster than a scan."""
    try:
        import simsimd
    except ImportError:
        return None
    hamming: Any = simsimd.hamming
    width = (dims + 7) // 8
    # subtle: the distance 256 of 256 becomes 0; such a row is then compared, and is no hit.
    shift = 0 if dims <= 256 else dims.bit_length() - 8

    def distances(query: bytes, signs: memoryview, width: int) -> bytes:
        matrix = signs.cast("B", shape=[len(signs) // width, width])
        kind = "uint16" if shift else "uint8"
        return memoryview(hamming(memoryview(query), matrix, "bin8", out_dtype=kind)).tobytes()

    # Whole numbers are more than simsimd promises: its own types know of fractions only.
    try:
        proof = distances(b"\x0f", memoryview(b"\x0f\xff"), 1)
    except (TypeError, ValueError):
        return None
    if list(memoryview(proof).cast("H" if shift else "B")) != [0, 4]:
        return None

    def levels(query: bytes, signs: memoryview) -> bytes:
        data = distances(query, signs, width)
        if not shift:
            return data
        higher = int.from_bytes(data, sys.byteorder) >> shift
        shifted = higher.to_bytes(len(data), sys.byteorder)
        return shifted[::2] if sys.byteorder == "little" else shifted[1::2]

    return levels


class SignedBlocks:
    """Ranks passages of blocks that have signs; keeps the signs as `vectors.Blocks` does blocks."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[object, bytearray]] = {}

    def ranking(
        self,
        connection: apsw.Connection,
        places: Sequence[vectors.Place],
        query: bytes,
        distances: vectors.Distances,
        *,
        keeps: Callable[[int], bool],
    ) -> vectors.Best | None:
        """Compare the query's signs with all; return how to rank the nearest, if that is faster."""
        dims = len(query)
        compare = kernel(dims)
        if compare is None:
            return None
        wanted = signs_of(query, dims)
        chunks: dict[int, list[vectors.Place]] = {}
        for place in places:
            chunks.setdefault(place[0] // CHUNK_BLOCKS, []).append(place)
        size = vectors.BLOCK_ROWS * len(wanted)
        kept: dict[int, tuple[object, bytearray]] | None = None
        if keeps(len(places) * size):
            kept = {}
        known, compared = self._kept, list[tuple[list[int], bytes]]()
        buffer = bytearray()
        for chunk, members in chunks.items():
            versions = [(block, version) for block, _, version, _ in members]
            same = known.get(chunk)
            if same is None or same[0] != versions or None in dict(versions).values():
                if kept is not None or len(buffer) != len(members) * size:
                    buffer = bytearray(len(members) * size)
                _read(connection, members, buffer, size)
                same = (versions, buffer)
            if kept is not None:
                kept[chunk] = same
            compared.append(
                ([block for block, *_ in members], compare(wanted, memoryview(same[1])))
            )
        self._kept = kept or {}

        def best(limit: int, flags: Mapping[int, bytearray] | None) -> list[Scored]:
            refs = _nearest(compared, max(CANDIDATES, 10 * limit), flags)
            if not refs:
                return []
            matrix = memoryview(single_rows(connection, refs, dims))
            near = zip(distances(query, matrix, dims).tolist(), refs, strict=True)
            hits = sorted(pair for pair in near if pair[0] < vectors.NO_HIT)
            return [(ref, 1.0 - distance) for distance, ref in hits[:limit]]

        return best


def single_rows(connection: apsw.Connection, refs: Sequence[Ref], dims: int) -> bytearray:
    """Return the rows of passages, all of them in blocks that have signs.

    Raises:
        apsw.CorruptError: There is no such row.
    """
    matrix = bytearray(len(refs) * dims)
    try:
        # subtle: a blob that cannot be reopened is closed, and cannot leave a `with` of its own.
        opened = connection.blob_open("main", "vector_rows", "data", refs[0], False)
        with closing(opened) as blob:
            for number, ref in enumerate(refs):
                blob.reopen(ref)
                if blob.length() != dims:
                    raise apsw.CorruptError(f"row {ref} of the vectors cannot be read")
                blob.read_into(matrix, number * dims, dims)
    except apsw.SQLError as error:
        raise apsw.CorruptError(f"rows of the vectors are missing ({error})") from error
    return matrix


def _read(
    connection: apsw.Connection, places: Sequence[vectors.Place], buffer: bytearray, size: int
) -> None:
    """Read the signs of some blocks, one behind the other.

    Raises:
        apsw.CorruptError: Some have the wrong size.
    """
    first = places[0][3] or 0
    with closing(connection.blob_open("main", "vector_signs", "data", first, False)) as blob:
        for number, (block, _, _, place) in enumerate(places):
            blob.reopen(place or 0)
            _check_signs(block, blob.length(), size)
            blob.read_into(buffer, number * size, size)


def _check_signs(block: int, length: int, size: int) -> None:
    if length != size:
        raise apsw.CorruptError(f"the signs of block {block} cannot be read")


def _nearest(
    compared: Sequence[tuple[list[int], bytes]],
    wanted: int,
    flags: Mapping[int, bytearray] | None,
) -> list[Ref]:
    """Return the passages whose signs are nearest; a few more than wanted, where many are equal."""
    listed = [levels for _, levels in compared]
    if flags is not None:
        nobody = bytes(vectors.BLOCK_ROWS)
        listed = [
            vectors.hidden_but(levels, b"".join(flags.get(block, nobody) for block in blocks))
            for blocks, levels in compared
        ]
    last = vectors.level_of(b"".join(listed), wanted)
    is_near = bytes(level <= last for level in range(256))
    refs: list[Ref] = []
    for (blocks, _), levels in zip(compared, listed, strict=True):
        marks = levels.translate(is_near)
        slot = marks.find(1)
        while slot >= 0:
            number, row = divmod(slot, vectors.BLOCK_ROWS)
            refs.append(blocks[number] * vectors.BLOCK_ROWS + row)
            slot = marks.find(1, slot + 1)
    return refs


# -- writing ---------------------------------------------------------------------------------


def make(connections: Connections) -> None:
    """Give the full blocks of a large memory their signs and rows, some in each transaction.

    Where others write all the time, or the disk is full, the rest waits for the next call: whoever
    stored something waits for that, and not for faster searches.
    """
    with suppress(apsw.BusyError, apsw.FullError):
        _make_all(connections)


def _make_all(connections: Connections) -> None:
    from plait.stores.sqlite.blocks import CHANGED

    while _is_wanted(connections.get()):
        with WriteLock(connections, patient=False) as connection:
            generation = answering(connection)
            if generation is None:
                return
            if not connection.execute(_ANY_SIGNS).get:
                connection.execute("DELETE FROM vector_rows")  # of vectors that are gone
            for (block,) in rows(connection, _UNSIGNED, (generation.id, MADE_AT_ONCE)):
                _make_one(connection, generation, block)
                # A process may have kept signs that the doctor found wrong.
                connection.execute(CHANGED, (generation.id, block))


def _is_wanted(connection: apsw.Connection) -> bool:
    generation = answering(connection)
    if generation is None or kernel(generation.dims) is None:
        return False
    blocks = int(connection.execute(_COUNT_BLOCKS, (generation.id,)).get)
    if blocks * vectors.BLOCK_ROWS < LEAST_PASSAGES:
        return False
    return bool(rows(connection, _UNSIGNED, (generation.id, 1)))


def _make_one(connection: apsw.Connection, generation: Generation, block: int) -> None:
    dims, first = generation.dims, block * vectors.BLOCK_ROWS
    data = _block(connection, generation.id, block, dims)
    connection.execute(_ADD_SIGNS, (generation.id, block, signs_of(data, dims)))
    connection.executemany(
        _PUT_ROW,
        (
            (first + slot, data[slot * dims : (slot + 1) * dims])
            for slot in range(vectors.BLOCK_ROWS)
        ),
    )


def _block(connection: apsw.Connection, generation: int, block: int, dims: int) -> bytes:
    """Return the vectors of one block; `apsw.CorruptError` if it is damaged or missing."""
    data = connection.execute(_BLOCK, (generation, block)).get
    vectors.check_block(block, len(data) if isinstance(data, bytes) else 0, dims)
    return bytes(data)


def patch(
    connection: apsw.Connection,
    place: int,
    block: int,
    dims: int,
    patches: Iterable[tuple[int, bytes | None]],
) -> None:
    """Write signs and single rows of a block, each given with its place in the block."""
    empty, width = bytes(dims), (dims + 7) // 8
    with connection.blob_open("main", "vector_signs", "data", place, True) as blob:
        _check_signs(block, blob.length(), vectors.BLOCK_ROWS * width)
        for offset, row in patches:
            slot, data = offset // dims, empty if row is None else row
            blob.seek(slot * width)
            blob.write(signs_of(data, dims))
            connection.execute(_PUT_ROW, (block * vectors.BLOCK_ROWS + slot, data))


# -- checking --------------------------------------------------------------------------------


def wrong(connection: apsw.Connection, generation: Generation) -> list[int]:
    """Return the blocks whose signs or rows are not those of their vectors."""
    dims, listed = generation.dims, []
    for block, signs in connection.execute(_SIGNS, (generation.id,)):
        try:
            data = _block(connection, generation.id, block, dims)
        except apsw.CorruptError:
            listed.append(block)
            continue
        first = block * vectors.BLOCK_ROWS
        single = rows(connection, _ROWS, (first, first + vectors.BLOCK_ROWS - 1))
        if signs != signs_of(data, dims) or [row for (row,) in single] != [
            data[place : place + dims] for place in range(0, len(data), dims)
        ]:
            listed.append(block)
    return listed


def drop(connection: apsw.Connection, generation: int, blocks: Iterable[int]) -> None:
    """Drop signs and rows of blocks, which are scanned in full then, until `make` gives others."""
    for block in blocks:
        first = block * vectors.BLOCK_ROWS
        connection.execute(_DROP_SIGNS, (generation, block))
        connection.execute(_DROP_ROWS, (first, first + vectors.BLOCK_ROWS - 1))
