"""Looking after the file: what `doctor` examines and mends, and copies made under load."""

import os
import stat
from collections.abc import Callable, Iterator

import apsw

from plait.errors import StoreError, UsageError
from plait.stores.sqlite import keywords, profiles, terms, vectors
from plait.stores.sqlite.connection import (
    NETWORK_FILE_SYSTEMS,
    PRIVATE_FILE,
    Connections,
    Transaction,
    checkpoint,
    file_system,
    sqlite_version,
    wal_is_safe,
)
from plait.stores.sqlite.facts import FactWriter
from plait.stores.sqlite.filters import BEFORE_ALL, LATEST_TURN, latest_turn, present_moment
from plait.stores.sqlite.generations import UNEMBEDDED, Generation, generations
from plait.stores.sqlite.rows import new_id, rows
from plait.stores.sqlite.versions import CLOCKS_DIFFER_MS, remember
from plait.times import LAST_MOMENT
from plait.types import Finding, Ref

OTHERS = stat.S_IRWXG | stat.S_IRWXO
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


_ENTITIES = "SELECT id, title, type FROM documents WHERE kind = 'entity'"
_PROFILES = (
    "SELECT d.id, p.text FROM documents AS d JOIN passages AS p ON p.document = d.rowid "
    "WHERE d.kind = 'entity'"
)
# Two of one topic and trust that hold at one moment, now or later.
_RIVALS = (
    "SELECT a.topic FROM documents AS a JOIN documents AS b ON b.topic = a.topic "
    "AND b.project = a.project AND coalesce(b.parent, '') = coalesce(a.parent, '') "
    "AND b.trust = a.trust AND b.kind = 'observation' AND b.rowid > a.rowid "
    "WHERE a.topic IS NOT NULL AND a.kind = 'observation' "
    "AND max(coalesce(a.valid_from, ?1), coalesce(b.valid_from, ?1), ?1) "
    "< min(coalesce(a.valid_to, ?2), coalesce(b.valid_to, ?2)) LIMIT 1"
)
_FORGET_TURN = "DELETE FROM meta WHERE name = ?"


def examine(
    connections: Connections, rebuild: Callable[[], int], *, now: int, fix: bool
) -> list[Finding]:
    """Every check, in an order in which a later one may rely on the earlier ones."""
    connection = connections.get()
    findings = [_version(), *_place(connections, fix=fix)]
    file = _pages(connection)
    findings.append(file)
    if file.level == "error":
        # Mending an index on top of broken pages would only hide the damage.
        return findings
    findings.append(_keywords(rebuild, connection, fix=fix))
    findings.append(_references(connection))
    findings.append(_counts(connections, connection, fix=fix))
    findings.append(_present(connections, connection, now, fix=fix))
    findings.append(_facts(connections, connection, now, fix=fix))
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
        f"SQLite {words} can lose writes of several processes. Run: pip install --upgrade apsw",
    )


def _place(connections: Connections, *, fix: bool) -> Iterator[Finding]:
    """File system and modes."""
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
            f"{path} lies on {kind}, where SQLite's WAL loses data. Move it to a local disk.",
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
            "folder", "warning", f"Other users may write in {folder}. Run: chmod go-w {folder}"
        )


def _modes(path: str, *, fix: bool) -> Finding:
    loose = [
        name
        for name in (path, path + "-wal", path + "-shm")
        if os.path.exists(name) and os.stat(name).st_mode & OTHERS
    ]
    if not loose:
        return Finding("modes", "ok", "readable by you alone")
    if fix:
        for name in loose:
            os.chmod(name, PRIVATE_FILE)
        return Finding("modes", "ok", f"{len(loose)} files made private (0600)", fixed=True)
    return Finding("modes", "warning", f"Other users may read {loose[0]}. Run: plait doctor --fix")


def _pages(connection: apsw.Connection) -> Finding:
    answer = next(_broken_pages(connection), None)
    if answer is None:
        return Finding("pages", "ok", "the file's pages are whole")
    return Finding(
        "pages",
        "error",
        f"The file is damaged: {answer}. Restore a backup, or save what can be read: plait export",
    )


def _broken_pages(connection: apsw.Connection) -> Iterator[str]:
    """What SQLite says against the file itself.

    Its check asks FTS5 too, but what ails the keyword index alone can be mended: that is looked at
    apart.
    """
    try:
        answers = [str(answer) for (answer,) in connection.execute("PRAGMA quick_check")]
    except apsw.CorruptError as error:
        answers = [str(error)]
    except apsw.SQLError:
        # An index that FTS5 cannot even open stops the whole check: one table after another, then.
        answers = [
            str(answer)
            for (table,) in connection.execute(_TABLES).fetchall()
            for (answer,) in connection.execute("SELECT * FROM pragma_quick_check(?)", (table,))
        ]
    for answer in answers:
        if answer != "ok" and "fts5" not in answer.lower():
            yield answer


def _keywords(rebuild: Callable[[], int], connection: apsw.Connection, *, fix: bool) -> Finding:
    if keywords.is_sound(connection):
        return Finding("keyword index", "ok", "agrees with every passage")
    if fix:
        count = rebuild()
        if keywords.is_sound(connection):
            return Finding("keyword index", "ok", f"rebuilt from {count} passages", fixed=True)
    return Finding(
        "keyword index",
        "error",
        "The keyword index does not agree with the passages. Run: plait doctor --fix",
    )


def _references(connection: apsw.Connection) -> Finding:
    orphans = len(connection.execute("PRAGMA foreign_key_check").fetchall())
    if orphans:
        return Finding("rows", "error", f"{orphans} rows point at something that is gone.")
    return Finding("rows", "ok", "every passage has its document")


def _counts(connections: Connections, connection: apsw.Connection, *, fix: bool) -> Finding:
    wrong = int(connection.execute(_MISCOUNTED).get)
    if not wrong:
        return Finding("counts", "ok", "every document knows its passages")
    if fix:
        with Transaction(connections):
            connection.execute(_RECOUNT)
        return Finding("counts", "ok", f"{wrong} documents recounted", fixed=True)
    return Finding(
        "counts", "warning", f"{wrong} documents miscount passages. Run: plait doctor --fix"
    )


def _present(
    connections: Connections, connection: apsw.Connection, now: int, *, fix: bool
) -> Finding:
    """The present is never before the last change of truth: something must have changed then."""
    noted = int(terms.get_meta(connection, LATEST_TURN) or now)
    # What a clock that was ahead has dated holds nevertheless: nothing is hidden by mending.
    turned = latest_turn(connection, min(noted, LAST_MOMENT))
    if noted <= now + CLOCKS_DIFFER_MS or noted == turned:
        return Finding("clock", "ok", "the last change of a fact is a real one")
    if fix:
        with Transaction(connections):
            connection.execute(_FORGET_TURN, (LATEST_TURN,))
            if turned != BEFORE_ALL:
                remember(connection, turned)
        return Finding("clock", "ok", "the moment of the last change was put right", fixed=True)
    return Finding(
        "clock",
        "warning",
        f"Facts are said to have changed at {noted} ms, long after now, and none did. "
        "Run: plait doctor --fix",
    )


def _facts(
    connections: Connections, connection: apsw.Connection, now: int, *, fix: bool
) -> Finding:
    """Every profile says what holds now, and no topic has two answers."""
    with connection:  # One snapshot: others may be writing, and that is no damage.
        moment = present_moment(connection, now)
        rival = connection.execute(_RIVALS, (moment, LAST_MOMENT + 1)).get
        said: dict[str, str] = dict(rows(connection, _PROFILES))
        stale = [
            id_
            for id_, name, type_ in rows(connection, _ENTITIES)
            if said.get(id_)
            != profiles.compose(name, type_, profiles.current_observations(connection, id_, moment))
        ]
    if rival is not None:
        return Finding(
            "facts",
            "warning",
            f"The topic '{rival}' has several current facts. Store the one that holds under it.",
        )
    if not stale:
        return Finding("facts", "ok", "every profile says what holds now")
    if fix:
        with Transaction(connections):
            writer = FactWriter(connection, now=now)
            writer.refresh(stale)
            writer.finish()
        return Finding("facts", "ok", f"{len(stale)} profiles made anew", fixed=True)
    return Finding(
        "facts", "warning", f"{len(stale)} profiles are out of date. Run: plait doctor --fix"
    )


def _vectors(
    connections: Connections,
    connection: apsw.Connection,
    generation: Generation,
    *,
    fix: bool,
) -> Finding:
    """Two-way anti-join: no vector without a passage, no passage without a vector or a reason."""
    name = "vectors" if generation.current else "vectors being built"
    with connection:  # One snapshot: others may be writing, and that is no damage.
        blocks = vectors.occupied(connection, generation.id, generation.dims)
        present = {ref for refs in blocks for ref in refs}
        refs = {ref for (ref,) in connection.execute(_PASSAGE_REFS)}
        excused = {ref: reason for ref, reason in rows(connection, _EXCUSED, (generation.id,))}
    if not generation.current:
        refs = {ref for ref in refs if ref <= generation.filled_to}
    ghosts = {ref for ref in present if ref not in refs and ref <= max(refs, default=0)}
    if generation.current:
        ghosts = present - refs
    silent = refs - present - excused.keys()
    stale = {ref for ref in excused if ref in present}
    if ghosts or silent or stale:
        problem = (
            f"{len(ghosts)} vectors without a passage, {len(silent)} passages without a vector, "
            f"{len(stale)} marked as missing although present"
        )
        if not fix:
            return Finding(name, "error", f"{problem}. Run: plait doctor --fix")
        _mend_vectors(connections, connection, generation, ghosts | stale, silent | stale)
        return Finding(name, "ok", f"mended: {problem}", fixed=True)
    waiting = sum(reason == "pending" for reason in excused.values())
    if waiting and generation.current:
        return Finding(name, "warning", f"{waiting} passages wait for a vector. Run: plait reindex")
    if not generation.current:
        return Finding(name, "warning", "A reindex was not finished. Run: plait reindex")
    return Finding(name, "ok", f"{len(present)} vectors, each with its passage")


def _mend_vectors(
    connections: Connections,
    connection: apsw.Connection,
    generation: Generation,
    clear: set[Ref],
    await_: set[Ref],
) -> None:
    with Transaction(connections):
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
    """A consistent copy by ``VACUUM INTO``, which reads one snapshot and blocks no writer."""
    if os.path.exists(target):
        raise UsageError(f"{target} exists already. Choose another name for the backup.")
    # A name of its own: what a killed backup left behind must not stop the next one.
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
    """Make the copy durable; no SQLite connection holds it, so opening it plainly is safe."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
