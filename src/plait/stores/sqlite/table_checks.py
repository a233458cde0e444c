"""Checks of what the tables contain: schema, indexes, rows, keywords, counts, texts, vectors."""

from collections import Counter
from collections.abc import Callable

import apsw

from plait.errors import StoreDamaged, advise
from plait.stores.sqlite import (
    analysis,
    blocks,
    integrity,
    keyword,
    objects,
    rebuilding,
    rowcheck,
    tallies,
)
from plait.stores.sqlite.connection import Connections, rows
from plait.stores.sqlite.findings import FIX, broken, first_of, unsafe
from plait.stores.sqlite.generations import UNEMBEDDED
from plait.stores.sqlite.mending import has_own_types
from plait.stores.sqlite.state import READ_NAMES, Generation
from plait.stores.sqlite.write_lock import WriteLock
from plait.types import Ref
from plait.types.reports import Finding

_REINDEX = advise("reindex")
LEAST_FOREIGN_ROWS = 2  # fewer rows may all be damaged by themselves
_PASSAGE_REFS = "SELECT rowid FROM passages ORDER BY rowid"
_EXCUSED = "SELECT passage, reason FROM unembedded WHERE generation = ?"
_MISCOUNTED = (
    "SELECT count(*) FROM documents AS d WHERE d.chunk_count <> "
    "(SELECT count(*) FROM passages AS p WHERE p.document = d.rowid)"
)
# Rows that refer to nothing: they can be made again, or mean nothing without what they refer to.
_ORPHANS = (
    "DELETE FROM signals WHERE passage NOT IN (SELECT rowid FROM passages)",
    "DELETE FROM signal_pairs WHERE one NOT IN (SELECT rowid FROM passages) "
    "OR other NOT IN (SELECT rowid FROM passages)",
    "DELETE FROM unembedded WHERE passage NOT IN (SELECT rowid FROM passages) "
    "OR generation NOT IN (SELECT id FROM generations)",
    "DELETE FROM vector_blocks WHERE generation NOT IN (SELECT id FROM generations)",
    "DELETE FROM block_versions WHERE generation NOT IN (SELECT id FROM generations)",
    "DELETE FROM vector_signs WHERE generation NOT IN (SELECT id FROM generations)",
    "DELETE FROM steps WHERE document NOT IN (SELECT rowid FROM documents)",
    "DELETE FROM relations WHERE source NOT IN (SELECT rowid FROM documents) "
    "OR target NOT IN (SELECT rowid FROM documents)",
)


def check_schema(connections: Connections, connection: apsw.Connection, *, fix: bool) -> Finding:
    """Check that the file has plait's tables, indexes, triggers and views, and no others."""
    differing = objects.differences(connection)
    lost = [str(row) for row in differing if row.is_table and row.own is not None]
    if lost:
        return broken(connections, first_of(lost), "schema")
    others = [str(row) for row in differing if not row.is_table]
    tables = [str(row) for row in differing if row.is_table]
    if others and not fix:
        # A view in the place of a table may never come to an end: nothing more is read.
        views = [row for row in differing if row.type == "view"]
        is_endless = any(row.own or row.name.lower() in READ_NAMES for row in views)
        damage = StoreDamaged.code if is_endless else ""
        text = f"In the file {first_of(others)}."
        return Finding("schema", "error", text, advice=FIX, code=damage)
    if others:
        with WriteLock(connections):
            objects.mend(connection, differing)
        text = f"removed what is foreign and made what was missing: {first_of(others)}"
        return Finding("schema", "ok", text, fixed=True)
    if tables:
        return Finding(
            "schema", "warning", f"In the file {first_of(tables)}. plait never reads it."
        )
    return Finding("schema", "ok", "tables, indexes and triggers are plait's")


def check_indexes(
    connections: Connections,
    connection: apsw.Connection,
    verdict: integrity.FileProblems,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    """Check that each index has the rows of its table."""
    if not verdict.indexes:
        return Finding("indexes", "ok", "every index matches its table")
    names = ", ".join(verdict.indexes)
    if not fix:
        text = f"These indexes do not match their tables: {names}."
        return Finding("indexes", "error", text, advice=FIX)
    table = misplaced()
    if table is not None:
        return unsafe(connections, table, "indexes")
    with WriteLock(connections):
        integrity.make_again(connection, verdict.indexes)
    again = integrity.verdict(connection)
    if again.broken or again.indexes:
        return broken(connections, f"{names} cannot be made again", "indexes")
    return Finding("indexes", "ok", f"made again: {names}", fixed=True)


def check_values(
    connections: Connections,
    connection: apsw.Connection,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    """Check that every row of every table can be read."""
    with connection:
        unreadable = rowcheck.unreadable_rows(connection)
        damaged_blocks = rowcheck.broken_blocks(connection)
        foreign = foreign_table(connection, unreadable)
    if foreign is not None:
        return unsafe(connections, foreign, "values")
    if not unreadable and not damaged_blocks:
        return Finding("values", "ok", "every row can be read")
    names = [f"{row.table} {row.name}" for row in unreadable]
    names += [f"vectors {rowid}" for rowid in damaged_blocks]
    problem = f"{len(names)} rows cannot be read: {first_of(names)}"
    if not fix:
        return Finding("values", "error", f"{problem}.", advice=FIX, code=StoreDamaged.code)
    table = misplaced()
    if table is not None:
        return unsafe(connections, table, "values")
    # A trigger would take the old words out of the keyword index, which need not have them.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    try:
        with WriteLock(connections):
            mended, dropped = rowcheck.mend(connection, unreadable)
            # A block may have looked wrong only because its vectors' size was.
            damaged_blocks = rowcheck.broken_blocks(connection)
            rowcheck.drop_blocks(connection, damaged_blocks)
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)
    text = f"{problem}; {mended} mended, {dropped + len(damaged_blocks)} dropped"
    return Finding("values", "ok", text, fixed=True)


def foreign_table(
    connection: apsw.Connection, unreadable_rows: list[rowcheck.Unreadable]
) -> str | None:
    """Return a table whose rows are mostly unreadable: another's lie where it should be."""
    foreign = [row.table for row in unreadable_rows if not has_own_types(row.table, row.row)]
    for table, count in Counter(foreign).items():
        total = int(connection.execute(f"SELECT count(*) FROM {table} NOT INDEXED").get)  # noqa: S608
        if count > LEAST_FOREIGN_ROWS and count > total * integrity.FOREIGN_SHARE:
            return table
    return None


def check_keywords(
    connections: Connections,
    rebuild: Callable[[], int],
    connection: apsw.Connection,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    """Check that the keyword index is that of the passages, by the present rules."""
    if integrity.keywords_prove(connection):
        return rebuilding.check_rules(connections, analysis.ANALYZER, fix=fix)
    if not fix:
        text = "The keyword index does not match the passages."
        return Finding("keyword index", "error", text, advice=FIX)
    table = misplaced()
    if table is not None:
        return unsafe(connections, table, "keyword index")
    count = rebuild()
    if integrity.keywords_prove(connection):
        return Finding("keyword index", "ok", f"rebuilt from {count} passages", fixed=True)
    return broken(connections, "the keyword index cannot be rebuilt", "keyword index")


def check_references(
    connections: Connections,
    connection: apsw.Connection,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    """Check that every row has the rows that it refers to."""
    orphans = rows(connection, "PRAGMA foreign_key_check")
    if not orphans:
        return Finding("rows", "ok", "every passage has its document")
    text = f"{len(orphans)} rows refer to rows that no longer exist"
    if any(table == "passages" for table, *_ in orphans):
        # Their text is still there; a new memory gives it a document.
        return broken(connections, text, "rows")
    if not fix:
        return Finding("rows", "error", f"{text}.", advice=FIX)
    table = misplaced()
    if table is not None:
        return unsafe(connections, table, "rows")
    with WriteLock(connections):
        for sql in _ORPHANS:
            connection.execute(sql)
    return Finding("rows", "ok", f"dropped: {text}", fixed=True)


def check_counts(
    connections: Connections,
    connection: apsw.Connection,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    """Check the passage counts of documents, and those that the memory keeps of itself."""
    wrong = int(connection.execute(_MISCOUNTED).get)
    if not keyword.is_counted(connection):
        if not fix:
            text = "The number of passages is not recorded, so lost ones would not be noticed."
            return Finding("counts", "error", text, advice=FIX)
        table = misplaced()
        if table is not None:
            return unsafe(connections, table, "counts")
        with WriteLock(connections):
            rebuilding.recount(connection)
            rowcheck.recount(connection)
        return Finding("counts", "ok", "the passages were counted again", fixed=True)
    tallied = tallies.are_right(connection)
    if not wrong and tallied:
        return Finding("counts", "ok", "every count is right")
    if fix:
        with WriteLock(connections):
            rowcheck.recount(connection)
            tallies.tally_again(connection)
        return Finding("counts", "ok", "passages and documents were counted again", fixed=True)
    text = f"{wrong} documents have a wrong passage count" if wrong else "Documents are miscounted"
    return Finding("counts", "warning", f"{text}.", advice=FIX)


def check_texts(connections: Connections, connection: apsw.Connection, *, fix: bool) -> Finding:
    """Check that every passage has the text that was stored, by its hash."""
    changed = rowcheck.changed_texts(connection)
    if not changed:
        return Finding("texts", "ok", "every passage has the text that was stored")
    problem = f"The text of {len(changed)} passages is not what was stored: "
    problem += first_of([row.name for row in changed])
    if not fix:
        return Finding("texts", "error", f"{problem}. Read them.", advice=FIX)
    with WriteLock(connections):
        rowcheck.accept_texts(connection, changed)
    text = f"{problem}; accepted as they are, and their files are read again by the next ingest"
    return Finding("texts", "ok", text, fixed=True)


def check_vectors(
    connections: Connections,
    connection: apsw.Connection,
    generation: Generation,
    *,
    fix: bool,
) -> Finding:
    """Check that every vector has a passage, and every passage a vector or a reason."""
    name = "vectors" if generation.current else "vectors being built"
    with connection:  # One snapshot: others may be writing, which is not damage.
        refs_by_block = blocks.occupied(connection, generation.id, generation.dims)
        present = {ref for refs in refs_by_block for ref in refs}
        refs = {ref for (ref,) in connection.execute(_PASSAGE_REFS)}
        excused = {ref: reason for ref, reason in rows(connection, _EXCUSED, (generation.id,))}
    ghosts = present - refs
    silent = refs - present - excused.keys()
    # Unfinished vectors may list a passage although it has one: files of schema 3 do.
    stale = {ref for ref in excused if ref in present} if generation.current else set()
    if ghosts or silent or stale:
        problem = (
            f"{len(ghosts)} vectors without a passage, {len(silent)} passages without a vector, "
            f"{len(stale)} marked as missing although present"
        )
        if not fix:
            return Finding(name, "error", f"{problem}.", advice=FIX)
        _repair_vectors(connections, connection, generation, ghosts | stale, silent | stale)
        return Finding(name, "ok", f"repaired: {problem}", fixed=True)
    waiting = sum(reason == "pending" for reason in excused.values())
    if waiting and generation.current:
        return Finding(name, "warning", f"{waiting} passages wait for a vector.", advice=_REINDEX)
    if not generation.current:
        return Finding(name, "warning", "A reindex was not finished.", advice=_REINDEX)
    return Finding(name, "ok", f"{len(present)} vectors, each for an existing passage")


def _repair_vectors(
    connections: Connections,
    connection: apsw.Connection,
    generation: Generation,
    clear: set[Ref],
    await_: set[Ref],
) -> None:
    with WriteLock(connections):
        blocks.write(connection, generation.id, generation.dims, dict.fromkeys(clear))
        connection.executemany(
            UNEMBEDDED, [(generation.id, ref, "pending") for ref in sorted(await_)]
        )
