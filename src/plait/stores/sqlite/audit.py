"""The audit log: who changed which document, inside a caller's transaction.

It has ids and keyed hashes, never a text. The newest entries are kept. A purge erases those of its
documents.
"""

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import islice
from os import urandom
from typing import Any

import apsw

from plait.stores.sqlite.connection import SQLRow, rows
from plait.stores.sqlite.documents import BY_ID, FIELDS
from plait.stores.sqlite.state import get_meta, set_meta
from plait.stores.sqlite.tallies import Tallies
from plait.types import Ref
from plait.types.audit import ACTORS, UNDO, AuditEntry, AuditQuery, caller
from plait.types.ids import SCOPE_PREFIX
from plait.types.relations import Relation

# Entries kept: about 2 MB.
MOST_ENTRIES = 10_000
# How often the oldest ones are dropped: each time costs as much as an entry.
TRIMMED_EVERY = 100
# No memory has so many entries in its life: behind the largest number SQLite adds no row at all.
MOST_NUMBERED = 2**53
KEY = "audit_key"  # in ``meta``
AUDIT_KEY_BYTES = 32
HASH_BYTES = 16
# The columns of a document, in the order of `FIELDS`.
DocumentRow = Sequence[Any]
# What changes with every reading of the same text.
_VOLATILE = tuple(map(FIELDS.index, ("updated_at", "indexed_at", "mtime", "chunk_count")))
_SESSION, _PROJECT, _IMPORTANCE = map(FIELDS.index, ("session", "project", "importance"))
_ORIGIN = FIELDS.index("origin")
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


class Hashes:
    """Hashes values with the key of a memory, which its first entry makes."""

    def __init__(self, connection: apsw.Connection) -> None:
        kept = get_meta(connection, KEY)
        if kept is None or not _is_key(kept):
            kept = urandom(AUDIT_KEY_BYTES).hex()
            set_meta(connection, KEY, kept)
        self._key = bytes.fromhex(kept)

    def of(self, *parts: object) -> bytes:
        """Return the hash of some values."""
        data = repr(parts).encode("utf-8", "surrogatepass")
        return blake2b(data, key=self._key, digest_size=HASH_BYTES).digest()

    def of_row(self, row: DocumentRow | None) -> bytes | None:
        """Return the hash of a document, in which its text counts by its own hash."""
        if row is None:
            return None
        plain = list(row)
        for place in _VOLATILE:
            plain[place] = 0
        if isinstance(plain[_IMPORTANCE], int):
            plain[_IMPORTANCE] = float(plain[_IMPORTANCE])  # as SQLite returns it
        return self.of(plain)


def _is_key(text: str) -> bool:
    return len(text) == 2 * AUDIT_KEY_BYTES and not set(text) - set("0123456789abcdef")


class Recorder:
    """Collects what one transaction changes; `finish` writes it down.

    Several changes of one document are one entry: as it was before them, and as it is after.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._rows: dict[str, tuple[DocumentRow | None, DocumentRow | None]] = {}
        self._marks: list[tuple[str, tuple[object, ...], bool]] = []
        self._origins: dict[str, str] = {}
        self._purged: dict[str, int] = {}
        # Of these, every change counts, also one that is nobody's doing.
        self.tallies = Tallies()

    def change(self, id_: str, before: DocumentRow | None, after: DocumentRow | None) -> None:
        """Note a document as it was and as it is; ``None`` where there is none."""
        self.tallies.move(before, after)
        first, _ = self._rows.get(id_, (before, None))
        self._rows[id_] = (first, after)

    def wrote(self, id_: str, origin: str) -> None:
        """Note whose text was written: what it replaces is that one's doing, too."""
        self._origins[id_] = origin

    def relate(self, edge: Relation, *, dropped: bool = False) -> None:
        """Note for both of its ends that an edge was written or deleted."""
        for id_ in dict.fromkeys((edge.source_id, edge.target_id)):
            self._marks.append((id_, edge, dropped))

    def judge(self, refs: Sequence[Ref], good: int, wrong: int) -> None:
        """Note feedback on passages for their documents."""
        for (id_,) in rows(self._connection, _JUDGED, (json.dumps(list(refs)),)):
            self._marks.append((id_, (good, wrong), not (good or wrong)))

    def purge(self, ids: Sequence[str]) -> None:
        """Erase all that is known of some documents; that a project had some is noted."""
        gone = {*ids}
        known = rows(self._connection, _HOMES, (json.dumps(list(gone)),))
        homes = {id_: home for id_, home in known if isinstance(home, str)}
        for id_, pair in self._rows.items():
            row = pair[1] or pair[0]
            if id_ in gone and row is not None:
                homes[id_] = row[_PROJECT]
        erase(self._connection, ids)
        self._rows = {id_: pair for id_, pair in self._rows.items() if id_ not in gone}
        self._marks = [mark for mark in self._marks if mark[0] not in gone]
        for id_ in gone:
            home = homes.get(id_, "")
            self._purged[home] = self._purged.get(home, 0) + 1

    def finish(self, now: int) -> None:
        """Write the entries, and how many documents there are now."""
        self.tallies.finish(self._connection)
        if self._rows or self._marks or self._purged:
            entries = list(self._entries(now))
            if entries:
                write(self._connection, entries)

    def _entries(self, now: int) -> Iterable[AuditEntry]:
        hashes, act = Hashes(self._connection), caller()
        origins = {} if act.verb == UNDO else self._origins
        who = next(iter(origins.values()), ACTORS[act.door])
        base = AuditEntry(now, who, act.door, act.verb or "write")
        for id_, (first, last) in self._rows.items():
            before, after = hashes.of_row(first), hashes.of_row(last)
            if before != after:
                own = base._replace(origin=origins.get(id_, who))
                yield _about(own, id_, last or first, before, after, act.session)
        for id_, values, dropped in self._marks:
            mark = hashes.of(*values)
            row = self._connection.execute(BY_ID, (id_,)).fetchone()
            before, after = (mark, None) if dropped else (None, mark)
            yield _about(base, id_, row and row[1:], before, after, act.session)
        # Of a user who is erased nothing stays, the name and the session included.
        is_known = act.verb != "erase"
        for home, count in self._purged.items():
            purge = base._replace(verb="purge", after=hashes.of(count))
            yield purge._replace(session=act.session, project=home) if is_known else purge


def _about(
    base: AuditEntry,
    id_: str,
    row: DocumentRow | None,
    before: bytes | None,
    after: bytes | None,
    session: str | None,
) -> AuditEntry:
    own, project = (None, "") if row is None else (row[_SESSION], row[_PROJECT])
    return base._replace(
        session=session or own, project=project, document=id_, before=before, after=after
    )


def write(connection: apsw.Connection, entries: Sequence[AuditEntry]) -> None:
    """Add entries, and drop the oldest ones now and then."""
    number = connection.execute(_LAST_NUMBER).get
    if isinstance(number, int) and number >= MOST_NUMBERED:
        connection.execute(_FOREIGN_NUMBERS, (MOST_NUMBERED,))
        connection.execute(_NUMBER_AGAIN)
    connection.executemany(_ADD, [row._replace(project=row.project or "") for row in entries])
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
