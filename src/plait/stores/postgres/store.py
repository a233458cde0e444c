"""The PostgreSQL store: `plait.protocols.Store` on one namespace of a database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING

from plait.protocols import (
    Candidate,
    Nearest,
    Replies,
    Scored,
    State,
    Transaction,
    Trashed,
    Unembedded,
    Vector,
)
from plait.stores import refuse_to_write
from plait.stores.postgres import candidates, documents, keyword, vectors
from plait.stores.postgres.address import parse
from plait.stores.postgres.ahead import Ahead
from plait.stores.postgres.connection import Channel, Connections
from plait.stores.postgres.filters import Conditions, conditions
from plait.stores.postgres.hnsw import Indexes
from plait.stores.postgres.labels import Membership, only_reads
from plait.stores.postgres.schema import prepare
from plait.stores.postgres.shared import SharedStore
from plait.stores.postgres.state import answering, get_fact, read_state
from plait.stores.sqlite import analysis, fileless
from plait.stores.sqlite.documents import passage_hash
from plait.stores.sqlite.state import CHANGED_AT
from plait.text import beginnings
from plait.times import LAST_MOMENT
from plait.types import Document, Filter, Passage, Ref, Space
from plait.types.queries import Chance, Query, Spelling, Terms, Turn, Vocabulary
from plait.types.relations import Relation
from plait.types.visibility import wanted_visibility

if TYPE_CHECKING:
    from plait.stores.postgres.hnsw import VectorIndex
    from plait.types.audit import AuditEntry, AuditQuery
    from plait.types.reports import DocumentUsage, Finding, Stats
    from plait.types.steps import StepName, StepTaken
    from plait.types.visibility import MemberRole, TeamMember

_EMBEDDED = (
    "SELECT p.hash FROM plait.passages AS p WHERE p.ns = %(ns)s AND p.document = %(document)s "
    "AND NOT EXISTS (SELECT 1 FROM plait.unembedded AS u WHERE u.ns = %(ns)s "
    "AND u.generation = %(generation)s AND u.ref = p.ref)"
)


def _now() -> int:
    return time.time_ns() // 1_000_000


class PostgresStore(SharedStore):
    """One memory in one database; safe from several threads, processes and machines."""

    analyzer = analysis.ANALYZER

    def __init__(
        self,
        address: str,
        *,
        create: bool = True,
        timeout: float = 30.0,
        durability: str = "full",
        clock: Callable[[], int] = _now,
        read_only: bool = False,
    ) -> None:
        place = parse(address)
        self.path = place.shown
        self._read_only = read_only
        self._clock = clock
        self.indexes = Indexes()
        self.familiar: set[str] = set()  # see `plait.stores.postgres.ahead`
        self._asked = local()  # what a thread reads ahead
        self._connections = Connections(place, timeout=timeout, durability=durability)
        try:
            self.has_vectors = self._connections.repeated(
                lambda: prepare(
                    self._connections, place.namespace, create=create, read_only=read_only
                )
            )
        except BaseException:
            self._connections.close()
            raise

    def _where(self, where: Filter, *, searching: bool = False) -> Conditions:
        return conditions(where, self._clock(), searching=searching)

    # -- the memory as a whole -------------------------------------------------------------

    def state(self) -> State:
        """Return the state of the memory."""
        present = self._connections.read(
            lambda session: read_state(session, self.analyzer, has_vectors=self.has_vectors)
        )
        self.indexes.passages = present.passages
        return present

    @contextmanager
    def transaction(self, *, patient: bool = True) -> Iterator[Transaction]:
        """Begin a write transaction; it is committed at its end, or not at all."""
        from plait.stores.moving import refuse_half_moved
        from plait.stores.postgres.transaction import PostgresTransaction

        self._refuse_if_read_only()
        with self._connections.writing(patient=patient) as session:
            if session.moving is not None:
                refuse_half_moved(session.moving)
            transaction = PostgresTransaction(
                session, self.analyzer, now=self._clock(), has_vectors=self.has_vectors
            )
            yield transaction
            transaction.finish()

    def _refuse_if_read_only(self) -> None:
        if self._read_only:
            refuse_to_write(self.path)
        if self.membership.role == "reader":
            present = self._connections.recognise()
            if present.role == "reader":
                raise only_reads(present.name, self.path)

    @property
    def read_only(self) -> bool:
        """Whether nothing may be written, at least as this member."""
        return self._read_only or self.membership.role == "reader"

    @property
    def membership(self) -> Membership:
        """What the role of the database that this store uses is in the memory."""
        return self._connections.membership

    # -- searching -------------------------------------------------------------------------

    @property
    def ahead(self) -> Ahead:
        """What a search reads together, in fewer trips than one after the other."""
        asked: Ahead | None = getattr(self._asked, "ahead", None)
        return asked or Ahead(self, self._connections, self._where, self._clock)

    def ask(self, ahead: Ahead | None) -> Ahead | None:
        """Let all searches of this thread be those of one question; return the one before."""
        before: Ahead | None = getattr(self._asked, "ahead", None)
        self._asked.ahead = ahead
        return before

    def keyword(
        self, query: Query, limit: int, where: Filter, *, deadline: float | None = None
    ) -> list[Scored]:
        """Return the best passages by BM25, higher is better."""
        if not query.words and query.expression is None:
            return []

        def best(session: Channel) -> list[Scored]:
            session.deadline = deadline
            return keyword.best(session, query, limit, self._where(where, searching=True))

        return self._connections.read(best)

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
        if not self.has_vectors:
            return Nearest([], {})

        def search(session: Channel) -> Nearest:
            chosen = self._where(where, searching=True)
            index = None if latest else self._index_of(session, space)
            if index is not None:
                from plait.stores.postgres import hnsw

                near = hnsw.nearest(session, index, vector, space, limit, chosen, also)
                if near.hits or not limit:
                    return near
                self.indexes.forget()  # its vectors may have been replaced since
                chosen = self._where(where, searching=True)
            compare = vectors.latest if latest else vectors.nearest
            return compare(session, vector, space, limit, chosen, also)

        return self._connections.read(search)

    def _index_of(self, session: Channel, space: Space) -> VectorIndex | None:
        return self.indexes.of(session, space) if self.indexes.may_serve else None

    def vocabulary(
        self,
        words: Iterable[str],
        where: Filter | None = None,
        *,
        prefixes: Iterable[str] = (),
        seen_by: Filter | None = None,
    ) -> Vocabulary:
        """Return the terms of some words, and how many passages, all or some, contain each."""
        tokens = {word: analysis.tokens(fileless.connection(), word) for word in words}
        starts = beginnings(tokens, prefixes)

        def counted(session: Channel) -> Vocabulary:
            own, seen = (
                None if chosen is None else self._where(chosen, searching=True)
                for chosen in (where, seen_by)
            )
            return keyword.vocabulary(session, tokens, starts, own, seen)

        return self._connections.read(counted)

    def alike(self, words: Iterable[str], where: Filter) -> dict[str, list[Spelling]]:
        """Return the words of visible passages that are spelt like these, nearest first."""
        from plait.stores import spelling
        from plait.stores.postgres.spelling import Index

        listed = list(words)
        chosen = self._where(where, searching=True)

        def spelt(session: Channel) -> dict[str, list[Spelling]]:
            index = Index(session.together, chosen)
            spellings = spelling.alike(index, listed)
            return spellings if index.any_seen else {}

        return self._connections.read(spelt)

    # -- reading ---------------------------------------------------------------------------

    def turns(self, refs: Sequence[Ref]) -> dict[Ref, Turn]:
        """Return the places in a conversation of those passages that are whole messages."""
        return self._connections.read(lambda session: documents.turns(session, refs))

    def replies(self, asked: Sequence[Ref], where: Filter) -> Replies:
        """Return what follows each of these questions, if it is a whole message and visible."""
        asking = candidates.replying(asked, self._where(where))
        return self._connections.read(lambda session: candidates.replied(session.rows(*asking)))

    def hydrate(
        self, refs: Sequence[Ref], *, ranking: bool = False, terms: Terms = None
    ) -> dict[Ref, Candidate]:
        """Read passages with their documents; with ``ranking`` all that ranking needs."""
        asked = candidates.hydrating(refs, self._clock(), ranking=ranking)
        answers = self._connections.read(lambda session: session.together(*asked))
        return candidates.hydrated(answers, ranking=ranking, terms=terms)

    def passages(self, document: str, first: int = 0, last: int | None = None) -> list[Passage]:
        """Return passages of one document by ordinal."""
        return self._connections.read(
            lambda session: documents.passages(session, document, first, last)
        )

    def known(self, wanted: Sequence[Document]) -> list[Document | None]:
        """Return for each document the stored one that it would replace."""
        existing = self._connections.read(
            lambda session: [self._existing(session, document) for document in wanted]
        )
        return [None if pair is None else pair[1] for pair in existing]

    def _existing(self, session: Channel, document: Document) -> tuple[int, Document] | None:
        near = session.membership.near(wanted_visibility(), document.project)
        return documents.find_existing(session, document, near)

    def embedded(self, document: Document, passages: Sequence[Passage]) -> frozenset[int]:
        """Return the ordinals of passages that would keep their vector in this document."""

        def hashes(session: Channel) -> set[bytes]:
            existing = self._existing(session, document)
            if existing is None or existing[1].title != document.title:
                return set()
            current = answering(session)
            if current is None:
                return set()
            values = {"document": existing[0], "generation": current.id}
            return {mark for (mark,) in session.rows(_EMBEDDED, values)}

        marks = self._connections.read(hashes)
        return frozenset(
            place
            for place, passage in enumerate(passages)
            if passage_hash(passage.heading, passage.text) in marks
        )

    def find(self, name: str, where: Filter) -> list[tuple[Document, Passage | None]]:
        """Return documents and passages by id, key, chunk_id or id prefix."""
        return self._connections.read(
            lambda session: documents.find(session, name, self._where(where))
        )

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents, text included, in the order asked for."""
        return self._connections.read(lambda session: documents.load(session, ids))

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
        return self._connections.read(
            lambda session: documents.scan(
                session,
                self._where(where),
                limit,
                before=before,
                after=after,
                by_writing=by_writing,
                by_turn=by_turn,
                whole=whole,
            )
        )

    def steps(
        self, where: Filter, named: StepName | None = None, limit: int | None = None
    ) -> list[StepTaken]:
        """Return steps of documents that pass a filter, newest first."""
        from plait.stores.postgres import steps

        return self._connections.read(
            lambda session: steps.find(session, self._where(where), named, limit)
        )

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the id of the successor of each of these documents."""
        return self._connections.read(lambda session: documents.successors(session, ids))

    def relations(
        self, ids: Sequence[str] | None, where: Filter, *, damaged: list[str] | None = None
    ) -> list[Relation]:
        """Return edges with at least one end among these entities, or all; oldest first."""
        from plait.stores.postgres import relations

        def listed(session: Channel) -> list[Relation]:
            now = self._clock()
            changed = get_fact(session, CHANGED_AT)
            moment = now if changed is None else max(now, min(LAST_MOMENT, int(changed)))
            return relations.listed(session, ids, where, moment)

        return self._connections.read(listed)

    def trashed(self, *, texts: bool = True, distrusted: int | None = None) -> list[Trashed]:
        """Return what can be restored, the latest delete first; without ``texts``: no passages."""
        from plait.stores.postgres import trash

        if distrusted is not None:
            return self._connections.read(lambda session: trash.distrusted(session, distrusted))
        return self._connections.read(lambda session: trash.listed(session, texts=texts))

    def pending(
        self, space: Space, limit: int, *, building: bool, project: str | None = None
    ) -> list[Unembedded]:
        """Return passages without a vector in this space, of all projects or of one."""
        from plait.stores.postgres import generations

        return self._connections.read(
            lambda session: generations.pending(
                session, space, limit, building=building, project=project
            )
        )

    def cached(self, names: Sequence[str]) -> dict[str, Vector]:
        """Return vectors that were made before, by the name of their text."""
        from plait.stores.postgres import cache

        return self._connections.read(lambda session: cache.find(session, names))

    def remembered(self, prefix: str) -> dict[str, str]:
        """Return the values of `remember` whose names begin with this prefix."""
        from plait.stores.postgres import histories

        return self._connections.read(lambda session: histories.find(session, prefix))

    def audit(self, wanted: AuditQuery, limit: int) -> list[AuditEntry]:
        """Return entries of the audit log, the newest first."""
        from plait.stores.postgres import audit

        return self._connections.read(lambda session: audit.find(session, wanted, limit))

    # -- maintenance -----------------------------------------------------------------------

    def sample_chance(self, space: Space, foreign: Sequence[Vector]) -> None:
        """Sample what chance finds among the current vectors."""
        from plait.stores.postgres.state import set_chance

        self._refuse_if_read_only()
        if not self.has_vectors or not self.membership.is_administrator:
            return  # of what one member sees, the sample would be another one
        cosines = self._connections.read(
            lambda session: vectors.best_cosines(session, foreign, space)
        )
        if cosines:
            passages = self.state().passages
            with self._connections.writing(patient=False) as session:
                set_chance(session, Chance.of(cosines, passages), space)

    def tidy(
        self, *, keywords: bool = False, compact: bool = False, purged: bool = False
    ) -> tuple[str, ...]:
        """Tidy up after many writes; the server itself returns what was deleted to its pages."""
        from plait.stores.postgres import tidying

        self._refuse_if_read_only()
        if not self.membership.is_administrator:
            # The server counts by itself, and the administrator clears its pages.
            return tidying.left_by_purge(self.path) if purged else ()
        # A reindex tidies the keywords before it has new vectors, and all at its end.
        indexes = self.indexes if self.has_vectors and not (keywords or purged) else None
        return tidying.tidy(
            self._connections, compact=compact or purged, purged=purged, indexes=indexes
        )

    def stats(self, where: Filter | None = None) -> Stats:
        """Return counts and sizes; with a filter, counts of the documents that pass it."""
        from plait.stores.postgres.counting import stats

        chosen = None if where is None else self._where(where)
        return self._connections.read(lambda session: stats(session, self.path, chosen))

    def usage(self, where: Filter) -> dict[str, DocumentUsage]:
        """Return the sizes of documents that pass a filter, and how they were read, by id."""
        from plait.stores.postgres.counting import usage

        return self._connections.read(lambda session: usage(session, self._where(where)))

    def check(self, *, fix: bool = False) -> list[Finding]:
        """Check the memory; with ``fix``, repair what can be made again."""
        from plait.stores.postgres.doctor import examine
        from plait.types.reports import Finding

        if fix:
            self._refuse_if_read_only()
        if not self.membership.is_administrator:
            return [Finding("rows", "ok", "only the administrator can check those of all members")]
        return examine(self._connections, has_vectors=self.has_vectors, fix=fix)

    # -- people ----------------------------------------------------------------------------

    def team(self) -> list[TeamMember]:
        """Return the members of the memory."""
        from plait.stores.postgres import teams

        return self._connections.read(teams.members)

    def admit(self, name: str, role: MemberRole | None, projects: Sequence[str]) -> TeamMember:
        """Make a role of the server a member, or change what it is."""
        from plait.stores.postgres import teams

        self._refuse_if_read_only()
        return teams.admit(self._connections, name, role, projects, self._clock)

    def change_role(self, name: str, role: MemberRole) -> TeamMember:
        """Give a member another role."""
        from plait.stores.postgres import teams

        self._refuse_if_read_only()
        return teams.change_role(self._connections, name, role, self._clock)

    def dismiss(self, name: str) -> TeamMember:
        """End a membership."""
        from plait.stores.postgres import teams

        self._refuse_if_read_only()
        return teams.dismiss(self._connections, name, self._clock)

    def close(self) -> None:
        """Release every connection."""
        self._connections.close()
