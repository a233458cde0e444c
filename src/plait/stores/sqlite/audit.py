"""The audit log: who changed which document, inside a caller's transaction.

It has ids and keyed hashes, never a text. The newest entries are kept. A purge erases those of its
documents.
"""

import json
from collections.abc import Sequence
from itertools import islice
from os import urandom
from typing import Any

import apsw

from plait.stores import recording
from plait.stores.recording import AUDIT_KEY_BYTES, DocumentRow
from plait.stores.sqlite.connection import SQLRow, rows
from plait.stores.sqlite.lookup import BY_ID
from plait.stores.sqlite.state import get_meta, set_meta
from plait.stores.sqlite.tallies import Tallies
from plait.types import Ref
from plait.types.audit import AuditEntry, AuditQuery
from plait.types.ids import SCOPE_PREFIX

# Entries kept: about 2 MB.
MOST_ENTRIES = 10_000
# How often the oldest ones are dropped: each time costs as much as an entry.
TRIMMED_EVERY = 100
# No memory has so many entries in its life: behind the largest number SQLite adds no row at all.
MOST_NUMBERED = 2**53
KEY = "audit_key"  # in ``meta``
_COLUMNS = "at, origin, door, verb, session, project, document, before, after"
_ADD = f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_LISTED = f"SELECT {_COLUMNS} FROM audit WHERE "  # noqa: S608
_NEWEST = " ORDER BY rowid DESC"
_TRIM = "DELETE FROM audit WHERE rowid <= ?"
_ERASE = "DELETE FROM audit WHERE document IN (SELECT value FROM json_each(?))"
_ERASE_PROJECT = "DELETE FROM audit WHERE project = ?"
_JUDGED = (
    "SELECT DISTINCT d.id FROM passages AS p JOIN documents AS d ON d.rowid = p.document "
    "WHERE p.rowid IN (SELECT value FROM json_each(?))"
)
_IN = {
    "documents": "document IN (SELECT value FROM json_each(?))",
    "verbs": "verb IN (SELECT value FROM json_each(?))",
    "doors": "door IN (SELECT value FROM json_each(?))",
    "origins": "origin IN (SELECT value FROM json_each(?))",
}
_OF_PROJECTS = "project IN (SELECT value FROM json_each(?))"
_HOMES = "SELECT document, project FROM audit WHERE document IN (SELECT value FROM json_each(?))"
_LAST_NUMBER = "SELECT max(seq) FROM sqlite_sequence WHERE name = 'audit'"
_FOREIGN_NUMBERS = "DELETE FROM audit WHERE rowid >= ?"
_NUMBER_AGAIN = (
    "UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(rowid), 0) FROM audit) "
    "WHERE name = 'audit'"
)
_UNSCOPED = f"NOT (project >= '{SCOPE_PREFIX}' AND project < '{SCOPE_PREFIX[:-1]};')"
_NONE = type(None)
_TYPES: tuple[Any, ...] = (
    int,
    str,
    str,
    str,
    (str, _NONE),
    str,
    str,
    (bytes, _NONE),
    (bytes, _NONE),
)


class Recorder(recording.Recorder):
    """Collects what one transaction changes; `finish` writes it down, and how many there are."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__()
        self._connection = connection
        # Of these, every change counts, also one that is nobody's doing.
        self.tallies = Tallies()

    def change(self, id_: str, before: DocumentRow | None, after: DocumentRow | None) -> None:
        """Note a document as it was and as it is; ``None`` where there is none."""
        self.tallies.move(before, after)
        super().change(id_, before, after)

    def finish(self, now: int) -> None:
        """Write the entries, and how many documents there are now."""
        self.tallies.finish(self._connection)
        super().finish(now)

    def _key(self) -> bytes:
        return key_of(self._connection)

    def _row(self, id_: str) -> DocumentRow | None:
        row = self._connection.execute(BY_ID, (id_,)).fetchone()
        return row and row[1:]

    def _owners(self, refs: Sequence[Ref]) -> list[str]:
        return [id_ for (id_,) in rows(self._connection, _JUDGED, (json.dumps(list(refs)),))]

    def _homes(self, ids: Sequence[str]) -> dict[str, str]:
        known = rows(self._connection, _HOMES, (json.dumps(list({*ids})),))
        return {id_: home for id_, home in known if isinstance(home, str)}

    def _erase(self, ids: Sequence[str]) -> None:
        erase(self._connection, ids)

    def _write(self, entries: Sequence[AuditEntry]) -> None:
        write(self._connection, entries)


def key_of(connection: apsw.Connection) -> bytes:
    """Return the key of a memory, which its first entry makes."""
    kept = get_meta(connection, KEY)
    if kept is None or not is_key(kept):
        kept = urandom(AUDIT_KEY_BYTES).hex()
        set_meta(connection, KEY, kept)
    return bytes.fromhex(kept)


def is_key(text: str) -> bool:
    """Tell whether a value can be the key of a memory."""
    return len(text) == 2 * AUDIT_KEY_BYTES and not set(text) - set("0123456789abcdef")


def write(connection: apsw.Connection, entries: Sequence[AuditEntry]) -> None:
    """Add entries, and drop the oldest ones now and then."""
    number = connection.execute(_LAST_NUMBER).get
    if isinstance(number, int) and number >= MOST_NUMBERED:
        connection.execute(_FOREIGN_NUMBERS, (MOST_NUMBERED,))
        connection.execute(_NUMBER_AGAIN)
    # A file has one person, and so no members.
    of_file = [row if row.project else row._replace(project="") for row in entries]
    connection.executemany(_ADD, [row[: len(_TYPES)] for row in of_file])
    last = connection.last_insert_rowid()
    if last % TRIMMED_EVERY < len(entries):
        connection.execute(_TRIM, (last - MOST_ENTRIES,))


def erase(connection: apsw.Connection, ids: Sequence[str]) -> None:
    """Drop the entries of documents."""
    connection.execute(_ERASE, (json.dumps(list(ids)),))


def erase_project(connection: apsw.Connection, project: str) -> None:
    """Drop all entries of a project."""
    connection.execute(_ERASE_PROJECT, (project,))


def find(connection: apsw.Connection, wanted: AuditQuery, limit: int) -> list[AuditEntry]:
    """Return entries, the newest first; damaged ones are left out."""
    conditions, values = ["1"], list[object]()
    for name, sql in _IN.items():
        chosen = getattr(wanted, name)
        if chosen:
            conditions.append(sql)
            values.append(json.dumps(list(chosen)))
    if wanted.projects is not None:
        conditions.append(_OF_PROJECTS)
        values.append(json.dumps([project or "" for project in wanted.projects]))
    elif not wanted.scopes:
        conditions.append(_UNSCOPED)
    for column, value in (("session = ?", wanted.session), ("at >= ?", wanted.since)):
        if value is not None:
            conditions.append(column)
            values.append(value)
    listed = connection.execute(_LISTED + " AND ".join(conditions) + _NEWEST, values)
    return [_entry(row) for row in islice(filter(is_sound, listed), limit)]


def is_sound(row: Sequence[object]) -> bool:
    """Tell whether plait can have written a row."""
    return all(isinstance(value, kind) for value, kind in zip(row, _TYPES, strict=True))


def _entry(row: SQLRow) -> AuditEntry:
    entry = AuditEntry(*row)
    return entry._replace(project=entry.project or None)
