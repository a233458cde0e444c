"""What was imported of agents' histories: values by name, inside a caller's transaction."""

import apsw

from plait.stores.sqlite.connection import rows

# How the names of all of them begin.
PREFIX = "history:"
_KEEP = (
    "INSERT INTO histories (name, value) VALUES (?, ?) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
# subtle: a range, because LIKE does not use the index of names
_BEGIN_WITH = "SELECT name, value FROM histories WHERE name >= ? AND name < ?"


def find(connection: apsw.Connection, prefix: str) -> dict[str, str]:
    """Return the values whose names begin with a prefix."""
    listed = rows(connection, _BEGIN_WITH, _range(prefix))
    return {str(name): str(value) for name, value in listed}


def forget(connection: apsw.Connection, prefix: str) -> None:
    """Drop the values whose names begin with a prefix."""
    connection.execute("DELETE FROM histories WHERE name >= ? AND name < ?", _range(prefix))


def _range(prefix: str) -> tuple[str, str]:
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


def keep(connection: apsw.Connection, name: str, value: str | None) -> None:
    """Store a value; ``None`` drops it."""
    if value is None:
        connection.execute("DELETE FROM histories WHERE name = ?", (name,))
    else:
        connection.execute(_KEEP, (name, value))
