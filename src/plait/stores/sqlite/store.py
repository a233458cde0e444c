"""The SQLite store: what `plait.protocols.Store` promises, in one file."""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import apsw

from plait import text as words
from plait.errors import StoreBusy, StoreError
from plait.protocols import Entry, Pending, Scored, Token, Uses, Vector, Written
from plait.stores.sqlite import (
    cache,
    filters,
    generations,
    keywords,
    reading,
    schema,
    terms,
    writing,
)
from plait.stores.sqlite.connection import Connections, Guard, Transaction, checkpoint
from plait.stores.sqlite.rows import passage_hash, rows
from plait.stores.sqlite.searching import Planner, Searcher
from plait.types import (
    Deleted,
    Document,
    Filter,
    Finding,
    Passage,
    Query,
    Ref,
    Relation,
    Space,
    Stats,
)

PURGE_PAUSE_S = 0.02

_EMBEDDED_HASHES = (
    "SELECT p.hash FROM passages AS p WHERE p.document = ? AND NOT EXISTS "
    "(SELECT 1 FROM unembedded AS u WHERE u.generation = ? AND u.passage = p.rowid)"
)


def _now() -> int:
    return time.time_ns() // 1_000_000


class SQLiteStore:
    """One memory in one file; safe from several threads and several processes."""

    analyzer = f"{schema.ANALYZER}; split {words.VERSION}"

    def __init__(
        self,
        path: str,
        *,
        create: bool = True,
        timeout: float = 30.0,
        durability: str = "full",
        vfs: str | None = None,
        clock: Callable[[], int] = _now,
    ) -> None:
        self.path = path if path == ":memory:" else os.path.abspath(path)
        self._clock = clock
        self._connections = Connections(
            self.path, create=create, timeout=timeout, durability=durability, vfs=vfs
        )
        self._guard = Guard(self._connections)
        self._searcher = Searcher()
        with self._guard:
            self._mend_lost_keywords()

    @property
    def planner(self) -> Planner:
        """When the plan for large memories is used: by size, ``always`` or ``never``."""
        return self._searcher.planner

    @planner.setter
    def planner(self, choice: Planner) -> None:
        self._searcher.planner = choice

    def _conditions(self, connection: apsw.Connection, where: Filter) -> list[filters.Clause]:
        return filters.clauses(connection, where, self._clock())

    def _search_conditions(
        self, connection: apsw.Connection, where: Filter
    ) -> list[filters.Clause]:
        """Those, and no profile that its observations contradict by now."""
        conditions = self._conditions(connection, where)
        return conditions + filters.of_fresh_profiles(connection, self._clock())

    # -- writing ---------------------------------------------------------------------------

    def put(self, entries: Sequence[Entry], *, turn: int | None = None) -> list[Written]:
        """Write documents whole, all of them in one transaction."""
        from plait.stores.sqlite.facts import FactWriter

        with self._guard, Transaction(self._connections) as connection:
            writer = FactWriter(connection, entries, now=self._clock())
            written = writer.put_all(entries)
            if turn is not None:
                writer.advance(turn)
            writer.finish()
        return written

    def delete(self, ids: Sequence[str], *, purge: bool = False, undoable: bool = True) -> Deleted:
        """Remove documents and their index entries; keep a trash row unless ``purge``.

        Without ``undoable`` what was removed comes back only by its id. A purge also empties the
        trash of these ids, and reports what lay there alone. Entities take along what belongs to
        them.
        """
        from plait.stores.sqlite import trash
        from plait.stores.sqlite.facts import FactWriter

        now = self._clock()
        with self._guard, Transaction(self._connections) as connection:
            ids = reading.with_observations(connection, ids)
            doomed = reading.load(connection, ids)
            gone = [document for _, document in doomed]
            if not purge:
                trash.keep(connection, doomed, now, undoable=undoable)
            writer = FactWriter(connection, now=now)
            chunks = sum(writer.delete(rowid) for rowid, _ in doomed)
            writer.finish()
            if purge:
                known = {document.id for document in gone}
                cache.forget(connection)
                older = [row for row in trash.forget(connection, ids) if row.id not in known]
                gone += older
                chunks += sum(document.chunk_count for document in older)
            trash.expire(connection, now)
        if purge:
            self._scrub()
        return Deleted(
            tuple(document.doc_id for document in gone),
            tuple(document.id for document in gone),
            chunks,
            purged=purge,
        )

    def trashed(self) -> list[tuple[str, int, Document]]:
        """What can be brought back: (batch, deleted_at, document), newest first."""
        from plait.stores.sqlite import trash

        with self._guard:
            return trash.listed(self._connections.get())

    def trashed_as(self, name: str) -> list[str]:
        """Ids of deleted documents that a name stands for."""
        from plait.stores.sqlite import trash

        with self._guard:
            return trash.ids_of(self._connections.get(), name)

    def restore(self, ids: Sequence[str] = ()) -> list[Document]:
        """Bring documents back from the trash; without ids, those of the latest delete."""
        from plait.stores.sqlite import trash

        with self._guard, Transaction(self._connections) as connection:
            return trash.bring_back(connection, ids, self._clock())

    def latest_turn(self) -> int | None:
        """When one fact last took the place of another; the present is never before that."""
        found = self.meta(filters.LATEST_TURN)
        return None if found is None else int(found)

    def relate(self, relations: Sequence[Relation], project: str | None) -> list[bool]:
        """Join entities of one project; whether each edge is new."""
        from plait.stores.sqlite import relations as edges

        with self._guard, Transaction(self._connections) as connection:
            return edges.add(connection, relations, project, self._clock())

    def unrelate(
        self, relations: Sequence[Relation], project: str | None, *, end: int | None = None
    ) -> int:
        """Remove current edges, or end them at a moment; how many there were."""
        from plait.stores.sqlite import relations as edges

        with self._guard, Transaction(self._connections) as connection:
            return edges.remove(connection, relations, project, end, self._clock())

    def touch(self, answers: Sequence[Sequence[Ref]]) -> None:
        """Count passages as read, unless the memory is busy or read-only."""
        from plait.stores.sqlite import signals

        with (
            suppress(StoreError),
            self._guard,
            Transaction(self._connections, patient=False) as connection,
        ):
            signals.count(connection, answers, self._clock())

    def _scrub(self) -> None:
        """Leave no byte of what was purged: the journal is emptied once nobody reads it."""
        if self._connections.in_memory:
            return
        patience = time.monotonic() + self._connections.timeout
        with self._guard:
            connection = self._connections.get()
            # Under load others hold the checkpoint lock most of the time, and nobody queues for it.
            while not checkpoint(connection, "TRUNCATE"):
                if time.monotonic() > patience:
                    raise StoreBusy(
                        f"The documents are gone from {self.path}, but their bytes remain in its "
                        "journal, which another process reads. Close it and run: plait doctor --fix"
                    )
                time.sleep(PURGE_PAUSE_S)

    # -- searching -------------------------------------------------------------------------

    def keyword(
        self, query: Query, limit: int, where: Filter, *, deadline: float | None = None
    ) -> list[Scored]:
        """Best passages by BM25, higher is better."""
        if not query.words and query.expression is None:
            return []
        with self._guard:
            connection = self._connections.get()
            with connection:  # One snapshot: what a filter may leave out must still hold.
                conditions = self._search_conditions(connection, where)
                found = self._searcher.keyword(connection, query, limit, conditions, deadline)
        return found

    def vector(self, vector: Vector, space: Space, limit: int, where: Filter) -> list[Scored]:
        """Nearest passages by cosine, exact, among vectors of this space only."""
        with self._guard:
            connection = self._connections.get()
            with connection:
                conditions = self._search_conditions(connection, where)
                found = self._searcher.nearest(connection, vector, space, limit, conditions)
        return found

    def cosines(self, vector: Vector, space: Space, refs: Sequence[Ref]) -> dict[Ref, float]:
        """Cosine for these passages; those without a vector are absent."""
        with self._guard:
            return self._searcher.cosines(self._connections.get(), vector, space, refs)

    def tokens(self, text: str) -> list[Token]:
        """The terms a text is indexed under, with their places in characters."""
        with self._guard:
            return terms.tokens(self._connections.get(), text)

    def frequencies(self, terms_: Iterable[str]) -> tuple[int, dict[str, int]]:
        """Number of passages in all, and how many hold each term."""
        with self._guard:
            connection = self._connections.get()
            return terms.passage_count(connection), terms.frequencies(connection, set(terms_))

    # -- reading ---------------------------------------------------------------------------

    def passages(self, refs: Sequence[Ref]) -> dict[Ref, tuple[Passage, Document]]:
        """Passages with their documents (without the documents' text), in one query."""
        with self._guard:
            return reading.hydrate(self._connections.get(), refs)

    def sessions(self, refs: Sequence[Ref]) -> dict[Ref, str]:
        """The session of each of these passages that is a whole message of one."""
        if not refs:
            return {}
        with self._guard:
            return reading.sessions(self._connections.get(), refs)

    def neighbours(self, document: str, ordinal: int, window: int) -> list[Passage]:
        """Passages of one document around an ordinal."""
        with self._guard:
            connection = self._connections.get()
            return reading.neighbours(connection, document, ordinal - window, ordinal + window)

    def find(self, name: str, where: Filter) -> list[tuple[Document, Passage | None]]:
        """Documents and passages named by id, key, chunk_id or a prefix of an id."""
        with self._guard:
            connection = self._connections.get()
            with connection:
                found = reading.find(connection, name, self._conditions(connection, where))
        return found

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Whole documents, text included, in the order asked for."""
        with self._guard:
            loaded = reading.load(self._connections.get(), ids)
        found = {document.id: document for _, document in loaded}
        return [found[id_] for id_ in ids if id_ in found]

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """What took the place of each of these documents, by id."""
        with self._guard:
            found = reading.successors(self._connections.get(), ids)
        return found

    def scan(
        self,
        where: Filter,
        *,
        limit: int | None = None,
        before: tuple[int, str] | None = None,
        after: tuple[int, str] | None = None,
    ) -> list[Document]:
        """Documents without text, newest event first, or what followed ``after``, oldest first."""
        with self._guard:
            connection = self._connections.get()
            with connection:
                conditions = self._conditions(connection, where)
                if before is not None:
                    conditions.append(("(d.event_at, d.id) < (?, ?)", list(before)))
                if after is not None:
                    conditions.append(("(d.event_at, d.id) > (?, ?)", list(after)))
                found = reading.by_event(connection, conditions, limit, upwards=after is not None)
        return found

    def in_order(self, where: Filter, *, whole: bool = True) -> list[Document]:
        """Documents in the order in which they were first written, text included if ``whole``."""
        with self._guard:
            connection = self._connections.get()
            with connection:
                conditions = self._conditions(connection, where)
                found = reading.in_order(connection, conditions, whole=whole)
        return found

    def relations(self, ids: Sequence[str] | None, where: Filter) -> list[Relation]:
        """Edges with at least one end among these entities, or all; oldest first."""
        from plait.stores.sqlite import relations as edges

        with self._guard:
            connection = self._connections.get()
            now = filters.present_moment(connection, self._clock())
            return edges.listed(connection, ids, where, now)

    def uses(self, refs: Sequence[Ref]) -> Uses:
        """How these passages were used so far; nothing at all where none ever was."""
        with self._guard:
            connection = self._connections.get()
            if not connection.execute("SELECT 1 FROM signals LIMIT 1").get:
                return Uses({}, {})
            from plait.stores.sqlite import signals

            return signals.uses(connection, refs, self._clock())

    def known(
        self, document: Document, passages: Sequence[Passage] = ()
    ) -> tuple[Document | None, frozenset[int]]:
        """The document that ``put`` would replace, and which of the passages have their vector."""
        with self._guard:
            connection = self._connections.get()
            existing = writing.find_existing(connection, document)
            if existing is None:
                return None, frozenset()
            rowid, old = existing
            current = generations.current(connection)
            if current is None or not passages or old.title != document.title:
                return old, frozenset()
            marks = {mark for (mark,) in rows(connection, _EMBEDDED_HASHES, (rowid, current.id))}
        return old, frozenset(
            place
            for place, passage in enumerate(passages)
            if passage_hash(passage.heading, passage.text) in marks
        )

    # -- vectors behind the text -----------------------------------------------------------

    def space(self) -> Space | None:
        """The space whose vectors answer searches."""
        with self._guard:
            current = generations.current(self._connections.get())
        return None if current is None else Space(*json.loads(current.space))

    def begin(
        self,
        space: Space,
        *,
        anew: bool = False,
        sample: Vector | None = None,
        resume: bool = True,
    ) -> bool:
        """Make sure a generation for this space is there to be filled; true when it is current."""
        with self._guard, Transaction(self._connections) as connection:
            begun = generations.begin(connection, space, anew=anew, sample=sample, resume=resume)
        return bool(begun.current)

    def pending_count(self) -> int:
        """How many passages wait for a vector in the current generation."""
        with self._guard:
            return generations.waiting(self._connections.get())

    def pending(
        self, space: Space, after: Ref, limit: int, *, answering: bool = False
    ) -> list[Pending]:
        """Passages without a vector in the generation of this space, in order of ref."""
        with self._guard:
            connection = self._connections.get()
            return generations.pending(connection, space, after, limit, answering=answering)

    def fill(
        self,
        space: Space,
        vectors: Sequence[tuple[Ref, Vector | None]],
        *,
        upto: Ref | None = None,
        answering: bool = False,
    ) -> int:
        """Write vectors for passages that still exist; ``None`` marks one as keyword-only."""
        with self._guard, Transaction(self._connections) as connection:
            return generations.fill(connection, space, vectors, upto, answering=answering)

    def swap(self, space: Space) -> bool:
        """Make this space's generation current if it has seen every passage; drop the others."""
        with self._guard, Transaction(self._connections) as connection:
            return generations.swap(connection, space)

    def cached(self, names: Sequence[str]) -> dict[str, Vector]:
        """Vectors that were made before, by the name of their text."""
        with self._guard:
            return cache.find(self._connections.get(), names)

    def cache(self, vectors: Mapping[str, Vector], used: Iterable[str], most: int) -> None:
        """Keep vectors for texts that come again, unless the memory is busy or read-only."""
        with (
            suppress(StoreError),
            self._guard,
            Transaction(self._connections, patient=False) as connection,
        ):
            cache.keep(connection, vectors, used, most, self._clock())

    def marked(self, space: Space, *, building: bool = False) -> Vector | None:
        """The sample vector kept with the vectors of a space."""
        with self._guard:
            return generations.sample(self._connections.get(), space, building=building)

    # -- the memory as a whole -------------------------------------------------------------

    def rebuild_keywords(self, *, force: bool = False) -> int:
        """Rebuild the keyword index from the passages in one transaction; their number.

        From `plait.stores.sqlite.keywords.REBUILT_PASSAGES` on, where writers would wait for
        seconds, only when it is unreadable, out of step or made by another analyzer, or ``force``.
        """
        with self._guard:
            connection = self._connections.get()
            if not force and not keywords.needs_rebuild(connection, self.analyzer):
                return terms.passage_count(connection)
            with Transaction(self._connections):
                return keywords.rebuild(connection)

    def _mend_lost_keywords(self) -> None:
        """Make the keyword index anew where it is lost or holds other passages than the memory."""
        connection = self._connections.get()
        if keywords.in_step(connection):
            return
        try:
            with Transaction(self._connections):
                if not keywords.in_step(connection):  # another process may have been quicker
                    keywords.rebuild(connection)
        except apsw.ReadOnlyError:
            return  # what the index still finds is more than a memory that does not open

    def settle(self) -> None:
        """After bulk writing: count common terms afresh if the memory grew, shorten the journal."""
        with self._guard:
            connection = self._connections.get()
            if terms.outgrown(connection):
                with Transaction(self._connections):
                    terms.tidy(connection)
            if self._connections.wrote and not self._connections.in_memory:
                checkpoint(connection, "PASSIVE")

    def meta(self, name: str) -> str | None:
        """A fact about the memory."""
        with self._guard:
            return terms.get_meta(self._connections.get(), name)

    def set_meta(self, name: str, value: str) -> None:
        """Remember a fact about the memory."""
        if self.meta(name) != value:
            with self._guard, Transaction(self._connections) as connection:
                terms.set_meta(connection, name, value)

    def newest(self) -> int | None:
        """When a document was last indexed."""
        with self._guard:
            value = self._connections.get().execute("SELECT max(indexed_at) FROM documents").get
        return None if value is None else int(value)

    def stats(self) -> Stats:
        """Counts and sizes."""
        with self._guard:
            return reading.stats(self._connections.get(), self.path)

    def check(self, *, fix: bool = False) -> list[Finding]:
        """Look the store over; with ``fix``, mend what can be mended."""
        from plait.stores.sqlite.care import examine

        with self._guard:
            return examine(
                self._connections,
                lambda: self.rebuild_keywords(force=True),
                now=self._clock(),
                fix=fix,
            )

    def backup(self, target: str) -> None:
        """Write a consistent copy, readable by its owner only, safe under load."""
        from plait.stores.sqlite.care import copy_to

        with self._guard:
            copy_to(self._connections, target)

    def compact(self) -> None:
        """Give free pages back to the file system."""
        with self._guard:
            connection = self._connections.get()
            with Transaction(self._connections):
                connection.execute("INSERT INTO passages_fts (passages_fts) VALUES ('optimize')")
            connection.execute("VACUUM")
            if not self._connections.in_memory:
                checkpoint(connection, "TRUNCATE")

    def close(self) -> None:
        """Release every connection."""
        with self._guard:
            self._connections.close()
