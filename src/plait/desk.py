"""Where a memory is written: the pens, the scribe, and the verbs that put something in.

Every act takes a pen of its own, so that the trouble it tells of is that act's.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from plait import identity, ingest
from plait.filling import Progress
from plait.ingest import Pen
from plait.protocols import Embedder, Store
from plait.types import Cut, Document, IngestReport, Stored

if TYPE_CHECKING:
    from plait.scribe import Scribe
    from plait.sources import Walk
    from plait.upkeep import Reindexed


class Desk:
    """The write side of one memory and project; whoever writes has checked what was said.

    ``cut`` is asked at every act, because another process may have decided meanwhile. A desk that
    ``follows`` gives a memory of another embedder's vectors those of its own.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        project: str | None,
        cut: Callable[[], Cut],
        follows: bool,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._project = project
        self._cut = cut
        self._follows = follows
        self._latest: Pen | None = None

    @property
    def trouble(self) -> str | None:
        """What the embedder could not do during the latest act."""
        return None if self._latest is None else self._latest.trouble

    def pen(self) -> Pen:
        """A pen for one act."""
        self._latest = Pen(self._store, self._embedder, self._cut())
        return self._latest

    def scribe(self) -> "Scribe":
        """Who writes observations."""
        from plait.scribe import Scribe

        return Scribe(
            self._store, self._embedder, pen=self.pen, fill=self.fill, project=self._project
        )

    def note_rules(self) -> None:
        """The first write decides under which rules a memory was cut and indexed."""
        identity.note(self._store, self._cut(), self._embedder)

    def fill(self, most: int | None = None) -> None:
        """Make the vectors that are missing, if there is something to make them with."""
        self.pen().filler.catch_up(most=most)

    def store(self, document: Document, entity: str | None) -> Stored:
        """Store a note, or an observation, which may belong to an entity."""
        self.note_rules()
        if document.kind == "observation":
            stored = self.scribe().store(document, entity)
        else:
            pen = self.pen()
            [stored] = pen.write([pen.entry(ingest.complete(document, ingest.now_ms()))])
        self._follow_embedder()
        return stored

    def store_many(self, documents: Iterable[Document]) -> list[Stored]:
        """Store documents as they are, one transaction per batch.

        Raises:
            UsageError: A document has no text; those of earlier batches are stored.
        """
        pen = self.pen()
        self.note_rules()
        now = ingest.now_ms()
        checked = (
            document._replace(
                text=ingest.check_text(document.text),
                project=document.project or self._project,
            )
            for document in documents
        )
        stored: list[Stored] = []
        for batch in ingest.batches(pen.entry(ingest.complete(row, now)) for row in checked):
            stored += pen.write(batch)
        self._follow_embedder()
        self._store.settle()
        return stored

    def ingest(
        self,
        walk: "Walk",
        *,
        incremental: bool,
        keep_project: bool,
        progress: Progress | None,
    ) -> IngestReport:
        """Index what a walk finds, and make the vectors that are missing."""
        self.note_rules()
        pen = self.pen()
        run = ingest.Ingest(
            self._store,
            pen,
            project=self._project,
            incremental=incremental,
            keep_project=keep_project,
            progress=progress,
        )
        report = run.run(walk)
        if pen.trouble is None:
            # Left over from a time without an embedder, or when it was down: it answers now.
            self.fill()
            self._follow_embedder()
        return self._waiting(report)

    def _waiting(self, report: IngestReport) -> IngestReport:
        """The report with all that waits for a vector by now, from this run or an earlier one."""
        if self._embedder.dims == 0:
            return report
        if self._store.space() is not None:
            return report._replace(pending=self._store.pending_count())
        waiting = 0 if self.trouble is None else self._store.stats().chunk_count
        return report._replace(pending=waiting)

    def reindex(self, *, anew: bool, progress: Progress | None) -> "Reindexed":
        """Bring passages, words and vectors under today's rules, while searches go on."""
        from plait.upkeep import reindex

        return reindex(
            self._store, self._embedder, self.pen(), self._cut(), anew=anew, progress=progress
        )

    def _follow_embedder(self) -> None:
        if self._follows:
            from plait.upkeep import follow_embedder

            follow_embedder(self._store, self._embedder, self.pen)
