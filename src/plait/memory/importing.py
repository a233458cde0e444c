"""Read an import, and write it into a memory, all of it or nothing."""

import os

from plait.embedders.none import NoEmbedder
from plait.errors import SourceError, UsageError
from plait.exporting import narrowing
from plait.exporting.importing import import_content
from plait.exporting.reading import Importable, read_path
from plait.memory import Memory
from plait.memory.maintenance import MaintainedMemory
from plait.settings.schema import IN_MEMORY
from plait.stores import open_store
from plait.types import TRUSTS, check_choice
from plait.types.ids import is_address
from plait.types.reports import Imported


def import_into(
    memory: MaintainedMemory, content: Importable, trust: str, *, dry_run: bool, scopes: bool
) -> Imported:
    """Import what was read; without ``scopes``, users' scopes are left out and counted.

    Raises:
        UsageError: A document or relation cannot be written; nothing was.
    """
    if memory.is_off:
        return Imported()
    highest = check_choice("trust", trust, TRUSTS)
    if not dry_run:
        memory._check_writable()
    if not scopes:
        parts = narrowing.outside_scopes(content.parts, memory._store)
        scoped = len(content.parts) - len(parts)
        content = content._replace(parts=parts)
        done = memory._import(content, trust, dry_run=dry_run, scopes=True)
        return done._replace(scoped=scoped)
    unhidden = 0
    if not memory._members.has_members:
        unhidden = narrowing.hidden_documents(content.parts)
        content = content._replace(parts=narrowing.without_visibility(content.parts))
    if memory._store is None:
        # Into a memory in RAM first: what fails must not leave an empty file.
        settings = memory.config.settings._replace(read_only=False)
        config = memory.config._replace(settings=settings)
        rehearsal = Memory(open_store(IN_MEMORY), NoEmbedder(), config, path=IN_MEMORY)
        try:
            done = import_content(rehearsal._begin(), rehearsal.graph, content, trust=highest)
        finally:
            rehearsal.close()
        if dry_run:
            return done._replace(dry_run=True, unhidden=unhidden)
        memory._create()
    writer = memory._dry_writer() if dry_run else memory._begin()
    done = import_content(writer, memory.graph, content, trust=highest, dry_run=dry_run)
    if not dry_run:
        memory._after_writing(writer)
    return done._replace(unhidden=unhidden)


def read_import(memory: MaintainedMemory, place: str) -> Importable:
    """Read a file or a folder that is to be imported.

    Raises:
        UsageError: It is this memory itself, or of no known format.
        SourceError: It cannot be read.
        StoreError: It is a database that cannot be read.
    """
    # To open and close the memory's own file would drop the locks of SQLite.
    in_file = not is_address(memory.path) and os.path.exists(memory.path)
    both_exist = in_file and os.path.exists(place)
    if both_exist and os.path.samefile(memory.path, place):
        raise UsageError(f"{place} is this memory itself.", code="own_database", subject=place)
    try:
        return read_path(place, memory._max_bytes)
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{place} is not an export: it is not UTF-8 text ({error.reason}). Nothing was "
            "imported.",
            code="not_utf8",
            subject=place,
        ) from error
