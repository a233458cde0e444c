"""Move a memory as it is, from a file into a database or back: rows, numbers, vectors, trash, log.

A move compares both sides and copies what is missing, so it can be killed at any moment and run
again. It is not about documents to read: that is an export.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from plait.errors import NotFound, Notice, StoreError, UsageError, advise
from plait.protocols import Scored, Store, Vector
from plait.ranking.hybrid import MAX_KEYWORD_WEIGHT, MAX_VECTOR_WEIGHT, weighted
from plait.stores import exists, open_store, refuse_unnameable
from plait.stores.moving import (
    FACT_TABLE,
    GENERATIONS,
    PASSAGES,
    TABLES,
    VECTOR_TABLE,
    Digest,
    MovableStore,
    People,
    Row,
    RowReader,
    Table,
    TornSnapshot,
    mark_of,
)
from plait.text import plain
from plait.types import EVERYTHING, Ref, Space
from plait.types.ids import is_address
from plait.types.records import NamedTuple
from plait.types.reports import Migrated, MovedTable
from plait.writing.backfill import Progress

# How often a source that is written to meanwhile is gone through again.
COPY_ROUNDS = 5
QUERIES = 100
_QUERY_WORDS = 6
_LONGEST_WORD = 40
HITS = 10
# Two engines add up the same numbers in another order.
BM25_TOLERANCE = 1e-6
COSINE_TOLERANCE = 1e-4
TIMEOUT_S = 30.0


class _Sample(NamedTuple):
    """A text of the memory as a question: its words, and its vector where it has one."""

    text: str
    vector: Vector | None


def migrate(
    source: str,
    target: str,
    *,
    timeout: float = TIMEOUT_S,
    progress: Progress = lambda done, total, table: None,
    warn: Callable[[Notice], None] = lambda notice: None,
) -> Migrated:
    """Copy a memory to an empty place, compare both, and make the copy ready for use.

    The source is only read. If it is written to meanwhile, the difference is copied too.

    Args:
        source: A file, or the address of a database with its namespace.
        target: The same; it must be empty, or an earlier run of the same move must have begun it.
        timeout: Seconds to wait for other processes before giving up.
        progress: Gets the rows that were gone through, their number, and the name of a table.
        warn: Gets what a person should know.

    Raises:
        NotFound: There is no source.
        UsageError: The target is not empty, or is the source.
        StoreError: One of both cannot be used, or the source is written to all the time.
    """
    with closing(_rows_at(source, create=False, timeout=timeout)) as old:
        _refuse_same_place(source, target)
        _check(old)
        with closing(_rows_at(target, create=True, timeout=timeout)) as new:
            _refuse_lost_vectors(old, new)
            with old.reading() as reader:
                _people(reader, old, new)
            new.claim(mark_of(old.path, new.path))
            for number in range(1, COPY_ROUNDS + 1):
                copied = _round(old, new, progress)
                if copied is None:
                    warn(Notice(f"{old.path} was written to meanwhile: copying the difference."))
                    continue
                with old.reading() as reader:
                    new.finish(reader.counters())
                new.admit(copied.people)
                samples = _samples(old)
                same = _compare_answers(samples, source, target, timeout)
                new.release()
                return Migrated(old.path, new.path, copied.tables, number, len(samples), same)
            raise StoreError(
                f"{old.path} is written to all the time, so the copy is never the same.",
                code="source_changes",
                subject=old.path,
                advice=advise("stop_writers"),
            )


def drop(target: str, *, timeout: float = TIMEOUT_S) -> str:
    """Remove what a move that was not finished has copied; return where it was.

    Raises:
        NotFound: There is nothing.
        UsageError: No move into it is under way.
    """
    if not is_address(target) and not exists(target):
        raise _no_memory(target)
    # A database that has no such memory must not get one.
    with closing(_rows_at(target, create=not is_address(target), timeout=timeout)) as new:
        new.drop()
        return new.path


def _rows_at(place: str, *, create: bool, timeout: float) -> MovableStore:
    if is_address(place):
        from plait.stores.databases import check_driver

        check_driver(place)
        from plait.stores.postgres.moving import PostgresRows

        return PostgresRows(place, create=create, timeout=timeout)
    refuse_unnameable(place)
    if not create and not exists(place):
        raise _no_memory(place)
    from plait.stores.sqlite.moving import SQLiteRows

    return SQLiteRows(place, create=create, timeout=timeout)


def _no_memory(place: str) -> NotFound:
    path = os.path.abspath(place)  # noqa: PTH100 - links stay as the caller wrote them
    return NotFound(f"There is no memory at {path}.", code="no_memory", subject=path)


def _refuse_same_place(source: str, target: str) -> None:
    if is_address(source) != is_address(target):
        return
    if is_address(source):
        from plait.stores.postgres.address import parse

        same = parse(source)[:2] == parse(target)[:2]
    else:
        same = os.path.realpath(source) == os.path.realpath(target)
    if same:
        raise UsageError("The memory is there already.", code="same_place", subject=source)


def _check(old: MovableStore) -> None:
    """Refuse a memory whose keyword index another plait made: the copy's would not be the same."""
    from plait.stores.sqlite.analysis import ANALYZER

    with old.reading() as reader:
        for _, made_by in reader.rows(FACT_TABLE, [("analyzer",)]):
            if made_by != ANALYZER:
                raise UsageError(
                    f"The keyword index of {old.path} is of another version of plait.",
                    code="other_analyzer",
                    subject=old.path,
                    advice=advise("reindex"),
                )


def _refuse_lost_vectors(old: MovableStore, new: MovableStore) -> None:
    with old.reading() as reader:
        if reader.count(GENERATIONS) and not new.has_vectors:
            raise StoreError(
                f"{new.path} cannot keep vectors, which this memory has: the server has no "
                "extension named vector. Install pgvector there, or choose another server.",
                code="no_vectors",
                subject=new.path,
            )


def _people(reader: RowReader, old: MovableStore, new: MovableStore) -> People:
    """Return who sees what; refuse to put what only some see into a place where all see it."""
    people = reader.people()
    if people.hidden and not new.keeps_members:
        raise UsageError(
            f"{people.hidden} documents and relations of {old.path}, deleted ones too, are not "
            f"visible to all its members, and {new.path}, which cannot have members, would show "
            "them to all its readers. Make them visible to the team, delete them for good, or "
            "move the memory into another database.",
            code="hidden_documents",
            subject=old.path,
        )
    return people


# -- copying -------------------------------------------------------------------------------


class _Copied(NamedTuple):
    """What the last snapshot of the source has: tables as they are in the target, and people."""

    tables: tuple[MovedTable, ...]
    people: People


def _round(old: MovableStore, new: MovableStore, progress: Progress) -> _Copied | None:
    """Make the target like the source, and compare them; ``None`` if they are not the same."""
    try:
        with old.reading() as reader:
            # Before each snapshot is copied: somebody may have hidden something since the last one.
            _people(reader, old, new)
            total = 2 * sum(reader.count(table) for table in TABLES)
            steps = _Steps(progress, total)
            for table in reversed(TABLES):
                _prune(reader, new, table)
            for table in TABLES:
                _fill(reader, new, table, steps)
        with old.reading() as reader, new.reading() as copy:
            digests = [(_digest(reader, table, steps), _digest(copy, table)) for table in TABLES]
            # Of the same moment as the rows, because entries of the log are told by their order.
            people = _people(reader, old, new)
    except TornSnapshot:
        return None
    if any(str(ours) != str(theirs) or ours.rows != theirs.rows for ours, theirs in digests):
        return None
    moved = (
        MovedTable(table.name, ours.rows, str(ours))
        for table, (ours, _) in zip(TABLES, digests, strict=True)
    )
    return _Copied(tuple(moved), people)


class _Steps:
    """Tells how many rows were gone through."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def add(self, count: int, table: Table) -> None:
        """Count rows."""
        self._done += count
        self._progress(min(self._done, self._total), self._total, table.name)


def _pages(reader: RowReader, table: Table) -> Iterator[list[Row]]:
    after = None
    while page := reader.page(table, after):
        yield page
        after = table.key(page[-1])


def _prune(reader: RowReader, new: MovableStore, table: Table) -> None:
    """Delete rows of the target that the source does not have, or has otherwise."""
    after = None
    while True:
        with new.writing() as writer:
            page = writer.page(table, after)
            if not page:
                return
            after = table.key(page[-1])
            same = set(reader.rows(table, [table.key(row) for row in page]))
            doomed = [table.key(row) for row in page if row not in same]
            if doomed and table.ranked:
                writer.clear(table)
                return
            if doomed:
                writer.delete(table, doomed)


def _fill(reader: RowReader, new: MovableStore, table: Table, steps: _Steps) -> None:
    """Copy rows that the target lacks."""
    for page in _pages(reader, table):
        with new.writing() as writer:
            keys = [table.key(row) for row in page]
            there = {table.key(row) for row in writer.rows(table, keys)}
            if missing := [row for row in page if table.key(row) not in there]:
                writer.insert(table, missing)
        steps.add(len(page), table)


def _digest(reader: RowReader, table: Table, steps: _Steps | None = None) -> Digest:
    digest = Digest()
    for page in _pages(reader, table):
        digest.add(page)
        if steps is not None:
            steps.add(len(page), table)
    return digest


# -- comparing answers ---------------------------------------------------------------------


def _samples(old: MovableStore) -> list[_Sample]:
    """Return texts from all over the memory, as questions."""
    with old.reading() as reader:
        last = reader.counters().passages
        current = next((row for row in _all(reader, GENERATIONS) if row[3]), None)
        chosen: dict[Ref, str] = {}
        for number in range(QUERIES):
            after = (last * number // QUERIES,)
            page = reader.page(PASSAGES._replace(batch=1), after)
            for row in page:
                chosen[row[0]] = row[PASSAGES.columns.index("text")]
        vectors: dict[Ref, Vector] = {}
        if current is not None:
            rows = reader.rows(VECTOR_TABLE, [(current[0], ref) for ref in chosen])
            vectors = {ref: Vector("f", memoryview(data).cast("b")) for _, ref, data in rows}
    return [_Sample(_question(text), vectors.get(ref)) for ref, text in chosen.items()]


def _all(reader: RowReader, table: Table) -> list[Row]:
    return [row for page in _pages(reader, table) for row in page]


def _question(text: str) -> str:
    words = [word[:_LONGEST_WORD] for word in text.split()[: 4 * _QUERY_WORDS]]
    return " ".join(sorted(words, key=len, reverse=True)[:_QUERY_WORDS])


def _compare_answers(samples: list[_Sample], source: str, target: str, timeout: float) -> int:
    """Ask both memories all questions; return how many have the same answers."""
    with (
        closing(_store_at(source, timeout)) as old,
        closing(_store_at(target, timeout)) as new,
    ):
        space = _space_of(source, timeout)
        return sum(
            _are_same(_answers(old, sample, space), _answers(new, sample, space))
            for sample in samples
        )


def _store_at(place: str, timeout: float) -> Store:
    """Open a memory to compare its answers: all passages are ranked, and all vectors compared."""
    store = open_store(place, create=False, timeout=timeout, planner="never", read_only=True)
    own: Any = store  # what follows is each engine's own
    if is_address(place):
        own.indexes.least = sys.maxsize
    else:
        own.vectors.is_exact = True
    return store


def _space_of(place: str, timeout: float) -> Space | None:
    with closing(_store_at(place, timeout)) as store:
        return store.state().space


Answers = tuple[tuple[list[Scored], float], ...]


def _answers(store: Store, sample: _Sample, space: Space | None) -> Answers:
    """Return the hits by keyword, by vector, and by both, each with the accuracy of its scores."""
    words = store.keyword(plain(sample.text), HITS, EVERYTHING)
    if sample.vector is None or space is None:
        return ((words, BM25_TOLERANCE),)
    refs = [ref for ref, _ in words]
    near = store.vector(sample.vector, space, HITS, EVERYTHING, also=refs)
    fused = weighted(
        words,
        near.cosines,
        sorted(near.cosines),
        keyword_weight=MAX_KEYWORD_WEIGHT,
        vector_weight=MAX_VECTOR_WEIGHT,
    )
    both = sorted(((ref, part.score) for ref, part in fused.items()), key=lambda hit: -hit[1])
    return (
        (words, BM25_TOLERANCE),
        (near.hits, COSINE_TOLERANCE),
        (both[:HITS], COSINE_TOLERANCE),
    )


def _are_same(ours: Answers, theirs: Answers) -> bool:
    return len(ours) == len(theirs) and all(
        are_same_hits(own, other, accuracy)
        for (own, accuracy), (other, _) in zip(ours, theirs, strict=True)
    )


def are_same_hits(ours: list[Scored], theirs: list[Scored], accuracy: float) -> bool:
    """Tell whether two lists are the same, but for the order of hits that are equally good.

    >>> are_same_hits([(1, 0.9), (2, 0.5)], [(1, 0.9), (3, 0.5)], 1e-6)
    True
    >>> are_same_hits([(1, 0.9), (2, 0.5)], [(2, 0.9), (1, 0.5)], 1e-6)
    False
    """
    if len(ours) != len(theirs):
        return False
    scores = dict(theirs)
    last = ours[-1][1] if ours else 0.0
    return all(
        abs(score - other) <= accuracy
        # The last ones may have equals behind the end of the list.
        and abs(scores.get(ref, last) - score) <= accuracy
        for (ref, score), (_, other) in zip(ours, theirs, strict=True)
    )
