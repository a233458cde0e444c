"""A `Filter` as SQL. Conditions that hold for every document of a memory are left out.

Most memories have one project, nothing quarantined and nothing superseded; asking the small
indexes that know this costs microseconds and saves testing every passage.
"""

import json
from itertools import pairwise

import apsw

from plait.stores.sqlite import terms
from plait.times import LAST_MOMENT
from plait.types import Filter

_FOREIGN_BELOW = "SELECT 1 FROM documents WHERE project < ? LIMIT 1"
_FOREIGN_BETWEEN = "SELECT 1 FROM documents WHERE project > ? AND project < ? LIMIT 1"
_FOREIGN_ABOVE = "SELECT 1 FROM documents WHERE project > ? LIMIT 1"
_DISTRUSTED = "SELECT DISTINCT trust FROM documents WHERE trust <> 'trusted'"
_DATED = (
    "SELECT EXISTS (SELECT 1 FROM documents WHERE valid_to IS NOT NULL) "
    "OR EXISTS (SELECT 1 FROM documents WHERE valid_from IS NOT NULL)"
)
_TURNS = (
    "SELECT max(valid_from) FROM documents WHERE valid_from <= ?1 "
    "UNION ALL SELECT max(valid_to) FROM documents WHERE valid_to <= ?1"
)
# The name in `meta` of the last moment at which one fact took the place of another.
LATEST_TURN = "latest_turn"
# The name in `meta` of the next moment at which a profile will no longer say what holds.
PROFILES_DUE = "profiles_due"
BEFORE_ALL = -(2**63)  # no moment that SQLite can hold is earlier

_IN = {
    "kinds": "d.kind IN (SELECT value FROM json_each(?))",
    "memory_types": "d.memory_type IN (SELECT value FROM json_each(?))",
    "types": "d.type IN (SELECT value FROM json_each(?))",
    "keys": "d.key IN (SELECT value FROM json_each(?))",
    "origins": "d.origin IN (SELECT value FROM json_each(?))",
    "parents": "d.parent IN (SELECT value FROM json_each(?))",
    "topics": "d.topic IN (SELECT value FROM json_each(?))",
}
_IS = {"source": "d.source = ?", "session": "d.session = ?"}
_UNTURNED = (
    "(d.kind <> 'entity' OR NOT EXISTS (SELECT 1 FROM documents AS o WHERE o.parent = d.id AND "
    "((o.valid_from > ? AND o.valid_from <= ?) OR (o.valid_to > ? AND o.valid_to <= ?))))"
)
_TAG = "EXISTS (SELECT 1 FROM json_each(d.tags) AS tag WHERE tag.value = ?)"
_METADATA = "EXISTS (SELECT 1 FROM json_each(d.metadata) AS m WHERE m.key = ? AND m.value = ?)"

Clause = tuple[str, list[object]]


def clauses(connection: apsw.Connection, where: Filter, now: int) -> list[Clause]:
    """The conditions on a document ``d`` that are not true of every document anyway."""
    found = _scope(connection, where, now)
    for name, sql in _IN.items():
        values = getattr(where, name)
        if values:
            found.append((sql, [json.dumps(values)]))
    for name, sql in _IS.items():
        value = getattr(where, name)
        if value is not None:
            found.append((sql, [value]))
    found += [(_TAG, [tag]) for tag in where.tags]
    found += [(_METADATA, [name, value]) for name, value in where.metadata]
    for prefix, column in ((where.key_prefix, "d.key"), (where.path_prefix, "d.path")):
        if prefix:
            found.append((f"{column} >= ? AND {column} < ?", [prefix, _after(prefix)]))
    if where.since is not None:
        found.append(("d.event_at >= ?", [where.since]))
    if where.until is not None:
        found.append(("d.event_at < ?", [where.until]))
    return found


def _scope(connection: apsw.Connection, where: Filter, now: int) -> list[Clause]:
    """Project, trust and validity: nearly always asked for, nearly never excluding anything."""
    found: list[Clause] = []
    if where.projects:
        names = sorted({project or "" for project in where.projects})
        if _has_other_projects(connection, names):
            found.append(("d.project IN (SELECT value FROM json_each(?))", [json.dumps(names)]))
    if where.trusts and (
        "trusted" not in where.trusts
        or any(trust not in where.trusts for (trust,) in connection.execute(_DISTRUSTED))
    ):
        found.append(("d.trust IN (SELECT value FROM json_each(?))", [json.dumps(where.trusts)]))
    if where.as_of is not None:
        # A profile says what holds now, whatever moment is asked about.
        found.append(("d.kind <> 'entity'", []))
    if not where.all_versions and connection.execute(_DATED).get:
        asked = present_moment(connection, now) if where.as_of is None else where.as_of
        moment = latest_turn(connection, asked)
        found.append(("(d.valid_from IS NULL OR d.valid_from <= ?)", [moment]))
        found.append(("(d.valid_to IS NULL OR d.valid_to > ?)", [moment]))
    return found


def of_fresh_profiles(connection: apsw.Connection, now: int) -> list[Clause]:
    """The condition that leaves out profiles which say what holds no longer, or not all of it.

    The next write makes them anew; what is said in them is found in the observations until then.
    """
    due = terms.get_meta(connection, PROFILES_DUE)
    moment = now if due is None else present_moment(connection, now)
    if due is None or int(due) > moment:
        return []
    since, until = int(due) - 1, latest_turn(connection, moment)
    return [(_UNTURNED, [since, until, since, until])]


def present_moment(connection: apsw.Connection, now: int) -> int:
    """Now, and never before the last change of truth: clocks are set back, facts are not."""
    return max(now, min(LAST_MOMENT, int(terms.get_meta(connection, LATEST_TURN) or now)))


def latest_turn(connection: apsw.Connection, moment: int) -> int:
    """The last moment until this one at which something began or ceased to be valid.

    Both moments select the same documents, and only this one stays the same between two searches.
    """
    turns = [turn for (turn,) in connection.execute(_TURNS, (moment,)) if turn is not None]
    return max(turns, default=BEFORE_ALL)


def _has_other_projects(connection: apsw.Connection, names: list[str]) -> bool:
    """Whether any document lies outside these projects, by index seeks alone."""
    if not names:
        return True
    if connection.execute(_FOREIGN_BELOW, (names[0],)).get:
        return True
    if connection.execute(_FOREIGN_ABOVE, (names[-1],)).get:
        return True
    return any(connection.execute(_FOREIGN_BETWEEN, pair).get for pair in pairwise(names))


def _after(prefix: str) -> str:
    """The smallest string above every string that starts with this one.

    >>> _after("conv-26/")
    'conv-260'
    """
    code = ord(prefix[-1]) + 1
    if 0xD800 <= code <= 0xDFFF:  # surrogates are not characters and cannot be bound
        code = 0xE000
    return prefix[:-1] + chr(code) if code <= 0x10FFFF else prefix + "\U0010ffff"


def joined(found: list[Clause]) -> tuple[str, list[object]]:
    """All conditions as one SQL expression with its values."""
    if not found:
        return "1", []
    return (
        " AND ".join(sql for sql, _ in found),
        [value for _, values in found for value in values],
    )
