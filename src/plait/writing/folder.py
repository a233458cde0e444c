"""Index a folder or a file: read changed files, skip unchanged ones, drop deleted ones."""

from collections.abc import Callable, Mapping, Sequence

from plait.embedders import Embedder
from plait.errors import Notice, SourceError, advise
from plait.facts.trash import is_detached
from plait.protocols import State
from plait.times import show_day
from plait.types import Document
from plait.types.reports import FileReport, IngestInterrupted, IngestReport, OnFile, Outcome
from plait.writing import (
    covered,
    deleting,
    documents,
    exchanges,
    linked,
    moves,
    refusals,
    removals,
    sources,
)
from plait.writing.backfill import Backfill, Progress
from plait.writing.changes import Change
from plait.writing.formats import NotText
from plait.writing.retired import Retired
from plait.writing.writer import Writer

# Files and characters that are written together. With fewer, each commit would write the pages that
# all of them change once more.
BATCH_FILES = 256
BATCH_CHARS = 2_000_000
EMPTY = "empty: no text in it"
PRUNED = "removed by your rules and unchanged since; a file that you name comes back"
KEPT = "not there; kept, because a disk may be missing"
# How often a run follows other processes that change the embedder, before it tells instead.
CHANGES_FOLLOWED = 3
NOT_WRITTEN = "interrupted before it was written"
# Outcomes of files whose present text is in the memory.
_READ: tuple[Outcome, ...] = ("added", "changed", "moved", "unchanged")


class Ingest:
    """One run over one folder or file. A file is one document, however it is reached.

    With ``keep_project`` a file that is known already stays in its project. With ``allow_removal``
    even a folder that has lost nearly everything loses it in the memory too.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        incremental: bool,
        keep_project: bool = True,
        allow_removal: bool = False,
        progress: Progress | None = None,
        on_file: OnFile | None = None,
    ) -> None:
        self._writer = writer
        self._store = writer.store
        self._project = writer.project
        self._keep_project = keep_project
        self._allow_removal = allow_removal
        self._incremental = incremental
        self._progress = progress
        self._on_file = on_file
        self._reports: list[FileReport] = []
        self._batch: list[tuple[Change, Outcome]] = []
        self._chars = 0
        self._total = 0
        self._seen: set[str] = set()
        self._moves = moves.Moves()
        # Files that were known before this run and are still there.
        self._left: set[str] = set()
        self._emptied: list[Document] = []
        # The folders that the known files were ingested from, and whether this run reads a folder.
        self._sources: set[str] = set()
        self._of_folder = False
        # What to tell about files that were read after all.
        self._remarks: dict[str, str] = {}
        # The other projects that documents stay in, by path.
        self._elsewhere: dict[str, str] = {}
        self._caution: Notice | None = None

    def run(self, walk: sources.Walk) -> IngestReport:
        """Read every file of the walk; one bad file never stops the rest."""
        interrupted = False
        unseen: list[sources.Skipped] = []
        try:
            entries = list(walk)
            entries += linked.leading_nowhere(self._store, walk, self._project)
            self._total = len(entries)
            files = [entry for entry in entries if isinstance(entry, sources.SourceFile)]
            known = dict(zip(files, self._known(files), strict=True))
            marks = self._marks(walk)
            retired = {
                file
                for file in files
                if known[file] is None and marks.has(file, incremental=self._incremental)
            }
            newcomers = [file for file in files if known[file] is None and file not in retired]
            links = linked.links_of(walk, entries)
            behind = linked.follow(self._store, walk.root, links, newcomers, self._project)
            newcomers = [file for file in newcomers if file.path not in behind.folders]
            exchanged = exchanges.follow(self._store, walk.root, known, newcomers, self._project)
            newcomers = [file for file in newcomers if file.path not in exchanged]
            exchanged.update(behind.folders)
            self._moves = moves.follow(
                self._store, walk.root, newcomers, self._project, marks.covers
            )
            self._moves = self._moves._replace(
                folders={**self._moves.folders, **exchanged},
                taken={**self._moves.taken, **behind.taken},
            )
            gone = self._without_file(marks, walk, entries)
            renamed = marks.renamed(gone, filter(self._is_new, newcomers))
            retired |= renamed.keys()
            if self._moves.folders:
                moved = [file for file in files if file.path in exchanged] + newcomers
                known.update(zip(moved, self._known(moved), strict=True))
            self._left = {file.path for file, row in known.items() if row is not None}
            self._sources = {old.source for old in known.values() if old is not None}
            self._of_folder = walk.is_folder
            left_out = self._known_of_skipped(entries)
            for entry in entries:
                if isinstance(entry, sources.Skipped):
                    unseen.append(entry)
                    large = entry.reason.startswith(refusals.OVER_LIMIT)
                    report = FileReport(
                        entry.path, "skipped", reason=entry.reason, code="too_large" * large
                    )
                    self._leave(report, left_out.get(entry.path))
                elif entry in retired:
                    self._report(FileReport(entry.path, "skipped", reason=PRUNED, code="pruned"))
                else:
                    self._take(entry, known[entry])
            self._flush()
            self._forget_vanished(walk, unseen)
            self._forget_marks([*gone, *marks.followed], marks.of_files(renamed))
        except KeyboardInterrupt:
            interrupted = True
            self._drop_batch()
        self._store.tidy()
        return IngestReport(
            tuple(self._reports),
            walk.ignored,
            interrupted=interrupted,
            caution=self._caution,
            ignored_types=tuple(walk.ignored_types.most_common()),
            left=max(0, self._total - len(self._reports)) if interrupted else 0,
            unread=self._unread(walk),
        )

    def _unread(self, walk: sources.Walk) -> Notice | None:
        """Return why a named file was skipped: whoever named it wanted it read."""
        if walk.is_folder:
            return None
        rows = [row for row in self._reports if row.outcome == "skipped"]
        rows = [row for row in rows if row.reason != EMPTY and row.code != "interrupted"]
        return refusals.unread(rows[0].path, rows[0].reason).notice if rows else None

    def _marks(self, walk: sources.Walk) -> Retired:
        """Return which files of a folder rules have removed; a file that is named comes back."""
        state = self._writer.state
        state = state if walk.is_folder else state._replace(retired=None)
        chosen = not self._keep_project
        return Retired(self._store, state, walk.root, self._project, chosen=chosen)

    def _without_file(
        self,
        marks: Retired,
        walk: sources.Walk,
        entries: Sequence[sources.SourceFile | sources.Skipped],
    ) -> list[str]:
        """Return the names of the marks of files that are gone; none if a disk may be missing."""
        unread = any(isinstance(entry, sources.Skipped) and entry.folder for entry in entries)
        if not entries or unread:
            return []
        return marks.stale(walk.root, [entry.path for entry in entries], walk.ignored_types)

    def _is_new(self, file: sources.SourceFile) -> bool:
        """Tell whether a file without a document continues no other one."""
        return file.path not in self._moves.folders and file.path not in self._moves.formers

    def _forget_marks(self, gone: Sequence[str], renamed: Mapping[str, str]) -> None:
        """Forget the marks of files that are gone; those of renamed ones get their new names."""
        if gone and self._caution is None:
            with self._store.transaction() as transaction:
                transaction.remember(**{**dict.fromkeys(gone), **renamed})

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
        former = None
        if old is None:
            # In a folder that has just moved, another process has removed it since.
            former = self._moves.formers.get(file.path) or self._moves.folders.get(file.path)
        file, project = self._placed(file, old, former)
        if project not in (None, self._project):  # what is personal is found everywhere
            self._elsewhere[file.path] = project
        name = (project, file.root, file.key)
        # Only a file that stays in its place can be skipped.
        same = old if old is not None and (old.project, old.source, old.key) == name else None
        if same is not None and not self._was_renamed(file):
            outcome: Outcome = "moved" if file.path in self._moves.folders else "unchanged"
        else:
            same, outcome = None, "unchanged"
        if same is not None and self._incremental and moves.surely_unchanged(same, file):
            self._report(FileReport(file.path, outcome))
            return
        try:
            content = sources.read_file(file)
        except NotText as error:
            report = FileReport(file.path, "skipped", reason=error.notice.text, code=error.code)
            self._leave(report, old)
            return
        except SourceError as error:
            report = FileReport(file.path, "failed", reason=error.notice.text, code=error.code)
            self._leave(report, old)
            return
        if same is not None and same.sha256 == content.sha256 and not is_detached(same):
            self._report(FileReport(file.path, outcome))
            return
        document = documents.document_from_file(file, content, project)
        if content.remark:
            self._remarks[file.path] = content.remark
        draft = documents.complete(document, documents.now_ms(), content.lines)
        self._add(draft, old, former)

    def _known_of_skipped(
        self, entries: Sequence[sources.SourceFile | sources.Skipped]
    ) -> dict[str, Document]:
        """Return by path what is known of skipped files; of a link to a folder, one behind it."""
        read = {entry.path for entry in entries if isinstance(entry, sources.SourceFile)}
        paths = [
            entry.path
            for entry in entries
            if isinstance(entry, sources.Skipped) and not entry.folder
            if entry.reason != refusals.LINK_TO_IGNORED
        ]
        known = linked.behind(self._store, paths, self._project)
        read |= linked.read_elsewhere(self._store, [row for rows in known.values() for row in rows])
        return {
            path: row
            for path, rows in known.items()
            for row in rows
            if row.path not in read and moves.real_place(row.path or "") not in read
        }

    def _leave(self, report: FileReport, old: Document | None) -> None:
        """Report a file that could not be read, and of when the text is that is known of it."""
        if old is not None and not is_detached(old):
            day = show_day(old.indexed_at)
            report = report._replace(
                reason=f"{report.reason}; its text of {day} is kept", old_text=day
            )
        self._report(report)

    def _was_renamed(self, file: sources.SourceFile) -> bool:
        """Tell whether its folder's move changed a file's key: its memory type may follow it."""
        before = self._moves.folders.get(file.path)
        return before is not None and before.key != file.key

    def _placed(
        self, file: sources.SourceFile, old: Document | None, former: Document | None
    ) -> tuple[sources.SourceFile, str | None]:
        """Return where a file belongs: a known one stays under the widest folder it came from."""
        if old is None and former is not None and not self._is_narrowed(file, former):
            old = moves.placed(former, file.path, file.root, self._project)
        if old is None:
            return file, self._project
        if moves.is_below(file.root, old.source) and old.key is not None:
            file = file._replace(root=old.source, key=old.key)
        return file, old.project if self._keep_project else self._project

    def _is_narrowed(self, file: sources.SourceFile, former: Document) -> bool:
        """Tell whether a deleted file comes back with a narrower folder, and no other of the wider.

        Whoever ingested too much by mistake deletes it, and names what was meant.
        """
        is_back = self._of_folder and former.path == file.path
        return is_back and former.source not in self._sources

    def _add(self, draft: documents.Draft, old: Document | None, former: Document | None) -> None:
        document = draft.document
        # No passage of a new file has a vector: nothing need be looked up for it.
        entry = self._writer.chunk(draft)._replace(is_new=old is None and former is None)
        if entry.passages:
            outcome = self._outcome(document, old, former)
            if former is not None:
                # Its passages keep their vectors.
                entry = entry._replace(document=document._replace(id=former.id))
            self._batch.append((Change(entry, former=former), outcome))
            self._chars += len(document.text)
            if len(self._batch) >= BATCH_FILES or self._chars >= BATCH_CHARS:
                self._flush()
        elif old is None or is_detached(old):
            self._report(FileReport(document.path or "", "skipped", reason=EMPTY))
        else:
            # Its old text must no longer be found.
            self._emptied.append(old)

    def _outcome(
        self, document: Document, old: Document | None, former: Document | None
    ) -> Outcome:
        before = former or self._moves.folders.get(document.path or "")
        if before is not None and before.path != document.path:
            return "moved" if before.sha256 == document.sha256 else "changed"
        if old is None:
            return "added"
        if old.sha256 != document.sha256:
            return "changed"
        # A restored document only meets its file again; another gets a key or a project.
        places = [(row.source, row.key, row.project) for row in (old, document)]
        return "unchanged" if is_detached(old) else "moved" if places[0] != places[1] else "changed"

    def _flush(self) -> None:
        batch = self._batch
        if not batch:
            return
        stored = self._writer.write([change for change, _ in batch], catch_up=False)
        self._batch, self._chars = [], 0
        reports = []
        for (change, outcome), done in zip(batch, stored, strict=True):
            path = change.entry.document.path or ""
            if outcome == "added" and done.replaced:
                # Another process has added it meanwhile, or a note had its name.
                outcome = "unchanged" if done.duplicate else "changed"
            remark = self._remarks.pop(path, "")
            reports.append(FileReport(path, outcome, done.chunks, remark, secret=done.secret))
        self._report(*reports)

    def _drop_batch(self) -> None:
        for change, _ in self._batch:
            path = change.entry.document.path or ""
            self._reports.append(
                FileReport(path, "skipped", reason=NOT_WRITTEN, code="interrupted")
            )
        self._batch = []

    def _forget_vanished(self, walk: sources.Walk, unseen: Sequence[sources.Skipped]) -> None:
        """Drop files that are deleted or excluded; keep those that could not be read."""
        lost = self._lost(walk, unseen)
        kept = removals.KeptBack()
        if not self._allow_removal:
            kept = removals.kept_back(
                walk.root,
                own=any(old.source == walk.root for old in lost.vanished),
                gone=[old.path or "" for old in lost.vanished],
                left=lost.left,
                read_at=max((old.indexed_at for old in lost.vanished), default=0),
            )
        self._caution = kept.caution
        gone = [*lost.vanished, *lost.excluded]
        removed = self._remove([old for old in gone if old.path not in kept.paths])
        reasons = {old.id: EMPTY for old in self._emptied}
        # The walk did not meet these, so they are not in the total yet; those with a reason are.
        self._total += len(gone) - len(reasons)
        for old in gone:
            reason = reasons.get(old.id, "")
            if old.id in removed:
                self._report(FileReport(old.path or "", "removed", old.chunk_count, reason))
            elif old.path in kept.paths:
                self._report(FileReport(old.path or "", "kept", reason=reason or KEPT))

    def _lost(self, walk: sources.Walk, unseen: Sequence[sources.Skipped]) -> covered.Lost:
        """Compare the documents that a walk covers with the files that it met."""
        read = {row.path for row in self._reports if row.outcome in _READ}
        lost = covered.lost_to(
            self._store, walk, self._project, seen=self._seen, read=read, unseen=unseen
        )
        emptied = {old.path or "" for old in self._emptied}
        left = frozenset(self._left - emptied | lost.left)
        return lost._replace(
            vanished=[*self._emptied, *lost.vanished],
            excluded=lost.excluded,
            left=left,
        )

    def _remove(self, documents: Sequence[Document]) -> set[str]:
        """Move documents to the trash as one delete; return the ids of those that were."""
        if not documents:
            return set()
        doomed = {old.id: old for old in documents}

        def still(stored: Document) -> bool:
            # Another process may have moved it meanwhile, or met its file again.
            old, path = doomed[stored.id], stored.path or ""
            unchanged = (path, stored.indexed_at) == (old.path, old.indexed_at)
            return unchanged and (moves.is_missing(path) or old.id not in missing)

        missing = {old.id for old in documents if moves.is_missing(old.path or "")}
        return set(deleting.delete(self._store, list(doomed), still=still).ids)

    def _report(self, *reports: FileReport) -> None:
        """Note what became of files, all before any is told: what is written counts as written."""
        before = len(self._reports)
        self._reports += map(self._with_projects, reports)
        for number, report in enumerate(self._reports[before:], before + 1):
            if self._on_file is not None:
                self._on_file(report)
            if self._progress is not None:
                self._progress(number, self._total, report.path)

    def _with_projects(self, report: FileReport) -> FileReport:
        """Return the report with the other projects that its document was or is in."""
        if report.outcome in ("moved", "changed", "removed"):
            report = report._replace(taken_from=self._moves.taken.get(report.path, ""))
        if report.outcome in ("moved", "changed", "unchanged"):
            report = report._replace(elsewhere=self._elsewhere.get(report.path, ""))
        return report


def ingest(
    writer: Writer,
    walk: sources.Walk,
    *,
    incremental: bool,
    keep_project: bool,
    allow_removal: bool,
    progress: Progress | None,
    on_file: OnFile | None,
    embedder_for: Callable[[State], Embedder],
) -> IngestReport:
    """Index the files of a walk, and compute missing vectors.

    ``embedder_for`` returns the embedder of the memory's present vectors: another process may
    change them during the run.
    """
    run = Ingest(
        writer,
        incremental=incremental,
        keep_project=keep_project,
        allow_removal=allow_removal,
        progress=progress,
        on_file=on_file,
    )
    report = run.run(walk)
    trouble = writer.trouble
    if trouble is None and not report.interrupted:
        # These passages are from a time without a working embedder.
        writer.backfill.catch_up()
        trouble = writer.trouble
    if trouble is None and not report.interrupted and _pending(writer):
        trouble = _follow(writer, embedder_for)
    return report._replace(pending=_pending(writer), trouble=trouble)


def unless_interrupted(report: IngestReport) -> IngestReport:
    """Return the report, or raise it as the Ctrl-C that ended the run."""
    if report.interrupted:
        raise IngestInterrupted(report)
    return report


def _follow(writer: Writer, embedder_for: Callable[[State], Embedder]) -> Notice | None:
    """Compute the vectors that another process's change of embedder left; return what is wrong."""
    for _ in range(CHANGES_FOLLOWED):
        state = writer.store.state()
        backfill = Backfill(writer.store, embedder_for(state))
        backfill.catch_up(state)
        if backfill.trouble is not None or not _pending(writer):
            return backfill.trouble
    waiting = _pending(writer)
    if not waiting:
        return None
    space = writer.store.state().space
    return Notice(
        f"The memory's vectors are from {space or 'no embedder yet'}, and {waiting:,} passages "
        "still wait for theirs.",
        "vectors_pending",
        "" if space is None else space.spec,
        advise("reindex"),
    )


def _pending(writer: Writer) -> int:
    """Return how many passages now wait for a vector, from this run or an earlier one."""
    if writer.embedder.dims == 0:
        return 0
    state = writer.store.state()
    if state.space is not None:
        return state.pending
    return 0 if writer.trouble is None else writer.store.stats().chunk_count
