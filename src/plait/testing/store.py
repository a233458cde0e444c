"""`InMemoryStore`: the whole `Store` protocol over dictionaries, as a second engine for tests."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from threading import Lock, get_ident

from plait.errors import DeadlineExceeded, StoreBusy, StoreError
from plait.protocols import (
    Candidate,
    Nearest,
    Replies,
    Scored,
    State,
    Token,
    Transaction,
    Trashed,
    Unembedded,
    Vector,
)
from plait.stores.matching import bm25, compile_query
from plait.testing.audit import find as find_entries
from plait.testing.audit import record
from plait.testing.filters import check_values, is_valid, same
from plait.testing.hashing import cosine
from plait.testing.keyword import Analyze, holds, plain_words, unseen, with_parts
from plait.testing.tables import PLAIN_ANALYZER, Tables, checked, taken_steps
from plait.testing.transaction import InMemoryTransaction
from plait.text import beginnings, names_of
from plait.types import EVERYTHING, TRUSTS, Document, Filter, Passage, Ref, Space
from plait.types.audit import AuditEntry, AuditQuery
from plait.types.ids import ENTITY_SOURCE, ID_LENGTH, ID_PREFIX, SESSION_SOURCE
from plait.types.queries import Chance, Query, Spelling, Terms, Turn, Vocabulary
from plait.types.relations import Relation
from plait.types.reports import DocumentUsage, Finding, Stats
from plait.types.steps import StepName, StepTaken

_MOST_NAMESAKES = 20

_Named = tuple[Document, Passage | None]


def _now() -> int:
    return time.time_ns() // 1_000_000


class InMemoryStore:
    """A memory in dictionaries, for tests: small, not persistent, slow with many passages.

    Readers see the tables of the last transaction; a writer works on a copy of them.
    """

    analyzer = PLAIN_ANALYZER
    ahead = None  # a read is no trip

    def __init__(
        self,
        *,
        analyze: Analyze = plain_words,
        clock: Callable[[], int] = _now,
        timeout: float = 30.0,
    ) -> None:
        self._analyze = analyze
        self._clock = clock
        self._timeout = timeout
        self._latest = Tables()
        self._writing = Lock()
        self._writer: int | None = None
        self._closed = False

    @property
    def _tables(self) -> Tables:
        if self._closed:
            raise StoreError("The memory is closed. Open it again.", code="store_closed")
        return self._latest

    def state(self) -> State:
        """Return the state of the memory."""
        return self._tables.state()

    @contextmanager
    def transaction(self, *, patient: bool = True) -> Iterator[Transaction]:
        """Begin a write transaction; it is published at its end, or not at all."""
        if self._writer == get_ident():
            raise StoreError("This thread is inside a transaction already.")
        if not self._writing.acquire(timeout=self._timeout if patient else 0):
            raise StoreBusy("Another thread writes to the memory.")
        try:
            self._writer = get_ident()
            tables = self._tables.copy()
            transaction = InMemoryTransaction(tables, self._analyze, tables.state(), self._clock())
            yield transaction
            record(self._latest, tables, transaction.now)
            self._latest = tables
        finally:
            self._writer = None
            self._writing.release()

    # -- searching -------------------------------------------------------------------------

    def keyword(
        self, query: Query, limit: int, where: Filter, *, deadline: float | None = None
    ) -> list[Scored]:
        """Return the best passages by BM25, higher is better."""
        if not query.words and query.expression is None:
            return []
        tables = self._tables
        wanted = self._searchable(tables, where)
        compiled = compile_query(query, self._terms)
        words = sum(passage.length for passage in tables.index.values())
        scores = bm25(tables.index, compiled, count=len(tables.index), words=words)
        if deadline is not None and time.monotonic() > deadline:
            raise DeadlineExceeded("The query ran past its time limit.")
        hits = [(ref, score) for ref, score in scores.items() if tables.owners[ref] in wanted]
        return _best(tables, hits, limit)

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
        """Return the nearest passages by cosine, exact, among vectors of this space only."""
        tables = self._tables
        current = tables.current()
        if current is None or current.space != space:
            return Nearest([], {})
        wanted = self._searchable(tables, where)
        query = checked(vector, space)
        hits = [
            (ref, near)
            for ref, row in current.vectors.items()
            if tables.owners[ref] in wanted and (near := cosine(query, row)) > 0.0
        ]
        nearest = _best(tables, hits, limit)
        others = {
            ref: cosine(query, current.vectors[ref]) for ref in also if ref in current.vectors
        }
        among = sum(owner in wanted for owner in tables.owners.values())
        return Nearest(nearest, others | dict(nearest), among)

    def _terms(self, text: str) -> list[str]:
        return [term for _, _, term in self._analyze(text)]

    def _searchable(self, tables: Tables, where: Filter) -> set[str]:
        """Return the documents that pass a filter, less the profiles that are out of date."""
        check_values(where)
        moment = tables.present(self._clock())
        selected = {document.id for document in tables.selected(where, moment)}
        return selected - tables.out_of_date(moment)

    def vocabulary(
        self,
        words: Iterable[str],
        where: Filter | None = None,
        *,
        prefixes: Iterable[str] = (),
        seen_by: Filter | None = None,
    ) -> Vocabulary:
        """Return the terms of some words, and how many passages, all or some, contain each."""
        tables, index = self._tables, self._tables.index
        if where is not None:
            selected = {row.id for row in tables.selected(where, tables.present(self._clock()))}
            index = {ref: row for ref, row in index.items() if tables.owners[ref] in selected}
        tokens: dict[str, Sequence[Token]] = {word: self._analyze(word) for word in words}
        terms = {term for listed in tokens.values() for _, _, term in listed}
        holding = {
            term: sum(term in passage.places for passage in index.values()) for term in terms
        }
        begun: dict[str, str] = {}
        for word, start in beginnings(tokens, prefixes).items():
            stems = self._analyze(start)
            if len(tokens[word]) == len(stems) == 1:
                begun.setdefault(stems[0][2], tokens[word][0][2])
        for start, term in begun.items():
            holding[term] = sum(holds(passage, term, start) for passage in index.values())
        counted = Vocabulary(len(index), tokens, holding, begun)
        if seen_by is None:
            return counted
        visible = self._searchable(tables, seen_by)
        rows = [row for ref, row in tables.index.items() if tables.owners[ref] in visible]
        return counted._replace(unseen=unseen(counted, rows))

    def alike(self, words: Iterable[str], where: Filter) -> dict[str, list[Spelling]]:
        """Return the words of visible passages that are spelt like these, nearest first."""
        from plait.testing.keyword import alike

        tables = self._tables
        wanted = self._searchable(tables, where)
        refs = [ref for ref, owner in tables.owners.items() if owner in wanted]
        texts = {ref: tables.passages[ref].text for ref in refs}
        return alike(words, texts, self._analyze)

    # -- reading ---------------------------------------------------------------------------

    def turns(self, refs: Sequence[Ref]) -> dict[Ref, Turn]:
        """Return the places in a conversation of those passages that are whole messages."""
        return self._tables.turns(refs)

    def replies(self, asked: Sequence[Ref], where: Filter) -> Replies:
        """Return what follows each of these questions, if it is a whole message and visible."""
        return self._tables.replies(asked, where, self._tables.present(self._clock()))

    def hydrate(
        self, refs: Sequence[Ref], *, ranking: bool = False, terms: Terms = None
    ) -> dict[Ref, Candidate]:
        """Read passages with their documents; with ``ranking`` all that ranking needs."""
        tables = self._tables
        known = [ref for ref in dict.fromkeys(refs) if ref in tables.passages]
        if not ranking:
            return {
                ref: Candidate(tables.passages[ref], tables.documents[tables.owners[ref]])
                for ref in known
            }
        successors = tables.successors(tables.owners[ref] for ref in known)
        return {
            ref: Candidate(
                passage := tables.passages[ref],
                document := tables.documents[tables.owners[ref]],
                [
                    token
                    for token in with_parts(passage.text, self._analyze)
                    if terms is None or token[2] in terms
                ],
                self._name_terms(passage, document),
                tables.use_of(ref, known, self._clock()),
                successors.get(document.id),
            )
            for ref in known
        }

    def _name_terms(self, passage: Passage, document: Document) -> frozenset[str]:
        names = names_of(document, passage.ordinal)
        terms = with_parts(f"{names}\n{passage.heading}", self._analyze)
        return frozenset(term for _, _, term in terms)

    def passages(self, document: str, first: int = 0, last: int | None = None) -> list[Passage]:
        """Return passages of one document by ordinal."""
        return [
            passage
            for passage in self._tables.passages_of(document)
            if first <= passage.ordinal and (last is None or passage.ordinal <= last)
        ]

    def known(self, documents: Sequence[Document]) -> list[Document | None]:
        """Return for each document the stored one that it would replace."""
        tables = self._tables
        return [tables.known(document) for document in documents]

    def embedded(self, document: Document, passages: Sequence[Passage]) -> frozenset[int]:
        """Return the ordinals of passages that would keep their vector in this document."""
        tables = self._tables
        existing, current = tables.known(document), tables.current()
        if existing is None or current is None or existing.title != document.title:
            return frozenset()
        ready = {
            (passage.heading, passage.text)
            for passage in tables.passages_of(existing.id)
            if passage.ref in current.vectors
        }
        return frozenset(
            place
            for place, passage in enumerate(passages)
            if (passage.heading, passage.text) in ready
        )

    def find(self, name: str, where: Filter) -> list[_Named]:
        """Return documents and passages by id, key, chunk_id or id prefix."""
        check_values([name, where])
        tables = self._tables
        moment = tables.present(self._clock())
        selected = {row.id: row for row in tables.selected(where, moment)}
        if name in selected:
            return [(selected[name], None)]
        head, _, tail = name.rpartition("-")
        ordinal = int(tail) if tail.isascii() and tail.isdigit() and len(tail) < 10 else -1
        by_id: list[_Named] = []
        by_chunk: list[_Named] = []
        spoken: list[_Named] = []
        by_prefix: list[_Named] = []
        for ref, passage in tables.passages.items():
            document = selected.get(tables.owners[ref])
            if document is None:
                continue
            if passage.id == name:
                by_id.append((document, passage))
            elif passage.ordinal == ordinal and head in (document.id, document.key):
                (spoken if document.kind == "message" else by_chunk).append((document, passage))
            elif _begins(passage.id, name):
                by_prefix.append((document, passage))
        by_key = [row for row in selected.values() if row.key == name]
        begun = [row for row in selected.values() if _begins(row.id, name)]
        return (
            by_id
            or _named([row for row in by_key if row.kind != "message"])
            or by_chunk[:_MOST_NAMESAKES]
            or [*_named(begun), *by_prefix[:_MOST_NAMESAKES]]
            or _named(by_key)
            or spoken[:_MOST_NAMESAKES]
        )

    def load(self, ids: Sequence[str]) -> list[Document]:
        """Return whole documents, text included, in the order asked for."""
        return self._tables.load(ids)

    def steps(
        self, where: Filter, named: StepName | None = None, limit: int | None = None
    ) -> list[StepTaken]:
        """Return steps of documents that pass a filter, newest first."""
        tables = self._tables
        selected = tables.selected(where, tables.present(self._clock()))
        return taken_steps(selected, tables.steps, tables.places, named or StepName())[:limit]

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
        check_values([where])
        tables = self._tables
        place = attrgetter("place") if by_turn else _moment
        selected = [
            row
            for row in tables.selected(where, tables.present(self._clock()))
            if (before is None or place(row) < before) and (after is None or place(row) > after)
        ]
        if by_writing:
            selected.sort(key=lambda row: row.created_at)
        else:
            selected.sort(key=place, reverse=before is not None if by_turn else after is None)
        selected = selected[:limit]
        return tables.load([row.id for row in selected]) if whole else selected

    def successors(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the id of the successor of each of these documents."""
        return self._tables.successors(ids)

    def relations(
        self, ids: Sequence[str] | None, where: Filter, *, damaged: list[str] | None = None
    ) -> list[Relation]:
        """Return edges with at least one end among these entities, or all; oldest first."""
        tables = self._tables
        moment = tables.present(self._clock()) if where.as_of is None else where.as_of

        def is_wanted(edge: Relation) -> bool:
            ends = [tables.documents[edge.source_id], tables.documents[edge.target_id]]
            return (
                (ids is None or any(end.id in ids for end in ends))
                and (where.all_versions or is_valid(edge.valid_from, edge.valid_to, moment))
                and all(
                    not where.projects or same(end.project) in map(same, where.projects)
                    for end in ends
                )
                and all(end.trust in (where.trusts or TRUSTS) for end in ends)
            )

        return tables.named_edges(edge for edge in tables.edges.values() if is_wanted(edge))

    def trashed(self, *, texts: bool = True, distrusted: int | None = None) -> list[Trashed]:
        """Return what can be restored, the latest delete first; without ``texts``: no passages."""
        listed = self._tables.listed_trash(texts=texts)
        if distrusted is None:
            return listed
        kept: list[Trashed] = []
        for row in listed:
            if row.document.trust != "trusted" and distrusted > 0:
                kept.append(row)
                distrusted -= max(1, len(row.passages))
        return kept

    def pending(
        self, space: Space, limit: int, *, building: bool, project: str | None = None
    ) -> list[Unembedded]:
        """Return passages without a vector in this space, of all projects or of one."""
        tables = self._tables
        generation = tables.target(space, building=building)
        return [] if generation is None else tables.pending(generation, limit, project)

    def cached(self, names: Sequence[str]) -> dict[str, Vector]:
        """Return vectors that were made before, by the name of their text."""
        cache = self._tables.cache
        return {name: cache[name][1] for name in names if name in cache}

    def audit(self, wanted: AuditQuery, limit: int) -> list[AuditEntry]:
        """Return entries of the audit log, the newest first."""
        return find_entries(self._tables.audit, wanted, limit)

    def remembered(self, prefix: str) -> dict[str, str]:
        """Return the values of `remember` whose names begin with this prefix."""
        facts = self._tables.facts
        return {name: value for name, value in facts.items() if name.startswith(prefix)}

    # -- the memory as a whole -------------------------------------------------------------

    def sample_chance(self, space: Space, foreign: Sequence[Vector]) -> None:
        """Sample what chance finds."""
        tables = self._tables
        current = tables.current()
        if current is not None and current.vectors:
            rows = list(current.vectors.values())
            best = [max(cosine(checked(row, space), near) for near in rows) for row in foreign]
            chance = Chance.of(best, len(tables.owners))
            tables.facts["chance"] = json.dumps([*chance, *space])

    def tidy(
        self, *, keywords: bool = False, compact: bool = False, purged: bool = False
    ) -> tuple[str, ...]:
        """Drop the mark of a purge: there is no file."""
        self._tables.facts.pop("unscrubbed", None)
        return ()

    def stats(self, where: Filter | None = None) -> Stats:
        """Return counts; with a filter, of the documents that pass it."""
        tables = self._tables
        state, current = tables.state(), tables.current()
        wanted = EVERYTHING if where is None else where
        rows = list(tables.selected(wanted, tables.present(self._clock())))
        ids = {row.id for row in rows}
        refs = {ref for ref in tables.passages if tables.owners[ref] in ids}
        pending = [] if current is None else tables.pending(current, len(tables.passages))
        moments = [row.event_at or 0 for row in rows]
        return Stats(
            doc_count=len(rows),
            chunk_count=len(refs),
            embedded_count=0 if current is None else len(refs & current.vectors.keys()),
            pending_count=sum(row.ref in refs for row in pending),
            trash_count=len(tables.trash) if where is None else 0,
            path=":memory:",
            space=state.space,
            kinds=_tally([row.kind for row in rows]),
            projects=tuple(
                (name or None, count) for name, count in _tally([row.project or "" for row in rows])
            ),
            sources=_tally([row.source for row in rows if _is_place(row.source)]),
            first_event_at=min(moments, default=None),
            last_event_at=max(moments, default=None),
            indexed_at=max((row.indexed_at for row in rows), default=None),
        )

    def usage(self, where: Filter) -> dict[str, DocumentUsage]:
        """Return the sizes of documents that pass a filter, and how they were read, by id."""
        check_values([where])
        selected = self._tables.selected(where, self._tables.present(self._clock()))
        return self._tables.usage({row.id for row in selected})

    def check(self, *, fix: bool = False) -> list[Finding]:
        """Report no problems: nothing here can be damaged."""
        return [Finding("memory", "ok", f"{len(self._tables.documents)} documents in memory")]

    def close(self) -> None:
        """Drop everything."""
        self._latest, self._closed = Tables(), True


def _best(tables: Tables, hits: Sequence[Scored], limit: int) -> list[Scored]:
    """Return the best hits; equal ones in the order of writing."""
    written = {ref: place for place, ref in enumerate(tables.passages)}
    return sorted(hits, key=lambda hit: (-hit[1], written[hit[0]]))[:limit]


def _begins(id_: str, name: str) -> bool:
    return ID_PREFIX <= len(name) < ID_LENGTH and id_.startswith(name.lower())


def _named(documents: list[Document]) -> list[_Named]:
    documents.sort(key=lambda row: (row.key or "", row.id))
    return [(row, None) for row in documents[:_MOST_NAMESAKES]]


def _is_place(source: str) -> bool:
    return source not in ("", ENTITY_SOURCE) and not source.startswith(SESSION_SOURCE)


def _moment(document: Document) -> tuple[int, str]:
    return document.event_at or 0, document.id


def _tally(names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))
