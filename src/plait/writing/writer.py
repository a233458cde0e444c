"""The write path: chunk → embed → put. Text is always stored; vectors may follow.

No model runs and no network is used inside a transaction: embedding comes first, then one short
write. Whatever an embedder does, the text is searchable by keyword.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Self, TypeVar

from plait.embedders import Embedder
from plait.errors import EmbedderError, Notice
from plait.facts.credentials import document_secrets, refuse_secrets
from plait.facts.echo import MACHINES
from plait.protocols import Entry, State, Store, Vector
from plait.text.normal_form import composed
from plait.types import MAX_TURN, Cut, Document, check_range
from plait.types.reports import Stored
from plait.types.visibility import visible_to
from plait.writing import chunking, documents
from plait.writing.backfill import ON_THE_SIDE, Backfill
from plait.writing.changes import Change, Changed, put
from plait.writing.documents import Draft

# One commit per batch: with a sync each, single documents would cost ten times as much.
BATCH_DOCUMENTS = 64

_Item = TypeVar("_Item")


class Writer:
    """Writes documents during one operation (a `store`, an `ingest` …); create one for each.

    ``trouble`` is why vectors are missing, if any are; it concerns this operation only.
    ``file_cut`` is for files of a project that has sizes of its own; the memory keeps ``cut``.
    ``max_bytes`` is the most that one document may have. Without ``allow_secret``, a secret that an
    agent or a tool stores is refused.
    """

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        cut: Cut,
        state: State,
        project: str | None,
        *,
        max_bytes: int,
        allow_secret: bool,
        file_cut: Cut | None = None,
    ) -> None:
        self.store = store
        self.embedder = embedder
        self.cut = cut
        self._sizes = file_cut or cut
        self.state = state
        self.project = project
        self._max_bytes = max_bytes
        self._allow_secret = allow_secret
        self.backfill = Backfill(store, embedder)

    @classmethod
    def begin(
        cls,
        store: Store,
        embedder: Embedder,
        cut: Cut,
        project: str | None,
        *,
        max_bytes: int,
        allow_secret: bool = False,
        file_cut: Cut | None = None,
    ) -> Self:
        """Begin an operation: the memory and the model may have changed since the last one."""
        embedder.recheck()
        state = store.state()
        built = cut.for_memory(state.chunker)
        return cls(
            store,
            embedder,
            built,
            state,
            project,
            max_bytes=max_bytes,
            allow_secret=allow_secret,
            file_cut=file_cut,
        )

    @property
    def trouble(self) -> Notice | None:
        """Why vectors are missing, if any are."""
        return self.backfill.trouble

    def prepare(self, document: Document, lines: Sequence[int] = ()) -> Entry:
        """Check, complete and chunk a text; ``lines`` are those of `Draft`.

        Raises:
            UsageError: It has no text or too much, or an agent stores a secret.
        """
        if document.turn is not None:
            check_range("turn", document.turn, 0, MAX_TURN)
        self.check_size(document)
        text = documents.check_text(document.text)
        checked = document if text is document.text else document._replace(text=text)
        draft = documents.complete(checked, documents.now_ms(), lines)
        documents.check_body(draft)
        self.check_secrets(draft.document)
        return self.chunk(draft)

    def check_size(self, document: Document) -> None:
        """Refuse a document that is too large, before anything else is done with it."""
        documents.check_size(documents.texts_of(document), self._max_bytes)

    def check_secrets(self, document: Document) -> None:
        """Refuse a secret in what an agent or a tool stores, unless the caller insists.

        Raises:
            UsageError: The document holds one; the code is "holds_secret".
        """
        if document.origin in MACHINES and not self._allow_secret:
            refuse_secrets(document_secrets(document))

    def chunk(self, draft: Draft) -> Entry:
        """Cut a document into passages; their line numbers are those of the whole file."""
        document = draft.document
        above = document.text.count("\n", 0, draft.body_start)
        passages = chunking.chunk(
            draft.body,
            size=self._sizes.size,
            overlap=self._sizes.overlap,
            style=documents.style_of(document),
        )
        if above or draft.lines:
            passages = [
                passage._replace(
                    start_line=_line_in_file(draft, passage.start_line + above),
                    end_line=_line_in_file(draft, passage.end_line + above),
                )
                for passage in passages
            ]
        return Entry(document, passages)

    def embed(self, entries: Sequence[Entry]) -> list[Entry]:
        """Add vectors to passages without one; they stay pending if the embedder fails.

        Storing a text does not wait for an external model: its vectors follow later.
        """
        if self.embedder.dims == 0 or self._is_external or self.trouble is not None:
            return list(entries)
        wanted: list[tuple[int, int]] = []
        texts: list[str] = []
        for number, entry in enumerate(entries):
            if entry.space is not None:
                continue  # embedded before
            done = self._embedded(entry)
            for place, passage in enumerate(entry.passages):
                if place not in done:
                    wanted.append((number, place))
                    texts.append(self.backfill.input(entry.document.title, passage))
        vectors = self.backfill.vectors(texts)
        if self.embedder.dims is None:
            return list(entries)  # it never answered: a space without a size cannot have vectors
        made: list[list[Vector | None]] = [[None] * len(entry.passages) for entry in entries]
        declined: list[set[int]] = [set() for _ in entries]
        for (number, place), vector in zip(wanted, vectors, strict=False):
            made[number][place] = vector
            if vector is None:
                declined[number].add(place)
        return [
            entry._replace(
                vectors=made[number],
                declined=frozenset(declined[number]),
                space=self.embedder.space,
            )
            if entry.space is None
            else entry
            for number, entry in enumerate(entries)
        ]

    def _embedded(self, entry: Entry) -> frozenset[int]:
        """Return the ordinals of passages that already have their vector; a new fact has none."""
        document = entry.document
        is_new = entry.is_new or not (document.id or document.key or document.path)
        if self.state.space is None or is_new:
            return frozenset()
        with visible_to(entry.visibility):
            return self.store.embedded(document, entry.passages)

    def write(
        self,
        changes: Sequence[Change],
        *,
        catch_up: bool = True,
        changed_at: int | None = None,
    ) -> list[Stored]:
        """Embed the entries, then write them in one transaction.

        Vectors of an external embedder follow immediately, unless ``catch_up`` is false.
        ``changed_at`` belongs to entries of another memory: when its facts last changed.
        """
        asked, changes = changes, self._confined(changes)
        entries = self.embed([change.entry for change in changes])
        embedded = [
            change._replace(entry=entry) for change, entry in zip(changes, entries, strict=True)
        ]
        try:
            changed = self._put(embedded, changed_at)
        except EmbedderError as error:
            # The store refused a vector: keep the text, leave the vectors for later.
            self.backfill.trouble = error.notice
            bare = [change._replace(entry=_without_vectors(change.entry)) for change in embedded]
            changed = self._put(bare, changed_at)
        external = self._is_external and self.embedder.dims != 0
        if external and catch_up and self.trouble is None:
            own = sum(done.chunks for done in changed)
            self.backfill.catch_up(most=own + ON_THE_SIDE)
        pending = self._pending(changed, external=external)
        return [
            _stored(done, change.entry.document, waiting, self.trouble)._replace(
                confined=None if change is before else change.entry.visibility
            )
            for done, change, before, waiting in zip(changed, changes, asked, pending, strict=True)
        ]

    def write_texts(
        self,
        changes: Sequence[Change],
        values: Mapping[str, str | None],
        *,
        check: Callable[[], None],
    ) -> list[Changed]:
        """Write the entries without vectors, and values of the caller, in one transaction.

        ``backfill`` makes the vectors later: until then the texts are found by keyword. ``check``
        is called inside the transaction, and may raise to write nothing.
        """
        changes = self._confined(changes)
        return put(self.store, changes, rules=self._rules, values=values, check=check)

    @property
    def _rules(self) -> dict[str, str]:
        return {
            "chunker": self.cut.identity,
            "indexed_by": self.state.analyzer,
            # Vectors name their embedder; a memory without any may be keyword-only by choice.
            "embedder": self.embedder.space.spec,
        }

    def _confined(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Return changes with who sees copies of what not all members see."""
        if not hasattr(self.store, "hidden"):
            return changes  # of one person
        from plait.writing.confining import confined

        return confined(self.store, changes)

    def _put(self, changes: Sequence[Change], changed_at: int | None) -> list[Changed]:
        return put(self.store, changes, changed_at=changed_at, rules=self._rules)

    def _pending(self, changed: Sequence[Changed], *, external: bool) -> list[int]:
        """Return how many passages of each document now wait for a vector."""
        if external or self.trouble is not None:
            state = self.store.state()
            if state.space is None:
                # Before the first vector, the store does not know that any are pending.
                return [done.chunks for done in changed]
            if external and not state.pending:
                return [0] * len(changed)
        return [done.pending for done in changed]

    def store_note(self, document: Document, lines: Sequence[int] = ()) -> Stored:
        """Store a document with a key, replacing the one with the same key."""
        [stored] = self.write([Change(self.prepare(document, lines))])
        return stored

    def addressed(self, document: Document) -> Document:
        """Return a document with its project."""
        self.check_size(document)
        return document._replace(project=self.home_of(document.project or self.project))

    def home_of(self, project: str | None) -> str | None:
        """Return the project that a document names, in the spelling of the current one if same."""
        if project is None or project.isascii():
            return project
        name = composed(project)
        return self.project if self.project and composed(self.project) == name else name

    @property
    def _is_external(self) -> bool:
        return self.embedder.tuning.external


def batches(many: Iterable[_Item], size: int = BATCH_DOCUMENTS) -> Iterator[list[_Item]]:
    """Yield documents or changes in groups that are written together."""
    items = iter(many)
    while batch := list(islice(items, size)):
        yield batch


def _line_in_file(draft: Draft, line: int) -> int:
    return draft.lines[line - 1] if 0 < line <= len(draft.lines) else line


def _without_vectors(entry: Entry) -> Entry:
    return entry._replace(vectors=(), declined=frozenset())


def _stored(done: Changed, document: Document, pending: int, trouble: Notice | None) -> Stored:
    return Stored(
        done.id,
        document.key or done.id,
        done.chunks,
        duplicate=done.duplicate,
        replaced=done.replaced,
        pending=pending,
        matched=done.id if done.duplicate else None,
        superseded=done.superseded,
        beside=done.beside,
        entity=done.parent,
        trouble=trouble,
        lowered=done.lowered,
        turn=done.turn,
        secret=document_secrets(document),
    )
