"""What was imported of agents' histories: values by name, inside a caller's transaction."""

from plait.stores.postgres.connection import Channel

_KEEP = (
    "INSERT INTO plait.histories (ns, name, value) VALUES (%(ns)s, %(name)s, %(value)s) "
    "ON CONFLICT (ns, name) DO UPDATE SET value = excluded.value"
)
_BEGIN_WITH = (
    "SELECT name, value FROM plait.histories WHERE ns = %(ns)s AND starts_with(name, %(p)s)"
)
_DROP = "DELETE FROM plait.histories WHERE ns = %(ns)s AND name = %(name)s"


def find(session: Channel, prefix: str) -> dict[str, str]:
    """Return the values whose names begin with a prefix."""
    return dict(session.rows(_BEGIN_WITH, p=prefix))


def keep(session: Channel, name: str, value: str | None) -> None:
    """Store a value; ``None`` drops it."""
    if value is None:
        session.execute(_DROP, name=name)
    else:
        session.execute(_KEEP, name=name, value=value)
