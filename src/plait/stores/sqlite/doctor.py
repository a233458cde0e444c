"""Check and repair a memory's file, check by check. `plait.writing.doctor` checks the facts."""

from collections.abc import Callable, Iterator
from functools import cache

import apsw

from plait.errors import StoreDamaged, advise
from plait.stores.sqlite import blocks, integrity, rowcheck, tags
from plait.stores.sqlite.connection import Connections
from plait.stores.sqlite.file_checks import (
    check_journal,
    check_pages,
    check_place,
    check_version,
    remade,
)
from plait.stores.sqlite.findings import FIX, broken, unsafe
from plait.stores.sqlite.foreign import refuse_newer
from plait.stores.sqlite.replaced import written_elsewhere
from plait.stores.sqlite.state import generations
from plait.stores.sqlite.table_checks import (
    check_counts,
    check_indexes,
    check_keywords,
    check_references,
    check_schema,
    check_texts,
    check_values,
    check_vectors,
    foreign_table,
)
from plait.stores.sqlite.write_lock import WriteLock
from plait.types.reports import Finding


def examine(connections: Connections, rebuild: Callable[[], int], *, fix: bool) -> list[Finding]:
    """Run every check; later ones rely on earlier ones, and damage ends them."""
    refuse_newer(connections.get(), connections.path)
    findings = [check_version(), *check_place(connections, fix=fix)]
    try:
        for finding in _checks(connections, rebuild, fix=fix):
            findings.append(finding)
            if finding.code == StoreDamaged.code:
                # Repairing something on top of broken pages would only hide the damage.
                break
    except (apsw.CorruptError, apsw.SQLError, apsw.ConstraintError, UnicodeDecodeError) as error:
        findings.append(broken(connections, f"{error}"))
    except apsw.ConnectionClosedError as error:  # a lock noticed it, and reopened the file
        raise written_elsewhere(connections.path) from error
    # What a repair could not repair needs another step than a repair.
    salvage = advise("salvage", path=connections.path)
    return [
        finding._replace(advice=salvage) if fix and finding.advice == FIX else finding
        for finding in findings
    ]


def _checks(
    connections: Connections, rebuild: Callable[[], int], *, fix: bool
) -> Iterator[Finding]:
    connection = connections.get()
    # Asked only before something is made again or dropped, because it reads the whole file again.
    misplaced = cache(lambda: _misplaced(connections, connection))
    verdict = integrity.verdict(connection)
    made = remade(connections, connection, verdict) if verdict.broken and fix else ""
    if made:
        verdict = integrity.verdict(connection)
        yield Finding("pages", "ok", f"made again, because of damaged pages: {made}", fixed=True)
    yield check_pages(connections, connection, verdict, misplaced, fix=fix)
    yield check_schema(connections, connection, fix=fix)
    yield check_indexes(connections, connection, verdict, misplaced, fix=fix)
    yield check_values(connections, connection, misplaced, fix=fix)
    yield check_keywords(connections, rebuild, connection, misplaced, fix=fix)
    yield check_references(connections, connection, misplaced, fix=fix)
    yield check_counts(connections, connection, misplaced, fix=fix)
    yield tags.check(connections, misplaced, fix=fix) or unsafe(
        connections, str(misplaced()), "tags"
    )
    yield check_texts(connections, connection, fix=fix)
    for generation in generations(connection):
        yield check_vectors(connections, connection, generation, fix=fix)
    yield blocks.check(connections, misplaced, fix=fix) or unsafe(
        connections, str(misplaced()), "signs"
    )
    yield check_journal(connections, fix=fix)


def _misplaced(connections: Connections, connection: apsw.Connection) -> str | None:
    """Return a table with foreign rows, or with rows in the file that SQLite does not find."""
    foreign = foreign_table(connection, rowcheck.unreadable_rows(connection))
    if foreign is not None or connections.in_memory:
        return foreign
    from plait.stores.sqlite import carving

    with WriteLock(connections):
        return carving.misplaced(connections.path, connection)
