"""Index a folder or a file: read changed files, skip unchanged ones, drop deleted ones."""

import os
from collections.abc import Sequence

from plait.errors import SourceError
from plait.types import TRUSTS, Document, Filter
from plait.types.reports import FileReport, IngestReport, Outcome
from plait.writing import deleting, documents, sources
from plait.writing.backfill import Progress
from plait.writing.changes import Change
from plait.writing.writer import BATCH_DOCUMENTS, Writer

BATCH_CHARS = 2_000_000
# A file changed within this time of its last indexing may have kept its time stamp.
RACY_MS = 2_000
EMPTY = "empty: no text in it"
NOT_WRITTEN = "interrupted before it was written"


class Ingest:
    """One run over one folder or file. A file is one document, however it is reached.

    With ``keep_project`` a file that is known already stays in its project.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        incremental: bool,
        keep_project: bool = True,
        progress: Progress | None = None,
    ) -> None:
        self._writer = writer
        self._store = writer.store
        self._project = writer.project
        self._keep_project = keep_project
        self._incremental = incremental
        self._progress = progress
        self._reports: list[FileReport] = []
        self._batch: list[tuple[Change, Outcome]] = []
        self._chars = 0
        self._total = 0
        self._seen: set[str] = set()
        self._emptied: list[Document] = []

    def run(self, walk: sources.Walk) -> IngestReport:
        """Read every file of the walk; one bad file never stops the rest."""
        interrupted = False
        unseen: list[str] = []
        try:
            entries = list(walk)
            self._total = len(entries)
            files = [entry for entry in entries if isinstance(entry, sources.SourceFile)]
            known = dict(zip(files, self._known(files), strict=True))
            for entry in entries:
                if isinstance(entry, sources.Skipped):
                    unseen.append(entry.path)
                    self._report(FileReport(entry.path, "skipped", reason=entry.reason))
                else:
                    self._take(entry, known[entry])
            self._flush()
            self._forget_vanished(walk, unseen)
        except KeyboardInterrupt:
            interrupted = True
            self._drop_batch()
        self._store.tidy()
        return IngestReport(tuple(self._reports), walk.ignored, interrupted=interrupted)

    def _known(self, files: Sequence[sources.SourceFile]) -> list[Document | None]:
        """Return the stored document of each file."""
        wanted = [
            Document(
                key=file.key, kind="file", path=file.path, source=file.root, project=self._project
            )
            for file in files
        ]
        return self._store.known(wanted)

    def _take(self, file: sources.SourceFile, old: Document | None) -> None:
        self._seen.add(file.path)
        file, project = self._placed(file, old)
        name = (project, file.root, file.key)
        # Only a file that stays in its place can be skipped.
        same = old if old is not None and (old.project, old.source, old.key) == name else None
        if same is not None and self._incremental and _surely_unchanged(same, file):
            self._report(FileReport(file.path, "unchanged"))
            return
        try:
            content = sources.read_file(file)
        except sources.NotText as error:
            self._report(
                FileReport(file.path, "skipped", reason=error.notice.text, code=error.code)
            )
            return
        except SourceError as error:
            self._report(FileReport(file.path, "failed", reason=error.notice.text, code=error.code))
            return
        if same is not None and same.sha256 == content.sha256:
            self._report(FileReport(file.path, "unchanged"))
            return
        document = documents.document_from_file(file, content, project)
        self._add(documents.complete(document, documents.now_ms()), old)

    def _placed(
        self, file: sources.SourceFile, old: Document | None
    ) -> tuple[sources.SourceFile, str | None]:
        """Return where a file belongs: a known one stays under the widest folder it came from."""
        if old is None:
            return file, self._project
        if _is_below(file.root, old.source) and old.key is not None:
            file = file._replace(root=old.source, key=old.key)
        return file, old.project if self._keep_project else self._project

    def _add(self, draft: documents.Draft, old: Document | None) -> None:
        document = draft.document
        entry = self._writer.chunk(draft)
        if entry.passages:
            self._batch.append((Change(entry), "added" if old is None else "changed"))
            self._chars += len(document.text)
            if len(self._batch) >= BATCH_DOCUMENTS or self._chars >= BATCH_CHARS:
                self._flush()
        elif old is None:
            self._report(FileReport(document.path or "", "skipped", reason=EMPTY))
        else:
            # Its old text must no longer be found.
            self._emptied.append(old)

    def _flush(self) -> None:
        batch = self._batch
        if not batch:
            return
        stored = self._writer.write([change for change, _ in batch], catch_up=False)
        self._batch, self._chars = [], 0
        for (change, outcome), done in zip(batch, stored, strict=True):
            path = change.entry.document.path or ""
            self._report(FileReport(path, outcome, chunks=done.chunks))

    def _drop_batch(self) -> None:
        for change, _ in self._batch:
            path = change.entry.document.path or ""
            self._reports.append(
                FileReport(path, "skipped", reason=NOT_WRITTEN, code="interrupted")
            )
        self._batch = []

    def _forget_vanished(self, walk: sources.Walk, unseen: Sequence[str]) -> None:
        """Drop files that are deleted or excluded; keep those that could not be read."""
        reports = [
            FileReport(old.path or "", "removed", chunks=old.chunk_count, reason=EMPTY)
            for old in self._emptied
        ]
        gone = [old.id for old in self._emptied]
        for document in self._store.scan(_files_of(walk)):
            path = document.path or ""
            hidden = any(path == place or path.startswith(place + os.sep) for place in unseen)
            if path not in self._seen and not hidden and _has_left(document, walk):
                gone.append(document.id)
                reports.append(FileReport(path, "removed", chunks=document.chunk_count))
        if gone:
            deleting.delete(self._store, gone, undoable=False)
        for report in reports:
            self._report(report)

    def _report(self, report: FileReport) -> None:
        self._reports.append(report)
        if self._progress is not None:
            self._progress(len(self._reports), self._total, report.path)


def _files_of(walk: sources.Walk) -> Filter:
    """Return the filter for the documents that a walk covers, whatever their project."""
    where = Filter(kinds=("file",), trusts=TRUSTS, all_versions=True)
    if not walk.is_folder:
        return where._replace(source=walk.root)
    return where._replace(path_prefix=walk.root.rstrip(os.sep) + os.sep)


def _has_left(document: Document, walk: sources.Walk) -> bool:
    """Tell whether a file that a walk did not meet is gone."""
    own = document.source == walk.root
    if not own and not _is_below(walk.root, document.source):
        # A folder inside that was read on its own: it may be a disk that is not plugged in.
        return False
    if not os.path.lexists(document.path or ""):
        return True
    # A run with narrower patterns says nothing about files that it did not look for.
    return own and walk.is_folder and walk.wants(document.key or "")


def _is_below(folder: str, above: str) -> bool:
    return above not in ("", folder) and folder.startswith(above.rstrip(os.sep) + os.sep)


def _surely_unchanged(old: Document, file: sources.SourceFile) -> bool:
    """Tell by size and times alone, unless the file changed close to its last indexing."""
    return (
        old.size == file.size
        and old.mtime == file.mtime
        and max(file.mtime, file.ctime) + RACY_MS < old.indexed_at
    )


def ingest(
    writer: Writer,
    walk: sources.Walk,
    *,
    incremental: bool,
    keep_project: bool,
    progress: Progress | None,
) -> IngestReport:
    """Index the files of a walk, and compute missing vectors."""
    run = Ingest(writer, incremental=incremental, keep_project=keep_project, progress=progress)
    report = run.run(walk)
    if writer.trouble is None:
        # These passages are from a time without a working embedder.
        writer.backfill.catch_up()
    return report._replace(pending=_pending(writer), trouble=writer.trouble)


def _pending(writer: Writer) -> int:
    """Return how many passages now wait for a vector, from this run or an earlier one."""
    if writer.embedder.dims == 0:
        return 0
    state = writer.store.state()
    if state.space is not None:
        return state.pending
    return 0 if writer.trouble is None else writer.store.stats().chunk_count
