"""Fill in vectors: a new space is built beside the current one, then replaces it."""

import json
from collections.abc import Sequence

import apsw

from plait.errors import EmbedderError
from plait.protocols import Unembedded, Vector
from plait.stores.sqlite import blocks, vectors
from plait.stores.sqlite.connection import Connections, rows
from plait.stores.sqlite.keyword import passage_count
from plait.stores.sqlite.resembling import near_slots
from plait.stores.sqlite.state import Generation, answering, generations, set_chance, space_text
from plait.stores.sqlite.write_lock import WriteLock
from plait.types import Ref, Space
from plait.types.queries import Chance

UNEMBEDDED = (
    "INSERT INTO unembedded (generation, passage, reason) VALUES (?, ?, ?) "
    "ON CONFLICT (generation, passage) DO UPDATE SET reason = excluded.reason"
)
EMBEDDED = "DELETE FROM unembedded WHERE generation = ? AND passage = ?"
_ALL_PENDING = (
    "INSERT INTO unembedded (generation, passage, reason) SELECT ?, rowid, 'pending' FROM passages"
)
# What the embedder sees of a passage.
_SEEN = (
    "SELECT p.rowid, d.title, p.heading, p.text FROM passages AS p "
    "JOIN documents AS d ON d.rowid = p.document WHERE p.rowid IN "
)
_PENDING = (
    f"{_SEEN} (SELECT passage FROM unembedded WHERE generation = ? "  # noqa: S608
    "AND reason = 'pending' ORDER BY passage LIMIT ?) ORDER BY p.rowid"
)
_PENDING_OF_PROJECT = (
    f"{_SEEN} (SELECT u.passage FROM unembedded AS u JOIN passages AS q "  # noqa: S608
    "ON q.rowid = u.passage JOIN documents AS o ON o.rowid = q.document WHERE u.generation = ? "
    "AND u.reason = 'pending' AND o.project = ? ORDER BY u.passage LIMIT ?) ORDER BY p.rowid"
)
_LISTED = f"{_SEEN} (SELECT value FROM json_each(?))"  # noqa: S608
_DISTRUSTED = (
    "SELECT p.rowid FROM documents AS d JOIN passages AS p ON p.document = d.rowid "
    "WHERE d.trust <> 'trusted'"
)
# Rows for the signs of the generation that answered; the new one gets its own.
_DROP_ROWS = "DELETE FROM vector_rows"
_IS_PENDING = "SELECT 1 FROM unembedded WHERE generation = ? AND reason = 'pending' LIMIT 1"


def latest(connection: apsw.Connection, space: Space) -> Generation | None:
    """Return the generation of this space to fill: one being built before the current one."""
    name = space_text(space)
    matching = [row for row in generations(connection) if row.space == name]
    return matching[-1] if matching else None


def begin(
    connection: apsw.Connection,
    space: Space,
    *,
    afresh: bool = False,
    sample: Vector | None = None,
    resume: bool = True,
) -> Generation:
    """Return the generation of this space, created if needed, with its model's sample.

    Every passage is pending in a new one. Searches use the first generation of a memory at once, a
    later one after `swap`. An unfinished one is continued, unless ``resume`` is false because
    another model began it.

    Raises:
        EmbedderError: The length of the vectors is not known yet.
    """
    if not space.dims:
        raise EmbedderError(
            f"The length of the vectors of {space} is not known yet.", code="unknown_dims"
        )
    known = latest(connection, space)
    if known is not None and not known.current and not resume:
        connection.execute("DELETE FROM generations WHERE id = ?", (known.id,))
        known = latest(connection, space)
    if known is not None and not (afresh and known.current):
        return known
    first = not generations(connection)
    data = None if sample is None else sample.tobytes()
    connection.execute(
        "INSERT INTO generations (space, dims, current, canary) VALUES (?, ?, ?, ?)",
        (space_text(space), space.dims, int(first), data),
    )
    number = connection.last_insert_rowid()
    mark_all_pending(connection, number)
    return Generation(number, space_text(space), space.dims, int(first), data)


def mark_all_pending(connection: apsw.Connection, generation: int) -> None:
    """Let every passage wait for a vector in a new generation."""
    connection.execute(_ALL_PENDING, (generation,))


def _target(connection: apsw.Connection, space: Space, *, building: bool) -> Generation | None:
    """Return the space's generation to fill; without ``building``: only the current one."""
    return latest(connection, space) if building else answering(connection, space)


def pending(
    connection: apsw.Connection,
    space: Space,
    limit: int,
    *,
    building: bool,
    project: str | None = None,
) -> list[Unembedded]:
    """Return passages without a vector in this space's generation, of all projects or of one."""
    generation = _target(connection, space, building=building)
    if generation is None:
        return []
    if project is None:
        waiting = rows(connection, _PENDING, (generation.id, limit))
    else:
        waiting = rows(connection, _PENDING_OF_PROJECT, (generation.id, project, limit))
    return [Unembedded(*row) for row in waiting]


def fill(
    connection: apsw.Connection,
    space: Space,
    made: Sequence[tuple[Unembedded, Vector | None]],
    *,
    building: bool,
) -> int:
    """Write vectors of passages that are still the same; ``None`` marks one as keyword-only."""
    generation = _target(connection, space, building=building)
    if generation is None:
        return 0
    wanted = json.dumps([row.ref for row, _ in made])
    present = {Unembedded(*row) for row in rows(connection, _LISTED, (wanted,))}
    patches: dict[Ref, bytes | None] = {}
    for row, vector in made:
        if row not in present:
            continue
        ref = row.ref
        if vector is None:
            connection.execute(UNEMBEDDED, (generation.id, ref, "declined"))
        else:
            patches[ref] = blocks.quantised(vector, generation.dims)
            connection.execute(EMBEDDED, (generation.id, ref))
    blocks.write(connection, generation.id, generation.dims, patches)
    return len(patches)


def swap(connection: apsw.Connection, space: Space) -> bool:
    """Make this space's generation current, unless passages are pending in it; drop the others."""
    if not space.dims:
        connection.execute("DELETE FROM generations")  # without an embedder there are no vectors
        connection.execute(_DROP_ROWS)
        return True
    generation = latest(connection, space)
    if generation is None:
        return False
    if not generation.current and connection.execute(_IS_PENDING, (generation.id,)).get:
        return False
    if not generation.current:
        connection.execute(_DROP_ROWS)
    # This includes abandoned generations: every write would keep them up to date.
    connection.execute("DELETE FROM generations WHERE id <> ?", (generation.id,))
    connection.execute("UPDATE generations SET current = 1 WHERE id = ?", (generation.id,))
    return True


def sample_chance(
    connections: Connections,
    search: vectors.NearestVectors,
    space: Space,
    foreign: Sequence[Vector],
) -> None:
    """Store how near the nearest passages are to questions that have nothing to do with them."""
    connection = connections.get()
    with connection:  # One snapshot; nobody waits for the scan.
        passages = passage_count(connection)
        cosines = _best_cosines(connection, search, foreign, space)
    if cosines:
        with WriteLock(connections, patient=False) as connection:
            set_chance(connection, Chance.of(cosines, passages), space)


def _best_cosines(
    connection: apsw.Connection,
    search: vectors.NearestVectors,
    foreign: Sequence[Vector],
    space: Space,
) -> list[float]:
    """Return the cosine of the nearest of all trusted passages to each vector, in one scan."""
    generation = answering(connection, space)
    if generation is None:
        return []
    dims, distances = generation.dims, search.kernel()
    queries = [vectors.quantise(vector, dims) for vector in foreign]
    nearest_of_all = [vectors.NO_HIT] * len(queries)
    distrusted: dict[int, list[int]] = {}
    for (ref,) in rows(connection, _DISTRUSTED):
        block, slot = divmod(ref, vectors.BLOCK_ROWS)
        distrusted.setdefault(block, []).append(slot)
    places = vectors.places_of(connection, generation.id)
    for block, scanned_rows in search.blocks.scan(connection, places, dims):
        data = scanned_rows
        if block in distrusted:
            kept = bytearray(data)
            for slot in distrusted[block]:
                kept[slot * dims : (slot + 1) * dims] = bytes(dims)
            data = memoryview(kept)
        for place, query in enumerate(queries):
            near = distances(query, data, dims)
            nearest_of_all[place] = _least(near, nearest_of_all[place])
    return [1.0 - distance for distance in nearest_of_all]


def _least(distances: "memoryview[float]", bar: float) -> float:
    """Return the smallest of these distances, or the bar if none is below it.

    Few are: to compare them all would take as long as to compute them.
    """
    return min([bar, *(distances[slot] for slot in near_slots(distances, bar))])
