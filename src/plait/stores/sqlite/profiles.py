"""What an entity's one passage says: its name, its type and what is known of it now.

It is put together inside the transaction that changes an observation, so that several processes
writing at once leave one profile that holds what all of them said.
"""

import apsw

from plait.stores.sqlite.rows import rows

PROFILE_CHARS = 2_000
# One long observation must not push all others out.
OBSERVATION_CHARS = 400
# No profile holds more: a thousandth observation is not read to be left out.
MOST_OBSERVATIONS = 200
# Nobody has said how much it matters: between what matters and what does not.
USUAL_IMPORTANCE = 0.5

_CURRENT = (
    "SELECT p.text FROM documents AS d JOIN passages AS p ON p.document = d.rowid "
    "AND p.ordinal = 0 WHERE d.parent = ?1 AND d.kind = 'observation' AND d.trust = 'trusted' "
    "AND (d.valid_from IS NULL OR d.valid_from <= ?2) AND (d.valid_to IS NULL OR d.valid_to > ?2) "
    "ORDER BY d.pinned DESC, coalesce(d.importance, ?3) DESC, d.event_at DESC, d.rowid DESC "
    "LIMIT ?4"
)
_NEXT_TURN = (
    "SELECT min(valid_from) FROM documents WHERE valid_from > ?1 AND parent IS NOT NULL "
    "UNION ALL SELECT min(valid_to) FROM documents WHERE valid_to > ?1 AND parent IS NOT NULL"
)
_TURNED = (
    "SELECT DISTINCT parent FROM documents WHERE parent IS NOT NULL AND "
    "((valid_from > ?1 AND valid_from <= ?2) OR (valid_to > ?1 AND valid_to <= ?2))"
)


def compose(name: str, type_: str | None, observations: list[str]) -> str:
    r"""A profile: the name and type, then one observation a line while there is room.

    >>> compose("Deploy", "process", ["Fridays only", "Ana approves"])
    'Deploy (process)\n- Fridays only\n- Ana approves'
    """
    head = f"{name} ({type_})" if type_ else name
    lines = [head[:PROFILE_CHARS]]
    left = PROFILE_CHARS - len(lines[0])
    for said in observations:
        line = "- " + " ".join(said.split())
        if len(line) > OBSERVATION_CHARS:
            line = line[: OBSERVATION_CHARS - 1] + "…"
        if len(line) < left:
            lines.append(line)
            left -= len(line) + 1
    return "\n".join(lines)


def current_observations(connection: apsw.Connection, entity: str, now: int) -> list[str]:
    """What is trusted and holds now, the most important and the newest first."""
    wanted = (entity, now, USUAL_IMPORTANCE, MOST_OBSERVATIONS)
    return [text for (text,) in rows(connection, _CURRENT, wanted)]


def next_turn(connection: apsw.Connection, now: int) -> int | None:
    """When the next observation of an entity begins or ceases to hold."""
    turns = [turn for (turn,) in rows(connection, _NEXT_TURN, (now,)) if turn is not None]
    return min(turns, default=None)


def turned(connection: apsw.Connection, since: int, now: int) -> list[str]:
    """Entities of which something began or ceased to hold meanwhile."""
    return [entity for (entity,) in rows(connection, _TURNED, (since, now))]
