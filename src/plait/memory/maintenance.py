"""The maintenance verbs: reindex, stats, doctor, salvage, backup, restore, export, import."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from plait.errors import StoreDamaged, UsageError
from plait.memory.opening import OpenMemory
from plait.searching.where import Where
from plait.settings.loading import Config, load
from plait.types import Filter
from plait.types.guarding import guarded

if TYPE_CHECKING:
    from plait.types.reports import Finding, Imported, Reindexed, Restored, Salvaged, Stats
    from plait.writing.backfill import Progress


@guarded
class MaintainedMemory(OpenMemory):
    """An opened memory with the maintenance verbs."""

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
        from plait.writing.reindex import reindex

        report = reindex(self._begin(), afresh=embeddings, progress=progress)
        self._flush()
        self._required().tidy(compact=compact)
        return report

    def stats(self) -> Stats:
        """Return the size and state of the memory."""
        if self._store is not None:
            return self._store.stats()
        from plait.types.reports import Stats

        return Stats(path=self.path)

    def doctor(self, *, fix: bool = False) -> list[Finding]:
        """Check the memory; with ``fix``, repair what can be repaired."""
        from plait.types.reports import Finding
        from plait.writing.doctor import check_secrets, examine

        if self._store is None:
            return [Finding("file", "ok", f"{self.path} does not exist yet: nothing to check")]
        findings = examine(self._store, fix=fix)
        if not any(finding.code == StoreDamaged.code for finding in findings):
            findings.append(check_secrets(self._store))
        findings += [
            Finding("identity", "warning", notice.text, advice=notice.advice)
            for notice in self.outdated_rules()
        ]
        return [*findings, *self._embedder.check()]

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

        place = os.path.abspath(os.fspath(target))
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
            NotFound: There is no such backup, or nothing to undo.
            UsageError: No memory is named, there is neither a backup nor a journal to rename, or
                ``undo`` with a backup.
            StoreError: The backup is damaged or not a memory, or the files cannot be written.
        """
        from plait.stores import restore

        if config is None:
            if path is None:
                # On an open memory, this call must not replace the default one.
                raise UsageError(
                    "Name the memory to replace: Memory.restore(backup, path).", code="no_path"
                )
            config = load({"db_path": os.fspath(path)})
        settings = config.settings
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
        from plait.searching.where import widened

        changed_at = None if self._store is None else self._store.state().changed_at
        yield jsonl.header_line(jsonl.ExportHeader(changed_at))
        if self._store is None:
            return
        fields = widened(where)
        if self._project_is_chosen and not all_projects:
            fields.setdefault("projects", (self.config.project,))
        wanted = self._filter(fields, all_projects=where is None or all_projects)
        yield from jsonl.export_lines(self._store, wanted, damaged)

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

    def import_lines(self, lines: Iterable[str]) -> Imported:
        """Import an export, or a reference memory server's file; newer documents here are kept.

        A bad line is found before anything is written.

        Raises:
            UsageError: A line belongs to neither format; the message names the line.
        """
        from plait.exporting import importing

        return importing.import_lines(self._begin(), self.graph, lines)
