"""What was imported of agents' histories: values by name, inside a caller's transaction.

Each member has its own, because it imports from its own machine.
"""

from plait.stores.postgres.connection import Channel, SQLStatement
from plait.stores.postgres.filters import Conditions
from plait.types.ids import IMPORTED_SESSION

_KEEP = (
    "INSERT INTO plait.histories (ns, name, value, label) "
    "VALUES (%(ns)s, %(name)s, %(value)s, %(label)s) "
    "ON CONFLICT (ns, name, label) DO UPDATE SET value = excluded.value"
)
_BEGIN_WITH = (
    "SELECT name, value FROM plait.histories WHERE ns = %(ns)s AND label = %(label)s "
    "AND starts_with(name, %(p)s)"
)
# Imported sessions that begin so, and whether any document of each meets conditions.
_SESSIONS = (
    "SELECT s.session, EXISTS (SELECT 1 FROM plait.documents AS d WHERE d.session = s.session "  # noqa: S608
    f"AND {{conditions}}) FROM (SELECT substr(h.name, {len(IMPORTED_SESSION) + 1}) AS session "
    "FROM plait.histories AS h WHERE h.ns = %(ns)s AND h.label = %(label)s "
    "AND starts_with(h.name, %(p)s)) AS s"
)
_DROP = "DELETE FROM plait.histories WHERE ns = %(ns)s AND label = %(label)s AND name = %(name)s"


def find(session: Channel, prefix: str) -> dict[str, str]:
    """Return the values whose names begin with a prefix."""
    return dict(session.rows(_BEGIN_WITH, p=prefix, label=session.membership.personal))


def sessions(name: str, label: int, where: Conditions) -> SQLStatement:
    """Return the statement for the imported sessions that begin like a name."""
    values = {"p": f"{IMPORTED_SESSION}{name}", "label": label}
    return where.stated(_SESSIONS), {**where.values, **values}


def keep(session: Channel, name: str, value: str | None) -> None:
    """Store a value; ``None`` drops it."""
    own = session.membership.personal
    if value is None:
        session.execute(_DROP, name=name, label=own)
    else:
        session.execute(_KEEP, name=name, value=value, label=own)
