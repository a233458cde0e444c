"""`Memory`: the facade people import, one method per verb.

Each method delegates: what a verb does belongs in `plait.searching`, `plait.writing`,
`plait.graph` and `plait.exporting`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from plait.errors import AmbiguousId, NotFound, UsageError, advise
from plait.memory.maintenance import MaintainedMemory
from plait.memory.opening import named_embedder
from plait.searching import search
from plait.searching.scoring import Request
from plait.searching.where import Where, moment, narrows, widened
from plait.text import clean
from plait.types import (
    FUSION_ALIASES,
    FUSIONS,
    MODES,
    Answer,
    Document,
    Filter,
    Passage,
    Receipt,
    Ref,
    check_choice,
    check_range,
)
from plait.types.guarding import guarded

if TYPE_CHECKING:
    from plait.facts.names import Reach
    from plait.searching.recall import Recalled
    from plait.types.reports import Deleted, IngestReport, Stored
    from plait.writing.backfill import Progress

__all__ = ["MODE_ALIASES", "Memory", "named_embedder"]

MODE_ALIASES = {"fts": "keyword", "vec": "vector"}
# Reading a whole document counts as reading each passage, up to this many passages.
READ_AS_ONE = 10


@guarded
class Memory(MaintainedMemory):
    """A memory that several threads and several processes may use at once.

    >>> with Memory.open(":memory:") as memory:
    ...     stored = memory.store("We deploy on Fridays", tags=["ops"])
    ...     [hit.text for hit in memory.search("when do we deploy")]
    ['We deploy on Fridays']
    """

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
        allow_secret: bool = False,
    ) -> Stored:
        """Store a text. With ``key`` it is a note; the next text with that key replaces it.

        Without a key it is an observation, and the same text is stored once. It may belong to an
        ``entity``, which is created if needed; it replaces the current observation of its
        ``topic`` there, and the one that it ``supersedes``. Text that an agent or a tool stores is
        left out if it was recalled from this memory, and refused if it holds a private key, token
        or password, unless ``allow_secret``.

        Raises:
            NotFound: The document to supersede does not exist.
            UsageError: There is no text, a field has a bad value, or an agent stores a secret.
        """
        from plait.text.normal_form import composed
        from plait.writing.documents import new_document
        from plait.writing.observations import store_note, store_observation

        document = new_document(
            text,
            key=key,
            title=title,
            path=path,
            project=self.config.project,
            memory_type=memory_type,
            type=type,
            tags=tags,
            metadata=metadata,
            summary=summary,
            origin=origin,
            trust=trust,
            session=session,
            importance=importance,
            pinned=pinned,
            event_at=moment(event_at),
            entity=entity,
            topic=topic,
            supersedes=None if supersedes is None else self._named(supersedes, "read")[0].id,
            valid_from=moment(valid_from),
        )
        writer = self._begin(allow_secret=allow_secret)
        if document.kind == "observation":
            stored = store_observation(writer, document, entity and composed(clean(entity)))
        else:
            stored = store_note(writer, document)
        self._follow_embedder(writer)
        return stored

    def store_many(
        self, documents: Iterable[Document], *, allow_secret: bool = False
    ) -> list[Stored]:
        """Store many documents, each replacing the one with its key; one transaction per batch.

        Documents without a project get this memory's. Pasted answers are left out, and secrets
        refused, as by `store`.

        Raises:
            UsageError: A document is refused; those of earlier batches are stored.
        """
        from plait.writing.observations import store_many

        writer = self._begin(allow_secret=allow_secret)
        stored = store_many(writer, documents)
        self._follow_embedder(writer)
        self._required().tidy()
        return stored

    def ingest(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        patterns: Sequence[str] = (),
        incremental: bool = False,
        allow_removal: bool = False,
        progress: Progress | None = None,
    ) -> IngestReport:
        """Index a file or a folder; the files themselves are never changed.

        Args:
            path: What to read; the setting ``memory_dir`` by default.
            patterns: Which files of a folder count, as in ``*.md``.
            incremental: Skip indexed files whose size and modification time are unchanged.
            allow_removal: Forget missing files even if nearly all of the folder, or it, is gone.
            progress: Called with the number of files done, the total, and the last file's path.

        Raises:
            SourceError: There is no such file or folder.
        """
        from plait.writing.folder import ingest, walk_known

        settings = self.config.settings
        place = path if path is not None else settings.memory_dir
        if place is None:
            raise UsageError(
                "There is no folder to ingest.", code="no_source", advice=advise("give_source")
            )
        own = self._own_files(place)
        writer = self._begin(own and own.cut)
        walk = walk_known(
            writer.store,
            place,
            patterns=tuple(patterns) or (own and own.patterns) or settings.patterns,
            max_bytes=self._max_bytes,
            allow_removal=allow_removal,
        )
        report = ingest(
            writer,
            walk,
            incremental=incremental,
            keep_project=not self._project_is_chosen,
            allow_removal=allow_removal,
            progress=progress,
            embedder_for=lambda state: self._embedder_for(writer.store, state),
        )
        if report.trouble is None:
            self._follow_embedder(writer)
        self._flush()
        return report

    def used(self, refs: Sequence[Ref]) -> None:
        """Count passages as read together; recorded later, and never while others write."""
        self._reads.read(refs)

    def write_down_use(self, least: int = 1) -> None:
        """Record what was read, if that many answers wait; call it after an answer was given.

        Also caches the vectors of new queries. Otherwise this happens at `close`, and automatically
        after some reads.
        """
        if self._reads.unwritten >= least:
            self._flush()

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
        """Return the passages that match a query, best first, with a receipt.

        Args:
            query: Words, a question, or an expression with quotes, AND, OR, NOT, NEAR and ``*``.
            limit: How many hits, 1 to 1000.
            mode: ``hybrid``, ``keyword`` (``fts``) or ``vector`` (``vec``).
            min_score: Minimum `relevance` of a hit, 0 to 1.
            window: Neighbouring passages to add on each side, 0 to 5.
            best_per_document: Return only the best passage of each document.
            explain: Give every hit its reasons.
            fusion: ``weighted``, ``rrf`` or ``max``.
            keyword_weight: Weight of the keyword branch; 0 switches it off.
            vector_weight: Weight of the vector branch; 0 switches it off.
            where: Which documents count: a `Filter`, or its fields by name.
            all_projects: Search all projects, not only the current one and personal documents.

        Raises:
            UsageError: The query is empty or a value is out of range.
        """
        settings = self.config.settings
        # subtle: one weight given here is completed to 1; the settings' other one is ignored.
        if keyword_weight is None and vector_weight is None:
            keyword_weight, vector_weight = settings.keyword_weight, settings.vector_weight
        fusion = fusion or settings.fusion
        request = Request(
            text=query,
            limit=settings.limit if limit is None else limit,
            mode=check_choice("mode", MODE_ALIASES.get(mode, mode), MODES),
            where=self._filter(where, all_projects=all_projects),
            fusion=check_choice("fusion", FUSION_ALIASES.get(fusion, fusion), FUSIONS),
            keyword_weight=keyword_weight,
            vector_weight=vector_weight,
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
            search.check(request)
            return Answer((), Receipt(query=query, mode_asked=request.mode, mode_used="keyword"))
        state = self._store.state()
        embedder = self._embedder_for(self._store, state)
        answer = search.search(self._store, embedder, request, state)
        if settings.signals_count == "listed":
            self._reads.read([hit.passage.ref for hit in answer])
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
    ) -> Recalled:
        """Return what the memory knows about a query, as one text for a model's prompt.

        It contains the best hits whole, with the text around them, as far as the budget allows. The
        text is fenced, so that an agent cannot store it again.

        Args:
            query: As for `search`.
            limit: How many hits at most, 1 to 50.
            budget_tokens: Maximum size of the text; 1,500 by default.
            min_score: Minimum `relevance` of a hit; 0.25 if neither this nor the setting is given.
            where: Which documents count: a `Filter`, or its fields by name.
            all_projects: Search all projects, not only the current one and personal documents.

        Raises:
            UsageError: The query is empty or a value is out of range.
        """
        from plait.searching import recall

        budget = recall.check_budget(limit, budget_tokens)
        floor = self.config.settings.min_score if min_score is None else min_score
        if min_score is None and self.config.origins.get("min_score", "default") == "default":
            floor = recall.RECALL_FLOOR
        answer = self.search(
            query, limit=limit, min_score=floor, where=where, all_projects=all_projects
        )
        around = []
        for hit in answer:
            ordinal = hit.passage.ordinal
            around.append(
                self._required().passages(
                    hit.document.id, ordinal - recall.AROUND, ordinal + recall.AROUND
                )
            )
        recalled = recall.recall(answer, around, budget)
        self.used(recalled.refs)
        return recalled

    def get(self, name: str) -> Document | Passage:
        """Return a document or a passage, whole, by id, unique id prefix, key or chunk_id.

        Raises:
            NotFound: Nothing has that name.
            AmbiguousId: Several documents have it; the message lists them.
        """
        document, passage = self.lookup(name)
        return document if passage is None else passage

    def lookup(self, name: str) -> tuple[Document, Passage | None]:
        """Return the whole document that a name refers to, and the passage if it names one.

        Raises:
            NotFound: Nothing has that name.
            AmbiguousId: Several documents have it; the message lists them.
        """
        named, troubles = self.lookup_many([name])
        for trouble in troubles.values():
            raise trouble
        return named[0]

    def lookup_many(
        self, names: Sequence[str]
    ) -> tuple[list[tuple[Document, Passage | None]], dict[str, NotFound | AmbiguousId]]:
        """Return whole documents and named passages at once, and why other names failed.

        Counts as one read.
        """
        from plait.searching.names import load_named

        if self._store is None:
            return [], {name: self._no_memory(name) for name in names}
        named, troubles = load_named(self._store, names, self.config.project)
        refs: list[Ref] = []
        for document, passage in named:
            if passage is not None:
                refs.append(passage.ref)
            elif document.chunk_count <= READ_AS_ONE:
                refs += [part.ref for part in self.passages_of(document.id)]
        self.used(refs)
        return named, troubles

    def successors(self, documents: Iterable[Document]) -> dict[str, str]:
        """Return, for documents that have ended, the ids of those that replaced them."""
        ended = [document.id for document in documents if document.valid_to is not None]
        return self._required().successors(ended) if ended else {}

    def secrets(self, documents: Iterable[Document]) -> dict[str, tuple[str, ...]]:
        """Return, for documents that hold secrets, their kinds; never the values."""
        from plait.writing.held_secrets import held_secrets

        return {} if self._store is None else held_secrets(self._store, documents)

    def passages_of(self, id_: str) -> list[Passage]:
        """Return all passages of a document, in order."""
        return self._required().passages(id_)

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
        damaged: list[str] | None = None,
    ) -> list[Document]:
        """Return documents without their text, newest event first; entities only if asked for.

        Args:
            limit: How many, 1 to 1000.
            before: Where the last page ended: ``(event_at, id)`` of its last document.
            anchor: Return this document and its nearest neighbours in time instead.
            older: How many neighbours before the anchor, 0 to 1000.
            newer: How many after it.
            where: Which documents count; ``since`` and ``until`` take dates and ages like ``7d``.
            all_projects: Search all projects, not only the current one and personal documents.
            damaged: Gets the ids of documents that cannot be read, instead of an error.
        """
        from plait.searching import timeline

        check_range("limit", limit, 1, search.MAX_LIMIT)
        check_range("older", older, 0, search.MAX_LIMIT)
        check_range("newer", newer, 0, search.MAX_LIMIT)
        if self._store is None and anchor is None:
            return []
        wanted = timeline.happenings(self._filter(where, all_projects=all_projects))
        if anchor is None:
            documents = self._required().scan(wanted, limit=limit, before=before, damaged=damaged)
        else:
            middle, _ = self._named(anchor, "everything" if all_projects else "anchor")
            documents = timeline.around(self._required(), middle, wanted, older=older, newer=newer)
        return timeline.outlined(self._required(), documents, damaged)

    # -- taking out ------------------------------------------------------------------------

    def delete(
        self,
        *names: str,
        where: Filter | Where | None = None,
        purge: bool = False,
        dry_run: bool = False,
        all_projects: bool = False,
    ) -> Deleted:
        """Delete documents by id, key or filter; undo within 30 days unless ``purge``.

        A filter selects documents of this project only, and personal ones only outside of any
        project, unless it names ``projects``. With ``all_projects`` names and filters reach the
        documents of every project.

        Raises:
            NotFound: One of the names is unknown; nothing is deleted.
            UsageError: Neither a name nor a filter was given.
        """
        from plait.searching.names import as_stored
        from plait.writing import deleting

        if bool(names) == narrows(where):
            raise UsageError(
                "Name the documents to delete, or give a filter, but not both.",
                code="nothing_to_delete",
                advice=advise("choose_documents"),
            )
        store = self._required()
        if names:
            reach: Reach = "everything" if all_projects else "change"
            stored = [as_stored(store, name) for name in names]
            doomed = deleting.resolve_doomed(
                store, stored, self.config.project, purge=purge, reach=reach
            )
        else:
            # Searching sees personal documents too; what is not asked for is not deleted.
            here = {} if all_projects else {"projects": (self.config.project,)}
            wanted = self._filter({**here, **widened(where)}, all_projects=all_projects)
            doomed = {row.id: row for row in store.scan(wanted)}
        if dry_run:
            return deleting.forecast(store, doomed)
        deleted = deleting.delete(store, list(doomed), purge=purge, home=self.config.project or "")
        if any(row.parent is not None for row in doomed.values()):
            self._begin().backfill.catch_up()  # the profiles of their entities have changed
        return deleted

    def undo(self, *names: str) -> list[Document]:
        """Restore what the latest delete or ingest in this project removed, or the named documents.

        A document whose name a newer one has taken stays in the trash; the earlier version of a
        note that was replaced changes places with the present one.

        Raises:
            NotFound: No such document was deleted here in the last 30 days.
        """
        from plait.writing.undoing import undo_named

        back = undo_named(self._required(), names, self.config.project)
        self._begin().backfill.catch_up()
        return back
