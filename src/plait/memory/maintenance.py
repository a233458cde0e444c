"""The maintenance verbs: reindex, stats, doctor, backup, export, import."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from plait.memory.opening import OpenMemory
from plait.searching.where import Where
from plait.types import Filter

if TYPE_CHECKING:
    from plait.types.reports import Finding, Imported, Reindexed, Stats
    from plait.writing.backfill import Progress


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
        from plait.writing.doctor import examine

        if self._store is None:
            return [Finding("file", "ok", f"{self.path} does not exist yet: nothing to check")]
        findings = examine(self._store, fix=fix)
        findings += [
            Finding("identity", "warning", notice.text, advice=notice.advice)
            for notice in self.outdated_rules()
        ]
        return [*findings, *self._embedder.check()]

    def backup(self, target: str | os.PathLike[str]) -> str:
        """Copy the memory to a new file, consistent and private, while others keep writing."""
        from plait.stores import backup

        place = os.path.abspath(os.fspath(target))
        backup(self._required(), place)
        return place

    def export(
        self, *, where: Filter | Where | None = None, all_projects: bool = False
    ) -> Iterator[str]:
        """Yield the memory as JSON lines: a header, then one document per line.

        Without a filter, everything; with one, this project and personal documents, unless
        ``all_projects``.
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
        yield from jsonl.export_lines(self._store, wanted)

    def export_graph(self) -> Iterator[str]:
        """Yield the current graph as the reference memory server writes it, line by line.

        That format cannot mark untrusted facts, so only trusted ones are written.
        """
        from plait.exporting import reference
        from plait.types.reports import NewEntity

        if self._store is None:
            return
        graph = self.graph.read(trusts=("trusted",))
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
