"""The SQLite store: `plait.protocols.Store` on one file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import apsw

from plait.errors import Notice, StoreBusy, StoreDamaged, StoreFull
from plait.protocols import (
    Candidate,
    Nearest,
    Replies,
    Scored,
    State,
    Trashed,
    Unembedded,
    Vector,
)
from plait.stores import Planner, refuse_to_write
from plait.stores.sqlite import analysis, documents, filters, keyword, state
from plait.stores.sqlite.connection import Connections, Guard, rows, that_read, translate
from plait.stores.sqlite.keyword import KeywordSearch
from plait.stores.sqlite.state import UNSCRUBBED, KnownState, answering, get_meta, refuse_if_moving
from plait.stores.sqlite.vectors import NearestVectors
from plait.text import beginnings
from plait.types import Document, Filter, Passage, Ref, Space
from plait.types.queries import Query, Spelling, Terms, Turn, Vocabulary

if TYPE_CHECKING:
    from plait.protocols import Transaction
    from plait.stores.sqlite.turns import KnownTurns
    from plait.types.audit import AuditEntry, AuditQuery
    from plait.types.relations import Relation
    from plait.types.reports import DocumentUsage, Finding, Stats
    from plait.types.steps import StepName, StepTaken


def _now() -> int:
    return time.time_ns() // 1_000_000


class SQLiteStore:
    """One memory in one file; safe from several threads and several processes."""

    analyzer = analysis.ANALYZER
    ahead = None  # a read is no trip
    acting = keyword.TRIGGERS + filters.TAG_TRIGGERS + analysis.INDEXING
    # Sizes from which the keyword index is tidied, and no longer rebuilt without need.
    tidied_passages = keyword.TIDY_PASSAGES
    rebuilt_passages = keyword.REBUILT_PASSAGES

    def __init__(
        self,
        path: str,
        *,
        create: bool = True,
        timeout: float = 30.0,
        durability: str = "full",
        vfs: str | None = None,
        clock: Callable[[], int] = _now,
        planner: Planner = "auto",
        read_only: bool = False,
        brief: bool = False,
    ) -> None:
        self.path = path if path == ":memory:" else os.path.abspath(path)
        self._clock = clock
        self.read_only = read_only
        options: dict[str, Any] = {"create": create, "timeout": timeout}
        options |= {"durability": durability, "vfs": vfs}
        kind = that_read() if read_only and path != ":memory:" else Connections
        self._connect: Callable[[], Connections] = partial(kind, self.path, **options)
        self.full: Notice | None = None  # why it can only be read, until there is room
        try:
            self._connections = self._connect()
        except StoreFull as error:
            from plait.stores.sqlite.reading import reading_instead

            self._connections, self.full = reading_instead(self.path, error, **options)
        self._guard = Guard(self._connections)
        self.selections = filters.Selections()
        self.keywords = KeywordSearch(self.selections)
        self.keywords.planner = planner
        self.vectors = NearestVectors(self.selections)
        self.vectors.blocks.keeps_first = not brief
        self._state = KnownState()
        self._searches = filters.KnownConditions()
        try:
            if not read_only and self.full is None:
                with self._guard:
                    self._repair_lost_keywords()
        except BaseException:  # Ctrl-C, too: nobody else would close them
            self._connections.close()
            raise

    def _conditions(self, connection: apsw.Connection, where: Filter) -> list[filters.Clause]:
        return filters.clauses(connection, where, self._clock())

    def _searched_for(self, connection: apsw.Connection, where: Filter) -> list[filters.Clause]:
        return self._searches.of(connection, where, self._clock())

    # -- the memory as a whole -------------------------------------------------------------

    def state(self) -> State:
        """Return the state of the memory."""
        with self._guard:
            present = self._state.of(self._connections.get(), self.analyzer, self.acting)
        return present if self.full is None else present._replace(full=self.full)

    @contextmanager
    def transaction(self, *, patient: bool = True) -> Iterator[Transaction]:
        """Begin a write transaction; it is committed at its end, or not at all."""
        from plait.stores.sqlite.foreign import refuse_altered_tables
        from plait.stores.sqlite.transaction import SQLiteTransaction
        from plait.stores.sqlite.write_lock import WriteLock

        self._refuse_if_read_only()
        guard = self._guard if patient else Guard(self._connections, patient=False)
        with guard, WriteLock(self._connections, patient=patient) as connection:
            refuse_altered_tables(connection, self.path)
            refuse_if_moving(connection)
            transaction = SQLiteTransaction(connection, self.analyzer, now=self._clock())
            yield transaction
            transaction.finish()

    def _refuse_if_read_only(self) -> None:
        if self.read_only:
            refuse_to_write(self.path)
        if self.full is not None:
            # subtle: other threads may still be reading by the old ones, which end with them.
            self._connections = self._connect()
            self._guard, self.full = Guard(self._connections), None

    # -- searching -------------------------------------------------------------------------

    def keyword(
        self, query: Query, limit: int, where: Filter, *, deadline: float | None = None
    ) -> list[Scored]:
        """Return the best passages by BM25, higher is better."""
        if not query.words and query.expression is None:
            return []
        # One snapshot: a condition is left out if no document fails it.
        with self._guard, self._connections.get() as connection:
            conditions = self._searched_for(connection, where)
            hits = self.keywords.best(connection, query, limit, conditions, deadline)
        return hits

    def vector(
        self,
        vector: Vector,
        space: Space,
        limit: int,
        where: Filter,
        *,
        also: Sequence[Ref] = (),
        latest: bool = False,
    ) -> Nearest:
        """Return the nearest passages by cosine among vectors of this space only."""
        with self._guard, self._connections.get() as connection:
            conditions = self._searched_for(connection, where)
            passages = keyword.passage_count(connection) if conditions else 0
            if latest:
                from plait.stores.sqlite import resembling

                parts = (connection, vector, space, limit, conditions, self.vectors)
                near = resembling.latest(*parts)
            else:
                near = self.vectors.nearest(connection, vector, space, limit, conditions, passages)
            others = self.vectors.cosines(connection, vector, space, {*also}, near)
            among = None if latest else self.selections.size(connection, conditions, passages)
        return near._replace(cosines=dict(near.hits) | others, among=among)

    def vocabulary(
        self,
        words: Iterable[str],
        where: Filter | None = None,
        *,
        prefixes: Iterable[str] = (),
        seen_by: Filter | None = None,
    ) -> Vocabulary:
        """Return the terms of some words, and how many passages, all or some, contain each."""
        with self._guard:
            connection = self._connections.get()
            tokens = {word: analysis.tokens(connection, word) for word in words}
            starts = beginnings(tokens, prefixes)
            try:
                with connection:
                    own = None if where is None else self._searched_for(connection, where)
                    counted = self.keywords.vocabulary(connection, tokens, starts, own)
                    if seen_by is None or not (few := counted.in_few()):
                        return counted
                    seen = self._searched_for(connection, seen_by)
                    unseen = self.keywords.unseen(connection, few, starts, seen)
                    return counted._replace(unseen=frozenset(unseen))
            except apsw.Error as error:
                if not isinstance(translate(error, self.path), StoreDamaged):
                    raise
            return Vocabulary(0, tokens, {})  # a damaged index cannot count, but still reads words

    def alike(self, words: Iterable[str], where: Filter) -> dict[str, list[Spelling]]:
        """Return the words of visible passages that are spelt like these, nearest first."""
        from plait.stores.sqlite import spelling

        with self._guard, self._connections.get() as connection:
            conditions = self._searched_for(connection, where)
            similar = spelling.alike(connection, words, conditions, self.selections)
        return similar

    # -- reading ---------------------------------------------------------------------------

    @cached_property
    def _turns(self) -> KnownTurns:
        from plait.stores.sqlite.turns import KnownTurns

        return KnownTurns()

    def turns(self, refs: Sequence[Ref]) -> dict[Ref, Turn]:
        """Return the places in a conversation of those passages that are whole messages."""
        with self._guard:
            return self._turns.of(self._connections.get(), refs)

    def replies(self, asked: Sequence[Ref], where: Filter) -> Replies:
        """Return what follows each of these questions, if it is a whole message and visible."""
        with self._guard, self._connections.get() as connection:
            following = self._turns.replies(connection, asked, self._conditions(connection, where))
        return following

    def hydrate(
        self, refs: Sequence[Ref], *, ranking: bool = False, terms: Terms = None
    ) -> dict[Ref, Candidate]:
        """Read passages with their documents; with ``ranking`` all that ranking needs."""
        with self._guard:
            connection = self._connections.get()
            with connection:
                pairs = documents.hydrate(connection, refs)
                if not ranking:
                    return {ref: Candidate(*pair) for ref, pair in pairs.items()}
                uses = documents.uses(connection, refs, self._clock())
                ended = [row.id for _, row in pairs.values() if row.valid_to is not None]
                successors = documents.successors(connection, ended) if ended else {}
            return {
                ref: Candidate(
                    passage,
                    document,
                    analysis.tokens_among(connection, passage.text, terms),
                    analysis.name_terms(connection, passage, document, terms),
                    uses.get(ref),
                    successors.get(document.id),
                )
                for ref, (passage, document) in pairs.items()
            }

    def passages(self, document: str, first: int = 0, last: int | None = None) -> list[Passage]:
        """Return passages of one document by ordinal."""
        with self._guard:
            return documents.passages(self._connections.get(), document, first, last)

    def known(self, wanted: Sequence[Document]) -> list[Document | None]:
        """Return for each document the stored one that it would replace."""
        from plait.stores.sqlite import lookup

        with self._guard, self._connections.get() as connection:
            existing = lookup.find_all_existing(connection, wanted)
        return existing

    def embedded(self, document: Document, passages: Sequence[Passage]) -> frozenset[int]:
        """Return the ordinals of passages that would keep their vector in this document."""
        from plait.stores.sqlite import lookup

        with self._guard, self._connections.get() as connection:
            existing = lookup.find_existing(connection, document)
            current = None if existing is None else answering(connection)
            if existing is None or current is None or existing[1].title != document.title:
                return frozenset()
            values = (existing[0], current.id)
            hashes = {mark for (mark,) in rows(connection, documents.EMBEDDED_HASHES, values)}
        return frozenset(
            place
            for place, passage in enumerate(passages)
            if documents.passage_hash(passage.heading, passage.text) in hashes
        )

    def find(self, name: str, where: Filter) -> list[tuple[Document, Passage | None]]:
        """Return documents and passages by id, key, chunk_id or id prefix."""
        from plait.stores.sqlite import lookup

        with self._guard, self._connections.get() as connection:
            named = lookup.find(connection, name, self._conditions(connection, where))
        return named

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents, text included, in the order asked for."""
        from plait.stores.sqlite import scanning

        with self._guard:
            loaded = scanning.load(self._connections.get(), ids)
        whole = {document.id: document for _, document in loaded}
        return [whole[id_] for id_ in ids if id_ in whole]

    def scan(
        self,
        where: Filter,
        *,
        limit: int | None = None,
        before: tuple[int, str] | None = None,
        after: tuple[int, str] | None = None,
        by_writing: bool = False,
        by_turn: bool = False,
        whole: bool = False,
        damaged: list[str] | None = None,
    ) -> list[Document]:
        """Return documents, newest event first, by their place in a session, or as written."""
        from plait.stores.sqlite import scanning

        order = scanning.order_of(before, after, by_turn=by_turn, by_writing=by_writing)
        with self._guard, self._connections.get() as connection:
            conditions = self._conditions(connection, where)
            conditions += scanning.between(before, after, by_turn=by_turn)
            listed = scanning.scan(connection, conditions, order, limit, damaged, whole=whole)
        return listed

    def steps(
        self, where: Filter, named: StepName | None = None, limit: int | None = None
    ) -> list[StepTaken]:
        """Return steps of documents that pass a filter, newest first."""
        from plait.stores.sqlite import steps

        with self._guard, self._connections.get() as connection:
            listed = steps.find(connection, self._conditions(connection, where), named, limit)
        return listed

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the id of the successor of each of these documents."""
        with self._guard:
            return documents.successors(self._connections.get(), ids)

    def relations(
        self, ids: Sequence[str] | None, where: Filter, *, damaged: list[str] | None = None
    ) -> list[Relation]:
        """Return edges with at least one end among these entities, or all; oldest first."""
        from plait.stores.sqlite import relations

        with self._guard:
            connection = self._connections.get()
            now = filters.present_moment(connection, self._clock())
            return relations.listed(connection, ids, where, now, damaged)

    def trashed(self, *, texts: bool = True, distrusted: int | None = None) -> list[Trashed]:
        """Return what can be restored, the latest delete first; without ``texts``: no passages."""
        from plait.stores.sqlite import trash

        with self._guard:
            connection = self._connections.get()
            if distrusted is not None:
                return trash.distrusted(connection, distrusted)
            return trash.listed(connection, texts=texts)

    def pending(
        self, space: Space, limit: int, *, building: bool, project: str | None = None
    ) -> list[Unembedded]:
        """Return passages without a vector in this space, of all projects or of one."""
        from plait.stores.sqlite import generations

        with self._guard:
            connection = self._connections.get()
            return generations.pending(connection, space, limit, building=building, project=project)

    def cached(self, names: Sequence[str]) -> dict[str, Vector]:
        """Return vectors that were made before, by the name of their text."""
        from plait.stores.sqlite import cache

        with self._guard:
            return cache.find(self._connections.get(), names)

    def remembered(self, prefix: str) -> dict[str, str]:
        """Return the values of `remember` whose names begin with this prefix."""
        from plait.stores.sqlite import histories

        with self._guard:
            return histories.find(self._connections.get(), prefix)

    def audit(self, wanted: AuditQuery, limit: int) -> list[AuditEntry]:
        """Return entries of the audit log, the newest first."""
        from plait.stores.sqlite import audit

        with self._guard:
            return audit.find(self._connections.get(), wanted, limit)

    # -- maintenance -----------------------------------------------------------------------

    def sample_chance(self, space: Space, foreign: Sequence[Vector]) -> None:
        """Sample what chance finds; the journal of the write before it stays as it is."""
        from plait.stores.sqlite import generations

        self._refuse_if_read_only()
        with self._guard:
            generations.sample_chance(self._connections, self.vectors, space, foreign)

    def tidy(
        self, *, keywords: bool = False, compact: bool = False, purged: bool = False
    ) -> tuple[str, ...]:
        """Tidy up after many writes; see the protocol for the options."""
        from plait.stores.sqlite import rebuilding, signs
        from plait.stores.sqlite.write_lock import WriteLock

        self._refuse_if_read_only()
        with self._guard:
            if keywords:
                self._rebuild_keywords(force=False)
            if compact:
                rebuilding.compact(self._connections)
            if purged:
                # Nothing else: whoever waits for a purge waits for the bytes to be gone.
                return rebuilding.scrub(self._connections)
            connection = self._connections.get()
            if rebuilding.outgrown(connection, self.tidied_passages):
                rebuilding.merge_large(self._connections)
                with WriteLock(self._connections) as connection:
                    rebuilding.tidy(connection, self.keywords.passages)
            signs.make(self._connections)
            if get_meta(connection, UNSCRUBBED) is not None:
                with suppress(StoreBusy):  # not what the caller waits for
                    rebuilding.scrub(self._connections, patience=0.0)
            if self._connections.wrote and not self._connections.in_memory:
                from plait.stores.sqlite.connection import checkpoint
                from plait.stores.sqlite.replaced import current

                checkpoint(current(self._connections), "PASSIVE")
        return ()

    def _rebuild_keywords(self, *, force: bool) -> int:
        from plait.stores.sqlite import rebuilding

        parts = (self._connections, self.analyzer, self.rebuilt_passages)
        return rebuilding.rebuild_where_needed(*parts, force=force)

    def _repair_lost_keywords(self) -> None:
        """Rebuild the keyword index if it is lost or lists other passages than the memory has."""
        connection = self._connections.get()
        try:
            state.refuse_foreign_objects(connection, self.acting)
            # A `meta` without this row is another table's page, and the terms' may be `meta`'s.
            if keyword.is_complete(connection) or not keyword.is_counted(connection):
                return
            from plait.stores.sqlite import rebuilding

            rebuilding.rebuild_lost(self._connections)
        except (apsw.ReadOnlyError, apsw.CorruptError, apsw.SQLError, UnicodeDecodeError):
            return  # an index with gaps is better than a memory that does not open

    def stats(self, where: Filter | None = None) -> Stats:
        """Return counts and sizes; with a filter, counts of the documents that pass it."""
        from plait.stores.sqlite.counting import stats

        with self._guard:
            connection = self._connections.get()
            conditions = None if where is None else self._conditions(connection, where)
            return stats(connection, self.path, conditions)

    def usage(self, where: Filter) -> dict[str, DocumentUsage]:
        """Return the sizes of documents that pass a filter, and how they were read, by id."""
        from plait.stores.sqlite.counting import usage

        with self._guard:
            connection = self._connections.get()
            return usage(connection, self._conditions(connection, where))

    def check(self, *, fix: bool = False) -> list[Finding]:
        """Check the file; with ``fix``, repair what can be repaired."""
        from plait.stores.sqlite.doctor import examine

        self._refuse_if_read_only()  # SQLite's own checks are statements that may write
        with self._guard:
            return examine(self._connections, lambda: self._rebuild_keywords(force=True), fix=fix)

    def backup(self, target: str) -> None:
        """Write a consistent copy, readable by its owner only, safe under load."""
        from plait.stores.sqlite.backup import copy_to

        with self._guard:
            copy_to(self._connections, target)

    def close(self) -> None:
        """Release every connection."""
        with Guard(self._connections, follows=False):
            self._connections.close()
