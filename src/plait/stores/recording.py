"""What one transaction changes, as entries of the audit log; engines read and write the rows.

An entry has ids and keyed hashes, never a text.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from plait.types import Document, Ref
from plait.types.audit import ACTORS, UNDO, AuditEntry, caller
from plait.types.relations import Relation

AUDIT_KEY_BYTES = 32
HASH_BYTES = 16
# The columns of a document without its text, in the order of its fields.
DocumentRow = Sequence[Any]
_FIELDS = [name for name in Document._fields if name != "text"]
# What changes with every reading of the same text.
_VOLATILE = tuple(map(_FIELDS.index, ("updated_at", "indexed_at", "mtime", "chunk_count")))
_SESSION, _PROJECT, _IMPORTANCE = map(_FIELDS.index, ("session", "project", "importance"))


class Hashes:
    """Hashes values with the key of a memory."""

    def __init__(self, key: bytes) -> None:
        self._key = key

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
            plain[_IMPORTANCE] = float(plain[_IMPORTANCE])  # as engines return it
        return self.of(plain)


class Recorder:
    """Collects what one transaction changes; `finish` writes it down.

    Several changes of one document are one entry: as it was before them, and as it is after.
    """

    def __init__(self) -> None:
        self._rows: dict[str, tuple[DocumentRow | None, DocumentRow | None]] = {}
        self._marks: list[tuple[str, tuple[object, ...], bool]] = []
        self._origins: dict[str, str] = {}
        self._purged: dict[str, int] = {}

    def change(self, id_: str, before: DocumentRow | None, after: DocumentRow | None) -> None:
        """Note a document as it was and as it is; ``None`` where there is none."""
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
        for id_ in self._owners(refs):
            self._marks.append((id_, (good, wrong), not (good or wrong)))

    def purge(self, ids: Sequence[str]) -> None:
        """Erase all that is known of some documents; that a project had some is noted."""
        gone = {*ids}
        homes = dict(self._homes(ids))
        for id_, pair in self._rows.items():
            row = pair[1] or pair[0]
            if id_ in gone and row is not None:
                homes[id_] = row[_PROJECT]
        self._erase(ids)
        self._rows = {id_: pair for id_, pair in self._rows.items() if id_ not in gone}
        self._marks = [mark for mark in self._marks if mark[0] not in gone]
        for id_ in gone:
            home = homes.get(id_, "")
            self._purged[home] = self._purged.get(home, 0) + 1

    def finish(self, now: int) -> None:
        """Write the entries."""
        if self._rows or self._marks or self._purged:
            entries = list(self._entries(now))
            if entries:
                self._write(entries)

    def _entries(self, now: int) -> Iterator[AuditEntry]:
        hashes, act = Hashes(self._key()), caller()
        origins = {} if act.verb == UNDO else self._origins
        who = next(iter(origins.values()), ACTORS[act.door])
        base = AuditEntry(now, who, act.door, act.verb or "write")
        for id_, (first, last) in self._rows.items():
            before, after = hashes.of_row(first), hashes.of_row(last)
            if before != after:
                origin = origins.get(id_, who)
                yield _about(base, id_, last or first, before, after, act.session, origin)
        for id_, values, dropped in self._marks:
            mark = hashes.of(*values)
            before, after = (mark, None) if dropped else (None, mark)
            yield _about(base, id_, self._row(id_), before, after, act.session, who)
        # Of a user who is erased nothing stays, the name and the session included.
        is_known = act.verb != "erase"
        for home, count in self._purged.items():
            purge = base._replace(verb="purge", after=hashes.of(count))
            yield purge._replace(session=act.session, project=home) if is_known else purge

    @abstractmethod
    def _key(self) -> bytes:
        """Return the key of the memory; its first entry makes it."""

    @abstractmethod
    def _row(self, id_: str) -> DocumentRow | None:
        """Return a document as it is now."""

    @abstractmethod
    def _owners(self, refs: Sequence[Ref]) -> list[str]:
        """Return the ids of the documents of some passages."""

    @abstractmethod
    def _homes(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Return the projects of documents that have entries."""

    @abstractmethod
    def _erase(self, ids: Sequence[str]) -> None:
        """Drop the entries of documents."""

    @abstractmethod
    def _write(self, entries: Sequence[AuditEntry]) -> None:
        """Add entries, and drop the oldest ones now and then."""


def _about(
    base: AuditEntry,
    id_: str,
    row: DocumentRow | None,
    before: bytes | None,
    after: bytes | None,
    session: str | None,
    origin: str,
) -> AuditEntry:
    own, project = (None, "") if row is None else (row[_SESSION], row[_PROJECT])
    return AuditEntry(
        base.at, origin, base.door, base.verb, session or own, project, id_, before, after
    )
