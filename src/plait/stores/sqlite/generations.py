"""Generations of vectors: one space answers searches while another may be filling beside it."""

import json
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from plait.errors import EmbedderError
from plait.protocols import Pending, Vector
from plait.stores.sqlite import vectors
from plait.stores.sqlite.rows import rows
from plait.types import Ref, Space

UNEMBEDDED = (
    "INSERT INTO unembedded (generation, passage, reason) VALUES (?, ?, ?) "
    "ON CONFLICT (generation, passage) DO UPDATE SET reason = excluded.reason"
)
EMBEDDED = "DELETE FROM unembedded WHERE generation = ? AND passage = ?"
_ALL_PENDING = (
    "INSERT INTO unembedded (generation, passage, reason) SELECT ?, rowid, 'pending' FROM passages"
)
_PENDING = (
    "SELECT p.rowid, d.title, p.heading, p.text FROM passages AS p "
    "JOIN documents AS d ON d.rowid = p.document WHERE p.rowid IN (SELECT passage FROM unembedded "
    "WHERE generation = ? AND reason = 'pending' AND passage > ? ORDER BY passage LIMIT ?) "
    "ORDER BY p.rowid"
)
_UNFILLED = (
    "SELECT p.rowid, d.title, p.heading, p.text FROM passages AS p "
    "JOIN documents AS d ON d.rowid = p.document WHERE p.rowid > ? ORDER BY p.rowid LIMIT ?"
)
_WAITING = (
    "SELECT count(*) FROM unembedded AS u JOIN generations AS g ON g.id = u.generation "
    "WHERE g.current = 1 AND u.reason = 'pending'"
)
_ALIVE = "SELECT rowid FROM passages WHERE rowid IN (SELECT value FROM json_each(?))"


class Generation(NamedTuple):
    """Vectors of one space, as the table knows it. ``filled_to`` is how far building has come."""

    id: int
    space: str
    dims: int
    current: int
    filled_to: int


def generations(connection: apsw.Connection) -> list[Generation]:
    """All generations, the current one first."""
    known = rows(
        connection,
        "SELECT id, space, dims, current, filled_to FROM generations ORDER BY current DESC, id",
    )
    found = [Generation(*row) for row in known]
    for one in found:
        if not isinstance(one.dims, int):
            raise apsw.CorruptError(
                f"generation {one.id} has no size"
            )  # half-written pages read so
    return found


def current(connection: apsw.Connection) -> Generation | None:
    """The generation that answers searches."""
    return next((row for row in generations(connection) if row.current), None)


def space_text(space: Space) -> str:
    """A space as it is stored: every field counts."""
    return json.dumps(list(space), ensure_ascii=False)


def written_for(connection: apsw.Connection, space: Space) -> Generation | None:
    """The generation of this space that is being filled: one in the wings before the current."""
    name = space_text(space)
    mine = [row for row in generations(connection) if row.space == name]
    return mine[-1] if mine else None


def begin(
    connection: apsw.Connection,
    space: Space,
    *,
    anew: bool = False,
    sample: Vector | None = None,
    resume: bool = True,
) -> Generation:
    """The generation of this space, made if need be, with the sample that its model gave.

    The first one of a memory answers at once, with everything older listed as pending; one beside
    a current generation stays in the wings until it is swapped in. One that was left unfinished is
    taken up again, unless ``resume`` says that another model began it.

    Raises:
        EmbedderError: Nobody knows yet how long the vectors are.
    """
    if not space.dims:
        raise EmbedderError(f"{space} has not told how long its vectors are")
    known = written_for(connection, space)
    if known is not None and not known.current and not resume:
        connection.execute("DELETE FROM generations WHERE id = ?", (known.id,))
        known = written_for(connection, space)
    if known is not None and not (anew and known.current):
        return known
    first = not generations(connection)
    connection.execute(
        "INSERT INTO generations (space, dims, current, canary) VALUES (?, ?, ?, ?)",
        (space_text(space), space.dims, int(first), None if sample is None else sample.tobytes()),
    )
    number = connection.last_insert_rowid()
    if first:
        connection.execute(_ALL_PENDING, (number,))
    return Generation(number, space_text(space), space.dims, int(first), 0)


def sample(connection: apsw.Connection, space: Space, *, building: bool) -> Vector | None:
    """The vector of the fixed text, as the model made it when the generation was begun."""
    order = "current" if building else "current DESC"
    data = connection.execute(
        f"SELECT canary FROM generations WHERE space = ? ORDER BY {order} LIMIT 1",  # noqa: S608
        (space_text(space),),
    ).get
    if data is None:
        return None
    vector = Vector("f")
    vector.frombytes(data)
    return vector


def waiting(connection: apsw.Connection) -> int:
    """How many passages wait for a vector in the current generation."""
    return int(connection.execute(_WAITING).get)


def _target(connection: apsw.Connection, space: Space, *, answering: bool) -> Generation | None:
    """The space's generation to fill: the one that answers searches, or one in the wings first."""
    if not answering:
        return written_for(connection, space)
    found = current(connection)
    return found if found is not None and found.space == space_text(space) else None


def pending(
    connection: apsw.Connection, space: Space, after: Ref, limit: int, *, answering: bool = False
) -> list[Pending]:
    """Passages without a vector in this space's generation, in order of ref."""
    generation = _target(connection, space, answering=answering)
    if generation is None:
        return []
    found = rows(connection, _PENDING, (generation.id, after, limit))
    if len(found) < limit and not generation.current:
        # Everything behind the mark was visited; what was stored since has higher refs.
        first = max(after, generation.filled_to, found[-1][0] if found else 0)
        found += rows(connection, _UNFILLED, (first, limit - len(found)))
    return [Pending(*row) for row in found]


def fill(
    connection: apsw.Connection,
    space: Space,
    found: Sequence[tuple[Ref, Vector | None]],
    upto: Ref | None,
    *,
    answering: bool = False,
) -> int:
    """Write vectors of passages that still exist; ``None`` marks one as keyword-only."""
    generation = _target(connection, space, answering=answering)
    if generation is None:
        return 0
    wanted = json.dumps([ref for ref, _ in found])
    alive = {ref for (ref,) in connection.execute(_ALIVE, (wanted,))}
    patches: dict[Ref, bytes | None] = {}
    for ref, vector in found:
        if ref not in alive:
            continue
        if vector is None:
            connection.execute(UNEMBEDDED, (generation.id, ref, "declined"))
        else:
            patches[ref] = vectors.quantise(vector, generation.dims)
            connection.execute(EMBEDDED, (generation.id, ref))
    vectors.write(connection, generation.id, generation.dims, patches)
    if upto is not None:
        connection.execute(
            "UPDATE generations SET filled_to = max(filled_to, ?) WHERE id = ?",
            (upto, generation.id),
        )
    return len(patches)


def swap(connection: apsw.Connection, space: Space) -> bool:
    """Let this space's generation answer, unless passages were stored that it has not seen."""
    generation = written_for(connection, space)
    if generation is None:
        return False
    if generation.current:
        # What was begun for another space and given up would be kept in step for ever.
        connection.execute("DELETE FROM generations WHERE id <> ?", (generation.id,))
        return True
    unseen = connection.execute(
        "SELECT 1 FROM passages WHERE rowid > ? LIMIT 1", (generation.filled_to,)
    ).get
    if unseen:
        return False
    connection.execute("DELETE FROM generations WHERE id <> ?", (generation.id,))
    connection.execute("UPDATE generations SET current = 1 WHERE id = ?", (generation.id,))
    return True
