"""`Memory`: the facade people import. One method per verb; frozen values back."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from plait import recall, scope
from plait import text as words
from plait.config import LOCAL_PROVIDERS, Config, load
from plait.embedders import PROVIDERS, Options, open_embedder
from plait.embedders.none import NoEmbedder
from plait.errors import AmbiguousId, NotFound, PlaitError, UsageError
from plait.protocols import Embedder, Entry, Store
from plait.scope import Where
from plait.stores import exists, open_store
from plait.types import (
    FUSIONS,
    KINDS,
    MEMORY_TYPES,
    MODES,
    ORIGINS,
    TRUSTS,
    Answer,
    Cut,
    Deleted,
    Document,
    Filter,
    Finding,
    Imported,
    IngestReport,
    NewEntity,
    Passage,
    Receipt,
    Ref,
    Space,
    Stats,
    Stored,
)

if TYPE_CHECKING:
    from plait.archive.reference import Graph as ReferenceGraph
    from plait.graph import Graph
    from plait.ingest import Pen, Progress
    from plait.packing import Recalled
    from plait.scribe import Scribe
    from plait.upkeep import Reindexed

MODE_ALIASES = {"fts": "keyword", "vec": "vector"}
EXPORT_PAGE = 200
DEFAULT_EMBEDDER = "builtin"
SUMMARY_CHARS = 100
MIN_PREFIX = 6
# Answers whose use is kept in mind before it is written down.
READS_PUT_OFF = 16
# Passages of a document up to which reading it whole means that each of them was of use.
READ_AS_ONE = 10


Choice = TypeVar("Choice", bound=str)


class Memory:
    """A memory that several threads and several processes may use at once.

    >>> with Memory.open(":memory:") as memory:
    ...     stored = memory.store("We deploy on Fridays", tags=["ops"])
    ...     [hit.text for hit in memory.search("when do we deploy")]
    ['We deploy on Fridays']
    """

    def __init__(
        self, store: Store | None, embedder: Embedder, config: Config, *, path: str
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._pens: list[Pen] = []
        self._reads: list[tuple[Ref, ...]] = []
        self.config = config
        self.path = path

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        embedder: Embedder | str | None = None,
        project: str | None = None,
        create: bool = True,
        config: Config | None = None,
    ) -> Self:
        """Open a memory, making its file when it does not exist.

        Args:
            path: The file; ``:memory:`` for one that is never written; the settings' when omitted.
            embedder: An embedder or its name; by default the one the memory was built with.
            project: What is stored belongs to it, and searches see it beside personal things; the
                git repository of the working directory when omitted, ``""`` for none.
            create: With ``False`` an absent file stays absent, and everything answers empty.
            config: Settings that were already loaded.

        Raises:
            StoreError: The file cannot be used.
            ConfigError: A setting is wrong.
        """
        flags: dict[str, object] = {}
        if path is not None:
            flags["db_path"] = os.fspath(path)
        if project is not None:
            flags["project"] = project
        if isinstance(embedder, str):
            flags["embedding_provider"] = embedder
        found = config if config is not None else load(flags)
        place = found.settings.db_path
        spec = found.settings.embedding_provider
        if isinstance(embedder, str):
            spec = embedder
        if spec is not None and embedder in (None, spec):
            # A name that means nothing is refused before a file is made.
            embedder = named_embedder(spec, found)
        store: Store | None = None
        if create or place == ":memory:" or exists(place):
            store = open_store(
                place,
                create=create,
                timeout=found.settings.sqlite_open_timeout_secs,
                durability=found.settings.durability,
            )
        if embedder is None or isinstance(embedder, str):
            embedder = _embedder_of(store, found)
        elif embedder.dims is None and spec is not None and store is not None:
            # What the memory knows of its own vectors need not be asked for again.
            embedder = named_embedder(spec, found, known=store.space())
        if store is not None and recall.tuning_of(embedder).external:
            from plait.embedding import CachedEmbedder

            embedder = CachedEmbedder(embedder, store, found.settings.cache_size)
        return cls(store, embedder, found, path=place)

    def __enter__(self) -> Self:
        """For ``with``: closes at the end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Release the file; the memory cannot be used afterwards."""
        self._flush()
        if self._store is not None:
            self._store.close()

    # -- putting in ------------------------------------------------------------------------

    def store(
        self,
        text: str,
        *,
        key: str | None = None,
        title: str = "",
        type: str | None = None,
        memory_type: str | None = None,
        tags: Iterable[str] | str = (),
        metadata: Mapping[str, str] | None = None,
        summary: str | None = None,
        session: str | None = None,
        origin: str = "user",
        trust: str = "trusted",
        importance: float | None = None,
        pinned: bool = False,
        event_at: int | str | None = None,
        path: str | None = None,
        entity: str | None = None,
        topic: str | None = None,
        supersedes: str | None = None,
        valid_from: int | str | None = None,
    ) -> Stored:
        """Remember a text. With ``key`` it is a note, replaced by the next one of that key.

        Without a key it is an observation, and saying the same thing twice keeps one. It may belong
        to an ``entity``, which is made where there is none of that name; it puts an end to the
        current observation of its ``topic`` there and to the one that it ``supersedes``. What an
        agent or a tool stores is left out when it came out of this memory.

        Raises:
            NotFound: There is nothing to supersede.
            UsageError: There is no text, or a field has a value it cannot have.
        """
        from plait import ingest

        document = Document(
            key=_key(key),
            kind="observation" if key is None else "note",
            title=title,
            text=ingest.check_text(text),
            path=path,
            project=self.config.project,
            memory_type=_one_of("memory_type", memory_type, MEMORY_TYPES) if memory_type else None,
            type=type,
            tags=(tags,) if isinstance(tags, str) else tuple(dict.fromkeys(tags)),
            metadata=dict(metadata or {}),
            summary=summary,
            origin=_one_of("origin", origin, ORIGINS),
            trust=_one_of("trust", trust, TRUSTS),
            session=session,
            importance=_share("importance", importance),
            pinned=pinned,
            event_at=scope.moment(event_at),
            topic=_name("topic", topic),
            supersedes=None if supersedes is None else self._named(supersedes)[0].id,
            valid_from=scope.moment(valid_from),
        )
        self._note_chunker()
        if key is None:
            stored = self._scribe().store(document, _name("entity", entity))
        else:
            _refuse_facts_of_notes(entity, topic, supersedes, valid_from)
            pen = self._pen()
            stored = pen.write([pen.entry(ingest.complete(document, ingest.now_ms()))])[0]
        self._follow_embedder()
        return stored

    def store_many(self, documents: Iterable[Document]) -> list[Stored]:
        """Remember many documents, each replacing the one of its key; one transaction per batch.

        Documents without a project join this memory's.

        Raises:
            UsageError: A document has no text; those of earlier batches are stored.
        """
        from plait import ingest

        pen = self._pen()
        self._note_chunker()
        now = ingest.now_ms()
        entries = (
            pen.entry(
                ingest.complete(
                    document._replace(
                        text=ingest.check_text(document.text),
                        project=document.project or self.config.project,
                    ),
                    now,
                )
            )
            for document in documents
        )
        stored: list[Stored] = []
        for batch in ingest.batches(entries):
            stored += pen.write(batch)
        self._follow_embedder()
        self._required().settle()
        return stored

    def ingest(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        patterns: Sequence[str] = (),
        incremental: bool = False,
        progress: "Progress | None" = None,
    ) -> IngestReport:
        """Index a file or a folder; the files themselves are never changed.

        Args:
            path: What to read; the setting ``memory_dir`` when omitted.
            patterns: Which files of a folder count, as in ``*.md``.
            incremental: Trust size and time of a file that was indexed before.
            progress: Called with the files done, the files in all, and the last one's path.

        Raises:
            SourceError: There is no such file or folder.
        """
        from plait import ingest, sources

        place = path if path is not None else self.config.settings.memory_dir
        if place is None:
            raise UsageError("Say what to ingest, as in: plait ingest ~/notes")
        settings = self.config.settings
        walk = sources.walk(
            place,
            patterns=tuple(patterns) or settings.patterns,
            max_bytes=round(settings.max_file_mb * 1024 * 1024),
        )
        self._note_chunker()
        pen = self._pen()
        run = ingest.Ingest(
            self._required(),
            pen,
            project=self.config.project,
            incremental=incremental,
            keep_project=not self._project_is_chosen,
            progress=progress,
        )
        report = run.run(walk)
        if pen.trouble is None:
            # Left over from a time without an embedder, or when it was down: it answers now.
            self._fill()
            self._follow_embedder()
        self._flush()
        return report

    @property
    def graph(self) -> "Graph":
        """The entities of this memory's project, and the relations between them.

        Raises:
            NotFound: There is no memory yet.
        """
        from plait.graph import Graph
        from plait.guard import GUARDED
        from plait.ranking.limbic import constants_from

        return Graph(
            self._required(),
            self._embedder,
            self._scribe(),
            project=self.config.project,
            guarded=GUARDED,
            listed=self._listed,
            constants=constants_from(self.config.settings.limbic_constants or ()),
        )

    def used(self, refs: Sequence[Ref]) -> None:
        """Count passages as read together; written down later, and never while others write."""
        if refs and self._store is not None:
            self._reads.append(tuple(refs))
            if len(self._reads) >= READS_PUT_OFF:
                self._flush()

    def _listed(self, refs: Sequence[Ref]) -> None:
        if self.config.settings.signals_count == "listed":
            self.used(refs)

    # -- finding ---------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        mode: str = "hybrid",
        min_score: float | None = None,
        window: int = 0,
        best_per_document: bool = False,
        explain: bool = False,
        fusion: str | None = None,
        keyword_weight: float | None = None,
        vector_weight: float | None = None,
        where: Filter | Where | None = None,
        all_projects: bool = False,
    ) -> Answer:
        """The passages that answer a query, best first, with a receipt.

        Args:
            query: Words, a question, or an expression with quotes, AND, OR, NOT, NEAR and ``*``.
            limit: How many hits, 1 to 1000.
            mode: ``hybrid``, ``keyword`` (``fts``) or ``vector`` (``vec``).
            min_score: Least `relevance` of a hit, 0 to 1.
            window: Neighbouring passages to add on each side, 0 to 5.
            best_per_document: Only the best passage of each document.
            explain: Give every hit its reasons.
            fusion: ``weighted``, ``rrf`` or ``seed001``.
            keyword_weight: Weight of the keyword branch; 0 switches it off.
            vector_weight: Weight of the vector branch; 0 switches it off.
            where: Which documents count: a `Filter`, or its fields by name.
            all_projects: Look beyond the current project and personal things.

        Raises:
            UsageError: The query is empty or a value is out of its range.
        """
        settings = self.config.settings
        keyword, vector = keyword_weight, vector_weight
        # subtle: one weight given here is completed to 1, not paired with the settings' other one.
        if keyword is None and vector is None:
            keyword, vector = settings.keyword_weight, settings.vector_weight
        _check_weights(keyword, vector)
        request = recall.Request(
            text=query,
            limit=settings.limit if limit is None else limit,
            mode=_one_of("mode", MODE_ALIASES.get(mode, mode), MODES),
            where=self._filter(where, all_projects=all_projects),
            fusion=_one_of("fusion", fusion or settings.fusion, FUSIONS),
            keyword_weight=keyword,
            vector_weight=vector,
            min_score=settings.min_score if min_score is None else min_score,
            floor=settings.floor,
            window=window,
            best_per_document=best_per_document,
            explain=explain,
            expansion_factor=settings.expansion_factor,
            rrf_k=settings.rrf_k,
            limbic=settings.limbic_constants or () if settings.limbic else None,
        )
        if self._store is None:
            recall.check(request)
            return Answer((), Receipt(query=query, mode_asked=request.mode, mode_used="keyword"))
        answer = recall.search(self._store, self._embedder, request)
        self._listed([hit.passage.ref for hit in answer])
        return answer

    def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        budget_tokens: int | None = None,
        min_score: float | None = None,
        where: Filter | Where | None = None,
        all_projects: bool = False,
    ) -> "Recalled":
        """What the memory knows about a query, as one text for a model's prompt.

        The best hits stand in it whole, with what surrounds them, as far as the budget goes. The
        text is fenced: an agent that stores it again stores nothing.

        Args:
            query: As for `search`.
            limit: How many hits at most, 1 to 50.
            budget_tokens: The most the text may cost; 1,500 when omitted.
            min_score: Least `relevance` of a hit; 0.25 when neither this nor the setting says.
            where: Which documents count: a `Filter`, or its fields by name.
            all_projects: Look beyond the current project and personal things.

        Raises:
            UsageError: The query is empty or a value is out of its range.
        """
        from plait import guard, packing

        budget = packing.check(limit, budget_tokens)
        floor = self.config.settings.min_score if min_score is None else min_score
        if min_score is None and self.config.origins.get("min_score", "default") == "default":
            floor = packing.RECALL_FLOOR
        found = self.search(
            query, limit=limit, min_score=floor, where=where, all_projects=all_projects
        )
        around = [
            self._required().neighbours(hit.document.id, hit.passage.ordinal, packing.AROUND)
            for hit in found
        ]
        packed = packing.pack(found, around, budget - packing.tokens_of(guard.fence("")))
        text = guard.fence(packed.text) if packed.text else ""
        self.used(packed.refs)
        return packing.Recalled(
            text, packing.tokens_of(text), budget, packed.items, packed.left_out, found.receipt
        )

    def lookup(self, name: str) -> tuple[Document, Passage | None]:
        """The whole document a name stands for, and the passage if it names one.

        Raises:
            NotFound: Nothing has that name.
            AmbiguousId: Several have it; the message lists them.
        """
        document, passage = self._named(name)
        whole = self._required().load([document.id])
        if not whole:
            # Another process was quicker between the two reads.
            raise NotFound(f"Nothing is named '{name}' any more: it was deleted just now.")
        self._read([(whole[0], passage)])
        return whole[0], passage

    def get_many(self, names: Sequence[str]) -> list[tuple[Document, Passage | None]]:
        """Whole documents, and the passages that were named, in one query; counts as one read.

        Raises:
            NotFound: Nothing has one of the names.
            AmbiguousId: Several have it; the message lists them.
        """
        named = [self._named(name) for name in names]
        whole = {row.id: row for row in self._required().load([row.id for row, _ in named])}
        found = [(whole[row.id], passage) for row, passage in named if row.id in whole]
        self._read(found)
        return found

    def _read(self, found: Sequence[tuple[Document, Passage | None]]) -> None:
        """Count what was read: a passage, or the passages of a short document."""
        refs: list[Ref] = []
        for document, passage in found:
            if passage is not None:
                refs.append(passage.ref)
            elif document.chunk_count <= READ_AS_ONE:
                refs += [part.ref for part in self.passages_of(document.id)]
        self.used(refs)

    def get(self, name: str) -> Document | Passage:
        """A document or a passage, whole, by id, unique id prefix, key or chunk_id.

        Raises:
            NotFound: Nothing has that name.
            AmbiguousId: Several have it; the message lists them.
        """
        document, passage = self.lookup(name)
        return document if passage is None else passage

    def passages_of(self, id_: str) -> list[Passage]:
        """All passages of a document, in order."""
        return self._required().neighbours(id_, 0, 2**31)

    def timeline(
        self,
        *,
        limit: int = 20,
        before: tuple[int, str] | None = None,
        anchor: str | None = None,
        older: int = 5,
        newer: int = 5,
        where: Filter | Where | None = None,
        all_projects: bool = False,
    ) -> list[Document]:
        """Documents without their text, newest event first; entities only where asked for.

        Args:
            limit: How many, 1 to 1000.
            before: Where the last page ended: ``(event_at, id)`` of its last document.
            anchor: A document to look around instead: it and its nearest neighbours in time.
            older: How many neighbours before the anchor, 0 to 1000.
            newer: How many after it.
            where: Which documents count; ``since`` and ``until`` take dates and ages like ``7d``.
            all_projects: Look beyond the current project and personal things.
        """
        if not 1 <= limit <= recall.MAX_LIMIT:
            raise UsageError(f"limit is {limit}; choose 1 to {recall.MAX_LIMIT}.")
        for name, count in (("older", older), ("newer", newer)):
            if not 0 <= count <= recall.MAX_LIMIT:
                raise UsageError(f"{name} is {count}; choose 0 to {recall.MAX_LIMIT}.")
        if self._store is None and anchor is None:
            return []
        store = self._required()
        wanted = self._filter(where, all_projects=all_projects)
        if not wanted.kinds:
            wanted = wanted._replace(kinds=tuple(kind for kind in KINDS if kind != "entity"))
        if anchor is None:
            found = store.scan(wanted, limit=limit, before=before)
        else:
            middle, _ = self._named(anchor, all_projects=all_projects)
            place = (middle.event_at or 0, middle.id)
            after = store.scan(wanted, limit=newer, after=place) if newer else []
            earlier = store.scan(wanted, limit=older, before=place) if older else []
            found = [*reversed(after), middle, *earlier]
        return [
            document._replace(text="", summary=document.summary or summarise(document.text))
            for document in store.load([document.id for document in found])
        ]

    # -- taking out ------------------------------------------------------------------------

    def delete(
        self,
        *names: str,
        where: Filter | Where | None = None,
        purge: bool = False,
        dry_run: bool = False,
        all_projects: bool = False,
    ) -> Deleted:
        """Forget documents by id, key or filter; 30 days of grace unless ``purge``.

        Raises:
            NotFound: One of the names fits nothing; then nothing is deleted.
            UsageError: Neither a name nor a filter was given.
        """
        if bool(names) == scope.narrows(where):
            raise UsageError(
                "Say what to delete, either by id or key, or by --path, --source or a filter."
            )
        store = self._required()
        if names:
            trash = [row for _, _, row in store.trashed()] if purge else []
            chosen = {row.id: row for name in names for row in self._deletable(name, trash)}
        else:
            every = self._filter(scope.widened(where), all_projects=all_projects)
            chosen = {row.id: row for row in store.scan(every)}
        if dry_run:
            entities = tuple(row.id for row in chosen.values() if row.kind == "entity")
            if entities:
                belonging = Filter(parents=entities, trusts=TRUSTS, all_versions=True)
                chosen.update({row.id: row for row in store.scan(belonging)})
            return Deleted(
                tuple(row.doc_id for row in chosen.values()),
                tuple(chosen),
                sum(row.chunk_count for row in chosen.values()),
            )
        deleted = store.delete(list(chosen), purge=purge)
        if any(row.parent is not None for row in chosen.values()):
            self._fill()  # the profiles of what they belonged to say less now
        return deleted

    def _deletable(self, name: str, trash: Sequence[Document]) -> list[Document]:
        """What a name stands for, with all that lies under it in the trash to be purged."""
        mine = (self.config.project, None)
        older = [
            row
            for row in trash
            if (len(name) >= MIN_PREFIX and row.id.startswith(name))
            or (row.key == name and row.project in mine)
        ]
        try:
            document, _ = self._named(name)
        except NotFound:
            if older:
                return older
            raise
        return [document, *older]

    def undo(self, *names: str) -> list[Document]:
        """Bring back what the latest delete removed, or what is named.

        A document whose name a newer one has taken stays in the trash.

        Raises:
            NotFound: Nothing of that kind was deleted in the last 30 days.
        """
        store = self._required()
        ids = [row.id for _, _, row in store.trashed() if set(names) & {row.id, row.key}]
        if names and not ids:
            raise NotFound(f"Nothing named {', '.join(names)} was deleted in the last 30 days.")
        back = store.restore(ids)
        if not back:
            raise NotFound(
                "Nothing to undo: nothing was deleted in the last 30 days, or newer documents "
                "have taken the names."
            )
        self._fill()
        return back

    # -- looking after ---------------------------------------------------------------------

    def reindex(
        self,
        *,
        embeddings: bool = False,
        compact: bool = False,
        progress: "Progress | None" = None,
    ) -> "Reindexed":
        """Rebuild the keyword index and make missing vectors, while searches go on.

        Args:
            embeddings: Make every vector anew, not only the missing ones.
            compact: Give free space back to the disk at the end.
            progress: Called with the number of passages embedded so far, 0 and an empty name.
        """
        from plait import upkeep

        store = self._required()
        pen = self._pen()
        rechunked = 0
        if store.meta("chunker") not in (None, self._cut().identity):
            rechunked = upkeep.rechunk(store, pen, self._every_document())
        chunks = store.rebuild_keywords()
        store.set_meta("chunker", self._cut().identity)
        store.set_meta("analyzer", store.analyzer)
        embedded, swapped = 0, False
        if self._embedder.dims != 0:
            embedded, swapped = upkeep.embed_all(
                store, self._embedder, pen, anew=embeddings, progress=progress
            )
        self._flush()
        if compact:
            store.compact()
        store.settle()
        return upkeep.Reindexed(chunks, embedded, rechunked, swapped, pen.trouble)

    def stats(self) -> Stats:
        """How much is in the memory, and in what state."""
        return Stats(path=self.path) if self._store is None else self._store.stats()

    def doctor(self, *, fix: bool = False) -> list[Finding]:
        """Look the memory over; with ``fix``, mend what can be mended."""
        if self._store is None:
            return [Finding("file", "ok", f"{self.path} does not exist yet: nothing to examine")]
        findings = self._store.check(fix=fix)
        findings += [
            Finding("identity", "warning", message) for message in self.identity_warnings()
        ]
        ask = getattr(self._embedder, "check", None)
        return [*findings, *(ask() if ask is not None else ())]

    def troubles(self) -> list[str]:
        """What the embedder could not do during the latest write; the text itself is stored."""
        return [
            f"vectors are missing: {pen.trouble}" for pen in self._pens if pen.trouble is not None
        ]

    def identity_warnings(self) -> list[str]:
        """What was indexed under other rules than today's; `reindex` mends it."""
        if self._store is None:
            return []
        found = []
        chunker = self._store.meta("chunker")
        if chunker is not None and chunker != self._cut().identity:
            found.append(
                f"Passages were cut by {chunker}, the settings now say {self._cut().identity}. "
                "Run: plait reindex"
            )
        built = self._store.meta("analyzer")
        analyzer = self._store.analyzer
        if built is not None and built != analyzer:
            found.append(f"Words were indexed by {built}, not {analyzer}. Run: plait reindex")
        space = self._store.space()
        if space is not None and self._embedder.dims != 0 and space != self._embedder.space:
            found.append(
                f"Vectors were made by {space}, the embedder is now {self._embedder.space}. "
                "Run: plait reindex"
            )
        return found

    def backup(self, target: str | os.PathLike[str]) -> str:
        """Copy the memory to a new file, consistent and private, while others go on writing."""
        place = os.path.abspath(os.fspath(target))
        self._required().backup(place)
        return place

    def export(
        self, *, where: Filter | Where | None = None, all_projects: bool = False
    ) -> Iterator[str]:
        """The memory as lines of JSON, first a header, then one document each.

        Without a filter that is everything; with one, this project and personal things, unless
        ``all_projects``.
        """
        from plait import archive

        latest = None if self._store is None else self._store.latest_turn()
        yield archive.header(None if latest is None else archive.Turn(latest))
        if self._store is None:
            return
        fields = scope.widened(where)
        if self._project_is_chosen and not all_projects:
            fields.setdefault("projects", (self.config.project,))
        every = self._filter(fields, all_projects=where is None or all_projects)
        # In their first order, which is the only one that entities' observations have.
        documents = self._store.in_order(every, whole=False)
        for start in range(0, len(documents), EXPORT_PAGE):
            page = documents[start : start + EXPORT_PAGE]
            for document in self._store.load([document.id for document in page]):
                yield archive.line(document, self.passages_of(document.id))
        homes = {row.id: row.project for row in documents if row.kind == "entity"}
        for relation in self._store.relations(list(homes), Filter(all_versions=True)):
            if relation.source_id in homes and relation.target_id in homes:
                yield archive.edge_line(archive.Edge(relation, homes[relation.source_id]))

    def export_graph(self) -> Iterator[str]:
        """The current graph as the reference memory server writes it, line by line."""
        from plait.archive import reference

        if self._store is None:
            return
        whole = self.graph.read()
        entities = [NewEntity(one.name, one.type, one.contents) for one in whole.entities]
        yield from reference.write(entities, whole.relations)

    def import_lines(self, lines: Iterable[str]) -> Imported:
        """Take in an export, or a reference memory server's file; what is newer here is kept.

        A line that makes no sense is found before anything is written.

        Raises:
            UsageError: A line is none of either; says which.
        """
        from plait import archive, upkeep
        from plait.archive import reference

        store = self._required()
        known, lines = reference.recognise(lines)
        self._note_chunker()
        if known:
            return self._import_graph(reference.read(lines))
        parts = list(archive.read(lines))
        for part in parts:
            if isinstance(part, archive.Turn):
                store.advance(part.moment)
        entries = [part for part in parts if isinstance(part, Entry)]
        imported = upkeep.import_entries(store, self._pen(), entries)
        edges = [part for part in parts if isinstance(part, archive.Edge)]
        fresh: list[bool] = []
        for project in dict.fromkeys(edge.project for edge in edges):
            mine = [edge.relation for edge in edges if edge.project == project]
            fresh += store.relate(mine, project)
        self._fill()
        store.settle()
        return imported._replace(relations=sum(fresh))

    def _import_graph(self, found: "ReferenceGraph") -> Imported:
        graph = self.graph
        before = {
            entity.name for entity in graph.open([one.name for one in found.entities]).entities
        }
        made = graph.create(found.entities, origin="import")
        fresh = graph.relate(found.relations)
        self._required().settle()
        new = [entity for entity in made if entity.name not in before]
        kept = len(made) - len(new)
        return Imported(len(new), 0, kept, len(fresh), found.unknown)

    @property
    def engine(self) -> Store:
        """The store underneath, for programs that measure or examine it."""
        return self._required()

    @property
    def embedder(self) -> Embedder:
        """What turns text into vectors here."""
        return self._embedder

    # -- inside ----------------------------------------------------------------------------

    def _required(self) -> Store:
        if self._store is None:
            raise NotFound(f"There is no memory at {self.path} yet. Start with: plait store TEXT")
        return self._store

    def _cut(self) -> Cut:
        """As the settings say; where they say nothing, as the memory was cut before."""
        settings, origins = self.config.settings, self.config.origins
        silent = all(origins.get(name) == "default" for name in ("chunk_size", "chunk_overlap"))
        built = self._store.meta("chunker") if self._store is not None and silent else None
        if built is not None:
            rules, size, overlap = map(int, built.split(":"))
            if rules == Cut().rules:
                return Cut(size, overlap)
        return Cut(settings.chunk_size, settings.chunk_overlap)

    def _pen(self) -> "Pen":
        from plait.ingest import Pen

        pen = Pen(self._required(), self._embedder, self._cut())
        self._pens = [pen]
        return pen

    def _scribe(self) -> "Scribe":
        from plait.scribe import Scribe

        return Scribe(
            self._required(),
            self._embedder,
            pen=self._pen,
            fill=self._fill,
            project=self.config.project,
        )

    def _note_chunker(self) -> None:
        """The first write decides under which rules a memory was cut and indexed."""
        store = self._required()
        for name, value in (
            ("chunker", self._cut().identity),
            ("analyzer", store.analyzer),
            # What has vectors says itself whose they are; having none can be a decision too.
            ("embedder", self._embedder.space.spec),
        ):
            if store.meta(name) is None:
                store.set_meta(name, value)

    def _fill(self) -> None:
        """Make the vectors that are missing, if there is something to make them with."""
        from plait.upkeep import fill_pending

        store = self._required()
        space = store.space()
        if self._embedder.dims == 0 or space not in (None, self._embedder.space):
            return
        if space is None and store.newest() is not None:
            store.begin(self._embedder.space)
        if store.pending_count():
            fill_pending(store, self._embedder, self._pen())

    def _follow_embedder(self) -> None:
        """With ``auto_reindex``, give a memory of another embedder's vectors those of this one."""
        if not self.config.settings.auto_reindex or self._embedder.dims == 0:
            return
        from plait.upkeep import embed_all

        store = self._required()
        if store.space() not in (None, self._embedder.space):
            embed_all(store, self._embedder, self._pen(), anew=False, progress=None)

    def _flush(self) -> None:
        """Write down what was put off while somebody waited for an answer."""
        later = getattr(self._embedder, "flush", None)
        if later is not None and self._store is not None:
            later()
        if self._reads and self._store is not None:
            reads, self._reads = self._reads, []
            self._store.touch(reads)

    def _every_document(self) -> list[Document]:
        return self._required().scan(Filter(trusts=TRUSTS, all_versions=True))

    def _named(self, name: str, *, all_projects: bool = False) -> tuple[Document, Passage | None]:
        """What a name stands for here: in this project, else among personal things."""
        if self._store is None:
            raise NotFound(f"Nothing is named '{name}': there is no memory at {self.path} yet.")
        everywhere = Filter(trusts=TRUSTS, all_versions=True)
        found = self._store.find(words.clean(name), everywhere)
        near = found
        # An id is unique, wherever its document lives; a key is only a name.
        if not all_projects and any(name == document.key for document, _ in found):
            near = [pair for pair in found if pair[0].project == self.config.project]
            near = near or [pair for pair in found if pair[0].project is None]
        if len(near) > 1:
            listed = ", ".join(
                f"{(passage or document).id} ({document.path or document.title or document.key})"
                for document, passage in near[:8]
            )
            raise AmbiguousId(f"'{name}' fits {len(near)} entries: {listed}. Give an id.")
        if near:
            return near[0]
        if found:
            raise NotFound(
                f"Nothing is named '{name}' here; {found[0][0].project} has one. "
                f"Add: --project {found[0][0].project}"
            )
        raise NotFound(f"Nothing is named '{name}'. Look for it with: plait search WORDS")

    def _filter(self, where: Filter | Where | None, *, all_projects: bool = False) -> Filter:
        """The caller's filter; ``entity`` names the entities whose observations are meant."""
        if not isinstance(where, Filter) and where and where.get("entity"):
            fields = dict(where)
            names = fields.pop("entity")
            wanted = [names] if isinstance(names, str) else list(names)
            found = {one.name: one.id for one in self.graph.open(wanted).entities}
            for name in wanted:
                if name not in found:
                    raise NotFound(f"There is no entity named '{name}'. See: plait entity list")
            where = {**fields, "parents": tuple(found.values())}
        return scope.to_filter(where, self.config.project, all_projects=all_projects)

    @property
    def _project_is_chosen(self) -> bool:
        """Whether somebody named the project, rather than the folder having one."""
        return self.config.origins.get("project", "default") != "default"


def summarise(text: str) -> str:
    r"""The first words of a text, on one line.

    >>> summarise("# Deploys\n\nWe deploy on Fridays.")
    'Deploys We deploy on Fridays.'
    """
    from plait.chunking import front_matter

    _, front = front_matter(text)
    first = " ".join(text[front : front + 4 * SUMMARY_CHARS].replace("#", " ").split())
    return first if len(first) <= SUMMARY_CHARS else first[: SUMMARY_CHARS - 1] + "…"


def _embedder_of(store: Store | None, config: Config) -> Embedder:
    """What the memory was built with; the built-in model for a new one."""
    space = store.space() if store is not None else None
    first = store.meta("embedder") if store is not None else None
    spec = space.spec if space is not None else first or DEFAULT_EMBEDDER
    provider = spec.partition(":")[0]
    if provider not in (*PROVIDERS, *LOCAL_PROVIDERS):
        return NoEmbedder(f"this memory's vectors are by {spec}, which is not one of plait's own")
    if provider not in LOCAL_PROVIDERS:
        # The file may come from somebody else: only this machine's settings send text away.
        return NoEmbedder(
            f"this memory's vectors are by {spec}, which sends text to another machine. If you "
            f"want that run: plait config set embedding_provider {spec}"
        )
    try:
        return named_embedder(spec, config, known=space)
    except PlaitError as error:
        return NoEmbedder(f"this memory's vectors are by {spec}. {error}")


def named_embedder(
    spec: str, config: Config | None = None, *, known: Space | None = None
) -> Embedder:
    """The embedder of a settings string; ``hashing`` is the stand-in of `plait.testing`."""
    provider = spec.partition(":")[0]
    if provider == "hashing":
        from plait.testing import HashingEmbedder

        return HashingEmbedder()
    if config is None:
        return open_embedder(spec, Options(known=known))
    settings = config.settings
    options = Options(
        model=settings.model,
        dims=settings.dims,
        ollama_url=settings.ollama_url,
        key=lambda origin: config.key_for(provider, origin),
        folder=config.models_folder,
        known=known,
    )
    return open_embedder(spec, options)


def _check_weights(keyword: float | None, vector: float | None) -> None:
    for name, weight in (("keyword_weight", keyword), ("vector_weight", vector)):
        if weight is not None and not 0.0 <= weight <= 1.0:
            raise UsageError(f"{name} is {weight}; choose 0 to 1.")
    if keyword is not None and vector is not None:
        if keyword + vector > 1.0 + 1e-9:
            raise UsageError(
                f"keyword_weight {keyword} and vector_weight {vector} add up to "
                f"{keyword + vector:g}; they must not exceed 1."
            )
        if keyword == vector == 0.0:
            raise UsageError("Both weights are 0: then nothing is searched. Raise one of them.")


def _one_of(name: str, value: str, allowed: Sequence[Choice]) -> Choice:
    for choice in allowed:
        if choice == value:
            return choice
    raise UsageError(f"{name} is '{value}'; choose one of: {', '.join(allowed)}.")


def _share(name: str, value: float | None) -> float | None:
    if value is not None and not 0.0 <= value <= 1.0:
        raise UsageError(f"{name} is {value:g}; choose 0 to 1.")
    return value


def _name(what: str, name: str | None) -> str | None:
    if name is not None and not name.strip():
        raise UsageError(f"The {what} is empty. Give it a name, or leave it out.")
    return None if name is None else words.clean(name)


def _refuse_facts_of_notes(*said: object) -> None:
    if any(value is not None for value in said):
        raise UsageError(
            "A text with a key is a note: it is replaced by its key, and has no entity, topic, "
            "supersedes or valid_from. Leave out the key, or the others."
        )


def _key(key: str | None) -> str | None:
    if key is not None and not key.strip():
        raise UsageError("The key is empty. Give a name, as in: --doc-id TOOLS")
    return key
