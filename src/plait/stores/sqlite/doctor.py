"""Check and repair the file, and copy it under load. `plait.writing` checks the facts."""

import os
import stat
from collections.abc import Callable, Iterator

import apsw

from plait.errors import StoreDamaged, StoreError, UsageError, advise
from plait.stores.sqlite import keyword, vectors
from plait.stores.sqlite.connection import (
    NETWORK_FILE_SYSTEMS,
    PRIVATE_FILE,
    Connections,
    WriteLock,
    checkpoint,
    file_system,
    rows,
    sqlite_version,
    wal_is_safe,
)
from plait.stores.sqlite.generations import UNEMBEDDED
from plait.stores.sqlite.state import Generation, generations
from plait.types import Ref, new_id
from plait.types.reports import Finding

OTHERS = stat.S_IRWXG | stat.S_IRWXO
FIX = advise("doctor_fix")
_REINDEX = advise("reindex")
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
_PASSAGE_REFS = "SELECT rowid FROM passages ORDER BY rowid"
_EXCUSED = "SELECT passage, reason FROM unembedded WHERE generation = ?"
_MISCOUNTED = (
    "SELECT count(*) FROM documents AS d WHERE d.chunk_count <> "
    "(SELECT count(*) FROM passages AS p WHERE p.document = d.rowid)"
)
_RECOUNT = (
    "UPDATE documents SET chunk_count = "
    "(SELECT count(*) FROM passages AS p WHERE p.document = documents.rowid)"
)


def examine(connections: Connections, rebuild: Callable[[], int], *, fix: bool) -> list[Finding]:
    """Run every check; later ones rely on earlier ones."""
    connection = connections.get()
    findings = [_version(), *_place(connections, fix=fix)]
    file = _pages(connection)
    findings.append(file)
    if file.level == "error":
        # Repairing an index on top of broken pages would only hide the damage.
        return findings
    findings.append(_keywords(rebuild, connection, fix=fix))
    findings.append(_references(connection))
    findings.append(_counts(connections, connection, fix=fix))
    for generation in generations(connection):
        findings.append(_vectors(connections, connection, generation, fix=fix))
    findings.append(_journal(connections, connection, fix=fix))
    return findings


def _version() -> Finding:
    version = sqlite_version()
    words = ".".join(map(str, version))
    if wal_is_safe(version):
        return Finding("sqlite", "ok", f"SQLite {words} (through APSW {apsw.apsw_version()})")
    return Finding(
        "sqlite",
        "error",
        f"SQLite {words} can lose writes of several processes.",
        advice=advise("upgrade_package", package="apsw"),
    )


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
    mode_of_folder = os.stat(folder).st_mode
    if mode_of_folder & WRITABLE_BY_OTHERS and not mode_of_folder & stat.S_ISVTX:
        yield Finding(
            "folder",
            "warning",
            f"Other users can write to {folder}.",
            advice=advise("protect_folder", folder=folder),
        )


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


def _pages(connection: apsw.Connection) -> Finding:
    answer = next(_broken_pages(connection), None)
    if answer is None:
        return Finding("pages", "ok", "no damaged pages")
    return Finding(
        "pages",
        "error",
        f"The file is damaged: {answer}. Restore a backup.",
        advice=advise("export"),
        code=StoreDamaged.code,
    )


def _broken_pages(connection: apsw.Connection) -> Iterator[str]:
    """Yield what SQLite finds wrong with the file itself.

    Its check asks FTS5 too, but a damaged keyword index alone can be repaired: that is checked
    apart.
    """
    try:
        answers = [str(answer) for (answer,) in connection.execute("PRAGMA quick_check")]
    except apsw.CorruptError as error:
        answers = [str(error)]
    except apsw.SQLError:
        # An index that FTS5 cannot even open stops the whole check: check table by table.
        answers = [
            str(answer)
            for (table,) in connection.execute(_TABLES).fetchall()
            for (answer,) in connection.execute("SELECT * FROM pragma_quick_check(?)", (table,))
        ]
    for answer in answers:
        if answer != "ok" and "fts5" not in answer.lower():
            yield answer


def _keywords(rebuild: Callable[[], int], connection: apsw.Connection, *, fix: bool) -> Finding:
    if keyword.is_sound(connection):
        return Finding("keyword index", "ok", "matches the passages")
    if fix:
        count = rebuild()
        if keyword.is_sound(connection):
            return Finding("keyword index", "ok", f"rebuilt from {count} passages", fixed=True)
    return Finding(
        "keyword index",
        "error",
        "The keyword index does not match the passages.",
        advice=FIX,
    )


def _references(connection: apsw.Connection) -> Finding:
    orphans = len(connection.execute("PRAGMA foreign_key_check").fetchall())
    if orphans:
        return Finding("rows", "error", f"{orphans} rows refer to rows that no longer exist.")
    return Finding("rows", "ok", "every passage has its document")


def _counts(connections: Connections, connection: apsw.Connection, *, fix: bool) -> Finding:
    wrong = int(connection.execute(_MISCOUNTED).get)
    if not wrong:
        return Finding("counts", "ok", "every document has the right passage count")
    if fix:
        with WriteLock(connections):
            connection.execute(_RECOUNT)
        return Finding("counts", "ok", f"{wrong} passage counts corrected", fixed=True)
    return Finding(
        "counts", "warning", f"{wrong} documents have a wrong passage count.", advice=FIX
    )


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
        blocks = vectors.occupied(connection, generation.id, generation.dims)
        present = {ref for refs in blocks for ref in refs}
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
        vectors.write(connection, generation.id, generation.dims, dict.fromkeys(clear))
        connection.executemany(
            UNEMBEDDED, [(generation.id, ref, "pending") for ref in sorted(await_)]
        )


def _journal(connections: Connections, connection: apsw.Connection, *, fix: bool) -> Finding:
    path = connections.path + "-wal"
    if connections.in_memory or not os.path.exists(path):
        return Finding("journal", "ok", "empty")
    if fix:
        done = checkpoint(connection, "TRUNCATE")
        words = "emptied" if done else "in use by another process"
        return Finding("journal", "ok" if done else "warning", words, fixed=done)
    size = os.stat(path).st_size
    return Finding("journal", "ok", f"{size:,} bytes")


def copy_to(connections: Connections, target: str) -> None:
    """Write a consistent copy by ``VACUUM INTO``, which reads a snapshot and blocks no writer."""
    if os.path.exists(target):
        raise UsageError(f"{target} already exists. Choose another name for the backup.")
    # A unique name: the leftovers of a killed backup must not stop the next one.
    partial = f"{target}.{new_id()}.partial"
    try:
        # subtle: VACUUM INTO would create the file 0644; it also accepts an empty file.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE_FILE))
    except OSError as error:
        raise StoreError(
            f"Cannot write the backup {target}: {error.strerror}. Choose another place."
        ) from error
    try:
        connections.get().execute("VACUUM INTO ?", (partial,))
        _sync(partial)
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise


def _sync(path: str) -> None:
    """Make the copy durable; no SQLite connection has it open, so a plain ``open`` is safe."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
