"""The write path: source → chunk → embed → store. Text is always stored; vectors may follow.

No model runs and no network is used inside a transaction: embedding comes first, then one short
write. Whatever an embedder does, the text is searchable by keyword.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from plait import chunking, sources
from plait import text as words
from plait.errors import EmbedderError, SourceError, UsageError
from plait.filling import ON_THE_SIDE, Filler, Progress
from plait.protocols import Embedder, Entry, Store, Vector
from plait.types import (
    TRUSTS,
    Cut,
    Document,
    FileReport,
    Filter,
    IngestReport,
    Outcome,
    Stored,
)

# One commit per batch: with a sync each, single files would cost ten times as much.
BATCH_DOCUMENTS = 64
BATCH_CHARS = 2_000_000
# A file changed within this time of its last indexing may have kept its time stamp.
RACY_MS = 2_000
TITLE_CHARS = 80
EMPTY = "empty: no text in it"

STYLES: dict[str, chunking.Style] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".rst": "rst",
    ".org": "org",
}
# What front matter may say in so many words; the rest of it becomes metadata.
FRONT_FIELDS = frozenset({"title", "tags", "type", "memory_type", "summary", "date"})


FrontMatter = dict[str, str | list[str]]


def now_ms() -> int:
    """UTC milliseconds."""
    return time.time_ns() // 1_000_000


class Pen:
    """Turns documents into store entries; remembers when the embedder failed, and why."""

    def __init__(self, store: Store, embedder: Embedder, cut: Cut) -> None:
        self._store = store
        self._embedder = embedder
        self._cut = cut
        self.filler = Filler(store, embedder)

    @property
    def trouble(self) -> str | None:
        """Why vectors are missing, if any are."""
        return self.filler.trouble

    @trouble.setter
    def trouble(self, reason: str) -> None:
        self.filler.trouble = reason

    def entry(self, document: Document, style: chunking.Style = "markdown") -> Entry:
        """Cut a document into passages; their line numbers count the front matter too."""
        _, front = chunking.front_matter(document.text)
        body = document.text[front:]
        lines = document.text.count("\n", 0, front)
        passages = [
            passage._replace(
                start_line=passage.start_line + lines, end_line=passage.end_line + lines
            )
            for passage in chunking.chunk(
                body, size=self._cut.size, overlap=self._cut.overlap, style=style
            )
        ]
        return Entry(document, passages)

    def embed(self, entries: Sequence[Entry]) -> list[Entry]:
        """Fill in vectors for what has none yet; where the embedder fails they stay pending.

        Nobody waits for somebody else's model to have a text kept: its vectors follow the text.
        """
        external = self.filler.tuning.external
        if self._embedder.dims == 0 or external or self.trouble is not None:
            return list(entries)
        wanted: list[tuple[int, int]] = []
        texts: list[str] = []
        for number, entry in enumerate(entries):
            if entry.space is not None:
                continue  # asked before
            _, done = self._store.known(entry.document, entry.passages)
            for place, passage in enumerate(entry.passages):
                if place not in done:
                    wanted.append((number, place))
                    texts.append(self.filler.input(entry.document.title, passage))
        found = self.filler.vectors(texts)
        if self._embedder.dims is None:
            return list(entries)  # it never answered: a space without a size holds no vectors
        made: list[list[Vector | None]] = [[None] * len(entry.passages) for entry in entries]
        declined: list[set[int]] = [set() for _ in entries]
        for (number, place), vector in zip(wanted, found, strict=False):
            made[number][place] = vector
            if vector is None:
                declined[number].add(place)
        return [
            entry._replace(
                vectors=made[number],
                declined=frozenset(declined[number]),
                space=self._embedder.space,
            )
            if entry.space is None
            else entry
            for number, entry in enumerate(entries)
        ]

    def write(
        self, entries: Sequence[Entry], *, catch_up: bool = True, turn: int | None = None
    ) -> list[Stored]:
        """Embed and store, all in one transaction; the store's own refusals pass through.

        What an external embedder is to embed follows at once, unless ``catch_up`` is put off. The
        entries of another memory come with its latest ``turn``.
        """
        entries = self.embed(entries)
        try:
            written = self._store.put(entries, turn=turn)
        except EmbedderError as error:
            # A vector the store would not take: keep the text, leave the vectors for later.
            self.trouble = str(error)
            plain = [entry._replace(vectors=(), declined=frozenset()) for entry in entries]
            written = self._store.put(plain, turn=turn)
        external = self.filler.tuning.external and self._embedder.dims != 0
        if external and catch_up and self.trouble is None:
            own = sum(done.chunks for done in written)
            self.filler.catch_up(most=own + ON_THE_SIDE)
        space = self._store.space()
        none_wait = external and space is not None and not self._store.pending_count()
        # While no vector was ever made, the store cannot know that any are waited for.
        all_wait = space is None and (external or self.trouble is not None)
        return [
            Stored(
                done.id,
                entry.document.key or done.id,
                done.chunks,
                duplicate=done.duplicate,
                replaced=done.replaced,
                pending=0 if none_wait else done.chunks if all_wait else done.pending,
                matched=done.id if done.duplicate else None,
                superseded=done.superseded,
                beside=done.beside,
                entity=done.parent,
            )
            for done, entry in zip(written, entries, strict=True)
        ]


def complete(document: Document, now: int) -> Document:
    """A document with what its front matter, its name and the clock say, where nobody else did."""
    document = _cleaned(document)
    values, _ = chunking.front_matter(document.text)
    document = _with_front_matter(document, values)
    event = document.event_at
    return document._replace(
        title=document.title or _title(document, values),
        created_at=document.created_at or now,
        updated_at=document.updated_at or now,
        event_at=_event_time(document, values, now) if event is None else event,
        indexed_at=document.indexed_at or now,
        # subtle: a file's is over its bytes, and only whoever read them can know it.
        sha256=document.sha256 if document.kind == "file" else _text_hash(document.text),
    )


def _text_hash(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()


def _with_front_matter(document: Document, values: FrontMatter) -> Document:
    rest = {
        name: value if isinstance(value, str) else ", ".join(value)
        for name, value in values.items()
        if name not in FRONT_FIELDS
    }
    named = document.key or "" if document.kind == "file" else ""
    return document._replace(
        memory_type=document.memory_type or sources.memory_type_for(named, values),
        type=document.type or _text(values.get("type")),
        tags=document.tags or _tags(values.get("tags")),
        metadata={**rest, **document.metadata},
        summary=document.summary or _text(values.get("summary")),
    )


def _cleaned(document: Document) -> Document:
    """No field holds anything that cannot be written down as UTF-8."""
    texts: dict[str, Any] = {
        name: words.clean(value)
        for name, value in document._asdict().items()
        if isinstance(value, str)
    }
    metadata = {words.clean(name): words.clean(text) for name, text in document.metadata.items()}
    return document._replace(
        **texts, tags=tuple(map(words.clean, document.tags)), metadata=metadata
    )


def _title(document: Document, values: FrontMatter) -> str:
    named = values.get("title")
    if isinstance(named, str) and named:
        return named[:TITLE_CHARS]
    if document.kind in ("file", "note"):
        _, front = chunking.front_matter(document.text)
        heading = chunking.first_heading(document.text[front:])
        if heading:
            return heading[:TITLE_CHARS]
        if document.key:
            return sources.title_from_name(document.key)
    return ""


def _event_time(document: Document, values: FrontMatter, now: int) -> int:
    """When it happened: as the front matter says, else a file's name, else its time stamp."""
    from plait.times import parse_time

    said: list[object] = [values.get(name) for name in ("date", "event_at", "created")]
    if document.kind == "file":
        said.append(sources.day_in_name(document.key or ""))
    for value in said:
        moment = parse_time(value) if isinstance(value, str) else None
        if moment is not None:
            return moment
    return now if document.mtime is None else document.mtime


def document_from_file(
    candidate: sources.Candidate, content: sources.Content, project: str | None
) -> Document:
    """A file as a document; `complete` adds what the text says about itself."""
    return Document(
        key=candidate.key,
        kind="file",
        text=content.text,
        path=candidate.path,
        source=candidate.root,
        project=project,
        origin="file",
        size=content.size,
        mtime=content.mtime,
        sha256=content.sha256,
    )


def _text(value: str | list[str] | None) -> str | None:
    return value if isinstance(value, str) and value else None


def _tags(value: str | list[str] | None) -> tuple[str, ...]:
    names = value.replace(",", " ").split() if isinstance(value, str) else value or []
    return tuple(dict.fromkeys(name.lstrip("#") for name in names if name.lstrip("#")))


def style_of(document: Document) -> chunking.Style:
    """How a text is written: a file by its ending, anything else as Markdown."""
    if document.kind != "file":
        return "markdown"
    return STYLES.get(os.path.splitext(document.key or "")[1].lower(), "plain")  # noqa: PTH122


class Ingest:
    """One run over one folder or file. A file is one document, whichever way it is reached.

    With ``keep_project`` a file that is known already stays in its project.
    """

    def __init__(
        self,
        store: Store,
        pen: Pen,
        *,
        project: str | None,
        incremental: bool,
        keep_project: bool = True,
        progress: Progress | None = None,
    ) -> None:
        self._store = store
        self._pen = pen
        self._project = project
        self._keep_project = keep_project
        self._incremental = incremental
        self._progress = progress
        self._reports: list[FileReport] = []
        self._batch: list[tuple[Entry, Outcome]] = []
        self._chars = 0
        self._pending = 0
        self._total = 0
        self._seen: set[str] = set()
        self._emptied: list[Document] = []

    def run(self, walk: sources.Walk) -> IngestReport:
        """Read every file the walk finds; one bad file never stops the rest."""
        interrupted = False
        unseen: list[str] = []
        try:
            everything = list(walk)
            self._total = len(everything)
            for found in everything:
                if isinstance(found, sources.Skipped):
                    unseen.append(found.path)
                    self._report(FileReport(found.path, "skipped", reason=found.reason))
                else:
                    self._take(found)
            self._flush()
            self._forget_vanished(walk, unseen)
        except KeyboardInterrupt:
            interrupted = True
            self._drop_batch()
        self._store.settle()
        return IngestReport(
            tuple(self._reports), walk.ignored, self._pending, interrupted=interrupted
        )

    def _take(self, candidate: sources.Candidate) -> None:
        self._seen.add(candidate.path)
        old, _ = self._store.known(
            Document(
                key=candidate.key,
                kind="file",
                path=candidate.path,
                source=candidate.root,
                project=self._project,
            )
        )
        candidate, project = self._placed(candidate, old)
        name = (project, candidate.root, candidate.key)
        # Only what stays where it was can be left alone.
        twin = old if old is not None and (old.project, old.source, old.key) == name else None
        if twin is not None and self._incremental and _surely_unchanged(twin, candidate):
            self._report(FileReport(candidate.path, "unchanged"))
            return
        try:
            content = sources.read(candidate)
        except sources.NotText as error:
            self._report(FileReport(candidate.path, "skipped", reason=str(error)))
            return
        except SourceError as error:
            self._report(FileReport(candidate.path, "failed", reason=str(error)))
            return
        if twin is not None and twin.sha256 == content.sha256:
            self._report(FileReport(candidate.path, "unchanged"))
            return
        self._add(complete(document_from_file(candidate, content, project), now_ms()), old)

    def _placed(
        self, candidate: sources.Candidate, old: Document | None
    ) -> tuple[sources.Candidate, str | None]:
        """Where a file belongs: a known one stays under the widest folder it was read from."""
        if old is None:
            return candidate, self._project
        if _is_below(candidate.root, old.source) and old.key is not None:
            candidate = candidate._replace(root=old.source, key=old.key)
        return candidate, old.project if self._keep_project else self._project

    def _add(self, document: Document, old: Document | None) -> None:
        entry = self._pen.entry(document, style_of(document))
        if entry.passages:
            self._batch.append((entry, "added" if old is None else "changed"))
            self._chars += len(document.text)
            if len(self._batch) >= BATCH_DOCUMENTS or self._chars >= BATCH_CHARS:
                self._flush()
        elif old is None:
            self._report(FileReport(document.path or "", "skipped", reason=EMPTY))
        else:
            # What it said is no longer said: it must not be found either.
            self._emptied.append(old)

    def _flush(self) -> None:
        batch = self._batch
        if not batch:
            return
        stored = self._pen.write([entry for entry, _ in batch], catch_up=False)
        self._batch, self._chars = [], 0
        for (entry, outcome), done in zip(batch, stored, strict=True):
            self._pending += done.pending
            path = entry.document.path or ""
            self._report(FileReport(path, outcome, chunks=done.chunks))

    def _drop_batch(self) -> None:
        for entry, _ in self._batch:
            path = entry.document.path or ""
            self._reports.append(
                FileReport(path, "skipped", reason="interrupted before it was written")
            )
        self._batch = []

    def _forget_vanished(self, walk: sources.Walk, unseen: Sequence[str]) -> None:
        """Files that are gone or ruled out leave the index; what could not be looked at stays."""
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
            self._store.delete(gone, undoable=False)
        for report in reports:
            self._report(report)

    def _report(self, report: FileReport) -> None:
        self._reports.append(report)
        if self._progress is not None:
            self._progress(len(self._reports), self._total, report.path)


def _files_of(walk: sources.Walk) -> Filter:
    """The documents a walk may have something to say about, whatever their project."""
    where = Filter(kinds=("file",), trusts=TRUSTS, all_versions=True)
    if not walk.is_folder:
        return where._replace(source=walk.root)
    return where._replace(path_prefix=walk.root.rstrip(os.sep) + os.sep)


def _has_left(document: Document, walk: sources.Walk) -> bool:
    """Whether a file that a walk did not meet is no longer there to be met."""
    own = document.source == walk.root
    if not own and not _is_below(walk.root, document.source):
        # A folder in here that was read for itself: it may be a disk that is not plugged in.
        return False
    if not os.path.lexists(document.path or ""):
        return True
    # A run with narrower patterns says nothing about the files it did not look for.
    return own and walk.is_folder and walk.wants(document.key or "")


def _is_below(folder: str, above: str) -> bool:
    return above not in ("", folder) and folder.startswith(above.rstrip(os.sep) + os.sep)


def _surely_unchanged(old: Document, candidate: sources.Candidate) -> bool:
    """Size and times alone, unless the file changed so close to its indexing that they may lie."""
    return (
        old.size == candidate.size
        and old.mtime == candidate.mtime
        and max(candidate.mtime, candidate.ctime) + RACY_MS < old.indexed_at
    )


def check_text(text: str) -> str:
    """Text that can be stored, or a clear refusal."""
    if not text.strip():
        raise UsageError('There is no text to store. Give some, as in: plait store "a fact"')
    if "\0" in text:
        raise UsageError("The text holds NUL bytes; it looks like a binary file, not text.")
    text = words.clean(text).replace("\r\n", "\n").replace("\r", "\n")
    _, front = chunking.front_matter(text)
    if not text[front:].strip():
        raise UsageError("There is no text after the front matter. Add some, then store it again.")
    return text


def batches(entries: Iterable[Entry], size: int = BATCH_DOCUMENTS) -> Iterator[list[Entry]]:
    """Entries in groups that are written together."""
    batch: list[Entry] = []
    for entry in entries:
        batch.append(entry)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
