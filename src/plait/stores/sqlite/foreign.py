"""Refuse to write into tables that somebody else altered.

A constraint acts like a trigger: ``ON CONFLICT REPLACE`` deletes one note when another is stored.
Loaded by the first write; reading is not affected.
"""

from collections.abc import Collection, Mapping
from hashlib import sha256
from weakref import WeakKeyDictionary

import apsw

from plait.errors import StoreDamaged, advise, quoted
from plait.stores.sqlite.connection import SCHEMA_VERSION, rows, version_of
from plait.stores.sqlite.failures import too_new
from plait.stores.sqlite.keyword import KEYWORD_TABLES
from plait.stores.sqlite.state import made_objects, refuse_foreign_sequence

# Of what plait makes, without the keyword index, which can be made again from the passages.
OWN_SCHEMA = "f1d8adb0a73ecf607938b1473833514a4ff6fee6366430b1a3673fb4d641cb5b"
_LEFT_OUT = ("sqlite_sequence", "sqlite_stat1", "sqlite_stat4", *KEYWORD_TABLES)
# By the version that SQLite itself goes by: it reads a schema again only when that has changed.
_PROVEN: WeakKeyDictionary[apsw.Connection, int] = WeakKeyDictionary()
# No table gets there. Behind the last number that SQLite has, it reports a full disk.
LAST_ROW = 1 << 53
_LAST_ROWS = "SELECT seq FROM sqlite_sequence"
_PARENTS = 'SELECT "table" FROM pragma_foreign_key_list(?)'


def schema_mark(connection: apsw.Connection) -> str:
    """Return a mark of tables, indexes, triggers and views."""
    return sha256(repr(_made(connection)).encode("utf-8", "surrogatepass")).hexdigest()


def _made(connection: apsw.Connection) -> list[tuple[str, str, str, str]]:
    # A trigger may have the name of a table.
    made = made_objects(connection)
    return sorted(row for row in made if row[0] not in _LEFT_OUT or row[1] == "trigger")


def refuse_altered_tables(connection: apsw.Connection, path: str) -> None:
    """Refuse a schema that changes or forbids what plait writes. Call inside a transaction.

    Other programs' tables and views may stay: tools for backups keep some.

    Raises:
        SchemaTooNew: A newer plait has migrated the file since this process opened it.
        StoreDamaged: A table is altered, or another program's table refers to one of plait's.
        apsw.CorruptError: An index, trigger or view is not plait's, or a trigger is missing; or
            there is no number for a new row.
    """
    version = connection.execute("PRAGMA schema_version").get
    if _PROVEN.get(connection) == version:
        return
    _refuse_last_rows(connection)
    if schema_mark(connection) == OWN_SCHEMA:
        _PROVEN[connection] = version
        return
    refuse_newer(connection, path)
    from plait.stores.sqlite.objects import own_objects

    own = own_objects()
    made = _made(connection)
    _refuse_missing_triggers(own, [name for name, *_ in made])
    for name, kind, table, sql in made:
        if own.get(name) == (kind, sql):
            continue
        if kind == "table" and name.lower() in own:
            raise _refusal(path, f"its table {quoted(name)} was altered")
        touched = {table.lower()}
        if kind == "table":
            touched = {str(parent).lower() for (parent,) in rows(connection, _PARENTS, (name,))}
        if kind == "trigger" or not touched.isdisjoint(own):
            problem = f"its {kind} {quoted(name)} is not plait's"
            if kind == "table":
                raise _refusal(path, f"{problem} and refers to plait's tables")
            if name.lower().startswith("sqlite_"):  # SQLite removes nothing of that name
                raise _refusal(path, problem)
            raise apsw.CorruptError(problem)


def _refuse_last_rows(connection: apsw.Connection) -> None:
    refuse_foreign_sequence(connection)
    if not all(is_last_row(number) for (number,) in rows(connection, _LAST_ROWS)):
        raise apsw.CorruptError("the number of a last row cannot be read")


def is_last_row(number: object) -> bool:
    """Tell whether a value can be the number of a table's latest row."""
    return isinstance(number, int) and number <= LAST_ROW


def _refuse_missing_triggers(own: Mapping[str, tuple[str, str]], made: Collection[str]) -> None:
    """Refuse to write what its words or tags would not find.

    An older plait that is still running drops triggers that it does not know, if told to repair.
    """
    for name in sorted(own.keys() - set(made)):
        if own[name][0] == "trigger":
            raise apsw.CorruptError(f"its trigger {quoted(name)} is missing")


def refuse_newer(connection: apsw.Connection, path: str) -> None:
    """Refuse a file that a newer plait has migrated since it was opened.

    Raises:
        SchemaTooNew: It has.
    """
    version = version_of(connection)
    if version > SCHEMA_VERSION:
        raise too_new(path, version, SCHEMA_VERSION)


def _refusal(path: str, problem: str) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is damaged ({problem}). It can be read, but nothing is written to it.",
        subject=path,
        advice=advise("salvage", path=path),
    )
