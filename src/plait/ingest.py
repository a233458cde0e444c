"""The write path: source → chunk → embed → store. Text is always stored; vectors may follow.

No model runs and no network is used inside a transaction: embedding comes first, then one short
write. Whatever an embedder does, the text is searchable by keyword.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from plait import chunking, sources
from plait import text as words
from plait.errors import EmbedderError, SourceError, UsageError
from plait.protocols import Embedder, Entry, Pending, Store, Vector
from plait.types import (
    Cut,
    Document,
    FileReport,
    Filter,
    IngestReport,
    Outcome,
    Passage,
    Stored,
    Tuning,
)

# One commit per batch: with a sync each, single files would cost ten times as much.
BATCH_DOCUMENTS = 64
BATCH_CHARS = 2_000_000
EMBED_BATCH = 256
# A file changed within this time of its last indexing may have kept its time stamp.
RACY_MS = 2_000
BREADCRUMB_CHARS = 120
TITLE_CHARS = 80

STYLES: dict[str, chunking.Style] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".rst": "rst",
    ".org": "org",
}


def now_ms() -> int:
    """UTC milliseconds."""
    return time.time_ns() // 1_000_000


def embedding_input(title: str, heading: str, text: str, limit: int) -> str:
    """What the embedder sees of a passage: where it stands, then what it says."""
    trail = heading[-BREADCRUMB_CHARS:]
    parts = [title if title and title.casefold() not in trail.casefold() else "", trail, text]
    return "\n".join(part for part in parts if part)[:limit]


class Pen:
    """Turns documents into store entries; remembers when the embedder failed, and why."""

    def __init__(self, store: Store, embedder: Embedder, cut: Cut) -> None:
        self._store = store
        self._embedder = embedder
        self._cut = cut
        self._tuning: Tuning = getattr(embedder, "tuning", Tuning())
        self.trouble: str | None = None

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
        """Fill in vectors for what has none yet; where the embedder fails they stay pending."""
        if self._embedder.dims == 0 or self.trouble is not None:
            return list(entries)
        wanted: list[tuple[int, int]] = []
        texts: list[str] = []
        for number, entry in enumerate(entries):
            _, done = self._store.known(entry.document, entry.passages)
            for place, passage in enumerate(entry.passages):
                if place not in done:
                    wanted.append((number, place))
                    texts.append(self._input(entry.document.title, passage))
        found = self.vectors(texts)
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
            for number, entry in enumerate(entries)
        ]

    def _input(self, title: str, passage: Passage | Pending) -> str:
        return embedding_input(title, passage.heading, passage.text, self._tuning.max_chars)

    def vectors(self, texts: Sequence[str]) -> list[Vector | None]:
        """Vectors for as many texts as the embedder managed, in order."""
        found: list[Vector | None] = []
        try:
            for start in range(0, len(texts), EMBED_BATCH):
                batch = texts[start : start + EMBED_BATCH]
                answer = self._embedder.embed(batch, "passage")
                if len(answer) != len(batch):
                    # Which vector belongs to which text is anybody's guess: take none of them.
                    self.trouble = f"the embedder gave {len(answer)} vectors for {len(batch)} texts"
                    break
                found += answer
        except EmbedderError as error:
            self.trouble = str(error)
        return found

    def write(self, entries: Sequence[Entry]) -> list[Stored]:
        """Embed and store, all in one transaction; the store's own refusals pass through."""
        entries = self.embed(entries)
        try:
            written = self._store.put(entries)
        except EmbedderError as error:
            # A vector the store would not take: keep the text, leave the vectors for later.
            self.trouble = str(error)
            plain = [entry._replace(vectors=(), declined=frozenset()) for entry in entries]
            written = self._store.put(plain)
        return [
            Stored(
                done.id,
                entry.document.key or done.id,
                done.chunks,
                duplicate=done.duplicate,
                replaced=done.replaced,
                pending=done.pending,
            )
            for done, entry in zip(written, entries, strict=True)
        ]


def complete(document: Document, now: int) -> Document:
    """A document with its times and title filled in."""
    document = _cleaned(document)
    values, _ = chunking.front_matter(document.text)
    event = document.event_at or _event_time(values) or document.mtime or now
    return document._replace(
        title=document.title or _title(document, values),
        created_at=document.created_at or now,
        updated_at=document.updated_at or now,
        event_at=event,
        indexed_at=document.indexed_at or now,
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


def _title(document: Document, values: dict[str, str | list[str]]) -> str:
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


def _event_time(values: dict[str, str | list[str]]) -> int | None:
    for name in ("date", "event_at", "created"):
        value = values.get(name)
        if isinstance(value, str):
            from plait.times import parse_time

            moment = parse_time(value)
            if moment is not None:
                return moment
    return None


def document_from_file(
    candidate: sources.Candidate, content: sources.Content, project: str | None
) -> Document:
    """A file as a document: its front matter becomes fields, the rest of it metadata."""
    values, _ = chunking.front_matter(content.text)
    metadata = {
        name: value if isinstance(value, str) else ", ".join(value)
        for name, value in values.items()
        if name not in {"title", "tags", "type", "memory_type", "summary", "date"}
    }
    return Document(
        key=candidate.key,
        kind="file",
        text=content.text,
        path=candidate.path,
        source=candidate.root,
        project=project,
        memory_type=sources.memory_type_for(candidate.key, values),
        type=_text(values.get("type")),
        tags=_tags(values.get("tags")),
        metadata=metadata,
        summary=_text(values.get("summary")),
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


# How many are done, how many there are (0 where nobody knows yet), and the last one's name.
Progress = Callable[[int, int, str], None]


class Ingest:
    """One run over one folder or file."""

    def __init__(
        self,
        store: Store,
        pen: Pen,
        *,
        project: str | None,
        incremental: bool,
        progress: Progress | None = None,
    ) -> None:
        self._store = store
        self._pen = pen
        self._project = project
        self._incremental = incremental
        self._progress = progress
        self._reports: list[FileReport] = []
        self._batch: list[tuple[Entry, Outcome]] = []
        self._chars = 0
        self._pending = 0
        self._total = 0
        self._seen: set[str] = set()

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
        self._seen.add(candidate.key)
        probe = Document(key=candidate.key, source=candidate.root, project=self._project)
        old, _ = self._store.known(probe)
        if old is not None and self._incremental and _surely_unchanged(old, candidate):
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
        if old is not None and old.sha256 == content.sha256:
            self._report(FileReport(candidate.path, "unchanged"))
            return
        document = complete(document_from_file(candidate, content, self._project), now_ms())
        entry = self._pen.entry(document, style_of(document))
        if not entry.passages:
            if old is not None:
                # What it said is no longer said: it must not be found either.
                self._store.delete([old.id])
            outcome: Outcome = "skipped" if old is None else "removed"
            self._report(FileReport(candidate.path, outcome, reason="empty: no text in it"))
            return
        self._batch.append((entry, "added" if old is None else "changed"))
        self._chars += len(content.text)
        if len(self._batch) >= BATCH_DOCUMENTS or self._chars >= BATCH_CHARS:
            self._flush()

    def _flush(self) -> None:
        batch = self._batch
        if not batch:
            return
        stored = self._pen.write([entry for entry, _ in batch])
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
        for document in self._store.scan(_files_of(walk.root, self._project)):
            key, path = document.key or "", document.path or ""
            hidden = any(path == place or path.startswith(place + os.sep) for place in unseen)
            if key in self._seen or hidden:
                continue
            # A run with narrower patterns says nothing about the files it did not look for.
            if not os.path.lexists(path) or (walk.is_folder and walk.wants(key)):
                self._store.delete([document.id])
                self._report(FileReport(path, "removed", chunks=document.chunk_count))

    def _report(self, report: FileReport) -> None:
        self._reports.append(report)
        if self._progress is not None:
            self._progress(len(self._reports), self._total, report.path)


def _files_of(root: str, project: str | None) -> Filter:
    return Filter(
        projects=(project,),
        kinds=("file",),
        source=root,
        trusts=("trusted", "untrusted", "quarantined"),
        all_versions=True,
    )


def _surely_unchanged(old: Document, candidate: sources.Candidate) -> bool:
    """Size and times alone, unless the file changed so close to its indexing that they may lie."""
    return (
        old.size == candidate.size
        and old.mtime == candidate.mtime
        and max(candidate.mtime, candidate.ctime) + RACY_MS < old.indexed_at
    )


class Reindexed(NamedTuple):
    """What ``reindex`` did."""

    chunks: int
    embedded: int = 0
    rechunked: int = 0
    swapped: bool = False
    trouble: str | None = None


def embed_all(
    store: Store, embedder: Embedder, pen: Pen, *, anew: bool, progress: Progress | None
) -> tuple[int, bool]:
    """Bring the vectors of a memory up to date; (how many were made, whether a space took over).

    A new space, or ``anew``, fills a generation beside the one that answers searches and takes its
    place in one short transaction.
    """
    current = store.begin(embedder.space, anew=anew)
    made = 0
    while True:
        made += fill_pending(store, embedder, pen, progress)
        if pen.trouble is not None or store.swap(embedder.space):
            return made, not current and pen.trouble is None


def fill_pending(
    store: Store, embedder: Embedder, pen: Pen, progress: Progress | None = None
) -> int:
    """Embed what has no vector yet, batch by batch; killed anywhere, the next run goes on."""
    space = embedder.space
    after, filled = 0, 0
    while True:
        batch = store.pending(space, after, EMBED_BATCH)
        if not batch:
            return filled
        found = pen.vectors([pen._input(row.title, row) for row in batch])
        rows = list(zip((row.ref for row in batch), found, strict=False))
        after = rows[-1][0] if rows else batch[-1].ref
        filled += _fill_singly_if_needed(store, embedder, rows, pen)
        if progress is not None:
            progress(filled, 0, "")
        if pen.trouble is not None:
            return filled


def _fill_singly_if_needed(
    store: Store, embedder: Embedder, rows: Sequence[tuple[int, Vector | None]], pen: Pen
) -> int:
    """Write a batch; when the store refuses one vector of it, the others still get in."""
    if not rows:
        return 0
    try:
        return store.fill(embedder.space, rows, upto=rows[-1][0])
    except EmbedderError as error:
        trouble = str(error)
    written = 0
    refused: list[tuple[int, Vector | None]] = []
    for row in rows:
        try:
            written += store.fill(embedder.space, [row])
        except EmbedderError:
            refused.append((row[0], None))
    if not written:
        pen.trouble = trouble
        return 0
    # No direction, no vector: like a passage that the embedder declined. A few of these must not
    # keep a whole memory from its new vectors.
    store.fill(embedder.space, refused, upto=rows[-1][0])
    return written


def rechunk(store: Store, pen: Pen, documents: Iterable[Document]) -> int:
    """Cut documents anew under today's rules, each in its own transaction."""
    changed = 0
    for document in documents:
        whole = store.load([document.id])
        if not whole:
            continue
        entry = pen.entry(whole[0], style_of(whole[0]))
        if entry.passages:
            pen.write([entry])
            changed += 1
    return changed


def check_text(text: str) -> str:
    """Text that can be stored, or a clear refusal."""
    if not text.strip():
        raise UsageError('There is no text to store. Give some, as in: plait store "a fact"')
    if "\0" in text:
        raise UsageError("The text holds NUL bytes; it looks like a binary file, not text.")
    return words.clean(text).replace("\r\n", "\n").replace("\r", "\n")


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
