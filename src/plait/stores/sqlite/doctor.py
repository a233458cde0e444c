"""Check and repair the file. `plait.writing` checks the facts."""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

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
    scratch,
    tags,
    tallies,
)
from plait.stores.sqlite.connection import PRIVATE_FILE, Connections, checkpoint, rows
from plait.stores.sqlite.foreign import refuse_newer
from plait.stores.sqlite.generations import UNEMBEDDED
from plait.stores.sqlite.mending import has_own_types
from plait.stores.sqlite.modes import NETWORK_FILE_SYSTEMS, file_system, sqlite_version, wal_is_safe
from plait.stores.sqlite.remaking import can_remake, remake
from plait.stores.sqlite.replaced import current, written_elsewhere
from plait.stores.sqlite.state import READ_NAMES, Generation, generations
from plait.stores.sqlite.write_lock import WriteLock
from plait.types import Ref
from plait.types.reports import Finding

OTHERS = stat.S_IRWXG | stat.S_IRWXO
FIX = advise("doctor_fix")
_REINDEX = advise("reindex")
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
NAMED_ROWS = 5  # as many as a person reads; their number is told anyway
LEAST_FOREIGN_ROWS = 2  # fewer rows may all be damaged by themselves

_PASSAGE_REFS = "SELECT rowid FROM passages ORDER BY rowid"
_EXCUSED = "SELECT passage, reason FROM unembedded WHERE generation = ?"
_MISCOUNTED = (
    "SELECT count(*) FROM documents AS d WHERE d.chunk_count <> "
    "(SELECT count(*) FROM passages AS p WHERE p.document = d.rowid)"
)

# What refers to nothing and can be made again or means nothing without its ends.
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


def examine(connections: Connections, rebuild: Callable[[], int], *, fix: bool) -> list[Finding]:
    """Run every check; later ones rely on earlier ones, and damage ends them."""
    refuse_newer(connections.get(), connections.path)
    findings = [_version(), *_place(connections, fix=fix)]
    try:
        for finding in _proofs(connections, rebuild, fix=fix):
            findings.append(finding)
            if finding.code == StoreDamaged.code:
                # Repairing something on top of broken pages would only hide the damage.
                break
    except (apsw.CorruptError, apsw.SQLError, apsw.ConstraintError, UnicodeDecodeError) as error:
        findings.append(_broken(connections, f"{error}"))
    except apsw.ConnectionClosedError as error:  # a lock noticed it, and reopened the file
        raise written_elsewhere(connections.path) from error
    # What a repair could not repair needs another step than a repair.
    salvage = advise("salvage", path=connections.path)
    return [
        finding._replace(advice=salvage) if fix and finding.advice == FIX else finding
        for finding in findings
    ]


def _proofs(
    connections: Connections, rebuild: Callable[[], int], *, fix: bool
) -> Iterator[Finding]:
    connection = connections.get()
    # Asked only before something is made again or dropped, because it reads the whole file again.
    misplaced = cache(lambda: _misplaced(connections, connection))
    verdict = integrity.verdict(connection)
    made = _remade(connections, connection, verdict) if verdict.broken and fix else ""
    if made:
        verdict = integrity.verdict(connection)
        yield Finding("pages", "ok", f"made again, because of damaged pages: {made}", fixed=True)
    yield _pages(connections, connection, verdict, misplaced, fix=fix)
    yield _schema(connections, connection, fix=fix)
    yield _indexes(connections, connection, verdict, misplaced, fix=fix)
    yield _values(connections, connection, misplaced, fix=fix)
    yield _keywords(connections, rebuild, connection, misplaced, fix=fix)
    yield _references(connections, connection, misplaced, fix=fix)
    yield _counts(connections, connection, misplaced, fix=fix)
    yield tags.check(connections, misplaced, fix=fix) or _unsafe(
        connections, str(misplaced()), "tags"
    )
    yield _texts(connections, connection, fix=fix)
    for generation in generations(connection):
        yield _vectors(connections, connection, generation, fix=fix)
    yield blocks.check(connections, misplaced, fix=fix) or _unsafe(
        connections, str(misplaced()), "signs"
    )
    yield _journal(connections, fix=fix)


def _broken(connections: Connections, problem: str, check: str = "pages") -> Finding:
    """Return the finding that ends the checks: nothing can be repaired in this file."""
    return Finding(
        check,
        "error",
        f"The file is damaged: {problem}. Restore a backup.",
        advice=advise("salvage", path=connections.path),
        code=StoreDamaged.code,
    )


def _version() -> Finding:
    version = sqlite_version()
    words = ".".join(map(str, version))
    if wal_is_safe(version):
        return Finding("sqlite", "ok", f"SQLite {words} (through APSW {apsw.apsw_version()})")
    text = f"SQLite {words} can lose writes of several processes."
    return Finding("sqlite", "error", text, advice=advise("upgrade_package", package="apsw"))


def _place(connections: Connections, *, fix: bool) -> Iterator[Finding]:
    """Check file system and modes."""
    if connections.in_memory:
        yield Finding("file", "ok", "in memory only, nothing is written to disk")
        return
    path = connections.path
    kind = file_system(path)
    mode = str(connections.get().execute("PRAGMA journal_mode").get)
    if kind in NETWORK_FILE_SYSTEMS and mode == "wal":
        yield Finding(
            "file system",
            "error",
            f"{path} is on {kind}, where SQLite's WAL can lose data. Move it to a local disk.",
        )
    else:
        yield Finding("file system", "ok", f"{kind or 'unknown type'}, journal mode {mode}")
    if os.name != "posix":
        return
    yield _modes(path, fix=fix)
    folder = os.path.dirname(path)
    yield from _leftovers(folder, fix=fix)
    mode_of_folder = os.stat(folder).st_mode
    if mode_of_folder & WRITABLE_BY_OTHERS and not mode_of_folder & stat.S_ISVTX:
        yield Finding(
            "folder",
            "warning",
            f"Other users can write to {folder}.",
            advice=advise("protect_folder", folder=folder),
        )


def _leftovers(folder: str, *, fix: bool) -> Iterator[Finding]:
    """Name copies that a restore, backup or salvage did not finish: they may be large."""
    left = scratch.abandoned(folder)
    if left and fix:
        count = scratch.remove_abandoned(folder)
        yield Finding("leftovers", "ok", f"{count} unfinished copies removed", fixed=True)
    elif left:
        text = f"A process was killed and left {len(left)} unfinished copies: {_some(left)}."
        yield Finding("leftovers", "warning", text, advice=FIX)


def _modes(path: str, *, fix: bool) -> Finding:
    loose = [
        name
        for name in (path, path + "-wal", path + "-shm")
        if os.path.exists(name) and os.stat(name).st_mode & OTHERS
    ]
    if not loose:
        return Finding("modes", "ok", "only you can read the files")
    if fix:
        for name in loose:
            os.chmod(name, PRIVATE_FILE)
        return Finding("modes", "ok", f"{len(loose)} files made private (0600)", fixed=True)
    return Finding("modes", "warning", f"Other users can read {loose[0]}.", advice=FIX)


def _pages(
    connections: Connections,
    connection: apsw.Connection,
    verdict: integrity.FileProblems,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    if verdict.broken and can_remake(connection, verdict.damaged) and not fix:
        text = f"The file is damaged, but only what can be made again: {verdict.broken[0]}."
        return Finding("pages", "error", text, advice=FIX, code=StoreDamaged.code)
    if verdict.broken:
        return _broken(connections, verdict.broken[0])
    if not verdict.unused:
        return Finding("pages", "ok", "no damaged pages")
    if fix:
        # A page that no tree leads to may be full of rows.
        table = misplaced()
        if table is not None:
            return _unsafe(connections, table, "pages")
        connection.execute("VACUUM")
        if not integrity.verdict(connection).unused:
            return Finding("pages", "ok", "pages that nobody used were freed", fixed=True)
    text = "The list of free pages is wrong."
    return Finding("pages", "warning", text, advice=FIX if not fix else None)


def _remade(
    connections: Connections, connection: apsw.Connection, verdict: integrity.FileProblems
) -> str:
    """Make damaged indexes and other derived data again; return their names if it was possible."""
    if connections.in_memory or not can_remake(connection, verdict.damaged):
        return ""
    remake(connections, verdict.damaged)
    return ", ".join(sorted(verdict.damaged))


def _misplaced(connections: Connections, connection: apsw.Connection) -> str | None:
    """Return a table with foreign rows, or with rows in the file that SQLite does not find."""
    foreign = _foreign_table(connection, rowcheck.unreadable_rows(connection))
    if foreign is not None or connections.in_memory:
        return foreign
    from plait.stores.sqlite import carving

    with WriteLock(connections):
        return carving.misplaced(connections.path, connection)


def _unsafe(connections: Connections, table: str, check: str) -> Finding:
    return _broken(connections, f"rows of {table} and of others are mixed up", check)


def _schema(connections: Connections, connection: apsw.Connection, *, fix: bool) -> Finding:
    """Check that the file has plait's tables, indexes, triggers and views, and no others."""
    listed = objects.differences(connection)
    lost = [str(row) for row in listed if row.is_table and row.own is not None]
    if lost:
        return _broken(connections, _some(lost), "schema")
    others = [str(row) for row in listed if not row.is_table]
    tables = [str(row) for row in listed if row.is_table]
    if others and not fix:
        # A view in the place of a table may never come to an end: nothing more is read.
        views = [row for row in listed if row.type == "view"]
        is_endless = any(row.own or row.name.lower() in READ_NAMES for row in views)
        ends = StoreDamaged.code if is_endless else ""
        return Finding("schema", "error", f"In the file {_some(others)}.", advice=FIX, code=ends)
    if others:
        with WriteLock(connections):
            objects.mend(connection, listed)
        text = f"removed what is foreign and made what was missing: {_some(others)}"
        return Finding("schema", "ok", text, fixed=True)
    if tables:
        return Finding("schema", "warning", f"In the file {_some(tables)}. plait never reads it.")
    return Finding("schema", "ok", "tables, indexes and triggers are plait's")


def _indexes(
    connections: Connections,
    connection: apsw.Connection,
    verdict: integrity.FileProblems,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    if not verdict.indexes:
        return Finding("indexes", "ok", "every index matches its table")
    names = ", ".join(verdict.indexes)
    if not fix:
        text = f"These indexes do not match their tables: {names}."
        return Finding("indexes", "error", text, advice=FIX)
    table = misplaced()
    if table is not None:
        return _unsafe(connections, table, "indexes")
    with WriteLock(connections):
        integrity.make_again(connection, verdict.indexes)
    again = integrity.verdict(connection)
    if again.broken or again.indexes:
        return _broken(connections, f"{names} cannot be made again", "indexes")
    return Finding("indexes", "ok", f"made again: {names}", fixed=True)


def _values(
    connections: Connections,
    connection: apsw.Connection,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    """Check that every row of every table can be read."""
    with connection:
        listed = rowcheck.unreadable_rows(connection)
        blocks = rowcheck.broken_blocks(connection)
        foreign = _foreign_table(connection, listed)
    if foreign is not None:
        return _unsafe(connections, foreign, "values")
    if not listed and not blocks:
        return Finding("values", "ok", "every row can be read")
    names = [f"{row.table} {row.name}" for row in listed]
    names += [f"vectors {rowid}" for rowid in blocks]
    problem = f"{len(names)} rows cannot be read: {_some(names)}"
    if not fix:
        return Finding("values", "error", f"{problem}.", advice=FIX, code=StoreDamaged.code)
    table = misplaced()
    if table is not None:
        return _unsafe(connections, table, "values")
    # A trigger would take the old words out of the keyword index, which need not have them.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    try:
        with WriteLock(connections):
            mended, dropped = rowcheck.mend(connection, listed)
            # A block may have looked wrong only because its vectors' size was.
            blocks = rowcheck.broken_blocks(connection)
            rowcheck.drop_blocks(connection, blocks)
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)
    text = f"{problem}; {mended} mended, {dropped + len(blocks)} dropped"
    return Finding("values", "ok", text, fixed=True)


def _foreign_table(connection: apsw.Connection, listed: list[rowcheck.Unreadable]) -> str | None:
    """Return a table whose rows are mostly unreadable: another's lie where it should be."""
    foreign = [row.table for row in listed if not has_own_types(row.table, row.row)]
    for table, count in Counter(foreign).items():
        total = int(connection.execute(f"SELECT count(*) FROM {table} NOT INDEXED").get)  # noqa: S608
        if count > LEAST_FOREIGN_ROWS and count > total * integrity.FOREIGN_SHARE:
            return table
    return None


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED_ROWS} more" if len(names) > NAMED_ROWS else ""
    return ", ".join(names[:NAMED_ROWS]) + more


def _keywords(
    connections: Connections,
    rebuild: Callable[[], int],
    connection: apsw.Connection,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    if integrity.keywords_prove(connection):
        return rebuilding.check_rules(connections, analysis.ANALYZER, fix=fix)
    if not fix:
        text = "The keyword index does not match the passages."
        return Finding("keyword index", "error", text, advice=FIX)
    table = misplaced()
    if table is not None:
        return _unsafe(connections, table, "keyword index")
    count = rebuild()
    if integrity.keywords_prove(connection):
        return Finding("keyword index", "ok", f"rebuilt from {count} passages", fixed=True)
    return _broken(connections, "the keyword index cannot be rebuilt", "keyword index")


def _references(
    connections: Connections,
    connection: apsw.Connection,
    misplaced: Callable[[], str | None],
    *,
    fix: bool,
) -> Finding:
    orphans = rows(connection, "PRAGMA foreign_key_check")
    if not orphans:
        return Finding("rows", "ok", "every passage has its document")
    text = f"{len(orphans)} rows refer to rows that no longer exist"
    if any(table == "passages" for table, *_ in orphans):
        # Their text is still there; a new memory gives it a document.
        return _broken(connections, text, "rows")
    if not fix:
        return Finding("rows", "error", f"{text}.", advice=FIX)
    table = misplaced()
    if table is not None:
        return _unsafe(connections, table, "rows")
    with WriteLock(connections):
        for sql in _ORPHANS:
            connection.execute(sql)
    return Finding("rows", "ok", f"dropped: {text}", fixed=True)


def _texts(connections: Connections, connection: apsw.Connection, *, fix: bool) -> Finding:
    """Check that every passage has the text that was stored, by its hash."""
    changed = rowcheck.changed_texts(connection)
    if not changed:
        return Finding("texts", "ok", "every passage has the text that was stored")
    problem = f"The text of {len(changed)} passages is not what was stored: "
    problem += _some([row.name for row in changed])
    if not fix:
        return Finding("texts", "error", f"{problem}. Read them.", advice=FIX)
    with WriteLock(connections):
        rowcheck.accept_texts(connection, changed)
    text = f"{problem}; accepted as they are, and their files are read again by the next ingest"
    return Finding("texts", "ok", text, fixed=True)


def _counts(
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
            return _unsafe(connections, table, "counts")
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


def _vectors(
    connections: Connections,
    connection: apsw.Connection,
    generation: Generation,
    *,
    fix: bool,
) -> Finding:
    """Check that every vector has a passage, and every passage a vector or a reason."""
    name = "vectors" if generation.current else "vectors being built"
    with connection:  # One snapshot: others may be writing, which is not damage.
        listed = blocks.occupied(connection, generation.id, generation.dims)
        present = {ref for refs in listed for ref in refs}
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


def _journal(connections: Connections, *, fix: bool) -> Finding:
    path = connections.path + "-wal"
    if connections.in_memory or not os.path.exists(path):
        return Finding("journal", "ok", "empty")
    if fix:
        done = checkpoint(current(connections), "TRUNCATE")
        words = "emptied" if done else "in use by another process"
        return Finding("journal", "ok" if done else "warning", words, fixed=done)
    size = os.stat(path).st_size
    return Finding("journal", "ok", f"{size:,} bytes")
