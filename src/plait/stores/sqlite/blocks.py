"""Write blocks of vectors, and read which passages have one. No search loads this."""

import sys
from array import array
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from struct import pack
from typing import Any, cast

import apsw

from plait.errors import advise
from plait.protocols import Vector
from plait.stores.sqlite import vectors
from plait.stores.sqlite.connection import Connections
from plait.stores.sqlite.state import answering
from plait.stores.sqlite.write_lock import WriteLock
from plait.types import Ref
from plait.types.reports import Finding

_BLOCKS = "SELECT block, data FROM vector_blocks WHERE generation = ? ORDER BY block"
_BLOCK_ROW = "SELECT rowid FROM vector_blocks WHERE generation = ? AND block = ?"
_ADD_BLOCK = "INSERT INTO vector_blocks (generation, block, data) VALUES (?, ?, zeroblob(?))"
_SIGNS_ROW = "SELECT rowid FROM vector_signs WHERE generation = ? AND block = ?"
CHANGED = (
    "INSERT INTO block_versions (generation, block, version) VALUES (?, ?, randomblob(8)) "
    "ON CONFLICT (generation, block) DO UPDATE SET version = excluded.version"
)
_ADD_VERSIONS = (
    "INSERT INTO block_versions (generation, block, version) "
    "SELECT generation, block, randomblob(8) "
)
# Of a float, the byte with the sign and most of the exponent.
_TOP_BYTE = 3 if sys.byteorder == "little" else 0
_WITHOUT_SIGN = bytes(range(128)) * 2
_UP_TO_USUAL = bytes(range(0x40))  # of all below 2
_USUAL_TOPS = (0x3F, 0x3E, 0x3D)  # of those from a 32nd on, the largest first
ALL_CHANGED = f"{_ADD_VERSIONS} FROM vector_blocks"
# What `check` looks for, to be counted or deleted.
_UNVERSIONED = (
    "FROM vector_blocks AS b WHERE NOT EXISTS (SELECT 1 FROM block_versions AS v "
    "WHERE v.generation = b.generation AND v.block = b.block)"
)
_STRAY_VERSIONS = (
    "FROM block_versions WHERE NOT EXISTS (SELECT 1 FROM vector_blocks AS b "
    "WHERE b.generation = block_versions.generation AND b.block = block_versions.block)"
)
_STRAY_SIGNS = "FROM vector_signs WHERE generation IS NOT ?"
_STRAY_ROWS = (
    "FROM vector_rows WHERE rowid < 0 OR rowid / ?1 NOT IN "
    "(SELECT block FROM vector_signs WHERE generation IS ?2)"
)


def write(
    connection: apsw.Connection, generation: int, dims: int, rows: Mapping[Ref, bytes | None]
) -> None:
    """Write rows of the blocks; ``None`` clears one. Call inside a write transaction."""
    by_block: dict[int, list[tuple[int, bytes | None]]] = {}
    for ref, row in rows.items():
        by_block.setdefault(ref // vectors.BLOCK_ROWS, []).append(
            (ref % vectors.BLOCK_ROWS * dims, row)
        )
    empty = bytes(dims)
    for block, patches in by_block.items():
        place = connection.execute(_BLOCK_ROW, (generation, block)).get
        if place is None:
            if all(row is None for _, row in patches):
                continue
            connection.execute(_ADD_BLOCK, (generation, block, vectors.BLOCK_ROWS * dims))
            place = connection.last_insert_rowid()
            if connection.execute(_SIGNS_ROW, (generation, block)).get is not None:
                from plait.stores.sqlite import signs

                signs.drop(connection, generation, [block])  # of one that was damaged
        with connection.blob_open("main", "vector_blocks", "data", place, True) as blob:
            vectors.check_block(block, blob.length(), dims)
            for offset, row in sorted(patches, key=lambda patch: patch[0]):
                blob.seek(offset)
                blob.write(empty if row is None else row)
        connection.execute(CHANGED, (generation, block))
        signed = connection.execute(_SIGNS_ROW, (generation, block)).get
        if signed is not None:
            from plait.stores.sqlite import signs

            signs.patch(connection, signed, block, dims, patches)


def quantised(vector: Vector, dims: int) -> bytes:
    """Return a vector as `vectors.quantise` does, in half the time where simsimd is there."""
    add = _scaled_sum(dims)
    if add is None:
        return vectors.quantise(vector, dims)
    values, largest = vector.tolist(), _largest_usual(vector)
    if len(values) == dims and largest is not None:
        scale = vectors.INT8_MAX / largest
    else:
        values, scale = vectors.scale_of(vector, dims)
    # Packed, because an array of as many numbers takes twice as long to make.
    doubles = memoryview(pack(f"{dims}d", *values)).cast("d")
    return vectors.low_bytes(add(doubles, scale))


def _largest_usual(vector: Vector) -> float | None:
    """Return the largest size of a number of a vector, in half the time of `max`.

    ``None`` if that is not from a 32nd to 2. The highest byte of a float has its sign and most of
    its exponent: only the few numbers with the highest exponent are compared.
    """
    if vector.typecode != "f":
        return None
    tops = vector.tobytes()[_TOP_BYTE::4].translate(_WITHOUT_SIGN)
    top = next((top for top in _USUAL_TOPS if top in tops), None)
    if top is None or tops.translate(None, _UP_TO_USUAL):
        return None
    largest, place = 0.0, tops.find(top)
    while place >= 0:
        size = abs(vector[place])
        largest = size if size > largest else largest
        place = tops.find(top, place + 1)
    return largest


@cache
def _scaled_sum(dims: int) -> "Callable[[memoryview[float], float], memoryview[float]] | None":
    """Return how to scale and round as many numbers; ``None`` without simsimd."""
    try:
        from simsimd import wsum
    except ImportError:
        return None
    rounding = array("d", [vectors.ROUNDING] * dims)

    def scaled(values: "memoryview[float]", scale: float) -> "memoryview[float]":
        # subtle: in two steps, because one would round halves in another way than Python does.
        product: Any = wsum(values, rounding, alpha=scale, beta=0.0)
        tensor: Any = wsum(product, rounding, alpha=1.0, beta=1.0)
        return cast("memoryview[float]", memoryview(tensor))

    return scaled


def occupied(connection: apsw.Connection, generation: int, dims: int) -> Iterable[list[Ref]]:
    """Yield the passages that have a vector, block by block, from the bytes themselves."""
    for block, data in connection.execute(_BLOCKS, (generation,)):
        vectors.check_block(block, len(data) if isinstance(data, bytes) else 0, dims)
        yield [
            block * vectors.BLOCK_ROWS + slot
            for slot in range(vectors.BLOCK_ROWS)
            if data.count(0, slot * dims, (slot + 1) * dims) != dims
        ]


def check(
    connections: Connections, misplaced: Callable[[], str | None], *, fix: bool
) -> Finding | None:
    """Check what a memory keeps beside its vectors: versions, signs and single rows.

    Return ``None``, and repair nothing, if rows of another table may lie in these.
    """
    connection = connections.get()
    with connection:  # one snapshot
        wrong = _wrong_signs(connection)
        count = len(wrong) + sum(
            connection.execute(f"SELECT count(*) {sql}", values).get
            for sql, values in _strays(connection)
        )
        count += connection.execute(f"SELECT count(*) {_UNVERSIONED}").get
    if not count:
        return Finding("signs", "ok", "versions and signs are those of the vectors")
    problem = f"{count} versions, signs or rows are not those of the vectors"
    if not fix:
        return Finding("signs", "error", f"{problem}.", advice=advise("doctor_fix"))
    if misplaced() is not None:
        return None
    with WriteLock(connections) as connection:
        generation = answering(connection)
        if generation is not None and wrong:
            from plait.stores.sqlite import signs

            signs.drop(connection, generation.id, wrong)
        for sql, values in _strays(connection):
            connection.execute(f"DELETE {sql}", values)
        connection.execute(_ADD_VERSIONS + _UNVERSIONED)
    return Finding("signs", "ok", f"dropped or made again: {problem}", fixed=True)


def _wrong_signs(connection: apsw.Connection) -> list[int]:
    generation = answering(connection)
    if generation is None or not connection.execute("SELECT 1 FROM vector_signs LIMIT 1").get:
        return []
    from plait.stores.sqlite import signs

    return signs.wrong(connection, generation)


def _strays(connection: apsw.Connection) -> list[tuple[str, tuple[int | None, ...]]]:
    """Return how to find what belongs to no vectors: these may be of deleted texts."""
    generation = answering(connection)
    known = None if generation is None else generation.id
    return [
        (_STRAY_VERSIONS, ()),
        (_STRAY_SIGNS, (known,)),
        (_STRAY_ROWS, (vectors.BLOCK_ROWS, known)),
    ]
