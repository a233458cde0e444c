"""The state of a memory: its facts and the spaces of its vectors."""

from collections.abc import Sequence

from plait.errors import Notice, StoreError, advise
from plait.protocols import State
from plait.stores.postgres.connection import Channel, SQLRow, SQLStatement
from plait.stores.sqlite.state import (
    CHANCE,
    CHANGED_AT,
    MOVING,
    PROFILES_DUE,
    PURGED,
    RETIRED_KEY,
    UNSCRUBBED,
    Generation,
    read_chance,
    space_text,
)
from plait.types import Space
from plait.types.queries import Chance

NO_VECTORS = Notice(
    "The database lacks the extension vector (pgvector 0.7 or newer): it is searched by keywords.",
    "no_vector_extension",
    advice=advise("add_vectors"),
)
_STATE = (
    # subtle: one list of pairs; two lists may come in two orders, of the table and of its index.
    "SELECT n.passages, "
    "(SELECT array_agg(ARRAY[f.name, f.value]) FROM plait.facts AS f WHERE f.ns = %(ns)s), "
    "(SELECT max(d.indexed_at) FROM plait.documents AS d WHERE d.ns = %(ns)s), "
    "EXISTS (SELECT 1 FROM plait.documents AS d WHERE d.ns = %(ns)s AND d.turn IS NOT NULL), "
    "(SELECT count(*) FROM plait.unembedded AS u JOIN plait.generations AS g "
    "ON g.ns = %(ns)s AND g.id = u.generation AND g.current = 1 "
    "WHERE u.ns = %(ns)s AND u.reason = 'pending') "
    "FROM plait.namespaces AS n WHERE n.ns = %(ns)s"
)
GENERATIONS = (
    "SELECT id, space, dims, current, canary FROM plait.generations WHERE ns = %(ns)s "
    "ORDER BY current DESC, id"
)
OF_STATE: tuple[SQLStatement, ...] = ((_STATE, {}), (GENERATIONS, {}))
_SET = (
    "INSERT INTO plait.facts (ns, name, value) VALUES (%(ns)s, %(name)s, %(value)s) "
    "ON CONFLICT (ns, name) DO UPDATE SET value = excluded.value"
)


def generations(session: Channel) -> list[Generation]:
    """Return all generations, the current one first."""
    return [Generation(*row) for row in session.rows(GENERATIONS)]


def answering(session: Channel, space: Space | None = None) -> Generation | None:
    """Return the current generation, only if it is of this space."""
    return current_of(session.rows(GENERATIONS), space)


def current_of(rows: Sequence[SQLRow], space: Space | None) -> Generation | None:
    """Return the current one of `GENERATIONS`, only if it is of this space."""
    current = next((row for row in (Generation(*row) for row in rows) if row.current), None)
    if current is None or space is None or current.space == space_text(space):
        return current
    return None


def get_fact(session: Channel, name: str) -> str | None:
    """Return a value about the memory."""
    sql = "SELECT value FROM plait.facts WHERE ns = %(ns)s AND name = %(name)s"
    value: str | None = session.value(sql, name=name)
    return value


def set_fact(session: Channel, name: str, value: str | None) -> None:
    """Store a value about the memory; ``None`` drops it."""
    if value is None:
        session.execute("DELETE FROM plait.facts WHERE ns = %(ns)s AND name = %(name)s", name=name)
    else:
        session.execute(_SET, name=name, value=value)


def set_chance(session: Channel, chance: Chance, space: Space) -> None:
    """Store what chance finds among the vectors of a space."""
    from json import dumps

    set_fact(session, CHANCE, dumps([*chance, *space], ensure_ascii=False))


def read_state(session: Channel, analyzer: str, *, has_vectors: bool) -> State:
    """Return the state of the memory."""
    return state_of(session.together(*OF_STATE), analyzer, has_vectors=has_vectors)


def state_of(answers: Sequence[Sequence[SQLRow]], analyzer: str, *, has_vectors: bool) -> State:
    """Return the answers to `OF_STATE` as a value."""
    rows, listed = answers
    if not rows:
        raise StoreError("The memory is not there any more.", code="no_memory")
    [row] = rows
    passages, pairs, indexed_at, has_messages, pending = row
    facts: dict[str, str] = dict(pairs or ())
    if MOVING in facts:
        from plait.stores.moving import refuse_half_moved

        refuse_half_moved(facts[MOVING])
    spaces = [Generation(*row) for row in listed]
    current = next((row for row in spaces if row.current), None)
    building = next((row for row in reversed(spaces) if not row.current), None)
    changed, due = facts.get(CHANGED_AT), facts.get(PROFILES_DUE)
    space = None if current is None else current.named
    return State(
        analyzer=analyzer,
        indexed_by=facts.get("analyzer"),
        chunker=facts.get("chunker"),
        embedder=facts.get("embedder"),
        space=space,
        sample=None if current is None else current.sample_vector,
        building=None if building is None else building.named,
        building_sample=None if building is None else building.sample_vector,
        pending=pending,
        indexed_at=indexed_at,
        changed_at=None if changed is None else int(changed),
        profiles_due=None if due is None else int(due),
        has_messages=has_messages,
        passages=passages,
        chance=read_chance(facts.get(CHANCE), space),
        purged=facts.get(PURGED),
        unscrubbed=facts.get(UNSCRUBBED),
        retired=facts.get(RETIRED_KEY),
        vectorless=None if has_vectors else NO_VECTORS,
        remote=True,
    )
