"""`Memory`: the facade people import, one method per verb.

Each method delegates: what a verb does belongs in `plait.searching`, `plait.writing`,
`plait.graph` and `plait.exporting`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from plait.errors import AmbiguousId, NotFound, Notice, PlaitError, UsageError, advise
from plait.memory.opening import MEMORY_OFF, named_embedder
from plait.memory.settling import SettlingMemory
from plait.searching import search
from plait.searching.scoring import Request
from plait.searching.where import Where
from plait.settings.loading import changed
from plait.settings.schema import OF_SEARCH, Origins
from plait.text import clean
from plait.types import (
    FUSION_ALIASES,
    FUSIONS,
    MODES,
    Answer,
    Document,
    Filter,
    FusionName,
    ModeName,
    Passage,
    Project,
    Receipt,
    Ref,
    check_choice,
    check_range,
)
from plait.types.guarding import guarded
from plait.types.ids import AGENT_FIELD

if TYPE_CHECKING:
    from plait.memory.scoping import ScopedMemory
    from plait.searching.links import Links
    from plait.searching.recall import Recalled

__all__ = ["MODE_ALIASES", "Memory", "named_embedder"]

MODE_ALIASES = {"fts": "keyword", "vec": "vector"}
READ_AS_ONE = 10  # passages of a document: whoever reads all of it has read each of them


@guarded
class Memory(SettlingMemory):
    """A memory that several threads and several processes may use at once.

    >>> with Memory.open(":memory:") as memory:
    ...     stored = memory.store("We deploy on Fridays", tags=["ops"])
    ...     [hit.text for hit in memory.search("when do we deploy")]
    ['We deploy on Fridays']
    """

    def scope(self, name: str, *, shared: Sequence[Project] = ()) -> ScopedMemory:
        """Return this memory for one user: every verb is confined to what is stored through it.

        Ids, keys, entities and deleted documents of other users do not exist there, and nothing is
        shared unless you say so. Make one whenever you need it; it costs nothing and uses the same
        file. Its `erase` removes all of this user.

        Args:
            name: Any name of the user, such as ``user:7``. It is compared letter by letter.
            shared: Projects that are read too and never changed; ``None`` for personal documents.

        Raises:
            UsageError: The name is empty, or has spaces around it or invisible characters.
        """
        from plait.memory.scoping import ScopedMemory

        return ScopedMemory(self, name, shared)

    # -- finding ---------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        offset: int = 0,
        mode: ModeName = "hybrid",
        min_score: float | None = None,
        window: int = 0,
        best_per_document: bool = False,
        diverse: bool = False,
        strict: bool = False,
        explain: bool = False,
        fusion: FusionName | None = None,
        keyword_weight: float | None = None,
        vector_weight: float | None = None,
        where: Filter | Where | None = None,
        all_projects: bool = False,
    ) -> Answer:
        """Return the passages that match a query, best first, with a receipt.

        Args:
            query: Words, a question, or an expression with ``+"phrase"``, AND, OR, NOT, NEAR and
                ``*``; empty, or ``*`` alone, for the newest documents.
            limit: How many hits, 1 to 1000.
            offset: How many of the best hits to skip: the limit times the page, counted from 0.
                At most 1000 together with the limit.
            mode: ``hybrid``, ``keyword`` (``fts``) or ``vector`` (``vec``).
            min_score: Minimum `relevance` of a hit, 0 to 1.
            window: Neighbouring passages to add on each side, 0 to 5.
            best_per_document: Return only the best passage of each document.
            diverse: Fold copies, and prefer hits that say something new; facts keep their places.
            strict: Require every quoted phrase, and return only what the operators match.
            explain: Give every hit its reasons.
            fusion: ``weighted``, ``rrf`` or ``max``.
            keyword_weight: Weight of the keyword branch; 0 switches it off.
            vector_weight: Weight of the vector branch; 0 switches it off.
            where: Which documents count: a `Filter`, or its fields by name.
            all_projects: Search all projects, not only the current one and personal documents.

        Raises:
            UsageError: A value is out of range.
        """
        request, origins = self._request(query, min_score, strict=strict), self.config.origins
        # subtle: one weight given here is completed to 1; the settings' other one is ignored.
        if keyword_weight is not None or vector_weight is not None:
            given = {"keyword_weight": keyword_weight, "vector_weight": vector_weight}
            called = {name: "this call" for name, weight in given.items() if weight is not None}
            origins = {**origins, **dict.fromkeys(given, "default"), **called}
            request = request._replace(keyword_weight=keyword_weight, vector_weight=vector_weight)
        merge: str = fusion or request.fusion
        request = request._replace(
            limit=request.limit if limit is None else limit,
            offset=offset,
            mode=check_choice("mode", MODE_ALIASES.get(mode, mode), MODES),
            fusion=check_choice("fusion", FUSION_ALIASES.get(merge, merge), FUSIONS),
            window=window,
            best_per_document=best_per_document,
            diverse=diverse,
            explain=explain,
        )
        with self._one_question():
            wanted = self._read_filter(where, all_projects=all_projects, asked=request)
            return self._with_changes(self._answer(request._replace(where=wanted), origins))

    def _request(self, query: str, min_score: float | None, *, strict: bool) -> Request:
        """Return a search with the values of the settings."""
        settings = self.config.settings
        return Request(
            text=query,
            limit=settings.limit,
            strict=strict,
            fusion=settings.fusion,
            keyword_weight=settings.keyword_weight,
            vector_weight=settings.vector_weight,
            min_score=settings.min_score if min_score is None else min_score,
            floor=settings.floor,
            expansion_factor=settings.expansion_factor,
            rrf_k=settings.rrf_k,
            limbic=settings.limbic_constants or () if settings.limbic else None,
        )

    def _answer(self, request: Request, origins: Origins) -> Answer:
        if self._store is None:
            search.check(request)
            receipt = Receipt(query=request.text, mode_asked=request.mode, mode_used="keyword")
            return Answer((), receipt._replace(degraded=(MEMORY_OFF,) if self.is_off else ()))
        store = self._store
        answer = search.search(store, lambda state: self._embedder_for(store, state), request)
        if changed(origins, OF_SEARCH):
            answer = self._noting_ignored(answer, request, origins)
        if self.config.settings.signals_count == "listed":
            self._reads.read([hit.passage.ref for hit in answer])
        return answer

    def _read_filter(
        self, where: Filter | Where | None, *, all_projects: bool, asked: Request | None = None
    ) -> Filter:
        """Return the caller's filter; documents of users are read only where they are named."""
        wanted = self._filter(where, all_projects=all_projects, asked=asked)
        return wanted if wanted.projects else wanted._replace(scopes=False)

    def _with_changes(self, answer: Answer) -> Answer:
        """Return an answer of which imported messages tell which of their files changed since."""
        if self._store is None or not any(AGENT_FIELD in hit.document.metadata for hit in answer):
            return answer
        from plait.memory.changes import marked

        return marked(self._store, answer, self.config.project)

    def _noting_ignored(self, answer: Answer, request: Request, origins: Origins) -> Answer:
        from plait.searching.branches import VECTOR_CANDIDATES
        from plait.settings.effects import without_effect_on_search

        used = answer.receipt.mode_used
        ignored = without_effect_on_search(
            self.config.settings,
            origins,
            fusion=request.fusion,
            mode=request.mode,
            branch=None if used == "hybrid" else used,
            weights=(request.keyword_weight, request.vector_weight),
            candidates=request.limit * request.expansion_factor,
            fewest=VECTOR_CANDIDATES,
        )
        return Answer(answer.hits, answer.receipt._replace(ignored=tuple(ignored)))

    def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        budget_tokens: int | None = None,
        min_score: float | None = None,
        strict: bool = False,
        where: Filter | Where | None = None,
        all_projects: bool = False,
    ) -> Recalled:
        """Return what the memory knows about a query, as one text for a model's prompt.

        It contains the best hits whole, with the text around them, as far as the budget allows.
        Pinned documents come first, in at most a quarter of it. The text is fenced, so that an
        agent cannot store it again. An opening question ("where were we") gets the `overview`.

        Args:
            query: As for `search`.
            limit: How many hits at most, 1 to 50.
            budget_tokens: Maximum size of the text; 1,500 by default.
            min_score: Minimum `relevance` of a hit; without this and the setting, no weak ones.
            strict: As for `search`.
            where: Which documents count: a `Filter`, or its fields by name.
            all_projects: Search all projects, not only the current one and personal documents.

        Raises:
            UsageError: The query is empty or a value is out of range.
        """
        from plait.searching import recall
        from plait.searching.beside import expect_pinned, one_question, with_beside
        from plait.searching.diversity import without_copies
        from plait.searching.openings import at_its_time, is_opening

        if not query.strip():
            raise UsageError("The query is empty.", code="empty_query", advice=advise("give_topic"))
        budget = recall.check_budget(limit, budget_tokens)
        if not strict and is_opening(query):
            timed = at_its_time(where, query)
            overview = self.overview(budget_tokens=budget, where=timed, all_projects=all_projects)
            if overview.items or overview.left_out or timed is where:
                return overview  # else a text may tell of that time
        is_default = self.config.origins.get("min_score", "default") == "default"
        request = self._request(query, min_score, strict=strict)
        most_wanted = (limit, 2 * limit, 8 * limit)  # others take the places of copies
        with one_question(self._store, most_wanted) as ahead:
            # subtle: read once; a moment before 1973 that is read again is another one.
            wanted = self._read_filter(where, all_projects=all_projects, asked=request)
            expect_pinned(ahead, wanted)
            for most in most_wanted:
                asked = request._replace(limit=most, where=wanted)
                answer = self._answer(asked, self.config.origins)
                # Only among the best: in a large memory, some passage is always near.
                answer = recall.without_weak(answer) if min_score is None and is_default else answer
                distinct = without_copies(answer)
                if len(distinct) >= limit or len(distinct) == len(answer):
                    break
            answer = Answer(distinct[:limit], answer.receipt)
            hits, around, earlier = with_beside(self._store, ahead, answer, wanted, budget)
            hits = self._with_changes(hits)
        recalled = recall.recall(hits, around, budget, self.config.project, earlier)
        self.used(recalled.refs)
        return recalled

    def overview(
        self,
        *,
        budget_tokens: int | None = None,
        where: Filter | Where | None = None,
        all_projects: bool = False,
    ) -> Recalled:
        """Return what to know at the beginning of a session, one line each, as one fenced text.

        Pinned documents and ``MEMORY.md``, preferences, the latest decisions (else facts), what was
        last worked on, and open ends. Nothing counts as read.

        Args:
            budget_tokens: Maximum size of the text; 1,500 by default.
            where: Which documents count: a `Filter`, or its fields by name.
            all_projects: All projects, not only the current one and personal documents.
        """
        from plait.searching import overview, overview_lines, recall

        budget = recall.check_budget(1, budget_tokens)
        wanted = self._read_filter(where, all_projects=all_projects)
        if self._store is None:
            return overview_lines.nothing(budget, (MEMORY_OFF,) if self.is_off else ())
        return overview.overview(self._store, wanted, budget, self.config.project)

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
        self, names: Sequence[str], *, conversations: bool = False
    ) -> tuple[list[tuple[Document, Passage | None]], dict[str, PlaitError]]:
        """Return whole documents and named passages at once, and why other names failed.

        A name fails with `NotFound`, `AmbiguousId` or `StoreDamaged`. Counts as one read. With
        ``conversations``, a name that no document has may be that of a session: its messages
        follow in their order, uncounted, and those that cannot be read fail under their ids.
        """
        from plait.searching.conversations import why_unknown
        from plait.searching.names import load_named
        from plait.searching.readable import damaged_document

        if self._store is None:
            return [], {name: self._no_memory(name) for name in names}
        project, reach = self.config.project, self._reach("read")
        named, troubles = load_named(self._store, names, project, reach, exactly=conversations)
        talks: list[tuple[Document, Passage | None]] = []
        for name in [*troubles] if conversations else ():
            if not isinstance(troubles[name], NotFound):
                continue
            del troubles[name]
            damaged: list[str] = []
            try:
                messages = self.conversation(name, damaged=damaged)
            except AmbiguousId as ambiguous:
                troubles[name] = ambiguous
                continue
            talks += [(message, None) for message in messages]
            troubles |= {id_: damaged_document(id_) for id_ in damaged}
            if not (messages or damaged):
                # Only now: whoever wrote a note chose its aliases, and must not hide a session.
                known, unknown = load_named(self._store, [name], project, reach)
                named += known
                for one, error in unknown.items():
                    troubles[one] = why_unknown(self._store, one, error)
        refs: list[Ref] = []
        for document, passage in named:
            if passage is not None:
                refs.append(passage.ref)
            elif document.chunk_count <= READ_AS_ONE:
                refs += [part.ref for part in self.passages_of(document.id)]
        self.used(refs)
        return [*named, *talks], troubles

    def conversation(
        self, session: str, *, last: int | None = None, damaged: list[str] | None = None
    ) -> list[Document]:
        """Return the messages of a session, whole, in their order; of an unknown one, none.

        Args:
            session: Its name. If this project has none of that name, the personal one counts.
            last: Return only so many messages at its end.
            damaged: Gets the ids of messages that cannot be read, instead of an error.
        """
        from plait.searching import conversations

        if last is not None:
            check_range("last", last, 1, sys.maxsize)
        if self._store is None or not session.strip():
            return []
        where = self._filter({"session": clean(session), "kinds": ("message",)})
        where = conversations.here(self._store, where, self._session_places)
        return conversations.conversation(self._store, where, last, damaged)

    def links(self, document: Document) -> Links:
        """Return the links of a document to others and those to it, in this project and personal.

        ``document`` is whole, as from `get`.
        """
        from plait.searching.links import Links, links_of

        if self._store is None or document.kind == "message":
            return Links()
        return links_of(self._store, document, self._filter(None))

    def successors(self, documents: Iterable[Document]) -> dict[str, str]:
        """Return, for documents that have ended, the ids of those that replaced them."""
        ended = [document.id for document in documents if document.valid_to is not None]
        return self._required().successors(ended) if ended else {}

    def earlier(self, documents: Iterable[Document]) -> dict[str, int]:
        """Return, for facts that replaced others, how many came before them, up to 20."""
        replacing = [document for document in documents if document.supersedes is not None]
        if not replacing:
            return {}
        from plait.facts.versions import count_earlier

        return count_earlier(self._required(), replacing)

    def secrets(self, documents: Iterable[Document]) -> dict[str, tuple[str, ...]]:
        """Return, for documents that hold secrets, their kinds; never the values."""
        from plait.writing.held_secrets import held_secrets

        return {} if self._store is None else held_secrets(self._store, documents)

    def unshown_facts(self, documents: Iterable[Document]) -> dict[str, Notice]:
        """Return, for entities whose profile does not show all facts, how many, and where they are.

        An entity's text is its profile, which has room for the most important facts only.
        """
        from plait.facts.profiles import unshown_notice

        notices = {}
        for document in documents:
            if document.kind == "entity":
                where = Filter(kinds=("observation",), parents=(document.id,))
                facts = self._required().scan(where, whole=True)
                if notice := unshown_notice(document, (fact.text for fact in facts)):
                    notices[document.id] = notice
        return notices

    def passages_of(self, id_: str) -> list[Passage]:
        """Return all passages of a document, in order."""
        return self._required().passages(clean(id_))

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

        With a ``session`` in ``where``, they come in the order of the session: its messages from
        the first one on, then what else was stored in it.

        Args:
            limit: How many, 1 to 1000.
            before: Where the last page ended: ``(event_at, id)`` of its last document, or the
                ``place`` of the last one of a session.
            anchor: Return this document and its nearest neighbours in time instead.
            older: How many neighbours before the anchor, 0 to 1000.
            newer: How many after it.
            where: Which documents count; ``since`` and ``until`` take dates and ages like ``7d``.
            all_projects: Search all projects, not only the current one and personal documents.
            damaged: Gets the ids of documents that cannot be read, instead of an error; an anchor
                whose place in time cannot be read is one.
        """
        from plait.searching import timeline

        check_range("limit", limit, 1, search.MAX_LIMIT)
        check_range("older", older, 0, search.MAX_LIMIT)
        check_range("newer", newer, 0, search.MAX_LIMIT)
        if self._store is None and anchor is None:
            return []
        store = self._required()
        wanted = timeline.happenings(self._read_filter(where, all_projects=all_projects))
        if wanted.session is not None:
            from plait.searching import conversations

            wanted = conversations.here(store, wanted, self._session_places)
        if anchor is None:
            documents = timeline.page(store, wanted, limit, before, damaged)
        else:
            middle, _ = self._named(anchor, "everything" if all_projects else "anchor")
            documents = timeline.around(
                store, middle, wanted, older=older, newer=newer, damaged=damaged
            )
        return timeline.outlined(store, documents, damaged)

    # -- use ---------------------------------------------------------------------------

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
