"""Compare tables, indexes, triggers and views with those that plait makes.

A file may be somebody else's: a trigger in it would change what its reader stores later. Loaded
only to check, repair and restore, and to name what is foreign before a write.
"""

import apsw

from plait.errors import quoted
from plait.stores.sqlite import schema
from plait.stores.sqlite.journal import mark_changed
from plait.stores.sqlite.keyword import KEYWORD_TABLES
from plait.stores.sqlite.state import made_objects
from plait.types.records import NamedTuple


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
    own, present = own_objects(), _objects(connection)
    listed = []
    for name, kind, sql in present:
        own_kind, own_sql = own.get(name, ("", None))
        if (kind, sql) != (own_kind, own_sql):
            # A trigger may have the name of a table, and is not in its place.
            replaces = (kind == "trigger") == (own_kind == "trigger")
            listed.append(Difference(name, kind, own_sql if replaces else None, present=True))
    names = {(name, kind == "trigger") for name, kind, _ in present}
    return listed + [
        Difference(name, kind, sql, present=False)
        for name, (kind, sql) in own.items()
        if (name, kind == "trigger") not in names and name not in KEYWORD_TABLES
    ]


def own_objects() -> dict[str, tuple[str, str]]:
    """Return type and SQL of what a new memory has, by name."""
    fresh = apsw.Connection(":memory:")
    try:
        schema.migrate(fresh)
        return {name: (kind, sql) for name, kind, sql in _objects(fresh)}
    finally:
        fresh.close()


def _objects(connection: apsw.Connection) -> list[tuple[str, str, str]]:
    """Return name, type and SQL of what is not SQLite's own.

    A name that begins like SQLite's protects neither a trigger nor a view.
    """
    return [
        (name, kind, sql)
        for name, kind, _, sql in made_objects(connection)
        if kind in ("trigger", "view") or not name.startswith("sqlite_")
    ]


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
