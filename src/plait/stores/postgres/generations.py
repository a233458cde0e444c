"""Fill in vectors: a new space is built beside the current one, then replaces it."""

from collections.abc import Sequence

from plait.errors import EmbedderError
from plait.protocols import Unembedded, Vector
from plait.stores.postgres import vectors
from plait.stores.postgres.connection import Channel
from plait.stores.postgres.documents import JOINED
from plait.stores.postgres.labels import refuse_member
from plait.stores.postgres.state import answering, generations
from plait.stores.sqlite.state import Generation, space_text
from plait.stores.sqlite.vectors import quantise
from plait.types import Ref, Space

UNEMBEDDED = (
    "INSERT INTO plait.unembedded (ns, generation, ref, reason, label) "
    "SELECT %(ns)s, u.generation, u.ref, u.reason, p.label "
    "FROM unnest(%(generations)s::bigint[], %(refs)s::bigint[], %(reasons)s::text[]) "
    "AS u (generation, ref, reason) JOIN plait.passages AS p ON p.ns = %(ns)s AND p.ref = u.ref "
    "ON CONFLICT (ns, generation, ref, label) DO UPDATE SET reason = excluded.reason"
)
EMBEDDED = (
    "DELETE FROM plait.unembedded WHERE ns = %(ns)s AND generation = %(generation)s "
    "AND ref = ANY(%(refs)s)"
)
_ALL_PENDING = (
    "INSERT INTO plait.unembedded (ns, generation, ref, reason, label) SELECT %(ns)s, "
    "%(generation)s, p.ref, 'pending', p.label FROM plait.passages AS p WHERE p.ns = %(ns)s"
)
_SEEN = f"SELECT p.ref, d.title, p.heading, p.text FROM {JOINED} AND "  # noqa: S608
_PENDING = (
    "p.ref IN (SELECT u.ref FROM plait.unembedded AS u WHERE u.ns = %(ns)s "
    "AND u.generation = %(generation)s AND u.reason = 'pending') "
    "AND (%(project)s::text IS NULL OR d.project = %(project)s) ORDER BY p.ref LIMIT %(limit)s"
)
_ADD = (
    "INSERT INTO plait.generations (ns, id, space, dims, current, canary) "
    "VALUES (%(ns)s, %(id)s, %(space)s, %(dims)s, %(current)s, %(canary)s)"
)
_IS_PENDING = (
    "SELECT 1 FROM plait.unembedded WHERE ns = %(ns)s AND generation = %(generation)s "
    "AND reason = 'pending' LIMIT 1"
)


def drop(session: Channel, ids: Sequence[int], *, has_vectors: bool) -> None:
    """Drop generations with their vectors."""
    tables = ["unembedded", "embeddings"] if has_vectors else ["unembedded"]
    for table in tables:
        session.execute(
            f"DELETE FROM plait.{table} WHERE ns = %(ns)s AND generation = ANY(%(ids)s)",  # noqa: S608
            ids=list(ids),
        )
    sql = "DELETE FROM plait.generations WHERE ns = %(ns)s AND id = ANY(%(ids)s)"
    session.execute(sql, ids=list(ids))


def latest(session: Channel, space: Space) -> Generation | None:
    """Return the generation of this space to fill: one being built before the current one."""
    name = space_text(space)
    matching = [row for row in generations(session) if row.space == name]
    return matching[-1] if matching else None


def begin(
    session: Channel,
    space: Space,
    *,
    has_vectors: bool,
    afresh: bool = False,
    sample: Vector | None = None,
    resume: bool = True,
) -> Generation:
    """Return the generation of this space, created if needed, with its model's sample.

    Every passage is pending in a new one. Searches use the first generation of a memory at once, a
    later one after `swap`.

    Raises:
        EmbedderError: The length of the vectors is not known yet.
        StoreError: A member would replace vectors, of which it sees only some.
    """
    if not space.dims:
        raise EmbedderError(
            f"The length of the vectors of {space} is not known yet.", code="unknown_dims"
        )
    known = latest(session, space)
    if known is not None and not known.current and not resume:
        refuse_member(session.membership, "replace vectors")
        drop(session, [known.id], has_vectors=has_vectors)
        known = latest(session, space)
    if known is not None and not (afresh and known.current):
        return known
    others = generations(session)
    if others:
        refuse_member(session.membership, "replace vectors")
    data = None if sample is None else sample.tobytes()
    number = 1 + max((row.id for row in others), default=0)
    made = Generation(number, space_text(space), space.dims, int(not others), data)
    session.execute(
        _ADD, id=number, space=made.space, dims=made.dims, current=made.current, canary=data
    )
    session.execute(_ALL_PENDING, generation=number)
    return made


def _target(session: Channel, space: Space, *, building: bool) -> Generation | None:
    return latest(session, space) if building else answering(session, space)


def pending(
    session: Channel, space: Space, limit: int, *, building: bool, project: str | None
) -> list[Unembedded]:
    """Return passages without a vector in this space's generation, of all projects or of one."""
    generation = _target(session, space, building=building)
    if generation is None:
        return []
    values = {"generation": generation.id, "project": project, "limit": limit}
    return [Unembedded(*row) for row in session.rows(_SEEN + _PENDING, values)]


def fill(
    session: Channel,
    space: Space,
    made: Sequence[tuple[Unembedded, Vector | None]],
    *,
    building: bool,
) -> int:
    """Write vectors of passages that are still the same; ``None`` marks one as keyword-only."""
    generation = _target(session, space, building=building)
    if generation is None:
        return 0
    refs = [row.ref for row, _ in made]
    present = {Unembedded(*row) for row in session.rows(_SEEN + "p.ref = ANY(%(refs)s)", refs=refs)}
    rows: dict[Ref, bytes | None] = {}
    declined: list[Ref] = []
    for row, vector in made:
        if row not in present:
            continue
        if vector is None:
            declined.append(row.ref)
        else:
            rows[row.ref] = quantise(vector, generation.dims)
    if declined:
        note(session, [(generation.id, ref, "declined") for ref in declined])
    vectors.write(session, generation.id, rows)
    session.execute(EMBEDDED, generation=generation.id, refs=list(rows))
    return len(rows)


def note(session: Channel, rows: Sequence[tuple[int, Ref, str]]) -> None:
    """Note passages that have no vector in a generation, and why."""
    session.execute(
        UNEMBEDDED,
        generations=[row[0] for row in rows],
        refs=[row[1] for row in rows],
        reasons=[row[2] for row in rows],
    )


def swap(session: Channel, space: Space, *, has_vectors: bool) -> bool:
    """Make this space's generation current, unless passages are pending in it; drop the others."""
    listed = [row.id for row in generations(session)]
    if not space.dims:
        drop(session, listed, has_vectors=has_vectors)  # without an embedder there are no vectors
        return True
    generation = latest(session, space)
    if generation is None:
        return False
    if not generation.current and session.value(_IS_PENDING, generation=generation.id):
        return False
    drop(session, [id_ for id_ in listed if id_ != generation.id], has_vectors=has_vectors)
    sql = "UPDATE plait.generations SET current = 1 WHERE ns = %(ns)s AND id = %(id)s"
    session.execute(sql, id=generation.id)
    return True
