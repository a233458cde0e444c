"""`Memory`: the facade people import. One method per verb; frozen values back."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from plait import checks, identity, recall, scope
from plait.config import Config
from plait.errors import AmbiguousId, NotFound, UsageError
from plait.opening import embedder_of_vectors, named_embedder, open_parts
from plait.protocols import Embedder, Store
from plait.scope import Where
from plait.types import (
    FUSIONS,
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
    Stats,
    Stored,
)

if TYPE_CHECKING:
    from plait.desk import Desk
    from plait.filling import Progress
    from plait.graph import Graph
    from plait.packing import Recalled
    from plait.upkeep import Reindexed

__all__ = ["MODE_ALIASES", "READS_PUT_OFF", "Memory", "named_embedder"]

MODE_ALIASES = {"fts": "keyword", "vec": "vector"}
# Answers whose use is kept in mind before it is written down.
READS_PUT_OFF = 16
# Passages of a document up to which reading it whole means that each of them was of use.
READ_AS_ONE = 10


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
        self._former: Embedder | None = None
        self._writing: Desk | None = None
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
        store, chosen, found = open_parts(
            path, embedder, project=project, create=create, config=config
        )
        return cls(store, chosen, found, path=found.settings.db_path)

    def __enter__(self) -> Self:
        """For ``with``: closes at the end."""
        return self

    def __exit__(self, *error: object) -> None:
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
        from plait.ingest import check_text

        document = Document(
            key=checks.key(key),
            kind="observation" if key is None else "note",
            title=title,
            text=check_text(text),
            path=path,
            project=self.config.project,
            memory_type=checks.one_of("memory_type", memory_type, MEMORY_TYPES)
            if memory_type
            else None,
            type=type,
            tags=(tags,) if isinstance(tags, str) else tuple(dict.fromkeys(tags)),
            metadata=dict(metadata or {}),
            summary=summary,
            origin=checks.one_of("origin", origin, ORIGINS),
            trust=checks.one_of("trust", trust, TRUSTS),
            session=session,
            importance=checks.share("importance", importance),
            pinned=pinned,
            event_at=scope.moment(event_at),
            topic=checks.label("topic", topic),
            supersedes=None if supersedes is None else self._named(supersedes)[0].id,
            valid_from=scope.moment(valid_from),
        )
        if key is not None:
            checks.no_fact(entity, topic, supersedes, valid_from)
        return self._desk.store(document, checks.label("entity", entity))

    def store_many(self, documents: Iterable[Document]) -> list[Stored]:
        """Remember many documents, each replacing the one of its key; one transaction per batch.

        Documents without a project join this memory's.

        Raises:
            UsageError: A document has no text; those of earlier batches are stored.
        """
        return self._desk.store_many(documents)

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
        from plait import sources

        place = path if path is not None else self.config.settings.memory_dir
        if place is None:
            raise UsageError("Say what to ingest, as in: plait ingest ~/notes")
        settings = self.config.settings
        walk = sources.walk(
            place,
            patterns=tuple(patterns) or settings.patterns,
            max_bytes=round(settings.max_file_mb * 1024 * 1024),
        )
        report = self._desk.ingest(
            walk,
            incremental=incremental,
            keep_project=not self._project_is_chosen,
            progress=progress,
        )
        self._flush()
        return report

    @property
    def graph(self) -> "Graph":
        """The entities of this memory's project, and the relations between them.

        Raises:
            NotFound: There is no memory yet.
        """
        from plait.graph import Graph
        from plait.ranking.limbic import constants_from

        return Graph(
            self._required(),
            self._embedder,
            self._desk.scribe(),
            project=self.config.project,
            listed=self._listed,
            constants=constants_from(self.config.settings.limbic_constants or ()),
        )

    def used(self, refs: Sequence[Ref]) -> None:
        """Count passages as read together; written down later, and never while others write."""
        if refs and self._store is not None:
            self._reads.append(tuple(refs))
            # A program that never says when it has its answer; doors write down after theirs.
            self.write_down_use(READS_PUT_OFF)

    def write_down_use(self, least: int = 1) -> None:
        """Write down what was read, if that many answers wait; call it after an answer was given.

        Otherwise it happens at `close`, and after some readings by itself.
        """
        if len(self._reads) >= least:
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
        checks.weights(keyword, vector)
        request = recall.Request(
            text=query,
            limit=settings.limit if limit is None else limit,
            mode=checks.one_of("mode", MODE_ALIASES.get(mode, mode), MODES),
            where=self._filter(where, all_projects=all_projects),
            fusion=checks.one_of("fusion", fusion or settings.fusion, FUSIONS),
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
        answer = recall.search(self._store, self._asked_of(self._store), request)
        self._listed([hit.passage.ref for hit in answer])
        by = self.successors(hit.document for hit in answer)
        if not by:
            return answer
        marked = [hit._replace(superseded_by=by.get(hit.document.id)) for hit in answer]
        return Answer(marked, answer.receipt)

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
        recalled = packing.fenced(found, around, budget, guard.fence)
        self.used(recalled.refs)
        return recalled

    def lookup(self, name: str) -> tuple[Document, Passage | None]:
        """The whole document a name stands for, and the passage if it names one.

        Raises:
            NotFound: Nothing has that name.
            AmbiguousId: Several have it; the message lists them.
        """
        [found] = self.get_many([name])
        return found

    def get_many(self, names: Sequence[str]) -> list[tuple[Document, Passage | None]]:
        """Whole documents, and the passages that were named, in one query; counts as one read.

        Raises:
            NotFound: Nothing has one of the names.
            AmbiguousId: Several have it; the message lists them.
        """
        found, troubles = self.get_known(names)
        for trouble in troubles.values():
            raise trouble
        return found

    def get_known(
        self, names: Sequence[str]
    ) -> tuple[list[tuple[Document, Passage | None]], dict[str, NotFound | AmbiguousId]]:
        """The same for those of the names that mean something; beside them, why others do not."""
        from plait.names import load_known

        if self._store is None:
            return [], {name: self._absent(name) for name in names}
        found, troubles = load_known(self._store, names, self.config.project)
        self._read(found)
        return found, troubles

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

    def successors(self, documents: Iterable[Document]) -> dict[str, str]:
        """The ids of what took the place of those among some documents that ceased to hold."""
        ended = [document.id for document in documents if document.valid_to is not None]
        return self._required().successors(ended) if ended else {}

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
        from plait import timeline

        checks.count("limit", limit, 1, recall.MAX_LIMIT)
        checks.count("older", older, 0, recall.MAX_LIMIT)
        checks.count("newer", newer, 0, recall.MAX_LIMIT)
        if self._store is None and anchor is None:
            return []
        store = self._required()
        wanted = timeline.happenings(self._filter(where, all_projects=all_projects))
        if anchor is None:
            found = store.scan(wanted, limit=limit, before=before)
        else:
            middle, _ = self._named(anchor, all_projects=all_projects)
            found = timeline.around(store, middle, wanted, older=older, newer=newer)
        return timeline.outlined(store, found)

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
        from plait import removal

        if bool(names) == scope.narrows(where):
            raise UsageError(
                "Say what to delete, either by id or key, or by --path, --source or a filter."
            )
        store = self._required()
        if names:
            chosen = removal.doomed(store, names, self.config.project, purge=purge)
        else:
            every = self._filter(scope.widened(where), all_projects=all_projects)
            chosen = {row.id: row for row in store.scan(every)}
        if dry_run:
            return removal.forecast(store, chosen)
        deleted = store.delete(list(chosen), purge=purge)
        if any(row.parent is not None for row in chosen.values()):
            self._desk.fill()  # the profiles of what they belonged to say less now
        return deleted

    def undo(self, *names: str) -> list[Document]:
        """Bring back what the latest delete removed, or what is named.

        A document whose name a newer one has taken stays in the trash.

        Raises:
            NotFound: Nothing of that kind was deleted in the last 30 days.
        """
        from plait.removal import bring_back

        back = bring_back(self._required(), names)
        self._desk.fill()
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
        store = self._required()
        done = self._desk.reindex(anew=embeddings, progress=progress)
        self._flush()
        if compact:
            store.compact()
        store.settle()
        return done

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
        trouble = None if self._writing is None else self._writing.trouble
        return [] if trouble is None else [f"vectors are missing: {trouble}"]

    def identity_warnings(self) -> list[str]:
        """What was indexed under other rules than today's; `reindex` mends it."""
        if self._store is None:
            return []
        return identity.warnings(self._store, self._cut(), self._embedder)

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
        yield from archive.lines(self._store, every)

    def export_graph(self) -> Iterator[str]:
        """The current graph as the reference memory server writes it, line by line.

        That file has no word for trust, so that only what is trusted goes into it.
        """
        from plait.archive import reference

        if self._store is None:
            return
        whole = self.graph.read(trusts=("trusted",))
        entities = [NewEntity(one.name, one.type, one.contents) for one in whole.entities]
        yield from reference.write(entities, whole.relations)

    def import_lines(self, lines: Iterable[str]) -> Imported:
        """Take in an export, or a reference memory server's file; what is newer here is kept.

        A line that makes no sense is found before anything is written.

        Raises:
            UsageError: A line is none of either; says which.
        """
        from plait import archive, intake
        from plait.archive import reference

        desk = self._desk
        known, lines = reference.recognise(lines)
        desk.note_rules()
        if known:
            imported = intake.import_graph(self.graph, reference.read(lines))
        else:
            parts = list(archive.read(lines))
            imported = intake.import_export(self._required(), desk.pen(), parts)
            desk.fill()
        self._required().settle()
        return imported

    @property
    def engine(self) -> Store:
        """The store underneath, for programs that measure or examine it."""
        return self._required()

    @property
    def embedder(self) -> Embedder:
        """What turns text into vectors here."""
        return self._embedder

    # -- inside ----------------------------------------------------------------------------

    def _asked_of(self, store: Store) -> Embedder:
        """What questions are embedded with: until a reindex is done, what made the vectors."""
        space = store.space()
        if self._embedder.dims == 0 or space in (None, self._embedder.space):
            return self._embedder
        if self._former is None or self._former.space != space:
            self._former = embedder_of_vectors(store, self.config)
        return self._former if self._former.space == space else self._embedder

    def _required(self) -> Store:
        if self._store is None:
            raise NotFound(f"There is no memory at {self.path} yet. Start with: plait store TEXT")
        return self._store

    def _cut(self) -> Cut:
        """As the settings say; where they say nothing, as the memory was cut before."""
        settings, origins = self.config.settings, self.config.origins
        chosen = any(origins.get(name) != "default" for name in ("chunk_size", "chunk_overlap"))
        wanted = Cut(settings.chunk_size, settings.chunk_overlap)
        return identity.cut_of(self._store, wanted, chosen=chosen)

    @property
    def _desk(self) -> "Desk":
        if self._writing is None:
            from plait.desk import Desk

            self._writing = Desk(
                self._required(),
                self._embedder,
                project=self.config.project,
                cut=self._cut,
                follows=self.config.settings.auto_reindex,
            )
        return self._writing

    def _flush(self) -> None:
        """Write down what was put off while somebody waited for an answer."""
        later = getattr(self._embedder, "flush", None)
        if later is not None and self._store is not None:
            later()
        if self._reads and self._store is not None:
            reads, self._reads = self._reads, []
            self._store.touch(reads)

    def _named(self, name: str, *, all_projects: bool = False) -> tuple[Document, Passage | None]:
        """What a name stands for here: in this project, else among personal things."""
        from plait.names import resolve

        if self._store is None:
            raise self._absent(name)
        return resolve(self._store, name, self.config.project, all_projects=all_projects)

    def _absent(self, name: str) -> NotFound:
        return NotFound(f"Nothing is named '{name}': there is no memory at {self.path} yet.")

    def _filter(self, where: Filter | Where | None, *, all_projects: bool = False) -> Filter:
        """The caller's filter; ``entity`` names the entities whose observations are meant."""
        if not isinstance(where, Filter) and where and where.get("entity"):
            fields = dict(where)
            names = fields.pop("entity")
            wanted = [names] if isinstance(names, str) else list(names)
            where = {**fields, "parents": self.graph.ids_of(wanted)}
        return scope.to_filter(where, self.config.project, all_projects=all_projects)

    @property
    def _project_is_chosen(self) -> bool:
        """Whether somebody named the project, rather than the folder having one."""
        return self.config.origins.get("project", "default") != "default"
