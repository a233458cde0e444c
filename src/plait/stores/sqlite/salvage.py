"""Copy every row that can still be read out of a damaged file into a new memory.

The damaged file is only read. Its rows come from `plait.stores.sqlite.carving`, which also takes
from its indexes which rows should have been there. The keyword index is made afresh, and vectors
wait for a reindex.
"""

import os
from typing import Any

import apsw

from plait.errors import (
    NotFound,
    StoreDamaged,
    StoreError,
    UsageError,
    advise,
    lacks_descriptors,
    too_many_files,
)
from plait.stores import exists
from plait.stores.sqlite import scratch
from plait.stores.sqlite.backup import copy_to
from plait.stores.sqlite.carving import META_COPIED, Haul, read_rows
from plait.stores.sqlite.connection import Connections, Guard, rows
from plait.stores.sqlite.creating import is_folder
from plait.stores.sqlite.documents import LAST_ORDINAL, passage_hash
from plait.stores.sqlite.generations import mark_all_pending
from plait.stores.sqlite.mending import UNKNOWN_PROJECT, Row, as_number, is_sound, mended
from plait.stores.sqlite.rowcheck import complete_passage, recount
from plait.stores.sqlite.tags import list_again
from plait.stores.sqlite.tallies import tally_again
from plait.stores.sqlite.trash import kin
from plait.stores.sqlite.write_lock import WriteLock
from plait.types.ids import new_id
from plait.types.reports import Loss, Salvaged

_SHORT = (
    "SELECT d.rowid, coalesce(d.key, d.id), d.chunk_count - "
    "(SELECT count(*) FROM passages AS p WHERE p.document = d.rowid) AS lost "
    "FROM documents AS d WHERE lost > 0"
)
_REREAD = "UPDATE documents SET size = NULL, mtime = NULL, sha256 = NULL WHERE rowid = ?"


def salvage(path: str, target: str) -> Salvaged:
    """Copy what can be read at ``path`` into a new memory at ``target``.

    Raises:
        NotFound: There is no file at ``path``.
        UsageError: ``target`` exists.
        StoreDamaged: There is not one row of a memory in the file.
        StoreError: A file cannot be read or written.
    """
    path, target = os.path.abspath(path), os.path.abspath(target)
    if not exists(path):
        raise NotFound(f"There is no memory at {path}.", code="no_memory", subject=path)
    if os.path.isdir(path):
        raise is_folder(path)
    if os.path.exists(target):
        raise UsageError(
            f"{target} already exists. Choose another name for the new memory.",
            code="target_exists",
            subject=target,
        )
    try:
        with scratch.beside(target) as folder:
            haul, applied = read_rows(path, folder)
            if not haul.size():
                raise StoreDamaged(
                    f"{path} has no row of a plait memory that can be read.",
                    code="nothing_to_salvage",
                    subject=path,
                    advice=advise("choose_file"),
                )
            return _write(haul, folder, path, target, journal_lost=not applied)
    except OSError as error:
        if lacks_descriptors(error):
            raise too_many_files(target) from error
        raise StoreError(
            f"Cannot write {target}: {error.strerror}. Choose another place.", subject=target
        ) from error


# -- writing -------------------------------------------------------------------------------


class _Losses:
    """Collects what is lost, by table."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    def add(self, table: str, *names: str, count: int = 0) -> None:
        self._names.setdefault(table, []).extend(names)
        self._counts[table] = self._counts.get(table, 0) + (count or len(names))

    def told(self, table: str) -> int:
        return self._counts.get(table, 0)

    def listed(self) -> tuple[Loss, ...]:
        return tuple(
            Loss(table, count, tuple(self._names[table]))
            for table, count in self._counts.items()
            if count
        )


def _write(haul: Haul, folder: str, path: str, target: str, *, journal_lost: bool) -> Salvaged:
    connections = Connections(os.path.join(folder, "memory.db"), create=True)
    try:
        with Guard(connections):
            with WriteLock(connections) as connection:
                copier = _Copier(connection, haul)
                copier.copy()
            copy_to(connections, target)
    finally:
        connections.close()
    if journal_lost:
        copier.losses.add("journal", path + "-wal")
    return Salvaged(
        path=path,
        target=target,
        kept=tuple(copier.kept.items()),
        lost=copier.losses.listed(),
        mended=tuple(copier.mended),
        unreadable_cells=haul.unreadable,
    )


class _Copier:
    """Writes the rows of a haul into the tables of a new memory."""

    def __init__(self, connection: apsw.Connection, haul: Haul) -> None:
        self._connection = connection
        self._rows = haul.rows
        self._hints = haul.hints
        self.kept: dict[str, int] = {}
        self.mended: list[str] = []
        self.losses = _Losses()

    def copy(self) -> None:
        """Copy everything, what others refer to first."""
        self._documents()
        self._passages()
        plain = ("relations", "trashed_relations", "trash", "steps", "signals", "signal_pairs")
        for table in (*plain, "audit"):
            for row in self._rows[table].values():
                self._plain(table, row)
        lost = self._hints.edges - {key[0] for key in self._keys("relations")}
        self.losses.add("relations", count=len(lost))
        known = {key[0] for key in self._keys("trash")}
        self.losses.add("trash", *sorted(self._hints.deleted - known))
        self._cache()
        self._meta()
        self._vectors()

    def _keys(self, table: str) -> list[tuple[Any, ...]]:
        return [key for key in self._rows[table] if isinstance(key, tuple)]

    def _insert(self, table: str, row: Row) -> bool:
        names = ", ".join(row)
        marks = ", ".join("?" * len(row))
        sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608
        try:
            self._connection.execute(sql, list(row.values()))
        except (apsw.ConstraintError, apsw.MismatchError, OverflowError, UnicodeEncodeError):
            return False
        self.kept[table] = self.kept.get(table, 0) + 1
        return True

    def _readable(self, table: str, row: Row, name: str) -> Row | None:
        """Return a row as it is, or mended; note which."""
        if is_sound(table, row):
            return row
        fixed = mended(table, row)
        if fixed is not None:
            self.mended.append(f"{table} {name}".rstrip())
        return fixed

    # -- documents and their passages ------------------------------------------------------

    def _documents(self) -> None:
        present = set()
        for row in sorted(self._rows["documents"].values(), key=lambda row: int(row["rowid"])):
            row = {"role": None, "turn": None, "status": None, **row}
            name = row["key"] or row["id"]
            fixed = self._readable("documents", row, str(name))
            if fixed is not None and self._add_document(fixed):
                present.add(fixed["rowid"])
                self._compare(fixed)
            else:
                self.losses.add("documents", str(name))
        for rowid, (id_, _) in sorted(self._hints.ids.items()):
            if rowid not in present:
                key = self._hints.names.get(rowid, ("", "", ""))[2]
                self.losses.add("documents", f"{key} ({id_})" if key else id_)

    def _compare(self, row: Row) -> None:
        """Note a document that an index knows by another name: nobody can tell which is right."""
        own = (row["project"], row["source"], row["key"])
        named = self._hints.names.get(row["rowid"], own)
        id_, _ = self._hints.ids.get(row["rowid"], (row["id"], 0))
        if named != own or id_ != row["id"]:
            self.mended.append(f"documents {row['key'] or row['id']}, or {named[2]} ({id_})")

    def _add_document(self, row: Row) -> bool:
        # Two of one name or turn: a damaged index let a twin in. The second keeps its text and id.
        return self._insert("documents", row) or self._insert(
            "documents", {**row, "key": None, "turn": None}
        )

    def _passages(self) -> None:
        misplaced: list[Row] = []
        given_homes: set[int] = set()
        documents = {rowid for (rowid,) in self._connection.execute("SELECT rowid FROM documents")}
        listed = sorted(self._rows["passages"].values(), key=lambda row: int(row["rowid"]))
        for row in listed:
            fixed = self._readable("passages", row, str(row["id"]))
            if fixed is None:
                self.losses.add("passages", str(row["id"]))
                continue
            home = fixed["document"]
            if home not in documents and home not in given_homes:
                given_homes.add(home)
                self._add_home(home)
            if fixed["ordinal"] is None:
                misplaced.append(fixed)
            else:
                self._add_passage(fixed)
        for row in misplaced:
            complete_passage(self._connection, row)
            self._add_passage(row)
        self._recount()

    def _add_passage(self, row: Row) -> None:
        mark = passage_hash(row["heading"], row["text"])
        if mark != row["hash"]:
            self.mended.append(f"passages {row['id']}")
        row = {**row, "hash": mark, "ordinal": min(row["ordinal"], LAST_ORDINAL)}
        if not self._insert("passages", row) and not self._insert(
            "passages", {**row, "id": new_id(), "rowid": None}
        ):
            self.losses.add("passages", str(row["id"]))

    def _add_home(self, rowid: int) -> None:
        """Give passages whose document is lost a new one, by what the indexes know of it.

        Nobody knows any more whether it was trusted, so it is not.
        """
        id_, event = self._hints.ids.get(rowid, (new_id(), 0))
        project, source, key = self._hints.names.get(rowid, (UNKNOWN_PROJECT, "", None))
        trust = self._hints.trusts.get(rowid, "untrusted")
        home = {
            **{"rowid": rowid, "id": id_, "key": key, "kind": "note", "title": "(salvaged)"},
            **{"source": source, "project": project, "origin": "import"},
            "trust": "untrusted" if trust == "trusted" else trust,
            **dict.fromkeys(("created_at", "updated_at", "event_at", "indexed_at"), event),
        }
        if not self._insert("documents", home):
            self._insert("documents", {**home, "key": None, "id": new_id()})

    def _recount(self) -> None:
        """Correct the counts of passages; a file that lost some is read again by an ingest."""
        for rowid, name, lost in rows(self._connection, _SHORT):
            self.losses.add("passages", f"{lost} of {name}", count=lost)
            self._connection.execute(_REREAD, (rowid,))
        recount(self._connection)
        tally_again(self._connection)
        list_again(self._connection)
        # The memory counted them; what no row and no index names any more is missing all the same.
        counted = as_number(self._rows["meta"].get(("passages",), {}).get("value")) or 0
        nameless = counted - self.kept.get("passages", 0) - self.losses.told("passages")
        self.losses.add("passages", count=max(0, nameless))

    # -- the rest --------------------------------------------------------------------------

    def _plain(self, table: str, row: Row) -> None:
        # Numbers of rows name nothing to a reader.
        name = " ".join(value for value in list(row.values())[:2] if isinstance(value, str))
        fixed = self._readable(table, row, name)
        if table == "signals" and fixed is not None:
            fixed = {column: value for column, value in fixed.items() if column != "rowid"}
        if table == "trash" and fixed is not None:
            fixed = {**fixed, **kin(fixed["document"])}  # older files lack these columns
        if fixed is None or not self._insert(table, fixed):
            self.losses.add(table, *filter(None, [name]), count=1)

    def _cache(self) -> None:
        for table in ("embedding_cache", "histories"):
            for row in self._rows[table].values():
                if is_sound(table, row):  # others are made again
                    self._insert(table, row)

    def _meta(self) -> None:
        for row in self._rows["meta"].values():
            fixed = mended("meta", row) if row["name"] in META_COPIED else None
            if fixed is not None:
                self._connection.execute("DELETE FROM meta WHERE name = ?", (row["name"],))
                self._insert("meta", fixed)

    def _vectors(self) -> None:
        """Keep which embedder made the vectors; all of them wait to be made again."""
        listed = [
            {"canary": None, **row}
            for row in self._rows["generations"].values()
            if row.get("current") == 1
        ]
        for row in listed[:1]:
            row = {name: row[name] for name in ("space", "dims", "current", "canary")}
            fixed = mended("generations", {**row, "id": 1})
            if fixed is not None and self._insert("generations", fixed):
                mark_all_pending(self._connection, self._connection.last_insert_rowid())
