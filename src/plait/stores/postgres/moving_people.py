"""Take the members of a memory, and who sees which row, into another database.

Labels are made of the number of a memory, so that they are other ones there. A row whose label
belongs to nobody who is known stays hidden from all but the administrator.
"""

from typing import Any

from plait.stores.moving import People
from plait.stores.postgres import fences
from plait.stores.postgres.commits import holding_all
from plait.stores.postgres.connection import Channel, Connections
from plait.stores.postgres.labels import TEAM_LABEL, label_of

_MEMBERS = "SELECT member, role, projects, added_at FROM plait.members WHERE ns = %(ns)s"
# Those that this server has as well.
_OWN_ROLES = (
    "SELECT m.member FROM plait.members AS m JOIN pg_roles AS r ON r.rolname = m.member "
    "WHERE m.ns = %(ns)s AND m.role <> 'former' ORDER BY m.member"
)
_PROJECTS = "SELECT DISTINCT project FROM plait.documents WHERE ns = %(ns)s AND label <> 0"
# What does not get its label from a document, and the document itself; each with its key.
_KEYS = {
    "documents": ("place", "bigint"),
    "trash": ("id", "text"),
    "trashed_relations": ("number", "bigint"),
}
_LABELS = "SELECT {key}, label FROM plait.{table} WHERE ns = %(ns)s AND label <> 0 ORDER BY {key}"
_SET = (
    "UPDATE plait.{table} AS t SET label = v.label "
    "FROM unnest(%(keys)s::{kind}[], %(new)s::bigint[]) AS v (key, label) "
    "WHERE t.ns = %(ns)s AND t.{key} = v.key"
)
_RESET = "UPDATE plait.{table} SET label = 0 WHERE ns = %(ns)s AND label <> 0"
_HISTORIES = "SELECT name, value, label FROM plait.histories WHERE ns = %(ns)s AND label <> 0"
_DROP_HISTORIES = "DELETE FROM plait.histories WHERE ns = %(ns)s AND label <> 0"
_ADD_HISTORY = (
    "INSERT INTO plait.histories (ns, name, value, label) "
    "VALUES (%(ns)s, %(name)s, %(value)s, %(label)s)"
)
# Entries have other numbers there, in the same order.
_ENTRIES = (
    "SELECT r.rank, r.label, r.member FROM (SELECT label, member, "
    "row_number() OVER (ORDER BY number) AS rank FROM plait.audit WHERE ns = %(ns)s) AS r "
    "WHERE r.label <> 0 OR r.member IS NOT NULL"
)
_SET_ENTRIES = (
    "UPDATE plait.audit AS a SET label = v.label, member = v.member "
    "FROM unnest(%(ranks)s::bigint[], %(new)s::bigint[], %(members)s::text[]) "
    "AS v (rank, label, member) JOIN (SELECT number, row_number() OVER (ORDER BY number) AS rank "
    "FROM plait.audit WHERE ns = %(ns)s) AS r ON r.rank = v.rank "
    "WHERE a.ns = %(ns)s AND a.number = r.number"
)
_OF_DOCUMENT = (
    "UPDATE plait.{} AS t SET label = d.label FROM plait.documents AS d WHERE t.ns = %(ns)s "
    "AND d.ns = %(ns)s AND d.place = t.document AND t.label <> d.label"
)
_OF_PASSAGE = (
    "UPDATE plait.{} AS t SET label = p.label FROM plait.passages AS p WHERE t.ns = %(ns)s "
    "AND p.ns = %(ns)s AND p.ref = t.ref AND t.label <> p.label"
)
_OF_BOTH = (
    "UPDATE plait.{} AS t SET label = CASE WHEN a.label = 0 THEN b.label ELSE a.label END "
    "FROM plait.{} AS a JOIN plait.{} AS b ON b.ns = %(ns)s WHERE t.ns = %(ns)s "
    "AND a.ns = %(ns)s AND a.{} = t.{} AND b.{} = t.{}"
)
_DERIVED = (
    *(_OF_DOCUMENT.format(table) for table in ("passages", "tags", "steps")),
    *(_OF_PASSAGE.format(table) for table in ("postings", "unembedded", "signals")),
    _OF_BOTH.format("relations", *["documents"] * 2, "place", "source", "place", "target"),
    _OF_BOTH.format("signal_pairs", *["passages"] * 2, "ref", "one", "ref", "other"),
)
DROP_MEMBERS = "DELETE FROM plait.members WHERE ns = %(ns)s"
ANY_MEMBER = "SELECT 1 FROM plait.members WHERE ns = %(ns)s LIMIT 1"
_ADD_MEMBER = (
    "INSERT INTO plait.members (ns, member, role, projects, added_at) "
    "VALUES (%(ns)s, %(member)s, %(role)s, %(projects)s, %(at)s)"
)


def read(session: Channel) -> People:
    """Return who is there, and who sees what."""
    members = session.rows(_MEMBERS)
    people = [*(row[0] for row in members), session.membership.name]
    projects = [name for row in members for name in row[2]]
    projects += [name for (name,) in session.rows(_PROJECTS)]
    known = [*(("private", name) for name in people), *(("project", name) for name in projects)]
    return People(
        {label_of(session.ns, *pair): pair for pair in known},
        members,
        {
            table: session.rows(_LABELS.format(table=table, key=key))
            for table, (key, _) in _KEYS.items()
        },
        session.rows(_HISTORIES),
        session.rows(_ENTRIES),
    )


def write(session: Channel, people: People, *, has_vectors: bool) -> None:
    """Hide what was hidden, then note the members, in the caller's transaction."""

    def there(label: int) -> int:
        if label == TEAM_LABEL:
            return label
        return label_of(session.ns, *people.names.get(label, ("moved", str(label))))

    for table, (key, kind) in _KEYS.items():
        rows = people.labels[table]
        session.execute(_RESET.format(table=table))
        session.execute(
            _SET.format(table=table, key=key, kind=kind),
            keys=[row[0] for row in rows],
            new=[there(row[1]) for row in rows],
        )
    for sql in (*_DERIVED, *((_OF_PASSAGE.format("embeddings"),) if has_vectors else ())):
        session.execute(sql)
    session.execute(_DROP_HISTORIES)
    for name, value, label in people.histories:
        session.execute(_ADD_HISTORY, name=name, value=value, label=there(label))
    session.execute(
        _SET_ENTRIES,
        ranks=[row[0] for row in people.entries],
        new=[there(row[1]) for row in people.entries],
        members=[row[2] for row in people.entries],
    )
    session.execute(DROP_MEMBERS)
    for member, role, projects, at in people.members:
        values: dict[str, Any] = {"member": member, "role": role, "projects": projects, "at": at}
        session.execute(_ADD_MEMBER, values)


def let_in(connections: Connections) -> None:
    """Give the members of a memory their rights, and fence the tables if they are not yet.

    It takes a transaction of its own, which waits until nobody writes to any memory: fencing locks
    all tables, one after the other, and a writer who locks them in another order would wait for it.
    """
    rewritten: list[str] = []
    with connections.lent() as session:
        connection = session.connection
        with holding_all(connection, connections.timeout):
            if not fences.are_up(connection):
                rewritten = fences.put_up(connection)
            for (member,) in session.rows(_OWN_ROLES):
                fences.grant(connection, member)
        fences.clear(connection, rewritten, connections.timeout)
