"""Compare tables, indexes, triggers and views with those that plait makes.

A file may be somebody else's: a trigger in it would change what its reader stores later. Loaded
only to check, repair and restore, and to name what is foreign before a write.
"""

import apsw

from plait.errors import quoted
from plait.stores.sqlite import schema
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.journal import mark_changed
from plait.stores.sqlite.keyword import KEYWORD_TABLES
from plait.types.records import NamedTuple

_OBJECTS = "SELECT name, type, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite^_%' ESCAPE '^'"
# A name that begins like SQLite's own protects neither a trigger nor a view.
_OBJECTS += " OR type IN ('trigger', 'view')"


class Difference(NamedTuple):
    """One object that is missing, foreign or altered; ``own`` is plait's SQL for it."""

    name: str
    type: str
    own: str | None
    present: bool

    @property
    def is_table(self) -> bool:
        """Tell whether it has rows of its own, which a repair must not touch."""
        return self.type == "table"

    def __str__(self) -> str:
        """Return what it is, in words."""
        if not self.present:
            return f"the {self.type} {self.name} is missing"
        return f"the {self.type} {quoted(self.name)} is not plait's"


def differences(connection: apsw.Connection) -> list[Difference]:
    """Return what the schema has too much, too little or otherwise.

    The tables of the keyword index are left out if they are missing: it is checked by itself.
    """
    own = own_objects()
    present = _objects(connection)
    listed = [
        Difference(name, kind, own[name][1] if name in own else None, present=True)
        for name, (kind, sql) in present.items()
        if own.get(name) != (kind, sql)
    ]
    return listed + [
        Difference(name, kind, sql, present=False)
        for name, (kind, sql) in own.items()
        if name not in present and name not in KEYWORD_TABLES
    ]


def own_objects() -> dict[str, tuple[str, str]]:
    """Return type and SQL of what a new memory has, by name."""
    fresh = apsw.Connection(":memory:")
    try:
        schema.migrate(fresh)
        return _objects(fresh)
    finally:
        fresh.close()


def _objects(connection: apsw.Connection) -> dict[str, tuple[str, str]]:
    return {str(name): (str(kind), str(sql)) for name, kind, sql in rows(connection, _OBJECTS)}


def mend(connection: apsw.Connection, listed: list[Difference]) -> None:
    """Drop what is foreign and make what is missing; tables stay. Call in a write transaction."""
    repaired = [difference for difference in listed if not difference.is_table]
    for difference in repaired:
        if difference.present:
            name = difference.name.replace('"', '""')
            connection.execute(f'DROP {difference.type} IF EXISTS "{name}"')
    for difference in repaired:
        if difference.own is not None:
            connection.execute(difference.own)
    mark_changed(connection)
