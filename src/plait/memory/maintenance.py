"""The maintenance verbs: reindex, stats, doctor, salvage, backup, restore, export, import."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, cast

from plait.errors import NotFound, StoreDamaged, UsageError
from plait.memory.opening import MEMORY_OFF, OpenMemory
from plait.searching.search import awaits_vectors
from plait.searching.where import Where
from plait.settings.loading import Config, load
from plait.types import Filter, check_range
from plait.types.guarding import guarded, recorded
from plait.types.ids import is_address

if TYPE_CHECKING:
    from plait.exporting.reading import Importable
    from plait.memory import Memory
    from plait.memory.team import Team
    from plait.types.audit import AuditEntry, AuditQuery
    from plait.types.reports import (
        Exported,
        Finding,
        Imported,
        Maintained,
        Reindexed,
        Restored,
        Salvaged,
        Stats,
    )
    from plait.writing.backfill import Progress
    from plait.writing.writer import Writer


MOST_LOGGED = 10_000


@guarded
class MaintainedMemory(OpenMemory):
    """An opened memory with the maintenance verbs."""

    @property
    def team(self) -> Team:
        """Who the members of this memory are, and who sees which document."""
        from plait.memory.team import Team

        return Team(self._store, self.path)

    @property
    def _members(self) -> Team:
        """Who sees what here, also for a scope, which shows nobody its members."""
        return self.team

    def _visible(self, visibility: str | None) -> AbstractContextManager[None]:
        return nullcontext() if visibility is None else self.team.writing(visibility)

    @recorded("reindex")
    def reindex(
        self,
        *,
        embeddings: bool = False,
        compact: bool = False,
        progress: Progress | None = None,
    ) -> Reindexed:
        """Rebuild the keyword index and compute missing vectors, while searches continue.

        Args:
            embeddings: Recompute every vector, not only the missing ones.
            compact: Return free space to the disk at the end.
            progress: Called with the number of passages embedded so far, 0 and an empty name.
        """
        from plait.types.reports import Reindexed
        from plait.writing.reindex import reindex

        if self.is_off:
            return Reindexed(0)
        writer = self._begin()
        report = reindex(writer, afresh=embeddings, progress=progress)
        self._after_writing(writer, afresh=True)
        self._flush()
        self._required().tidy(compact=compact)
        return report

    def stats(self) -> Stats:
        """Return the size and state of the memory."""
        if self._store is not None:
            stats = self._store.stats()
            if stats.space is None and awaits_vectors(self._embedder):
                return stats._replace(pending_count=stats.chunk_count)
            return stats
        from plait.types.reports import Stats

        return Stats(path=self.path)

    @recorded("doctor")
    def doctor(self, *, fix: bool = False) -> list[Finding]:
        """Check the memory; with ``fix``, repair what can be repaired."""
        from plait.types.reports import Finding
        from plait.writing.doctor import check_secrets, examine

        if self._store is None:
            text, code, _, advice = self._no_memory().notice
            check = "backend" if self.is_off else "file"
            return [Finding(check, "warning", text, advice=advice, code=code)]
        findings = examine(self._store, fix=fix)
        if not any(finding.code == StoreDamaged.code for finding in findings):
            findings.append(check_secrets(self._store))
        findings += [
            Finding("identity", "warning", notice.text, advice=notice.advice)
            for notice in self.outdated_rules()
        ]
        return [*findings, *self._embedder.check()]

    @recorded("maintain")
    def maintain(
        self,
        *folders: str | os.PathLike[str],
        dry_run: bool = False,
        light: bool = False,
        visibility: str | None = None,
    ) -> Maintained:
        """Do what is due: changed files, your retention rules, missing vectors, free space.

        For a schedule, or a program that runs for long. It concerns all projects. Nothing is
        deleted but what a rule says that you have set (see `prune`).

        Args:
            folders: What to index first, as by ``ingest(incremental=True)``; the setting
                ``memory_dir`` by default.
            dry_run: Only tell what would be done; files are not counted.
            light: Leave out ``memory_dir`` and what takes long, such as making the file smaller.
            visibility: Who sees new files, as for `ingest`.
        """
        from plait.memory.upkeep import maintain
        from plait.types.reports import Maintained

        if self.is_off:
            return Maintained()
        if not dry_run:
            self._check_writable()
        # New files get the project of the caller, which for a server is that of any agent.
        own = None if light else self.config.settings.memory_dir
        paths = [os.fspath(folder) for folder in folders] or ([own] if own else [])
        opened = cast("Memory", self)
        return maintain(opened, paths, dry_run=dry_run, light=light, visibility=visibility)

    def log(self, wanted: AuditQuery | None = None, *, limit: int = 20) -> list[AuditEntry]:
        """Return who changed what, the newest first: documents by id and hash, never their text."""
        from plait.types.audit import AuditQuery

        check_range("limit", limit, 1, MOST_LOGGED)
        chosen = wanted or AuditQuery()
        if chosen.projects is None:
            chosen = chosen._replace(scopes=False)
        return [] if self._store is None else self._store.audit(chosen, limit)

    @classmethod
    def examine(
        cls,
        path: str | os.PathLike[str],
        *,
        fix: bool = False,
        config: Config | None = None,
    ) -> list[Finding]:
        """Check a memory that may be too damaged to be opened; otherwise the same as `doctor`.

        Args:
            path: The memory; it is not created.
            fix: Repair what can be repaired.
            config: Settings that were already loaded.

        Raises:
            StoreError: Not even the file itself can be opened.
        """
        place = os.fspath(path)
        try:
            with cls.open(place, config=config, create=False) as memory:
                return memory.doctor(fix=fix)
        except StoreDamaged:
            # Opening reads more of the memory than repairing it does.
            from plait.stores import check_file

            return check_file(place, fix=fix)

    def backup(self, target: str | os.PathLike[str]) -> str:
        """Copy the memory to a new file, consistent and private, while others keep writing."""
        from plait.stores import backup

        place = os.fspath(target)
        place = place if is_address(place) else os.path.abspath(place)
        backup(self._required(), place)
        return place

    @classmethod
    def restore(
        cls,
        source: str | os.PathLike[str] | None = None,
        path: str | os.PathLike[str] | None = None,
        *,
        undo: bool = False,
        config: Config | None = None,
    ) -> Restored:
        """Replace a memory by a backup, and keep the present one beside it under a dated name.

        Processes that have the memory open, this one included, use the restored one from their next
        act on. A kill at any moment leaves either memory whole.

        Args:
            source: The backup. Without one, nothing is replaced: if a file was copied into place
                by hand beside the journal of another file, that journal is renamed.
            path: The memory. It need not exist, and it may be damaged.
            undo: Restore what the latest restore replaced, instead of a ``source``.
            config: Settings that were already loaded; without a ``path``, they name the memory.

        Raises:
            NotFound: There is no such backup, nothing to undo, or the memory is off.
            UsageError: No memory is named, there is neither a backup nor a journal to rename, or
                ``undo`` with a backup.
            StoreError: The backup is damaged or not a memory, or the files cannot be written.
        """
        from plait.stores import refuse_to_write, restore

        if config is None:
            if path is None:
                # On an open memory, this call must not replace the default one.
                raise UsageError(
                    "Name the memory to replace: Memory.restore(backup, path).", code="no_path"
                )
            config = load({"db_path": os.fspath(path)})
        settings = config.settings
        if settings.backend == "none":
            raise NotFound(MEMORY_OFF.text, code=MEMORY_OFF.code)
        if settings.read_only:
            refuse_to_write(settings.db_path)
        return restore(
            settings.db_path,
            None if source is None else os.fspath(source),
            undo=undo,
            timeout=settings.sqlite_open_timeout_secs,
        )

    @classmethod
    def salvage(
        cls,
        path: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        config: Config | None = None,
    ) -> Salvaged:
        """Copy every row of a damaged memory that can still be read into a new one.

        The damaged file is not changed, and need not open. Ids, projects, trust, topics, trash,
        relations and counts of use are kept; vectors are made by the next `reindex`.

        Args:
            path: The damaged memory.
            target: The new memory, a file that does not exist yet.
            config: Settings that were already loaded, of the new memory.

        Raises:
            NotFound: There is no file at ``path``.
            UsageError: ``target`` exists.
            StoreError: The file has nothing of a memory, or cannot be read or written.
        """
        from plait.stores import salvage

        done = salvage(os.fspath(path), os.fspath(target))
        with cls.open(done.target, config=config) as memory:
            memory.doctor(fix=True)  # profiles of entities are made from their facts
        return done

    def export(
        self,
        *,
        where: Filter | Where | None = None,
        all_projects: bool = False,
        damaged: list[str] | None = None,
    ) -> Iterator[str]:
        """Yield the memory as JSON lines: a header, then one document per line.

        Without a filter, everything; with one, this project and personal documents, unless
        ``all_projects``. ``damaged`` gets the ids of documents that cannot be read; without it,
        the first one is an error.
        """
        from plait.exporting import jsonl

        changed_at = None if self._store is None else self._store.state().changed_at
        yield jsonl.header_line(jsonl.ExportHeader(changed_at))
        if self._store is None:
            return
        wanted = self._exported(where, all_projects=all_projects)
        yield from jsonl.export_lines(self._store, wanted, self._members.visibilities, damaged)

    @property
    def _project_is_chosen(self) -> bool:
        """Whether the caller named the project, rather than the folder implying it."""
        return self.config.origins.get("project", "default") != "default"

    @property
    def _session_places(self) -> tuple[str | None, ...]:
        """Where a session may be, the first place first."""
        return tuple(dict.fromkeys((self.config.project, None)))

    def _exported(self, where: Filter | Where | None, *, all_projects: bool) -> Filter:
        """Return which documents an export has."""
        from plait.searching.where import widened

        fields = widened(where)
        if self._project_is_chosen and not all_projects:
            fields.setdefault("projects", (self.config.project,))
        return self._filter(fields, all_projects=where is None or all_projects)

    def export_graph(self, *, damaged: list[str] | None = None) -> Iterator[str]:
        """Yield the current graph as the reference memory server writes it, line by line.

        That format cannot mark untrusted facts, so only trusted ones are written. ``damaged`` gets
        the ids of entities and observations that cannot be read; without it, the first one is an
        error.
        """
        from plait.exporting import reference
        from plait.types.reports import NewEntity

        if self._store is None:
            return
        graph = self.graph.read(trusts=("trusted",), damaged=damaged)
        entities = [NewEntity(row.name, row.type, row.contents) for row in graph.entities]
        yield from reference.graph_file_lines(entities, graph.relations)

    def export_folder(
        self,
        folder: str | os.PathLike[str],
        *,
        where: Filter | Where | None = None,
        all_projects: bool = False,
        allow_removal: bool = False,
        overwrite: bool = False,
        damaged: list[str] | None = None,
    ) -> Exported:
        """Write the memory as a folder of Markdown files, one per document, which git can keep.

        A second export changes only the files of documents that changed. Files that a person edited
        and files that plait did not write stay as they are.

        Args:
            folder: A new or empty folder, or an earlier snapshot.
            where: Which documents, as for `export`.
            all_projects: With a filter, the documents of all projects.
            allow_removal: Remove files even if nearly all of them belong to no document any more.
            overwrite: Write over files that were edited since the last export.
            damaged: Gets the ids of documents that cannot be read, instead of an error.

        Raises:
            NotFound: There is no memory yet.
            UsageError: The folder has other files, or nearly all of its files would be removed.
        """
        from plait.exporting.snapshot import write_snapshot

        return write_snapshot(
            self._required(),
            self._exported(where, all_projects=all_projects),
            os.path.abspath(os.fspath(folder)),
            seen_by=self._members.visibilities,
            allow_removal=allow_removal,
            overwrite=overwrite,
            damaged=damaged,
        )

    @recorded("import")
    def import_lines(
        self,
        lines: Iterable[str],
        *,
        trust: str = "trusted",
        dry_run: bool = False,
        scopes: bool = False,
        visibility: str | None = None,
    ) -> Imported:
        """Import an export, or a reference memory server's file; newer documents here are kept.

        A bad line is found before anything is written.

        Args:
            lines: The lines of the file.
            trust: The highest trust that a document gets, whatever the file says.
            dry_run: Only count what would be done.
            scopes: Write into users' scopes too, as an export of the whole memory has them;
                otherwise they are left out and counted.
            visibility: Who sees documents of which the file does not say it, as for `store`.

        Raises:
            UsageError: A line belongs to neither format; the message names the line.
        """
        from plait.exporting.reading import read_lines

        with self._visible(visibility):
            return self._import(read_lines(lines), trust, dry_run=dry_run, scopes=scopes)

    @recorded("import")
    def import_from(
        self,
        path: str | os.PathLike[str],
        *,
        trust: str = "trusted",
        dry_run: bool = False,
        scopes: bool = False,
        visibility: str | None = None,
    ) -> Imported:
        """Import a file or a folder by what it is, all of it or nothing.

        It may be an export, a folder of `export_folder`, a reference memory server's file, or a
        database of tars, hybrid-memory, mcp-memory, mcb or ZeroClaw, which is not changed.

        Args:
            path: The file or folder.
            trust: The highest trust that a document gets, whatever the import says.
            dry_run: Only count what would be done.
            scopes: Write into users' scopes too, as for `import_lines`.
            visibility: Who sees them, as for `import_lines`.

        Raises:
            UsageError: It is of no known format, or a part of it cannot be stored.
            SourceError: It cannot be read.
            StoreError: It is a database that cannot be read.
        """
        from plait.memory.importing import read_import

        content = read_import(self, os.fspath(path))
        with self._visible(visibility):
            return self._import(content, trust, dry_run=dry_run, scopes=scopes)

    def _import(
        self, content: Importable, trust: str, *, dry_run: bool, scopes: bool = False
    ) -> Imported:
        from plait.memory.importing import import_into

        return import_into(self, content, trust, dry_run=dry_run, scopes=scopes)

    def _dry_writer(self, *, allow_secret: bool = False) -> Writer:
        """Return what counts an import without writing, also where nothing may be written."""
        from plait.writing.writer import Writer

        store, project = self._required(), self.config.project
        return Writer.begin(
            store,
            self._embedder,
            self._cut,
            project,
            max_bytes=self._max_bytes,
            allow_secret=allow_secret,
        )

    def _hydrate(self) -> None:
        """Fill an empty memory from the snapshot that belongs to it, and say so."""
        from plait.memory.filling import fill_from_snapshot

        fill_from_snapshot(self)
